"""How things ended, what came of them, and what was left, as codes (U2, U7).

Law 1  What the ledger and the events say becomes a code in one table each (U2).
Law 2  Who ended something is a fact beside the code (A6).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from duly.rules.event import EventStatus
from duly.rules.schedule import DAY_MS
from duly.rules.word import Kind, MutationStatus

# -- It is over ---------------------------------------------------------------------------------


class Ended(StrEnum):
    """How a run or its call ended."""

    CHANGE_DONE = "change_done"
    CHANGE_REJECTED = "change_rejected"
    CHANGE_SKIPPED = "change_skipped"
    CHANGE_WITHDRAWN = "change_withdrawn"
    CHANGE_FAILED = "change_failed"
    CHECKED = "checked"
    NOTHING_TO_DO = "nothing_to_do"
    NEEDED_NO_CHANGE = "needed_no_change"
    ABANDONED = "abandoned"
    ENDED_BY_SKIP = "ended_by_skip"
    ENDED_BY_PAUSE = "ended_by_pause"
    ENDED = "ended"
    FOLLOWED = "followed"
    REMOVED = "removed"


SETTLED: Final[Mapping[MutationStatus, Ended]] = {
    MutationStatus.APPLIED: Ended.CHANGE_DONE,
    MutationStatus.REJECTED: Ended.CHANGE_REJECTED,
    MutationStatus.SKIPPED: Ended.CHANGE_SKIPPED,
}
# How a person's act ended a run, by the act's name (R3).
ENDED_BY: Final[Mapping[str, Ended]] = {
    "abandon": Ended.ABANDONED,
    "skip": Ended.ENDED_BY_SKIP,
    "pause": Ended.ENDED_BY_PAUSE,
}


def ended_change(row: MutationStatus, *, is_sent: bool) -> Ended:
    """Say how a change ended that is settled for good (L1)."""
    return SETTLED.get(row) or (Ended.CHANGE_FAILED if is_sent else Ended.CHANGE_WITHDRAWN)


def ended_without_change(kind: Kind, *, has_inputs: bool) -> Ended:
    """Say how work ended that made no change (C7, C9)."""
    if kind is Kind.PRODUCER:
        return Ended.CHECKED
    return Ended.NEEDED_NO_CHANGE if has_inputs else Ended.NOTHING_TO_DO


# -- Outputs and inputs (U2) --------------------------------------------------------------------


class OutputStatus(StrEnum):
    """What became of an output (U2)."""

    DONE = "done"
    UNDER_WAY = "under_way"
    WAITING = "waiting"
    UNKNOWN = "unknown"
    REJECTED = "rejected"
    SKIPPED = "skipped"
    NOT_DONE = "not_done"


OUTPUT_OF: Final[Mapping[MutationStatus, OutputStatus]] = {
    MutationStatus.PROPOSED: OutputStatus.WAITING,
    MutationStatus.IN_FLIGHT: OutputStatus.UNDER_WAY,
    MutationStatus.NEEDS_RECONCILE: OutputStatus.UNKNOWN,
    MutationStatus.INDETERMINATE: OutputStatus.UNKNOWN,
    MutationStatus.APPLIED: OutputStatus.DONE,
    MutationStatus.FAILED: OutputStatus.NOT_DONE,
    MutationStatus.REJECTED: OutputStatus.REJECTED,
    MutationStatus.SKIPPED: OutputStatus.SKIPPED,
}


class Came(StrEnum):
    """What became of an input: of what came of it, or of the input itself (U2)."""

    OUTPUT_DONE = "output_done"
    OUTPUT_UNDER_WAY = "output_under_way"
    OUTPUT_WAITING = "output_waiting"
    OUTPUT_UNKNOWN = "output_unknown"
    OUTPUT_REJECTED = "output_rejected"
    OUTPUT_SKIPPED = "output_skipped"
    OUTPUT_NOT_DONE = "output_not_done"
    INPUT_WAITS = "input_waits"
    INPUT_BEHIND = "input_behind"
    INPUT_HELD_UP = "input_held_up"
    INPUT_LEFT_BEHIND = "input_left_behind"
    INPUT_IN_WORK = "input_in_work"
    INPUT_LED_ON = "input_led_on"
    INPUT_NEEDED_NO_CHANGE = "input_needed_no_change"
    INPUT_SKIPPED = "input_skipped"


UNTOUCHED: Final[Mapping[EventStatus, Came]] = {
    EventStatus.PENDING: Came.INPUT_WAITS,
    EventStatus.RESERVED: Came.INPUT_IN_WORK,
    EventStatus.CONSUMED: Came.INPUT_NEEDED_NO_CHANGE,
    EventStatus.SKIPPED: Came.INPUT_SKIPPED,
}


def came_of(status: OutputStatus) -> Came:
    """Return the code of an input by the most urgent thing that came of it."""
    return Came(f"output_{status}")


def became(
    status: EventStatus,
    *,
    is_left_behind: bool = False,
    is_left: bool = False,
    held_up: Came | None = None,
) -> Came:
    """Say what became of an input from which nothing came, or nothing yet (U2, W9).

    `is_left`: what it led to is still work; `held_up`: what is in its way, where something is.
    """
    if status is EventStatus.PENDING:
        return Came.INPUT_LEFT_BEHIND if is_left_behind else held_up or Came.INPUT_WAITS
    return Came.INPUT_LED_ON if is_left else UNTOUCHED[status]


def is_silent(newest_ms: int, now_ms: int, days: int) -> bool:
    """Tell whether nothing came in for longer than so many days."""
    return now_ms - newest_ms > days * DAY_MS


# -- What else waits for a person (F8) ----------------------------------------------------------


class Waiting(StrEnum):
    """What waits for a person and is no open run; a restored workflow is in `standing.Code`."""

    STALE = "stale"
    SILENT = "silent"
    ORPHANED = "orphaned"
    PROPOSAL = "proposal"
    STRAY = "stray"
    BUS_HELD = "bus_held"
    UNDELIVERED = "undelivered"
    UNREADABLE = "unreadable"
    NO_BACKUP = "no_backup"
    PROPOSED_SOURCE = "proposed_source"
