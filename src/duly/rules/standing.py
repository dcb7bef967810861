"""How a workflow stands and why, as codes and facts (U1, U7); `words` makes the sentences.

Law 1  One table decides: the first line that applies gives the code and the standing (U1).
Law 2  Every fact comes from the store, never from what a process remembers (U7).
Law 3  What a script calls its change decides nothing (L11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from duly.errors import RequestRefused
from duly.fact import Reason
from duly.rules.blind import BlindCause, blind_facts
from duly.rules.count import Count
from duly.rules.event import EventStatus
from duly.rules.failure import RECORD_LOST, WRONG_SET_UP
from duly.rules.late import LateAnswer
from duly.rules.lease import Uncompared
from duly.rules.lifecycle import Run, act
from duly.rules.permission import Lack
from duly.rules.schedule import DAY_MS, moment
from duly.rules.share import Unserved, unserved_facts
from duly.rules.standing_code import Code as Code
from duly.rules.standing_code import Doing as Doing
from duly.rules.word import Act, Kind, MutationStatus, Phase, Status, Waits, Way

INPUTS_SHOWN: Final = 5  # titles that a reason carries; it counts the others


class Standing(StrEnum):
    """How a workflow stands, the most urgent first (U1)."""

    NEEDS_ATTENTION = "needs attention"
    STOPPED = "stopped"
    RUNNING = "running"
    IDLE = "idle"


FINISHING: Final[Mapping[MutationStatus | None, Doing]] = {
    MutationStatus.APPLIED: Doing.FINISHING_APPLIED,
    MutationStatus.REJECTED: Doing.FINISHING_REJECTED,
    MutationStatus.SKIPPED: Doing.FINISHING_SKIPPED,
}


@dataclass(frozen=True, slots=True)
class TriedYes:
    """A yes to the same call that came to nothing: which change, when, whose, and why."""

    change: str
    at_ms: int
    by: str
    message: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What the store knows of a workflow and of its open run. Times are milliseconds.

    `way` is who moves the run on, `needs` the connection, secret or capability that it waits for,
    `title` what the script calls its change, `tool` the call the host saw, `inputs` the titles of
    what it works on. `is_unsent`: approved and not sent yet; `may_settle`: the outside could not
    be asked for an hour, so the person may settle (L5); `can_be_asked`: the outside can tell what
    became of a call, else it is sent again, which a pause forbids; `lack`: what is not granted
    here, None if the outside itself refused. `escalated` is what a person was told, `copied_at_ms`
    the moment up to which the store knows what was done, `blind_cause` why no further (H5, H10).
    Without an open run: `is_due`, something would begin at once; `held_until_ms`, until when a
    consumer that only published is held back (S3); the next check and wake-up; what is pending.
    `is_scheduled`: another handler than that of the run has a schedule, which waits for it (S1).
    """

    run: Run | None = None
    way: Way = Way.HOST
    paused: bool = False
    escalated: Reason | None = None
    needs: str | None = None
    title: str | None = None
    due_at_ms: int | None = None
    tool: str | None = None
    workflow: str = ""
    subject: str = ""
    service: str = ""
    inputs: tuple[str, ...] = ()
    message: str = ""
    attempts: int = 0
    suspect: str = ""
    pending: tuple[Count, ...] = ()
    is_scheduled: bool = False
    error_code: str = ""  # of what stopped it
    tried: TriedYes | None = None  # an earlier yes to the call that waits
    lack: Lack | None = Lack.CAPABILITY
    can_be_asked: bool = True
    is_unsent: bool = False
    may_settle: bool = False
    unreachable_since_ms: int | None = None
    late: tuple[LateAnswer, ...] = ()
    paused_by: str = ""
    paused_since_ms: int | None = None
    copied_at_ms: int | None = None
    blind_cause: BlindCause = BlindCause.BACKUP
    machine: str | None = None  # where its files are, if no host serves there (H7)
    unserved: Unserved | None = None  # the tools that no host has (H7)
    uncompared: Uncompared | None = None  # the host for which all wait (H10)
    is_due: bool = False
    held_until_ms: int | None = None
    check_at_ms: int | None = None
    wake_at_ms: int | None = None
    can_be_run: bool = False

    @property
    def status(self) -> Status | None:
        """The open run's status."""
        return self.run.status if self.run else None

    @property
    def row(self) -> MutationStatus | None:
        """What the ledger says of its call."""
        return self.run.row if self.run else None

    @property
    def has_call_out(self) -> bool:
        """Whether a call has begun, so that the host hears it to its end, paused or not (F7)."""
        is_out = self.row is MutationStatus.IN_FLIGHT
        return is_out and self.status is Status.ACTIVE and not self.is_unsent

    @property
    def is_unblocked(self) -> bool:
        """Whether what it waited for has come, so that the host moves it on by itself (F4)."""
        waits = self.run.waits if self.run else None
        return waits in (Waits.CONNECTION, Waits.GRANT) and self.due_at_ms is not None

    @property
    def is_escalated(self) -> bool:
        """Whether a person was asked; a fault of our own is told too, and U1 calls it stopped."""
        is_ours = self.status is Status.FAILED_INTERNAL
        return self.escalated is not None and not is_ours and not self.is_unblocked

    @property
    def doing(self) -> Doing | None:
        """What its open run does."""
        run = self.run
        if run is None:
            return None
        if run.kind is Kind.PRODUCER:
            return Doing.CHECKING
        if run.phase is Phase.PREPARING:
            return Doing.CHOOSING
        return Doing.WORKING if run.outcome is None else FINISHING.get(run.row, Doing.FINISHING)

    @property
    def stands_still(self) -> bool:
        """Whether nothing else of the workflow begins until something else happens (F6)."""
        return (self.way is not Way.HOST or self.paused) and not self.has_call_out


