"""What a person is told about a workflow (U of the rules).

Law 1  A workflow has one standing, the first that applies, with one sentence of reason (U1).
Law 2  Every sentence comes from stored facts, never from what a process remembers (U7).
Law 3  The machinery's own words stay one click deeper: nobody needs them to understand how
       things stand, so they do not occur here (U5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from duly.errors import RequestRefused
from duly.rules.event import EventStatus
from duly.rules.lifecycle import Run, act
from duly.rules.schedule import DAY_MS, describe_wait, moment
from duly.rules.word import Act, MutationStatus, Status, Waits, Way
from duly.rules.wording import in_quotes, quote


class Standing(StrEnum):
    """How a workflow stands, the most urgent first (U1)."""

    NEEDS_ATTENTION = "needs attention"
    STOPPED = "stopped"
    RUNNING = "running"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the store knows: the open run, a person's wish, and the words that go with them.

    `waits_for` names the connection or capability that is missing, `title` is what the script
    says it is doing, `tool` the call the host saw, `is_unsent` that it was approved and waits,
    `is_due` that something would begin at once, `is_told` that nobody can be asked what became of
    it and the person may say so (L5); `escalated` is the sentence a person was told,
    `due_at_ms` when the host goes on, `blind_since_ms` the moment a restored copy shows (H5), or,
    `is_log_lost`, a store that lost its log (H1),
    `unreachable_since` says since when nothing outside could be reached (F2).
    """

    run: Run | None = None
    paused: bool = False
    escalated: str | None = None
    waits_for: str | None = None
    title: str | None = None
    due_at_ms: int | None = None
    tool: str | None = None
    blind_since_ms: int | None = None
    paused_by: str = "you"
    is_unsent: bool = False
    is_due: bool = False
    is_log_lost: bool = False
    unreachable_since: str | None = None
    is_told: bool = False

    @property
    def status(self) -> Status | None:
        """The open run's status."""
        return self.run.status if self.run else None

    @property
    def change(self) -> str:
        """The outside change in words: the call that was seen, then what the script calls it (L11).

        Before there is a call there is only the script's word for it.
        """
        if self.tool is None:
            return in_quotes(self.title) if self.title else "a change"
        said = f"the script calls it {in_quotes(self.title)}" if self.title else "no title given"
        return f"{self.tool} ({said})"

    @property
    def has_call_out(self) -> bool:
        """Whether a call has begun, so that the host hears it to its end, paused or not (F7)."""
        is_out = self.run is not None and self.run.row is MutationStatus.IN_FLIGHT
        return is_out and self.status is Status.ACTIVE and not self.is_unsent

    @property
    def is_unblocked(self) -> bool:
        """Whether what it waited for has come, so that the host moves it on by itself (F4)."""
        waits = self.run.waits if self.run else None
        return waits in (Waits.CONNECTION, Waits.GRANT) and self.due_at_ms is not None


@dataclass(frozen=True, slots=True)
class Reading:
    """A standing and the sentence of reason that goes with it."""

    standing: Standing
    reason: str


# -- How a workflow stands (U1) -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the table: where it applies, and what it says."""

    standing: Standing
    applies: Callable[[Facts], bool]
    say: Callable[[Facts, int], str]


def secret_of(waits_for: str | None) -> str | None:
    """Answer the secret a run waits for, where it waits for one of a connection (F4)."""
    return (waits_for or "").partition(".")[2] or None


def missing_secret(waits_for: str | None) -> str:
    """Name a missing secret, and the command that sets it."""
    connection, _, name = (waits_for or "").partition(".")
    return f"the secret “{name}” of {connection}: duly secret set {connection} {name}"


def _waits(waits: Waits) -> Callable[[Facts], bool]:
    return lambda facts: (
        facts.run is not None
        and facts.run.status is Status.PAUSED_APPROVAL
        and facts.run.waits is waits
        and not facts.is_unblocked
    )


def _is(status: Status) -> Callable[[Facts], bool]:
    return lambda facts: facts.status is status


def _has_row(row: MutationStatus) -> Callable[[Facts], bool]:
    return lambda facts: facts.run is not None and facts.run.row is row


def _is_escalated(facts: Facts) -> bool:
    # F5 tells a person about a fault of our own as well, but U1 calls that workflow stopped.
    is_ours = facts.status is Status.FAILED_INTERNAL
    return facts.escalated is not None and not is_ours and not facts.is_unblocked


