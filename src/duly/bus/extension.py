"""What the author of an extension writes with: Extension, and the context it is given (B9).

Law 1: an extension touches the bus through its context and in no other way. Everything it says
       there bears its id, which the host gave it (B1).
Law 2: what an extension subscribed to is connected when it has been initialised, all of it or
       nothing. What it asked for before it failed is kept for it, and waits (B13).
Law 3: on a context without a bus nothing happens, so an extension can be tried by itself (B1).

Extensions are the host's own code, trusted like it: law 1 keeps out mistakes, not malice. Python
has no wall inside a process: an extension that wants to forge a source, or to read the state of
another one, can.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Never

from duly.bus.attempt import Handler
from duly.bus.channel import NOTIFY_TOPIC
from duly.bus.dispatcher import Subscriber
from duly.bus.publisher import DEFAULT_RETRY, Publisher, check_handler
from duly.config import Limits
from duly.env import Env
from duly.errors import Invalid
from duly.rules.delivery import (
    HANDLER_TIMEOUT_S,
    Retry,
    check_subscriber_id,
    check_topic,
    subscriber_id,
)
from duly.rules.value import DEFAULT_LIMITS, Json, decode, encode
from duly.store import Store

NO_CONFIG: Final[Mapping[str, Json]] = MappingProxyType({})


class ExtensionPort:
    """One extension's place at the bus: its id, its subscriptions and its state."""

    def __init__(
        self,
        extension_id: str,
        publisher: Publisher,
        store: Store,
        env: Env,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.extension_id = extension_id
        self.publisher = publisher
        self._subscriptions = publisher.subscriptions
        self._store = store
        self._env = env
        self._limits = limits
        self._taken: set[str] = set()
        self._asked: list[Subscriber] = []
        self._kept = 0
        self._is_connected = False

    def subscribe(
        self,
        topic: str,
        handler: Handler,
        name: str,
        retry: Retry = DEFAULT_RETRY,
        *,
        timeout_s: float = HANDLER_TIMEOUT_S,
        is_wired: bool = False,
        channel: str | None = None,
    ) -> None:
        """Take a subscription; before the extension is initialised it is only noted (law 2)."""
        found = check_subscriber_id(subscriber_id(self.extension_id, topic, name, self._taken))
        self._taken.add(found)
        asked = Subscriber(found, topic, handler, retry, timeout_s, is_wired, channel)
        if self._is_connected:
            self._subscriptions.connect(asked)
        else:
            self._asked.append(asked)

    async def keep(self) -> None:
        """Write the subscriptions down, so that their events wait even if the start fails (B13)."""
        while self._kept < len(self._asked):
            await self._subscriptions.keep(self._asked[self._kept])
            self._kept += 1

    def connect(self) -> None:
        """Let the handlers be called from now on, all of them or none (law 2)."""
        self._subscriptions.connect_all(self._asked)
        self._is_connected = True

    async def get_state(self, key: str) -> Json:
        """Read what this extension kept."""
        text = await self._store.get_state(self.extension_id, key)
        return None if text is None else decode(text)

    async def put_state(self, key: str, value: Json) -> None:
        """Keep a value for this extension."""
        limits = self._limits
        text = encode(value, "value", limit_bytes=limits.state_bytes, depth=limits.json_depth)
        now = self._env.now_ms()
        await self._store.put_state(self.extension_id, key, text, now=now, limits=limits)


class ExtensionContext:
    """What an extension is given: its way to the bus, to the user, and to its own state.

    `ExtensionContext("my-extension")`, made by hand, has no bus: emit and subscribe_event do
    nothing and schedule_at returns None, so an extension can be tried by itself.
    """

    __slots__ = ("_config", "_extension_id", "_seat")

    def __init__(
        self,
        extension_id: str,
        config: Mapping[str, Json] = NO_CONFIG,
        seat: ExtensionPort | None = None,
    ) -> None:
        object.__setattr__(self, "_extension_id", extension_id)
        object.__setattr__(self, "_config", config)
        object.__setattr__(self, "_seat", seat)

    _extension_id: str
    _config: Mapping[str, Json]
    _seat: ExtensionPort | None

    @property
    def extension_id(self) -> str:
        """The id by which everything said here is known."""
        return self._extension_id

    @property
    def config(self) -> Mapping[str, Json]:
        """What stands under `config` in the manifest."""
        return self._config

    @property
    def logger(self) -> logging.Logger:
        """A logger of the extension's own: `duly.extension.<id>`."""
        return logging.getLogger(f"duly.extension.{self._extension_id}")

    async def emit(
        self, topic: str, payload: dict[str, Any], correlation_id: str | None = None
    ) -> int | None:
        """Put an event on the bus; return its id when it is on the disk."""
        if (seat := self._seat) is None:
            return None
        source = seat.extension_id
        return await seat.publisher.emit(
            topic, payload, source=source, correlation_id=correlation_id
        )

    async def schedule_at(
        self,
        delay: float | timedelta,
        topic: str,
        payload: dict[str, Any],
        correlation_id: str | None = None,
    ) -> int | None:
        """Put an event on the bus after so many seconds; return the id to cancel it by."""
        if (seat := self._seat) is None:
            return None
        return await seat.publisher.schedule_at(
            delay, topic, payload, source=seat.extension_id, correlation_id=correlation_id
        )

    async def cancel(self, deferred_id: int) -> bool:
        """Stop an event of one's own; false if it has fired or was cancelled before."""
        if (seat := self._seat) is None:
            return False
        return await seat.publisher.cancel(deferred_id, source=seat.extension_id)

    def subscribe_event(
        self, topic: str, handler: Handler, *, retry: Retry = DEFAULT_RETRY
    ) -> None:
        """Let an async handler be called with every event of a topic.

        The subscription is known by the handler's name and is kept until it is ended by
        `host.bus.unsubscribe`, also while the extension is not there (B13).
        """
        if (seat := self._seat) is not None:
            name = _check_handler(topic, handler)
            seat.subscribe(check_topic(topic), handler, name, _check_retry(retry))

    async def notify_user(self, text: str, channel_id: str | None = None) -> int | None:
        """Tell the user; return when that is on the disk, not when it was sent."""
        payload = {"text": text} if channel_id is None else {"text": text, "channel_id": channel_id}
        return await self.emit(NOTIFY_TOPIC, payload)

    async def get_state(self, key: str) -> Json:
        """Read what this extension kept under a key; None if it kept nothing."""
        return None if self._seat is None else await self._seat.get_state(key)

    async def put_state(self, key: str, value: Json) -> None:
        """Keep a JSON value under a key."""
        if self._seat is not None:
            await self._seat.put_state(key, value)

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"{name} cannot be set: the context of an extension is the host's.")

    def __delattr__(self, name: str) -> Never:
        raise AttributeError(f"{name} cannot be taken away: the context is the host's.")


class Extension:
    """Code that lives beside the workflows and speaks on the bus.

    class Reminders(duly.Extension):
        async def initialize(self, context):
            self.context = context
            context.subscribe_event("task.received", self.on_task)

        async def on_task(self, event):
            await self.context.schedule_at(60, "reminder.due", {"text": event.payload["text"]})
    """

    async def initialize(self, context: ExtensionContext) -> None:
        """Take the context and subscribe; called once, when the host opens."""

    async def close(self) -> None:
        """Give back what was taken; called once, when the host closes."""


def _check_handler(topic: str, handler: object) -> str:
    """Return the name of an async handler; refuse any other (B3)."""
    inner = handler
    while isinstance(inner, partial):
        inner = inner.func
    name = str(getattr(inner, "__name__", type(inner).__name__))
    check_handler(handler, f"The handler {name} for {topic}")
    return name


def _check_retry(retry: object) -> Retry:
    if not isinstance(retry, Retry):
        raise Invalid(code="wrong_value", path="retry", facts={"wanted": "retry"})
    return retry
