"""Repair: a failed script is laid before a repairer, and only a version that may be is adopted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.config import Policy
from duly.engine import repair
from duly.rules.access import Step
from duly.rules.repair import RepairCase
from duly.rules.replay import Difference, OutsideChange, Replay
from duly.rules.source import Source
from duly.rules.standing import Standing
from duly.rules.word import Status
from duly.testing import Fault, Stage
from tests.engine.repairing import (
    Smith,
    actions,
    active,
    broken,
    failing,
    played,
    repairing,
    told_on_the_bus,
    versions,
)
from tests.engine.stand import (
    APPEND,
    CONSUMER,
    IN,
    NAME,
    OUT,
    PREPARE,
    PRODUCER,
    consumer,
    flow,
    plan,
    producer,
    publish,
)
from tests.spoken import short, told
from verification.moves import Call, Say, Throw

__all__ = ["played"]

pytestmark = pytest.mark.usefixtures("played")

GOOD = flow().source()
TOLD = "The script failed: “no”."
DAY_S = 86_400


# -- Adopted --------------------------------------------------------------------------------------


async def test_a_repair_is_adopted_and_the_event_is_processed_once(duly_world: Stage) -> None:
    """F3, W8, B10: minor + 1, active, announced, and the failed run is followed by it."""
    smith = Smith(GOOD)
    play = await failing(duly_world, smith)
    await play.drain()
    assert (await play.statuses(), duly_world.count()) == ({"a": "consumed"}, 1)
    first, second = (await play.runs())[:2]
    assert (first.status, second.retry_of) == (Status.FAILED_LOGIC, first.id)
    assert second.status == Status.COMMITTED  # nobody took it for one that a dead host had left
    assert (first.version, second.version, await active(play)) == ("1.0", "1.1", "1.1")
    adopted = (await versions(play))["1.1"]
    assert (adopted.origin, adopted.parent, adopted.author) == ("repair", "1.0", "smith")
    (action,) = await actions(play, "repair")
    assert (action.by, action.target) == ("smith", "1.1")
    assert (len(smith.cases), await play.is_clean()) == (1, True)
    assert await told_on_the_bus(play) == ["workflow.repaired"]


async def test_a_repair_of_next_goes_on_after_the_mutation(duly_world: Stage) -> None:
    """F3, R5: what was applied is applied; only `next` runs again."""
    smith = Smith(GOOD)
    play = await repairing(duly_world, smith)
    await play.deploy(flow({CONSUMER: consumer(then=(Throw("no"),))}))
    await play.publish("a")
    await play.drain()
    assert (smith.cases[0].step, duly_world.count()) == (Step.NEXT, 1)
    assert await play.payloads() == {"a": {"status": "applied", "result": {"row": 1}}}


async def test_a_refused_mutation_is_repaired_and_sent_anew(duly_world: Stage) -> None:
    """F3, L7: the refused row stays, the repair makes another one."""
    other = flow({CONSUMER: consumer(mutate=(Say("better"), APPEND))})
    play = await repairing(duly_world, Smith(other.source()))
    plan(duly_world, Fault.REFUSE)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert [each.status for each in await play.rows()] == ["failed", "applied"]
    assert (await play.statuses(), duly_world.count()) == ({"a": "consumed"}, 1)


async def test_a_producer_is_repaired(duly_world: Stage) -> None:
    """F3, P3: its successor publishes what the failed run did not."""
    fixed = flow(None, {PRODUCER: producer(publish("x", OUT))})
    smith = Smith(fixed.source())
    play = await repairing(duly_world, smith)
    await play.deploy(flow(None, {PRODUCER: producer(Throw("no"))}))
    await play.drain()
    assert (smith.cases[0].step, await play.statuses(OUT)) == (Step.PRODUCE, {"x": "pending"})


# -- The case -------------------------------------------------------------------------------------


async def test_a_repairer_is_told_what_it_needs(duly_world: Stage) -> None:
    """F3: the source, the place, the error, the events, the tools, and how often it may try."""
    smith = Smith()
    play = await repairing(duly_world, smith)
    bad = flow({CONSUMER: consumer(mutate=(Say("so far"), Call("sheet.find")))})
    await play.deploy(bad)
    await play.publish("a", payload={"amount": 3})
    await play.drain()
    (case,) = smith.cases
    assert (case.workflow, case.version, case.handler, case.step) == (
        NAME,
        "1.0",
        CONSUMER,
        Step.MUTATE,
    )
    assert (case.source.text, case.logs) == (bad.source().text, ("so far",))
    assert case.error.tool == "sheet.find"
    assert [(each.topic, each.message_id, each.payload) for each in case.inputs] == [
        (IN, "a", {"amount": 3})
    ]
    assert case.prepared["data"] == {"text": {"amount": 3}}  # type: ignore[index,call-overload]
    assert "def append(" in case.tools
    assert case.granted == ("clock.read", "sheet.append", "sheet.read")
    assert (case.attempt, case.budget) == (1, 2)


async def test_a_failed_prepare_is_shown_what_waits(duly_world: Stage) -> None:
    """F3: it reserved nothing, so it is shown what it would have been offered, bounded."""
    smith = Smith()
    play = await repairing(duly_world, smith)
    await play.deploy(flow({CONSUMER: consumer((Throw("no"),))}))
    await play.publish(*"abcdef")
    await play.drain()
    (case,) = smith.cases
    assert (case.step, case.prepared) == (Step.PREPARE, None)
    assert [each.message_id for each in case.inputs] == [*"abcde"]


async def test_a_repairer_is_shown_a_bounded_number_of_events(duly_world: Stage) -> None:
    """F3: twenty are shown, the twenty-first is not."""
    smith = Smith()
    play = await repairing(duly_world, smith)
    many = (Call("peek", (IN,), into="pending"), *PREPARE[1:])
    await play.deploy(flow({CONSUMER: consumer(many, (Throw("no"),))}))
    await play.publish(*(f"{number:02}" for number in range(21)))
    await play.drain()
    assert [each.message_id for each in smith.cases[0].inputs][-1] == "19"


async def test_no_secret_is_in_a_case_nor_in_what_is_said_of_it(duly_world: Stage) -> None:
    """A5: wherever it stood, in the text, the error, a log, an event or the repairer's words."""
    canary = "canary-4711"
    smith = Smith(ValueError(f"the model echoed {canary}"))
    play = await repairing(duly_world, smith)
    play.desk.parts.outside.remember(canary)
    script = consumer(mutate=(Say(canary), Throw(f"cannot use {canary}")))
    await play.deploy(flow({CONSUMER: script}))
    await play.publish("a", payload={canary: [canary]})
    await play.drain()
    assert len(smith.cases) == 1
    assert canary not in repr(smith.cases)
    assert canary not in told(await play.run())