def _say_wait(facts: Facts, now_ms: int) -> str:
    if facts.due_at_ms is None or facts.due_at_ms <= now_ms:
        return "A passing trouble; trying again now"
    return f"A passing trouble; trying again in {describe_wait(facts.due_at_ms - now_ms)}"


def _is_outage(facts: Facts) -> bool:
    return facts.status is Status.PAUSED_TRANSIENT and facts.unreachable_since is not None


def say_obstacle(facts: Facts, doing: str) -> str:
    """Say what a run waits to be over: an outage and since when, or another temporary error."""
    if facts.unreachable_since is not None:
        return f"The outside cannot be reached since {facts.unreachable_since}"
    return f"Something got in the way while {doing}"


def _say_outage(facts: Facts, now_ms: int) -> str:
    wait_ms = 0 if facts.due_at_ms is None else max(0, facts.due_at_ms - now_ms)
    when = f"in {describe_wait(wait_ms)}" if wait_ms else "now"
    return f"{say_obstacle(facts, '')}; trying again {when}"


def _say_interrupted(facts: Facts, now_ms: int) -> str:
    if facts.due_at_ms is None or facts.due_at_ms <= now_ms:
        return "Going on after an interruption"
    return f"Interrupted again and again; trying again in {describe_wait(facts.due_at_ms - now_ms)}"


def _say_blind(facts: Facts, now_ms: int) -> str:
    at = moment(facts.blind_since_ms or 0)
    told = f"{at.day} {at:%B %Y %H:%M} UTC"
    if facts.is_log_lost:
        return f"The store has lost its log; what was done since {told} is not known here"
    return f"Restored from a backup of {told}; what was done since then is not known here"


_ATTENTION, _STOPPED = Standing.NEEDS_ATTENTION, Standing.STOPPED
_RUNNING, _IDLE = Standing.RUNNING, Standing.IDLE
_SOON: Final = "Nothing under way yet; it begins in a moment"
FAULT: Final = "A fault of Duly or a connector stopped it"

# The first line that applies is the standing; the last one always does.
LINES: Final[tuple[_Line, ...]] = (
    _Line(_ATTENTION, lambda facts: facts.paused and facts.blind_since_ms is not None, _say_blind),
    _Line(
        _ATTENTION,
        _has_row(MutationStatus.INDETERMINATE),
        lambda facts, _: f"Waiting for you to say whether {facts.change} happened",
    ),
    _Line(
        _ATTENTION,
        _waits(Waits.APPROVAL),
        lambda facts, _: f"Waiting for you to approve {facts.change}",
    ),
    _Line(
        _ATTENTION,
        lambda facts: _waits(Waits.CONNECTION)(facts) and secret_of(facts.waits_for) is not None,
        lambda facts, _: f"Waiting for {missing_secret(facts.waits_for)}",
    ),
    _Line(
        _ATTENTION,
        _waits(Waits.CONNECTION),
        lambda facts, _: f"Waiting for you to reconnect {facts.waits_for or 'a connection'}",
    ),
    _Line(
        _ATTENTION,
        _waits(Waits.GRANT),
        lambda facts, _: f"Waiting for you to allow {facts.waits_for or 'what it needs'}",
    ),
    _Line(_ATTENTION, _is_escalated, lambda facts, _: facts.escalated or ""),
    _Line(
        _STOPPED,
        lambda facts: facts.paused and facts.has_call_out,
        lambda facts, _: (
            f"Paused by {facts.paused_by}; {facts.change} under way will still be finished"
        ),
    ),
    _Line(_STOPPED, lambda facts: facts.paused, lambda facts, _: f"Paused by {facts.paused_by}"),
    _Line(
        _STOPPED,
        _is(Status.FAILED_INTERNAL),
        lambda facts, _: facts.escalated or f"{FAULT}; it waits for you",
    ),
    _Line(
        _RUNNING,
        lambda facts: facts.is_unsent,
        lambda facts, _: f"About to send {facts.change}",
    ),
    _Line(
        _RUNNING,
        _has_row(MutationStatus.IN_FLIGHT),
        lambda facts, _: f"Sending {facts.change}",
    ),
    _Line(
        _RUNNING,
        lambda facts: facts.is_told,
        lambda facts, _: f"Nobody can be asked yet whether {facts.change} happened; asking goes on",
    ),
    _Line(
        _RUNNING,
        _is(Status.PAUSED_RECONCILIATION),
        lambda facts, _: f"Finding out whether {facts.change} happened",
    ),
    _Line(_RUNNING, _is_outage, _say_outage),
    _Line(_RUNNING, _is(Status.PAUSED_TRANSIENT), _say_wait),
    _Line(_RUNNING, _is(Status.FAILED_LOGIC), lambda facts, _: "The script is being repaired"),
    _Line(
        _RUNNING,
        lambda facts: facts.is_unblocked,
        lambda facts, _: f"Going on, since {facts.waits_for or 'what it waited for'} is there",
    ),
    _Line(_RUNNING, _is(Status.CRASHED), _say_interrupted),
    _Line(_RUNNING, lambda facts: facts.run is not None, lambda facts, _: "At work"),
    _Line(_IDLE, lambda facts: facts.is_due, lambda facts, _: _SOON),
    _Line(_IDLE, lambda facts: True, lambda facts, _: "Nothing to do right now"),
)


