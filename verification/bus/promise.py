"""What was said and must come, once, as it was said, and not before its time (B1, B2, B12, T10).

Law: what was acknowledged is in the journal, or will be, or was cancelled by a caller who was told
so. The journal has no event that no caller emitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from verification.bus.record import Emission, Record
from verification.bus.scenario import BusScenario
from verification.bus.seen import WAY, BusSeen, EventSeen, mark_of

LATE_MS = 10_000  # a host that is at work lets nothing wait longer than that


@dataclass(slots=True)
class Promise:
    """Compares the journal, and what is deferred, with the record."""

    scenario: BusScenario
    record: Record
    elapsed_ms: Callable[[], int]
    boot: Callable[[], str | None]
    say: Callable[[str], None]
    is_clock_set: bool = False
    began_ms: int = 0  # when this host began

    def begin_life(self) -> None:
        """Another host begins."""
        self.began_ms = self.elapsed_ms()

    def see_jump(self) -> None:
        """Note that the clock was set: from now on another boot may be wrong about a time."""
        self.is_clock_set = True

    def look(self, was: BusSeen | None, now: BusSeen) -> None:
        """Check everything that must hold at every moment."""
        marks = {event.id: mark_of(event.payload) for event in now.events.values()}
        for mark, count in Counter(marks.values()).items():
            if count > 1:
                self.say(f"what was said once (mark {mark}) is {count} times on the bus")
        for event in now.events.values():
            self._check_event(event, self.record.emissions.get(marks[event.id] or 0))
        for emission in self.record.emissions.values():
            if emission.answer is not None:
                self._check_answered(now, emission, marks)
        self._check_deferred(was, now, marks)
        self._check_entered(now)

    def look_at_the_end(self, now: BusSeen) -> None:
        """Check that nothing is missing when everything has come to rest."""
        fired = {mark_of(event.payload) for event in now.events.values()}
        for emission in self.record.deferred():
            if emission.mark not in fired and not emission.cancels:
                self.say(f"deferred {emission.answer} was acknowledged and never fired")

    def see_cancel(
        self, now: BusSeen, emission: Emission, *, is_done: bool, is_first: bool
    ) -> None:
        """Check the answer a caller got to its cancel (B2)."""
        has_fired = any(mark_of(each.payload) == emission.mark for each in now.events.values())
        what = f"the cancel of deferred {emission.answer}"
        if is_done and emission.is_cancelled:
            self.say(f"{what} was true twice")
        if is_done and has_fired:
            self.say(f"{what} was true, and it has fired")
        if not is_done and is_first and not has_fired:
            self.say(f"{what} was false, and it has neither fired nor been cancelled")
        emission.is_cancelled |= is_done

    # -- Now and later --------------------------------------------------------------------------

    def _check_event(self, event: EventSeen, emission: Emission | None) -> None:
        if emission is None:
            self.say(f"event {event.id} was emitted by no caller")
            return
        if emission.is_cancelled:
            self.say(f"event {event.id} was cancelled and has fired")
        wanted = (
            emission.topic,
            emission.source,
            emission.correlation_id,
            emission.causation_id,
            emission.depth,
        )
        found = event.topic, event.source, event.correlation_id, event.causation_id, event.depth
        if found != wanted:
            self.say(f"event {event.id} is {found}, and should be {wanted}")

    def _check_answered(
        self, now: BusSeen, emission: Emission, marks: dict[int, int | None]
    ) -> None:
        if emission.delay_ms is None:
            if marks.get(emission.answer or 0) != emission.mark:
                self.say(f"event {emission.answer} was acknowledged and is lost")
            return
        row = now.deferred.get(emission.answer or 0)
        if row is None or mark_of(row.payload) != emission.mark:
            self.say(f"deferred {emission.answer} was acknowledged and is lost")
        elif row.status == "cancelled" and not emission.cancels:
            self.say(f"deferred {emission.answer} is cancelled, and no caller cancelled it")
        elif row.status != "cancelled" and emission.is_cancelled:
            self.say(f"deferred {emission.answer} was cancelled and is {row.status}")

    def _check_deferred(
        self, was: BusSeen | None, now: BusSeen, marks: dict[int, int | None]
    ) -> None:
        fired = []
        for row in now.deferred.values():
            is_there = marks.get(row.event_id or 0) == mark_of(row.payload)
            if (row.status == "fired") != (row.event_id is not None and is_there):
                self.say(f"deferred {row.id} is {row.status}, its event is {row.event_id}")
            before = None if was is None else was.deferred.get(row.id)
            if before is not None and before.status not in ("scheduled", row.status):
                self.say(f"deferred {row.id} was {before.status} and is {row.status}")
            if before is not None and before.status == "scheduled" and row.status == "fired":
                fired.append(row)
                self._check_time(row.id, self._emission(row.payload))
        if was is None or not fired:
            return
        in_order = sorted(fired, key=lambda row: (row.due_ms, row.id))
        if [row.event_id for row in in_order] != sorted(row.event_id or 0 for row in fired):
            self.say(f"deferred {[row.id for row in in_order]} did not fire in that order")
        last = max((row.due_ms, row.id) for row in fired)
        for row in now.deferred.values():
            if row.status == "scheduled" and row.id in was.deferred and (row.due_ms, row.id) < last:
                self.say(f"deferred {last[1]} fired before deferred {row.id}")

    def _emission(self, payload: str) -> Emission | None:
        return self.record.emissions.get(mark_of(payload) or 0)

    def _check_time(self, number: int, emission: Emission | None) -> None:
        """See that it fires when its delay is over, also if the clock was set (B2).

        Only another boot of the machine has nothing but the wall clock to go by.
        """
        if emission is None or (self.is_clock_set and emission.boot != self.boot()):
            return
        early_ms = emission.due_ms - self.elapsed_ms()
        if early_ms > 0:
            self.say(f"deferred {number} fired {early_ms} ms before its time")
        late_ms = min(-early_ms, self.elapsed_ms() - self.began_ms)
        if late_ms > LATE_MS:
            self.say(f"deferred {number} fired {late_ms} ms after its time")

    # -- Into a workflow (T10) ------------------------------------------------------------------

    def _check_entered(self, now: BusSeen) -> None:
        """See that a workflow has each event that was delivered to it, once, under its name."""
        wanted = {
            f"bus:{each.event_id}"
            for each in now.deliveries.values()
            if each.subscriber_id.startswith(WAY) and each.status == "done"
        }
        names = [message_id for message_id, _ in now.entered]
        if sorted(names) != sorted(wanted):
            self.say(f"{sorted(names)} entered the workflow, and {sorted(wanted)} were delivered")
        for message_id, created_by in now.entered:
            if message_id != created_by:
                self.say(f"{message_id} entered the workflow in the name of {created_by}")
