"""Breaks of the engine: each takes away what the engine itself adds to the rules and the store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from duly.connectors.base import Call, Unsure
from duly.engine import entry, live, run
from duly.engine.base import Parts, StepFailed
from duly.engine.calls import Calls, Wanted
from duly.engine.ledger import Ledger
from duly.engine.live import Live
from duly.engine.reconciler import Reconciler
from duly.engine.run import Chosen
from duly.engine.scheduler import Engine
from duly.engine.step_env import StepEnv
from duly.engine.worker import Worker
from duly.errors import Invalid
from duly.rules import lifecycle, turn
from duly.rules.access import Step
from duly.rules.ledger import idempotency_key
from duly.rules.lifecycle import Run
from duly.rules.prepared import Judgement, Prepared, parse_prepared, seed
from duly.rules.schedule import Consumer, next_run_at
from duly.rules.turn import Choice, HandlerOutlook, OpenRun, Work
from duly.rules.word import Act, Answer, Progress, Reserved
from duly.rules.word import MutationStatus as Row
from duly.sandbox.base import Result, World
from duly.store.record import Commit, JournalEvent, Key, MutationRow
from tests.breaks import Break

CONSUMER = ("tests/engine/test_consumer.py",)
PINNED = ("tests/engine/test_pinned.py",)
LEDGER = ("tests/engine/test_ledger.py",)
RESEND = ("tests/engine/test_resend.py",)
FAILURE = ("tests/engine/test_failure.py",)
PEOPLE = ("tests/engine/test_people.py",)
LEFT = ("tests/engine/test_left_behind.py",)
SILENCE = ("tests/engine/test_silence.py",)
REDEPLOY = ("tests/engine/test_redeploy.py",)
SCHEDULING = ("tests/engine/test_scheduling.py",)
PRODUCER = ("tests/engine/test_producer.py",)
STOP = ("tests/engine/test_stop.py",)
ANNOUNCE = ("tests/engine/test_announce.py",)

_answer = Calls._answer
_pin = run._pin
_world = run._world
_resume_live = live.resume_live
_applied = Ledger._applied
_choose = turn.choose
_consumer = HandlerOutlook.consumer
_wait = Engine._wait
_show = Calls._show
_make = Ledger.make
_begin_found = Engine._begin_found


# -- Steps ----------------------------------------------------------------------------------------


async def forgive(self: Calls, call: Any) -> Any:
    """Answer a call that failed with nothing, as a script that catches would have it."""
    try:
        return await _answer(self, call)
    except StepFailed:
        return None


def read_leniently(returned: Any, subscribed: Any, limits: Any) -> Prepared:
    try:
        return parse_prepared(returned, subscribed, limits)
    except Invalid:
        return Prepared()


def forget_offers(self: Calls, rows: Any) -> Result:
    kept = dict(self.offered)
    shown = _show(self, rows)
    self.offered.clear()
    self.offered.update(kept)
    return shown


async def pin_without_events(parts: Parts, run_live: Live, chosen: Chosen) -> Judgement:
    empty = replace(chosen.prepared, reservations=())
    return await _pin(parts, run_live, replace(chosen, prepared=empty))


class HearsItOut(Calls):
    """A conversation that answers mutations like reads, and goes on."""

    last: Wanted

    async def _answer(self, call: Any) -> Any:
        found = await _answer(self, call)
        if isinstance(found, Wanted):
            self.offered["last", ""] = 1
            HearsItOut.last = found
            return None
        return found


async def hear_it_out(self: Calls, args: Any, world: World) -> Wanted | None:
    patient = HearsItOut(self.parts, self.live, self.step)
    await patient._converse(args, world)
    return HearsItOut.last if ("last", "") in patient.offered else None


def commit_without_events(**fields: Any) -> Commit:
    return Commit(**{**fields, "publications": ()})


def resume_without_state(outlook: Any, row: Any, limits: Any) -> Live:
    taken = _resume_live(outlook, row, limits)
    taken.state_text = None
    return taken


def dice_of_the_run(parts: StepEnv, run_live: Live, step: Step) -> World:
    world = _world(parts, run_live, step)
    return replace(world, seed=seed(run_live.id, step)) if world.frozen else world


def clock_of_the_step(parts: StepEnv, run_live: Live, step: Step) -> World:
    world = _world(parts, run_live, step)
    return replace(world, now_ms=world.now_ms + 1) if world.frozen else world


def keep_quiet(*_: object, **__: object) -> tuple[JournalEvent, ...]:
    return ()


async def keep_quiet_later(*_: object, **__: object) -> tuple[JournalEvent, ...]:
    return ()


# -- The ledger -----------------------------------------------------------------------------------


async def send_before_writing(
    self: Ledger, run_live: Live, wanted: Wanted, reads_text: str | None
) -> None:
    call = await entry.enter(self._parts, run_live, wanted, reads_text)
    now = self._parts.env.now_ms()
    key = Key(idempotency_key(call.inputs, 0), now)
    sent = self._first(run_live, wanted, call, now, key, None)
    heard = await self._send(run_live, sent)
    new = lifecycle.advance(run_live.run, Progress.SEND)
    run_live.is_out = True
    await self._parts.store.send(run_live.fence, run_live.id, run_live.stored, new, call, now=now)
    run_live.move(new)
    await self._take_in(run_live, sent, heard)


async def send_unapproved(
    self: Ledger, run_live: Live, wanted: Wanted, reads_text: str | None
) -> None:
    await _make(self, run_live, replace(wanted, needs_approval=False), reads_text)


async def ask_nobody(self: Ledger, tool: Any, call: Call) -> Unsure:
    return Unsure("nobody was asked")


async def count_nothing(self: Reconciler, run_live: Live, row: MutationRow, reason: str) -> None:
    await self._wait(run_live, row, 10_000, reason, outage=None)


async def may_be_tried(self: Worker, tool: Any, row: MutationRow) -> None:
    """Refuse nothing."""


async def believe_at_once(
    parts: Any, worker: Any, seen: Any, row: Any, terms: Any, said_ms: int
) -> None:
    """Refuse nothing."""


async def drop_the_result(
    self: Ledger, run_live: Live, mutation_id: str, new: Run, text: str | None, *further: Any
) -> None:
    await _applied(self, run_live, mutation_id, new, None, *further)


# -- What follows ---------------------------------------------------------------------------------


async def follow_while_paused(
    self: Worker, run_live: Live, mutation: MutationRow, *, is_paused: bool
) -> bool:
    await self._reconciler.attempt(run_live, mutation, is_paused=is_paused)
    if run_live.is_active:
        await self._run(run_live)
    return False


async def leave_it_lying(self: Any, run_live: Live) -> None:
    """Lay nothing down: the run looks as if its host had died."""


def trust_every_run(open_run: OpenRun | None, *rest: Any, epoch: int, **named: Any) -> Choice:
    return _choose(open_run, *rest, epoch=0, **named)


def trust_no_act(open_run: OpenRun | None, *rest: Any, **named: Any) -> Choice:
    if open_run is not None and open_run.epoch is None:
        open_run = replace(open_run, epoch=0)
    return _choose(open_run, *rest, **named)


# -- Scheduling -----------------------------------------------------------------------------------


def begin_all(self: Engine, is_draining: bool) -> bool:
    limited = self._parts
    self._parts = replace(limited, policy=replace(limited.policy, runs_max=10_000))
    try:
        return _begin_found(self, is_draining)
    finally:
        self._parts = limited


def see_no_change(handler: HandlerOutlook, wake_max_ms: int) -> Consumer:
    return replace(_consumer(handler, wake_max_ms), changed=0)


async def poll(self: Engine, is_draining: bool) -> None:
    if is_draining:
        await _wait(self, is_draining)
        return
    await self._parts.env.sleep(5)
    self._must_look = True


def at_once(due_at: int | None, set_at: int, now: int, work: Work) -> Choice:
    return Choice(work)


def engine(rule: str, attribute: str, replacement: object, tests: Any, says: str) -> Break:
    module, _, name = attribute.partition(":")
    return Break(rule, f"duly.engine.{module}", name, replacement, tests, says)


def silent(attribute: str, replacement: object, says: str) -> Break:
    return engine("B10", f"announcements:Announcements.{attribute}", replacement, ANNOUNCE, says)


BREAKS = (
    silent("committed", keep_quiet, "nobody hears of a commit"),
    silent("changed", keep_quiet_later, "nobody hears of trouble"),
    silent("proposed", keep_quiet_later, "nobody is asked for a yes"),
    Break(
        "B12",
        "duly.store.statements",
        "depth_after",
        lambda handled, *_: handled + 2,
        ANNOUNCE,
        "a chain grows faster through a workflow than through a handler",
    ),
    engine(
        "R1",
        "live:Notes.call",
        lambda *_: None,
        ("tests/engine/test_limit.py",),
        "a run forgets what it called",
    ),
    engine(
        "C1",
        "run:_state_text",
        lambda parts, returned: '{"of":"other"}',
        PINNED,
        "all handlers are left with one state",
    ),
    engine(
        "C2", "calls:check_access", lambda *_: None, CONSUMER, "any step may use events as it likes"
    ),
    engine("C3", "calls:Calls._answer", forgive, CONSUMER, "a script outlives a call that failed"),
    engine("C4", "run:parse_prepared", read_leniently, CONSUMER, "any answer of prepare will do"),
    engine("C5", "calls:Calls._show", forget_offers, CONSUMER, "nobody knows what was offered"),
    engine("C6", "run:_pin", pin_without_events, CONSUMER, "the answer is pinned, its events not"),
    Break(
        "C7",
        "duly.rules.prepared",
        "Prepared.is_empty",
        property(lambda self: False),
        CONSUMER,
        "mutate runs although nothing was reserved",
    ),
    engine(
        "C8",
        "calls:Calls.until_mutation",
        hear_it_out,
        CONSUMER,
        "mutate goes on after its call, and its last one is sent",
    ),
    engine(
        "C9",
        "run:_outcome",
        lambda _: {"status": "applied", "result": None},
        CONSUMER,
        "a mutate without a call counts as done",
    ),
    engine(
        "C10",
        "run:_outcome",
        lambda run_live: {"status": run_live.run.outcome},
        CONSUMER,
        "next does not hear the result",
    ),
    engine(
        "C11", "run:Commit", commit_without_events, CONSUMER, "a commit loses what was published"
    ),
    engine("C12", "live:resume_live", resume_without_state, PINNED, "a successor has no state"),
    engine("C13", "run:_world", dice_of_the_run, PINNED, "a successor throws other dice"),
    engine("C13", "run:_world", clock_of_the_step, PINNED, "the clock of mutate goes on"),
    engine("A3", "ledger:Ledger.make", send_unapproved, LEDGER, "nobody is asked for approval"),
    engine("L1", "ledger:Ledger.make", send_unapproved, LEDGER, "a proposal is sent"),
    engine(
        "L2",
        "ledger:Ledger.make",
        send_before_writing,
        LEDGER,
        "a call leaves before it is written",
    ),
    Break(
        "L3",
        "duly.rules.lifecycle",
        "INHERITING",
        {**lifecycle.INHERITING, Row.NEEDS_RECONCILE: lifecycle.INHERITING[Row.APPLIED]},
        LEDGER,
        "a call that was out at a crash is taken as done",
    ),
    engine("L4", "ledger:answer_of", lambda _: Answer.REFUSED, LEDGER, "every error is a refusal"),
    engine("L5", "ledger:Ledger.ask", ask_nobody, LEDGER, "the outside is never asked"),
    engine(
        "L5", "reconciler:Reconciler._count", count_nothing, LEDGER, "questions are not counted"
    ),
    engine(
        "L6",
        "sends:Sends.absence_wait_ms",
        lambda self, fence, mutation_id, terms, said_ms=None: 0,
        LEDGER,
        "a no is believed at once",
    ),
    Break(
        "L6",
        "duly.connectors.watch",
        "Watch.is_out",
        property(lambda self: False),
        LEDGER,
        "a send counts as ended when the host no longer waits for it",
    ),
    engine(
        "L7",
        "reconciler:Reconciler._may_resend",
        lambda self, row, terms, firsts, resends: terms.key_lifetime_ms is not None,
        RESEND,
        "an idempotent call is sent for ever",
    ),
    Break(
        "L7",
        "duly.rules.ledger",
        "age_ms",
        lambda first, now: now.at_ms - first.at_ms,
        RESEND,
        "the age of a key is told by the wall clock alone",
    ),
    Break(
        "L7",
        "duly.rules.ledger",
        "is_key_alive",
        lambda terms, firsts, now: terms.key_lifetime_ms is not None,
        RESEND,
        "a key is never forgotten",
    ),
    engine(
        "L1",
        "ledger:Ledger._note_end",
        lambda self, mutation_id, sending: None,
        LEFT,
        "nobody hears a send that was left behind",
    ),
    engine(
        "L6",
        "sends:Sends.is_overdue",
        lambda self, mutation_id, terms: False,
        LEFT,
        "a send that never returns is shown to nobody",
    ),
    engine(
        "L10",
        "settlement:_check_returned",
        lambda worker, row: None,
        LEFT,
        "a person may say no while the send is still out",
    ),
    engine(
        "L13",
        "reconciler:Reconciler._miss",
        count_nothing,
        SILENCE,
        "a question that cannot be asked is asked every ten seconds",
    ),
    Break(
        "L7",
        "duly.rules.ledger",
        "idempotency_key",
        lambda digest, generation: digest,
        RESEND,
        "the engine's key does not know of refusals",
    ),
    engine(
        "L8", "worker:Worker._settle", follow_while_paused, PEOPLE, "an answer is followed at once"
    ),
    engine("L9", "ledger:Ledger._applied", drop_the_result, LEDGER, "the result is not recorded"),
    engine("L10", "settlement:_check_absence", believe_at_once, PEOPLE, "a person knows at once"),
    engine(
        "L10",
        "worker:Worker.check_repeatable",
        may_be_tried,
        PEOPLE,
        "anything can be tried again",
    ),
    engine("L11", "live:Live.title", property(lambda self: None), LEDGER, "the row has no title"),
    Break(
        "R5",
        "duly.rules.lifecycle",
        "_successor",
        lambda stopped: lifecycle.START[stopped.kind],
        CONSUMER,
        "every run the engine follows begins afresh",
    ),
    Break(
        "R6",
        "duly.rules.lifecycle",
        "ACTS",
        {
            **lifecycle.ACTS,
            Act.SKIP_EVENT: {
                row: (to, Reserved.HOLD) for row, (to, _) in lifecycle.ACTS[Act.SKIP_EVENT].items()
            },
        },
        PEOPLE,
        "the events beside a skipped one stay with a run that is over",
    ),
    engine("R7", "worker:choose", trust_every_run, FAILURE, "a crashed run simply goes on"),
    engine(
        "R7", "successor:Successor.put_down", leave_it_lying, STOP, "a stop is counted as a crash"
    ),
    engine("R9", "worker:choose", trust_no_act, PEOPLE, "a retry looks crashed"),
    engine(
        "S1", "scheduler:Engine._begin_found", begin_all, SCHEDULING, "there is no end of slots"
    ),
    engine(
        "S2",
        "run:next_run_at",
        lambda schedule, planned, now, zone: next_run_at(schedule, now, now, zone),
        PRODUCER,
        "the engine forgets the planned time",
    ),
    Break(
        "S3",
        "duly.rules.turn",
        "HandlerOutlook.consumer",
        see_no_change,
        REDEPLOY,
        "changes start no consumer",
    ),
    engine(
        "S4",
        "scheduler:Engine.wake",
        lambda self, workflow_id=None: None,
        SCHEDULING,
        "nobody is woken",
    ),
    Break(
        "S5",
        "duly.rules.turn",
        "order",
        tuple,
        SCHEDULING,
        "the engine takes handlers as they come",
    ),
    engine("S6", "run:_wake_at", lambda *_: None, SCHEDULING, "no wakeAt is kept"),
    Break(
        "S7",
        "duly.rules.schedule",
        "run_now_refusal",
        lambda workflow, open_run, paused: None,
        PEOPLE,
        "a host runs now although a run is open",
    ),
    Break("S8", "duly.rules.turn", "_when", at_once, FAILURE, "a wait is not read from the store"),
    engine("S9", "scheduler:Engine._wait", poll, SCHEDULING, "an idle host polls"),
)
