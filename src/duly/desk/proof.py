"""What a check of the store and a certificate return: facts, and what they cannot show (L15).

Law: what a check cannot see is part of what it returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from duly.desk.record import Ending
from duly.rules.event import EventStatus
from duly.rules.late import LateAnswer
from duly.rules.seal import Flaw, Part
from duly.rules.word import MutationStatus


@dataclass(frozen=True, slots=True)
class Changed:
    """A ledger row or an allowance whose seal does not fit, and why (L15).

    `parts` names what differs from the digest that was sealed.
    """

    id: str
    workflow: str
    flaw: Flaw
    parts: tuple[Part, ...] = ()


class Unseen(StrEnum):
    """What a check of the store cannot see (L15)."""

    REMOVED_ROWS = "removed_rows"  # a whole row is in no seal
    IMITATED_RETENTION = "imitated_retention"  # what retention removes, removed by another program
    OPEN_PROGRESS = (
        "open_progress"  # sends, answers and contents of an open change: sealed at its end
    )
    UNSEALED_RECORDS = "unsealed_records"  # grants, actions, runs, statuses of events, the bus


@dataclass(frozen=True, slots=True)
class Verified:
    """Whether the store is sound: problems in sentences, and the rows that were changed (L15).

    `imported` counts the changes that came in a file: their seals show that they were not changed
    since, not that they were made here. `unseen` says what this check cannot find.
    """

    ok: bool
    problems: tuple[str, ...] = ()
    changed: tuple[Changed, ...] = ()
    imported: int = 0
    unseen: tuple[Unseen, ...] = tuple(Unseen)


@dataclass(frozen=True, slots=True)
class Seal:
    """Whether the seal of a change fits: `flaw` is None if it does (L15).

    `is_final` tells whether the change has ended: only then its outcome is sealed as well.
    `is_imported`: it came in a file, and was sealed here when it was taken in.
    """

    is_whole: bool
    is_final: bool
    key_id: str | None
    flaw: Flaw | None = None
    parts: tuple[Part, ...] = ()
    is_imported: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """An input that a change was made for, by the title its run was shown."""

    topic: str
    message_id: str
    title: str


@dataclass(frozen=True, slots=True)
class Made:
    """All that is known about one change being made once (L15).

    `sends` counts every send, `resends` those made while an earlier one was unknown; all used one
    `key`. `same_key` names other changes with that key. `late` is what sends returned when they
    decided nothing any more.
    """

    id: str
    workflow: str
    tool: str
    status: MutationStatus
    key: str
    hash: str
    inputs: tuple[Taken, ...]
    proposed_at: datetime
    sends: int
    resends: int
    first_sent_at: datetime | None
    last_sent_at: datetime | None
    known: Ending | None
    late: tuple[LateAnswer, ...]
    needed_approval: bool
    approved_by: str | None
    allowance: str | None
    amended_by: str | None
    is_emptied: bool
    same_key: tuple[str, ...]
    seal: Seal


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the ledger shows about one input or one change being made once (L15).

    `topic` and `status` are those of the input; both are None for a change. `applied` and `open`
    count the changes that were made, and those whose outcome is still open.
    """

    id: str
    workflow: str
    topic: str | None
    status: EventStatus | None
    applied: int
    open: int
    changes: tuple[Made, ...]
    unseen: tuple[Unseen, ...] = tuple(Unseen)
