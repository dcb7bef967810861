"""Whether a tool can be asked: tried once with the user's own account, and kept (K10).

Law: a trial is written down before its first byte leaves. One whose end was not written stays
`begun`, and is shown as such: what it was about to do may have been done.
"""

from __future__ import annotations

from dataclasses import dataclass

from duly.errors import RequestRefused, Stale
from duly.rules.asking import ProofFault, ProofStatus, SecretTimes
from duly.store import statements
from duly.store.base import Transaction
from duly.store.record import Action


@dataclass(frozen=True, slots=True)
class ProofRow:
    """A trial of a tool, as it is kept."""

    tool: str
    key: str
    args: str
    basis: str
    status: ProofStatus
    fault: ProofFault | None
    said: str | None
    handle: str | None
    begun_by: str
    begun_at: int
    ended_at: int | None


def begin_proof(
    tx: Transaction,
    tool: str,
    key: str,
    args: str,
    basis: str,
    *,
    over: str | None,
    action: Action,
    now: int,
) -> None:
    """Write down that a trial begins; `over` is the key of the one that it replaces."""
    made = tx.one(
        "begin_proof",
        tool=tool,
        key=key,
        args=args,
        basis=basis,
        begun_by=action.by,
        begun_at=now,
        over=over or "",
    )
    if made is None:
        raise RequestRefused(code="proof_under_way", subject=tool)
    statements.note(tx, action, now, workflow_id=None, target=tool)


def keep_proof_handle(tx: Transaction, tool: str, key: str, handle: str) -> None:
    """Keep what the first of two steps made (L14)."""
    if not tx.run("keep_proof_handle", tool=tool, key=key, handle=handle):
        raise Stale(code="trial_over", subject=tool)


def end_proof(
    tx: Transaction,
    tool: str,
    key: str,
    status: ProofStatus,
    *,
    fault: ProofFault | None = None,
    said: str | None = None,
    now: int,
) -> None:
    """Write down what came of a trial."""
    if not tx.run("end_proof", tool=tool, key=key, status=status, fault=fault, said=said, now=now):
        raise Stale(code="trial_over", subject=tool)


def find_proof(tx: Transaction, tool: str) -> tuple[ProofRow | None, SecretTimes]:
    """Read the newest trial of a tool, and when the secrets were set."""
    found = tx.one("get_proof", tool=tool)
    return None if found is None else _row(found), list_secret_times(tx)


def list_proofs(tx: Transaction) -> tuple[ProofRow, ...]:
    """Read the newest trial of every tool."""
    return tuple(map(_row, tx.all("list_proofs")))


def list_secret_times(tx: Transaction) -> SecretTimes:
    """Read when each secret was set: connector, name, moment."""
    return tuple((str(a), str(b), int(str(at))) for a, b, at in tx.all("list_secret_times"))


def _row(found: tuple[object, ...]) -> ProofRow:
    tool, key, args, basis, status, fault, *rest = found
    word = None if fault is None else ProofFault(str(fault))
    return ProofRow(tool, key, args, basis, ProofStatus(str(status)), word, *rest)  # type: ignore[arg-type]
