"""The order in which subscribers are called, and that none waits without a reason.

Law 1  A subscriber's lane is the events of its topic in the order of their ids; what is first in
       it comes first (B6). Of one event the subscribers come in the order of registration, one
       at a time (B3).
Law 2  A subscriber that was being called when a host died is called alone, until that has ended
       once; no other delivery is free meanwhile (B5).
Law 3  A delivery is *free* if it is first in its lane, was never tried, and no handler is at its
       event. A delivery that was free at every look of the bus had the first turn; a free one
       begins soon.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from verification.bus.seen import DEPTH_MAX, BusSeen, DeliverySeen, Pair

SOON_MS: Final = 10_000


@dataclass(slots=True)
class Lanes:
    """Remembers who is free, and since when."""

    reopened: set[Pair] = field(default_factory=set)  # in their turn whenever a person says so
    _since: dict[Pair, int] = field(default_factory=dict)
    _always: dict[int, set[str]] = field(default_factory=dict)  # by event: free at every look

    def rest(self) -> None:
        """Expect nothing: no host is at work."""
        self._since.clear()
        self._always.clear()

    def look(self, now: BusSeen, present: frozenset[str], elapsed_ms: int) -> list[Pair]:
        """Return who has been free for too long."""
        free = set() if is_isolated(now, present) else find_free(now, present) - self.reopened
        self._since = {pair: self._since.get(pair, elapsed_ms) for pair in free}
        return [pair for pair, since in self._since.items() if elapsed_ms - since > SOON_MS]

    def glance(self, now: BusSeen, present: frozenset[str]) -> None:
        """Note who was free when the bus looked for work."""
        free = set() if is_isolated(now, present) else find_free(now, present) - self.reopened
        busy = {each.event_id for each in now.deliveries.values() if each.status == "running"}
        for event_id in now.events.keys() - busy:
            here = {name for number, name in free if number == event_id}
            self._always[event_id] = self._always.get(event_id, here) & here

    def see_change(self, event_id: int) -> None:
        """Begin anew with an event whose deliveries have changed."""
        self._always.pop(event_id, None)

    def reopen(self, pair: Pair) -> None:
        """Let a delivery be tried again: what its subscriber would have been told next waits."""
        self.reopened.add(pair)
        for names in self._always.values():
            names.discard(pair[1])

    def find_wrong_turn(
        self, was: BusSeen, now: BusSeen, begun: DeliverySeen, present: frozenset[str]
    ) -> list[str]:
        """Say what was wrong with a delivery that has begun.

        The commit that begins it may have ended the one before it in its lane.
        """
        what = f"the delivery of event {begun.event_id} to {begun.subscriber_id}"
        found = []
        for other in now.lane_of(begun.subscriber_id, begun.topic):
            if other.status == "running" and other.event_id != begun.event_id:
                found.append(f"{what} began beside event {other.event_id}")
            elif other.event_id < begun.event_id:
                found.append(f"{what} began before event {other.event_id}")
        found += [
            f"{what} passed event {event.id}"
            for event in was.events.values()
            if event.topic == begun.topic and event.is_unopened and event.id < begun.event_id
        ]
        places = {name: each.position for name, each in was.subscriptions.items()}
        # Registration orders the first calls; a retry comes when it is due.
        free = self._always.get(begun.event_id, set()) & present if begun.attempts == 1 else set()
        found += [
            f"{what} began before {name}, which had registered before"
            for name in sorted(free)
            if places.get(name, begun.position) < begun.position
        ]
        for other in now.deliveries_of(begun.event_id):
            if other.status == "running" and other.subscriber_id != begun.subscriber_id:
                found.append(f"{what} began beside {other.subscriber_id}")
        return found


def is_isolated(now: BusSeen, present: frozenset[str]) -> bool:
    """Tell whether a subscriber is called alone, or is to be."""
    return any(
        each.suspect and (each.status == "running" or each.subscriber_id in present)
        for each in now.deliveries.values()
        if each.is_open
    )


def find_free(now: BusSeen, present: frozenset[str]) -> set[Pair]:
    """Return whose turn it is, of those who are present."""
    busy = {each.event_id for each in now.deliveries.values() if each.status == "running"}
    free: set[Pair] = set()
    for name in present & now.subscriptions.keys():
        topic = now.subscriptions[name].topic
        lane = now.lane_of(name, topic)
        unopened = [
            each.id for each in now.events.values() if each.topic == topic and each.is_unopened
        ]
        first = min((each.event_id for each in lane), default=None)
        head = min([*unopened, *(() if first is None else (first,))], default=None)
        if head is None or head in busy or any(each.status == "running" for each in lane):
            continue
        delivery = now.deliveries.get((head, name))
        is_untried = delivery is None or delivery.attempts == 0
        if is_untried and now.events[head].depth <= DEPTH_MAX:
            free.add((head, name))
    return free
