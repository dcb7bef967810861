"""Subscriptions: from the first registration until the last waiting delivery is closed (B13).

Law 1  A subscription keeps its place. Those that a manifest asked for come before those that code
       asked for, also in a store in which the code had registered first (B3, B9).
Law 2  A subscription that is ended gets no event and no call any more. What waited for it is closed
       in turns, so that no other write waits long; until that is over its row says *leaving*, and
       the next host goes on where this one stopped.
Law 3  In a fleet one host calls a subscriber, from when it takes it until it is gone (H8).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from duly.errors import NotFound, see
from duly.rules.delivery import (
    ATTEMPTS_MAX,
    DeliveryStatus,
    Retry,
    check_subscriber_id,
    check_topic,
    close,
    listens_elsewhere,
    place_of,
)
from duly.rules.value import DEFAULT_LIMITS, encode
from duly.store import statements
from duly.store.base import Transaction
from duly.store.bus import delivery_of, read_subscription
from duly.store.delivery import move_row, recover_gone
from duly.store.journal import settle_event
from duly.store.people import PAGE_ROWS_MAX, page
from duly.store.record import Action


@dataclass(frozen=True, slots=True)
class Left:
    """How many deliveries one turn closed, and whether that was the last turn."""

    closed: int
    is_over: bool


def subscribe(
    tx: Transaction,
    subscriber_id: str,
    topic: str,
    retry: Retry,
    *,
    is_wired: bool = False,
    channel: str | None = None,
    now: int,
) -> int:
    """Register a subscriber, for good; one that comes again keeps its place, which is returned."""
    assert len(retry.delays_s) <= ATTEMPTS_MAX, retry
    kept = {
        "subscriber_id": check_subscriber_id(subscriber_id),
        "channel": channel,
        "attempts_max": retry.attempts,
        "delays_s": encode(list(retry.delays_s), "retry", limit_bytes=DEFAULT_LIMITS.state_bytes),
    }
    known = read_subscription(tx, subscriber_id)
    while known is not None and known.leaving:
        # It comes back before its turns were over: what is left of before is not for it.
        if close_left(tx, subscriber_id, now=now).is_over:
            known = None
    if known is None:
        (number,) = statements.must(
            tx.one("take_bus_number", name="subscription"), "The bus's counter"
        )
        position = place_of(int(number), is_wired=is_wired)
        tx.write(
            "insert_subscription", topic=check_topic(topic), position=position, now=now, **kept
        )
        return position
    if known.topic != topic:
        raise listens_elsewhere(subscriber_id, known.topic, topic)
    position = place_of(known.position, is_wired=is_wired)
    tx.write("change_subscription", position=position, **kept)
    return position


def unsubscribe(
    tx: Transaction,
    subscriber_id: str,
    *,
    now: int,
    limit: int = PAGE_ROWS_MAX,
    action: Action | None = None,
) -> Left:
    """End a subscription and close the first of what waited for it; what runs may end (B13)."""
    if read_subscription(tx, subscriber_id) is None:
        raise NotFound(code="no_subscriber", subject=subscriber_id, next=see("bus.deliveries"))
    if tx.run("leave_subscription", subscriber_id=subscriber_id) and action is not None:
        statements.note(tx, action, now, workflow_id=None, target=subscriber_id)
    return close_left(tx, subscriber_id, now=now, limit=limit)


def close_left(
    tx: Transaction, subscriber_id: str, *, now: int, limit: int = PAGE_ROWS_MAX
) -> Left:
    """Close some of what waited for a subscription that was ended; each says so (B13)."""
    subscription = read_subscription(tx, subscriber_id)
    if subscription is None or not subscription.leaving:
        return Left(0, is_over=True)
    here = {"subscriber_id": subscriber_id, "topic": subscription.topic}
    # One more than a turn has: at most one of them runs, so every turn closes something.
    found = [delivery_of(row) for row in tx.all("open_deliveries", limit=page(limit) + 1, **here)]
    waiting = [each for each in found if each.status is DeliveryStatus.WAITING]
    for delivery in waiting[:limit]:
        move_row(tx, delivery, close(delivery), now)
        settle_event(tx, delivery.event_id, now)
    is_over = len(found) <= limit
    if is_over:
        tx.write("drop_subscription", subscriber_id=subscriber_id)
    return Left(len(waiting[:limit]), is_over)


def hold_subscribers(
    tx: Transaction, host_id: str, names: Collection[str], *, now: int
) -> tuple[str, ...]:
    """Let a host of a fleet call subscribers that no other host holds; return those it has (H8).

    What hosts that are gone were telling any subscriber is given back before, all of it at once: a
    host's death counts only against a delivery that ran alone (B5).
    """
    recover_gone(tx, now)
    held = []
    for name in sorted(names):
        found = tx.one("find_subscription_holder", subscriber_id=name)
        if found is None:
            continue
        holder, is_here = found
        if holder != host_id:
            if is_here:
                continue
            tx.write("hold_subscription", subscriber_id=name, holder=host_id)
        held.append(name)
    return tuple(held)


def next_leaving(tx: Transaction) -> str | None:
    """Read which subscription was ended and has still something to be closed, if any."""
    found = tx.one("next_leaving")
    return None if found is None else str(found[0])
