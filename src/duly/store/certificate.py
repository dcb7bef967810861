"""What a certificate is read from: an event by its message id, and the changes it led to (L15)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from duly.store import ledger
from duly.store.base import Transaction
from duly.store.record import MutationRow

CHANGES_MAX: Final = 100  # of one input; a certificate of more is not read by a person
SAME_KEY_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class InputRow:
    """An event, by its topic and number."""

    topic: str
    seq: int
    status: str


def find_inputs(
    tx: Transaction, workflow_id: str, topics: Iterable[str], message_id: str
) -> tuple[InputRow, ...]:
    """Find the events of these topics that have this message id."""
    here = {"workflow_id": workflow_id, "message_id": message_id}
    found = ((topic, tx.one("find_event", topic=topic, **here)) for topic in topics)
    return tuple(InputRow(topic, row[0], row[1]) for topic, row in found if row is not None)


def list_changes(tx: Transaction, workflow_id: str, seq: int) -> tuple[MutationRow, ...]:
    """Read the changes that an input led to, oldest first: its own, and of what it caused (T9)."""
    rows = tx.all("list_changes", workflow_id=workflow_id, root=seq, limit=CHANGES_MAX)
    return tuple(ledger.read_mutation(tx, each) for (each,) in rows)


def list_same_key(tx: Transaction, row: MutationRow) -> tuple[str, ...]:
    """Read the other changes that were sent under the key of this one (L7)."""
    rows = tx.all("list_same_key", key=row.key, id=row.id, limit=SAME_KEY_MAX)
    return tuple(each for (each,) in rows)
