"""A handler that takes its host with it, and those that ran beside it (B5)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from duly.errors import Refused
from duly.host import Host
from duly.rules.delivery import HOST_DEATHS_MAX, Event, Retry
from duly.testing import Stage
from tests.bus.stand import ONCE, delivered, listen, say, statuses

NEIGHBOURS = 5
KILLER = 2  # which of them kills


class Scene:
    """Subscribers of a topic each, that run side by side; one of them kills its host."""

    def __init__(self, stage: Stage, retry: Retry) -> None:
        self.stage = stage
        self.retry = retry
        self.deaths = 0
        self.together: list[int] = []  # how many ran when each call began
        self.running = 0
        self.is_dead = False

    async def hear(self, event: Event) -> None:
        self.running += 1
        self.together.append(self.running)
        try:
            await self.stage.env.sleep(0.01)  # until all who may have begun
            if event.topic == f"t{KILLER}":
                self.deaths += 1
                self.is_dead = True
                self.stage.env.crash()
            await self.stage.env.sleep(0.01)
        finally:
            self.running -= 1

    def listen(self, host: Host) -> None:
        self.running = 0
        self.is_dead = False
        self.together.clear()
        for number in range(NEIGHBOURS):
            listen(host, f"t{number}", f"s{number}", self.hear, self.retry)


@pytest.mark.parametrize("retry", [ONCE, Retry(2, (1,))])
async def test_one_event_that_kills_its_host_leaves_its_neighbours_alone(
    duly_world: Stage, retry: Retry
) -> None:
    """B5: after a death each runs alone until an attempt has ended; the killer alone is dead."""
    scene = Scene(duly_world, retry)
    host = await duly_world.host()
    scene.listen(host)
    for number in range(NEIGHBOURS):
        await say(host, f"t{number}")
    for life in range(20):
        with suppress(BaseException):
            await host.drain()
        if not scene.is_dead:
            break
        # Together in the first life, one at a time in all that follow.
        assert max(scene.together) == (NEIGHBOURS if life == 0 else 1)
        await duly_world.crash(host)
        host = await duly_world.host()
        scene.listen(host)
    # The first death counts against none of them.
    assert scene.deaths == 1 + retry.attempts - 1 + HOST_DEATHS_MAX
    (dead,) = await host.bus.deliveries(status="dead")
    assert dead.subscriber_id == f"s{KILLER}"
    found = await delivered(host)
    assert {pair[1]: each for pair, each in found.items() if pair[1] != dead.subscriber_id} == {
        f"s{number}": ("done", 1) for number in range(NEIGHBOURS) if number != KILLER
    }


async def test_after_the_suspects_all_run_together_again(duly_world: Stage) -> None:
    """B5, B6: being tried alone lasts for one attempt of each, whatever it came to."""
    host = await duly_world.host()
    is_deadly = True

    async def work(event: Event) -> None:
        await duly_world.env.sleep(0.01)
        if is_deadly:
            duly_world.env.crash()
        if event.topic == "b":
            raise ValueError("no")

    for topic in "ab":
        listen(host, topic, topic, work, Retry(2, (1,)))
        await say(host, topic)
    await duly_world.crash(host, host.drain())
    is_deadly = False
    host = await duly_world.host()
    for topic in "ab":
        listen(host, topic, topic, work, Retry(2, (1,)))
    await host.drain()
    assert await delivered(host) == {(1, "a"): ("done", 1), (2, "b"): ("waiting", 1)}
    scene = Scene(duly_world, ONCE)
    for number in (0, 1):
        listen(host, f"t{number}", f"s{number}", scene.hear)
        await say(host, f"t{number}")
    await host.drain()
    assert max(scene.together) == 2


async def test_a_suspect_that_is_not_here_holds_up_no_other(duly_world: Stage) -> None:
    """B5, B13: it waits for its subscriber and runs alone when that comes."""
    host = await duly_world.host()

    async def die(event: Event) -> None:
        await duly_world.env.sleep(0.01)
        duly_world.env.crash()

    for topic in "ab":
        listen(host, topic, topic, die)
        await say(host, topic)
    await duly_world.crash(host, host.drain())
    host = await duly_world.host()
    here = listen(host, "a", "a")
    await say(host, "a")
    await host.drain()
    assert here.ids == [1, 3]
    late = listen(host, "b", "b")
    await host.drain()
    assert late.ids == [2]


async def test_nothing_begins_beside_a_suspect_that_came_late(duly_world: Stage) -> None:
    """B5: what runs is let end, then the suspect runs, then all others."""
    host = await duly_world.host()

    async def die(event: Event) -> None:
        await duly_world.env.sleep(0.01)
        duly_world.env.crash()

    for topic in "ab":
        listen(host, topic, topic, die)
        await say(host, topic)
    await duly_world.crash(host, host.drain())
    host = await duly_world.host()
    running: set[str] = set()
    seen: list[frozenset[str]] = []

    async def work(event: Event) -> None:
        running.add(event.topic)
        seen.append(frozenset(running))
        await duly_world.env.sleep(5)
        running.discard(event.topic)

    listen(host, "c", "c", work)
    async with host.running():
        await duly_world.advance(1)
        await say(host, "c")
        await duly_world.advance(1)
        for topic in "ab":
            listen(host, topic, topic, work)
        await say(host, "c")
        await duly_world.advance(60)
    assert seen[:3] == [frozenset("c"), frozenset("a"), frozenset("b")]
    assert set((await statuses(host)).values()) == {"done"}


# -- Orderly stops --------------------------------------------------------------------------------


async def test_a_stop_is_no_death_however_often(duly_world: Stage) -> None:
    """B5: the attempt is given back uncounted, so no number of stops makes a dead letter."""
    host = await duly_world.host()
    is_slow = True

    async def work(event: Event) -> None:
        if is_slow:
            await duly_world.env.sleep(1000)

    for _ in range(HOST_DEATHS_MAX + 2):
        ears = [listen(host, topic, topic, work) for topic in "ab"]
        if not await host.bus.journal():
            for topic in "ab":
                await say(host, topic)
        async with host.running():
            await duly_world.advance(1)
        assert set((await delivered(host)).values()) == {("waiting", 0)}
        await host.close()
        host = await duly_world.host()
    is_slow = False
    ears = [listen(host, topic, topic, work) for topic in "ab"]
    await host.drain()
    assert [ear.done for ear in ears] == [[1], [2]]
    assert set((await delivered(host)).values()) == {("done", 1)}


async def test_what_a_handler_does_while_it_is_stopped_counts(duly_world: Stage) -> None:
    """B4, B5: one that returns when it is cancelled has succeeded and is not called again."""
    host = await duly_world.host()

    async def work(event: Event) -> None:
        with suppress(asyncio.CancelledError):
            await duly_world.env.sleep(1000)

    ear = listen(host, then=work)
    await say(host)
    async with host.running():
        await duly_world.advance(1)
    assert await delivered(host) == {(1, "test:mail"): ("done", 1)}
    await host.drain()
    assert ear.ids == [1]


# -- Never again ----------------------------------------------------------------------------------


async def test_a_handler_may_say_never_again(duly_world: Stage) -> None:
    """B5: `duly.Refused` is a dead letter at once, with its sentence; a person may still retry."""
    host = await duly_world.host()

    async def refuse(event: Event) -> None:
        raise Refused("this customer does not exist")

    ear = listen(host, then=refuse, retry=Retry())
    await say(host)
    async with host.running():
        await duly_world.advance(60)
    (dead,) = await host.bus.deliveries(status="dead")
    assert (dead.attempts, dead.error) == (1, "Refused: this customer does not exist")
    assert await statuses(host) == {1: "failed"}
    ear.then = None
    await host.bus.retry(1, "test:mail")
    await host.drain()
    assert await statuses(host) == {1: "done"}
