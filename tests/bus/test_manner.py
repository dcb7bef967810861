"""Handlers and channels that behave badly beside a lane that goes on."""

from __future__ import annotations

import asyncio

from duly.rules.delivery import Event, Retry
from duly.testing import Stage
from tests.bus.stand import ONCE, delivered, listen, say, statuses


class Slow:
    """A channel that takes its time."""

    def __init__(self, stage: Stage, name: str, seconds: float) -> None:
        self.name = name
        self._stage = stage
        self._seconds = seconds
        self.sent: list[tuple[str, float]] = []

    async def send(self, text: str, *, to: str | None = None) -> None:
        """Wait, and note the text."""
        await self._stage.env.sleep(self._seconds)
        self.sent.append((text, self._stage.env.monotonic_ms() / 1000))


async def test_channels_do_not_wait_for_each_other(duly_world: Stage) -> None:
    """B9: the first channel takes 20 s for each text, the others get theirs at once, in order."""
    slow, quick = Slow(duly_world, "slow", 20), Slow(duly_world, "quick", 0)
    host = await duly_world.host(channels=[slow, quick])
    start = duly_world.env.monotonic_ms() / 1000
    async with host.running():
        for number in range(10):
            for channel in ("slow", "quick"):
                payload = {"text": f"{channel}{number}", "channel_id": channel}
                await host.bus.emit("user.notify", payload, source="test")
        await duly_world.advance(1)
        assert [text for text, _ in quick.sent] == [f"quick{number}" for number in range(10)]
        await duly_world.advance(300)
    assert [text for text, _ in slow.sent] == [f"slow{number}" for number in range(10)]
    assert quick.sent[-1][1] - start < 1


async def test_a_handler_that_closes_its_host_is_given_back(duly_world: Stage) -> None:
    """B5, B7: the close waits for the handler, which waits for the close."""
    host = await duly_world.host()

    async def close(event: Event) -> None:
        await host.close()

    listen(host, then=close, retry=Retry())
    for _ in range(3):
        await say(host)
    serving = asyncio.ensure_future(host.serve())
    await duly_world.advance(60)
    assert serving.done()
    await asyncio.gather(serving, return_exceptions=True)
    duly_world._hosts.clear()
    host = await duly_world.host()
    ear = listen(host, retry=Retry())
    await host.drain()
    assert ear.done == [1, 2, 3]
    assert set((await delivered(host)).values()) == {("done", 1)}


async def test_a_handler_that_does_not_end_is_called_for_nothing_else(duly_world: Stage) -> None:
    """B3, B6: it ignores its cancellation for a minute, through a stop and a start."""
    host = await duly_world.host()
    at_once = most = 0

    async def ignore(event: Event) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        ends = duly_world.env.monotonic_ms() + 60_000
        while duly_world.env.monotonic_ms() < ends and event.id == 1:
            try:
                await duly_world.env.sleep(1)
            except asyncio.CancelledError:
                continue
        at_once -= 1

    deaf = listen(host, subscriber_id="deaf", then=ignore)
    other = listen(host, subscriber_id="other")
    for _ in range(3):
        await say(host)
    async with host.running():
        await duly_world.advance(1)
    async with host.running():
        await duly_world.advance(10)
        assert other.done == [1, 2, 3]
        assert deaf.ids == [1]
        await duly_world.advance(300)
    assert most == 1
    assert deaf.ids == [1, 1, 2, 3]
    assert set((await statuses(host)).values()) == {"done"}


async def test_a_letter_that_is_opened_again_beside_a_lane_keeps_its_place(
    duly_world: Stage,
) -> None:
    """B5, B6: a person opens the first event again while the fifth is being handled."""
    host = await duly_world.host()

    async def work(event: Event) -> None:
        if event.id == 1 and len(ear.events) == 1:
            raise ValueError("once")
        if event.id == 5:
            await host.bus.retry(1, "test:mail")
        await duly_world.env.sleep(0.1)

    ear = listen(host, then=work, retry=ONCE)
    for _ in range(8):
        await say(host)
    await host.drain()
    assert ear.ids == [1, 2, 3, 4, 5, 1, 6, 7, 8]
    assert set((await statuses(host)).values()) == {"done"}
