"""Repair: what people, crashes and stops do while a repairer thinks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from duly.config import Limits, Policy
from duly.engine import repair
from duly.errors import StoreUnavailable
from duly.rules.repair import RepairCase
from duly.rules.replay import Replay
from duly.rules.source import Source
from duly.rules.standing import Standing
from duly.rules.value import decode
from duly.rules.word import Status, Way
from duly.testing import Stage
from tests.engine.repairing import (
    Smith,
    actions,
    active,
    failing,
    played,
    repairing,
    versions,
)
from tests.engine.stand import APPEND, CONSUMER, IN, NAME, Play, consumer, flow
from tests.spoken import short, told
from verification.moves import Say, Throw

__all__ = ["played"]

pytestmark = pytest.mark.usefixtures("played")

GOOD = flow().source()
OTHER = flow({CONSUMER: consumer(mutate=(Say("by a person"), APPEND))})


def later(source: Source | None = GOOD, seconds: float = 60) -> Any:
    """Answer after a while."""

    async def answer(case: RepairCase) -> Source | None:
        await asyncio.sleep(seconds)
        return source

    return answer


async def thinking(stage: Stage, *answers: Any, policy: Policy | None = None) -> tuple[Play, Smith]:
    """Bring a host to where it would ask, with a repairer that takes its time."""
    smith = Smith(*(answers or (later(),)))
    return await failing(stage, smith, policy=policy), smith


async def why_kept(play: Play) -> str:
    """Answer what the record says of a proposal nobody waited for."""
    (action,) = await actions(play, "propose")
    assert (await versions(play))["1.1"].activated_at is None
    return str(decode(str(action.detail))["why"])  # type: ignore[index,call-overload]


# -- The rest of the host -------------------------------------------------------------------------


async def test_other_workflows_go_on_while_a_repairer_thinks(duly_world: Stage) -> None:
    """S1, F6: with one slot for all of them; nothing else of the failed workflow starts."""
    play, _ = await thinking(duly_world, policy=Policy(runs_max=1))
    await play.deploy(flow(name="beside"))
    async with play.host.running():
        await duly_world.advance(1)
        seen = await play.host.workflow(NAME)
        assert (seen.standing, short(play.host, seen)) == (
            Standing.RUNNING,
            "The script is being repaired",
        )
        await play.publish("b", name="beside")
        await play.publish("c")
        await duly_world.advance(1)
        assert await play.statuses(name="beside") == {"b": "consumed"}
        assert await play.statuses() == {"a": "reserved", "c": "pending"}
        await duly_world.advance(60)
        assert await play.statuses() == {"a": "consumed", "c": "consumed"}


async def test_who_moves_it_on_depends_on_the_repairer_and_on_what_was_told(
    duly_world: Stage,
) -> None:
    """U7, F3: the repairer while it is asked, a person where there is none or one was told."""
    play, _ = await thinking(duly_world, later(None))
    async with play.host.running():
        await duly_world.advance(1)
        run, parts = await play.run(), play.desk.parts
        assert parts.way(run.state, run.counts, is_escalated=False) is Way.REPAIR
        await duly_world.advance(60)
        run = await play.run()
        assert parts.way(run.state, run.counts, is_escalated=bool(run.escalated)) is Way.PERSON


async def test_drain_waits_for_a_repair(duly_world: Stage) -> None:
    """F3: nothing is due any more when it returns."""
    play, _ = await thinking(duly_world)
    await play.drain()
    assert await play.statuses() == {"a": "consumed"}


@pytest.mark.parametrize(("seconds", "version"), [(4, "1.1"), (6, "1.0")])
async def test_an_answer_has_its_time(duly_world: Stage, seconds: float, version: str) -> None:
    """F3: as the policy limits it; one that comes later is not waited for."""
    policy = Policy(limits=Limits(repair_s=5))
    play, _ = await thinking(duly_world, later(seconds=seconds), policy=policy)
    await play.drain()
    assert await active(play) == version


# -- People ---------------------------------------------------------------------------------------


async def test_a_person_who_deploys_meanwhile_wins_at_once(duly_world: Stage) -> None:
    """F3, W8: theirs runs before the repairer has answered; its answer is kept and explained."""
    play, _ = await thinking(duly_world)
    async with play.host.running():
        await duly_world.advance(1)
        await play.deploy(OTHER)
        await duly_world.advance(1)
        assert (await play.statuses(), await active(play)) == ({"a": "consumed"}, "2.0")
        await duly_world.advance(60)
    assert await active(play) == "2.0"
    assert await why_kept(play) == "moved_meanwhile"
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_retry_that_fails_again_is_repaired_by_the_first_answer(duly_world: Stage) -> None:
    """F3, R9: the version that failed is still active; the second answer is too late, and kept."""
    play, smith = await thinking(duly_world, later(), later(OTHER.source(), 100))
    async with play.host.running():
        await duly_world.advance(1)
        await play.host.retry((await play.run()).id)
        await duly_world.advance(70)
        assert (len(smith.cases), await active(play)) == (2, "1.1")
        assert (await play.statuses(), duly_world.count()) == ({"a": "consumed"}, 1)
        await duly_world.advance(70)
    (action,) = await actions(play, "propose")
    assert (action.target, await active(play)) == ("1.2", "1.1")


async def test_a_pause_meanwhile_lets_nothing_follow(duly_world: Stage) -> None:
    """F7, F3: the answer is written, as a proposal; a person decides after the resume."""
    play, smith = await thinking(duly_world)
    async with play.host.running():
        await duly_world.advance(1)
        await play.host.pause(NAME)
        await duly_world.advance(60)
        run = await play.run()
        assert (await active(play), run.status, run.due_at) == ("1.0", Status.FAILED_LOGIC, None)
        assert told(run).endswith(
            "Version 1.1 is proposed and not adopted: the workflow was paused meanwhile."
        )
        await play.host.resume(NAME)
        await duly_world.advance(3600)
    assert (len(smith.cases), await active(play)) == (1, "1.0")


async def test_nobody_is_asked_while_paused(duly_world: Stage) -> None:
    """F7: a failed run that a restart finds in a paused workflow waits for the resume."""
    play, smith = await thinking(duly_world)
    async with play.host.running():
        await duly_world.advance(1)
        await play.host.pause(NAME)
        await play.restart()
    await play.pass_by(3600)
    asked = len(smith.cases)
    await play.host.resume(NAME)
    await play.drain()
    assert (asked, len(smith.cases)) == (1, 2)


async def test_a_workflow_removed_meanwhile_is_left_alone(duly_world: Stage) -> None:
    """W10: nothing is stored under a name that is free."""
    play, _ = await thinking(duly_world)
    workflow_id = await play.workflow_id()
    async with play.host.running():
        await duly_world.advance(1)
        run = await play.run()
        await play.host.pause(NAME)
        await play.host.abandon(run.id)
        await play.host.remove(NAME)
        await duly_world.advance(60)
    assert [each.version for each in await play.store.list_versions(workflow_id)] == ["1.0"]


async def test_an_event_skipped_meanwhile_ends_the_question(duly_world: Stage) -> None:
    """U3: what made it fail is gone; the answer is kept, not adopted."""
    play, _ = await thinking(duly_world)
    async with play.host.running():
        await duly_world.advance(1)
        await play.host.skip(NAME, IN, "a")
        await duly_world.advance(60)
    assert (await active(play), await play.statuses()) == ("1.0", {"a": "skipped"})
    assert await why_kept(play) == "moved_meanwhile"


async def test_a_version_that_is_not_active_any_more_is_not_repaired(duly_world: Stage) -> None:
    """F3, A4: the run's own version fails under a newer one; a retry would use that."""
    smith = Smith(GOOD)
    play = await repairing(duly_world, smith, policy=Policy(approvals={"*": "always"}))
    await play.deploy(flow({CONSUMER: consumer(then=(Throw("no"),))}))
    await play.publish("a")
    await play.drain()
    await play.deploy(OTHER)
    row = await play.row()
    await play.host.approve(row.id, row.hash)
    await play.drain()
    said = told(await play.run())
    assert smith.cases == []
    assert "not repaired: version 2.0 is active by now; retry to go on with it." in said