# -- Not adopted ----------------------------------------------------------------------------------


async def never(case: RepairCase) -> Source | None:
    await asyncio.Event().wait()
    raise AssertionError


async def deaf(case: RepairCase) -> Source | None:
    """Do not listen when told to stop, and answer when nobody waits any more."""
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        await asyncio.sleep(10)
    return GOOD


def not_async(case: RepairCase) -> Any:
    return GOOD


other_name = flow(name="other").source()
REFUSED = [
    (None, "the repairer has none to offer."),
    (ValueError("out of ideas"), "the repairer failed: ValueError: out of ideas"),
    (KeyError(), "the repairer failed: KeyError: it did not say why"),
    (SystemExit(3), "the repairer failed: SystemExit: 3"),
    (asyncio.CancelledError(), "the repairer gave up half-way."),
    ({"text": "x"}, "the repairer answered with a dict, which is no source."),
    (Source("python", 5), "the repairer answered with a Source, which is no source."),  # type: ignore[arg-type]
    (broken().source(), "the repairer gave back the text that failed."),
    (other_name, "the repair is of another workflow, “other”."),
    (never, "the repairer gave no answer in 300 s."),
    (deaf, "the repairer gave no answer in 300 s."),
]


@pytest.mark.parametrize(
    ("answer", "reason"), REFUSED, ids=[f"{place} {each[1]}" for place, each in enumerate(REFUSED)]
)
async def test_an_answer_that_is_none_is_explained_and_the_host_lives(
    duly_world: Stage, answer: Any, reason: str
) -> None:
    """F3, F8: nothing is adopted or kept; the run waits for a person, who is told why."""
    play = await failing(duly_world, Smith(answer))
    await play.deploy(flow(name="beside"))
    await play.drain()
    run = await play.run()
    assert (run.status, run.open, run.due_at) == (Status.FAILED_LOGIC, 1, None)
    assert told(run) == f"{TOLD} It was not repaired: {reason}"
    seen = await play.host.workflow(NAME)
    assert (seen.standing, short(play.host, seen)) == (Standing.NEEDS_ATTENTION, told(run))
    assert [*await versions(play)] == ["1.0"]
    await play.publish("b", name="beside")
    await play.drain()
    assert await play.statuses(name="beside") == {"b": "consumed"}