# -- The table (U1) -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: where it applies, and what it is called."""

    code: Code
    standing: Standing
    applies: Callable[[Facts], bool]


def secret_of(needs: str | None) -> str | None:
    """Return the secret a run waits for, where it waits for one of a connection (F4)."""
    return (needs or "").partition(".")[2] or None


def _waits(waits: Waits) -> Callable[[Facts], bool]:
    return lambda facts: (
        facts.run is not None
        and facts.run.status is Status.PAUSED_APPROVAL
        and facts.run.waits is waits
        and not facts.is_unblocked
    )


def _lacks(lack: Lack | None) -> Callable[[Facts], bool]:
    return lambda facts: _waits(Waits.GRANT)(facts) and facts.lack is lack


def _is(status: Status) -> Callable[[Facts], bool]:
    return lambda facts: facts.status is status


def _for_person(status: Status, row: MutationStatus | None = None) -> Callable[[Facts], bool]:
    """Tell a failure that waits for a person, and the ledger's word where it matters."""
    return lambda facts: (
        facts.status is status and (row is None or facts.row is row) and needs_person(facts)
    )


def _needs_owner(code: str) -> Callable[[Facts], bool]:
    return lambda facts: _for_person(_LOGIC)(facts) and facts.error_code == code


def _is_resending(facts: Facts) -> bool:
    return _is_asking(facts) and facts.row is MutationStatus.IN_FLIGHT


def _is_blind(cause: BlindCause) -> Callable[[Facts], bool]:
    return lambda it: it.paused and it.copied_at_ms is not None and it.blind_cause is cause


_NEEDS, _STOPPED, _RUNNING, _IDLE = Standing
_LOGIC, _TRANSIENT = Status.FAILED_LOGIC, Status.PAUSED_TRANSIENT
_is_asking: Final = _is(Status.PAUSED_RECONCILIATION)

