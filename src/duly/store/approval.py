"""People's answers to proposed calls: yes, yes to several, yes to the next ones, other words, no.

Law 1  A yes names the call by its hash, and is written with who gave it under a new seal (A4, L11).
Law 2  Of several answers in one act each is judged by itself; one that is refused changes nothing,
       and keeps no other from being taken (A3).
Law 3  An allowance is looked at in the transaction of the send that it covers, and every row sent
       under it counts once (A3).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from duly.env import Boot
from duly.errors import NotFound, RequestRefused, Stale, see
from duly.rules.allowance import find_end
from duly.rules.lifecycle import Change, Run, act
from duly.rules.permission import proposal_hash
from duly.rules.seal import AllowanceFacts
from duly.rules.value import Json, decode
from duly.rules.word import Act
from duly.store import ledger, statements
from duly.store.base import Fence, Transaction
from duly.store.people import SecretRow, page
from duly.store.record import Action, AllowanceRow, Call, JournalEvent, Key, MutationRow, RunRow
from duly.store.upkeep import UNSEALED

LAST = "\U0010ffff"  # behind every id


@dataclass(frozen=True, slots=True)
class Given:
    """An allowance to be written, sealed."""

    facts: AllowanceFacts
    seal: str


@dataclass(frozen=True, slots=True)
class Yes:
    """A person's yes to one call, by the hash they were shown; `seal` says so on its row (A4)."""

    workflow_id: str
    mutation_id: str
    seen: str
    seal: str
    action: Action


def approve(
    tx: Transaction,
    mutation_id: str,
    seen: str,
    *,
    seal: str,
    action: Action,
    now: int,
    given: Given | None = None,
    announce: tuple[JournalEvent, ...] = (),
) -> MutationRow:
    """Let exactly the proposed call be sent, once, by the host that runs the workflow (A4).

    It is in flight from now on and has no send time yet: `send_approved` writes that, so a host
    that dies in between leaves a call that is known not to have left.
    """
    mutation, run = ledger.read_held(tx, mutation_id)
    _check_seen(mutation, run, seen)
    is_paused = statements.look(tx, run.workflow_id).paused
    change = act(run.state, Act.APPROVE, is_paused=is_paused)
    statements.change_run(
        tx, "move_run", run.workflow_id, run.id, run.state, change.run, epoch=None, now=now
    )
    statements.move_row(tx, run.id, run.state, change.run, now)
    agreed = tx.run("approve_mutation", id=mutation_id, hash=seen, by=action.by, seal=seal)
    statements.must_change(agreed, f"Mutation {mutation_id}")
    if given is not None:
        _give(tx, given)
    statements.note(tx, action, now, workflow_id=mutation.workflow_id, target=mutation_id)
    approved = ledger.read_mutation(tx, mutation_id)
    statements.announce(tx, announce, now, run_id=run.id)
    return approved


def approve_all(tx: Transaction, answers: tuple[Yes, ...], *, now: int) -> tuple[str | None, ...]:
    """Take several answers in one act; say of each why it was refused, or nothing (A3)."""
    refused: dict[str, str] = {}
    # In the order of their workflows: every verb that locks several does so in one order.
    for yes in sorted(answers, key=lambda each: (each.workflow_id, each.mutation_id)):
        try:
            approve(tx, yes.mutation_id, yes.seen, seal=yes.seal, action=yes.action, now=now)
        except (RequestRefused, NotFound, Stale) as error:
            refused[yes.mutation_id] = str(error)
    return tuple(refused.get(each.mutation_id) for each in answers)


def amend(
    tx: Transaction,
    mutation_id: str,
    seen: str,
    *,
    args: str,
    hash: str,  # noqa: A002  # the name of the column
    seal: str,
    action: Action,
    now: int,
) -> None:
    """Put a person's own arguments in place of a proposed call's, under another hash (A3)."""
    mutation, run = ledger.read_held(tx, mutation_id)
    _check_seen(mutation, run, seen)
    act(run.state, Act.AMEND)
    amended = tx.run(
        "amend_mutation",
        id=mutation_id,
        old_hash=seen,
        args=args,
        hash=hash,
        seal=seal,
        by=action.by,
        now=now,
    )
    statements.must_change(amended, f"Mutation {mutation_id}")
    statements.note(tx, action, now, workflow_id=mutation.workflow_id, target=mutation_id)


def reject(
    tx: Transaction,
    mutation_id: str,
    *,
    reason: str | None = None,
    seen: str | None = None,
    action: Action,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
) -> Change:
    """Decline a proposed call: nothing is sent, `next` is told it was skipped (A4).

    With `seen` only the call whose hash was shown is declined.
    """
    mutation, run = ledger.read_held(tx, mutation_id)
    if seen is not None:
        _check_seen(mutation, run, seen)
    change = act(run.state, Act.REJECT)
    ledger.settle_run(tx, run.workflow_id, run.id, run.state, change.run, None, None, now)
    statements.move_row(tx, run.id, run.state, change.run, now, by=action.by, said=reason)
    statements.note(tx, action, now, workflow_id=mutation.workflow_id, target=mutation_id)
    statements.announce(tx, announce, now, run_id=run.id)
    return change


# -- Allowances (A3) ----------------------------------------------------------------------------


