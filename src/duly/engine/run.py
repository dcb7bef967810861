"""One run, step by step: produce; or prepare, mutate, next (C, P).

Law 1  The engine never decides a transition: it asks the rules and hands the value to the store.
Law 2  Each step runs in a context of its own, and what it asks for is answered by `calls` (C1).
Law 3  A run ends in one transaction, or it does not end (P3, C11).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from duly import observed
from duly.engine.announcements import Announcements
from duly.engine.base import Parts, StepFailed
from duly.engine.calls import Calls, Wanted
from duly.engine.ledger import Ledger
from duly.engine.live import Live
from duly.engine.step_env import StepEnv, think
from duly.errors import Invalid
from duly.rules import lifecycle
from duly.rules.access import Step
from duly.rules.event import Publication
from duly.rules.prepared import (
    SEED_BYTES,
    Judgement,
    Prepared,
    mutation_result,
    parse_prepared,
    script_text,
    step_clock,
)
from duly.rules.redaction import AT_ONCE_CHARS
from duly.rules.schedule import clamp_wake_at, next_run_at
from duly.rules.value import Json, decode, encode
from duly.rules.word import Failure, Kind, MutationStatus, Outcome, Phase, Progress
from duly.sandbox.base import MISSING, Missing, World
from duly.store.record import Commit, Pinned, Reserve
from duly.words.warning import say_ignored_wake

PRODUCED_BYTES_MAX: Final = 64 * 1024 * 1024  # its parts are limited one by one (N)
READS_AT_ONCE_BYTES: Final = (
    AT_ONCE_CHARS  # what a step read; more is written beside the event loop
)

# The phases in which each step of a consumer comes next.
TO_PREPARE: Final = frozenset({Phase.PREPARING})
TO_MUTATE: Final = frozenset({Phase.PREPARED, Phase.MUTATING})
TO_FINISH: Final = frozenset({Phase.MUTATED, Phase.EMITTING})


async def take_steps(parts: Parts, ledger: Ledger, live: Live) -> None:
    """Take an active run as far as it goes: to its commit, or to where it must wait."""
    if live.run.kind is Kind.PRODUCER:
        await produce(parts, live)
        return
    if live.run.phase in TO_PREPARE:
        await prepare(parts, live)
    reads_text = None
    # A run that has a ledger row never asks its script again what to change (L8).
    if live.run.phase in TO_MUTATE and live.run.row is None:
        reads_text = await mutate(parts, ledger, live)
    if live.run.phase in TO_FINISH and live.is_active:
        await finish(parts, live, reads_text)


async def produce(parts: Parts, live: Live) -> None:
    """Run a producer; its events, its state and its next time are one commit (P3)."""
    told = await ask_producer(parts, live)
    now = parts.env.now_ms()
    planned_at = now if live.planned_at is None else live.planned_at
    schedule = live.producer.schedule
    commit = Commit(
        publications=told.publications,
        state=told.state_text,
        next_run_at=next_run_at(schedule, planned_at, now, parts.policy.timezone),
        calls=live.notes.calls_text,
        logs=live.notes.logs_text,
        reads=_produced(live, told, now),
    )
    await _commit(parts, live, parts.store.commit_producer, commit, now)


async def prepare(parts: Parts, live: Live) -> None:
    """Ask what to work on and pin it; if an event changed meanwhile, ask again (C5, C6)."""
    while True:
        chosen = await ask_prepare(parts, live)
        try:
            if await _pin(parts, live, chosen) is Judgement.RESERVE:
                return
        except Invalid as error:
            raise StepFailed(str(error), Failure.LOGIC, code=error.code) from error


async def _pin(parts: Parts, live: Live, chosen: Chosen) -> Judgement:
    """Store the prepare result and reserve its events, or do neither."""
    now, prepared = parts.env.now_ms(), chosen.prepared
    new = lifecycle.advance(live.run, Progress.PREPARE_DONE)
    if prepared.is_empty:
        new = lifecycle.advance(new, Progress.NOTHING_RESERVED)
    pinned = pin(parts, live, chosen, now)
    reserves = tuple(
        Reserve(each.topic, message_id, chosen.offered.get((each.topic, message_id)))
        for each in prepared.reservations
        for message_id in each.message_ids
    )
    judgement = await parts.store.prepare_run(
        live.fence, live.id, live.stored, new, pinned, reserves, now=now
    )
    if judgement is Judgement.RESERVE:
        for each in reserves:
            observed.reserved(each.topic, each.message_id)
        live.move(new)
        live.pinned = pinned
    return judgement


async def mutate(parts: Parts, ledger: Ledger, live: Live) -> str | None:
    """Let the script say what to change, leave it, then make that change (C8, C9).

    Return what the step read; nothing, where that is stored with the call.
    """
    if live.run.phase is Phase.PREPARED:
        live.run = lifecycle.advance(live.run, Progress.BEGIN_MUTATE)
    wanted, reads_text = await ask_mutate(parts, live)
    if wanted is not None:
        await ledger.make(live, wanted, reads_text)
        return None
    run = lifecycle.advance(live.run, Progress.NO_CALL)
    new = lifecycle.advance(run, Progress.BEGIN_NEXT)
    await parts.store.move_run(live.fence, live.id, live.stored, new, now=parts.env.now_ms())
    live.move(new)
    return reads_text


async def finish(parts: Parts, live: Live, reads_text: str | None = None) -> None:
    """Tell the script how its mutation ended, and commit the run in one transaction (C10, C11)."""
    if live.run.phase is Phase.MUTATED:
        live.run = lifecycle.advance(live.run, Progress.BEGIN_NEXT)
    told = await ask_next(parts, live)
    await live.settled()
    now = parts.env.now_ms()
    commit = Commit(
        publications=told.publications,
        state=told.state_text,
        wake_at=_wake_at(parts, live, now),
        calls=live.notes.calls_text,
        logs=live.notes.logs_text,
        reads=reads_text,
    )
    await _commit(parts, live, parts.store.commit_run, commit, now)


async def _commit(
    parts: Parts, live: Live, verb: Callable[..., Awaitable[bool]], commit: Commit, now: int
) -> None:
    """End a run in one transaction, with what is announced of it (B10)."""
    change = lifecycle.commit(live.run)
    live.is_heard |= await verb(
        live.fence,
        live.id,
        live.stored,
        change,
        commit,
        now=now,
        announce=Announcements(parts).committed(live, change.run),
        closes_unheard=not parts.has_new_handler(),
    )
    live.move(change.run)


# -- The steps themselves -----------------------------------------------------------------------
# They return what a script gave, and change nothing. A real run stores it, a rehearsal does not.


@dataclass(frozen=True, slots=True)
class Told:
    """What a producer or `next` gave: events, and the new state; None keeps the old one."""

    publications: tuple[Publication, ...] = ()
    state_text: str | None = None
    reads_text: str | None = None  # what a producer read, if it published


@dataclass(frozen=True, slots=True)
class Chosen:
    """What `prepare` chose, which events it was offered, and what it read."""

    prepared: Prepared
    offered: Mapping[tuple[str, str], int]
    reads_text: str | None = None


async def ask_producer(parts: StepEnv, live: Live) -> Told:
    """Run a producer to its end (P1, P2)."""
    calls = Calls(parts, live, Step.PRODUCE)
    returned = await calls.until_return((_state(live),), _world(parts, live, calls.step))
    reads_text = await _reads_text(parts, live, calls) if calls.publications else None
    return Told(tuple(calls.publications), await _state_text(parts, returned), reads_text)


async def ask_prepare(parts: StepEnv, live: Live) -> Chosen:
    """Run `prepare`; return what it wants, and what it was offered (C4, C5)."""
    calls = Calls(parts, live, Step.PREPARE)
    returned = await calls.until_return((_state(live),), _world(parts, live, calls.step))
    try:
        given = None if returned is MISSING else returned
        subscribed, limits = live.consumer.subscribe, parts.policy.limits
        prepared = await think(parts.env, given, lambda: parse_prepared(given, subscribed, limits))
    except Invalid as error:
        raise StepFailed(str(error), Failure.LOGIC, code=error.code) from error
    # A run that reserves nothing changes nothing: no newer version is tried on what it read (F3).
    reads_text = None if prepared.is_empty else await _reads_text(parts, live, calls)
    return Chosen(prepared, calls.offered, reads_text)


async def ask_mutate(parts: StepEnv, live: Live) -> tuple[Wanted | None, str | None]:
    """Run `mutate` until it asks for its mutation; return that, if any, and the reads (C8, C9)."""
    if Step.MUTATE not in live.consumer.steps:
        return None, None
    calls = Calls(parts, live, Step.MUTATE)
    wanted = await calls.until_mutation((live.prepared,), _world(parts, live, Step.MUTATE))
    return wanted, await _reads_text(parts, live, calls)


async def ask_next(parts: StepEnv, live: Live) -> Told:
    """Run `next` with how it ended; a consumer without one keeps its state (C10, W3)."""
    if Step.NEXT not in live.consumer.steps:
        return Told()
    calls = Calls(parts, live, Step.NEXT)
    args = (live.prepared, _outcome(live), _state(live))
    returned = await calls.until_return(args, _world(parts, live, Step.NEXT))
    return Told(tuple(calls.publications), await _state_text(parts, returned))


def pin(parts: StepEnv, live: Live, chosen: Chosen, now: int) -> Pinned:
    """Write the prepare result as it is kept for mutate, next and every heir (C6, C13)."""
    return Pinned(
        script_text(chosen.prepared),
        clock_at=now,
        seed=live.chain,
        wake_at_asked=_wake_at_asked(parts, live, chosen.prepared.wake_at_raw, now),
        reads=chosen.reads_text,
    )


def _produced(live: Live, told: Told, now: int) -> str | None:
    """Write down the message ids a producer gave to what it read: a repair must keep them (F3)."""
    if not told.publications:
        return None
    names: list[Json] = [[each.topic, each.message_id] for each in told.publications]
    kept: dict[str, Json] = {
        "run": live.id,
        "handler": live.handler,
        "at": now,
        "state": live.state_text,
        "reads": told.reads_text,
        "published": names,
    }
    return encode(kept, "produced", limit_bytes=PRODUCED_BYTES_MAX)


def _outcome(live: Live) -> Json:
    assert live.run.outcome is not None, live.run
    result = None
    if live.run.outcome is Outcome.APPLIED and live.result_text is not None:
        assert live.run.row is MutationStatus.APPLIED, live.run
        result = decode(live.result_text)
    return dict(mutation_result(live.run.outcome, result))


def _state(live: Live) -> Json | Missing:
    """The state as its handler left it; nothing before its first commit (P2, C12)."""
    return MISSING if live.state_text is None else decode(live.state_text)


async def _reads_text(parts: StepEnv, live: Live, calls: Calls) -> str | None:
    """Write what a step read without secrets, beside the event loop if that is much (X2)."""
    reads, secrets = calls.reads, live.notes.secrets()
    if reads.size_bytes <= READS_AT_ONCE_BYTES:
        return reads.text(secrets)
    return await parts.env.compute(lambda: reads.text(secrets))


async def _state_text(parts: StepEnv, returned: Json | Missing) -> str | None:
    """Write a new state; returning nothing keeps the old one (P2, C10)."""
    if returned is MISSING:
        return None
    limits = parts.policy.limits
    try:
        return await think(
            parts.env,
            returned,
            lambda: encode(
                returned, "state", limit_bytes=limits.state_bytes, depth=limits.json_depth
            ),
        )
    except Invalid as error:
        raise StepFailed(str(error), Failure.LOGIC, code=error.code) from error


def _wake_at(parts: Parts, live: Live, now: int) -> int | None:
    """When the consumer is woken again, as it asked in prepare (S6)."""
    policy = parts.policy
    asked = None if live.pinned is None else live.pinned.wake_at_asked
    return clamp_wake_at(asked, now, policy.wake_min_s, policy.wake_max_s).at_ms


def _wake_at_asked(parts: StepEnv, live: Live, raw: object, now: int) -> str | None:
    """Keep a wakeAt that can be read; ignore any other, and warn its author (S6)."""
    policy = parts.policy
    ignored = clamp_wake_at(raw, now, policy.wake_min_s, policy.wake_max_s).ignored
    if ignored is not None:
        live.notes.warn(now, say_ignored_wake(ignored))
        return None
    return raw if isinstance(raw, str) else None


def _world(parts: StepEnv, live: Live, step: Step) -> World:
    """Time and chance of a step: as they are, or as they stood at the pinning (C13)."""
    pinned_at, first_run = 0, ""
    if live.pinned is not None:
        pinned_at, first_run = live.pinned.clock_at, live.pinned.seed
    clock = step_clock(
        step, now_ms=parts.env.now_ms(), prepared_at_ms=pinned_at, first_run=first_run
    )
    dice = clock.seed
    if dice is None:
        dice = int.from_bytes(parts.env.random_bytes(SEED_BYTES))
    return World(clock.now_ms, clock.is_frozen, dice)
