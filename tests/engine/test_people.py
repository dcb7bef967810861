"""What people do to runs: pause, resume, skip, retry, abandon, settle (F7, U3, R9, L10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.errors import DulyError, Invalid, RequestRefused
from duly.rules.word import MutationStatus as Row
from duly.rules.word import Status
from duly.testing import Fault, Stage
from tests.engine.stand import (
    APPEND,
    CONSUMER,
    IN,
    NAME,
    NOTHING,
    PEEK_ONE,
    PREPARE,
    PRODUCER,
    RESERVE,
    TELL,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
)
from verification.moves import Call, Return, Throw, When

FIND = Call("sheet.find")
SLOW_S = 20
LAG_S = 60


async def unknown(stage: Stage, fault: Fault = Fault.AMBIGUOUS, **tool: Any) -> Play:
    """A mutation nobody but a person can settle."""
    play = await opened(stage, reconcile=False, **tool)
    plan(stage, fault)
    await play.deploy(flow())
    await play.publish("a", "b")
    await play.drain()
    assert (await play.row()).status == Row.INDETERMINATE
    return play


# -- Pause and resume -----------------------------------------------------------------------------


async def at_step(stage: Stage, step: str) -> Play:
    """A run that will be busy outside for a while, at one of its steps."""
    play = await opened(stage, connectors=())
    if step == "produce":
        script = flow({}, {PRODUCER: producer(FIND, publish("x"), every="5m")})
        stage.plan("sheet.find", Fault.SLOW(SLOW_S))
    elif step == "prepare":
        wait = (PEEK_ONE, When("pending", (FIND, Return(RESERVE)), (Return(NOTHING),)))
        script = flow({CONSUMER: consumer(wait)})
        stage.plan("sheet.find", Fault.SLOW(SLOW_S))
    else:
        script = flow()
        plan(stage, Fault.SLOW(SLOW_S))
    await play.deploy(script)
    return play


@pytest.mark.parametrize("step", ["produce", "prepare"])
async def test_a_pause_drops_a_run_whose_call_has_not_begun(duly_world: Stage, step: str) -> None:
    """F7: it ends abandoned, its events are free, and after resume all is done once."""
    play = await at_step(duly_world, step)
    if step == "prepare":
        await play.publish("a")
    async with play.host.running():
        await duly_world.advance(5)
        run = await play.run()
        await play.host.pause(NAME)
        await duly_world.advance(60)
        assert (await play.store.get_run(run.id)).status == Status.ABANDONED
        assert await play.statuses() == ({"a": "pending"} if step == "prepare" else {})
        assert (await play.run()).id == run.id
        await play.host.resume(NAME)
        await duly_world.advance(60)
    assert await play.is_clean()
    assert duly_world.count() == (step == "prepare")


async def test_a_pause_lets_a_call_that_is_out_come_to_its_commit(duly_world: Stage) -> None:
    """F7: the mutation is recorded, next runs, and then nothing starts."""
    play = await at_step(duly_world, "mutate")
    await play.publish("a", "b")
    async with play.host.running():
        await duly_world.advance(5)
        await play.host.pause(NAME)
        await duly_world.advance(600)
        assert await play.statuses() == {"a": "consumed", "b": "pending"}
        assert (await play.payloads(), duly_world.count()) == (
            {"a": {"status": "applied", "result": {"row": 1}}},
            1,
        )
        await play.host.resume(NAME)
        await duly_world.advance(1)
    assert (duly_world.count(), await play.is_clean()) == (2, True)


async def test_a_pause_that_comes_between_decision_and_send_stops_the_send(
    duly_world: Stage,
) -> None:
    """F7, L2: the send itself finds the pause."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.drain()
    await play.publish("a")
    send = play.store.send

    async def paused_first(*args: Any, **kwargs: Any) -> None:
        await play.host.pause(NAME)
        await send(*args, **kwargs)

    object.__setattr__(play.store, "send", paused_first)
    await play.drain()
    object.__setattr__(play.store, "send", send)
    assert (play.sends(), await play.rows(), await play.statuses()) == (0, [], {"a": "pending"})
    await play.host.resume(NAME)
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


