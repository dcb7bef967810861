"""The bus's one loop: which event goes to whom now, and how long nothing happens (B, S9).

Law 1  What can be delivered is read from the store; what is remembered here are hints where to
       look, handlers, and what a handler came to until the store has it (H3).
Law 2  A subscriber has one delivery at a time, and nobody waits for another subscriber's handler
       but the next one of the same event (B3, B6). So there are never more tasks than subscribers.
Law 3  A handler is called only for an event that is on the disk, and after its attempt is counted
       (B4, B5). Once it has ended it is not called for that attempt again, whatever the store says.
Law 4  When nothing is due nothing runs: the loop sleeps until the next planned time or a wake.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from typing import Final

from duly.bus.attempt import Caller, Handler
from duly.bus.ingress import enter
from duly.config import BusSettings, Limits
from duly.env import Env, sleep_until
from duly.errors import Invalid, NotFound, RequestRefused, Stale, StoreLost
from duly.rules.delivery import Presence, Retry
from duly.rules.schedule import earliest
from duly.store import Store
from duly.store.delivery import Begun, Finished, Ingress, OpenDelivery
from duly.store.ingress import Way
from duly.store.record import Action

STOP_S: Final = 10.0  # how long an orderly stop waits for handlers (B7)
TROUBLE_MS: Final = 10_000  # how long the bus rests after a fault nobody foresaw
SUBSCRIBERS_MAX: Final = 1_000  # handlers one process connects; as many may run at the same moment
DEFAULT_SETTINGS: Final = BusSettings()
UNREADABLE: Final = "This event can no longer be read."
GONE: Final = "the subscriber left before it was called"

log = logging.getLogger("duly.bus")


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A handler that is connected in this process."""

    subscriber_id: str
    topic: str
    handler: Handler
    retry: Retry


@dataclass(frozen=True, slots=True)
class Ended:
    """What an attempt came to, to be recorded; `ingress` goes into a workflow with it (T10)."""

    event_id: int
    subscriber_id: str
    attempt: int
    error: str | None = None
    ingress: Ingress | None = None


