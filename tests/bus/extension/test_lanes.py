"""Channels that hang: none waits for another, and one send has 30 s (B9)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from duly.bus.channel import SEND_S, TerminalChannel
from duly.errors import Invalid
from duly.host import Host
from duly.testing import Stage as World
from tests.bus.extension import stand
from tests.bus.extension.stand import KEEPS, Shelf, User
from tests.bus.stand import announce

NOTIFY = "duly:user.notify:notify_user"


class Hanging(User):
    """A channel that does not answer."""

    async def send(self, text: str, *, to: str | None = None) -> None:
        self.texts.append(text)
        await asyncio.Event().wait()


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    stand.contexts.clear()
    return Shelf(tmp_path / "extensions")


async def opened(world: World, shelf: Shelf, *channels: Any, **manifest: Any) -> Host:
    shelf.put("greeter", KEEPS, **manifest)
    return await world.host(extensions=shelf.folder, channels=channels)


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_hanging_channel_delays_no_other(
    duly_world: World, shelf: Shelf, is_first: bool
) -> None:
    """B9: whichever is the default; also for what a manifest sends."""
    bad, good = Hanging("bad"), User("good")
    channels = (bad, good) if is_first else (good, bad)
    wanted = [("alert", "notify_user")]
    host = await opened(duly_world, shelf, *channels, subscribes=wanted)
    speaker = stand.contexts["greeter"]
    async with host.running():
        for name in ("bad", "good"):
            await speaker.notify_user(f"to {name}", channel_id=name)
            await host.bus.emit("alert", {"text": name, "channel_id": name}, source="test")
        await announce(host, "workflow.needs_attention", text="to the first")
        await speaker.emit("wake", {})
        await duly_world.advance(1)
        assert sorted(good.texts) == sorted(
            ["to good", "good", *([] if is_first else ["to the first"])]
        )
        await duly_world.advance(SEND_S - 0.5)
        found = await host.bus.deliveries()
        late = {each.error for each in found if each.attempts == 1 and each.status == "waiting"}
        assert late == {"it took longer than 30 s"}


async def test_a_text_is_sent_once_and_by_one_subscriber(duly_world: World, shelf: Shelf) -> None:
    """B9, B13: what names a channel goes to that one's, everything else to the first one's."""
    a, b = User("a"), User("b")
    host = await opened(duly_world, shelf, a, b)
    speaker = stand.contexts["greeter"]
    for name in (None, "a", "b", "c"):
        await speaker.notify_user(f"to {name}", channel_id=name)
    await host.drain()
    assert (a.texts, b.texts) == (["to None", "to a"], ["to b"])
    found = await host.bus.deliveries()
    assert [each.subscriber_id for each in found] == [NOTIFY, NOTIFY, f"{NOTIFY}.b", NOTIFY]
    assert 'There is no channel "c"' in str(found[-1].error)


async def test_what_waits_for_a_channel_finds_it_in_another_place(
    duly_world: World, shelf: Shelf
) -> None:
    """B9: another order of channels, one that is gone, and texts from before each had its own."""
    a, b = User("a"), User("b")
    host = await opened(duly_world, shelf, a)  # as if all channels had one subscriber
    await host.bus.emit("user.notify", {"text": "1", "channel_id": "b"}, source="test")
    await duly_world.crash(host)
    host = await duly_world.host(extensions=shelf.folder, channels=[a, b])
    await host.bus.emit("user.notify", {"text": "2", "channel_id": "b"}, source="test")
    await duly_world.crash(host)
    host = await duly_world.host(extensions=shelf.folder, channels=[b, a])
    await host.bus.emit("user.notify", {"text": "3", "channel_id": "a"}, source="test")
    await host.drain()
    assert (a.texts, sorted(b.texts)) == (["3"], ["1", "2"])
    await duly_world.crash(host)
    host = await duly_world.host(extensions=shelf.folder, channels=[a])
    await host.bus.emit("user.notify", {"text": "4", "channel_id": "b"}, source="test")
    async with host.running():
        await duly_world.advance(60)
    (dead,) = await host.bus.deliveries(status="dead")
    assert (dead.event_id, dead.subscriber_id) == (4, f"{NOTIFY}.b")
    assert (await host.bus.journal())[0].status == "failed"


# -- A terminal that is not read ------------------------------------------------------------------


async def test_a_terminal_that_is_not_read_does_not_block_the_loop() -> None:
    """B9: others run meanwhile; when it is read again the texts come, in their order."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        channel = TerminalChannel(stream)
        texts = [f"{number} {'x' * 60_000}" for number in range(3)]
        sends = [asyncio.ensure_future(channel.send(text)) for text in texts]
        await asyncio.sleep(0.05)
        assert not sends[-1].done()
        sends[-1].cancel()
        read = await asyncio.to_thread(drained, reading, sum(len(text) + 1 for text in texts[:2]))
        await asyncio.gather(*sends[:2])
        assert read.split("\n")[:2] == texts[:2]
        await channel.send("short")
    assert os.read(reading, 100) == b"short\n"
    os.close(reading)


def drained(number: int, count: int) -> str:
    """Read so many bytes."""
    found = b""
    while len(found) < count:
        found += os.read(number, count - len(found))
    return found.decode()


async def test_a_terminal_that_is_gone_fails_the_send() -> None:
    """B9: what a thread raised is raised to the sender."""
    reading, writing = os.pipe()
    stream = os.fdopen(writing, "w", encoding="utf-8")
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        await TerminalChannel(stream).send("x" * 10_000)
    os.dup2(os.open(os.devnull, os.O_WRONLY), writing)
    stream.close()


def test_a_webhook_has_no_longer_than_a_send() -> None:
    """B9: one send has 30 s, and not one more."""
    from duly.bus.channel import WebhookChannel

    WebhookChannel("https://chat.example.com/", timeout_s=SEND_S)
    with pytest.raises(Invalid, match="at most 30"):
        WebhookChannel("https://chat.example.com/", timeout_s=SEND_S + 1)