def read(facts: Facts, now_ms: int) -> Reading:
    """Answer how a workflow stands and why, in one sentence (U1)."""
    line = next(line for line in LINES if line.applies(facts))
    return Reading(line.standing, line.say(facts, now_ms))


# How a person is told that only they can move something on (F8); the rest is said by the standing.
ESCALATIONS: Final[Mapping[Status, str]] = {
    Status.FAILED_LOGIC: "The script failed and waits for a correction",
    Status.PAUSED_TRANSIENT: "It was tried again and again without success",
    Status.CRASHED: "The host stopped again and again while this was under way",
    Status.FAILED_INTERNAL: FAULT,
}


def escalate(facts: Facts, message: str, now_ms: int) -> str:
    """Say to a person, in one sentence, what waits for them and what went wrong (F8)."""
    told = ESCALATIONS.get(facts.status) if facts.status else None
    # How often the host stopped are our own words; whatever else went wrong are somebody else's.
    said = message if facts.status is Status.CRASHED else quote(message)
    return f"{told or read(facts, now_ms).reason}{f': {said}' if said else ''}"


# -- What happened lately (U1) ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Count:
    """How many of something, at least if `is_more`; `done` says what became of them (“added”)."""

    count: int
    noun: str
    done: str = ""
    is_more: bool = False

    @property
    def is_one(self) -> bool:
        """Whether it is exactly one."""
        return self.count == 1 and not self.is_more

    def __str__(self) -> str:
        noun = self.noun if self.is_one else plural(self.noun)
        return f"{self.count}{'+' * self.is_more} {noun} {self.done}".rstrip()


NOUN_CHARS_MIN: Final = 3  # a shorter word says nothing to a stranger
INPUT_NOUN: Final = "input"
CHANGE_NOUN: Final = "change"

# What a tool's operation does, by its first word: it is read off the call, never off a title (L11).
DONE: Final[Mapping[str, str]] = {
    "add": "added",
    "append": "added",
    "archive": "archived",
    "create": "created",
    "delete": "deleted",
    "edit": "changed",
    "insert": "added",
    "label": "labelled",
    "move": "moved",
    "post": "posted",
    "remove": "removed",
    "reply": "sent",
    "send": "sent",
    "set": "changed",
    "update": "changed",
    "upload": "uploaded",
}


def noun_of_topic(topic: str) -> str:
    """Name what comes in by the first word of its topic: `emails.received` brings an email (U1)."""
    word = re.split(r"[._-]", topic, maxsplit=1)[0].lower()
    return singular(word) if len(word) >= NOUN_CHARS_MIN and word.isalpha() else INPUT_NOUN


def count_of_tool(tool: str, noun: str | None, count: int, *, is_more: bool = False) -> Count:
    """Count what a tool did, in its own noun, with what its operation does to it (U1)."""
    operation = tool.rpartition(".")[2].partition("_")[0]
    return Count(count, noun or CHANGE_NOUN, DONE.get(operation, f"by {tool}"), is_more)


def add_up(counts: Iterable[Count], most: int) -> tuple[Count, ...]:
    """Add up what has the same noun and the same end, whichever tools did it (U1)."""
    together: dict[tuple[str, str], Count] = {}
    for each in counts:
        before = together.get((each.noun, each.done), Count(0, each.noun, each.done))
        count = before.count + each.count
        is_more = before.is_more or each.is_more or count > most
        together[each.noun, each.done] = replace(each, count=min(count, most), is_more=is_more)
    return tuple(together.values())


