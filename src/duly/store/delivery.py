"""Which subscribers an event goes to, and how each delivery ended (B3–B7, B11, B13).

Law: an event has one delivery record per subscriber, written at its first delivery (B13). An
attempt is counted before the handler runs, a success is recorded once, and what becomes of an event
follows from its records in the transaction that changes one of them (B4). What moves, and where
to, is decided by `rules.delivery`; a verb writes it only where it still finds what was decided on.

What ends may be followed by the next delivery of its lane in the same transaction, so that a
backlog costs one transaction for each delivery. What may begin is chosen in `lane`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from duly.env import Boot
from duly.errors import NotFound, RequestRefused, Stale, see
from duly.rules.delivery import (
    DELIVERIES,
    Delivery,
    DeliveryMove,
    DeliveryStatus,
    Event,
    JournalStatus,
    Retry,
    begin,
    close,
    end,
    follow,
    give_back,
    recover_delivery,
    recover_event,
    reopen,
    starts_runs,
)
from duly.rules.delivery import discard as discard_dead
from duly.rules.event import Publication, check_ingress
from duly.store import statements, tally
from duly.store.base import Transaction
from duly.store.bus import (
    JournalRow,
    SubscriptionRow,
    adopt_deferred,
    delivery_of,
    find_subscription,
    promote_due,
    read_event,
)
from duly.store.journal import (
    move_event,
    read_payload,
    read_records,
    settle,
    settle_event,
)
from duly.store.lane import (
    Ended,
    Lane,
    OpenDelivery,
    addressees,
    callable_by,
    choose_in_topic,
    topic_lanes,
)
from duly.store.people import PAGE_ROWS_MAX
from duly.store.record import Action


@dataclass(frozen=True, slots=True)
class Begun:
    """A delivery whose handler may be called, or the status of an event without such a handler.

    An event that could be read when it was opened and no longer can has no `event` (B7).
    """

    status: JournalStatus
    event: Event | None = None
    delivery: Delivery | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Reach:
    """The subscribers that a host can call now, and the last event that it knows on the disk.

    A host of a fleet says which one it is (H8).
    """

    subscribers: Collection[str]
    durable_id: int
    ended: Ended = ()
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """What an ended attempt made of its delivery and of the event, and what comes next.

    `next` is the next delivery of the same lane: it is begun, and its handler is to be called.
    `free` are deliveries of other lanes of the topic that can begin now; their events are on the
    disk.
    """

    delivery: Delivery
    status: JournalStatus
    next: Begun | None = None
    free: tuple[OpenDelivery, ...] = ()


@dataclass(frozen=True, slots=True)
class Recovered:
    """How many events a start gave back, and how many deferred ones were overdue (B7)."""

    events: int
    promoted: int
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class Ingress:
    """The workflow a bus event goes into, and what it is called there (T10)."""

    workflow_id: str
    publication: Publication


def recover_bus(
    tx: Transaction,
    *,
    now: int,
    limit: int = PAGE_ROWS_MAX,
    boot: Boot | None = None,
) -> Recovered:
    """Give back the deliveries of a host that died, before any is dispatched (B7).

    Its death counts only against a delivery that ran alone (B5). Of the deferred events at most
    `limit` are looked at, so that no other caller waits long for one transaction: it is called
    again until it is complete.
    """
    running = [delivery_of(row) for row in tx.all("running_deliveries")]
    left = [
        lost.event_id for lost in running if not _recover(tx, lost, now, is_alone=len(running) == 1)
    ]
    processing = JournalStatus.PROCESSING
    events = tx.run(
        "recover_journal_events", old_status=processing, status=recover_event(processing)
    )
    for event_id in left:
        settle_event(tx, event_id, now)
    if boot is not None and adopt_deferred(tx, boot, now=now, limit=limit) >= limit:
        return Recovered(events, 0, is_complete=False)  # in order: first each gets its time
    promoted = len(promote_due(tx, now=now, limit=limit, boot=boot))
    return Recovered(events, promoted, is_complete=promoted < limit)


def recover_gone(tx: Transaction, now: int) -> None:
    """Give back what hosts of a fleet that are gone were telling their subscribers (H8).

    What was being told to a subscriber whose subscription has ended since is closed (B13).
    """
    for (holder,) in tx.all("gone_holders"):
        running = [delivery_of(row) for row in tx.all("running_of_holder", holder=holder)]
        for lost in running:
            if not _recover(tx, lost, now, is_alone=len(running) == 1):
                settle_event(tx, lost.event_id, now)


def _recover(tx: Transaction, lost: Delivery, now: int, *, is_alone: bool) -> bool:
    """Give back a delivery whose host died; tell whether it waits to be tried again (B5)."""
    subscription = _subscription(tx, lost)
    retry = subscription.retry if subscription else Retry()
    back = recover_delivery(lost, retry, now, is_alone=is_alone)
    if subscription is None and back.status is DeliveryStatus.WAITING:
        back = close(back)
    move_row(tx, lost, back, now)
    return back.status is DeliveryStatus.WAITING


def give_back_running(
    tx: Transaction,
    subscribers: Collection[str],
    ended: Ended = (),
    *,
    now: int,
    host: str | None = None,
) -> int:
    """Give back, uncounted, what is recorded as running for subscribers whose handlers do not run.

    It was lost when its begin was not answered, or when an orderly stop cut it short; no host died
    (B5). Of a delivery in `ended` only the record is missing: it is kept. A host of a fleet gives
    back what it has begun itself (H8). Return how many these were.
    """
    running = map(delivery_of, tx.all("running_of_holder", holder=host or ""))
    lost = [
        each
        for each in running
        if each.subscriber_id in subscribers and (each.event_id, each.subscriber_id) not in ended
    ]
    for each in lost:
        back = give_back(each, now)
        is_gone = _subscription(tx, each) is None
        move_row(tx, each, close(back) if is_gone else back, now)
        if is_gone:
            settle_event(tx, each.event_id, now)
    return len(lost)


def begin_delivery(
    tx: Transaction,
    event_id: int,
    connected: Collection[str],
    *,
    ended: Ended = (),
    now: int,
    host: str | None = None,
) -> Begun:
    """Begin the event's next delivery to one of the connected subscribers, counting the attempt.

    The first one opens the event: a record for every subscription of its topic (B13). An event
    that has no subscriber, cannot be read or ends a loop is closed instead (B11, B7, B12). One
    whose subscribers are all elsewhere is opened and stays pending, so that a person can see what
    it waits for (B13). Stale if no delivery of it may begin now (B3, B6), or none by this host of a
    fleet (H8).

    The event may not be on the disk yet: the caller awaits the store's `sync` before it calls the
    handler (B4).
    """
    row = read_event(tx, event_id)
    event, error = read_payload(row)
    lanes = topic_lanes(tx, row.topic, now)
    addressed = [] if row.opened else addressees(lanes, event)
    if not row.opened and error is not None:
        return _close(tx, row, JournalStatus.FAILED, now, error=error)
    if not row.opened and not addressed:
        return _close(tx, row, JournalStatus.DONE, now, undelivered=1)
    here = callable_by(addressed or lanes, connected, host)
    if not row.opened and not here:
        for lane in addressed:
            _open(tx, row, lane, now)
        move_event(tx, row, JournalStatus.PENDING, now, error=row.error)
        return Begun(JournalStatus.PENDING)
    able = choose_in_topic(tx, row.topic, lanes, here, now, ended)
    chosen = next((each for each in able if each.event_id == event_id), None)
    if chosen is None:
        facts = {"status": row.status}
        raise Stale(code="changed_meanwhile", subject=f"event {event_id}", facts=facts)
    return _begin(tx, row, event, chosen, addressed, now, host)


def finish_delivery(
    tx: Transaction,
    event_id: int,
    subscriber_id: str,
    attempt: int,
    *,
    error: str | None = None,
    is_final: bool = False,
    ingress: Ingress | None = None,
    reach: Reach | None = None,
    now: int,
) -> Finished:
    """Record how an attempt ended: done, waiting for the next, or dead (B4, B5).

    A final failure is not tried again. A success may bring the event into a workflow's topic, in
    the same transaction (T10). With a `reach` the next delivery of the lane is begun, if it may.
    """
    records = read_records(tx, event_id)
    found = None if records is None else records.find(subscriber_id)
    if records is None or found is None:
        raise _unknown(event_id, subscriber_id)
    retry = records.retry_of(subscriber_id)
    if found.attempts != attempt:
        facts = {"attempts": found.attempts, "attempt": attempt}
        raise Stale(code="changed_meanwhile", subject=_name(found), facts=facts)
    is_running = found.status is DeliveryStatus.RUNNING
    running = found if is_running else replace(found, status=DeliveryStatus.RUNNING)
    ended = end(running, error, retry or Retry(), now, is_final=is_final)
    if retry is None and ended.status is DeliveryStatus.WAITING:
        ended = close(ended)
    if not is_running:
        if (found.status, found.error) != (ended.status, ended.error):
            raise Stale(code="changed_meanwhile", subject=_name(found))
        return Finished(found, JournalStatus(records.status))
    if error is None and ingress is not None:
        _enter(tx, found, ingress, now)
    move_row(tx, found, ended, now)
    status = settle(tx, records, records.after(ended), now)
    if reach is None:
        return Finished(ended, status)
    return _follow(tx, ended, status, reach, now)


def discard(
    tx: Transaction, event_id: int, subscriber_id: str, *, action: Action, now: int
) -> JournalStatus:
    """Close a dead delivery for good; its error stays (B5)."""
    dead = _dead(tx, event_id, subscriber_id, DeliveryMove.DISCARD)
    return _decide(tx, dead, discard_dead(dead), action, now)


def retry_delivery(
    tx: Transaction, event_id: int, subscriber_id: str, *, action: Action, now: int
) -> JournalStatus:
    """Give a dead delivery all its attempts again, beginning now (B5)."""
    dead = _dead(tx, event_id, subscriber_id, DeliveryMove.RETRY)
    if _subscription(tx, dead) is None:
        raise RequestRefused(
            code="subscription_gone", subject=subscriber_id, facts={"topic": dead.topic}
        )
    return _decide(tx, dead, reopen(dead, now), action, now)


# -- What comes next (B3, B6) -------------------------------------------------------------------


def _follow(
    tx: Transaction, ended: Delivery, status: JournalStatus, reach: Reach, now: int
) -> Finished:
    """Begin the next delivery of a lane, and say what else of its topic can begin now."""
    lanes = topic_lanes(tx, ended.topic, now)
    here = callable_by(lanes, reach.subscribers, reach.host)
    able = choose_in_topic(tx, ended.topic, lanes, here, now, reach.ended)
    chosen = follow(able, ended, reach.durable_id)
    free = tuple(
        OpenDelivery(each.event_id, each.subscriber_id)
        for each in able
        if each is not chosen and each.event_id <= reach.durable_id
    )
    begun = None if chosen is None else _begin_next(tx, chosen, lanes, now, reach.host)
    return Finished(ended, status, begun, free)


def _begin_next(
    tx: Transaction, chosen: Delivery, lanes: Sequence[Lane], now: int, host: str | None
) -> Begun | None:
    """Begin a delivery; an event that must be closed, or is for others, is left to a look."""
    row = read_event(tx, chosen.event_id)
    event, error = read_payload(row)
    if row.opened:
        return _begin(tx, row, event, chosen, (), now, host)
    addressed = addressees(lanes, event)
    is_for_it = any(each.subscriber_id == chosen.subscriber_id for each in addressed)
    if error is not None or not is_for_it:
        return None
    return _begin(tx, row, event, chosen, addressed, now, host)


def _begin(
    tx: Transaction,
    row: JournalRow,
    event: Event | None,
    chosen: Delivery,
    opened_in: Sequence[Lane],
    now: int,
    host: str | None,
) -> Begun:
    """Count the attempt (B5); the first one of an event writes all its records (B13)."""
    begun = begin(chosen)
    for lane in opened_in:
        is_chosen = lane.subscriber_id == chosen.subscriber_id
        _open(tx, row, lane, now, begun if is_chosen else None, host)
    if not opened_in:
        move_row(tx, chosen, begun, now, host)
    move_event(tx, row, JournalStatus.PROCESSING, now, error=row.error)
    return Begun(JournalStatus.PROCESSING, event, begun, row.depth)


def _subscription(tx: Transaction, delivery: Delivery) -> SubscriptionRow | None:
    """Read the subscription of a delivery; one of the same name for another topic is not it."""
    found = find_subscription(tx, delivery.subscriber_id)
    return None if found is None or found.topic != delivery.topic else found


# -- Events -------------------------------------------------------------------------------------


def _open(
    tx: Transaction,
    event: JournalRow,
    lane: Lane,
    now: int,
    begun: Delivery | None = None,
    host: str | None = None,
) -> None:
    tx.write(
        "insert_delivery",
        event_id=event.id,
        subscriber_id=lane.subscriber_id,
        topic=event.topic,
        position=lane.position,
        status=DeliveryStatus.WAITING if begun is None else begun.status,
        attempts=0 if begun is None else begun.attempts,
        holder=None if begun is None else host,
        now=now,
    )


def _close(
    tx: Transaction,
    event: JournalRow,
    status: JournalStatus,
    now: int,
    *,
    error: str | None = None,
    undelivered: int = 0,
) -> Begun:
    move_event(tx, event, status, now, error=error, undelivered=undelivered)
    return Begun(status)


# -- Deliveries ---------------------------------------------------------------------------------


def _unknown(event_id: int, subscriber_id: str) -> NotFound:
    dead = see("bus.deliveries", status="dead")
    facts = {"event": event_id}
    return NotFound(code="no_delivery", subject=subscriber_id, facts=facts, next=dead)


def _dead(tx: Transaction, event_id: int, subscriber_id: str, move: DeliveryMove) -> Delivery:
    """Read a delivery that a person wants to move, or refuse: only the dead can be (B5)."""
    found = tx.one("get_delivery", event_id=event_id, subscriber_id=subscriber_id)
    if found is None:
        raise _unknown(event_id, subscriber_id)
    delivery = delivery_of(found)
    if (delivery.status, move) not in DELIVERIES:
        facts = {"status": delivery.status, "move": move}
        dead = see("bus.deliveries", status="dead")
        raise RequestRefused(code="not_dead", subject=_name(delivery), facts=facts, next=dead)
    return delivery


def _decide(
    tx: Transaction, old: Delivery, new: Delivery, action: Action, now: int
) -> JournalStatus:
    """Write what a person decided, and who it was (A6)."""
    move_row(tx, old, new, now)
    statements.note(tx, action, now, workflow_id=None, target=f"{old.event_id}/{old.subscriber_id}")
    return settle_event(tx, old.event_id, now)


def _enter(tx: Transaction, delivery: Delivery, ingress: Ingress, now: int) -> None:
    """Publish a bus event into the topic of a workflow that listens to it (T10)."""
    publication = ingress.publication
    event = read_event(tx, delivery.event_id)
    if not starts_runs(event.source, _source_of_cause(tx, event)):
        return
    statements.look(tx, ingress.workflow_id)
    topic = statements.read_topic(tx, ingress.workflow_id, publication.topic)
    check_ingress(topic, "bus", bus_topic=delivery.topic)
    name = f"bus:{delivery.event_id}"
    assert publication.message_id == name, publication
    statements.publish(
        tx,
        ingress.workflow_id,
        publication,
        created_by=name,
        bus_event=delivery.event_id,
        now=now,
    )


def _source_of_cause(tx: Transaction, event: JournalRow) -> str | None:
    """Read the source of the event that caused this one; None without a cause, or if it is gone."""
    if event.causation_id is None:
        return None
    try:
        return read_event(tx, int(event.causation_id.removeprefix("bus:"))).source
    except (NotFound, ValueError):
        return None


def move_row(
    tx: Transaction, old: Delivery, new: Delivery, now: int, host: str | None = None
) -> None:
    """Write what became of a delivery, if it is still what was decided on (B4).

    A host of a fleet that begins it is named in the row, until the attempt has ended (H8).
    """
    tx.change(
        "move_delivery",
        _name(old),
        event_id=old.event_id,
        subscriber_id=old.subscriber_id,
        old_status=old.status,
        old_attempts=old.attempts,
        status=new.status,
        attempts=new.attempts,
        due_at=new.due_at_ms,
        error=new.error,
        suspect=int(new.is_suspect),
        holder=host,
        now=now,
    )
    tally.note_delivery(old.status, new.status)


def _name(delivery: Delivery) -> str:
    return f"The delivery of event {delivery.event_id} to {delivery.subscriber_id}"
