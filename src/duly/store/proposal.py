"""Sources that are proposed and wait for a person (M6)."""

from __future__ import annotations

from dataclasses import dataclass

from duly.errors import NotFound, RequestRefused, see
from duly.rules.proposal import PROPOSALS_MAX
from duly.store import statements
from duly.store.base import Transaction
from duly.store.record import Action


@dataclass(frozen=True, slots=True)
class SourceProposal:
    """A proposed source as it is kept; `active` is the version in use now under its name."""

    hash: str
    workflow: str
    replaces: str | None
    language: str
    source: str
    findings: str
    uses: str
    author: str
    note: str
    created_at: int
    active: str | None = None

    @property
    def is_current(self) -> bool:
        """Tell whether what it replaces is still in use, so that it can be adopted."""
        return self.replaces == self.active


def keep_proposal(tx: Transaction, row: SourceProposal, *, action: Action, now: int) -> bool:
    """Keep a proposal; return false if it is kept already. Those over older versions are dropped.

    A store that holds too many takes no further one.
    """
    if row.replaces is not None:
        tx.write("drop_old_proposals", workflow=row.workflow, replaces=row.replaces)
    count = tx.one("count_proposals")
    assert count is not None
    if tx.one("get_proposal", hash=row.hash) is not None:
        return False
    if count[0] >= PROPOSALS_MAX:
        facts = {"limit": PROPOSALS_MAX, "unit": "proposals"}
        raise RequestRefused(
            code="too_many", subject="proposal", facts=facts, next=see("proposals")
        )
    kept = tx.one(
        "insert_proposal",
        hash=row.hash,
        workflow=row.workflow,
        replaces=row.replaces,
        language=row.language,
        source=row.source,
        findings=row.findings,
        uses=row.uses,
        author=row.author,
        note=row.note,
        now=now,
    )
    if kept is None:
        return False  # another host has kept the same one this moment
    statements.note(tx, action, now, workflow_id=None, target=row.hash)
    return True


def drop_proposal(tx: Transaction, proposal: str, *, action: Action, now: int) -> None:
    """Drop a proposal that a person declined."""
    take_proposal(tx, proposal)
    statements.note(tx, action, now, workflow_id=None, target=proposal)


def take_proposal(tx: Transaction, proposal: str) -> None:
    """Take a proposal away, in the transaction of what becomes of it; a missing one is refused."""
    if not tx.run("drop_proposal", hash=proposal):
        raise no_proposal(proposal)


def get_proposal(tx: Transaction, proposal: str) -> SourceProposal:
    """Read a proposal by its hash."""
    found = tx.one("get_proposal", hash=proposal)
    if found is None:
        raise no_proposal(proposal)
    return SourceProposal(*found)


def list_proposals(tx: Transaction, workflow: str | None = None) -> tuple[SourceProposal, ...]:
    """Read the proposals, newest first; a store holds few."""
    return tuple(
        SourceProposal(*each) for each in tx.all("list_source_proposals", workflow=workflow)
    )


def no_proposal(proposal: str) -> NotFound:
    """Say that there is none of this hash."""
    return NotFound(code="proposal_gone", subject=proposal, next=see("proposals"))
