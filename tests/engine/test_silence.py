"""Questions that cannot be asked: for as long as that lasts, and what a person may do (L5, L13)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.connectors.base import Applied, Call, Connector, NotApplied, Unsure, mutation
from duly.errors import RequestRefused, StoreUnavailable, UnknownOutcome
from duly.rules.word import MutationStatus as Row
from duly.rules.word import Status
from duly.testing import Fault, Stage
from tests.engine.stand import (
    CONSUMER,
    RECONCILE,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    plan,
    timed,
)
from tests.spoken import long
from verification import moves

HOUR_S = 3600
# Inline, then 10 s × 2ⁿ, at last every ten minutes; the first one after an hour tells.
TIMES = [0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030, 3630]
FOR_EVER = 1000


async def sent(
    stage: Stage, *faults: Fault, reconcile: tuple[Fault, ...] = (), **tool: Any
) -> Play:
    """Let one event meet these faults at its mutation, as far as it goes now."""
    play = await opened(stage, **tool)
    plan(stage, *faults, reconcile=reconcile)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    return play


async def notices(play: Play) -> list[str]:
    """What a person was told without being needed."""
    rows = await play.host.bus.journal(topic="workflow.notice", limit=100)
    return [str((each.payload or {})["text"]) for each in rows]


async def found(play: Play) -> tuple[str, str]:
    """How the newest row and the newest run stand."""
    return (await play.row()).status, (await play.run()).status


ASKED = (Row.NEEDS_RECONCILE, Status.PAUSED_RECONCILIATION)


@pytest.mark.parametrize("trouble", [Fault.ERROR, Fault.NOT_SENT], ids=lambda fault: fault.name)
async def test_a_question_that_cannot_be_asked_is_asked_for_as_long_as_it_takes(
    duly_world: Stage, trouble: Fault
) -> None:
    """L5: it uses up no attempt, and when the outside is back it is settled; was given up."""
    calls = timed(duly_world)
    play = await sent(duly_world, Fault.AMBIGUOUS, reconcile=(trouble,) * 20)
    async with play.host.running():
        await duly_world.advance(HOUR_S)
        assert calls.times(RECONCILE) == TIMES[:-1]
        assert (await found(play), (await play.row()).asks) == (ASKED, 0)
        assert await notices(play) == []
        await duly_world.advance(3 * HOUR_S)
    assert (duly_world.count(), await play.is_clean()) == (1, True)
    (told,) = await notices(play)
    assert "the outside cannot be asked whether sheet.append" in told
    assert "Duly keeps asking by itself" in told


async def test_a_question_that_hangs_is_bounded_and_costs_no_attempt(duly_world: Stage) -> None:
    """L5, L13: 30 s each, then at the usual times."""
    play = await sent(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.TIMEOUT_BEFORE,) * 8)
    async with play.host.running():
        await duly_world.advance("2h")
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_only_answers_of_unsure_are_counted(duly_world: Stage) -> None:
    """L5: five of them end with a person, whatever failed in between."""
    mixed = (Fault.UNSURE, Fault.ERROR, Fault.ERROR, Fault.ERROR) * 10
    play = await sent(duly_world, Fault.AMBIGUOUS, reconcile=mixed)
    async with play.host.running():
        await duly_world.advance("3h")
    assert await found(play) == (Row.INDETERMINATE, Status.PAUSED_RECONCILIATION)
    assert (play.asks(), (await play.row()).asks) == (
        21,
        4,
    )  # the first is inline, the last ends it


async def test_who_was_told_may_answer_while_asking_goes_on(duly_world: Stage) -> None:
    """L5, L10: before the hour an answer is refused, after it it is taken; asked on meanwhile."""
    play = await sent(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.ERROR,) * FOR_EVER)
    row = await play.row()
    async with play.host.running():
        await duly_world.advance(HOUR_S)
        for answer in ("happened", "did_not_happen", "skip", "try_again"):
            with pytest.raises(RequestRefused, match="still asking"):
                await play.host.settle(row.id, answer)
        await duly_world.advance(60)
        why = await play.host.why(row.id)
        assert {"happened", "did_not_happen", "skip"} <= {
            each.args.get("answer") for each in why.offers
        }
        assert "if you know it, say whether it happened" in long(play.host, why)
        asks = play.asks()
        await duly_world.advance("1h")
        assert play.asks() > asks
        assert len(await notices(play)) == 1
        await play.host.settle(row.id, "happened", {"row": 1})
        await duly_world.advance(1)
    assert (await play.row()).status == Row.APPLIED
    assert (await play.is_clean(), [each.crash_count for each in await play.runs()][-1]) == (
        True,
        0,
    )


async def test_that_it_was_told_is_kept_across_a_restart(duly_world: Stage) -> None:
    """L5, S8: told once, and the answer is still taken."""
    play = await sent(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.ERROR,) * FOR_EVER)
    async with play.host.running():
        await duly_world.advance("2h")
    await play.restart()
    async with play.host.running():
        await duly_world.advance("2h")
        assert len(await notices(play)) == 1
        await play.host.settle((await play.row()).id, "skip")
        await duly_world.advance(1)
    assert await play.statuses() == {"a": "skipped"}


async def test_a_clock_that_is_set_neither_hides_nor_hastens_the_hour(duly_world: Stage) -> None:
    """L5: the hour is one of waits, not of a clock."""
    play = await sent(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.ERROR,) * FOR_EVER)
    async with play.host.running():
        await duly_world.advance(300)
        duly_world.env.jump(20 * 3600 * 1000)
        await duly_world.advance(300)
        assert await notices(play) == []
        duly_world.env.jump(-3 * 24 * 3600 * 1000)
        await duly_world.advance("90m")
        assert len(await notices(play)) == 1


async def test_a_connector_that_is_not_here_is_no_answer(duly_world: Stage) -> None:
    """L5: it is asked when it is back, and a person is told after an hour."""
    play = await sent(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,))
    await duly_world.crash(play.host)
    here, duly_world.connectors = duly_world.connectors, []
    play.host = await duly_world.host(**play.options)
    async with play.host.running():
        await duly_world.advance("2h")
        assert (await found(play), len(await notices(play))) == (ASKED, 1)
    await duly_world.crash(play.host)
    duly_world.connectors = here
    play.host = await duly_world.host(**play.options)
    async with play.host.running():
        await duly_world.advance("20m")
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_an_unreachable_outside_uses_up_no_send_again(duly_world: Stage) -> None:
    """L7, L5: what was not sent was not sent again; was a person's after five of them."""
    calls = timed(duly_world)
    play = await sent(
        duly_world,
        Fault.AMBIGUOUS_BEFORE,
        *[Fault.NOT_SENT] * 14,
        idempotent=True,
        reconcile=(),
    )
    async with play.host.running():
        await duly_world.advance("3h")
    assert calls.times(TOOL)[:8] == [0, 0, 10, 30, 70, 150, 310, 630]
    row = await play.row()
    assert (row.attempt, row.resends, len(await notices(play))) == (16, 1, 1)
    assert (duly_world.count(), await play.is_clean()) == (1, True)