async def test_a_repairer_that_is_no_coroutine_is_explained(duly_world: Stage) -> None:
    """F3: it answers at once and cannot be waited for."""
    smith = Smith()
    smith.repair = not_async  # type: ignore[method-assign]
    play = await failing(duly_world, smith)
    await play.drain()
    assert "the repairer failed: TypeError" in told(await play.run())


async def test_a_source_that_cannot_be_run_is_not_kept(duly_world: Stage) -> None:
    """F3, W5: it is no version at all, and the reason says where it broke."""
    play = await failing(duly_world, Smith(Source("python", "{")))
    await play.drain()
    assert "It was not repaired: the repair cannot be run. " in told(await play.run())
    assert [*await versions(play)] == ["1.0"]


async def proposed(play: Any) -> str:
    """Answer why the repair was only proposed, having seen that it was."""
    kept = (await versions(play))["1.1"]
    assert (kept.activated_at, kept.origin, kept.parent) == (None, "repair", "1.0")
    assert await active(play) == "1.0"
    run = await play.run()
    assert (run.status, run.open, run.due_at) == (Status.FAILED_LOGIC, 1, None)
    (action,) = await actions(play, "propose")
    assert (action.by, action.target) == ("smith", "1.1")
    before, _, reason = told(run).partition(" Version 1.1 is proposed and ")
    assert before == TOLD
    assert await told_on_the_bus(play) == ["workflow.needs_attention"]
    return reason


async def test_a_repair_that_needs_more_than_is_granted_is_only_proposed(
    duly_world: Stage,
) -> None:
    """F3, A2: the envelope is not widened, by nobody but a person."""
    play = await failing(duly_world, Smith(GOOD))
    await play.host.revoke(NAME, "sheet.append")
    await play.drain()
    assert await proposed(play) == ("not adopted: it needs sheet.append, which is not granted.")
    grants = await play.store.list_grants(await play.workflow_id())
    assert [each.capability for each in grants] == ["clock.read", "sheet.read"]


@pytest.mark.parametrize(
    ("script", "what"),
    [
        (
            flow({"other": consumer()}),
            "“file” for “in”, the change “file” makes and what follows “file”",
        ),
        (flow({CONSUMER: consumer(mutate=None)}), "the change “file” makes"),
    ],
    ids=["a consumer", "a mutation"],
)
async def test_a_repair_that_leaves_something_out_is_only_proposed(
    duly_world: Stage, script: Any, what: str
) -> None:
    """F3, W9: to do nothing does not fail either, and would lose what waits."""
    play = await failing(duly_world, Smith(script.source()))
    await play.drain()
    assert await proposed(play) == (
        f"not adopted: it leaves out {what}, and what waits there would be left lying."
    )


