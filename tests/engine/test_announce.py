"""What a host announces of itself: once, in the transaction of the change, and in words."""

from __future__ import annotations

from typing import Any

import pytest

from duly.config import Policy
from duly.rules.announcement import PREVIEW_BYTES, PREVIEW_CHARS
from duly.rules.value import decode
from duly.rules.word import Status
from duly.testing import Fault, Stage
from tests.engine.stand import CONSUMER, IN, NAME, Play, consumer, flow, opened, plan
from verification.moves import Throw
from verification.scripted import Scripted

ASKING = Policy(approvals={"*": "always"})


async def told(play: Play, *, since: int = 0) -> list[tuple[str, dict[str, Any]]]:
    """What was announced after the deploy, oldest first."""
    rows = await play.host.bus.journal(limit=1000)
    assert {each.source for each in rows} <= {"duly"}
    events = [(each.topic, each.payload or {}) for each in reversed(rows)]
    return [each for each in events if each[0] != "workflow.deployed"][since:]


async def topics(play: Play, *, since: int = 0) -> list[str]:
    return [topic for topic, _ in await told(play, since=since)]


async def begun(stage: Stage, *, policy: Policy | None = None, **tool: Any) -> Play:
    """A host with the usual workflow, whose consumer has looked once."""
    play = await opened(stage, policy=policy, **tool)
    await play.deploy(flow())
    await play.drain()
    return play


async def test_a_deploy_is_announced(duly_world: Stage) -> None:
    """B10: who deployed which version of what."""
    play = await opened(duly_world)
    await play.host.deploy(flow().source(), by="somebody")
    (event,) = await play.host.bus.journal(topic="workflow.deployed")
    assert event.payload == {
        "workflow": NAME,
        "version": "1.0",
        "by": "somebody",
        "missing": [],
    }


async def test_every_commit_is_announced_once(duly_world: Stage) -> None:
    """B10, C11: as many as there are committed runs, whether they changed something or not."""
    play = await begun(duly_world)
    await play.publish("a")
    await play.publish("b")
    await play.drain()
    events = await told(play)
    assert {topic for topic, _ in events} == {"run.committed"}
    committed = [run.id for run in await play.runs() if run.state.status is Status.COMMITTED]
    assert sorted(payload["run"] for _, payload in events) == sorted(committed)
    assert [payload["outcome"] for _, payload in events].count("applied") == 2


async def test_a_failure_is_announced_and_a_person_is_told_why(duly_world: Stage) -> None:
    """B10, F8: the failure first, then the call for help with titles and verbs."""
    play = await begun(duly_world)
    await play.deploy(flow({CONSUMER: consumer(mutate=(Throw("no"),))}))
    await play.publish("a")
    await play.drain()
    (failed, fails), (attention, asks) = (await told(play))[-2:]
    assert (failed, attention) == ("run.failed", "workflow.needs_attention")
    assert fails["message"] == "no"
    assert asks["text"].startswith(f"{NAME}: The script failed: ")
    assert asks["titles"] == ["Event"]
    assert {"retry", "deploy", "abandon"} <= set(asks["verbs"])


async def test_a_proposal_is_announced_with_claimed_beside_observed(duly_world: Stage) -> None:
    """B10, F8, L11: and approving it announces no second question."""
    play = await begun(duly_world, policy=ASKING)
    await play.publish("a")
    await play.drain()
    row = await play.row()
    (asked, requests), (attention, asks) = (await told(play))[-2:]
    assert (asked, attention) == ("approval.requested", "workflow.needs_attention")
    for payload in (requests, asks):
        assert payload["mutation"] == row.id
        assert payload["observed"] == {"tool": "sheet.append", "args": decode(row.args)}
        assert payload["claimed"] == row.title
    before = len(await told(play))
    await play.host.approve(row.id, row.hash)
    await play.drain()
    assert await topics(play, since=before) == ["run.committed"]


