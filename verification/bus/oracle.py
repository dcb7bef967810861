"""What must hold on the bus after every commit, at every call, and at the end (B).

Law: an oracle knows nothing of the bus. It compares what the store says now with what it said
before, with the record of the scenario, and with what is on the disk. `promise` checks that what
was said comes, `lane` whose turn it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from duly.rules.delivery import Event
from verification.bus.lane import Lanes
from verification.bus.promise import Promise
from verification.bus.record import Call, Emission, End, Record
from verification.bus.scenario import BusDo, BusScenario, Listener
from verification.bus.seen import DEPTH_MAX, WAY, BusSeen, DeliverySeen, EventSeen, Pair

HOST_DEATHS: Final = 3  # so many hosts must have died on a delivery before it is dead of that
CLOCK_MS: Final = 500  # how long a commit may come after the look at the clock it was decided by


@dataclass(slots=True)
class BusOracle:
    """Remembers what was, and says what is wrong."""

    scenario: BusScenario
    record: Record
    elapsed_ms: Callable[[], int]
    boot: Callable[[], str | None]
    newest_durable: Callable[[], int]  # the newest event that is on the disk
    problems: list[str]
    before: BusSeen | None = None
    life: int = 0
    jumps: int = 0
    connected: frozenset[str] = frozenset()  # since the beginning of this life
    died: set[int] = field(default_factory=set)  # the lives that did not end in order
    is_cut: bool = False  # the power failed, and the oracle has not looked since
    is_stopping: bool = False  # this life is being ended in order
    _durable_id: int = 0
    _lost: set[Pair] = field(default_factory=set)  # running when this life began
    _is_alone: bool = False  # only one was
    _suspects: set[Pair] = field(
        default_factory=set
    )  # running when a host died, and not ended since
    _begun: set[int] = field(default_factory=set)  # events of which a call began in this life
    _deaths: dict[Pair, int] = field(default_factory=dict)
    _failed: dict[Pair, tuple[int, int, int]] = field(default_factory=dict)
    # By which clock an attempt began: a next time may be told before the clock is set, and written
    # after that.
    _clocks: dict[Pair, int] = field(default_factory=dict)
    _uncounted: dict[Pair, int] = field(default_factory=dict)  # calls that no longer count
    _latest: dict[str, int] = field(default_factory=dict)  # by subscriber: the newest it was told
    _lanes: Lanes = field(default_factory=Lanes)
    _promise: Promise = field(init=False)

    def __post_init__(self) -> None:
        """Take on what was promised."""
        self._promise = Promise(self.scenario, self.record, self.elapsed_ms, self.boot, self.say)

    def say(self, problem: str) -> None:
        """Say what is wrong, once."""
        if problem not in self.problems:
            self.problems.append(problem)

    # -- What is seen ---------------------------------------------------------------------------

    def begin_life(self, now: BusSeen, life: int) -> None:
        """Look at what the last host left."""
        was_cut, self.is_cut = self.is_cut, False
        if was_cut:
            # What was counted and recorded may be gone with the power; the calls were made.
            for pair, calls in self.record.calls.items():
                delivery = now.deliveries.get(pair)
                counted = 0 if delivery is None else delivery.attempts
                self._uncounted[pair] = max(self._uncounted.get(pair, 0), len(calls) - counted)
        # What the last host committed after the oracle's last look is still its own.
        self.look(now)
        for pair, (do, decided_in, count) in self.record.decided.items():
            is_next = decided_in == life - 1 and len(self.record.calls[pair]) == count
            if do == BusDo.RETRY and is_next and now.deliveries[pair].status == "dead":
                self.say(f"the retry of event {pair[0]} to {pair[1]} was acknowledged and is lost")
        self.life = life
        self._begun.clear()
        self._lanes.rest()
        self._promise.begin_life()
        self._lost = {pair for pair, each in now.deliveries.items() if each.status == "running"}
        self._is_alone = len(self._lost) == 1
        if self._lost and life > 0 and life - 1 not in self.died:
            self.say(f"an orderly stop left {sorted(self._lost)} running")
        if was_cut:
            # The marks may be gone with what they were about.
            self._suspects = {pair for pair, each in now.deliveries.items() if each.suspect}
        self._suspects |= self._lost
        self.is_stopping = False

    def end_life(self) -> None:
        """Expect nothing to begin any more: the host is being stopped."""
        self.is_stopping = True
        self._lanes.rest()
        self.connected = frozenset()

    def forget(self) -> None:
        """Forget what was: a power cut may have taken what was committed and not yet durable."""
        self.before = None
        self.is_cut = True
        self._begun.clear()

    def look(self, now: BusSeen) -> None:
        """Check everything that must hold at every moment."""
        was, self.before = self.before, now
        if was is not None:
            self._compare(was, now)
        for event in now.events.values():
            self._check_event(event, now.deliveries_of(event.id))
        self._check_answers(now)
        self._promise.look(was, now)
        held = self._lanes.look(now, self._present(now), self.elapsed_ms())
        for event_id, name in held:
            self.say(f"event {event_id} is held back from {name}, and nothing is in its way")

    def glance(self, now: BusSeen) -> None:
        """Note what was to be seen when the bus looked for work."""
        self._lanes.glance(now, self._present(now))

    def see_jump(self) -> None:
        """Note that the clock was set."""
        self.jumps += 1
        self._promise.see_jump()

    def see_cancel(self, emission: Emission, *, is_done: bool, is_first: bool) -> None:
        """Note that a caller was told what became of a cancel."""
        assert self.before is not None
        self._promise.see_cancel(self.before, emission, is_done=is_done, is_first=is_first)

    def see_leave(self, name: str) -> None:
        """Note that a caller was told that a subscriber is no more; what runs may end."""
        assert self.before is not None
        running = (
            each.event_id
            for each in self.before.deliveries.values()
            if each.subscriber_id == name and each.status == "running"
        )
        self.record.gone.setdefault(name, frozenset(running))
        self._check_answers(self.before)

    def see_call(self, name: str, event: Event) -> Call:
        """Check a call that begins, and write it down."""
        pair = event.id, name
        calls = self.record.calls[pair]
        for problem in self._find_wrong_with_call(pair, event, calls):
            self.say(problem)
        self._latest[name] = max(self._latest.get(name, 0), event.id)
        calls.append(Call(self.life, self.elapsed_ms()))
        return calls[-1]

    def see_cut(self, name: str, event: Event, call: Call) -> None:
        """See a handler that was told to end: its time was over, or its host is being stopped."""
        if not call.is_late and self.connected:
            self.say(f"event {event.id} for {name} was cut short")

    def look_at_the_end(self, now: BusSeen) -> None:
        """Check what must hold when everything has come to rest."""
        for each in now.deliveries.values():
            if each.is_open:
                self.say(f"the delivery of {_name(each)} was left {each.status}")
        self._promise.look_at_the_end(now)

    def _present(self, now: BusSeen) -> frozenset[str]:
        """Return who can be called: connected, not leaving, and not still at something (B3)."""
        ways = (
            {name for name in now.subscriptions if name.startswith(WAY)} if self.connected else ()
        )
        busy = {name for name in self.connected if self._is_at_work(name)}
        return (self.connected - self.record.leaving - busy).union(ways)

    def _is_at_work(self, name: str) -> bool:
        """Tell whether a handler has not ended yet, or only just after its time was over."""
        a_moment_ago_ms = self.elapsed_ms() - CLOCK_MS
        return any(
            call.end is None or (call.is_late and call.ended_ms > a_moment_ago_ms)
            for pair, calls in self.record.calls.items()
            for call in calls
            if pair[1] == name and call.life == self.life
        )

    # -- One call (B4, B5, B6) ------------------------------------------------------------------

    def _find_wrong_with_call(self, pair: Pair, event: Event, calls: list[Call]) -> list[str]:
        found = []
        what = f"event {event.id} for {pair[1]}"
        delivery = None if self.before is None else self.before.deliveries.get(pair)
        if delivery is None or delivery.status != "running":
            status = "not recorded" if delivery is None else delivery.status
            found.append(f"{what} was called while its delivery is {status}")
        elif len(calls) + 1 - self._uncounted.get(pair, 0) > delivery.attempts:
            found.append(f"{what} was called more often than {delivery.attempts} attempts")
        # Only a death before the record is a reason to call it again (B4).
        if any(call.has_succeeded and call.life not in self.died for call in calls):
            found.append(f"{what} was called again after it had returned")
        if any(
            call.end is None and call.life == self.life
            for other, others in self.record.calls.items()
            for call in others
            if other[1] == pair[1]
        ):
            found.append(f"{what} was called while {pair[1]} was still called")
        is_reopened = pair in self._lanes.reopened
        if not calls and not is_reopened and self._latest.get(pair[1], 0) > event.id:
            found.append(f"{what} came after event {self._latest[pair[1]]}")
        if event.id not in self.record.gone.get(pair[1], (event.id,)):
            found.append(f"{what} was called after {pair[1]} had left")
        if event.id > self._durable_id:
            self._durable_id = self.newest_durable()
            if event.id > self._durable_id:
                found.append(f"{what} was called before it was on the disk")
        emission = self.record.emissions.get(event.payload.get("mark", 0))
        said = emission and (emission.topic, emission.source, emission.correlation_id)
        if said != (event.topic, event.source, event.correlation_id) or (
            event.status != "processing"
        ):
            found.append(f"{what} is not what was said")
        return found

    # -- Events and their deliveries (B4, B11) --------------------------------------------------

    def _check_event(self, event: EventSeen, deliveries: list[DeliverySeen]) -> None:
        if not deliveries:
            self._check_untold(event)
            return
        # A subscriber that left before its call is no failure; if all did, none was told (B11).
        asked = [each for each in deliveries if not each.is_unasked]
        statuses = {each.status for each in asked}
        if event.undelivered != int(not asked):
            self.say(f"event {event.id} says that it was {event.undelivered} undelivered")
        if statuses & {"waiting", "running"}:
            may_be = {"processing"}
            if "running" not in statuses and event.id not in self._begun:
                may_be.add("pending")  # given back at a start, or no subscriber was connected
        else:
            may_be = {"done"} if statuses <= {"done"} else {"failed"}
        if event.status not in may_be:
            words = ", ".join(sorted(statuses))
            self.say(f"event {event.id} is {event.status}, its deliveries are {words}")
        for each in asked:
            is_named = each.subscriber_id in (event.error or "")
            if each.status in ("dead", "discarded") and event.status == "failed" and not is_named:
                self.say(f"event {event.id} does not say that {each.subscriber_id} failed")

    def _check_answers(self, now: BusSeen) -> None:
        """See that what a caller was told is done stays done, also after a power cut."""
        for name in self.record.gone.keys() & now.subscriptions.keys():
            self.say(f"{name} was unsubscribed and still subscribes")
        for pair, (do, _, _) in self.record.decided.items():
            if do == BusDo.DISCARD and now.deliveries[pair].status != "discarded":
                self.say(
                    f"the discard of event {pair[0]} to {pair[1]} was acknowledged and is lost"
                )

    def _check_untold(self, event: EventSeen) -> None:
        is_loop = event.depth > DEPTH_MAX
        may_be = {("pending", 0), ("failed", 0)} if is_loop else {("pending", 0), ("done", 1)}
        if (event.status, event.undelivered) not in may_be:
            self.say(f"event {event.id} is {event.status}, and no subscriber was told of it")

    # -- What has changed -----------------------------------------------------------------------

    def _compare(self, was: BusSeen, now: BusSeen) -> None:
        for event in was.events.values():
            later = now.events.get(event.id)
            if later is None:
                self.say(f"event {event.id} is gone")
            elif later[:7] != event[:7]:
                self.say(f"event {event.id} has changed")
            elif event.status == "done" and later.status != "done":
                self.say(f"event {event.id} was done and is {later.status}")
            elif event.is_unopened and not later.is_unopened:
                self._compare_opened(was, now, later)
        for pair in was.deliveries.keys() - now.deliveries.keys():
            self.say(f"the delivery of event {pair[0]} to {pair[1]} is gone")
        for pair, delivery in now.deliveries.items():
            before = was.deliveries.get(pair)
            if before == delivery:
                continue
            is_given_back = before is not None and self._is_given_back(before, delivery)
            if is_given_back:
                self._uncount(pair, delivery)
            elif (
                before is None
                or before.attempts != delivery.attempts
                or (before.status == "waiting" and delivery.status == "running")
            ):
                self._see_count(was, now, pair, before)
            if before is not None and before.status != delivery.status and not is_given_back:
                self._see_move(now, pair, before, delivery)
            self._lanes.see_change(pair[0])
        for name in was.subscriptions.keys() - now.subscriptions.keys():
            if name not in self.record.leaving:
                self.say(f"{name} no longer subscribes, and no caller unsubscribed it")

    def _is_given_back(self, before: DeliverySeen, delivery: DeliverySeen) -> bool:
        """Tell whether an attempt was taken back, and see that it may be (B5).

        Either the host is being stopped, or it died and there were others beside it.
        """
        is_back = before.status == "running" and delivery.status in ("waiting", "discarded")
        if not is_back or delivery.attempts != before.attempts - 1:
            return False
        pair = delivery.event_id, delivery.subscriber_id
        if pair in self._lost:
            self._lost.discard(pair)
            if self._is_alone:
                self.say(f"the death of {_name(delivery)}, which ran alone, does not count")
            if delivery.status == "waiting" and not delivery.suspect:
                self.say(f"the delivery of {_name(delivery)} is not to be tried alone")
        else:
            calls = [call for call in self.record.calls[pair] if call.life == self.life]
            if not self.is_stopping or (calls and calls[-1].has_succeeded):
                self.say(f"the delivery of {_name(delivery)} was given back")
        return True

    def _uncount(self, pair: Pair, delivery: DeliverySeen) -> None:
        """Expect a call more than there are attempts."""
        over = len(self.record.calls[pair]) - delivery.attempts
        self._uncounted[pair] = max(self._uncounted.get(pair, 0), over)

    def _compare_opened(self, was: BusSeen, now: BusSeen, event: EventSeen) -> None:
        """See that every subscriber is told (B13), and only an event without one ends (B11)."""
        told = {each.subscriber_id for each in now.deliveries_of(event.id)}
        before, after = was.subscribers_of(event.topic), now.subscribers_of(event.topic)
        if event.depth > DEPTH_MAX:
            before = after = set()
        # A subscriber that came or left since the last look may be among them or not.
        if not before & after <= told <= before | after:
            self.say(f"event {event.id} is for {sorted(told)}, and {sorted(after)} subscribe")

    def _see_count(
        self, was: BusSeen, now: BusSeen, pair: Pair, before: DeliverySeen | None
    ) -> None:
        """See an attempt that begins: its turn, its time and its number (B3, B5, B6)."""
        delivery = now.deliveries[pair]
        counted = 0 if before is None else before.attempts
        is_reopened = before is not None and before.status == "dead"
        if delivery.attempts == 0 and (is_reopened or before is None):
            return
        if delivery.status != "running" or delivery.attempts != counted + 1:
            self.say(f"the delivery of {_name(delivery)} has {delivery.attempts} attempts")
            return
        self._begun.add(pair[0])
        self._clocks[pair] = self.jumps
        others = {other for other, each in now.deliveries.items() if each.status == "running"}
        others.discard(pair)
        if others and (pair in self._suspects or others & self._suspects):
            self.say(f"the delivery of {_name(delivery)} began beside {sorted(others)}")
        for problem in self._lanes.find_wrong_turn(was, now, delivery, self._present(was)):
            self.say(problem)
        listener = self._listener(pair[1])
        failed_ms, life, jumps = self._failed.get(pair, (0, -1, 0))
        if listener and counted and (life, jumps) == (self.life, self.jumps):
            # The last delay serves all that follow (B5).
            delay_ms = listener.delays_s[min(counted, len(listener.delays_s)) - 1] * 1_000
            if self.elapsed_ms() - failed_ms < delay_ms - CLOCK_MS:
                self.say(f"the delivery of {_name(delivery)} was retried too early")

    def _see_move(
        self, now: BusSeen, pair: Pair, before: DeliverySeen, delivery: DeliverySeen
    ) -> None:
        is_gone = pair[1] not in now.subscriptions
        match (before.status, delivery.status):
            case ("waiting", "running"):
                return
            case ("running", _):
                self._see_end(pair, delivery, is_gone=is_gone)
            case ("dead", "waiting") if (BusDo.RETRY.value, pair) in self.record.asked:
                if delivery.attempts:
                    self.say(f"the retried delivery of {_name(delivery)} has not all its attempts")
                self._uncounted[pair] = len(self.record.calls[pair])
                self._deaths.pop(pair, None)
                self._lanes.reopen(pair)
            case ("dead", "discarded") if (BusDo.DISCARD.value, pair) in self.record.asked:
                return
            case ("waiting", "discarded") if is_gone:
                return
            case _:
                words = f"was {before.status} and is {delivery.status}"
                self.say(f"the delivery of {_name(delivery)} {words}")

    def _see_end(self, pair: Pair, delivery: DeliverySeen, *, is_gone: bool) -> None:
        """See what an attempt came to, and that this is how its call ended (B4, B5)."""
        listener = self._listener(pair[1])
        if pair in self._lost:
            self._lost.discard(pair)
            self._see_given_back(pair, delivery, listener, is_gone=is_gone)
            return
        self._suspects.discard(pair)
        calls = [call for call in self.record.calls[pair] if call.life == self.life]
        has_succeeded = bool(calls) and calls[-1].has_succeeded
        if listener is not None and has_succeeded != (delivery.status == "done"):
            ended = calls[-1].end or "does not return" if calls else "was not called"
            self.say(f"the delivery of {_name(delivery)} is {delivery.status}: it {ended}")
        attempts_max = 1 if listener is None else listener.attempts
        is_refused = bool(calls) and calls[-1].end is End.REFUSED
        is_over = is_refused or delivery.attempts >= attempts_max
        if not is_gone and (delivery.status, is_over) in (("waiting", True), ("dead", False)):
            self.say(
                f"the delivery of {_name(delivery)} is {delivery.status}"
                f" after {delivery.attempts} of {attempts_max} attempts"
            )
        if delivery.status == "discarded" and not is_gone:
            self.say(f"the delivery of {_name(delivery)} is discarded, and no caller asked for it")
        if delivery.status == "waiting":
            self._failed[pair] = self.elapsed_ms(), self.life, self._clocks.get(pair, 0)

    def _see_given_back(
        self, pair: Pair, delivery: DeliverySeen, listener: Listener | None, *, is_gone: bool
    ) -> None:
        """See what becomes of a delivery whose host died while nothing ran beside it (B5)."""
        if not self._is_alone:
            self.say(f"a death with neighbours counts against the delivery of {_name(delivery)}")
        if delivery.status == "waiting" and not delivery.suspect:
            self.say(f"the delivery of {_name(delivery)} is not to be tried alone")
        if delivery.status != "waiting":
            self._suspects.discard(pair)
        deaths = self._deaths[pair] = self._deaths.get(pair, 0) + 1
        attempts_max = 1 if listener is None else listener.attempts
        if delivery.status == "dead" and (deaths < HOST_DEATHS or delivery.attempts < attempts_max):
            self.say(f"the delivery of {_name(delivery)} is dead after {deaths} deaths")
        if delivery.status == "waiting" and delivery.attempts >= attempts_max - 1 + HOST_DEATHS:
            self.say(f"the delivery of {_name(delivery)} is tried for ever")
        if delivery.status == "done" or (delivery.status == "discarded" and not is_gone):
            self.say(f"the delivery of {_name(delivery)} is {delivery.status}, and its host died")

    def _listener(self, name: str) -> Listener | None:
        """Return the listener behind a subscriber; a workflow's topic has none."""
        if name.startswith(WAY):
            return None
        return self.scenario.listeners[int(name.removeprefix("listener"))]


def _name(delivery: DeliverySeen) -> str:
    return f"event {delivery.event_id} to {delivery.subscriber_id}"
