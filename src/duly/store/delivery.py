"""Which subscribers an event goes to, and how each delivery ended (B3–B7, B11, B13).

Law: an event has one delivery record per subscriber, written at its first delivery (B13). An
attempt is counted before the handler runs, a success is recorded once, and what becomes of an event
follows from its records in the transaction that changes one of them (B4). What moves, and where
to, is decided by `rules.delivery`; a verb writes it only where it still finds what was decided on.

A subscriber's *lane* is the events of its topic in the order of their ids. Only the head of a lane
may begin (B6): an open delivery, or an event that is not opened yet and stands before it. So the
cost of looking for work grows with the subscribers, never with the backlog (S9).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from duly.env import Boot
from duly.errors import Invalid, NotFound, RequestRefused, Stale, see
from duly.rules.delivery import (
    DELIVERIES,
    JOURNAL,
    Delivery,
    DeliveryMove,
    DeliveryStatus,
    Event,
    JournalStatus,
    Retry,
    begin,
    believe_due,
    close,
    end,
    give_back,
    is_addressed,
    is_loop,
    is_unasked,
    judge,
    list_failures,
    recover_delivery,
    recover_event,
    reopen,
    startable,
    starts_runs,
)
from duly.rules.delivery import discard as discard_dead
from duly.rules.event import Publication, check_ingress
from duly.rules.value import decode
from duly.store import statements
from duly.store.base import Transaction
from duly.store.bus import (
    JournalRow,
    SubscriptionRow,
    adopt_deferred,
    deliveries_of,
    delivery_of,
    find_subscription,
    promote_due,
    read_event,
)
from duly.store.people import PAGE_ROWS_MAX, page
from duly.store.record import Action
from duly.words.delivery import say_failures, say_loop


@dataclass(frozen=True, slots=True)
class OpenDelivery:
    """An event that can be begun now, and its subscriber.

    Without a subscriber id no handler can be called. Either the event has no subscriber and is to
    be closed (B11), or none of them is connected here and it is to be opened for them (B13).
    """

    event_id: int
    subscriber_id: str | None


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
class Finished:
    """What an ended attempt made of its delivery and of the event."""

    delivery: Delivery
    status: JournalStatus


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
    left = []
    running = [delivery_of(row) for row in tx.all("running_deliveries")]
    for lost in running:
        subscription = _subscription(tx, lost)
        retry = subscription.retry if subscription else Retry()
        back = recover_delivery(lost, retry, now, is_alone=len(running) == 1)
        if subscription is None and back.status is DeliveryStatus.WAITING:
            back = close(back)
        if back.status is not DeliveryStatus.WAITING:
            left.append(lost.event_id)
        move_row(tx, lost, back, now)
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


def give_back_running(tx: Transaction, kept: Collection[int], *, now: int) -> int:
    """Give back, uncounted, what an orderly stop cut short; return how many these were (B5).

    Of the events in `kept` a handler has ended, and only the record of that is missing.
    """
    lost = [
        each for each in map(delivery_of, tx.all("running_deliveries")) if each.event_id not in kept
    ]
    for each in lost:
        back = give_back(each, now)
        is_gone = _subscription(tx, each) is None
        move_row(tx, each, close(back) if is_gone else back, now)
        if is_gone:
            settle_event(tx, each.event_id, now)
    return len(lost)


def begin_delivery(
    tx: Transaction, event_id: int, connected: Collection[str], *, now: int
) -> Begun:
    """Begin the event's next delivery to one of the connected subscribers, counting the attempt.

    The first one opens the event: a record for every subscription of its topic (B13). An event
    that has no subscriber, cannot be read or ends a loop is closed instead (B11, B7, B12). One
    whose subscribers are all elsewhere is opened and stays pending, so that a person can see what
    it waits for (B13). Stale if no delivery of it may begin now (B3, B6).

    The event may not be on the disk yet: the caller awaits the store's `sync` before it calls the
    handler (B4).
    """
    row = read_event(tx, event_id)
    event, error = _read(row)
    subscriptions = [] if row.opened else _addressees(tx, row.topic, event)
    if not row.opened and error is not None:
        return _close(tx, row, JournalStatus.FAILED, now, error=error)
    if not row.opened and not subscriptions:
        return _close(tx, row, JournalStatus.DONE, now, undelivered=1)
    subscribers = {each.subscriber_id for each in subscriptions or deliveries_of(tx, event_id)}
    here = subscribers.intersection(connected)
    if not row.opened and not here:
        for subscription in subscriptions:
            _open(tx, row, subscription, now)
        _move_event(tx, row, JournalStatus.PENDING, now, error=row.error)
        return Begun(JournalStatus.PENDING)
    able = _startable(tx, here, now)
    chosen = next((each for each in able if each.event_id == event_id), None)
    if chosen is None:
        facts = {"status": row.status}
        raise Stale(code="changed_meanwhile", subject=f"event {event_id}", facts=facts)
    for subscription in subscriptions:
        _open(tx, row, subscription, now)
    begun = begin(chosen)
    move_row(tx, chosen, begun, now)
    _move_event(tx, row, JournalStatus.PROCESSING, now, error=row.error)
    return Begun(JournalStatus.PROCESSING, event, begun, row.depth)


def finish_delivery(
    tx: Transaction,
    event_id: int,
    subscriber_id: str,
    attempt: int,
    *,
    error: str | None = None,
    is_final: bool = False,
    ingress: Ingress | None = None,
    now: int,
) -> Finished:
    """Record how an attempt ended: done, waiting for the next, or dead (B4, B5).

    A final failure is not tried again. A success may bring the event into a workflow's topic, in
    the same transaction (T10).
    """
    found = _known_delivery(tx, event_id, subscriber_id)
    if found.attempts != attempt:
        facts = {"attempts": found.attempts, "attempt": attempt}
        raise Stale(code="changed_meanwhile", subject=_name(found), facts=facts)
    running = replace(found, status=DeliveryStatus.RUNNING)
    subscription = _subscription(tx, found)
    retry = subscription.retry if subscription else Retry()
    ended = end(running, error, retry, now, is_final=is_final)
    if subscription is None and ended.status is DeliveryStatus.WAITING:
        ended = close(ended)
    if found.status is not DeliveryStatus.RUNNING:
        if (found.status, found.error) != (ended.status, ended.error):
            raise Stale(code="changed_meanwhile", subject=_name(found))
        return Finished(found, JournalStatus(read_event(tx, event_id).status))
    if error is None and ingress is not None:
        _enter(tx, found, ingress, now)
    move_row(tx, found, ended, now)
    return Finished(ended, settle_event(tx, event_id, now))


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


def open_deliveries(
    tx: Transaction, connected: Collection[str], *, now: int, limit: int
) -> tuple[OpenDelivery, ...]:
    """Find what can be begun now, oldest event first, at most one delivery of each event (B3).

    Events with a handler to call come first: a backlog without a listener delays no other (B6).
    """
    called = _startable(tx, connected, now)[: page(limit)]
    found = [OpenDelivery(each.event_id, each.subscriber_id) for each in called]
    left = limit - len(found)
    found += [OpenDelivery(event_id, None) for event_id in _uncalled(tx, connected, left)]
    return tuple(sorted(found, key=lambda each: each.event_id))


# -- Lanes (B3, B6) -----------------------------------------------------------------------------


def _startable(tx: Transaction, connected: Collection[str], now: int) -> tuple[Delivery, ...]:
    """Choose what may begin, of the heads of the connected subscribers' lanes."""
    running = [delivery_of(row) for row in tx.all("running_deliveries")]
    heads = [head for each in sorted(connected) if (head := _head(tx, each, now)) is not None]
    return startable([*running, *heads], connected, now)