def send_allowed(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    new: Run,
    call: Call,
    *,
    now: int,
    boot: Boot = ledger.NO_BOOT,
    basis: str | None = None,
) -> Key | None:
    """Write a call that is about to be sent under an allowance; nothing, if that has ended."""
    standing = ledger.check_sending(tx, fence)
    run = statements.check_run(tx, fence, run_id, old)
    allowance = read_allowance(tx, call.allowance_id or "")
    # A run may outlive its version by a deploy; the allowance does not.
    if run.version != standing.active_version:
        return None
    if find_end(allowance.value, run.version, now) is not None:
        return None
    return ledger.send(tx, fence, run_id, old, new, call, now=now, boot=boot, basis=basis)


def find_allowances(
    tx: Transaction, workflow_id: str, tool: str, version: str, *, now: int
) -> tuple[AllowanceRow, ...]:
    """Read what may cover a call of a tool in a version, the oldest first."""
    rows = tx.all("find_allowances", workflow_id=workflow_id, tool=tool, version=version, now=now)
    return tuple(AllowanceRow(*row) for row in rows)


def list_allowances(
    tx: Transaction,
    workflow_id: str | None = None,
    *,
    limit: int = 100,
    before: str | None = None,
) -> tuple[AllowanceRow, ...]:
    """Read allowances, newest first, also those that have ended."""
    narrow = {"workflow_id": workflow_id, "before": before or LAST, "limit": page(limit)}
    return tuple(AllowanceRow(*row) for row in tx.all("list_allowances", **narrow))


def revoke_allowance(tx: Transaction, allowance_id: str, *, action: Action, now: int) -> None:
    """End an allowance: the next call asks again."""
    allowance = read_allowance(tx, allowance_id)
    if not tx.run("revoke_allowance", id=allowance_id, by=action.by, now=now):
        raise RequestRefused(code="revoked_already", subject=allowance_id)
    statements.note(tx, action, now, workflow_id=allowance.workflow_id, target=allowance_id)


def read_allowance(tx: Transaction, allowance_id: str) -> AllowanceRow:
    """Read an allowance and how often it was used."""
    found = tx.one("get_allowance", id=allowance_id)
    if found is None:
        raise NotFound(code="no_allowance", subject=allowance_id)
    return AllowanceRow(*found)


def count_first(tx: Transaction, workflow_id: str, tool: str, major: str, *, most: int) -> int:
    """Return for how many inputs a major version has sent a tool, up to so many (A3)."""
    here = {"workflow_id": workflow_id, "tool": tool, "major": f"{major}.%", "most": most}
    (count,) = statements.must(tx.one("count_first", **here), "The ledger")
    return int(count)


# -- Seals (L11) --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sealed:
    """Everything of a store that is sealed and may still be used."""

    mutations: tuple[MutationRow, ...]
    allowances: tuple[AllowanceRow, ...]
    secrets: tuple[SecretRow, ...]


@dataclass(frozen=True, slots=True)
class Resealed:
    """One thing under a new seal; `id` is a mutation's or an allowance's, or a connector's."""

    id: str
    old: str | None
    new: str
    name: str = ""  # of a secret


def list_sealed(tx: Transaction) -> Sealed:
    """Read everything that a rotated key must seal anew."""
    open_ids = [str(row[0]) for row in tx.all("open_seals")]
    return Sealed(
        tuple(ledger.read_mutation(tx, each) for each in open_ids),
        tuple(AllowanceRow(*row) for row in tx.all("live_allowances")),
        tuple(SecretRow(*row) for row in tx.all("list_secrets")),
    )


def reseal(
    tx: Transaction,
    *,
    mutations: Iterable[Resealed] = (),
    allowances: Iterable[Resealed] = (),
    secrets: Iterable[Resealed] = (),
    action: Action,
    now: int,
) -> None:
    """Put new seals in place of those they were checked by, all or none.

    It is called when the rows that ended are sealed: nothing of an older schema is unsealed then,
    and no host needs another key any more (H12).
    """
    tx.run("drop_upkeep", name=UNSEALED)
    tx.run("drop_keys")
    for each in mutations:
        done = tx.run("reseal_mutation", id=each.id, old_seal=each.old, seal=each.new)
        statements.must_change(done, f"Mutation {each.id}")
    for each in allowances:
        done = tx.run("reseal_allowance", id=each.id, old_seal=each.old, seal=each.new)
        statements.must_change(done, f"Allowance {each.id}")
    for each in secrets:
        here = {"connector": each.id, "name": each.name}
        done = tx.run("reseal_secret", **here, old_sealed=each.old, sealed=each.new)
        statements.must_change(done, f"The secret {each.name} of {each.id}")
    statements.note(tx, action, now, workflow_id=None, target=None)


def _check_seen(mutation: MutationRow, run: RunRow, seen: str) -> None:
    """Refuse a hash that is not the row's; say whether it is the script's own call (G11)."""
    if mutation.hash == seen:
        return
    proposed = mutation.args_proposed
    is_proposed = proposed is not None and seen == proposal_hash(
        mutation.tool, cast("dict[str, Json]", decode(proposed)), decode(run.prepared or "null")
    )
    facts = {"seen": "proposed" if is_proposed else "other"}
    raise RequestRefused(
        code="not_as_shown",
        subject=mutation.id,
        facts=facts,
        next=see("mutation", id=mutation.id),
    )


def _give(tx: Transaction, given: Given) -> None:
    facts = given.facts
    tx.write(
        "insert_allowance",
        id=facts.id,
        workflow_id=facts.workflow_id,
        mutation_id=facts.mutation_id,
        tool=facts.tool,
        version=facts.version,
        args=facts.args,
        matching=facts.matching,
        calls=facts.calls,
        until=facts.until,
        given_by=facts.given_by,
        given_at=facts.given_at,
        seal=given.seal,
    )
