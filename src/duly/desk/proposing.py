"""Turning down what is proposed: a source of an agent, or a version of a repair (G4, M6).

Law: a decision is a person's act. A source is adopted by its hash (`desk/proposal.py`), a version
     of a repair by a rollback to it; to decline either is written down.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from duly.desk.base import USER, find, find_version
from duly.desk.proposal import SourceProposals
from duly.errors import Invalid
from duly.rules.proposal import is_hash
from duly.rules.value import encode
from duly.rules.verb import Scope, act
from duly.store.base import Transaction
from duly.store.proposal import get_proposal, no_proposal
from duly.store.record import WorkflowRow

REASON_CHARS_MAX: Final = 1000
DETAIL_BYTES_MAX: Final = 8 * REASON_CHARS_MAX


class Proposing(SourceProposals):
    """To propose, to adopt, and to turn down."""

    @act(
        scope=Scope.DECIDE,
        for_agents=True,
        example={"workflow": "invoices", "version": "1.1", "reason": "It skips drafts."},
    )
    async def decline(
        self, workflow: str, version: str, reason: str | None = None, *, by: str = USER
    ) -> bool:
        """Turn a proposal down: a source by its hash, a version of a repair by its number.

        A source is dropped; the text of a version stays to be read. Return whether it was not
        declined before.
        """
        # Rules: F3, A6, M6.
        desk = self._desk()
        if reason is not None and len(reason) > REASON_CHARS_MAX:
            facts = {"limit": REASON_CHARS_MAX, "unit": "characters"}
            raise Invalid(code="too_long", path="reason", facts=facts)
        text = encode({"reason": reason}, limit_bytes=DETAIL_BYTES_MAX) if reason else None
        action = desk.action(by, "decline", text)
        store, now = desk.parts.store, desk.now_ms
        if is_hash(version):
            row = await desk.look(partial(get_proposal, proposal=version))
            if row.workflow != workflow:
                raise no_proposal(version)
            await desk.complete(partial(store.drop_proposal, version, action=action, now=now))
            return True
        found = await desk.look(lambda tx: _find_proposed(tx, workflow, version))
        return await desk.carry_out(
            lambda: store.decline_version(found.id, version, action=action, now=now), found.id
        )


def _find_proposed(tx: Transaction, workflow: str, version: str) -> WorkflowRow:
    """Return the workflow of a version, or say that there is no such version."""
    found = find(tx, workflow)
    find_version(tx, found, version)
    return found