# -- Whatever a question raises -------------------------------------------------------------------


class Unspeakable(Exception):
    """An error that cannot even be read."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Unreadable:
    """A reason that cannot be read."""

    def __str__(self) -> str:
        raise ValueError("no words")


STRANGE: dict[str, Any] = {
    "an error without words": Unspeakable(),
    "an unreadable reason": Unsure(Unreadable()),  # type: ignore[arg-type]
    "sys.exit": SystemExit(3),
    "a base exception": BaseException("odd"),
    "a generator's end": GeneratorExit(),
    "no verdict": "yes",
}


class Strange(Connector):
    """A host that asks it gets something odd a few times, then an answer."""

    name = "odd"

    def __init__(self, answer: Any, times: int) -> None:
        self.answer, self.times = answer, times
        self.asks: list[float] = []

    @mutation(timeout_s=30, lag_s=0)
    async def change(self, call: Call) -> None:
        raise UnknownOutcome("?")

    @change.reconcile
    async def change_happened(self, call: Call) -> Applied | NotApplied | Unsure:
        self.asks.append(asyncio.get_running_loop().time())
        if len(self.asks) > self.times:
            return Applied("found")
        if isinstance(self.answer, BaseException):
            raise self.answer
        answer: Unsure = self.answer
        return answer


@pytest.mark.parametrize("name", STRANGE)
async def test_whatever_a_question_raises_is_spaced_and_ends(duly_world: Stage, name: str) -> None:
    """L13, L5: one classified answer at its time; was asked every ten seconds, uncounted."""
    odd = Strange(STRANGE[name], 3)
    play = await opened(duly_world, connectors=(odd,))
    await play.deploy(flow({CONSUMER: consumer(mutate=(moves.Call("odd.change"),))}))
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance("1h")
    assert [at - odd.asks[0] for at in odd.asks] == [0, 10, 30, 70]
    assert (await play.row()).status == Row.APPLIED
    assert await play.is_clean()


async def test_a_fault_of_our_own_while_asking_is_spaced_too(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L13: the next attempt has a stored time, later each time."""
    play = await sent(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,))
    ledger = play.desk.engine._worker.ledger
    times: list[float] = []

    async def broken(*_: Any) -> Any:
        times.append(duly_world.loop.time())
        raise ZeroDivisionError

    monkeypatch.setattr(ledger, "ask", broken)
    async with play.host.running():
        await duly_world.advance(200)
    assert [at - times[0] for at in times] == [0, 10, 30, 70, 150]
    monkeypatch.undo()
    async with play.host.running():
        await duly_world.advance("1h")
    assert await play.is_clean()


