"""A suspect runs alone, whatever lane it stands in and whenever it connects (B5)."""

from __future__ import annotations

from typing import Any

from duly.rules.delivery import Event
from duly.testing import Stage
from tests.bus.stand import delivered, listen, say, store_of


async def test_a_suspect_behind_a_letter_that_was_opened_again_runs_alone(
    duly_world: Stage,
) -> None:
    """B5: it is not the head of its lane when the bus looks; the record of the head begins it."""
    host = await duly_world.host()

    async def fail_or_die(event: Event) -> None:
        if event.id == 1:
            raise ValueError("not now")
        duly_world.env.crash()

    listen(host, "deadly", then=fail_or_die)
    await say(host, "deadly")
    await host.drain()
    assert await delivered(host) == {(1, "test:deadly"): ("dead", 1)}
    await say(host, "deadly")
    await duly_world.crash(host, host.drain())
    host = await duly_world.host()
    running: set[int] = set()
    beside: dict[int, set[int]] = {}

    async def work(event: Event) -> None:
        beside[event.id] = set(running)
        running.add(event.id)
        await duly_world.env.sleep(1 if event.topic == "deadly" else 10)
        running.discard(event.id)

    listen(host, "deadly", then=work)
    listen(host, "busy", then=work)
    await host.bus.retry(1, "test:deadly")
    for _ in range(3):
        await say(host, "busy")
    await host.drain()
    assert set(beside) == {1, 2, 3, 4, 5}
    assert beside[2] == set(), "the suspect began while another delivery ran"


async def test_a_suspect_that_connects_while_lanes_go_on_runs_alone(duly_world: Stage) -> None:
    """B5: a record names it as free in its topic before the look that would isolate it is over."""
    host = await duly_world.host()

    async def die(event: Event) -> None:
        duly_world.env.crash()

    listen(host, "mail", "deadly", then=die)
    await say(host, "mail")
    await duly_world.crash(host, host.drain())
    host = await duly_world.host()
    running: set[str] = set()
    beside: list[set[str]] = []

    async def work(event: Event) -> None:
        running.add(event.topic)
        await duly_world.env.sleep(30 if event.topic == "long" else 0.1)
        running.discard(event.topic)

    async def hear(event: Event) -> None:
        if event.id == 1:
            beside.append(set(running))

    store, look = store_of(host), store_of(host).bus_outlook

    async def look_late(*args: Any, **named: Any) -> Any:
        answer = await look(*args, **named)
        await duly_world.env.sleep(0.2)  # a disk that is busy: the store is at other work
        return answer

    listen(host, "mail", "busy", then=work)
    listen(host, "long", then=work)
    await say(host, "long")
    for _ in range(20):
        await say(host, "mail")
    async with host.running():
        await duly_world.advance(0.5)
        store.bus_outlook = look_late
        listen(host, "mail", "deadly", then=hear)
        await say(host, "other")
        await duly_world.advance(60)
    assert beside == [set()]