# What only a person can answer.
ASKED: Final = (
    Line(Code.OUTCOME_UNKNOWN, _NEEDS, lambda facts: facts.row is MutationStatus.INDETERMINATE),
    Line(Code.NEEDS_APPROVAL, _NEEDS, _waits(Waits.APPROVAL)),
    Line(
        Code.NEEDS_SECRET,
        _NEEDS,
        lambda facts: _waits(Waits.CONNECTION)(facts) and secret_of(facts.needs) is not None,
    ),
    Line(Code.NEEDS_CONNECTION, _NEEDS, _waits(Waits.CONNECTION)),
    Line(Code.DAILY_LIMIT_REACHED, _NEEDS, _lacks(Lack.MUTATIONS_PER_DAY)),
    Line(Code.GRANT_TOO_NARROW, _NEEDS, _lacks(Lack.WHERE)),
    Line(Code.DENIED_OUTSIDE, _NEEDS, _lacks(None)),
    Line(Code.NEEDS_GRANT, _NEEDS, _waits(Waits.GRANT)),
)
# What went wrong and waits for a person.
FAILED: Final = (
    Line(Code.FAILED_AFTER_CHANGE, _NEEDS, _for_person(_LOGIC, MutationStatus.APPLIED)),
    Line(Code.FAILED_AFTER_REJECTION, _NEEDS, _for_person(_LOGIC, MutationStatus.REJECTED)),
    Line(Code.FAILED_AFTER_SKIP, _NEEDS, _for_person(_LOGIC, MutationStatus.SKIPPED)),
    Line(Code.RECORD_LOST, _NEEDS, _needs_owner(RECORD_LOST)),
    Line(Code.WRONG_SET_UP, _NEEDS, _needs_owner(WRONG_SET_UP)),
    Line(Code.CALL_REFUSED, _NEEDS, _for_person(_LOGIC, MutationStatus.FAILED)),
    Line(
        Code.FAILED_CHOOSING,
        _NEEDS,
        lambda facts: (
            _for_person(_LOGIC)(facts) and facts.doing in (Doing.CHECKING, Doing.CHOOSING)
        ),
    ),
    Line(Code.SCRIPT_FAILED, _NEEDS, _for_person(_LOGIC)),
    Line(Code.RETRIES_EXHAUSTED, _NEEDS, _for_person(_TRANSIENT)),
    Line(Code.CRASHED_TOO_OFTEN, _NEEDS, _for_person(Status.CRASHED)),
    Line(Code.ESCALATED, _NEEDS, lambda facts: facts.is_escalated),
    *(Line(Code(cause), _NEEDS, _is_blind(cause)) for cause in BlindCause),
    Line(Code.INTERNAL_FAULT, _STOPPED, _is(Status.FAILED_INTERNAL)),
)
# What a person paused.
PAUSED: Final = (
    Line(Code.PAUSED_UNBLOCKED, _STOPPED, lambda facts: facts.paused and facts.is_unblocked),
    Line(Code.PAUSED_UNSENT, _STOPPED, lambda facts: facts.paused and facts.is_unsent),
    Line(Code.PAUSED_SENDING, _STOPPED, lambda facts: facts.paused and facts.has_call_out),
    Line(Code.PAUSED_RESENDING, _STOPPED, lambda facts: facts.paused and _is_resending(facts)),
    Line(
        Code.PAUSED_UNASKABLE,
        _STOPPED,
        lambda facts: facts.paused and _is_asking(facts) and not facts.can_be_asked,
    ),
    Line(Code.PAUSED_ASKING, _STOPPED, lambda facts: facts.paused and _is_asking(facts)),
    Line(Code.PAUSED, _STOPPED, lambda facts: facts.paused),
    Line(Code.WAITS_FOR_MACHINE, _STOPPED, lambda facts: facts.machine is not None),
    Line(Code.WAITS_FOR_TOOL, _STOPPED, lambda facts: facts.unserved is not None),
)
# What the host moves on by itself.
MOVING: Final = (
    Line(Code.WAITS_FOR_HOST, _RUNNING, lambda facts: facts.uncompared is not None),
    Line(Code.UNBLOCKED, _RUNNING, lambda facts: facts.is_unblocked),
    Line(Code.UNSENT, _RUNNING, lambda facts: facts.is_unsent),
    Line(Code.RESENDING, _RUNNING, _is_resending),
    Line(Code.SENDING, _RUNNING, lambda facts: facts.row is MutationStatus.IN_FLIGHT),
    Line(Code.UNASKED, _RUNNING, lambda facts: _is_asking(facts) and facts.may_settle),
    Line(Code.ASKING, _RUNNING, _is_asking),
    Line(
        Code.UNREACHABLE,
        _RUNNING,
        lambda facts: facts.status is _TRANSIENT and facts.unreachable_since_ms is not None,
    ),
    Line(Code.RETRYING, _RUNNING, _is(_TRANSIENT)),
    Line(Code.REPAIRING, _RUNNING, _is(_LOGIC)),
    Line(
        Code.INTERRUPTED_AGAIN,
        _RUNNING,
        lambda facts: facts.status is Status.CRASHED and facts.due_at_ms is not None,
    ),
    Line(Code.INTERRUPTED, _RUNNING, _is(Status.CRASHED)),
    Line(Code.AT_WORK, _RUNNING, lambda facts: facts.run is not None),
)
# Nothing is open; the last line always applies.
RESTING: Final = (
    Line(Code.DUE, _IDLE, lambda facts: facts.is_due),
    Line(Code.HELD_BACK, _IDLE, lambda facts: facts.held_until_ms is not None),
    Line(Code.LEFT_PENDING, _IDLE, lambda facts: bool(facts.pending)),
    Line(
        Code.SCHEDULED,
        _IDLE,
        lambda facts: facts.check_at_ms is not None or facts.wake_at_ms is not None,
    ),
    Line(Code.IDLE, _IDLE, lambda facts: True),
)
LINES: Final = (*ASKED, *FAILED, *PAUSED, *MOVING, *RESTING)

