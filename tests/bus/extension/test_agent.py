"""Events that an agent answers: who is asked, what the user hears, and what fails."""

from __future__ import annotations

from typing import Any

import pytest

from duly.bus.agent import AgentProvider, choose_provider, is_provider
from duly.errors import Invalid
from duly.host import Host
from duly.rules.manifest import Manifest
from duly.testing import Stage as World
from tests.bus.extension import stand
from tests.bus.extension.stand import AGENT, ECHO, NOTHING, Shelf, User, deliveries, errors, stages
from tests.bus.stand import announce

INVOKE = [("reminder.due", "invoke_agent")]


def answering(answer: str) -> str:
    """Write an agent whose answer is an expression; `heard` counts how often it was asked."""
    return f"""
from tests.bus.extension.stand import heard

class Main(duly.Extension):
    async def answer(self, event, instructions, model):
        heard.append(event)
        return {answer}
"""


async def ask(host: Host, **payload: Any) -> int:
    """Let a reminder be due, and everything happen that follows within ten seconds."""
    return await host.bus.emit("reminder.due", {"text": "water", **payload}, source="test")


async def test_the_answer_of_the_agent_goes_to_the_user(duly_world: World, shelf: Shelf) -> None:
    """B9: the event is its context; instructions and model are of the extension that asks."""
    user = User()
    shelf.put("assistant", ECHO)
    shelf.put("reminders", subscribes=INVOKE, agent=AGENT, depends_on=["assistant"])
    host = await duly_world.host(extensions=shelf.folder, channels=[user])
    number = await ask(host)
    await host.drain()
    assert user.texts == ["Be brief.|small|water"]
    (said,) = await host.bus.journal(topic="user.notify")
    assert (said.source, said.causation_id) == ("reminders", f"bus:{number}")


async def test_the_answer_goes_where_the_event_came_from(duly_world: World, shelf: Shelf) -> None:
    """B9, B10: channel and user of the event are those of the answer."""
    user, other = User(), User("other")
    shelf.put("reminders", ECHO, subscribes=INVOKE, agent=AGENT)
    host = await duly_world.host(extensions=shelf.folder, channels=[user, other])
    await ask(host, channel_id="other", user_id="alice")
    await host.drain()
    assert (user.texts, other.sent) == ([], [("Be brief.|small|water", "alice")])


@pytest.mark.parametrize("answer", ["''", "' \\n'"])
async def test_an_empty_answer_is_said_to_nobody(
    duly_world: World, shelf: Shelf, answer: str
) -> None:
    """B9: and the delivery is done."""
    user = User()
    shelf.put("reminders", answering(answer), subscribes=INVOKE, agent=AGENT)
    host = await duly_world.host(extensions=shelf.folder, channels=[user])
    await ask(host)
    await host.drain()
    assert user.texts == []
    assert await deliveries(host) == {"reminders:reminder.due:invoke_agent": ("done", None)}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("None", "answer is nothing; it must be a text, which is what an agent answers with."),
        ("{'text': 'x'}", "answer is an object"),
    ],
)
async def test_an_agent_that_fails_fails_the_delivery(
    duly_world: World, shelf: Shelf, answer: str, words: str
) -> None:
    """B9: it is tried again, and then a dead letter that says why."""
    user = User()
    shelf.put("reminders", answering(answer), subscribes=INVOKE, agent=AGENT)
    host = await duly_world.host(extensions=shelf.folder, channels=[user])
    await ask(host)
    async with host.running():
        await duly_world.advance(10)
    (dead,) = await host.bus.deliveries(status="dead")
    assert (dead.attempts, len(stand.heard), user.texts) == (3, 3, [])
    assert words in str(dead.error)


async def test_a_send_that_fails_does_not_ask_the_agent_again(
    duly_world: World, shelf: Shelf
) -> None:
    """B9: the answer was put on the bus, and is sent from there until it is sent."""
    user = User(failures=2)
    shelf.put("reminders", answering("'Drink!'"), subscribes=INVOKE, agent=AGENT)
    host = await duly_world.host(extensions=shelf.folder, channels=[user])
    await ask(host)
    async with host.running():
        await duly_world.advance(10)
    assert (user.texts, len(stand.heard)) == (["Drink!"], 1)


