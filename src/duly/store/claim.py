"""Which host runs a workflow: hosts, and their claims on workflows (H2, H6).

Law 1  A host writes to a workflow under the epoch of its own claim. Every claim raises the epoch,
       so a write under an earlier one is refused, whichever host made it.
Law 2  A workflow is free if the host that claimed it last is not here any more. A host is here from
       `join` until it leaves or is evicted.
Law 3  The host that has the file's lock is the only one: when it joins, the others are gone (H6).
Law 4  A host of a fleet that was evicted writes nothing more, an act of a person included: each of
       its writes begins by moving a counter that went with its row (`slot.py`).
Law 5  A host of a fleet that is evicted, or leaves, leaves a trace. A host that is missing without
       one came after the moment to which the store was brought back (`slot.py`, H10).
Law 6  After a promotion, what a gone host held is paused, unless that host has compared what it was
       told on the new timeline (H10).
Law 7  After each start of the server nothing is claimed before every host that is here has compared
       what it was told: the store may have been brought back to a moment before one of them claimed
       it and sent (H10). A host that does not come back is evicted; where no host is here for long
       enough to do that (`drain`), it is waited for ten minutes.
Law 8  A host claims nothing for which it lacks a tool (H7). What it has stands on its row, and a
       host that has not said it, as one of an older version, claims everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from duly.errors import Fenced, Stale
from duly.rules.blind import BlindCause
from duly.rules.lease import MACHINE_GONE_MS, Uncompared, is_gone
from duly.rules.lifecycle import Run
from duly.rules.share import Kin, Offers, Shares, is_mixed
from duly.rules.word import MutationStatus
from duly.store import statements
from duly.store.base import STARTS_PER_MS, Fence, Transaction
from duly.store.parameter import as_set
from duly.store.record import Action
from duly.store.upkeep import EVICTED, LEFT, MET, TIMELINE, note_restore

EVICTED_KEPT_MS: Final = 30 * 86_400_000  # a host may stand still for so long, and then go on
LEFT_KEPT_MS: Final = 86_400_000
UNMET_MS: Final = 600_000  # after a start of the server a host that does not renew is waited for
TRACES_MAX: Final = 10_000  # of hosts that were evicted, and as many of hosts that have left


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host that is here; `is_over` says that its lease is, by the database's clock."""

    id: str
    lease_until: int
    is_over: bool
    serves: bool = False  # it runs workflows, and does not only take acts
    machine: str | None = None
    offers: str | None = None  # None: it has not said which tools it has (schema 6)


@dataclass(frozen=True, slots=True)
class Renewed:
    """What a host sees when it renews: the other hosts, and what they share (H7)."""

    others: tuple[HostRow, ...]
    shares: Shares
    held: Mapping[str, Kin]  # what this host holds
    clock_ms: int = 0  # what the database's clock showed
    gone: frozenset[str] = frozenset()  # workflows whose call their machine cannot be asked about


@dataclass(frozen=True, slots=True)
class HostSeen:
    """A host as people see it; one without a lease has the lock of its file (H6)."""

    id: str
    name: str | None
    started_at: int
    lease_left_ms: int | None
    serves: bool
    workflows: int
    has_compared: bool = True  # what it was told, since the server began (law 7)


def join(
    tx: Transaction,
    host_id: str,
    *,
    now: int,
    lease_ms: int | None = None,
    name: str | None = None,
    machine: str | None = None,
    offers: Offers | None = None,
    is_again: bool = False,
) -> int | None:
    """Write that a host is here; one without a lease has the file's lock, and is alone (H6).

    One that is here again was told something as another, and has not compared it (law 7). Return
    what the database's clock shows, by which its lease counts.
    """
    if lease_ms is None:
        tx.write("leave_all")
    clock = None if lease_ms is None else tx.clock_ms
    lease_until = None if clock is None or lease_ms is None else clock + lease_ms
    named = {"id": host_id, "name": name, "machine": machine, "timeline": tx.timeline}
    text = None if offers is None else offers.text
    tx.write("join_host", **named, offers=text, lease_until=lease_until, now=now)
    if offers is not None:
        tx.write("put_offers", id=host_id, tools=as_set(offers.tools))
    if (started := tx.started) is not None:
        tx.write("put_upkeep", name=f"{MET}{host_id}", at=0 if is_again else started)
    return clock