async def test_a_repair_that_changes_a_past_mutation_is_only_proposed(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F3: what was done stays what would be done."""
    was, now = (
        OutsideChange("sheet.append", {"text": "a"}),
        OutsideChange("sheet.append", {"text": "b"}),
    )

    async def replayed(*_: Any) -> Replay:
        return Replay(1, (Difference("run_1", ("Mail 1",), was, now),))

    monkeypatch.setattr(repair, "replay", replayed)
    play = await failing(duly_world, Smith(GOOD))
    await play.drain()
    reason = await proposed(play)
    assert reason.startswith("not adopted: it would not do again what was done. For “Mail 1” ")


# -- How often ------------------------------------------------------------------------------------


async def test_a_repairer_that_breaks_it_again_is_asked_twice(duly_world: Stage) -> None:
    """F3: two repairs per chain; the third failure in a row is for a person."""
    smith = Smith(*(broken(f"no {number}").source() for number in range(9)))
    play = await failing(duly_world, smith)
    await play.drain()
    run = await play.run()
    assert ([each.attempt for each in smith.cases], run.version) == ([1, 2], "1.2")
    assert (run.counts.logic, run.counts.repair, run.due_at) == (3, 2, None)
    assert told(run) == "The script failed: “no 1”"
    await play.pass_by(DAY_S)
    assert len(smith.cases) == 2


@pytest.mark.parametrize("budget", [0, 1])
async def test_a_smaller_budget_is_kept(duly_world: Stage, budget: int) -> None:
    """F3: as the policy says; with none, nobody is asked."""
    smith = Smith(*(broken(f"no {number}").source() for number in range(9)))
    play = await failing(duly_world, smith, policy=Policy(repair_budget=budget))
    await play.drain()
    assert len(smith.cases) == budget
    assert (await play.run()).escalated is not None


async def test_a_workflow_is_repaired_so_often_a_day_and_no_more(duly_world: Stage) -> None:
    """F3: at the limit it is asked for, one past it a person is told; a day later it is again."""
    smith = Smith()
    play = await failing(duly_world, smith, policy=Policy(repair_budget_per_day=3))
    asked = []
    for message_id in "abcd":
        await play.publish(message_id)
        await play.drain()
        asked.append(len(smith.cases))
        await play.host.skip(NAME, IN, message_id)
    assert asked == [1, 2, 3, 3]
    said = [told(each) for each in await play.runs()]
    assert "It was not repaired: a repair was asked for 3 times within a day, which" in said[-1]
    await duly_world.advance(DAY_S)
    await play.publish("e")
    await play.drain()
    assert len(smith.cases) == 4


async def test_so_many_are_asked_for_at_once_and_no_more(duly_world: Stage) -> None:
    """S1: the others wait for a place, and everybody gets one."""
    waiting: list[asyncio.Event] = []

    async def wait(case: RepairCase) -> None:
        waiting.append(asyncio.Event())
        await waiting[-1].wait()

    smith = Smith(*[wait] * 9)
    play = await repairing(duly_world, smith)
    for number in range(repair.AT_ONCE_MAX + 1):
        name = f"flow {number}"
        await play.deploy(flow({CONSUMER: consumer((Throw("no"),))}, name=name))
    async with play.host.running():
        await duly_world.advance(1)
        assert len(waiting) == repair.AT_ONCE_MAX
        waiting[0].set()
        await duly_world.advance(1)
        assert len(waiting) == repair.AT_ONCE_MAX + 1


async def test_an_unknown_mutation_is_never_repaired(duly_world: Stage) -> None:
    """L8: a repairer that does not know what happened must not change the script."""
    smith = Smith(GOOD)
    play = await repairing(duly_world, smith)
    plan(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,) * 9)
    await play.deploy(flow())
    await play.publish("a")
    await play.pass_by(3600)
    assert (smith.cases, (await play.run()).status) == ([], Status.PAUSED_RECONCILIATION)
