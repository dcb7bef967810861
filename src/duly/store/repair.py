"""Repair: the question is counted before it is asked, and a no is told to a person (F3).

Law 1  Asking is what is counted, on the failed run and on its workflow's day, in the transaction
       before the repairer hears of it: a host that dies while it waits has asked all the same.
       An adopted version is written by `workflow.deploy`, which counts nothing.
Law 2  A repair that was not adopted is kept and explained in one transaction, or neither.
"""

from __future__ import annotations

from duly.errors import Stale
from duly.fact import Reason
from duly.rules.lifecycle import Counts, Run
from duly.rules.reason import keep
from duly.rules.schedule import DAY_MS
from duly.store import statements
from duly.store.base import Fence, Transaction
from duly.store.record import Action, JournalEvent, VersionSpec
from duly.store.workflow import insert_version


def ask_repair(
    tx: Transaction, fence: Fence, run_id: str, old: Run, counts: Counts, *, now: int
) -> None:
    """Count a question to the repairer that is about to be asked (F3); none while paused (F7)."""
    if statements.check(tx, fence).paused:
        raise Stale(code="workflow_paused")
    statements.change_run(
        tx, "ask_repair", fence.workflow_id, run_id, old, old, repair_count=counts.repair, now=now
    )
    tx.write("count_repair", id=fence.workflow_id, day_ms=DAY_MS, now=now)


def decline_repair(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    escalated: Reason,
    *,
    proposal: VersionSpec | None = None,
    action: Action | None = None,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
) -> None:
    """Tell a person that a failed run waits for them, and keep what was proposed (F3, F8).

    The author of a proposed version is recorded with it (A6).
    """
    assert (proposal is None) == (action is None), "a proposal has an author, and nothing else has"
    statements.check(tx, fence)
    statements.change_run(
        tx, "escalate_run", fence.workflow_id, run_id, old, old, escalated=keep(escalated), now=now
    )
    if proposal is not None and action is not None:
        insert_version(tx, fence.workflow_id, proposal, activated_at=None, now=now)
        statements.note(tx, action, now, workflow_id=fence.workflow_id, target=proposal.version)
    statements.announce(tx, announce, now, run_id=run_id)