def renew(
    tx: Transaction,
    host_id: str,
    *,
    lease_ms: int,
    serves: bool = False,
    offers: Offers | None = None,
) -> Renewed:
    """Make a lease last longer, if it is not over; return the other hosts that are here (H2).

    What the host offers is written again if it is not what its row says (H7).
    """
    clock = tx.clock_ms
    renewed = {"clock": clock, "lease_until": clock + lease_ms, "serves": int(serves)}
    own = tx.one("renew_host", id=host_id, **renewed)
    if own is None:
        raise Fenced(code="lapsed", subject=host_id)
    machine, said = own
    if offers is not None and offers.text != said:
        tx.write("change_offers", id=host_id, offers=offers.text)
        tx.write("drop_offers", id=host_id)
        tx.write("put_offers", id=host_id, tools=as_set(offers.tools))
        said = offers.text
    others = tuple(
        HostRow(other, until, until <= clock, bool(on), *rest)
        for other, until, on, *rest in tx.all("list_other_hosts", id=host_id)
    )
    mixed = int(is_mixed([said, *(each.offers for each in others if each.serves)]))
    machines = {host_id: machine, **{each.id: each.machine for each in others if each.serves}}
    counts = {_kin(*kin): count for *kin, count in tx.all("count_kin", is_mixed=mixed)}
    held = {each: _kin(*kin) for each, *kin in tx.all("list_own_kin", id=host_id, is_mixed=mixed)}
    shares = Shares(host_id, machines, counts)
    return Renewed(others, shares, held, clock, _note_gone(tx, clock))


def _kin(machine: str | None, unable: str | None) -> Kin:
    return Kin(machine, frozenset((unable or "").split()))


def _note_gone(tx: Transaction, clock: int) -> frozenset[str]:
    """Keep since when machines or tools have no host; return what waits for too long (H7).

    A row that was changed since, as by a person who says *try again*, waits as long once more.
    """
    found: set[str] = set()
    rows = tx.all("list_gone")
    tx.write("drop_gone", names=as_set(name for _, name, *_ in rows))
    for workflow_id, name, since, changed_at, status, is_held in rows:
        if since is None:
            tx.write("note_gone", name=name, at=clock)
        is_marked = status == MutationStatus.INDETERMINATE
        if not (is_marked or is_held) and is_gone(since, clock) and is_gone(changed_at, clock):
            found.add(workflow_id)
    return frozenset(found)


def evict(tx: Transaction, host_id: str, lease_until: int, *, action: Action, now: int) -> bool:
    """Write that a host is gone, if its lease is still the one that is over (H2).

    What it held is paused if a standby was promoted and the host has not compared since (law 6).
    """
    found = tx.one("find_host", id=host_id)
    if not tx.run("evict_host", id=host_id, lease_until=lease_until, clock=tx.clock_ms):
        return False
    assert found is not None, host_id
    _leave_trace(tx, EVICTED, host_id)
    if found[1] not in (None, tx.timeline):  # none: it came before hosts wrote one (schema 5)

        def is_spared(workflow_id: str) -> bool:
            return tx.one("has_claimed", id=workflow_id, host=host_id) is None

        note_restore(tx, action=action, now=now, cause=BlindCause.PROMOTION, is_spared=is_spared)
    return True


def note_promotion(tx: Transaction, *, action: Action, now: int) -> int | None:
    """Pause what no host holds if a standby was promoted since the last look (H10).

    What a host was told that is gone, no host can compare. A host that is still here compares what
    it was told, or is evicted. Return since when the store may be blind; None if nothing happened.
    """
    known, found = tx.one("get_timeline"), tx.timeline
    if found is None or known == (found,):
        return None
    tx.write("put_upkeep", name=TIMELINE, at=found)
    if known is None:
        return None

    def is_spared(workflow_id: str) -> bool:
        return tx.one("find_holder", id=workflow_id) is not None

    cause = BlindCause.PROMOTION
    return note_restore(tx, action=action, now=now, cause=cause, is_spared=is_spared)


def check_lease(tx: Transaction, host_id: str) -> None:
    """Refuse a host that was evicted, or that will be: its lease is over (H2)."""
    found = tx.one("find_host", id=host_id)
    if found is None or (found[0] is not None and found[0] <= tx.clock_ms):
        raise Fenced(code="lapsed", subject=host_id)


def leave(tx: Transaction, host_id: str) -> None:
    """Write that a host ends: what it has claimed is free."""
    found = tx.one("find_host", id=host_id)
    # First, as in an eviction: it waits for connections of the host that enter, and they for
    # nothing that is written here.
    tx.write("leave_host", id=host_id)
    if found is not None and found[0] is not None:
        _leave_trace(tx, LEFT, host_id)


