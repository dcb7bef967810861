"""Sending again, and the key under which that is safe (L7)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from duly.connectors.base import Applied, Call, Connector, NotApplied, mutation
from duly.engine.claims import Claims
from duly.errors import NotSent, UnknownOutcome
from duly.rules.word import MutationStatus as Row
from duly.rules.word import Status
from duly.testing import Fault, Stage
from tests.engine.stand import (
    CONSUMER,
    NAME,
    RECONCILE,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    plan,
    timed,
)
from verification import moves

LAG_S = 60
TIMEOUT_S = 30


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


async def found(play: Play) -> tuple[str, str]:
    """How the newest row and the newest run stand."""
    return (await play.row()).status, (await play.run()).status


# -- Sending again --------------------------------------------------------------------------------


async def idempotent(stage: Stage, *faults: Fault, **tool: Any) -> Play:
    return await sent(stage, *faults, idempotent=True, **tool)


async def test_an_idempotent_call_is_sent_again_at_its_times(duly_world: Stage) -> None:
    """L7: at once, then at 10 s × 2ⁿ, five times; after that the outside is asked, anew counted."""
    calls = timed(duly_world)
    play = await opened(duly_world, idempotent=True)
    plan(duly_world, *[Fault.AMBIGUOUS_BEFORE] * 20, reconcile=(Fault.UNSURE,) * 20)
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance("2h")
    assert calls.times(TOOL) == [0, 0, 10, 30, 70, 150]
    assert calls.times(RECONCILE) == [0, 20, 60, 140, 300]
    row = await play.row()
    assert (row.attempt, row.resends, row.status) == (6, 5, Row.INDETERMINATE)
    assert len(await play.rows()) == 1


async def test_an_idempotent_call_without_reconcile_ends_with_a_person(duly_world: Stage) -> None:
    """L7, L5: five re-sends, then indeterminate."""
    play = await opened(duly_world, idempotent=True, reconcile=False)
    plan(duly_world, *[Fault.AMBIGUOUS_BEFORE] * 20)
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance("2h")
    assert (play.sends(), await found(play)) == (
        6,
        (Row.INDETERMINATE, Status.PAUSED_RECONCILIATION),
    )


async def test_a_re_send_uses_the_key_of_the_first(duly_world: Stage) -> None:
    """L7: the outside does it once, whichever send arrives."""
    play = await idempotent(duly_world, Fault.AMBIGUOUS, Fault.AMBIGUOUS)
    await play.pass_by(10)
    row = await play.row()
    assert (duly_world.count(), duly_world.count(key=row.key), row.attempt) == (1, 1, 3)
    assert await play.is_clean()


async def test_no_call_is_sent_again_past_the_life_of_its_key(duly_world: Stage) -> None:
    """L7: now + timeout + lag must lie before first send + key lifetime."""
    play = await idempotent(
        duly_world, *[Fault.AMBIGUOUS_BEFORE] * 9, key_lifetime_s=TIMEOUT_S + LAG_S + 10
    )
    assert play.sends() == 2
    await play.pass_by(9.999)
    await play.pass_by(0.001)
    assert (play.sends(), play.asks()) == (2, 1)


async def test_one_moment_before_that_it_is_sent_again(duly_world: Stage) -> None:
    """L7: the last moment at which a re-send is safe."""
    play = await idempotent(
        duly_world, *[Fault.AMBIGUOUS_BEFORE] * 9, key_lifetime_s=TIMEOUT_S + LAG_S + 10.001
    )
    await play.pass_by(10)
    assert (play.sends(), play.asks()) == (3, 0)


# -- How old a key is -----------------------------------------------------------------------------

DAY_MS = 86_400_000


async def cut_short(stage: Stage, key_lifetime_s: float) -> Play:
    """A call whose first send is unknown, and whose host died before it was sent again."""
    play = await opened(stage, idempotent=True, key_lifetime_s=key_lifetime_s)
    await play.deploy(flow())
    plan(stage, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,))
    await play.publish("a")
    await play.crash_during(send_again="before")
    return play


@pytest.mark.parametrize("jump_ms", [-30 * DAY_MS, -2 * 3_600_000])
async def test_a_clock_set_back_makes_no_key_young(duly_world: Stage, jump_ms: int) -> None:
    """L7: three hours after the first send a key of three hours is forgotten; was sent again."""
    play = await cut_short(duly_world, 3 * 3600)
    duly_world.env.jump(jump_ms)
    await duly_world.advance(3 * 3600)
    await play.drain()
    assert (play.sends(), play.asks()) == (1, 1)


async def test_a_clock_set_back_keeps_no_young_key_from_being_used(duly_world: Stage) -> None:
    """L7: within one boot the age is exact, restarts of the host included; was asked instead."""
    play = await cut_short(duly_world, 3 * 3600)
    duly_world.env.jump(-30 * DAY_MS)
    await play.drain()
    assert (play.sends(), play.asks(), duly_world.count()) == (2, 0, 1)


@pytest.mark.parametrize(("lifetime_s", "sends"), [(86_400, 1), (86_400 + 3600, 2)])
async def test_after_a_reboot_a_day_is_taken_off(
    duly_world: Stage, lifetime_s: int, sends: int
) -> None:
    """L7: the wall clock may be off by a day, so a key must be good for a day more."""
    play = await cut_short(duly_world, lifetime_s)
    duly_world.env.reboot()
    await duly_world.advance(60)
    await play.drain()
    assert (play.sends(), play.asks()) == (sends, 2 - sends)


async def test_a_key_is_as_old_as_its_first_send_by_any_row(duly_world: Stage) -> None:
    """L7: a fresh row under the same key is not younger than the key; was counted by the row."""
    calls = timed(duly_world)
    play = await opened(duly_world, idempotent=True, key_lifetime_s=1000, lag_s=0)
    faults = [Fault.NOT_SENT, Fault.AMBIGUOUS_BEFORE, Fault.AMBIGUOUS_BEFORE]
    plan(duly_world, *faults, reconcile=(Fault.UNSURE,) * 9)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    await play.pass_by(965)
    first, second = await play.rows()
    assert (first.key, first.status) == (second.key, Row.FAILED)
    assert second.first_sent_at is not None
    assert second.key_sent_at is None  # lists do not say
    assert (await play.store.get_mutation(second.id)).key_sent_at == first.first_sent_at
    assert calls.times(TOOL)[1:] == [pytest.approx(965, abs=5)] * 2
    assert play.asks() == 0
    await play.pass_by(10)  # 975 + 30 of the timeout is past the life of the key
    assert (play.sends(), play.asks()) == (3, 1)


async def test_a_key_that_outlives_no_wait_for_the_lease_is_not_used(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L7: a send waits until enough of the lease is left; by then the key may be forgotten."""
    lifetime_s = TIMEOUT_S + LAG_S + 13
    play = await idempotent(
        duly_world, *[Fault.AMBIGUOUS_BEFORE] * 9, key_lifetime_s=lifetime_s, lag_s=LAG_S
    )
    assert play.sends() == 2

    async def wait(*_: Any) -> None:
        """Be renewed after so long as a lease of 15 s allows."""
        await duly_world.env.sleep(4)

    monkeypatch.setattr(Claims, "until_sendable", wait)
    async with play.host.running():
        await duly_world.advance(30)
    row = await play.row()
    assert (play.sends(), play.asks(), row.resends) == (2, 1, 1)


