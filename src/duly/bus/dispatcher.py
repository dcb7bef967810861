"""The bus's loop: which event goes to which subscriber now (B).

Law 1  What can be delivered is read from the store. This object remembers hints where to look,
       the handlers, and the result of a handler until the store has it (H3).
Law 2  A subscriber has one delivery at a time, and one task for its lane. It waits for another
       subscriber's handler only if both get the same event (B3, B6). So there are never more tasks
       than subscribers. A task goes on with the next delivery of its lane as long as the store
       begins one with the record of the last; when it ends, the bus looks.
Law 3  A handler is called only for an event that is on the disk, and after its attempt is counted
       (B4, B5). Once it has ended it is not called again for that attempt, even if the store fails.

How the loop sleeps and wakes stands in `duly.loop`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from duly.bus.attempt import Caller, EndedAttempt, Handler, HandlerFailure
from duly.bus.holding import Holding
from duly.bus.ingress import enter
from duly.bus.recorder import Recorder
from duly.config import BusSettings, Limits
from duly.env import Boot, Env
from duly.errors import Invalid, NotFound, RequestRefused, Stale, StoreLost
from duly.loop import REST_MS, WorkLoop, end_within
from duly.rules.delivery import HANDLER_TIMEOUT_S, JournalStatus, Presence, Retry, listens_elsewhere
from duly.rules.redaction import Redactor
from duly.store import Store
from duly.store.delivery import Begun, Reach
from duly.store.ingress import IngressTopic
from duly.store.lane import Ended, OpenDelivery
from duly.store.record import Action
from duly.store.subscription import Left

STOP_S: Final = 10.0  # how long an orderly stop waits for handlers (B7)
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
    timeout_s: float = HANDLER_TIMEOUT_S
    is_wired: bool = False  # asked for by a manifest or the host, not by code (B9)
    channel: str | None = None  # the channel it sends to; empty: all that have none of their own


# A lane, named by its subscriber; or an event for which no handler is called, by its number.
Work: TypeAlias = str | int


class Dispatcher(WorkLoop[Work]):
    """Delivers what is on the bus; one piece of work is the lane of one subscriber (B6)."""

    _is_full = False  # the last look found as much as it could

    def __init__(
        self,
        env: Env,
        store: Store,
        *,
        limits: Limits,
        settings: BusSettings = DEFAULT_SETTINGS,
        entered: Callable[[str], None],
        secrets: Redactor | None = None,
        find_host: Callable[[], str] | None = None,
    ) -> None:
        super().__init__(env)
        self._store = store
        self._limits = limits
        self._settings = settings
        self.secrets = secrets or Redactor()
        self._caller = Caller(env, store, self.wake, self.secrets)
        self._unregistered: dict[str, Subscriber] = {}
        self._connected: dict[str, Subscriber] = {}
        self._ingress: dict[str, IngressTopic] = {}
        self._found: tuple[OpenDelivery, ...] = ()  # what the last look found, until it is begun
        self._recorder = Recorder(env, store, entered)
        # Subscribers for whom the store may say that a handler runs, and none does. What is said
        # there is given back before their lanes go on; the others do not wait for that.
        self._lost: set[str] = set()
        self._durable_id = 0  # every event up to here is on the disk (B4)
        self._loop_of = asyncio.get_running_loop()
        self._registering = asyncio.Lock()
        self._must_recover = True
        self._recovered = 0
        self._topics: dict[str, str] = {}  # of the durable subscriptions: what each listens to
        self._leaving: set[str] = set()  # whose end a caller of `disconnect` sees to
        self._own_boot = env.boot().id or env.new_id("boot")
        self._failure: Exception | None = None
        self._is_stopping = False
        self._is_isolated = False  # a delivery waits until no other runs (B5)
        self._holding = Holding(env, store, find_host)
        self.tell: Callable[[], None] = lambda: None  # tells the other hosts to look (H9)

    # -- For callers ----------------------------------------------------------------------------

    async def open(self) -> None:
        """Read the subscriptions, so that a wrong one is refused to its caller (B13)."""
        found = await self._store.list_subscriptions()
        self._topics |= {each.subscriber_id: each.topic for each in found}

    @property
    def boot(self) -> Boot:
        """The clock that cannot be set; where the machine names no boot, this host is one (B2)."""
        if self._holding.is_shared:
            return self._holding.boot
        return Boot(self._own_boot, self._env.boot().ms)

    @property
    def deferred_max(self) -> int:
        """How many events of one source may wait for their time."""
        return self._settings.deferred_max

    def is_connected(self, subscriber_id: str) -> bool:
        """Tell whether this process can deliver to a subscriber."""
        return any(
            subscriber_id in each for each in (self._connected, self._unregistered, self._ingress)
        )

    def presence(self, subscriber_id: str) -> Presence:
        """Tell whether this process can call a subscriber now."""
        if subscriber_id in self._caller.stuck:
            return Presence.STUCK
        return Presence.HERE if self.is_connected(subscriber_id) else Presence.AWAY

    def holds(self, subscriber_id: str) -> bool:
        """Tell whether it is this host that calls a subscriber (H8)."""
        return bool(self._holding.of({subscriber_id}))

    @property
    def has_new(self) -> bool:
        """Tell whether a handler is connected whose subscription is not written yet (B13)."""
        return bool(self._unregistered)

    @property
    def is_calling(self) -> bool:
        """Tell whether a handler runs: to its fleet it is like a send that is out (H8)."""
        return self._caller.is_busy

    def wake_all(self) -> None:
        """Look again, and tell the other hosts: something was put on the bus (H9)."""
        self.wake()
        self.tell()

    def hear(self) -> None:
        """Look again because another host says so (H9)."""
        self._holding.look_again()
        self.wake()

    def forget(self) -> None:
        """Forget what this host held: it has lapsed, and comes back as another (H8)."""
        self._holding.forget()
        self._recorder.clear()
        self._lost.clear()

    def note_durable(self, event_id: int) -> None:
        """Remember that an event is on the disk, and with it all before it."""
        self._durable_id = max(self._durable_id, event_id)

    def doubt(self) -> None:
        """Ask what runs: the store came back without records that it had taken (H10)."""
        self._lost |= self._here - self._at_work.keys()
        self.wake()

    def check_loop(self) -> None:
        """Refuse a caller from another thread or loop: its wake would not reach this loop (S9)."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is not self._loop_of:
            raise RequestRefused(code="another_loop")

    def connect(self, subscriber: Subscriber) -> None:
        """Take a handler; its durable record is written before anything else is done (B13)."""
        name, topic = subscriber.subscriber_id, subscriber.topic
        if name in self._connected or name in self._unregistered:
            raise RequestRefused(code="connected_already", subject=name)
        if (known := self._topics.get(name, topic)) != topic:
            raise listens_elsewhere(name, known, topic)
        if len(self._connected) + len(self._unregistered) >= SUBSCRIBERS_MAX:
            raise RequestRefused(
                code="too_many_subscribers", subject=name, facts={"limit": SUBSCRIBERS_MAX}
            )
        self._unregistered[name] = subscriber
        self.wake()

    def let_go(self, subscriber_id: str) -> None:
        """Take back a handler that has just been connected; what is durable of it stays (B13)."""
        self._unregistered.pop(subscriber_id, None)

    async def register(self) -> None:
        """Write the records of the handlers connected since the last time, in their order (B13).

        A subscription that the store refuses is logged and left out: the caller may have nothing to
        do with it.
        """
        if not self._unregistered:
            return
        async with self._registering:
            while self._unregistered:
                name, subscriber = next(iter(self._unregistered.items()))
                try:
                    await self.write_down(subscriber)
                except (Invalid, RequestRefused) as refusal:
                    self._unregistered.pop(name, None)
                    log.error("a subscription was refused: %s", refusal)
                if self._unregistered.pop(name, None) is not None:
                    self._connected[name] = subscriber
                    self.wake()

    async def write_down(self, subscriber: Subscriber) -> None:
        """Make a subscription durable; from here on no event of its topic is missed (B13).

        One that comes back before its end is over waits for that, in turns: no other write does.
        """
        name, topic = subscriber.subscriber_id, subscriber.topic
        left = Left(0, is_over=False)
        while not left.is_over:
            left = await self._store.close_left(
                name, now=self._env.now_ms(), limit=self._settings.batch
            )
        await self._store.subscribe(
            name,
            topic,
            subscriber.retry,
            is_wired=subscriber.is_wired,
            channel=subscriber.channel,
            now=self._env.now_ms(),
        )
        self._topics[name] = topic

    async def disconnect(self, subscriber_id: str, action: Action | None = None) -> int:
        """End a subscription for good; return how many deliveries were closed for it (B13).

        They are closed in turns, and between two turns every other caller has its own.
        """
        batch = self._settings.batch
        self._leaving.add(subscriber_id)
        try:
            async with self._registering:
                is_new = self._unregistered.pop(subscriber_id, None) is not None
                try:
                    left = await self._store.unsubscribe(
                        subscriber_id, now=self._env.now_ms(), limit=batch, action=action
                    )
                except NotFound:
                    # Also one whose end was written while its caller stopped waiting for it.
                    if not is_new and subscriber_id not in self._connected:
                        raise
                    left = Left(0, is_over=True)
                self._connected.pop(subscriber_id, None)
                self._topics.pop(subscriber_id, None)
            self.wake()
            closed = left.closed
            while not left.is_over:
                left = await self._store.close_left(
                    subscriber_id, now=self._env.now_ms(), limit=batch
                )
                closed += left.closed
        finally:
            self._leaving.discard(subscriber_id)
            self.wake()
        return closed

    async def close(self) -> None:
        """Wait until nothing runs any more; a handler that does not end is reported."""
        await self._stopped.wait()
        await self._settle()
        await self._caller.end()

    # -- Looking --------------------------------------------------------------------------------

    async def _open(self) -> None:
        self._is_stopping = False
        self._failure = None
        self._recorder.hurry()

    async def _look(self, now: int, is_draining: bool) -> None:
        """Ask the store what can be delivered, and when to ask again."""
        try:
            await self._recorder.record_due(self._at_work)
            await self._recover()
            await self._give_back()
            await self.register()
            batch, boot, holding = self._settings.batch, self.boot, self._holding
            await holding.take(self._here)
            found = await self._store.bus_outlook(
                self._able,
                ended=self._waiting_records,
                now=now,
                limit=batch,
                boot=boot,
                held=holding.held,
            )
            self._plan(found.next_at, now)
            self._plan(self._recorder.next_at, self._env.now_ms())
            if holding.is_shared:  # another host may end what this one waits for (B14)
                self._plan(now + round(self._settings.poll_interval_s * 1000), now)
            if any(each.event_id > self._durable_id for each in found.deliveries):
                self.note_durable(await holding.sync(found.newest_id))
            if found.is_forsaken:
                holding.note_forsaken()
                self.wake()
            if found.is_overdue:
                await self._store.promote_due(now=now, limit=batch, boot=boot)
                self.wake()
            if found.leaving is not None and found.leaving not in self._leaving:
                await self._store.close_left(found.leaving, now=now, limit=batch)
                self.wake()
        except Exception as error:  # the loop outlives every error of the store
            self._note_failure(error)
            return
        self._ingress = {each.subscriber_id: each for each in found.ingress}
        if not self._holding.is_asked(self._here):
            self.wake()  # this look was the first to see a way into a workflow (H8)
        # What a full look left out comes when these are begun: topics never wait for each other.
        self._is_full = len(found.deliveries) >= self._settings.batch
        self._is_isolated = found.is_isolated
        self._found = found.deliveries

    def _begin_found(self, is_draining: bool) -> bool:
        """Begin the deliveries that a look found; raise an error that the caller must see."""
        failure, self._failure = self._failure, None
        found, self._found = self._found, ()
        if isinstance(failure, StoreLost) or (failure is not None and is_draining):
            # A caller that drains is told; a store that is lost never comes back (H3).
            raise failure
        for each in found:
            self._begin_lane(each)
        is_over = is_draining and not self._at_work and not self._must_look
        if is_over and (error := self._recorder.error) is not None:
            raise error  # all else is done; the next drain tries this again
        return bool(self._at_work)

    def _begin_lane(self, found: OpenDelivery) -> None:
        """Start a task for a delivery that can begin, unless its lane has one or needs a record."""
        work = found.event_id if found.subscriber_id is None else found.subscriber_id
        is_taken = work in self._at_work or work in self._recorder or work in self._lost
        if not is_taken:
            self._begin(work, partial(self._deliver, found), f"lane of {work}")

    @property
    def _able(self) -> Set[str]:
        """The subscribers that can be called: connected, and their last call has ended."""
        return self._holding.of(self._connected.keys() - self._caller.stuck)

    @property
    def _here(self) -> Set[str]:
        """The subscribers that are connected here, and the ways into workflows."""
        return self._connected.keys() | self._ingress.keys()

    @property
    def _waiting_records(self) -> Ended:
        """Deliveries whose handlers have ended, although the store says that they run."""
        return self._recorder.pairs(self._at_work)

    async def _recover(self) -> None:
        """Give back the deliveries of a host that died, once, before any is dispatched (B7)."""
        if not self._must_recover or self._holding.is_shared:
            return  # in a fleet that is done when a subscriber is taken (H8)
        assert not self._at_work, self._at_work
        now, batch = self._env.now_ms(), self._settings.batch
        is_complete = False
        while not is_complete:
            recovered = await self._store.recover_bus(now=now, limit=batch, boot=self.boot)
            # Kept where the next try finds it: the store may say no between two batches (H3).
            self._recovered += recovered.events + recovered.promoted
            is_complete = recovered.is_complete
        self._must_recover = False
        if self._recovered:
            log.info("EventBus: recovered %s events", self._recovered)
        self._recovered = 0

    async def _give_back(self) -> None:
        """Give back, uncounted, deliveries recorded as running that are not; no host died (B5)."""
        if lost := frozenset(self._lost):
            # Also of a lane whose task is just ending: its result is not lost.
            ended, host = self._recorder.pairs(), self._holding.host_id
            await self._store.give_back_running(lost, ended, now=self._env.now_ms(), host=host)
            self._lost -= lost

    def _note_failure(self, error: Exception) -> None:
        """Look again after a while; what was not done is still there (H3)."""
        log.error("the bus: backing off for %d s: %s", REST_MS // 1000, error, exc_info=error)
        self._failure = error
        self._rest()

    # -- One delivery ---------------------------------------------------------------------------

    def _ended(self, key: Work, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(key, str) and (task.cancelled() or error is not None):
            self._lost.add(key)  # a record may say that its delivery runs, or the next one
        if isinstance(error, Exception):
            self._note_failure(error)
            self._bell.set()
            return
        self.wake_all()

    async def _deliver(self, found: OpenDelivery) -> None:
        """Begin a delivery that was found, and go on in its lane."""
        if self._is_stopping:
            return
        event_id, name = found.event_id, found.subscriber_id
        # It was chosen among all; to look at all of them again would only cost time.
        here = () if name is None else (name,)
        now, host = self._env.now_ms(), self._holding.host_id
        try:
            begun = await self._store.begin_delivery(
                event_id, here, ended=self._waiting_records, now=now, host=host
            )
        except Stale:
            self._holding.doubt(name)
            return  # another task or a person was faster: look again
        if self._is_full:
            self.wake()  # for what a full look left out, now that one of what it found begins (B6)
        next_one = begun if begun.delivery is not None else None
        while next_one is not None:
            next_one = await self._carry_out(next_one)

    async def _carry_out(self, begun: Begun) -> Begun | None:
        """Call the handler of a delivery, record what it came to; return what follows, begun."""
        if self._is_stopping:
            assert begun.delivery is not None
            self._lost.add(begun.delivery.subscriber_id)  # a stop calls nothing new (B7)
            return None
        ended = await self._tell(begun)
        finished = await self._recorder.record(ended, self._reach())
        if finished is None:
            self._lost.add(ended.subscriber_id)  # the next one may have begun with the record
            return None
        if finished.status is JournalStatus.PROCESSING:
            self.tell()  # the next subscriber of this event may be another host's (B3)
        if not self._is_stopping:
            for each in finished.free:
                self._begin_lane(each)
        return finished.next

    def _reach(self) -> Reach | None:
        """Say what may follow in a lane; nothing if all lanes must come to an end first."""
        if self._is_stopping or self._is_isolated:
            return None
        here = self._able | self._holding.of(self._ingress.keys())
        return Reach(here, self._durable_id, self._waiting_records, self._holding.host_id)

    async def _tell(self, begun: Begun) -> EndedAttempt:
        delivery, event = begun.delivery, begun.event
        assert delivery is not None
        name = delivery.subscriber_id
        ended = partial(EndedAttempt, delivery.event_id, name, delivery.attempts)
        if event is None:
            return ended(HandlerFailure(UNREADABLE))
        if ingress := self._ingress.get(name):
            try:
                return ended(None, enter(ingress, event, self._limits))
            except Invalid as refusal:
                return ended(HandlerFailure(str(refusal)))
        if found := self._connected.get(name):
            call = self._caller.call(found.handler, event, begun.depth, name, found.timeout_s)
            return ended(await call)
        return ended(HandlerFailure(GONE))

    # -- Stopping -------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """Begin nothing new, let handlers end, give the rest back (B5, B7)."""
        self._is_stopping = True
        await end_within(set(self._at_work.values()), STOP_S)
        await self._settle()

    async def _settle(self) -> None:
        """Record what has ended, and give back what was cut short: no lane is at work any more."""
        self._recorder.hurry()
        try:
            await self._recorder.record_due(self._at_work)
            await self._give_back()
        except Exception as error:  # the next look tries again; the next host sees a death
            log.error("the bus could not give back what a stop cut short: %s", error)
