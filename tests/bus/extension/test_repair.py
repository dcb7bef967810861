"""An agent that hears of a failed script may propose a better one, and nothing more (B10, F3)."""

from __future__ import annotations

from typing import Any

import pytest

from duly import Source
from duly.host import Host
from duly.rules.repair import find_script
from duly.testing import Stage as World
from tests.bus.extension import stand
from tests.bus.extension.stand import AGENT, Shelf, User, deliveries
from tests.bus.stand import announce

FLOW = """\
from duly import workflow

flow = workflow("guests", topics={"guest": {"ingress": True}})


@flow.consumer("guest")
class welcome:
    async def prepare(self, ctx, state):
        found = await ctx.peek("guest")
        names = [each["payload"]["name"] for each in found]
        return {"reservations": [{"topic": "guest", "ids": [each["message_id"] for each in found]}],
                "data": {"names": names}}
"""
BETTER = FLOW.replace('["payload"]["name"]', '["payload"].get("name", "friend")')
HEARS = [("run.failed", "invoke_agent")]
# Writes down what it was asked, and answers what the test put first on the list.
MECHANIC = """
from tests.bus.extension.test_repair import answers, asked

class Main(duly.Extension):
    async def answer(self, event, instructions, model):
        asked.append(event)
        return answers.pop(0)
"""

answers: list[str] = []
asked: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_said() -> None:
    answers.clear()
    asked.clear()


async def failing(world: Any, shelf: Shelf, *said: str, **options: Any) -> tuple[Host, User]:
    """Open a host with a mechanic that will answer so, and let a script fail."""
    answers.extend(said)
    user = User()
    shelf.put("mechanic", MECHANIC, subscribes=HEARS, agent=AGENT)
    host = await world.host(extensions=shelf.folder, channels=[user], **options)
    await host.deploy(Source("python", FLOW))
    await host.publish("guests", "guest", title="A stranger", message_id="1", payload={})
    await host.drain()
    return host, user


@pytest.mark.parametrize(
    "answer", [BETTER, f"A name may be missing:\n\n```python\n{BETTER}```\nThat is all."]
)
async def test_a_script_that_an_agent_answers_with_is_proposed_and_not_adopted(
    duly_world: World, shelf: Shelf, answer: str
) -> None:
    """B10, F3: kept, listed and announced like any repair that was not adopted; nothing runs."""
    host, user = await failing(duly_world, shelf, answer)
    assert (await host.workflow("guests")).version == "1.0"
    proposal = (await host.versions("guests"))[0]
    assert (proposal.version, proposal.author, proposal.origin) == ("1.1", "mechanic", "repair")
    assert proposal.activated_at is None
    told = await host.bus.journal("workflow.needs_attention")
    text = (told[0].payload or {})["text"]
    assert text.startswith("guests: The script failed: ")
    assert "Version 1.1 is proposed and not adopted: an agent wrote it" in text
    (failed,) = await host.bus.journal("run.failed")
    assert (told[0].causation_id, told[0].depth) == (f"bus:{failed.id}", failed.depth + 1)
    assert user.texts[-1] == text
    assert not any("def prepare" in each for each in user.texts)
    keys = [each.key for each in await host.attention()]
    assert keys == ["guests/open", "guests/proposal"]
    done = next(each for each in await host.actions("guests") if each.verb == "propose")
    assert (done.by, done.target) == ("mechanic", "1.1")
    await host.deploy(Source("python", BETTER), by="ada")
    await host.drain()
    assert [each.status for each in await host.events("guests")] == ["consumed"]


async def test_an_agent_is_shown_what_a_repairer_is_shown(duly_world: World, shelf: Shelf) -> None:
    """B10, A5: the event as it is, and the case: source, error, inputs, tools."""
    await failing(duly_world, shelf, "")
    (event,) = asked
    assert (event.topic, event.source) == ("run.failed", "duly")
    case = event.payload["case"]
    assert {"workflow", "version", "language", "source", "handler", "step"} < case.keys()
    assert (case["source"], case["language"], case["step"]) == (FLOW, "python", "prepare")
    assert "name" in case["error"]["message"]
    assert case["inputs"][0]["title"] == "A stranger"
    assert "budget" not in case


