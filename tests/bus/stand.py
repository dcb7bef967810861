"""What a test of the bus stands on: subscribers that write down what they heard, and when.

host = await duly_world.host()
ear = listen(host, "mail")
await say(host, "mail", text="hello")
await host.drain()
assert ear.texts == ["hello"]
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from duly.host import Host
from duly.rules.delivery import Event, Retry, encode_payload
from duly.store import Store
from duly.store.record import JournalEvent
from duly.testing import Stage

ONCE = Retry(1, ())
Act = Callable[[Event], Awaitable[None]]


@dataclass
class Ear:
    """A subscriber: what it heard, at which millisecond, and what it does then."""

    host: Host
    subscriber_id: str
    then: Act | None = None
    events: list[Event] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)

    async def hear(self, event: Event) -> None:
        self.events.append(event)
        self.times.append(self.host._desk().now_ms)
        if self.then is not None:
            await self.then(event)
        self.done.append(event.id)

    @property
    def ids(self) -> list[int]:
        """The ids of what it heard, in order."""
        return [event.id for event in self.events]

    @property
    def texts(self) -> list[str]:
        """The texts it heard, in order."""
        return [event.payload["text"] for event in self.events]


def listen(
    host: Host,
    topic: str = "mail",
    subscriber_id: str | None = None,
    then: Act | None = None,
    retry: Retry = ONCE,
) -> Ear:
    """Subscribe an ear to a topic."""
    ear = Ear(host, subscriber_id or f"test:{topic}", then)
    host.bus.subscribe(topic, ear.hear, subscriber_id=ear.subscriber_id, retry=retry)
    return ear


async def say(host: Host, topic: str = "mail", **payload: Any) -> int:
    """Emit an event as the program that embeds the host."""
    return await host.bus.emit(topic, payload or {"text": "hello"}, source="test")


async def announce(host: Host, topic: str, source: str = "duly", **payload: Any) -> int:
    """Emit an event as the host itself does, past the line that would refuse it."""
    event = JournalEvent(topic, source, encode_payload(payload or {"text": "hello"}))
    return await store_of(host).emit(event, now=host._desk().now_ms)


def store_of(host: Host) -> Store:
    """Answer the store of a host."""
    return host._desk().parts.store


async def statuses(host: Host) -> dict[int, str]:
    """Answer the status of every event but the host's own."""
    found = reversed(await host.bus.journal(limit=1000))
    return {each.id: str(each.status) for each in found if each.source != "duly"}


async def delivered(host: Host) -> dict[tuple[int, str], tuple[str, int]]:
    """Answer status and attempts of every delivery."""
    found = await host.bus.deliveries(limit=1000)
    return {
        (each.event_id, each.subscriber_id): (str(each.status), each.attempts) for each in found
    }


def count_looks(host: Host) -> list[int]:
    """Answer a list that grows with every look of the bus at its store."""
    store, looks = store_of(host), []
    look: Callable[..., Awaitable[Any]] = store.bus_outlook

    async def counted(*args: Any, **kwargs: Any) -> Any:
        looks.append(1)
        return await look(*args, **kwargs)

    store.bus_outlook = counted
    return looks


async def again(stage: Stage, host: Host, **options: Any) -> Host:
    """Let a host die where it is, and open another one on its file."""
    await stage.crash(host)
    return await stage.host(**options)
