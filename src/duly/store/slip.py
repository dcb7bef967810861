"""Accounts that decide over a channel, and the messages that asked them (G11).

Law 1  What lets an account in, or a press count, is kept as a digest.
Law 2  One account is asked once about one call: a second open slip cannot be written.
Law 3  A slip holds no decision. Whether its call waits is read from the ledger, each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from duly.errors import NotFound, RequestRefused, see
from duly.rules.alert import SKEW_MS
from duly.rules.slip import PAIR_MS, AskedStanding, SlipStatus
from duly.rules.word import MutationStatus
from duly.store import statements
from duly.store.base import Transaction
from duly.store.people import page
from duly.store.record import Action, JournalEvent

TOLD: Final = "told "  # followed by the key of what a person was told of


@dataclass(frozen=True, slots=True)
class PairingRow:
    """An account that may decide over a channel; without an account it is not paired yet."""

    channel: str
    name: str
    account: str | None
    made_by: str
    made_at: int
    paired_at: int | None


@dataclass(frozen=True, slots=True)
class SlipRow:
    """A message that asks one account about one content of one call."""

    id: str
    channel: str
    account: str
    mutation_id: str
    hash: str
    digest: str
    status: SlipStatus
    message: str | None
    made_at: int


def keep_pairing(
    tx: Transaction, channel: str, name: str, digest: str, *, action: Action, now: int
) -> None:
    """Keep the code that pairs an account under a name; a name that is taken is refused."""
    tx.write("drop_codes", channel=channel, before=now - PAIR_MS, now=now)
    kept = {"channel": channel, "name": name, "digest": digest, "made_by": action.by}
    if tx.one("insert_pairing", made_at=now, **kept) is None:
        raise RequestRefused(code="pairing_there", subject=name, next=see("channels"))
    statements.note(tx, action, now, workflow_id=None, target=f"{channel}/{name}")


def pair_account(
    tx: Transaction, channel: str, digest: str, account: str, *, action: Action, now: int
) -> str | None:
    """Pair the account that sent a code; return its name. A code is used once.

    None: there is no such code. One that comes too late is forgotten, so that no clock that is set
    back brings it to life again.
    """
    tx.write("drop_codes", channel=channel, before=now - PAIR_MS, now=now)
    name = find_code(tx, channel, digest)
    if name is None:
        return None
    if (known := find_pairing(tx, channel, account)) == name:
        return None  # the code was used this moment, by a second copy of the same message
    if known is not None:
        raise RequestRefused(code="pairing_there", subject=known, next=see("channels"))
    here = {"channel": channel, "name": name, "digest": digest, "account": account}
    statements.must_change(tx.run("pair_account", now=now, **here), f"Pairing {name}")
    statements.note(tx, action, now, workflow_id=None, target=f"{channel}/{name}")
    return name


def drop_pairing(tx: Transaction, channel: str, name: str, *, action: Action, now: int) -> None:
    """Forget an account: from this moment it decides nothing."""
    if not tx.run("drop_pairing", channel=channel, name=name):
        raise NotFound(code="no_pairing", subject=name, next=see("channels"))
    statements.note(tx, action, now, workflow_id=None, target=f"{channel}/{name}")


def write_slip(
    tx: Transaction,
    slip_id: str,
    channel: str,
    account: str,
    mutation_id: str,
    seen: str,
    digest: str,
    *,
    now: int,
) -> SlipRow | None:
    """Write a slip that is about to be sent; None if its account is asked about the call already.

    One that was about to be sent when its host died is sent again, under another code.
    """
    here = {"channel": channel, "account": account, "mutation_id": mutation_id}
    found = tx.one("find_open_slip", **here)
    if found is None:
        # Another host may have written one this moment: it sends it, and this one does not.
        made = tx.run("insert_slip", id=slip_id, hash=seen, digest=digest, now=now, **here)
        statements.must_change(made, f"Slip about {mutation_id}")
    else:
        slip_id = str(found[0])
        if not tx.run("renew_slip", id=slip_id, hash=seen, digest=digest, now=now):
            return None
    return find_slip(tx, digest)


def move_slip(
    tx: Transaction, slip: SlipRow, status: SlipStatus, *, now: int, message: str | None = None
) -> None:
    """Note that a slip was sent, with the id of its message, or that it is over."""
    closed_at = now if status is SlipStatus.CLOSED else None
    guard = {"id": slip.id, "old_status": slip.status, "digest": slip.digest}
    moved = tx.run("move_slip", status=status, message=message, closed_at=closed_at, **guard)
    statements.must_change(moved, f"Slip {slip.id}")


def tell_day(
    tx: Transaction, channel: str, event: JournalEvent | None, *, at: int, now: int
) -> bool:
    """Put the line of a day on the bus, once; return whether it was due.

    The first time there is nothing to tell: it is only noted from when on a line is due.
    """
    name = f"daily {channel}"
    found = tx.one("get_mark", name=name)
    if found is not None and int(found[0]) >= at:
        return False
    tx.write("put_upkeep", name=name, at=at if found is not None else max(at, now))
    if found is None or event is None:
        return False
    statements.emit(tx, event, now)
    return True


def tell_begun(tx: Transaction, key: str, event: JournalEvent | None, *, at: int, now: int) -> bool:
    """Put on the bus, once, what began at a moment; return whether it had not been told.

    Without an event it is over: what begins after that is told again.
    """
    name = f"{TOLD}{key}"
    if event is None:
        tx.run("drop_upkeep", name=name)
        return False
    if not tx.run("put_told", name=name, begun=at, ahead=now + SKEW_MS, now=now):
        return False
    statements.emit(tx, event, now)
    return True


def told_at(tx: Transaction, key: str) -> int | None:
    """Read when a person was told last of what is listed under a key."""
    found = tx.one("get_upkeep", name=f"{TOLD}{key}")
    return None if found is None else int(found[0])


def was_told(tx: Transaction, channel: str, at: int) -> bool:
    """Tell whether the line of a day was told, or is not due before the next one."""
    found = tx.one("get_upkeep", name=f"daily {channel}")
    return found is not None and int(found[0]) >= at


def count_done(tx: Transaction, since: int) -> int:
    """Count the changes that became known to have happened since a moment."""
    found = statements.must(tx.one("count_done", since=since), "The ledger")
    return int(found[0])


def find_slip(tx: Transaction, digest: str) -> SlipRow | None:
    """Read the slip of a code, if there is one; also one that is over."""
    found = tx.one("find_slip", digest=digest)
    return None if found is None else _row(found)


def list_open_slips(tx: Transaction, channel: str, *, limit: int = 100) -> tuple[SlipRow, ...]:
    """Read what the accounts of a channel are asked about, oldest first."""
    return tuple(map(_row, tx.all("list_open_slips", channel=channel, limit=page(limit))))


def list_asking(tx: Transaction, *, limit: int = 100) -> tuple[tuple[str, str], ...]:
    """Read the calls that wait for a yes, oldest first, each with its hash."""
    rows = tx.all("list_asking", limit=page(limit))
    return tuple((str(mutation_id), str(seen)) for mutation_id, seen in rows)


def read_standing(tx: Transaction, mutation_id: str) -> AskedStanding:
    """Read how a call stands (law 3)."""
    found = tx.one("read_asked", id=mutation_id)
    if found is None:
        raise NotFound(code="no_mutation", subject=mutation_id)
    seen, status, is_waiting, approved_by, known_by = found
    return AskedStanding(
        str(seen), MutationStatus(str(status)), bool(is_waiting), approved_by, known_by
    )


def find_code(tx: Transaction, channel: str, digest: str) -> str | None:
    """Read which name a code pairs; None if there is no such code."""
    found = tx.one("find_pairing_code", channel=channel, digest=digest)
    return None if found is None else str(found[0])


def find_pairing(tx: Transaction, channel: str, account: str) -> str | None:
    """Read the name of a paired account; None if it is not paired."""
    found = tx.one("find_pairing", channel=channel, account=account)
    return None if found is None else str(found[0])


def list_pairings(tx: Transaction) -> tuple[PairingRow, ...]:
    """Read every account, also those whose code was not used yet; a host has few."""
    return tuple(PairingRow(*row) for row in tx.all("list_pairings"))


def _row(found: tuple[Any, ...]) -> SlipRow:
    slip_id, channel, account, mutation_id, seen, digest, status, message, made_at = found
    known = (slip_id, channel, account, mutation_id, seen, digest)
    return SlipRow(*known, SlipStatus(status), message, made_at)