def _leave_trace(tx: Transaction, way: str, host_id: str) -> None:
    """Write that a host is rightly missing, and forget those that are so for long (law 5).

    What hosts that are gone have compared goes too, also of one that an older Duly evicted (law 7).
    Of too many the oldest goes. Such a host, if it goes on, takes the store for an older one and
    pauses everything: the safe side.
    """
    clock = tx.clock_ms
    tx.write("drop_traces", evicted=clock - EVICTED_KEPT_MS, left=clock - LEFT_KEPT_MS)
    tx.write("put_upkeep", name=f"{way}{host_id}", at=clock)
    tx.write("limit_traces", most=TRACES_MAX)


def claim(
    tx: Transaction,
    host_id: str,
    workflow_id: str,
    *,
    is_within: Callable[[Kin], bool] = lambda kin: True,
) -> Fence:
    """Take a workflow that no other host holds, under a new epoch; refuse one that is held.

    Refuse also one for which the host lacks a tool, or that is not within its share (H7), and all
    while a host has still to compare what it was told (law 7).

    One whose machine is gone is taken to stand in for that machine (H7): `gone` of the fence.

    A host that is not here any more gets another error than one that must wait for its turn: it
    would wait for ever.
    """
    check_lease(tx, host_id)
    if (awaited := find_uncompared(tx)) is not None:
        raise Stale(code="waits_for_host", subject=workflow_id, facts={"host": awaited.host})
    kin = tx.one("find_kin", id=workflow_id)
    if kin is not None and not is_within(_kin(*kin)):
        raise Stale(code="leased", subject=workflow_id)
    claimed = tx.one("claim_workflow", id=workflow_id, host=host_id)
    if claimed is not None:
        return Fence(workflow_id, claimed[0])
    before = tx.clock_ms - MACHINE_GONE_MS
    gone = tx.one("claim_gone", id=workflow_id, host=host_id, before=before)
    if gone is None:
        statements.look(tx, workflow_id)
        raise Stale(code="leased", subject=workflow_id)
    return Fence(workflow_id, gone[0], gone[1])


def find_uncompared(tx: Transaction) -> Uncompared | None:
    """Find a host that has still to compare what it was told: all wait for it (law 7)."""
    if (started := tx.started) is None:
        return None
    clock, until = tx.clock_ms, started // STARTS_PER_MS + UNMET_MS
    is_late = clock >= until
    found = tx.one("find_unmet", started=started, over=clock if is_late else 0)
    return None if found is None else Uncompared(found[0], None if is_late else until)


def list_lacking(tx: Transaction, host_id: str, workflow_id: str) -> tuple[str, ...]:
    """List the tools that a host lacks for a workflow (H7)."""
    found = tx.all("list_lacking", host=host_id, id=workflow_id)
    return tuple(sorted(tool for (tool,) in found))


def bind(tx: Transaction, fence: Fence) -> None:
    """Bind a workflow to the machine of its holder, whose files it is about to use (H7)."""
    statements.check(tx, fence)
    tx.write("bind_workflow", id=fence.workflow_id)


def release(tx: Transaction, host_id: str, fence: Fence, *, is_open: bool = False) -> bool:
    """Give a workflow back; tell whether that was done: not while a run of it is open (H7).

    One that must give it back with an open run has no send of it out (`is_open`).
    """
    statements.check(tx, fence)
    statement = "yield_workflow" if is_open else "release_workflow"
    return tx.run(statement, id=fence.workflow_id, host=host_id, epoch=fence.epoch) > 0


def list_hosts(tx: Transaction) -> tuple[HostSeen, ...]:
    """List the hosts that are here, with what is left of their leases."""
    clock, started = tx.clock_ms, tx.started

    def see(
        host_id: str, name: str | None, at: int, until: int | None, on: int, held: int, met: int
    ) -> HostSeen:
        left = None if until is None else until - clock
        has_compared = started is None or met in (None, started)
        return HostSeen(host_id, name, at, left, bool(on), held, has_compared)

    return tuple(see(*row) for row in tx.all("list_hosts"))


def take_up(tx: Transaction, fence: Fence, run_id: str, old: Run) -> None:
    """Write that the holder goes on with a run: if it dies now, the run has crashed (R7)."""
    statements.check(tx, fence)
    statements.check_run(tx, fence, run_id, old)
    tx.write("take_up_run", id=run_id, epoch=fence.epoch)


def list_held_runs(tx: Transaction, host_id: str) -> tuple[str, ...]:
    """List the runs a host has taken up under its claims and that are not stopped."""
    return tuple(run_id for (run_id,) in tx.all("list_held_runs", host=host_id))
