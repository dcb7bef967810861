"""The bus as the program that embeds a host gets it: `host.bus` (B).

Law 1  It emits in its own name. It cannot emit as the host or as an extension (B1), and cannot
       end their subscriptions or deferred events either.
Law 2  Every act on a dead letter says who did it, in its own transaction (A6). So does every event
       that comes from a caller of a face: its `source` is only what the caller says of itself.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Final

from duly.bus.attempt import Handler
from duly.bus.dispatcher import Dispatcher, Subscriber
from duly.bus.publisher import DEFAULT_RETRY, Publisher
from duly.bus.question import (
    read_correlation,
    read_id,
    read_place,
    read_time,
    read_topic,
)
from duly.bus.record import (
    Deferred,
    Delivery,
    Journaled,
    Subscribed,
    show_deferred,
    show_delivery,
    show_event,
    show_subscriber,
)
from duly.config import Limits
from duly.env import Env
from duly.errors import RequestRefused
from duly.rules.deferral import DeferredStatus
from duly.rules.delivery import (
    DeliveryStatus,
    JournalStatus,
    Retry,
    check_source,
    check_subscriber_id,
    looks_like_own,
)
from duly.rules.request import check_by, read_word
from duly.rules.verb import Crosses, Scope, act, question
from duly.rules.waiting import find_wait
from duly.store import Store
from duly.store import bus as stored
from duly.store.bus import LAST_ID
from duly.store.people import page
from duly.store.record import Action

USER: Final = "user"  # the actor, where a caller gives none


class Bus:
    """Events between the parts of a program, kept until every subscriber was told."""

    def __init__(self, env: Env, store: Store, dispatcher: Dispatcher, limits: Limits) -> None:
        self._env = env
        self._store = store
        self._dispatcher = dispatcher
        self._limits = limits
        self._publisher = Publisher(env, store, dispatcher, limits)
        self._taken: frozenset[str] = frozenset()  # in small letters

    def reserve(self, source: str) -> Publisher:
        """Keep a name for an extension; return the publisher that emits under that name."""
        check_source(source, self._limits)
        if self._is_taken(source):
            raise RequestRefused(code="name_taken", subject=source)
        self._taken |= {source.casefold()}
        return self._publisher

    @act(
        scope=Scope.AGENT,
        recorded_in="bus.journal",
        example={"topic": "task.received", "payload": {"text": "Write to Ada"}, "source": "cli"},
    )
    async def emit(
        self,
        topic: str,
        payload: dict[str, Any],
        *,
        source: str,
        correlation_id: str | None = None,
        by: str | None = None,
    ) -> int:
        """Put an event on the bus; return its id when it is durable.

        If `by` is given, the act is recorded.
        """
        # Rules: B1, A6.
        self._check_free(source)
        return await self._publisher.emit(
            topic,
            payload,
            source=source,
            correlation_id=correlation_id,
            action=None if by is None else self._action(by, "emit", str(source)),
        )

    @act(
        scope=Scope.AGENT,
        recorded_in="bus.deferred",
        example={
            "delay": 3600,
            "topic": "reminder.due",
            "payload": {"text": "Tea"},
            "source": "cli",
        },
    )
    async def schedule_at(
        self,
        delay: Annotated[float | timedelta, Crosses(float)],
        topic: str,
        payload: dict[str, Any],
        *,
        source: str,
        correlation_id: str | None = None,
        by: str | None = None,
    ) -> int:
        """Put an event on the bus after so many seconds; return the id to cancel it by.

        If `by` is given, the act is recorded.
        """
        # Rules: B2, A6.
        self._check_free(source)
        return await self._publisher.schedule_at(
            delay,
            topic,
            payload,
            source=source,
            correlation_id=correlation_id,
            action=None if by is None else self._action(by, "schedule_at", str(source)),
        )

    def subscribe(
        self, topic: str, handler: Handler, *, subscriber_id: str, retry: Retry = DEFAULT_RETRY
    ) -> None:
        """Let a coroutine function be called with every event of a topic (B3).

        The durable record is written by the next emit, schedule_at, drain or serve, before that
        call's own work; from then on no event of the topic is missed (B13).
        """
        self._check_own(subscriber_id)
        self._publisher.subscriptions.connect(Subscriber(subscriber_id, topic, handler, retry))

    @act(scope=Scope.DECIDE, for_agents=True, example={"deferred_id": 7})
    async def cancel(self, deferred_id: int, *, by: str | None = None) -> bool:
        """Stop a deferred event; true once, false if it has fired or was cancelled before.

        An id that was never given out is refused. If `by` is given, the act is recorded.
        """
        # Rules: B2.
        if by is None:
            return await self._publisher.cancel(deferred_id)
        action = self._action(by, "cancel_deferred")
        number = read_id(deferred_id, "deferred_id")
        return await self._store.cancel(number, now=self._env.now_ms(), action=action)

    @act(
        scope=Scope.DECIDE,
        extension_argument="subscriber_id",
        for_agents=True,
        example={"subscriber_id": "post:task.received:send"},
    )
    async def unsubscribe(self, subscriber_id: str, *, by: str | None = None) -> int:
        """End a subscription; return how many deliveries were closed for it.

        A subscription that an extension or the host uses cannot be ended. One that leads into a
        workflow belongs to the workflow. If `by` is given, the act is recorded.
        """
        # Rules: B13.
        action = None if by is None else self._action(by, "unsubscribe")
        if self._dispatcher.is_connected(check_subscriber_id(subscriber_id)):
            self._check_own(subscriber_id)
        return await self._dispatcher.disconnect(subscriber_id, action)

    # -- Dead letters (B5) ----------------------------------------------------------------------

    @act(scope=Scope.DECIDE, example={"event_id": 12, "subscriber_id": "post:task.received:send"})
    async def retry(self, event_id: int, subscriber_id: str, *, by: str = USER) -> JournalStatus:
        """Give a dead delivery all its attempts again, beginning now; return the event's status."""
        action = self._action(by, "retry_delivery")
        letter = read_id(event_id, "event_id"), check_subscriber_id(subscriber_id)
        try:
            return await self._store.retry_delivery(*letter, action=action, now=self._env.now_ms())
        finally:
            self._dispatcher.wake_all()

    @act(
        scope=Scope.DECIDE,
        for_agents=True,
        example={"event_id": 12, "subscriber_id": "post:task.received:send"},
    )
    async def discard(self, event_id: int, subscriber_id: str, *, by: str = USER) -> JournalStatus:
        """Close a dead delivery for good; its error stays, and the event stays failed."""
        action = self._action(by, "discard_delivery")
        letter = read_id(event_id, "event_id"), check_subscriber_id(subscriber_id)
        return await self._store.discard(*letter, action=action, now=self._env.now_ms())

    # -- After a restore (H5) -------------------------------------------------------------------

    @act(scope=Scope.DECIDE, example={})
    async def resume(self, *, by: str = USER) -> bool:
        """Let a bus that was restored from a backup deliver; false if it does already.

        Events that were delivered since that backup are delivered again. Look at the deliveries
        and the deferred events before, and cancel what must not happen a second time.
        """
        # Rules: H5.
        action = self._action(by, "resume_bus")
        try:
            return await self._store.resume_bus(action=action, now=self._env.now_ms())
        finally:
            self._dispatcher.wake_all()

    # -- Questions (B14) ------------------------------------------------------------------------

    @question(cursor=("id",), example={"topic": "task.received"})
    async def journal(
        self,
        topic: str | None = None,
        status: JournalStatus | str | None = None,
        correlation_id: str | None = None,
        *,
        limit: int = 100,
        before: int | None = None,
    ) -> tuple[Journaled, ...]:
        """List events, newest first; the next page goes on before the id of the last entry."""
        look = partial(
            stored.list_journal,
            topic=read_topic(topic, self._limits),
            status=None if status is None else read_word(JournalStatus, status),
            correlation_id=read_correlation(correlation_id, self._limits),
            limit=page(limit),
            before=LAST_ID if before is None else read_id(before, "before"),
        )
        rows = await self._store.backend.ask(look)
        return tuple(show_event(row, self._dispatcher.secrets) for row in rows)

    @question(cursor=("event_id", "subscriber_id"), example={"status": "dead"})
    async def deliveries(
        self,
        status: DeliveryStatus | str | None = None,
        *,
        event_id: int | None = None,
        limit: int = 100,
        after: tuple[int, str] = (0, ""),
    ) -> tuple[Delivery, ...]:
        """List deliveries, oldest event first.

        The next page goes on after the event id and the subscriber id of the last entry.
        """
        list_them = partial(
            stored.list_deliveries,
            event_id=None if event_id is None else read_id(event_id, "event_id"),
            status=None if status is None else read_word(DeliveryStatus, status),
            limit=page(limit),
            after=read_place(after),
        )
        rows, is_held = await self._store.backend.ask(
            lambda tx: (list_them(tx), stored.held_since(tx) is not None)
        )
        presence, now = self._dispatcher.presence, self._env.now_ms()
        waits = (find_wait(row, presence(row.subscriber_id), now, is_held=is_held) for row in rows)
        return tuple(
            show_delivery(row, reason, self._dispatcher.secrets)
            for row, reason in zip(rows, waits, strict=True)
        )

    @question(example={})
    async def deferred(
        self,
        status: DeferredStatus | str = DeferredStatus.SCHEDULED,
        *,
        limit: int = 100,
        after: Deferred | None = None,
    ) -> tuple[Deferred, ...]:
        """List deferred events of one status in the order in which they fire."""
        look = partial(
            stored.list_deferred,
            status=read_word(DeferredStatus, status),
            limit=page(limit),
            after=read_time(after),
        )
        rows = await self._store.backend.ask(look)
        return tuple(show_deferred(row, self._dispatcher.secrets) for row in rows)

    @question(example={})
    async def subscribers(self) -> tuple[Subscribed, ...]:
        """List the subscribers of the bus, in the order of their calls."""
        rows = await self._store.backend.ask(stored.list_subscriptions)
        presence = self._dispatcher.presence
        return tuple(show_subscriber(row, presence(row.subscriber_id)) for row in rows)

    def _check_free(self, source: object) -> None:
        if isinstance(source, str) and self._is_taken(source):
            raise RequestRefused(code="not_your_source", subject=source)

    def _is_taken(self, name: str) -> bool:
        """Tell whether a name is the host's or an extension's, or would be read as that (B1)."""
        return looks_like_own(name) or name.casefold() in self._taken

    def _check_own(self, subscriber_id: object) -> None:
        owner, colon, _ = str(subscriber_id).partition(":")
        if colon and self._is_taken(owner):
            raise RequestRefused(
                code="not_your_subscriber", subject=str(subscriber_id), facts={"owner": owner}
            )

    def _action(self, by: object, verb: str, detail: str | None = None) -> Action:
        return Action(self._env.new_id("action"), check_by(by, self._limits), verb, detail)