# -- Stops and crashes ----------------------------------------------------------------------------


async def test_a_host_that_stops_meanwhile_asks_again_at_its_start(duly_world: Stage) -> None:
    """R7, F3: the run is still due, and the question was counted."""
    play, smith = await thinking(duly_world, later(seconds=200), later())
    async with play.host.running():
        await duly_world.advance(1)
    assert not [each for each in asyncio.all_tasks() if "repair" in each.get_name()]
    run = await play.run()
    assert (run.status, run.escalated, run.counts.repair) == (Status.FAILED_LOGIC, None, 1)
    await play.host.close()
    play.host = await duly_world.host(**play.options)
    await play.drain()
    assert [each.attempt for each in smith.cases] == [1, 2]
    assert await play.statuses() == {"a": "consumed"}


async def test_a_repair_that_cannot_be_counted_is_begun_again_later(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F3, H3: a full disk is looked at again after a while, not at once and not never."""
    play, _ = await thinking(duly_world, GOOD)
    asked: list[int] = []
    ask_repair = play.store.ask_repair

    async def full(*args: Any, **kwargs: Any) -> None:
        asked.append(play.now)
        if len(asked) < 4:
            raise StoreUnavailable("database or disk is full")
        await ask_repair(*args, **kwargs)

    monkeypatch.setattr(play.store, "ask_repair", full)
    async with play.host.running():
        await duly_world.advance(60)
    assert [each - asked[0] for each in asked] == [0, 10_000, 20_000, 30_000]
    assert (await play.run()).status == Status.COMMITTED


async def test_a_host_without_a_repairer_tells_a_person(duly_world: Stage) -> None:
    """R9, F3: what the last host would have repaired has a way out here as well."""
    play, _ = await thinking(duly_world)
    async with play.host.running():
        await duly_world.advance(1)
    await play.restart(repairer=None)
    await play.drain()
    run = await play.run()
    assert told(run).endswith("It was not repaired: there is no repairer.")


VERBS = [
    ("ask_repair", GOOD),
    ("list_versions", GOOD),
    ("list_grants", GOOD),
    ("deploy", GOOD),
    ("decline_repair", None),
    ("decline_repair", flow({CONSUMER: consumer(mutate=None)}).source()),
]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    ("verb", "answer"), VERBS, ids=["ask", "versions", "grants", "deploy", "none", "proposal"]
)
async def test_a_crash_anywhere_in_a_repair_loses_nothing(
    duly_world: Stage, verb: str, answer: Source | None, moment: Any
) -> None:
    """F3, R7: asked at most twice, adopted or told once, and the event changes one thing."""
    smith = Smith(answer, answer)
    play = await failing(duly_world, smith)
    await play.crash_during(**{verb: moment})
    await play.drain()
    assert 1 <= len(smith.cases) <= 2
    if answer is GOOD:
        assert (await play.statuses(), duly_world.count()) == ({"a": "consumed"}, 1)
        assert (await active(play), await play.is_clean()) == ("1.1", True)
        return
    run = await play.run()
    assert (run.open, run.due_at, await active(play)) == (1, None, "1.0")
    assert run.escalated is not None
    assert len(await versions(play)) == (1 if answer is None else 2)


async def test_a_host_that_dies_while_it_asks_does_not_ask_for_ever(duly_world: Stage) -> None:
    """F3: asked twice, then a person is told."""
    play, smith = await thinking(duly_world, *[later(seconds=200)] * 9)
    for _ in range(4):
        async with play.host.running():
            await duly_world.advance(1)
            await play.restart()
    await play.drain()
    assert len(smith.cases) == 2
    assert told(await play.run()).endswith(
        "It was not repaired: a repair was asked for twice, which is all the policy allows."
    )


# Two repairs of one workflow that end at the same moment and want one number.


LESS = flow({CONSUMER: consumer(mutate=None)}).source()


def after(seconds: float, answer: Source) -> Callable[[RepairCase], Awaitable[Source]]:
    async def answering(_: RepairCase) -> Source:
        await asyncio.sleep(seconds)
        return answer

    return answering


async def both(stage: Stage, second: Source) -> tuple[Smith, dict[str, str], str | None, str]:
    """Let a person retry while the repairer thinks; both answers come at the same moment."""
    smith = Smith(after(20, LESS), after(10, second))
    play = await failing(stage, smith)
    async with play.host.running():
        await stage.advance(10)
        await play.host.retry((await play.run()).id)
        await stage.advance(30)
        kept = {each.version: each.source for each in (await versions(play)).values()}
        return smith, kept, await active(play), told(await play.run())


async def test_both_proposals_are_kept_and_nobody_is_asked_again(duly_world: Stage) -> None:
    """F3, W8: the second gets the next number."""
    smith, kept, version, told = await both(duly_world, LESS)
    assert (len(smith.cases), version) == (2, "1.0")
    assert sorted(kept) == ["1.0", "1.1", "1.2"]
    assert "Version 1." in told


async def test_a_repair_is_adopted_beside_a_proposal(duly_world: Stage) -> None:
    """F3, W8: what comes too late for its own run does not stand in the way of the other."""
    _, kept, version, _ = await both(duly_world, GOOD)
    assert kept[str(version)] == GOOD.text
    assert sorted(kept) == ["1.0", "1.1", "1.2"]
    assert duly_world.count() == 1


# A repair that is slow on the past must not keep its place, and the caller of `drain`, for hours.


@pytest.mark.parametrize(("seconds", "version"), [(299, "1.1"), (3600, "1.0")])
async def test_judging_has_its_time_as_answering_has(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch, seconds: float, version: str
) -> None:
    """F3, X2: fifty runs of three steps, each within its own limit, are hours of one worker."""

    async def slow(*_: Any) -> Replay:
        await asyncio.sleep(seconds)
        return Replay(1)

    monkeypatch.setattr(repair, "replay", slow)
    play = await failing(duly_world, Smith(flow().source()))
    began_s = duly_world.loop.time()
    await play.drain()
    assert duly_world.loop.time() - began_s <= 300
    assert (await active(play), sorted(await versions(play))) == (version, ["1.0", "1.1"])
    is_told = "not_replayed" in str((await play.run()).escalated)
    assert is_told == (version == "1.0")