TIMED: Final = (Way.BACKOFF, Way.RECONCILER)
UNFINISHED: Final = frozenset({EventStatus.PENDING, EventStatus.RESERVED})
# Which of them stop everything else of the workflow, whether something is pending or not.
BLOCKING: Final = frozenset({Code.OUTCOME_UNKNOWN, Code.INTERNAL_FAULT})


@dataclass(frozen=True, slots=True)
class StandingReason:
    """A standing and the reason that goes with it."""

    standing: Standing
    reason: Reason


def read(facts: Facts) -> StandingReason:
    """Decide how a workflow stands, and why (U1)."""
    line = next(line for line in LINES if line.applies(facts))
    return StandingReason(line.standing, Reason(line.code, facts.subject, _told(facts, line.code)))


def escalate(facts: Facts) -> Reason:
    """Say why a person is needed (F8); what they were told before does not matter any more."""
    return read(facts).reason


def _told(facts: Facts, code: Code) -> dict[str, Any]:
    """List the facts that are known, by the names that sentences use."""
    connection, _, secret = (facts.needs or "").partition(".")
    before = {} if facts.escalated is None else facts.escalated.facts
    has_secret = code is Code.NEEDS_SECRET
    tried = facts.tried if code is Code.NEEDS_APPROVAL else None
    blocks = facts.stands_still and (bool(facts.pending) or facts.is_scheduled or code in BLOCKING)
    told: dict[str, Any] = {
        "workflow": facts.workflow,
        "doing": facts.doing,
        "inputs": facts.inputs[:INPUTS_SHOWN],
        "more_inputs": max(0, len(facts.inputs) - INPUTS_SHOWN),
        "tool": facts.tool,
        "title": facts.title,
        "service": facts.service,
        "needs": None if has_secret else facts.needs,
        "connection": connection if has_secret else None,
        "secret": secret if has_secret else None,
        "message": facts.message,
        "tried": tried and tried.change,
        "tried_at": _at(None if tried is None else tried.at_ms),
        "tried_by": tried and tried.by,
        "tried_error": tried and tried.message,
        "attempts": facts.attempts,
        "retry_at": _at(facts.due_at_ms),
        "unreachable_since": _at(facts.unreachable_since_ms),
        "may_settle": facts.may_settle,
        "suspect": facts.suspect,
        "late": tuple(each.facts for each in facts.late),
        "paused_by": facts.paused_by if facts.paused else None,
        "paused_since": _at(facts.paused_since_ms) if facts.paused else None,
        **(blind_facts(facts.copied_at_ms, facts.blind_cause) if facts.paused else {}),
        "machine": facts.machine,
        **unserved_facts(facts.unserved),
        **({} if facts.uncompared is None else facts.uncompared.facts),
        "blocks": facts.run is not None and blocks,
        "pending": facts.pending,
        "schedule": facts.run is not None and blocks and facts.is_scheduled,
        "held_until": _at(facts.held_until_ms),
        "check_at": _at(facts.check_at_ms),
        "wake_at": _at(facts.wake_at_ms),
        "can_be_run": facts.run is None and facts.can_be_run,
        "said": before.get("said"),
        "unrepaired": before.get("unrepaired"),
        "proposed": before.get("proposed"),
    }
    return {name: each for name, each in told.items() if each not in (None, "", (), 0, False)}


