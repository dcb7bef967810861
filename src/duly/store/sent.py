"""What the store tells of earlier sends by the server's clock: their first, and their end (L6, L7).

Law: a time of that clock is written later than it was where an end is meant, and earlier where a
beginning is: no host believes too early that a call did not happen, or that a key is known still.
"""

from __future__ import annotations

from duly.rules.ledger import FirstSends, Stamp
from duly.rules.word import MutationStatus
from duly.store import statements
from duly.store.base import Fence, Transaction


def list_first_sends(tx: Transaction, key: str) -> FirstSends:
    """List when each row that has this key was first sent, and what the server's clock shows (L7).

    The clock is asked for only if a row was sent by it.
    """
    stamps = tuple(Stamp(*row) for row in tx.all("list_first_sends", key=key))
    is_clocked = any(each.clock_ms is not None for each in stamps)
    return FirstSends(stamps, tx.clock_ms if is_clocked else None)


def note_end(tx: Transaction, fence: Fence, mutation_id: str, attempt: int, in_ms: int) -> bool:
    """Write that all sends of an unknown row end in so long at the latest: 0 if they have (L6).

    Only the host that holds the workflow knows it. Return False if the row is not unknown yet.
    """
    statements.check(tx, fence)
    clock = tx.clock_ms + in_ms
    here = {"id": mutation_id, "workflow_id": fence.workflow_id, "attempt": attempt}
    if tx.run("note_end", **here, clock=clock):
        return True
    (status,) = statements.must(tx.one("find_status", id=mutation_id), f"Mutation {mutation_id}")
    return bool(status != MutationStatus.IN_FLIGHT)


def find_end(tx: Transaction, mutation_id: str) -> int | None:
    """Find from when on no send of a row is out any more; None if its host has not said so (L6)."""
    (ended,) = statements.must(tx.one("find_end", id=mutation_id), f"Mutation {mutation_id}")
    return None if ended is None else int(ended)