def _head(tx: Transaction, subscriber_id: str, now: int) -> Delivery | None:
    subscription = find_subscription(tx, subscriber_id)
    if subscription is None:
        return None
    topic = subscription.topic
    heads = []
    if opened := tx.one("first_open_delivery", subscriber_id=subscriber_id, topic=topic):
        heads.append(believe_due(delivery_of(opened), subscription.retry, now))
    if unopened := tx.one("first_unopened_event", topic=topic):
        # It is not opened yet; its record will look like this.
        place = subscription.position
        heads.append(Delivery(unopened[0], topic, subscriber_id, place, due_at_ms=now))
    return min(heads, key=lambda head: head.event_id, default=None)


def _uncalled(tx: Transaction, connected: Collection[str], limit: int) -> list[int]:
    """Find unopened events of topics that none of the connected subscribes to, topic by topic."""
    found: list[int] = []
    topic = ""
    while len(found) < limit and (next_one := tx.one("next_unopened_topic", after=topic)):
        (topic,) = next_one
        if not any(each.subscriber_id in connected for each in _subscriptions(tx, topic)):
            left = limit - len(found)
            found += [row[0] for row in tx.all("unopened_events", topic=topic, limit=left)]
    return found


def _subscription(tx: Transaction, delivery: Delivery) -> SubscriptionRow | None:
    """Read the subscription of a delivery; one of the same name for another topic is not it."""
    found = find_subscription(tx, delivery.subscriber_id)
    return None if found is None or found.topic != delivery.topic else found


