"""How things ended, what came of them, and what was left, in sentences for a person (U2, U7).

Law 1  The words of the ledger become words a person understands in one table (U2, U5).
Law 2  Who ended something is said by name (A6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from duly.rules.event import EventStatus
from duly.rules.ledger import Knowledge
from duly.rules.word import Kind, Known, MutationStatus
from duly.rules.wording import capital, in_quotes, name_all, quote

# -- It is over ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Past:
    """Something that has ended: when, by whom if a person ended it, and what it was about.

    `verb` is what that person did, `message` what went wrong; `is_sent` says whether a call left,
    `is_resent` whether it was sent again while nobody knew (L7), `is_back` whether what it was
    about is still to be done.
    """

    at: str
    change: str = ""
    inputs: tuple[str, ...] = ()
    by: str = ""
    verb: str = ""
    message: str = ""
    is_sent: bool = True
    is_resent: bool = False
    is_back: bool = False

    @property
    def subject(self) -> str:
        """What it was about."""
        return name_all(self.inputs)

    @property
    def again(self) -> str:
        """That what it was about is not lost."""
        if not self.is_back:
            return ""
        return f"; {self.subject} {'is' if len(self.inputs) == 1 else 'are'} taken up again"

    @property
    def for_subject(self) -> str:
        """The change, and what it was for."""
        return f"{self.change} for {self.subject}" if self.inputs else self.change


def explain_change(past: Past, row: MutationStatus) -> str:
    """Say how a change ended that is settled for good (L1)."""
    by = f" by {past.by}" if past.by else ""
    if row is MutationStatus.APPLIED:
        resent = ", sent once more in a way that cannot make it twice" if past.is_resent else ""
        said = f", as {past.by} said" if past.by else resent
        return f"Done on {past.at}{said}: {past.for_subject}."
    if row is MutationStatus.REJECTED:
        return f"Declined{by} on {past.at}: {past.for_subject} was not sent."
    if row is MutationStatus.SKIPPED:
        return (
            f"Skipped{by} on {past.at}: whether {past.for_subject} happened is left open, "
            "and it is never sent again."
        )
    if not past.is_sent:
        return f"Withdrawn on {past.at}: {past.for_subject} was never sent{past.again}."
    why = quote(past.message)
    return f"Not done on {past.at}: {past.for_subject}{f' ended with {why}' if why else ''}."


# How an outcome became known, in words (L12).
KNOWN: Final[Mapping[Known, str]] = {
    Known.ANSWERED: "The outside answered{said}.",
    Known.ASKED: "The outside was asked, and said{said}.",
    Known.SENT_AGAIN: "It was sent again, and that was answered{said}.",
    Known.SETTLED: "Settled by {by}{said}.",
    Known.UNSENT: "The reason given{said}.",
}


def explain_known(known: Knowledge) -> str:
    """Say how an outcome became known; that nothing was sent is said before."""
    if known.how is Known.UNSENT and not known.said:
        return ""
    said = f": {known.said.rstrip('.')}" if known.said else ""
    return KNOWN[known.how].format(by=known.by or "a person", said=said)


def explain_nothing_done(past: Past, kind: Kind) -> str:
    """Say how work ended that made no change (C7, C9)."""
    if kind is Kind.PRODUCER:
        return f"Done on {past.at}: it checked for something new."
    if not past.inputs:
        return f"Done on {past.at}: it looked, and there was nothing to do."
    return f"Done on {past.at}: {past.subject} needed no change."


# How a person's act ended something, by the act's name (R3).
ENDED: Final[Mapping[str, str]] = {
    "abandon": "Given up by {by} on {at}",
    "skip": "Ended on {at}, when {by} skipped what it worked on",
    "pause": "Dropped on {at}, when {by} paused the workflow",
}
# What is left of it, by what the ledger says of its call (R9).
LEFT: Final[Mapping[MutationStatus | None, str]] = {
    MutationStatus.APPLIED: "{change} is done and stays so",
    MutationStatus.REJECTED: "{change} was declined and not sent",
    MutationStatus.SKIPPED: "whether {change} happened is left open",
}


def explain_abandoned(past: Past, row: MutationStatus | None) -> str:
    """Say who ended something, and what is left of it (A6, R9)."""
    ended = ENDED.get(past.verb, "Ended on {at}").format(by=past.by, at=past.at)
    if row in LEFT:
        return f"{ended}: {LEFT[row].format(change=past.for_subject)}."
    about = f" for {past.subject}" if past.inputs else ""
    return f"{ended}: nothing was changed{about}{past.again}."


def explain_followed(past: Past) -> str:
    """Say that this was an earlier attempt (R5)."""
    why = quote(past.message)
    ended = f"it ended on {past.at}{f' with {why}' if why else ''}"
    return f"An earlier attempt: {ended}, and the work was taken up again."


# -- Outputs and inputs (U2) --------------------------------------------------------------------


class OutputStatus(StrEnum):
    """What became of an output, in words a person understands (U2)."""

    DONE = "done"
    UNDER_WAY = "under way"
    WAITING = "waiting for you"
    UNKNOWN = "not known yet"
    DECLINED = "declined"
    SKIPPED = "skipped"
    NOT_DONE = "not done"


OUTPUT_OF: Final[Mapping[MutationStatus, OutputStatus]] = {
    MutationStatus.PROPOSED: OutputStatus.WAITING,
    MutationStatus.IN_FLIGHT: OutputStatus.UNDER_WAY,
    MutationStatus.NEEDS_RECONCILE: OutputStatus.UNKNOWN,
    MutationStatus.INDETERMINATE: OutputStatus.UNKNOWN,
    MutationStatus.APPLIED: OutputStatus.DONE,
    MutationStatus.FAILED: OutputStatus.NOT_DONE,
    MutationStatus.REJECTED: OutputStatus.DECLINED,
    MutationStatus.SKIPPED: OutputStatus.SKIPPED,
}
CAME_OF_IT: Final[Mapping[OutputStatus, str]] = {
    OutputStatus.DONE: "{change} is done",
    OutputStatus.UNDER_WAY: "{change} is under way",
    OutputStatus.WAITING: "{change} waits for you",
    OutputStatus.UNKNOWN: "Whether {change} happened is not known yet",
    OutputStatus.DECLINED: "{change} was declined and not sent",
    OutputStatus.SKIPPED: "{change} was skipped; whether it happened is left open",
    OutputStatus.NOT_DONE: "{change} was not done",
}
UNTOUCHED: Final[Mapping[EventStatus, str]] = {
    EventStatus.PENDING: "It waits to be taken up",
    EventStatus.RESERVED: "It is being worked on",
    EventStatus.CONSUMED: "It was looked at and needed no change",
    EventStatus.SKIPPED: "It was skipped",
}


# What else an input led to, when it was itself looked at and is not done all the same (U2).
LED_TO: Final = "what came of it is still worked on or waits to be taken up"


def explain_output(
    change: str,
    status: OutputStatus,
    more: int = 0,
    *,
    is_cut: bool = False,
    is_left: bool = False,
) -> str:
    """Say what came of an input, of how much more, and whether some of it is still work (U2)."""
    said = capital(CAME_OF_IT[status].format(change=change))
    further = f", and {'at least ' * is_cut}{more} more" if more else ""
    return f"{said}{further}{f'; {LED_TO}' if is_left else ''}."


def explain_untouched(
    status: EventStatus,
    *,
    by: str = "",
    is_left_behind: bool = False,
    is_left: bool = False,
    held_up: str = "",
) -> str:
    """Say what became of an input from which nothing came, or nothing yet (U2, W9).

    `held_up` says what is in its way, where something is.
    """
    if is_left_behind and status is EventStatus.PENDING:
        return "A newer version left it behind; it waits to be skipped."
    if held_up and status is EventStatus.PENDING:
        return held_up
    if is_left:
        return f"It was looked at; {LED_TO}."
    return f"{UNTOUCHED[status]} by {by}." if by else f"{UNTOUCHED[status]}."


def explain_held_up(titles: tuple[str, ...], *, is_yours: bool) -> str:
    """Say that something else of its workflow has to go on before this does (F6)."""
    if titles:
        waits = "which waits for you" if is_yours else "which is not done yet"
        return f"It waits behind {name_all(titles)}, {waits}."
    return f"It waits until its workflow goes on{', which waits for you' if is_yours else ''}."


# -- What else waits for a person ---------------------------------------------------------------


def explain_stale(count: str, days: int, oldest: str, since: str) -> str:
    """Say that work has waited too long (U4)."""
    first = in_quotes(oldest)
    return (
        f"Waiting for more than {days} days: {count}, the oldest {first}, since {since}. "
        "Find out why the script leaves them, or skip them."
    )


def explain_orphaned(count: str, oldest: str, version: str) -> str:
    """Say that a newer version left work behind (W9)."""
    first = in_quotes(oldest)
    return (
        f"Left behind: {count}, the oldest {first}; version {version} does not take them. "
        "Skip them, or deploy a version that takes them."
    )


def explain_proposal(version: str, since: str) -> str:
    """Say that a repair waits to be adopted (F3)."""
    return (
        f"A corrected script, version {version}, was proposed on {since} and is not in use. "
        "Compare it with what is in use, then adopt it or deploy your own."
    )


def explain_stray(titles: tuple[str, ...]) -> str:
    """Say that something is held by nobody (R7)."""
    return (
        f"Nobody works on {name_all(titles)} any more, and still nobody else can: a fault of Duly. "
        "Report it with what host.verify() finds; nothing is lost and nothing is done twice."
    )


def explain_restored(paused: str) -> str:
    """Say that a workflow came back out of a backup (H5)."""
    return (
        f"{capital(paused)}. Compare what it is about to do with what is there already, "
        "then resume it."
    )


def explain_held(copied: str) -> str:
    """Say that the bus came back out of a backup (H5)."""
    return (
        f"The event bus was restored from a backup of {copied} and tells nobody anything: what it "
        "was to tell then may have been told since. Look at what waits there, cancel what must not "
        "happen again, then resume it."
    )


def explain_undelivered(count: str, receiver: str, message: str) -> str:
    """Say that something on the bus never reached its receiver (B5)."""
    why = quote(message)
    return (
        f"Given up on the bus: {count}, the oldest for {in_quotes(receiver)}"
        f"{f', with {why}' if why else ''}. "
        "When the receiver is mended, have them delivered again, or discard them."
    )


def explain_unreadable(count: str, connector: str, name: str) -> str:
    """Say that secrets cannot be read any more (A5)."""
    return (
        f"Nobody can read {count}, the first {in_quotes(name)} of {connector}. "
        "Open the host with the key they were sealed with, set them again, or drop them."
    )