def plural(noun: str) -> str:
    """Make an English noun plural by its ending."""
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in ("a", "e", "i", "o", "u", ""):
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def singular(noun: str) -> str:
    """Take an English plural back by its ending; what is no plural stays."""
    if noun.endswith("ies") and len(noun) > len("pies"):
        return f"{noun[:-3]}y"
    if noun.endswith(("sses", "xes", "ches", "shes")):
        return noun[:-2]
    return noun[:-1] if noun.endswith("s") and not noun.endswith(("ss", "us", "is")) else noun


def describe_activity(inputs: Iterable[Count], outputs: Iterable[Count]) -> str:
    """Say what was processed and what came of it: “Processed 3 emails → 3 rows added” (U1)."""
    taken = ", ".join(str(count) for count in inputs if count.count)
    made = ", ".join(str(count) for count in outputs if count.count)
    if not taken:
        return f"→ {made}" if made else "Nothing processed lately"
    return f"Processed {taken} → {made}" if made else f"Processed {taken}"


def describe_pending(*pending: Count) -> str:
    """Say how much work waits (U1)."""
    waiting = ", ".join(str(count) for count in pending if count.count)
    return f"{waiting} waiting" if waiting else "Nothing waiting"


def describe_waiting(*pending: Count) -> str:
    """Say the same to go on from: “2 orders wait”; nothing where nothing does (F6)."""
    counts = [each for each in pending if each.count]
    is_one = len(counts) == 1 and counts[0].is_one
    return f"{', '.join(map(str, counts))} {'waits' if is_one else 'wait'}" if counts else ""


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


UNFINISHED: Final = frozenset({EventStatus.PENDING, EventStatus.RESERVED})


def input_status(caused: Iterable[CausedEvent]) -> InputStatus:
    """Answer what became of an input; what nobody consumes is an output, not work (U2).

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


# -- Why (U7) -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Why:
    """Everything there is to say about an open run; claimed and observed are kept apart (L11)."""

    inputs: tuple[str, ...]
    claimed: str | None
    observed: str | None
    reason: str
    moved_on_by: str
    at_ms: int | None
    offered: tuple[Act, ...]


MOVERS: Final[Mapping[Way, str]] = {
    Way.HOST: "Duly goes on by itself.",
    Way.BACKOFF: "Duly tries again by itself when the time has come.",
    Way.REPAIR: "The repairer is asked for a new version.",
    Way.RECONCILER: "Duly asks the outside what happened, by itself.",
    Way.PERSON: "You decide; nothing happens before.",
}
PAUSED_MOVER: Final = "Nothing follows before you resume the workflow."


def why(
    facts: Facts, way: Way, now_ms: int, *, inputs: tuple[str, ...], observed: str | None = None
) -> Why:
    """Say of an open run what it works on, why it waits, who moves it on, and when (U7)."""
    if facts.run is None:
        raise RequestRefused(code="nothing_open")
    # F7: what goes on although the workflow is paused sends nothing new.
    goes_on = facts.has_call_out or facts.status is Status.PAUSED_RECONCILIATION
    is_held = facts.paused and not goes_on
    is_timed = way in (Way.BACKOFF, Way.RECONCILER) and not is_held
    return Why(
        inputs=inputs,
        claimed=facts.title,
        observed=observed,
        reason=read(facts, now_ms).reason,
        moved_on_by=PAUSED_MOVER if is_held else MOVERS[way],
        at_ms=facts.due_at_ms if is_timed else None,
        offered=offered(facts.run, is_paused=facts.paused, is_told=facts.is_told),
    )


def offered(run: Run, *, is_paused: bool, is_told: bool = False) -> tuple[Act, ...]:
    """List what a person can do to a run, by asking the rules for each act (R9)."""
    return tuple(wish for wish in Act if _is_offered(run, wish, is_paused, is_told))


def _is_offered(run: Run, wish: Act, is_paused: bool, is_told: bool) -> bool:
    if wish is Act.PAUSE and is_paused:
        return False
    try:
        act(run, wish, is_paused=is_paused, is_told=is_told)
    except RequestRefused:
        return False
    return True