async def test_a_disk_that_takes_no_writes_has_nothing_asked(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L5, L13: what could not be counted is not asked; when the disk can write, asking goes on."""
    play = await sent(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,) * 3)
    verb, is_full = play.store.count_attempt, True

    async def count_attempt(*args: Any, **kwargs: Any) -> None:
        if is_full:
            raise StoreUnavailable("database or disk is full")
        await verb(*args, **kwargs)

    monkeypatch.setattr(play.store, "count_attempt", count_attempt)
    asked = duly_world.calls.count(RECONCILE)
    async with play.host.running():
        await duly_world.advance("10m")
        assert duly_world.calls.count(RECONCILE) == asked
        is_full = False
        await duly_world.advance("10m")
    assert (await play.row()).status == Row.APPLIED
    assert await play.is_clean()


async def test_an_answer_given_while_a_question_is_out_is_no_crash(duly_world: Stage) -> None:
    """L10, R7: the run goes on in the hands of the answer, and the question finds it gone."""
    asking = asyncio.Event()

    class Patient(Strange):
        name = "odd"

        @mutation(timeout_s=30, lag_s=0)
        async def change(self, call: Call) -> None:
            raise UnknownOutcome("?")

        @change.reconcile
        async def change_happened(self, call: Call) -> Applied | NotApplied | Unsure:
            self.asks.append(asyncio.get_running_loop().time())
            if len(self.asks) < 14:
                raise OSError("no route")
            asking.set()
            await asyncio.sleep(20)
            return NotApplied()

    play = await opened(duly_world, connectors=(Patient(None, 0),))
    await play.deploy(flow({CONSUMER: consumer(mutate=(moves.Call("odd.change"),))}))
    await play.publish("a")
    async with play.host.running():
        await asking.wait()
        await play.host.settle((await play.row()).id, "happened", "seen")
        await duly_world.advance(60)
    assert (await play.row()).status == Row.APPLIED
    assert [each.crash_count for each in await play.runs()] == [0] * len(await play.runs())
    assert (await play.payloads())["a"] == {"status": "applied", "result": "seen"}
    assert await play.is_clean()


# A tool without lag whose send does not end.


class Endless(Connector):
    """It takes a minute, whatever cancels it."""

    name = "slow"
    asks = 0

    @mutation(lag_s=0, timeout_s=5)
    async def change(self, call: Call) -> None:
        while asyncio.get_running_loop().time() < 60:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                continue

    @change.reconcile
    async def change_happened(self, call: Call) -> NotApplied:
        self.asks += 1
        return NotApplied()


async def test_a_send_that_hangs_is_not_asked_about_all_the_time(duly_world: Stage) -> None:
    """L6, S9: one that has not ended is asked about again after a while."""
    slow = Endless()
    play = await opened(duly_world, connectors=(slow,))
    await play.deploy(flow({CONSUMER: consumer(mutate=(moves.Call("slow.change"),))}))
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(40)
    assert slow.asks < 10  # was 34,001


# A reconcile method whose reason cannot be stored, or should not be.


class Vague(Connector):
    """Never sure, for a reason given."""

    name = "vague"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.asks = 0

    @mutation(lag_s=1)
    async def change(self, call: Call) -> str:
        raise RuntimeError("?")

    @change.reconcile
    async def change_happened(self, call: Call) -> Unsure:
        self.asks += 1
        return Unsure(self.reason)


async def test_a_reason_with_half_a_character_uses_up_its_attempt(duly_world: Stage) -> None:
    """L5: once inline and five times later, then a person is asked, whatever the words are."""
    vague = Vague("\ud800")
    play = await opened(duly_world, connectors=(vague,))
    await play.deploy(flow({CONSUMER: consumer(mutate=(moves.Call("vague.change"),))}))
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(86_400)
    assert ((await play.row()).status, vague.asks) == ("indeterminate", 6)  # was asked every 10 s


async def test_a_secret_in_a_reason_is_not_kept(duly_world: Stage) -> None:
    """A5: what reconcile says goes into the ledger without secrets."""
    vague = Vague("401 for hunter2")
    play = await opened(duly_world, connectors=(vague,))
    play.desk.parts.outside.bind(lambda connector, name: "hunter2")
    assert vague.secret("token") == "hunter2"
    await play.deploy(flow({CONSUMER: consumer(mutate=(moves.Call("vague.change"),))}))
    await play.publish("a")
    await play.drain()
    await play.pass_by(15)
    assert "hunter2" not in ((await play.row()).error or "")
