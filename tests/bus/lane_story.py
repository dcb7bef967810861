"""Random stories of lanes: answers of the store come late or not at all, hosts stop, names move.

Law: no host dies here. So a handler is called once for each event, in order, but for a failure of
its own and for a stop that cut it short (B4–B7); never two at once for one event or one subscriber
(B3); never for an event that is not on the disk (B4). At the end every attempt is one that was
made, and nothing is open.

    python -m tests.bus.lane_story 1 60      the stories from number 1 on, for 60 seconds
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from duly.config import BusSettings
from duly.errors import NotFound, RequestRefused, StoreUnavailable
from duly.host import Host
from duly.rules.delivery import Event, Retry
from duly.store.sqlite import SqliteBackend
from duly.testing.stage import Stage, open_stage
from tests.bus.stand import store_of

VERBS: Final = ("begin_delivery", "finish_delivery", "bus_outlook", "give_back_running", "sync")
PAUSES_S: Final = (0, 0.001, 0.5)
EVENTS_MAX: Final = 60
DAY_MS: Final = 86_400_000
LONG_ENOUGH_S: Final = 6_000


class LaneStory:
    """One host, its subscribers, and what the dice say that happens to them."""

    def __init__(self, stage: Stage, host: Host, dice: random.Random) -> None:
        self.stage = stage
        self.host = host
        self.dice = dice
        self.faults = dice.choice((0.0, 0.02, 0.1))
        self.is_faulty = True
        self.is_moving = dice.random() < 0.5
        self.longest_s = 40 if dice.random() < 0.3 else 3
        self.topics = dice.randint(1, 3)
        self.emitted = 0
        self.durable_id = 0
        self.names: dict[str, int] = {}  # every subscriber, and the topic that it began with
        self.movers: set[str] = set()
        self.calls: Counter[tuple[str, int]] = Counter()
        self.cuts: Counter[tuple[str, int]] = Counter()  # by an orderly stop
        self.failed: set[tuple[str, int]] = set()  # each pair fails once at most
        self.heard: dict[str, list[int]] = {}  # with success
        self.at_event: dict[int, str] = {}
        self.wrong: list[str] = []

    async def play(self) -> None:
        """Let it happen, with a store that fails at first and then does not."""
        self._watch_disk()
        for verb in VERBS:
            self._trouble(verb)
        for topic in range(self.topics):
            for number in range(self.dice.randint(1, 3)):
                self._subscribe(f"t{topic}s{number}", topic)
        for _ in range(self.dice.randint(1, 4)):
            await self._serve_for_a_while()
        self.is_faulty = False
        async with self.host.running():
            await self.stage.advance(LONG_ENOUGH_S)
        await self._judge()

    async def _serve_for_a_while(self) -> None:
        dice = self.dice
        async with self.host.running():
            for _ in range(dice.randint(1, 12)):
                await self._emit()
                await self.stage.advance(dice.choice((0, 0, 0.01, 0.5, 2)))
                if self.is_moving and dice.random() < 0.2:
                    await self._move(dice.choice(sorted(self.names)))
            if dice.random() < 0.3:
                self.stage.env.jump(dice.choice((-DAY_MS, DAY_MS)))
            await self.stage.advance(dice.choice((0, 0.2, 5, 30)))

    # -- What happens ---------------------------------------------------------------------------

    async def _emit(self) -> None:
        """Emit at once, or a little later: what is promoted is on the disk only after a sync."""
        topic = f"t{self.dice.randrange(self.topics)}"
        if self.dice.random() < 0.5:
            await self.host.bus.emit(topic, {}, source="test")
        else:
            delay_s = self.dice.choice((0, 0, 0.01, 0.3))
            await self.host.bus.schedule_at(delay_s, topic, {}, source="test")
        self.emitted += 1

    def _subscribe(self, name: str, topic: int) -> None:
        self.names.setdefault(name, topic)

        async def hear(event: Event) -> None:
            await self._hear(name, event)

        retry = self.dice.choice((Retry(2, (0.0,)), Retry(3, (1, 5))))
        self.host.bus.subscribe(f"t{topic}", hear, subscriber_id=name, retry=retry)

    async def _move(self, name: str) -> None:
        """End a subscription, and begin it again, for the same topic or another."""
        self.movers.add(name)
        try:
            await self.host.bus.unsubscribe(name)
            if self.dice.random() < 0.8:
                self._subscribe(name, self.dice.randrange(self.topics))
        except (NotFound, RequestRefused, StoreUnavailable):
            return

    async def _hear(self, name: str, event: Event) -> None:
        key = name, event.id
        if event.id in self.at_event:
            self.wrong.append(f"{name} at event {event.id} beside {self.at_event[event.id]}")
        if name in self.at_event.values():
            self.wrong.append(f"{name} at two events at once")
        if event.id > self.durable_id:
            self.wrong.append(f"{name} was told of event {event.id}, which is not on the disk")
        self.at_event[event.id] = name
        self.calls[key] += 1
        try:
            await self._work(name, key)
        except asyncio.CancelledError:
            self.cuts[key] += 1
            raise
        finally:
            self.at_event.pop(event.id, None)

    async def _work(self, name: str, key: tuple[str, int]) -> None:
        dice = self.dice
        await self.stage.env.sleep(dice.choice((0, 0, 0.01, 0.3, 1, self.longest_s)))
        if dice.random() < 0.1 and key not in self.failed:
            self.failed.add(key)
            raise ValueError("once")
        if dice.random() < 0.15 and self.emitted < EVENTS_MAX:
            await self._emit()
        if self.is_moving and dice.random() < 0.05:
            await self._move(name)
        self.heard.setdefault(name, []).append(key[1])

    # -- The store ------------------------------------------------------------------------------

    def _trouble(self, verb: str) -> None:
        """Let a verb of the store fail before or after it has written, and take its time."""
        store = store_of(self.host)
        working: Callable[..., Awaitable[Any]] = getattr(store, verb)

        async def call(*args: Any, **named: Any) -> Any:
            chance = self.dice.random() if self.is_faulty else 1
            if chance < self.faults / 2:
                raise StoreUnavailable(code="sqlite_gave_up", subject="duly.db")
            await self._pause()
            result = await working(*args, **named)
            await self._pause()
            if chance < self.faults:
                raise StoreUnavailable(code="sqlite_gave_up", subject="duly.db")
            return result

        setattr(store, verb, call)

    async def _pause(self) -> None:
        if self.dice.random() < 0.2:
            await self.stage.env.sleep(self.dice.choice(PAUSES_S))

    def _watch_disk(self) -> None:
        """Note with every sync up to which event the journal is on the disk.

        No power fails in a story, so the disk itself is not waited for.
        """
        backend = store_of(self.host).backend
        while not isinstance(backend, SqliteBackend):
            backend = backend._backend  # type: ignore[attr-defined]
        writer, connection = backend._writer, backend.connection

        def note_sync() -> None:
            ((newest,),) = connection.execute("select coalesce(max(id), 0) from journal")
            self.durable_id = int(newest)

        writer._sync_wal = note_sync

    # -- The end --------------------------------------------------------------------------------

    async def _judge(self) -> None:
        events = await self.host.bus.journal(limit=1000)
        if len(events) != self.emitted:
            self.wrong.append(f"{self.emitted} were emitted, and {len(events)} are there")
        for name, topic in self.names.items():
            heard = self.heard.get(name, [])
            wanted = sorted(each.id for each in events if each.topic == f"t{topic}")
            is_right = len(heard) == len(set(heard)) if name in self.movers else heard == wanted
            if not is_right:
                self.wrong.append(f"{name} heard {heard}, wanted {wanted}")
        for each in await self.host.bus.deliveries(limit=1000):
            key = each.subscriber_id, each.event_id
            attempts = 1 + (key in self.failed)
            if each.subscriber_id in self.movers:
                is_right = str(each.status) not in ("waiting", "running")
            else:
                is_right = (str(each.status), each.attempts) == ("done", attempts)
                is_right &= self.calls[key] == attempts + self.cuts[key]
            if not is_right:
                self.wrong.append(f"{self.calls[key]} calls: {each}")
        ended = ("done", "failed") if self.movers else ("done",)
        self.wrong += [f"{each}" for each in events if str(each.status) not in ended]


def tell(number: int) -> list[str]:
    """Play the story of a number from its beginning; return what went wrong in it."""
    dice = random.Random(number)

    async def play(stage: Stage) -> list[str]:
        host = await stage.host(bus=BusSettings(batch=dice.choice((1, 2, 100))))
        story = LaneStory(stage, host, dice)
        await story.play()
        return story.wrong

    with tempfile.TemporaryDirectory() as folder, open_stage(Path(folder)) as stage:
        try:
            return stage.run(asyncio.wait_for(play(stage), 100 * LONG_ENOUGH_S))
        except TimeoutError:
            return ["it did not end"]


def main() -> int:
    """Tell stories until the time is over; return 1 if anything went wrong in one."""
    logging.disable(logging.CRITICAL)
    number, ends = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    first, count_wrong = number, 0
    while time.monotonic() < ends:
        if wrong := tell(number):
            count_wrong += 1
            print(number, *wrong[:3], sep="\n  ", flush=True)
        number += 1
    print(f"{number - first} stories, {count_wrong} went wrong")
    return int(count_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