def _at(at_ms: int | None) -> object:
    return None if at_ms is None else moment(at_ms)


def needs_person(facts: Facts) -> bool:
    """Tell whether only a person can move an open run on; a pause is their own act (F8)."""
    return (facts.way is Way.PERSON or facts.escalated is not None) and not facts.is_unblocked


# -- Who moves it on, and when (U7) -------------------------------------------------------------


class Mover(StrEnum):
    """Who or what moves something on."""

    HOST = "host"
    BACKOFF = "backoff"
    REPAIR = "repair"
    RECONCILER = "reconciler"
    PERSON = "person"
    RESUME = "resume"  # the person who resumes the workflow
    SUBSCRIBER = "subscriber"  # a program that connects it
    NOTHING = "nothing"  # it is over


def mover(facts: Facts) -> tuple[Mover, int | None]:
    """Say who moves an open run on, and at what time, if there is one."""
    # F7: what goes on although the workflow is paused sends nothing new.
    goes_on = facts.has_call_out or facts.status is Status.PAUSED_RECONCILIATION
    if facts.paused and not goes_on:
        return Mover.RESUME, None
    return Mover(facts.way), facts.due_at_ms if facts.way in TIMED else None


def offered(run: Run, *, is_paused: bool, is_told: bool = False) -> tuple[Act, ...]:
    """List what a person can do to a run, by asking the rules for each act (R9)."""
    acts = [each for each in Act if each is not Act.PAUSE or not is_paused]
    return tuple(each for each in acts if _is_offered(run, each, is_paused, is_told))


def _is_offered(run: Run, each: Act, is_paused: bool, is_told: bool) -> bool:
    try:
        act(run, each, is_paused=is_paused, is_told=is_told)
    except RequestRefused:
        return False
    return True


# -- Inputs (U2, U4) ----------------------------------------------------------------------------


class InputStatus(StrEnum):
    """What became of an input (U2)."""

    PENDING = "pending"
    SKIPPED = "skipped"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class CausedEvent:
    """The input itself, or an event that was published because of it."""

    status: EventStatus
    has_consumer: bool
    is_orphaned: bool = False


def input_status(caused: Iterable[CausedEvent]) -> InputStatus:
    """Return what became of an input; an event without a consumer is an output, not work (U2).

    What a newer version left behind is still not done (W9): it waits for a person to skip it.
    """
    statuses = {event.status for event in caused if event.has_consumer or event.is_orphaned}
    if statuses & UNFINISHED:
        return InputStatus.PENDING
    return InputStatus.SKIPPED if statuses == {EventStatus.SKIPPED} else InputStatus.DONE


def is_stale(event: CausedEvent, created_at_ms: int, now_ms: int, stale_after_days: int) -> bool:
    """Tell whether an event has waited longer than work should (U4)."""
    is_work = event.has_consumer and event.status is EventStatus.PENDING
    return is_work and now_ms - created_at_ms > stale_after_days * DAY_MS