class Dispatcher:
    """Delivers what is on the bus, while somebody drains or serves it."""

    def __init__(
        self,
        env: Env,
        store: Store,
        *,
        limits: Limits,
        settings: BusSettings = DEFAULT_SETTINGS,
        entered: Callable[[str], None],
    ) -> None:
        self._env = env
        self._store = store
        self._limits = limits
        self._settings = settings
        self._entered = entered
        self._caller = Caller(env, store, freed=self.wake)
        self._unregistered: dict[str, Subscriber] = {}
        self._connected: dict[str, Subscriber] = {}
        self._ways: dict[str, Way] = {}
        self._in_hand: dict[int, asyncio.Task[None]] = {}  # by event: one delivery at a time (B3)
        self._unrecorded: dict[int, Ended] = {}
        self._durable_id = 0  # every event up to here is on the disk (B4)
        self._loop_of = asyncio.get_running_loop()
        self._registering = asyncio.Lock()
        self._bell = asyncio.Event()
        self._must_look = True
        self._is_full = False
        self._must_recover = True
        self._recovered = 0
        self._look_at: int | None = None
        self._failure: Exception | None = None
        self._is_busy = False
        self._is_stopping = False
        self._stopped = asyncio.Event()
        self._stopped.set()

    # -- What others may ask for ----------------------------------------------------------------

    @property
    def is_rung(self) -> bool:
        """Tell whether somebody has rung since the last look."""
        return self._bell.is_set()

    async def until_rung(self) -> None:
        """Return when somebody has rung since the last look."""
        await self._bell.wait()

    def wake(self) -> None:
        """Look again: something may have come, or may begin."""
        self._must_look = True
        self._bell.set()

    def is_connected(self, subscriber_id: str) -> bool:
        """Tell whether this process can deliver to a subscriber."""
        return any(
            subscriber_id in each for each in (self._connected, self._unregistered, self._ways)
        )

    def presence(self, subscriber_id: str) -> Presence:
        """Tell whether this process can call a subscriber now."""
        if subscriber_id in self._caller.deaf:
            return Presence.DEAF
        return Presence.HERE if self.is_connected(subscriber_id) else Presence.AWAY

    def note_durable(self, event_id: int) -> None:
        """Remember that an event is on the disk, and with it all before it."""
        self._durable_id = max(self._durable_id, event_id)

    def check_loop(self) -> None:
        """Refuse a caller from another thread or loop: its bell would wake nobody (S9)."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is not self._loop_of:
            raise RequestRefused(
                "The bus belongs to the event loop that opened its host. From a thread, use"
                " asyncio.run_coroutine_threadsafe."
            )

    def connect(self, subscriber: Subscriber) -> None:
        """Take a handler; its durable record is written before anything else is done (B13)."""
        name = subscriber.subscriber_id
        if name in self._connected or name in self._unregistered:
            raise RequestRefused(
                f"Subscriber {name} is connected already; give this one another subscriber_id."
            )
        if len(self._connected) + len(self._unregistered) >= SUBSCRIBERS_MAX:
            raise RequestRefused(
                f"{SUBSCRIBERS_MAX} subscribers are connected; unsubscribe one before {name}."
            )
        self._unregistered[name] = subscriber
        self.wake()

    async def register(self) -> None:
        """Write the records of all who have connected since the last time, in their order (B13)."""
        async with self._registering:
            while self._unregistered:
                name, subscriber = next(iter(self._unregistered.items()))
                try:
                    await self._store.subscribe(
                        name, subscriber.topic, subscriber.retry, now=self._env.now_ms()
                    )
                except (Invalid, RequestRefused):
                    # Told once; whoever calls next has nothing to do with it.
                    self._unregistered.pop(name, None)
                    raise
                if self._unregistered.pop(name, None) is not None:
                    self._connected[name] = subscriber
                    self.wake()

    async def disconnect(self, subscriber_id: str, action: Action | None = None) -> int:
        """End a subscription for good; answer how many deliveries were closed for it (B13)."""
        async with self._registering:
            is_new = self._unregistered.pop(subscriber_id, None) is not None
            try:
                closed = await self._store.unsubscribe(
                    subscriber_id, now=self._env.now_ms(), action=action
                )
            except NotFound:
                if not is_new:
                    raise
                closed = 0
            self._connected.pop(subscriber_id, None)
        self.wake()
        return closed

    async def drain(self) -> None:
        """Deliver until nothing is due at this moment; wait for no later time."""
        await self._attend(is_draining=True)

    async def serve(self) -> None:
        """Deliver what is due and what becomes due, until cancelled."""
        await self._attend(is_draining=False)

    async def close(self) -> None:
        """Wait until nothing runs any more; a handler that does not end is reported."""
        await self._stopped.wait()
        await self._caller.end()

    # -- The loop -------------------------------------------------------------------------------

    async def _attend(self, *, is_draining: bool) -> None:
        if self._is_busy:
            raise RequestRefused("This host is being drained or served already; do one at a time.")
        self._is_busy = True
        self._is_stopping = False
        self._stopped.clear()
        self._failure = None
        self._must_look = True
        try:
            await self._loop(is_draining)
        finally:
            try:
                await self._stop()
            finally:
                self._is_busy = False
                self._stopped.set()

    async def _loop(self, is_draining: bool) -> None:
        while True:
            self._bell.clear()
            now = self._env.now_ms()
            if self._must_look or (self._look_at is not None and self._look_at <= now):
                await self._look(now, is_draining)
            if isinstance(self._failure, StoreLost) or (self._failure and is_draining):
                # Whoever drains is told; one that is lost never comes back (H3).
                raise self._failure
            self._failure = None
            if is_draining and not self._in_hand and not self._must_look:
                return
            await self._wait()

    async def _look(self, now: int, is_draining: bool) -> None:
        """Ask the store what can be delivered, begin it, and note when to ask again."""
        self._must_look = False
        try:
            await self._record_rest()
            await self._recover()
            await self._register_all(is_draining)
            found = await self._store.bus_outlook(self._able, now=now, limit=self._settings.batch)
            self._look_at = found.next_at
            if any(each.event_id > self._durable_id for each in found.deliveries):
                await self._store.sync()
                self.note_durable(found.newest_id)
            if found.is_overdue:
                await self._store.promote_due(now=now, limit=self._settings.batch)
                self.wake()
        except Exception as error:  # the loop outlives whatever the store says
            self._rest(error)
            return
        self._ways = {way.subscriber_id: way for way in found.ways}
        # What a full look left out comes when these are begun: topics never wait for each other.
        self._is_full = len(found.deliveries) >= self._settings.batch
        for each in found.deliveries:
            self._begin(each)

    @property
    def _able(self) -> Set[str]:
        """Who can be called now: the connected, without those whose last call does not end."""
        return self._connected.keys() - self._caller.deaf

    async def _register_all(self, is_draining: bool) -> None:
        """Write down who has connected; whoever drains is told of a name that is refused (B13)."""
        while self._unregistered:
            try:
                await self.register()
            except (Invalid, RequestRefused) as refusal:
                log.error("a subscription was refused: %s", refusal)
                if is_draining:
                    raise

    async def _recover(self) -> None:
        """Give back what a host that died, or was stopped, was at (B7).

        Never beside a handler that runs: it would be called a second time.
        """
        if not self._must_recover or self._in_hand:
            return
        now, batch = self._env.now_ms(), self._settings.batch
        is_complete = False
        while not is_complete:
            recovered = await self._store.recover_bus(now=now, limit=batch)
            # Kept where the next try finds it: the store may say no between two batches (H3).
            self._recovered += recovered.events + recovered.promoted
            is_complete = recovered.promoted < batch
        self._must_recover = False
        if self._recovered:
            log.info("EventBus: recovered %s events", self._recovered)
        self._recovered = 0

    async def _wait(self) -> None:
        """Sleep until the bell rings or the next planned time comes (S9)."""
        if self._look_at is None:
            await self._bell.wait()
            return
        timer = self._env.spawn(self._ring_at(self._look_at), "next time of the bus")
        try:
            await self._bell.wait()
        finally:
            timer.cancel()

    async def _ring_at(self, look_at: int) -> None:
        """Ring when this time has come (B2)."""
        await sleep_until(self._env, look_at)
        self.wake()

    def _rest(self, error: Exception) -> None:
        """Look again after a while; what was not done is still there (H3)."""
        log.error("the bus rests: %s", error, exc_info=error)
        self._failure = error
        self._look_at = earliest((self._look_at, self._env.now_ms() + TROUBLE_MS))

    # -- One delivery ---------------------------------------------------------------------------

    def _begin(self, found: OpenDelivery) -> None:
        event_id = found.event_id
        if event_id in self._in_hand or event_id in self._unrecorded:
            return
        task = self._env.spawn(self._deliver(found), f"event {event_id}")
        self._in_hand[event_id] = task
        task.add_done_callback(partial(self._end, event_id))

    def _end(self, event_id: int, task: asyncio.Task[None]) -> None:
        del self._in_hand[event_id]
        if task.cancelled():
            self._must_recover = True  # its record still says that it runs
        elif isinstance(error := task.exception(), Exception):
            self._rest(error)
            self._bell.set()
            return
        self.wake()

    async def _deliver(self, found: OpenDelivery) -> None:
        """Begin a delivery that was found, call its handler, record what it came to."""
        if self._is_stopping:
            return
        event_id, name = found.event_id, found.subscriber_id
        # It was chosen among all; to look at all of them again would only cost time.
        here = {*self._able, *self._ways} if name is None else {name}
        try:
            begun = await self._store.begin_delivery(event_id, here, now=self._env.now_ms())
        except Stale:
            return  # somebody was faster; look at what is there now
        if begun.delivery is None:
            return
        self._go_on()
        self._unrecorded[event_id] = ended = await self._tell(begun)
        await self._record(ended)

    def _go_on(self) -> None:
        """Look for what a full look left out, now that one of what it found has begun (B6)."""
        if self._is_full:
            self.wake()

    async def _tell(self, begun: Begun) -> Ended:
        delivery, event = begun.delivery, begun.event
        assert delivery is not None
        name = delivery.subscriber_id
        ended = partial(Ended, delivery.event_id, name, delivery.attempts)
        if event is None:
            return ended(UNREADABLE)
        if way := self._ways.get(name):
            try:
                return ended(None, enter(way, event, self._limits))
            except Invalid as refusal:
                return ended(str(refusal))
        if subscriber := self._connected.get(name):
            return ended(await self._caller.call(subscriber.handler, event, begun.depth, name))
        return ended(GONE)

    async def _record(self, ended: Ended) -> None:
        """Record what an attempt came to; it is kept here until the store has it (H3)."""
        try:
            await self._finish(ended)
        except (Stale, NotFound) as error:
            log.error("event %s for %s: %s", ended.event_id, ended.subscriber_id, error)
        del self._unrecorded[ended.event_id]

    async def _finish(self, ended: Ended) -> Finished:
        finish = partial(
            self._store.finish_delivery, ended.event_id, ended.subscriber_id, ended.attempt
        )
        if ended.ingress is None:
            return await finish(error=ended.error, now=self._env.now_ms())
        try:
            finished = await finish(ingress=ended.ingress, now=self._env.now_ms())
        except (Invalid, NotFound) as refusal:
            # The workflow stopped listening while this was on its way.
            return await finish(error=str(refusal), now=self._env.now_ms())
        self._entered(ended.ingress.workflow_id)
        return finished

    async def _record_rest(self) -> None:
        """Record what the store would not take before."""
        for event_id, ended in list(self._unrecorded.items()):
            if event_id not in self._in_hand:
                await self._record(ended)

    # -- Stopping -------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """Begin nothing new, let handlers end, leave the rest to be recovered (B7)."""
        self._is_stopping = True
        tasks = set(self._in_hand.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
                # Told once: a second time would cut short whatever a handler does to end well.
                await self._caller.outlast()
