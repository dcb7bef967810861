"""What can be done now, and when to look again (S, R7, L5, B2).

Law: due-ness is computed from the store alone, so a restart needs no flag (S8), and asking costs by
what is due and by what waits for a time, never by how much history there is (S9). A time that is
further ahead than anything that waits was ever told was written by a clock that was wrong, and is
no reason to wait.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from duly.env import Boot
from duly.rules.schedule import (
    DAY_MS,
    EMPTY_PUBLISH_PAUSE_MS,
    WAIT_MAX_MS,
    WAKE_SLACK_MS,
    earliest,
)
from duly.rules.turn import HandlerOutlook, OpenRun
from duly.store import statements
from duly.store.base import Fence, Transaction
from duly.store.bus import held_since
from duly.store.ingress import IngressTopic, list_ingress
from duly.store.lane import Ended, OpenDelivery, find_open
from duly.store.subscription import next_leaving

DUE_LIMIT_MAX = 1000


@dataclass(frozen=True, slots=True)
class DueRun:
    """An open run that can move: active, or past the time it waited for."""

    workflow_id: str
    run_id: str
    status: str


@dataclass(frozen=True, slots=True)
class DueHandler:
    """A handler that is due in a workflow without an open run."""

    workflow_id: str
    name: str
    position: int
    oldest_pending_seq: int | None = None
    next_run_at: int | None = None


@dataclass(frozen=True, slots=True)
class Outlook:
    """Everything that decides what one workflow does next."""

    fence: Fence
    workflow: str
    is_paused: bool
    open_run: OpenRun | None
    handlers: tuple[HandlerOutlook, ...]
    version: str | None = None  # the active one
    lacking: tuple[str, ...] = ()  # the tools for it that its holder has not (H7)


@dataclass(frozen=True, slots=True)
class DueReconcile:
    """An unknown mutation whose time to be asked about has come."""

    workflow_id: str
    mutation_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Due:
    """Everything that can be done now; `next_at` is the next time at which more will be."""

    runs: tuple[DueRun, ...] = ()
    producers: tuple[DueHandler, ...] = ()
    consumers: tuple[DueHandler, ...] = ()
    reconciles: tuple[DueReconcile, ...] = ()
    deferred: int = 0
    deliveries: int = 0
    next_at: int | None = None
    suspects: tuple[str, ...] = ()  # workflows with a producer that a later clock planned (S2)


def due(
    tx: Transaction,
    now: int,
    *,
    wake_max_ms: int = DAY_MS,
    host: str | None = None,
    has_room: bool = True,
) -> Due:
    """Find what is due, in every workflow and on the bus.

    A host of a fleet is told of what it holds, and, if it has room, of what it could claim (H7).
    """
    here = {"now": now, "limit": DUE_LIMIT_MAX, "host": host, "has_room": int(has_room)}
    consumer_times = {**here, "held_until": now + EMPTY_PUBLISH_PAUSE_MS}
    wake_times = {**consumer_times, "wake_horizon": now + wake_max_ms + WAKE_SLACK_MS}
    waiting_times = {**here, "horizon": now + WAIT_MAX_MS}
    consumers = {
        (row[0], row[1]): DueHandler(*row)
        for row in (
            *tx.all("due_untried", **consumer_times),
            *tx.all("due_changed", **consumer_times),
            *tx.all("due_woken", **wake_times),
        )
    }
    producers = tuple(
        DueHandler(workflow, name, position, None, at)
        for workflow, name, position, at in tx.all("due_producers", **here)
    )
    return Due(
        runs=tuple(DueRun(*row) for row in tx.all("due_runs", **waiting_times)),
        producers=producers,
        consumers=tuple(consumers.values()),
        reconciles=tuple(DueReconcile(*row) for row in tx.all("due_reconciles", **waiting_times)),
        deferred=tx.all("due_deferred", now=now)[0][0],
        deliveries=tx.all("due_deliveries", now=now)[0][0],
        next_at=earliest(at for (at,) in tx.all("next_due_times", now=now)),
        suspects=tuple(workflow for (workflow,) in tx.all("suspect_producers", **here)),
    )


@dataclass(frozen=True, slots=True)
class BusOutlook:
    """What the bus can do now, the topics that listen, and when there will be more to do.

    A sync that begins after this look makes every event up to `newest_id` durable (B4).
    """

    deliveries: tuple[OpenDelivery, ...]
    ingress: tuple[IngressTopic, ...]
    newest_id: int
    is_overdue: bool
    next_at: int | None
    leaving: str | None = None  # a subscription whose end is not over (B13)
    is_isolated: bool = False  # a delivery waits until no other runs (B5)
    is_forsaken: bool = False  # a host is gone that was calling a handler (H8)


def bus_outlook(
    tx: Transaction,
    connected: Collection[str],
    *,
    ended: Ended = (),
    now: int,
    limit: int,
    boot: Boot | None = None,
    held: Collection[str] | None = None,
) -> BusOutlook:
    """Read what can be delivered to the connected and into workflows (B2, B6, T10).

    On a bus that was restored and not resumed, nothing can (H5). A host of a fleet calls only the
    subscribers that it holds (H8).
    """
    ingress = list_ingress(tx)
    newest_id = tx.all("newest_event")[0][0] or 0
    leaving = next_leaving(tx)
    if held_since(tx) is not None:
        return BusOutlook((), ingress, newest_id, is_overdue=False, next_at=None, leaving=leaving)
    here = {*connected, *(each.subscriber_id for each in ingress)}
    if held is not None:
        here &= set(held)
    ((due_ms, retry_at),) = tx.all("next_bus_times", now=now)
    # A time of the boot's clock, as the wall clock shows it now (B2).
    fire_at = None if due_ms is None else due_ms - (now if boot is None else boot.ms) + now
    is_overdue = fire_at is not None and fire_at <= now
    found = find_open(tx, here, ended=ended, now=now, limit=limit, is_shared=held is not None)
    return BusOutlook(
        deliveries=found.deliveries,
        ingress=ingress,
        newest_id=newest_id,
        is_overdue=is_overdue,
        next_at=earliest((None if is_overdue else fire_at, retry_at)),
        leaving=leaving,
        is_isolated=found.is_isolated,
        is_forsaken=found.is_forsaken,
    )


def settle_bus(tx: Transaction) -> int:
    """Return the newest event; when this has returned, every event up to it is on the disk (B4)."""
    newest_id: int | None = tx.all("newest_event")[0][0]
    return newest_id or 0


def outlook(tx: Transaction, workflow_id: str, epoch: int | None = None) -> Outlook:
    """Read what one workflow could do next; a removed one is not found.

    Its holder gives the epoch of its claim, and is refused if another claim has been made (H2).
    """
    fence = Fence(workflow_id) if epoch is None else Fence(workflow_id, epoch)
    look = statements.look(tx, workflow_id) if epoch is None else statements.check(tx, fence)
    return read_outlook(tx, fence, look)


def read_outlook(tx: Transaction, fence: Fence, look: statements.WorkflowFacts) -> Outlook:
    """Read the open run of a workflow that was looked at; without one, what starts the next."""
    found = tx.one("open_run_outlook", workflow_id=fence.workflow_id)
    handlers = () if found else tx.all("handler_outlook", workflow_id=fence.workflow_id)
    return Outlook(
        fence,
        look.name,
        look.paused,
        None if found is None else OpenRun(*found),
        tuple(HandlerOutlook(*row) for row in handlers),
        look.active_version,
    )
