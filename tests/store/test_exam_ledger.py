"""The ledger's verbs sit their exam: propose, send, record, ask, settle, approve, reject."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from duly.env import Boot
from duly.errors import NotFound, RequestRefused, Stale
from duly.rules import lifecycle
from duly.rules.ledger import Terms, idempotency_key
from duly.rules.lifecycle import Change, Counts, Run
from duly.rules.outage import Outage
from duly.rules.word import Act, Answer, Outcome, Phase, Progress, Status, Verdict
from duly.rules.word import MutationStatus as Row
from duly.store.record import JournalEvent, Key, MutationRow, Recorded, Stop
from tests.store.exam import Again, Call, Case, Effect, Refusal, Trial, World, exam
from tests.store.scene import (
    APPLIED,
    IN_FLIGHT,
    INDETERMINATE,
    KEY,
    MUTATING,
    PROPOSED,
    REFUSED,
    UNKNOWN,
    UNSIGNED,
    WORKFLOW,
    abandon,
    arranged,
    journal,
    key_of,
    last_action,
    on,
    pause,
    reached,
    statuses,
)

TOLD = (JournalEvent("mutation.settled", "duly", "{}"),)
MUTATION = "mutation_1"


async def row_of(world: World) -> MutationRow:
    """Read the one row of the ledger."""
    return await world.store.get_mutation(MUTATION)


async def state_of(world: World) -> Run:
    """Read the run as the rules see it."""
    return (await world.store.get_run(on(world).run_id)).state


# -- propose, send, send_again ------------------------------------------------------------------


async def _propose(world: World) -> None:
    scene = on(world)
    here = (scene.fence, scene.run_id, MUTATING, PROPOSED, scene.call())
    await scene.store.propose(*here, calls="[1]", logs="[2]", now=scene.tick(), announce=TOLD)


async def _see_proposed(world: World, answer: None) -> None:
    row = await row_of(world)
    assert await state_of(world) == PROPOSED
    run = await world.store.get_run(on(world).run_id)
    assert (run.calls, run.logs) == ("[1]", "[2]")
    assert (row.status, row.attempt) == (Row.PROPOSED, 0)
    assert (row.first_sent_at, row.sent_at) == (None, None)
    assert (row.title, row.args, row.hash, row.key) == ("Add a row", '{"a":1}', "shown", KEY)
    assert journal(world) == ["mutation.settled"]


TERMS = Terms(60_000, 30_000, 86_400_000)
BOOT = Boot("boot-1", 5, 77)


async def _send(world: World) -> Key:
    scene = on(world)
    call = replace(scene.call(), terms=TERMS)
    here = (scene.fence, scene.run_id, MUTATING, IN_FLIGHT, call)
    return await scene.store.send(*here, now=scene.tick(), boot=BOOT)


async def _see_sent(world: World, answer: Key) -> None:
    row, at_ms = await row_of(world), on(world).now + 1
    assert (answer, row.key, row.key_sent_at) == (Key(KEY, at_ms), KEY, at_ms)
    assert (row.terms, row.first_boot, row.first_boot_ms) == (TERMS, "boot-1", 5)
    (first,) = (await world.store.list_first_sends(KEY)).stamps
    assert (first.boot_ms, first.clock_ms) == (5, 77)
    assert await state_of(world) == IN_FLIGHT
    assert (row.status, row.attempt, row.first_sent_at, row.sent_at) == (
        Row.IN_FLIGHT,
        1,
        at_ms,
        at_ms,
    )
    assert row.run_id == row.held_by == on(world).run_id


DROPPED = Refusal("a run that a person ended", Stale, broken=abandon)
PAUSED = Refusal("a paused workflow", Stale, broken=pause, match="paused")
PROPOSE = Case(
    "propose",
    arranged(MUTATING),
    _propose,
    _see_proposed,
    Again.STALE,
    refusals=(DROPPED, Refusal("a second row", Stale, broken=reached(Progress.SEND))),
)
SEND = Case(
    "send",
    arranged(MUTATING),
    _send,
    _see_sent,
    Again.STALE,
    refusals=(
        DROPPED,
        PAUSED,
        Refusal("a second row", Stale, broken=reached(Progress.ASK_APPROVAL)),
    ),
)


def _send_again(old: Run, new: Run) -> Call:
    async def call(world: World) -> MutationRow:
        scene = on(world)
        here = (scene.fence, scene.run_id, old, new)
        return await scene.store.send_again(*here, now=scene.tick(), boot=BOOT)

    return call


def _see_sent_again(new: Run, resends: int) -> Effect:
    async def effect(world: World, answer: MutationRow) -> None:
        row, scene = await row_of(world), on(world)
        assert answer == row
        assert await state_of(world) == new
        assert (row.attempt, row.resends, row.sent_at) == (2, resends, scene.now + 1)
        # The boot is that of the first send, like its time (L7).
        assert (row.is_resent, row.first_boot) == (resends, None)
        assert row.first_sent_at is not None
        assert row.first_sent_at < scene.now
        assert (row.key, row.args, row.due_at) == (KEY, '{"a":1}', None)

    return effect


RESEND = Case(
    "send_again",
    arranged(UNKNOWN),
    _send_again(UNKNOWN, lifecycle.resend(UNKNOWN)),
    _see_sent_again(lifecycle.resend(UNKNOWN), 1),
    Again.STALE,
    refusals=(
        PAUSED,
        Refusal("a row that was settled meanwhile", Stale, broken=reached(Verdict.APPLIED)),
    ),
    says="while unknown",
)
SEND_AFTER_SIGN_IN = Case(
    "send_again",
    arranged(UNSIGNED),
    _send_again(UNSIGNED, IN_FLIGHT),
    _see_sent_again(IN_FLIGHT, 0),
    Again.STALE,
    refusals=(PAUSED, DROPPED),
    says="after a sign in",
)


# -- record -------------------------------------------------------------------------------------


def _record(old: Run, new: Run, recorded: Recorded, *, is_stopped: bool) -> Call:
    async def call(world: World) -> None:
        scene = on(world)
        stop = scene.stop(new) if is_stopped else None
        here = (scene.fence, scene.run_id, old, new, recorded)
        await scene.store.record(*here, stop=stop, now=scene.tick(), announce=TOLD)

    return call


async def _see_applied(world: World, answer: None) -> None:
    row = await row_of(world)
    run = await world.store.get_run(on(world).run_id)
    assert (run.state, run.result) == (APPLIED, '{"id":7}')
    assert (row.status, row.result, row.refused, row.due_at) == (Row.APPLIED, '{"id":7}', 0, None)
    assert journal(world) == ["mutation.settled"]


async def _see_refused(world: World, answer: None) -> None:
    row = await row_of(world)
    run = await world.store.get_run(on(world).run_id)
    assert (run.state, run.counts) == (REFUSED, Counts(logic=1))
    assert (row.status, row.error, row.refused) == (Row.FAILED, "said no", 1)
    assert await key_of(world.store) == idempotency_key("inputs", 1)


async def _see_unknown(world: World, answer: None) -> None:
    row = await row_of(world)
    assert await state_of(world) == UNKNOWN
    # A row that is unknown always has a time at which it is asked about (L5).
    assert (row.status, row.due_at) == (Row.NEEDS_RECONCILE, on(world).now + 1)
    assert set((await statuses(world.store)).values()) == {"reserved", "pending"}


def _recorded(says: str, new: Run, recorded: Recorded, effect: Effect, *, stop: bool) -> Case:
    return Case(
        "record",
        arranged(IN_FLIGHT),
        _record(IN_FLIGHT, new, recorded, is_stopped=stop),
        effect,
        Again.STALE,
        refusals=(
            Refusal("a row that has its answer", Stale, broken=reached(Answer.NOT_SENT)),
            Refusal("a row that is asked about", Stale, broken=reached(Answer.UNKNOWN)),
        ),
        says=says,
    )


RECORD = (
    _recorded("applied", APPLIED, Recorded(1, '{"id":7}'), _see_applied, stop=False),
    _recorded("refused", REFUSED, Recorded(1, None, "said no", True), _see_refused, stop=True),
    _recorded("unknown", UNKNOWN, Recorded(1, error="lost"), _see_unknown, stop=True),
)


OUTAGE = Outage(7, 3, 70_000, True)


# -- count_attempt ------------------------------------------------------------------------------


def _count(*, is_counted: bool) -> Call:
    async def call(world: World) -> None:
        scene = on(world)
        await scene.store.count_attempt(
            scene.fence,
            MUTATION,
            0,
            scene.due_at,
            is_counted=is_counted,
            due_at=scene.now + 20_000,
            error="unsure",
            now=scene.tick(),
            outage=OUTAGE,
            announce=TOLD,
        )

    return call


def _see_counted(asks: int) -> Effect:
    async def effect(world: World, answer: None) -> None:
        row = await row_of(world)
        assert (row.asks, row.due_at, row.error) == (asks, on(world).now + 20_000, "unsure")
        assert (row.status, row.outage) == (Row.NEEDS_RECONCILE, OUTAGE)
        assert journal(world) == ["mutation.settled"]

    return effect


SETTLED_MEANWHILE = Refusal("a row that is settled", Stale, broken=reached(Verdict.GIVEN_UP))
COUNT = Case(
    "count_attempt",
    arranged(UNKNOWN),
    _count(is_counted=True),
    _see_counted(1),
    Again.STALE,
    refusals=(SETTLED_MEANWHILE,),
)
COUNT_NOT = Case(
    "count_attempt",
    arranged(UNKNOWN),
    _count(is_counted=False),
    _see_counted(0),
    Again.STALE,
    refusals=(SETTLED_MEANWHILE,),
    says="too early",
)


# -- settle -------------------------------------------------------------------------------------

LATER_STOP = Stop(Counts(transient=1), "did not happen", 1_020_000)


def _settle(answer: Act, **given: Any) -> Call:
    async def call(world: World) -> Change:
        scene = on(world)
        action = scene.action(answer)
        return await scene.store.settle(
            MUTATION, answer, **given, action=action, now=scene.tick(), announce=TOLD
        )

    return call


def _see_settled(act: Act, row_now: tuple[Any, ...], run_now: tuple[Any, ...]) -> Effect:
    async def effect(world: World, answer: Change) -> None:
        row = await row_of(world)
        run = await world.store.get_run(on(world).run_id)
        assert answer.run == run.state
        assert (row.status, row.result, row.due_at) == row_now
        assert (run.phase, run.status, run.outcome, run.result, run.due_at) == run_now
        assert last_action(world) == ("me", act, WORKFLOW, MUTATION)
        assert journal(world) == ["mutation.settled"]
        # Whatever was decided, the events are not free before a run ends (L8, R6).
        assert (await statuses(world.store))["mail:1"] == "reserved"

    return effect


async def _settle_nothing(world: World) -> Change:
    scene = on(world)
    now = scene.tick()
    return await scene.store.settle("mutation_9", Act.SKIP, action=scene.action(), now=now)


def _settled(act: Act, again: Again, effect: Effect, **given: Any) -> Case:
    return Case(
        "settle",
        arranged(INDETERMINATE),
        _settle(act, **given),
        effect,
        again,
        refusals=(
            Refusal("a mutation nobody knows", NotFound, call=_settle_nothing),
            Refusal("a second answer", RequestRefused, broken=reached(Act.SKIP)),
        ),
        says=act,
    )


SETTLE = (
    _settled(
        Act.TRY_AGAIN,
        Again.REFUSED,
        _see_settled(
            Act.TRY_AGAIN,
            (Row.NEEDS_RECONCILE, None, 1_000_009),
            (Phase.MUTATING, Status.PAUSED_RECONCILIATION, None, None, None),
        ),
    ),
    _settled(
        Act.DID_NOT_HAPPEN,
        Again.REFUSED,
        _see_settled(
            Act.DID_NOT_HAPPEN,
            (Row.FAILED, None, None),
            (Phase.MUTATING, Status.PAUSED_TRANSIENT, None, None, 1_020_000),
        ),
        stop=LATER_STOP,
    ),
    _settled(
        Act.HAPPENED,
        Again.REFUSED,
        _see_settled(
            Act.HAPPENED,
            (Row.APPLIED, '{"id":8}', None),
            (Phase.MUTATED, Status.ACTIVE, Outcome.APPLIED, '{"id":8}', None),
        ),
        result='{"id":8}',
    ),
    _settled(
        Act.SKIP,
        Again.REFUSED,
        _see_settled(
            Act.SKIP,
            (Row.SKIPPED, None, None),
            (Phase.MUTATED, Status.ACTIVE, Outcome.SKIPPED, None, None),
        ),
    ),
)


@pytest.mark.parametrize(
    "trial",
    exam(
        PROPOSE,
        SEND,
        RESEND,
        SEND_AFTER_SIGN_IN,
        *RECORD,
        COUNT,
        COUNT_NOT,
        *SETTLE,
    ),
)
async def test_the_verbs_of_the_ledger_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """L1, L10: a row moves with its run, by the state it was seen in, once."""
    await trial.sit(tmp_path)