async def test_an_event_of_notify_user_is_sent_as_it_is(duly_world: World, shelf: Shelf) -> None:
    """B9: by the manifest alone; what cannot be sent ends as a dead letter with its sentence."""
    user = User()
    shelf.put("alerts", subscribes=[("alert.urgent", "notify_user")])
    host = await duly_world.host(extensions=shelf.folder, channels=[user])
    await host.bus.emit("alert.urgent", {"text": "Fire"}, source="test")
    await host.bus.emit("alert.urgent", {"txt": "Fire"}, source="test")
    async with host.running():
        await duly_world.advance(10)
    assert user.texts == ["Fire"]
    (dead,) = await host.bus.deliveries(status="dead")
    assert "Event 2 (alert.urgent) has no text to send" in str(dead.error)


async def test_custom_wires_nothing(duly_world: World, shelf: Shelf) -> None:
    """B9: it says that the code subscribes, and leaves that to the code."""
    shelf.put("a", subscribes=[("mail", "custom")])
    host = await duly_world.host(extensions=shelf.folder)
    await host.bus.emit("mail", {}, source="test")
    await host.drain()
    assert await host.bus.deliveries() == ()


@pytest.mark.parametrize("topic", ["workflow.needs_attention", "workflow.notice"])
async def test_what_a_person_must_know_is_told_to_the_user(duly_world: World, topic: str) -> None:
    """B10: escalations and notices use notify_user, also on a host without extensions."""
    user = User()
    host = await duly_world.host(channels=[user])
    await announce(host, topic, text="Invoices: two rows may have been added.")
    await host.drain()
    assert user.texts == ["Invoices: two rows may have been added."]


async def test_what_needs_a_person_outlasts_a_channel_that_is_away_for_hours(
    duly_world: World,
) -> None:
    """B5, B10: nobody but a person moves such a workflow on, so it is tried for longer."""
    user = User(failures=11)
    host = await duly_world.host(channels=[user])
    await announce(host, "workflow.needs_attention", text="Invoices")
    async with host.running():
        await duly_world.advance("2h")
        assert user.texts == []
        await duly_world.advance("2h")
    assert user.texts == ["Invoices"]


# -- Who is asked ---------------------------------------------------------------------------------


class Agent:
    """Something that can answer."""

    async def answer(self, event: object, instructions: str, model: str | None) -> str:
        """Answer nothing."""
        return ""


class Deaf:
    """Something that cannot: its answer is not async."""

    def answer(self, event: object, instructions: str, model: str | None) -> str:
        """Answer nothing."""
        return ""


def manifest(*depends_on: str) -> Manifest:
    return Manifest("me", "Me", "1", "main", "Main", depends_on)


def test_an_extension_asks_itself_before_those_it_depends_on() -> None:
    """B9: the extension's own agent is the nearest."""
    own, other = Agent(), Agent()
    assert choose_provider(manifest("b"), {"me": own, "b": other}) is own
    assert choose_provider(manifest("a", "b"), {"me": Deaf(), "a": Deaf(), "b": other}) is other


@pytest.mark.parametrize(
    ("depends_on", "words"),
    [((), "there is no agent"), (("b", "c"), "several agents: b, c")],
)
def test_where_it_is_not_clear_who_is_meant_nobody_is_asked(
    depends_on: tuple[str, ...], words: str
) -> None:
    """B9: an agent it does not depend on is not its agent."""
    with pytest.raises(Invalid, match=words):
        choose_provider(manifest(*depends_on), {"b": Agent(), "c": Agent()})


def test_who_can_answer_is_a_provider() -> None:
    """B9: by its method alone."""
    agent: AgentProvider = Agent()
    assert is_provider(agent)
    assert not is_provider(Deaf())
    assert not is_provider(None)


async def test_an_extension_without_an_agent_is_not_started_and_its_events_wait(
    duly_world: World, shelf: Shelf
) -> None:
    """B9, B13: reported at its own stage; when the agent is there, nothing was lost."""
    user = User()
    shelf.put("reminders", subscribes=INVOKE, agent=AGENT, depends_on=["assistant"])
    shelf.put("assistant", NOTHING)
    host = await duly_world.host(extensions=shelf.folder, channels=[user])
    assert await stages(host) == {"assistant": "ready", "reminders": "agent"}
    assert "there is no agent" in (await errors(host))["reminders"]
    await ask(host)
    await host.drain()
    assert [str(each.status) for each in await host.bus.deliveries()] == ["waiting"]
    await host.close()
    shelf.put("assistant", ECHO)
    host = await duly_world.host(extensions=shelf.folder, channels=[user])
    await host.drain()
    assert user.texts == ["Be brief.|small|water"]
