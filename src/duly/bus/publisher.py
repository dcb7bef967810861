"""Putting events on the bus, under any source: emit, defer, cancel, and connect handlers (B1, B2).

Law 1  A wrong argument is refused to the caller, and nothing is stored. What was accepted is
       durable when the call returns, and is a copy.
Law 2  A subscription is written before what is emitted after it: every call writes the waiting
       subscriptions first (B13).
Law 3  A publisher believes the source it is given. Only the host and what loads extensions hold
       one; a program that embeds the host gets a `Bus`, which checks the source first.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from duly.bus.cause import cause
from duly.bus.dispatcher import Dispatcher, Subscriber
from duly.bus.question import read_id
from duly.config import Limits
from duly.env import Env
from duly.errors import Invalid, RequestRefused
from duly.rules.announcement import Topic
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
from duly.store.record import Action, JournalEvent

DEFAULT_RETRY = Retry()
# Topics that only the engine emits, in the transaction of the change it announces (B10).
ANNOUNCED: Final = frozenset(str(each) for each in Topic)


class Subscriptions:
    """Takes handlers, each judged before anything is done with it."""

    def __init__(self, dispatcher: Dispatcher, limits: Limits) -> None:
        self._dispatcher = dispatcher
        self._limits = limits

    def connect(self, asked: Subscriber) -> None:
        """Connect a handler, or refuse it to its maker (B3, B13)."""
        self._dispatcher.check_loop()
        self._check(asked)
        self._dispatcher.connect(asked)

    def connect_all(self, asked: Sequence[Subscriber]) -> None:
        """Connect several handlers, or none of them (B9)."""
        for index, each in enumerate(asked):
            try:
                self.connect(each)
            except BaseException:
                for before in asked[:index]:
                    self._dispatcher.let_go(before.subscriber_id)
                raise

    async def keep(self, asked: Subscriber) -> None:
        """Make a subscription durable before its handler is connected (B13)."""
        self._check(asked)
        await self._dispatcher.write_down(asked)

    def _check(self, asked: Subscriber) -> None:
        check_topic(asked.topic, self._limits)
        check_subscriber_id(asked.subscriber_id)
        check_handler(asked.handler, f"The handler of {asked.subscriber_id}")
        if not isinstance(asked.retry, Retry):
            raise Invalid(code="wrong_value", path="retry", facts={"wanted": "retry"})


class Publisher:
    """Puts events on the bus and handlers behind it, under any name."""

    def __init__(self, env: Env, store: Store, dispatcher: Dispatcher, limits: Limits) -> None:
        self._env = env
        self._store = store
        self._dispatcher = dispatcher
        self._limits = limits
        self.subscriptions = Subscriptions(dispatcher, limits)

    async def emit(
        self,
        topic: str,
        payload: dict[str, Any],
        *,
        source: str,
        correlation_id: str | None = None,
        action: Action | None = None,
    ) -> int:
        """Put an event on the bus; return its id when it is durable (B1)."""
        self._dispatcher.check_loop()
        event = self._event(topic, payload, source, correlation_id)
        await self._dispatcher.register()
        try:
            event_id = await self._store.emit(event, now=self._env.now_ms(), action=action)
        finally:
            # The event may be stored although the caller was cancelled.
            self._dispatcher.wake_all()
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
        action: Action | None = None,
    ) -> int:
        """Put an event on the bus after so many seconds; return the id to cancel it by (B2)."""
        self._dispatcher.check_loop()
        delay_ms = parse_delay_ms(delay)
        event = self._event(topic, payload, source, correlation_id)
        await self._dispatcher.register()
        try:
            return await self._store.defer(
                event,
                delay_ms=delay_ms,
                now=self._env.now_ms(),
                boot=self._dispatcher.boot,
                scheduled_max=self._dispatcher.deferred_max,
                action=action,
            )
        finally:
            self._dispatcher.wake_all()

    async def cancel(self, deferred_id: int, *, source: str | None = None) -> bool:
        """Stop a deferred event; true once, false if it has fired or was cancelled before (B2).

        Also of one that retention has removed since; an id that was never given is not found, and
        one that another `source` scheduled is refused.
        """
        number = read_id(deferred_id, "deferred_id")
        return await self._store.cancel(number, now=self._env.now_ms(), source=source)

    def _event(
        self, topic: object, payload: object, source: object, correlation_id: object
    ) -> JournalEvent:
        if str(topic).casefold() in ANNOUNCED:
            raise RequestRefused(code="own_topic", subject=str(topic))
        if correlation_id is not None:
            correlation_id = parse_message_id(correlation_id, "correlation_id", self._limits)
        return cause(
            self._store,
            check_topic(topic, self._limits),
            check_source(source, self._limits),
            encode_payload(payload, self._limits),
            correlation_id,
        )


def check_handler(handler: object, what: str) -> None:
    """Refuse what cannot be called with an event and waited for (B3)."""
    if not is_async(handler):
        raise Invalid(code="not_async", path="handler", subject=what)
    try:
        inspect.signature(handler).bind(object())  # type: ignore[arg-type]  # it is callable
    except TypeError:
        raise Invalid(code="takes_no_event", path="handler", subject=what) from None
    except ValueError:
        return  # it does not say what it takes


def is_async(handler: object) -> bool:
    """Tell whether calling something gives what can be waited for; calling a class does not."""
    while isinstance(handler, partial):
        handler = handler.func
    if isinstance(handler, type):
        return False
    called = getattr(handler, "__call__", None)  # noqa: B004  # its kind is asked, not whether
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)