def _addressees(tx: Transaction, topic: str, event: Event | None) -> list[SubscriptionRow]:
    """Read the subscribers an event is opened for; of channels only the one it names (B13)."""
    found = _subscriptions(tx, topic)
    channel_id = None if event is None else event.payload.get("channel_id")
    names = {each.subscriber_id for each in found}
    return [
        each for each in found if is_addressed(each.subscriber_id, each.channel, channel_id, names)
    ]


def _subscriptions(tx: Transaction, topic: str) -> list[SubscriptionRow]:
    return [SubscriptionRow(*row) for row in tx.all("topic_subscriptions", topic=topic)]


# -- Events -------------------------------------------------------------------------------------


def _read(row: JournalRow) -> tuple[Event | None, str | None]:
    """Read the event that a handler gets, or say why no handler gets it (B7, B8, B12)."""
    if is_loop(row.depth):
        return None, say_loop(row.depth)
    try:
        payload = decode(row.payload, "payload")
    except Invalid as invalid:
        return None, f"This event cannot be read: {invalid}"
    if not isinstance(payload, dict):
        return None, "This event cannot be read: its payload is not a JSON object."
    created_at_s = row.created_at / 1000
    return Event(row.id, row.topic, row.source, payload, created_at_s, row.correlation_id), None


def _open(tx: Transaction, event: JournalRow, subscription: SubscriptionRow, now: int) -> None:
    tx.run(
        "insert_delivery",
        event_id=event.id,
        subscriber_id=subscription.subscriber_id,
        topic=event.topic,
        position=subscription.position,
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
    _move_event(tx, event, status, now, error=error, undelivered=undelivered)
    return Begun(status)


def settle_event(tx: Transaction, event_id: int, now: int) -> JournalStatus:
    """Write what its deliveries make of an event (B4)."""
    event = read_event(tx, event_id)
    deliveries = deliveries_of(tx, event_id)
    status = judge(deliveries)
    # Every subscriber left before it was called: no handler got the event (B11).
    undelivered = int(all(map(is_unasked, deliveries)))
    if status is JournalStatus.PROCESSING and event.status == JournalStatus.PENDING:
        # It was given back at a start, and no handler was called since (B7).
        status = JournalStatus.PENDING
    error = say_failures(list_failures(deliveries))
    _move_event(tx, event, status, now, error=error, undelivered=undelivered)
    return status


def _move_event(
    tx: Transaction,
    event: JournalRow,
    status: JournalStatus,
    now: int,
    *,
    error: str | None,
    undelivered: int = 0,
) -> None:
    old = JournalStatus(event.status)
    assert status is old or status in JOURNAL[old], (event, status)
    is_closed = status in (JournalStatus.DONE, JournalStatus.FAILED)
    moved = tx.one(
        "move_journal_event",
        id=event.id,
        old_status=old,
        status=status,
        undelivered=undelivered,
        error=error,
        processed_at=(event.processed_at or now) if is_closed else None,
    )
    statements.must(moved, f"Event {event.id}")


# -- Deliveries ---------------------------------------------------------------------------------


def _known_delivery(tx: Transaction, event_id: int, subscriber_id: str) -> Delivery:
    found = tx.one("get_delivery", event_id=event_id, subscriber_id=subscriber_id)
    if found is None:
        dead = see("bus.deliveries", status="dead")
        facts = {"event": event_id}
        raise NotFound(code="no_delivery", subject=subscriber_id, facts=facts, next=dead)
    return delivery_of(found)


def _dead(tx: Transaction, event_id: int, subscriber_id: str, move: DeliveryMove) -> Delivery:
    """Read a delivery that a person wants to move, or refuse: only the dead can be (B5)."""
    delivery = _known_delivery(tx, event_id, subscriber_id)
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


def move_row(tx: Transaction, old: Delivery, new: Delivery, now: int) -> None:
    """Write what became of a delivery, if it is still what was decided on (B4)."""
    moved = tx.one(
        "move_delivery",
        event_id=old.event_id,
        subscriber_id=old.subscriber_id,
        old_status=old.status,
        old_attempts=old.attempts,
        status=new.status,
        attempts=new.attempts,
        due_at=new.due_at_ms,
        error=new.error,
        suspect=int(new.is_suspect),
        now=now,
    )
    statements.must(moved, _name(old))


def _name(delivery: Delivery) -> str:
    return f"The delivery of event {delivery.event_id} to {delivery.subscriber_id}"
