"""Speaking on the bus: what is emitted, deferred and subscribed to, in somebody's name (B1, B2).

Law 1  What is wrong is refused to the caller, and nothing is stored; what was taken is durable when
       the call returns, and is a copy.
Law 2  Whoever subscribed before speaks after: every call writes the waiting subscriptions first
       (B13).
Law 3  A line believes the source it is told. It is held by the host and by what loads extensions;
       a program that embeds the host gets a `Bus`, which does not.
"""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any

from duly.bus.attempt import Handler
from duly.bus.cause import cause
from duly.bus.dispatcher import Dispatcher, Subscriber
from duly.bus.question import read_id
from duly.config import Limits
from duly.env import Env
from duly.errors import Invalid
from duly.rules.delivery import (
    Retry,
    check_source,
    check_subscriber_id,
    check_topic,
    encode_payload,
    parse_delay_ms,
)
from duly.rules.event import parse_message_id
from duly.store import Store
from duly.store.record import JournalEvent

DEFAULT_RETRY = Retry()


class Line:
    """Puts events on the bus and handlers behind it, under any name."""

    def __init__(self, env: Env, store: Store, dispatcher: Dispatcher, limits: Limits) -> None:
        self._env = env
        self._store = store
        self._dispatcher = dispatcher
        self._limits = limits

    async def emit(
        self,
        topic: str,
        payload: dict[str, Any],
        *,
        source: str,
        correlation_id: str | None = None,
    ) -> int:
        """Put an event on the bus; answer its id when it is durable (B1)."""
        self._dispatcher.check_loop()
        event = self._event(topic, payload, source, correlation_id)
        await self._dispatcher.register()
        try:
            event_id = await self._store.emit(event, now=self._env.now_ms())
        finally:
            # Whoever stops waiting may have emitted all the same.
            self._dispatcher.wake()
        self._dispatcher.note_durable(event_id)
        return event_id

    async def schedule_at(
        self,
        delay: float | timedelta,
        topic: str,
        payload: dict[str, Any],
        *,
        source: str,
        correlation_id: str | None = None,
    ) -> int:
        """Put an event on the bus after so many seconds; answer the id to cancel it by (B2)."""
        self._dispatcher.check_loop()
        delay_ms = parse_delay_ms(delay)
        event = self._event(topic, payload, source, correlation_id)
        await self._dispatcher.register()
        try:
            return await self._store.defer(event, delay_ms=delay_ms, now=self._env.now_ms())
        finally:
            self._dispatcher.wake()

    def subscribe(
        self, topic: str, handler: Handler, *, subscriber_id: str, retry: Retry = DEFAULT_RETRY
    ) -> None:
        """Let a coroutine function be called with every event of a topic (B3).

        The durable record is written by the next emit, schedule_at, drain or serve, before that
        call's own work; from then on no event of the topic is missed (B13).
        """
        self._dispatcher.check_loop()
        check_topic(topic, self._limits)
        check_subscriber_id(subscriber_id)
        if not is_async(handler):
            raise Invalid(
                f"The handler of {subscriber_id} is not an async function. Write `async def`.",
                path="handler",
            )
        if not isinstance(retry, Retry):
            raise Invalid(f"The retry of {subscriber_id} is not a Retry.", path="retry")
        self._dispatcher.connect(Subscriber(subscriber_id, topic, handler, retry))

    async def cancel(self, deferred_id: int) -> bool:
        """Stop a deferred event; true once, false if it has fired or was cancelled before (B2).

        Also of one that retention has removed since; an id that was never given is not found.
        """
        number = read_id(deferred_id, "deferred_id")
        return await self._store.cancel(number, now=self._env.now_ms())

    def _event(
        self, topic: object, payload: object, source: object, correlation_id: object
    ) -> JournalEvent:
        if correlation_id is not None:
            correlation_id = parse_message_id(correlation_id, "correlation_id", self._limits)
        return cause(
            self._store,
            check_topic(topic, self._limits),
            check_source(source, self._limits),
            encode_payload(payload, self._limits),
            correlation_id,
        )


def is_async(handler: object) -> bool:
    """Tell whether calling something gives what can be waited for."""
    if inspect.iscoroutinefunction(handler):
        return True
    called = getattr(handler, "__call__", None)  # noqa: B004  # its kind is asked, not whether
    return inspect.iscoroutinefunction(called)
