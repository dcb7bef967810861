"""Which host runs a workflow: hosts, and their claims on workflows (H2, H6).

Law 1  A host writes to a workflow under the epoch of its own claim. Every claim raises the epoch,
       so a write under an earlier one is refused, whichever host made it.
Law 2  A workflow is free if the host that claimed it last is not here any more. A host is here from
       `join` until it leaves.
Law 3  The host that has the file's lock is the only one: when it joins, the others are gone (H6).
"""

from __future__ import annotations

from duly.errors import Stale
from duly.rules.lifecycle import Run
from duly.store import statements
from duly.store.base import Fence, Transaction


def join(tx: Transaction, host_id: str, *, now: int, lease_until: int | None = None) -> None:
    """Write that a host is here; one without a lease has the file's lock, and is alone (H6)."""
    if lease_until is None:
        tx.run("leave_all")
    tx.run("join_host", id=host_id, lease_until=lease_until, now=now)


def leave(tx: Transaction, host_id: str) -> None:
    """Write that a host ends: what it has claimed is free."""
    tx.run("leave_host", id=host_id)


def claim(tx: Transaction, host_id: str, workflow_id: str) -> Fence:
    """Take a workflow that no other host holds, under a new epoch; refuse one that is held."""
    claimed = tx.one("claim_workflow", id=workflow_id, host=host_id)
    if claimed is None:
        statements.look(tx, workflow_id)
        raise Stale(code="leased", subject=workflow_id)
    return Fence(workflow_id, claimed[0])


def take_up(tx: Transaction, fence: Fence, run_id: str, old: Run) -> None:
    """Write that the holder goes on with a run: if it dies now, the run has crashed (R7)."""
    statements.check(tx, fence)
    statements.check_run(tx, fence, run_id, old)
    tx.run("take_up_run", id=run_id, epoch=fence.epoch)


def list_held_runs(tx: Transaction, host_id: str) -> tuple[str, ...]:
    """List the runs a host has taken up under its claims and that are not stopped."""
    return tuple(run_id for (run_id,) in tx.all("list_held_runs", host=host_id))