async def test_the_age_of_a_key_is_asked_again_right_before_the_first_byte(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L7: writing the send down may outlast the key; then nothing leaves, and it is asked."""
    play = await idempotent(duly_world, Fault.AMBIGUOUS, Fault.AMBIGUOUS, key_lifetime_s=600)
    assert play.sends() == 2
    write = play.store.send_again

    async def slowly(*args: Any, **kwargs: Any) -> Any:
        written = await write(*args, **kwargs)
        await duly_world.env.sleep(1000)
        return written

    monkeypatch.setattr(play.store, "send_again", slowly)
    async with play.host.running():
        await duly_world.advance(1200)
    row = await play.row()
    assert (play.sends(), play.asks(), row.resends) == (2, 1, 1)
    assert (row.status, duly_world.count()) == (Row.APPLIED, 1)


async def test_a_connector_is_told_when_its_key_was_first_sent(duly_world: Stage) -> None:
    """L7: `Call` carries `first_sent_at` besides `sent_at`, and `send_by`."""
    seen: list[Call] = []

    class Keyed(Connector):
        name = "book"

        @mutation(idempotent=True, key_lifetime_s=86_400, timeout_s=20)
        async def write(self, call: Call) -> str:
            seen.append(call)
            if len(seen) == 1:
                raise NotSent("no route")
            if len(seen) < 4:
                raise UnknownOutcome("?")
            return "written"

    play = await opened(duly_world, connectors=(Keyed(),))
    await play.deploy(flow({CONSUMER: consumer(mutate=(moves.Call("book.write"),))}))
    began = duly_world.env.now()
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance(60)
    assert {each.first_sent_at for each in seen} == {began}
    assert [each.attempt for each in seen] == [1, 1, 2, 3]
    assert all(each.sent_at > began for each in seen[1:])
    assert {each.send_by - each.sent_at for each in seen} == {timedelta(seconds=20)}


async def test_a_call_that_was_made_without_a_key_is_never_sent_again(duly_world: Stage) -> None:
    """L7, L6: a connector that declares one later does not give one to what was sent before."""
    play = await opened(duly_world)
    plan(duly_world, Fault.AMBIGUOUS_BEFORE, reconcile=(Fault.UNSURE,) * 9)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    await duly_world.crash(play.host)
    duly_world.connectors = []
    await opened(duly_world, idempotent=True)
    play.host = duly_world._hosts[-1]
    async with play.host.running():
        await duly_world.advance("1h")
    assert (play.sends(), (await play.row()).status) == (1, Row.INDETERMINATE)


@pytest.mark.parametrize("is_askable", [True, False])
async def test_nothing_is_sent_again_while_paused(duly_world: Stage, is_askable: bool) -> None:
    """L7, F7: asking goes on, sending waits for resume."""
    play = (
        await idempotent(duly_world, *[Fault.AMBIGUOUS_BEFORE] * 2, reconcile=(Fault.UNSURE,) * 2)
        if is_askable
        else await opened(duly_world, idempotent=True, reconcile=False)
    )
    if not is_askable:
        plan(duly_world, *[Fault.AMBIGUOUS_BEFORE] * 2)
        await play.deploy(flow())
        await play.publish("a")
        await play.drain()
    await play.host.pause(NAME)
    async with play.host.running():
        await duly_world.advance(100)
        assert (play.sends(), play.asks() > 0) == (2, is_askable)
        assert (await play.rows())[0].status != Row.INDETERMINATE
        await play.host.resume(NAME)
        await duly_world.advance(1200)
    assert (duly_world.count(), await play.is_clean()) == (1, True)


REFUSALS = (Fault.REFUSE, Fault.AUTH, Fault.FORBID, Fault.RATE_LIMIT(5), Fault.NOT_SENT)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda fault: fault.name)
async def test_a_refused_re_send_leaves_the_first_unknown(
    duly_world: Stage, refusal: Fault
) -> None:
    """L4, L7: a no to the second send says nothing about the first."""
    play = await idempotent(duly_world, Fault.LATE(5), refusal)
    assert await found(play) == (Row.NEEDS_RECONCILE, Status.PAUSED_RECONCILIATION)
    await play.pass_by(10)
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_refusal_the_outside_remembered_settles_the_call(duly_world: Stage) -> None:
    """L4: it is the answer kept for this key, so the first was refused, too."""
    play = await idempotent(duly_world, Fault.AMBIGUOUS_BEFORE, Fault.REFUSE_REMEMBERED)
    assert await found(play) == (Row.FAILED, Status.FAILED_LOGIC)


# -- The key --------------------------------------------------------------------------------------


TROUBLES = {
    "NOT_SENT": Fault.NOT_SENT,
    "RATE_LIMIT": Fault.RATE_LIMIT(60),
    "REFUSE": Fault.REFUSE,
    "REFUSE_REMEMBERED": Fault.REFUSE_REMEMBERED,
}


@pytest.mark.parametrize("name", TROUBLES)
async def test_only_a_refusal_on_the_merits_makes_another_key(duly_world: Stage, name: str) -> None:
    """L7: passing trouble and a new version keep the key of the same inputs."""
    play = await sent(duly_world, TROUBLES[name])
    await play.deploy(flow({CONSUMER: consumer(then=None)}))
    await play.pass_by(90)
    first, second = await play.rows()
    is_same = first.key == second.key
    assert (is_same, first.inputs == second.inputs) == ("REFUSE" not in name, True)


async def test_a_persons_no_keeps_the_key(duly_world: Stage) -> None:
    """L7, L10: what did not happen is made under the key it had."""
    play = await opened(duly_world, reconcile=False)
    plan(duly_world, Fault.AMBIGUOUS_BEFORE)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    await duly_world.advance(LAG_S)
    await play.host.settle((await play.row()).id, "did_not_happen")
    await play.pass_by(15)
    first, second = await play.rows()
    assert (first.key, second.status) == (second.key, Row.APPLIED)


async def test_other_events_and_other_workflows_have_other_keys(duly_world: Stage) -> None:
    """L7, T1: the key belongs to the workflow, the consumer and the set of events."""
    play = await opened(duly_world)
    for name in ("one", "two"):
        await play.deploy(flow(name=name))
        await play.publish("a", "b", name=name)
    await play.drain()
    assert len({each.key for each in duly_world.effects}) == 4


# A send that hangs in its thread while the call is sent again.


class Hanging(Connector):
    """Its first send takes 500 s whatever cancels it; the next five are uncertain."""

    name = "slow"

    def __init__(self) -> None:
        self.sends = 0
        self.fresh_at: float | None = None

    @mutation(lag_s=5, timeout_s=5, idempotent=True, key_lifetime_s=3600)
    async def change(self, call: Call, text: str) -> str:
        self.sends += 1
        now = asyncio.get_running_loop().time
        if self.sends == 1:
            while now() < 500:
                try:
                    await asyncio.sleep(1)
                except asyncio.CancelledError:
                    continue
        elif self.sends <= 6:
            raise UnknownOutcome("?")
        else:
            self.fresh_at = now()
        return "done"

    @change.reconcile
    async def change_happened(self, call: Call) -> Applied | NotApplied:
        return NotApplied()


async def test_no_absence_is_believed_while_an_older_send_is_out(duly_world: Stage) -> None:
    """L6: a send has ended when its thread returned, also if a later one ended before it."""
    slow = Hanging()
    play = await opened(duly_world, connectors=(slow,))
    change = moves.Call("slow.change", (), {"text": "t"})
    await play.deploy(flow({CONSUMER: consumer(mutate=(change,))}))
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(2000)
    assert slow.fresh_at is None  # was 327; the send that hung answered at last, and was heard
    assert [each.status for each in await play.rows()] == ["applied"]