@pytest.mark.parametrize("fault", [Fault.NOT_SENT, Fault.REFUSE, Fault.AUTH])
async def test_a_pause_leaves_runs_that_stand_still(duly_world: Stage, fault: Fault) -> None:
    """F7: no backoff ends before resume."""
    play = await opened(duly_world)
    plan(duly_world, fault)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    run = await play.run()
    await play.host.pause(NAME)
    await play.pass_by(3600)
    assert ((await play.run()).id, (await play.run()).status) == (run.id, run.status)
    assert play.sends() == 1
    await play.host.resume(NAME)
    await play.drain()
    assert duly_world.count() == (fault is Fault.NOT_SENT)


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_asking_goes_on_while_paused_and_nothing_follows(
    duly_world: Stage, is_restarted: bool
) -> None:
    """F7, L8: the answer is written, next waits for resume, also after a restart."""
    play = await opened(duly_world)
    plan(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,))
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    await play.host.pause(NAME)
    await play.pass_by(10)
    assert ((await play.row()).status, await play.payloads()) == (Row.APPLIED, {})
    if is_restarted:
        await play.restart()
        await play.drain()
    assert (await play.payloads(), await play.statuses()) == ({}, {"a": "reserved"})
    await play.host.resume(NAME)
    await play.drain()
    assert await play.payloads() == {"a": {"status": "applied", "result": {"row": 1}}}
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_call_out_at_a_crash_is_asked_about_while_paused(duly_world: Stage) -> None:
    """F7, R7: the successor is written, the answer too, and nothing else happens."""
    play = await at_step(duly_world, "mutate")
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance(5)
        await play.host.pause(NAME)
        await duly_world.crash(play.host)
    await duly_world.advance(SLOW_S)
    play.host = await duly_world.host(**play.options)
    await play.drain()
    assert ((await play.row()).status, await play.statuses()) == (Row.APPLIED, {"a": "reserved"})
    await play.host.resume(NAME)
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_paused_workflow_starts_nothing(duly_world: Stage) -> None:
    """F7, F6: neither events nor schedules nor a restart start a run."""
    play = await opened(duly_world)
    await play.deploy(flow(producers={PRODUCER: producer(publish("x"), every="5m")}))
    await play.host.pause(NAME)
    await play.publish("a")
    await play.pass_by(3600)
    await play.restart()
    await play.drain()
    assert await play.runs() == []
    await play.host.resume(NAME)
    await play.drain()
    assert {*(await play.statuses()).values()} == {"consumed"}


# -- Skip -----------------------------------------------------------------------------------------


async def test_a_pending_event_is_skipped_and_never_seen(duly_world: Stage) -> None:
    """U3, T4: and skipping it again changes nothing."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a", "b")
    assert await play.host.skip(NAME, IN, "a")
    assert not await play.host.skip(NAME, IN, "a")
    await play.drain()
    assert await play.statuses() == {"a": "skipped", "b": "consumed"}


@pytest.mark.parametrize("status", ["unknown", "out"])
async def test_an_event_of_a_call_that_may_have_happened_is_not_skipped(
    duly_world: Stage, status: str
) -> None:
    """U3, L8: refused with the reason."""
    if status == "unknown":
        play = await unknown(duly_world)
        with pytest.raises(RequestRefused, match="not known"):
            await play.host.skip(NAME, IN, "a")
        return
    play = await at_step(duly_world, "mutate")
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance(5)
        with pytest.raises(RequestRefused, match="not known"):
            await play.host.skip(NAME, IN, "a")
        await duly_world.advance(60)
    assert await play.statuses() == {"a": "consumed"}


async def test_skipping_one_of_two_reserved_events_frees_the_other(duly_world: Stage) -> None:
    """U3, R6: the run is abandoned, one is skipped, the other prepared again."""
    pair = {"reservations": [{"topic": IN, "ids": ["a", "b"]}], "data": {"text": "both"}}
    prepare = (PEEK_ONE, When("pending", (Return(pair),), (Return(NOTHING),)))
    play = await opened(duly_world)
    plan(duly_world, Fault.NOT_SENT)
    await play.deploy(flow({CONSUMER: consumer(prepare)}))
    await play.host.pause(NAME)
    await play.publish("a", "b")
    await play.host.resume(NAME)
    await play.drain()
    await play.host.skip(NAME, IN, "a")
    assert await play.statuses() == {"a": "skipped", "b": "pending"}
    await play.deploy(flow())
    await play.drain()
    assert (await play.statuses())["b"] == "consumed"
    assert await play.is_clean()


# -- Retry and abandon ----------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.NOT_SENT, Fault.REFUSE, Fault.AUTH])
async def test_a_retry_follows_at_once(duly_world: Stage, fault: Fault) -> None:
    """R9: a fresh successor now; a proposal is withdrawn."""
    play = await opened(duly_world)
    plan(duly_world, fault)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    successor = await play.host.retry((await play.run()).id)
    await play.drain()
    followed = await play.store.get_run(successor)
    assert (followed.status, followed.crash_count) == (Status.COMMITTED, 0)
    assert [each.status for each in await play.rows()] == [Row.FAILED, Row.APPLIED]
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_retry_after_the_mutation_begins_at_next(duly_world: Stage) -> None:
    """R9, R5: what was applied is not made again."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(then=(Throw("no"),))}))
    await play.publish("a")
    await play.drain()
    await play.host.retry((await play.run()).id)
    await play.drain()
    assert (play.sends(), len([each for each in await play.runs() if each.retry_of])) == (1, 1)


