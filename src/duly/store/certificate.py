"""What a certificate is read from: an event by its message id, and the changes it led to (L15)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from duly.store.base import Transaction
from duly.store.parameter import as_set
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
    return tuple(MutationRow(*row) for row in rows)


def list_same_key(tx: Transaction, ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Read, for each change, the others that were sent under its key (L7)."""
    found: dict[str, tuple[str, ...]] = {}
    for each, other in tx.all("list_same_key", ids=as_set(ids), limit=SAME_KEY_MAX):
        found[each] = (*found.get(each, ()), other)
    return found