async def test_a_long_call_is_announced_by_its_beginning(duly_world: Stage) -> None:
    """B10, X2: nobody walks through all of it, and a secret across the cut is not shown in part."""
    play = await begun(duly_world, policy=ASKING)
    secret = "canary" * 10
    play.desk.parts.outside.remember(secret)
    start = '{"text":"'
    shown = PREVIEW_CHARS - len(start)
    await play.publish("a", payload="x" * (shown - 40) + secret + "y" * PREVIEW_BYTES)
    await play.drain()
    (_, requests), _ = (await told(play))[-2:]
    args = requests["observed"]["args"]
    assert args.startswith(start + "x" * (shown - 40))
    assert (len(args), args[-12:]) == (PREVIEW_CHARS, " characters)")
    assert "canary" not in args


async def test_an_unknown_change_is_announced_when_it_is_given_up_and_when_it_is_settled(
    duly_world: Stage,
) -> None:
    """B10, L10: indeterminate, then settled by a person, then committed."""
    play = await begun(duly_world, reconcile=False)
    plan(duly_world, Fault.AMBIGUOUS)
    await play.publish("a")
    await play.drain()
    assert (await topics(play))[-2:] == ["mutation.indeterminate", "workflow.needs_attention"]
    before = len(await told(play))
    await play.host.settle((await play.row()).id, "happened", {"row": 1})
    await play.drain()
    events = await told(play, since=before)
    assert [topic for topic, _ in events] == ["mutation.settled", "run.committed"]
    assert events[0][1]["mutation_status"] == "applied"


async def test_a_change_the_outside_was_asked_about_later_is_announced_as_settled(
    duly_world: Stage,
) -> None:
    """B10, L5: no person was needed, and a listener hears that it is known now."""
    play = await begun(duly_world)
    plan(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,))
    await play.publish("a")
    await play.drain()
    before = len(await told(play))
    await play.pass_by(60)
    await play.drain()
    assert await topics(play, since=before) == ["mutation.settled", "run.committed"]


async def test_a_change_that_is_known_at_once_is_not_announced_as_settled(
    duly_world: Stage,
) -> None:
    """B10: nobody ever saw it unknown."""
    play = await begun(duly_world)
    plan(duly_world, Fault.AMBIGUOUS)
    await play.publish("a")
    await play.drain()
    assert set(await topics(play)) == {"run.committed"}


async def test_what_waits_for_a_grant_is_announced_as_a_call_for_help(duly_world: Stage) -> None:
    """F8, A1: one notification, naming what is missing."""
    play = await opened(duly_world)
    await play.deploy(flow(), grant=False)
    await play.drain()
    await play.publish("a")
    await play.drain()
    (topic, payload) = (await told(play))[-1]
    assert topic == "workflow.needs_attention"
    assert "sheet.append" in payload["text"]
    assert (await topics(play)).count(topic) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_what_was_not_committed_was_not_announced(duly_world: Stage, moment: str) -> None:
    """B10, C11: a crash around the commit leaves as many announcements as committed runs."""
    play = await begun(duly_world)
    await play.publish("a")
    await play.crash_during(commit_run=moment)
    await play.restart()
    await play.drain()
    committed = [run for run in await play.runs() if run.state.status is Status.COMMITTED]
    assert (await topics(play)).count("run.committed") == len(committed)
    assert await play.is_clean()


@pytest.mark.parametrize("listeners", [1, 2])
async def test_workflows_that_listen_to_commits_do_not_start_each_other_for_ever(
    duly_world: Stage, listeners: int
) -> None:
    """B12, T10: what is announced of a run that an announcement started starts no other."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.drain()
    for number in range(listeners):
        await play.deploy(_listening(f"listener {number}"))
    await play.drain()
    before = len(await play.host.bus.journal("run.committed", limit=1000))
    await play.publish("a")
    await play.drain()
    heard = await play.host.bus.journal("run.committed", limit=1000)
    assert [each.depth for each in reversed(heard[: len(heard) - before])] == [0] + [1] * listeners
    assert await play.host.bus.journal(status="failed") == ()
    for number in range(listeners):
        assert set((await play.statuses(name=f"listener {number}")).values()) == {"consumed"}


def _listening(name: str) -> Scripted:
    """A workflow that takes every commit of the host as an event, and changes nothing."""
    script = flow({CONSUMER: consumer(mutate=None, then=None)}, name=name, topics=(IN,))
    topics = {IN: {"ingress": {"bus": "run.committed"}}}
    return Scripted({**script.declaration, "topics": topics}, script.steps)