@pytest.mark.parametrize("act", ["retry", "abandon"])
async def test_what_is_unknown_is_neither_retried_nor_abandoned(
    duly_world: Stage, act: str
) -> None:
    """R9, L8: refused; settle it first."""
    play = await unknown(duly_world)
    with pytest.raises(RequestRefused, match="Settle it first"):
        await getattr(play.host, act)((await play.run()).id)
    assert (await play.row()).status == Row.INDETERMINATE


@pytest.mark.parametrize(
    ("steps", "fault", "ended"),
    [
        ({"mutate": (Throw("no"),)}, Fault.OK, "pending"),
        ({}, Fault.REFUSE, "pending"),
        ({}, Fault.AUTH, "pending"),
        ({"then": (TELL, Throw("no"))}, Fault.OK, "consumed"),
    ],
    ids=["no row", "failed", "proposed", "applied"],
)
async def test_an_abandoned_run_gives_its_events_where_the_ledger_says(
    duly_world: Stage, steps: dict[str, Any], fault: Fault, ended: str
) -> None:
    """R9: released or consumed; nothing published, next not run."""
    play = await opened(duly_world)
    if fault is not Fault.OK:
        plan(duly_world, fault)
    await play.deploy(flow({CONSUMER: consumer(**steps)}))
    await play.publish("a")
    await play.drain()
    await play.host.abandon((await play.run()).id)
    assert (await play.statuses(), await play.payloads()) == ({"a": ended}, {})
    assert (await play.run()).status == Status.ABANDONED
    if (await play.rows()) and fault is Fault.AUTH:
        assert (await play.row()).status == Row.FAILED


async def test_abandoning_an_active_run_drops_what_it_does(duly_world: Stage) -> None:
    """R9: whatever its script still does is lost; the event is worked on anew."""
    play = await at_step(duly_world, "prepare")
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance(5)
        await play.host.abandon((await play.run()).id)
        await duly_world.advance(60)
    assert (await play.runs())[0].status == Status.ABANDONED
    assert (duly_world.count(), await play.is_clean()) == (1, True)


# -- Settle ---------------------------------------------------------------------------------------


async def test_it_happened(duly_world: Stage) -> None:
    """L10: applied with the given result; the same run goes on to next."""
    play = await unknown(duly_world)
    run = await play.run()
    await play.host.settle((await play.row()).id, "happened", {"row": 7})
    await play.drain()
    assert (await play.store.get_run(run.id)).status == Status.COMMITTED
    assert (await play.payloads())["a"] == {"status": "applied", "result": {"row": 7}}
    assert await play.statuses() == {"a": "consumed", "b": "consumed"}


async def test_it_did_not_happen(duly_world: Stage) -> None:
    """L10, L6: refused before its time, naming it; then a fresh successor that waited."""
    play = await unknown(duly_world, Fault.AMBIGUOUS_BEFORE)
    row = await play.row()
    await duly_world.advance(LAG_S - 1)
    with pytest.raises(RequestRefused, match="2026-01-01T00:01:00"):
        await play.host.settle(row.id, "did_not_happen")
    await duly_world.advance(1)
    await play.host.settle(row.id, "did_not_happen")
    await play.drain()
    assert ((await play.run()).status, play.sends()) == (Status.PAUSED_TRANSIENT, 1)
    await play.pass_by(12)
    assert (await play.statuses())["a"] == "consumed"
    assert duly_world.count(key=row.key) == 1


async def test_skip_it(duly_world: Stage) -> None:
    """L10: next is told, the events end skipped, and it is never sent again."""
    play = await unknown(duly_world, Fault.AMBIGUOUS_BEFORE)
    row = await play.row()
    await play.host.settle(row.id, "skip")
    await play.drain()
    assert (await play.store.get_mutation(row.id)).status == Row.SKIPPED
    assert await play.statuses() == {"a": "skipped", "b": "consumed"}
    assert (await play.payloads())["a"] == {"status": "skipped"}
    assert duly_world.count(key=row.key) == 0


