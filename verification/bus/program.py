"""The program that embeds the bus in a scenario: it subscribes, speaks, takes back, and is called.

Law 1  A refusal is an answer like any other; only what breaks is a problem.
Law 2  What was emitted and what came back is written into the record before the oracle judges it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from duly.bus.bus import Bus
from duly.bus.dispatcher import Dispatcher
from duly.errors import DulyError, NotFound, Refused
from duly.rules.delivery import DeliveryStatus, Event
from duly.rules.schedule import DAY_MS
from duly.testing.crash import AFTER, BEFORE, Crash, CrashPoints
from verification.bus.oracle import BusOracle
from verification.bus.record import Call, Emission, End, Record
from verification.bus.scenario import BusAction, BusDo, BusScenario, Habit
from verification.life import SimulatedEnv
from verification.point import ANSWER, HANDLER

PLANNED: Final = "as planned"  # what every handler says that raises
SOURCE: Final = "program"
LINGER_S: Final = 3.0
FOR_EVER_S: Final = 1_000.0
NEAR_MS: Final = 500
FAR_MS: Final = 2_000
RAISED: Final[Mapping[Habit, type[BaseException]]] = {
    Habit.RAISE: RuntimeError,
    Habit.REFUSE: Refused,
    Habit.CANCEL_ITSELF: asyncio.CancelledError,
    Habit.EXIT: SystemExit,
    Habit.INTERRUPT: KeyboardInterrupt,
}
CORRELATED: Final = 3  # every so many-th emission of the program names a conversation


@dataclass(frozen=True, slots=True)
class BusHost:
    """One life of a host, as far as the bus is concerned."""

    life: int
    bus: Bus
    dispatcher: Dispatcher
    points: CrashPoints


@dataclass(slots=True)
class Program:
    """The same program through all lives of the host."""

    scenario: BusScenario
    env: SimulatedEnv
    record: Record
    oracle: BusOracle
    tell: Callable[[str], None]
    on_wrong: Callable[[], None]
    on_stop: Callable[[], None]

    # -- Subscribing ----------------------------------------------------------------------------

    def connect(self, host: BusHost) -> frozenset[str]:
        """Subscribe everybody who is there in this life; return who that is."""
        here = [
            number
            for number, listener in enumerate(self.scenario.listeners)
            if host.life not in listener.away
        ]
        return frozenset(self._subscribe(host, number) for number in here)

    async def complete(self, host: BusHost) -> None:
        """Subscribe all that are missing, and end the subscriptions whose end was begun."""
        for number in range(len(self.scenario.listeners)):
            name = self.scenario.name(number)
            if name in self.record.leaving:
                await self._unsubscribe(host, name)
            elif not host.dispatcher.is_connected(name):
                self._subscribe(host, number)

    def _subscribe(self, host: BusHost, number: int) -> str:
        name, listener = self.scenario.name(number), self.scenario.listeners[number]
        if name not in self.record.leaving:
            topic = self.scenario.topic(listener.topic)
            handler = partial(self._handle, host, number)
            host.bus.subscribe(topic, handler, subscriber_id=name, retry=listener.retry)
        return name

    # -- What the program and people do ---------------------------------------------------------

    async def do(self, host: BusHost, action: BusAction) -> None:
        """Do one action, and tell how it ended."""
        try:
            await self._carry_out(host, action)
            self.tell(f"the program did: {action.do}")
            host.points.reach(AFTER, f"{ANSWER} {action.do}")
        except DulyError as error:
            self.tell(f"the program was refused: {action.do} ({error})")
        except Exception as error:
            self.oracle.say(f"{action.do} broke: {error!r}")
        if self.oracle.problems:
            self.on_wrong()

    async def _carry_out(self, host: BusHost, action: BusAction) -> None:
        match action.do:
            case BusDo.EMIT:
                await self.emit(host, action.which)
            case BusDo.DEFER:
                topic = self.scenario.topic(action.which)
                await self._schedule(
                    host, self.record.emit(topic, SOURCE, delay_ms=action.delay_ms)
                )
            case BusDo.CANCEL:
                await self._cancel(host, action.which)
            case BusDo.RETRY | BusDo.DISCARD:
                await self._decide(host, action)
            case BusDo.UNSUBSCRIBE:
                name = self.scenario.name(action.which % max(1, len(self.scenario.listeners)))
                await self._unsubscribe(host, name)
            case BusDo.STOP:
                self.on_stop()
            case BusDo.CLOCK_FORWARD:
                self._jump(DAY_MS)
            case BusDo.CLOCK_BACK:
                self._jump(-DAY_MS)

    async def emit(self, host: BusHost, topic: int) -> None:
        """Emit to a topic of the scenario."""
        said = len(self.record.emissions)
        talk = f"talk{said}" if said % CORRELATED == 0 else None
        emission = self.record.emit(self.scenario.topic(topic), SOURCE, correlation_id=talk)
        await self._say(host, emission, talk)

    async def _say(self, host: BusHost, emission: Emission, talk: str | None = None) -> None:
        emission.answer = await host.bus.emit(
            emission.topic, {"mark": emission.mark}, source=emission.source, correlation_id=talk
        )
        self.tell(f"event {emission.answer} is on {emission.topic}")

    async def _schedule(self, host: BusHost, emission: Emission) -> None:
        assert emission.delay_ms is not None
        emission.due_ms = self.env.monotonic_ms() + emission.delay_ms
        emission.boot = self.env.boot().id
        answer = await host.bus.schedule_at(
            emission.delay_ms / 1_000,
            emission.topic,
            {"mark": emission.mark},
            source=emission.source,
        )
        emission.answer = answer
        self.tell(f"deferred {answer} fires on {emission.topic} after {emission.delay_ms} ms")

    async def _cancel(self, host: BusHost, which: int) -> None:
        known = self.record.deferred()
        if not known:
            return
        emission = known[which % len(known)]
        assert emission.answer is not None
        emission.cancels += 1
        is_first = emission.cancels == 1
        try:
            is_done = await host.bus.cancel(emission.answer)
        except NotFound:
            host.points.stop_if_dead()  # what a dead host still sees is on no disk
            self.oracle.say(f"deferred {emission.answer} was acknowledged and is unknown")
            return
        self.tell(f"cancel of deferred {emission.answer}: {is_done}")
        self.oracle.see_cancel(emission, is_done=is_done, is_first=is_first)

    async def _decide(self, host: BusHost, action: BusAction) -> None:
        dead = await host.bus.deliveries(DeliveryStatus.DEAD)
        if not dead:
            return
        letter = dead[action.which % len(dead)]
        pair = letter.event_id, letter.subscriber_id
        self.record.asked.add((action.do.value, pair))
        decide = host.bus.retry if action.do is BusDo.RETRY else host.bus.discard
        await decide(*pair, by="ada")
        self.record.decided[pair] = action.do.value, host.life, len(self.record.calls[pair])

    async def _unsubscribe(self, host: BusHost, name: str) -> None:
        self.record.leaving.add(name)
        try:
            await host.bus.unsubscribe(name)
        except NotFound:
            host.points.stop_if_dead()
            self.tell(f"{name} had left before")
        self.oracle.see_leave(name)

    def _jump(self, milliseconds: int) -> None:
        self.oracle.see_jump()
        self.env.jump(milliseconds)

    # -- What handlers do -----------------------------------------------------------------------

    async def _handle(self, host: BusHost, number: int, event: Event) -> None:
        """Be called: write it down, do what the scenario says, write down how it ended."""
        name = self.scenario.name(number)
        host.points.reach(BEFORE, HANDLER)
        habit = self._habit(number)
        self.tell(f"{name} is called with event {event.id} and {habit}")
        call = self.oracle.see_call(name, event)
        if self.oracle.problems:
            self.on_wrong()
        try:
            await self._behave(host, number, habit, event)
            host.points.reach(AFTER, HANDLER)
        except Crash:
            raise  # how it would have ended is unknown
        except BaseException as error:
            host.points.reach(AFTER, HANDLER)
            self._end(call, End.REFUSED if isinstance(error, Refused) else End.RAISED)
            if isinstance(error, asyncio.CancelledError) and habit is not Habit.CANCEL_ITSELF:
                self.oracle.see_cut(name, event, call)
            raise
        self._end(call, End.RETURNED)

    def _end(self, call: Call, end: End) -> None:
        call.end, call.ended_ms = end, self.env.monotonic_ms()

    def _habit(self, number: int) -> Habit:
        listener, name = self.scenario.listeners[number], self.scenario.name(number)
        times = self.record.called[name]
        self.record.called[name] += 1
        return listener.habits[times] if times < len(listener.habits) else listener.rest

    async def _behave(self, host: BusHost, number: int, habit: Habit, event: Event) -> None:
        match habit:
            case _ if habit in RAISED:
                raise RAISED[habit](PLANNED)
            case Habit.LINGER:
                await self.env.sleep(LINGER_S)
            case Habit.HANG:
                await self.env.sleep(FOR_EVER_S)
            case Habit.IGNORE:
                await self._ignore(host)
            case Habit.CANCEL:
                await self._cancel(host, number + event.id)
            case Habit.EMIT | Habit.EMIT_HERE | Habit.EMIT_AND_RAISE:
                further = 0 if habit is Habit.EMIT_HERE else 1
                await self._say(host, self._caused(number, event, further))
                if habit is Habit.EMIT_AND_RAISE:
                    raise RuntimeError(PLANNED)
            case Habit.DEFER:
                await self._schedule(host, self._caused(number, event, 1, NEAR_MS))
            case Habit.DEFER_LONGER:
                await self._schedule(host, self._caused(number, event, 1, FAR_MS))

    def _caused(
        self, number: int, event: Event, further: int, delay_ms: int | None = None
    ) -> Emission:
        """Write down what a handler is about to say, caused by what it handles."""
        topic = self.scenario.topic(self.scenario.listeners[number].topic + further)
        cause = self.record.emissions[event.payload["mark"]]
        name = self.scenario.name(number)
        return self.record.emit(topic, name, delay_ms=delay_ms, handled=(event.id, cause))

    async def _ignore(self, host: BusHost) -> None:
        """Ignore every cancel until it has been long enough or the process is dead."""
        ends_ms = self.env.monotonic_ms() + FOR_EVER_S * 1_000
        while self.env.monotonic_ms() < ends_ms:
            try:
                await self.env.sleep(FOR_EVER_S)
            except BaseException:
                host.points.stop_if_dead()