async def test_an_answer_in_words_goes_to_the_user(duly_world: World, shelf: Shelf) -> None:
    """B9: and nothing is proposed."""
    host, user = await failing(duly_world, shelf, "Ask for the name.")
    assert user.texts[-1] == "Ask for the name."
    assert [each.version for each in await host.versions("guests")] == ["1.0"]


@pytest.mark.parametrize(
    "answer",
    [
        BETTER.replace('"guests"', '"others"'),
        BETTER.replace("async def prepare", "async def prepare("),
        f"```\n{BETTER}```\nor\n```\n{FLOW}```",
    ],
    ids=["of another workflow", "that cannot be run", "of two"],
)
async def test_a_script_that_is_no_proposal_is_only_said(
    duly_world: World, shelf: Shelf, answer: str
) -> None:
    """B10: nobody guesses; the user sees what was answered."""
    host, user = await failing(duly_world, shelf, answer)
    assert user.texts[-1] == answer
    assert [each.version for each in await host.versions("guests")] == ["1.0"]


async def test_a_text_that_is_known_is_not_proposed_again(duly_world: World, shelf: Shelf) -> None:
    """F3: neither the text that failed nor one that was proposed before."""
    host, _ = await failing(duly_world, shelf, BETTER, FLOW, BETTER)
    for _ in range(2):
        (run,) = [each for each in await host.runs("guests") if each.status == "failed:logic"][:1]
        await host.retry(run.id)
        await host.drain()
    assert (len(asked), answers) == (3, [])
    assert [each.version for each in await host.versions("guests")] == ["1.1", "1.0"]


async def test_who_was_faster_than_an_agent_is_left_alone(duly_world: World, shelf: Shelf) -> None:
    """F3: a person deployed meanwhile; what the agent wrote is kept, and nobody is told again."""
    host, _ = await failing(duly_world, shelf, "")
    told = len(await host.bus.journal("workflow.needs_attention"))
    (run,) = [each for each in await host.runs("guests") if each.status == "failed:logic"]
    await host.deploy(Source("python", BETTER))
    await host.drain()
    workshop = host._loader._workshop
    assert await workshop.lay_out(run.id) is None
    assert await workshop.propose(run.id, f"# another way\n{BETTER}", by="mechanic")
    assert (await host.workflow("guests")).version == "2.0"
    assert "1.1" in [each.version for each in await host.versions("guests")]
    assert len(await host.bus.journal("workflow.needs_attention")) == told
    await host.remove("guests")
    assert not await workshop.propose(run.id, f"# a third way\n{BETTER}", by="mechanic")
    assert not await workshop.propose("run_nobody", BETTER, by="mechanic")


async def test_only_the_host_s_own_word_opens_a_case(duly_world: World, shelf: Shelf) -> None:
    """B1, B10: an event that another source emits as run.failed is answered like any other."""
    host, user = await failing(duly_world, shelf, "", BETTER)
    (run,) = [each for each in await host.runs("guests") if each.status == "failed:logic"]
    await announce(host, "run.failed", "somebody", run=run.id, status="failed:logic")
    await host.drain()
    assert "case" not in asked[1].payload
    assert user.texts[-1] == BETTER
    assert len(await host.versions("guests")) == 1


async def test_a_broken_agent_is_asked_again_and_then_a_dead_letter(
    duly_world: World, shelf: Shelf
) -> None:
    """B9, B5: the workflow waits for a person as if nobody had been asked."""
    host, _ = await failing(duly_world, shelf)
    async with host.running():
        await duly_world.advance(10)
    assert (await deliveries(host))["mechanic:run.failed:invoke_agent"][0] == "dead"
    assert len(asked) == 3
    assert stand.heard == []


def test_the_script_in_an_answer_is_its_only_fenced_block() -> None:
    """B10: with or without a language; text alone is taken whole."""
    assert find_script("a\n```\nb\n```\n") == "b\n"
    assert find_script("```python\nb\n```") == "b\n"
    assert find_script("```python\r\nb\r\n```\r\n") == "b\r\n"
    assert find_script("b = '```'\n") == "b = '```'\n"
    assert find_script("```\nb") == "```\nb"
    two = "```\na\n```\n```\nb\n```"
    assert find_script(two) == two
