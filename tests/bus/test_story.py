"""Whole stories of the bus: emits, deferrals, failures, missing subscribers, crashes (B).

One seed is one story. A host lives for a while, dies at a verb of its store or is stopped in order,
and another one opens the same file, with some of the subscribers. In the last life everybody is
there and time passes; then the oracle looks at all that happened.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from duly.host import Host
from duly.rules.delivery import Event, Retry
from duly.testing import Stage
from duly.testing.crash import Moment
from duly.testing.stage import open_stage

STORIES = 24
LIVES = 4
VERBS = ("begin_delivery", "finish_delivery", "promote_due", "recover_bus", "emit", "defer")
MOMENTS: tuple[Moment, ...] = ("before", "after")
SUBSCRIBERS = {
    "a": ("mail", Retry()),
    "b": ("mail", Retry(1, ())),
    "c": ("news", Retry(4, (0, 30))),
    "d": ("mail", Retry(2, (0.5,))),
}


class Story:
    """What was done, what was heard, and in which life."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.random = Random(seed)
        self.heard: dict[str, list[int]] = {name: [] for name in SUBSCRIBERS}
        self.done: Counter[tuple[int, str]] = Counter()
        self.crashes = 0
        self.marks = 0
        self.cancelled: set[int] = set()

    def handler(self, host: Host, name: str) -> Any:
        async def handle(event: Event) -> None:
            self.heard[name].append(event.id)
            kind = self.random.random()
            if kind < 0.3:
                await self.stage.env.sleep(self.random.choice((0.1, 1, 40)))
            if kind < 0.2:
                raise self.random.choice((ValueError("no"), SystemExit(1)))
            if kind > 0.95 and event.payload["hops"] < 3:
                payload = {"hops": event.payload["hops"] + 1, "mark": None}
                await host.bus.emit(self.random.choice(("mail", "news")), payload, source=name)
            self.done[event.id, name] += 1

        return handle

    async def act(self, host: Host) -> None:
        """Do one thing a program does with its bus."""
        topic = self.random.choice(("mail", "mail", "news", "nobody"))
        kind = self.random.randrange(4)
        self.marks += 1
        payload = {"hops": 0, "mark": self.marks}
        if kind < 2:
            await host.bus.emit(topic, payload, source="story")
        elif kind == 2:
            mark = self.marks
            deferred_id = await host.bus.schedule_at(
                self.random.choice((0, 0.3, 20)), topic, payload, source="story"
            )
            if self.random.random() < 0.3:
                await self.stage.env.sleep(self.random.choice((0, 0.3)))
                if await host.bus.cancel(deferred_id):
                    self.cancelled.add(mark)
        else:
            await self.stage.env.sleep(self.random.choice((0.01, 1, 10)))

    async def live(self, names: list[str], acts: int) -> None:
        """Open a host with some subscribers; let it die at a verb, or stop."""
        host = await self.stage.host()
        for name in names:
            topic, retry = SUBSCRIBERS[name]
            host.bus.subscribe(topic, self.handler(host, name), subscriber_id=name, retry=retry)
        if self.random.random() < 0.7:
            moment: Moment = self.random.choice(MOMENTS)
            self.stage.crash_at(**{self.random.choice(VERBS): moment})

        async def life() -> None:
            async with host.running():
                for _ in range(acts):
                    await self.act(host)
                await self.stage.env.sleep(self.random.choice((0, 1, 60)))

        living = asyncio.ensure_future(life())
        crashed = asyncio.ensure_future(self.stage.env.crashed.wait())
        await asyncio.wait((living, crashed), return_when=asyncio.FIRST_COMPLETED)
        self.crashes += self.stage.env.crashed.is_set()
        for each in (living, crashed):
            each.cancel()
        await self.stage.crash(host)
        await asyncio.wait((living, crashed))
        if not living.cancelled():
            living.exception()

    async def tell(self) -> None:
        """Live so many lives, the last one with everybody and for long enough."""
        names = list(SUBSCRIBERS)
        await self.live(names, 3)
        for _ in range(LIVES):
            await self.live(self.random.sample(names, self.random.randint(1, len(names))), 8)
        host = await self.stage.host()
        for name in names:
            topic, retry = SUBSCRIBERS[name]
            host.bus.subscribe(topic, self.handler(host, name), subscriber_id=name, retry=retry)
        async with host.running():
            for _ in range(10):
                await self.act(host)
            await self.stage.advance("7d")
        await self.judge(host)

    async def judge(self, host: Host) -> None:
        """See that what must hold holds."""
        events = await host.bus.journal(limit=1000)
        deliveries = await host.bus.deliveries(limit=1000)
        failed = {each.event_id for each in deliveries if each.status == "dead"}
        for event in events:
            assert event.status == ("failed" if event.id in failed else "done"), event
            wanted = {name for name, (topic, _) in SUBSCRIBERS.items() if topic == event.topic}
            told = {each.subscriber_id for each in deliveries if each.event_id == event.id}
            assert told <= wanted
            assert bool(told) is not event.undelivered, event
        for each in deliveries:
            times = self.done[each.event_id, each.subscriber_id]
            if each.status == "done":
                assert 1 <= times <= 1 + self.crashes + LIVES, each
            else:
                assert (each.status, each.error is None) == ("dead", False), each
        for name, heard in self.heard.items():
            assert heard == sorted(heard), name
        marks = Counter(event.payload["mark"] for event in events if event.payload)
        assert all(count == 1 for mark, count in marks.items() if mark is not None)
        assert not self.cancelled & set(marks)
        assert await host.bus.deferred() == ()
        fired = await host.bus.deferred(status="fired", limit=1000)
        assert len({each.event_id for each in fired}) == len(fired)


@pytest.mark.parametrize("seed", range(STORIES))
def test_every_story_ends_with_everybody_told_or_in_sight(tmp_path: Path, seed: int) -> None:
    """B4, B6, B7: done or failed with its letters, one recorded success each, in order."""
    with open_stage(tmp_path) as stage:
        story = Story(stage, seed)
        stage.run(story.tell())
        assert sum(story.done.values()) > 0