async def test_try_again_asks_again(duly_world: Stage) -> None:
    """L10: the attempts begin anew."""
    play = await opened(duly_world)
    plan(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,) * 8)
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance("1h")
        assert play.asks() == 6
        await play.host.settle((await play.row()).id, "try_again")
        await duly_world.advance("1h")
    assert (play.asks(), play.sends(), await play.is_clean()) == (9, 1, True)


async def test_try_again_is_refused_where_nothing_can_be_tried(duly_world: Stage) -> None:
    """L10: no way to ask, and not safe to send."""
    play = await unknown(duly_world)
    with pytest.raises(RequestRefused, match="cannot be asked what happened"):
        await play.host.settle((await play.row()).id, "try_again")
    assert (await play.row()).status == Row.INDETERMINATE


@pytest.mark.parametrize("is_late", [False, True])
async def test_try_again_sends_an_idempotent_call_within_its_life(
    duly_world: Stage, is_late: bool
) -> None:
    """L10, L7: and not after it."""
    play = await opened(duly_world, reconcile=False, idempotent=True, key_lifetime_s=7200)
    plan(duly_world, *[Fault.AMBIGUOUS_BEFORE] * 6)
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance("2h" if is_late else "1h")
        row = await play.row()
        if is_late:
            with pytest.raises(RequestRefused, match="cannot be asked what happened"):
                await play.host.settle(row.id, "try_again")
            return
        await play.host.settle(row.id, "try_again")
        await duly_world.advance(1)
    assert (play.sends(), duly_world.count(key=row.key), await play.is_clean()) == (7, 1, True)


async def test_only_what_is_indeterminate_is_settled(duly_world: Stage) -> None:
    """L10: a row that is settled already, and words nobody knows, are refused."""
    play = await unknown(duly_world)
    row = await play.row()
    with pytest.raises(Invalid, match="Use one of"):
        await play.host.settle(row.id, "perhaps")
    with pytest.raises(Invalid, match="result"):
        await play.host.settle(row.id, "skip", {"row": 1})
    await play.host.settle(row.id, "happened")
    for answer in ("happened", "skip", "did_not_happen", "try_again"):
        with pytest.raises(DulyError):
            await play.host.settle(row.id, answer)
    await play.drain()
    assert (await play.payloads())["a"] == {"status": "applied", "result": None}


async def test_of_two_answers_at_once_one_wins(duly_world: Stage) -> None:
    """L10: the other is refused, and next runs once."""
    play = await unknown(duly_world)
    row = await play.row()
    answers = await asyncio.gather(
        play.host.settle(row.id, "happened", 1),
        play.host.settle(row.id, "skip"),
        return_exceptions=True,
    )
    assert sorted(isinstance(each, DulyError) for each in answers) == [False, True]
    await play.drain()
    assert len([each for each in await play.events("out") if each.message_id == "a"]) == 1
    assert await play.is_clean()


async def test_an_answer_in_a_paused_workflow_waits_for_resume(duly_world: Stage) -> None:
    """L10, F7: it is written, and nothing follows from it."""
    play = await unknown(duly_world)
    await play.host.pause(NAME)
    await play.host.settle((await play.row()).id, "happened", 5)
    await play.drain()
    assert ((await play.rows())[0].status, await play.payloads()) == (Row.APPLIED, {})
    await play.host.resume(NAME)
    await play.drain()
    assert (await play.payloads())["a"] == {"status": "applied", "result": 5}


# -- Run now --------------------------------------------------------------------------------------


async def test_run_now_runs_every_producer_one_after_another(duly_world: Stage) -> None:
    """S7, S1: consumers are not started by it, and no two runs overlap."""
    play = await opened(duly_world)
    polls = {f"poll{n}": producer(publish(f"e{n}"), every="1d") for n in range(3)}
    await play.deploy(flow({CONSUMER: consumer(PREPARE, (APPEND,))}, polls))
    await play.drain()
    before = len(await play.runs())
    assert await play.host.run_now(NAME) == 3
    await play.drain()
    assert len(await play.runs()) == before + 3


async def test_run_now_is_refused_while_a_run_is_open(duly_world: Stage) -> None:
    """S7: the open run comes first."""
    play = await opened(duly_world)
    plan(duly_world, Fault.REFUSE)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    with pytest.raises(RequestRefused, match="still works on"):
        await play.host.run_now(NAME)
    assert TOOL in duly_world.calls
