"""The bus as the program that embeds a host gets it: `host.bus` (B).

Law 1  It speaks in its own name: what the host says, and what an extension says, it cannot say
       (B1). It cannot end what belongs to them either.
Law 2  Every act on a dead letter says who did it, in its own transaction (A6).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from duly.bus.attempt import Handler
from duly.bus.line import DEFAULT_RETRY, Line
from duly.bus.record import (
    Deferred,
    Delivery,
    Journaled,
    show_deferred,
    show_delivery,
    show_event,
)
from duly.errors import Invalid, RequestRefused
from duly.rules.delivery import (
    OWN_SOURCE,
    DeferredStatus,
    DeliveryStatus,
    JournalStatus,
    Retry,
    check_source,
)
from duly.store.record import Action

USER: Final = "user"  # who acts, where nobody says


class Bus(Line):
    """Events between the parts of a program, kept until everybody who subscribed was told."""

    _taken: frozenset[str] = frozenset({OWN_SOURCE})

    def reserve(self, source: str) -> Line:
        """Keep a name for an extension; answer the line on which it speaks under that name."""
        if check_source(source, self._limits) in self._taken:
            raise RequestRefused(f"The name {source} is taken on the bus; choose another.")
        self._taken |= {source}
        return Line(self._env, self._store, self._dispatcher, self._limits)

    async def emit(
        self,
        topic: str,
        payload: dict[str, Any],
        *,
        source: str,
        correlation_id: str | None = None,
    ) -> int:
        """Put an event on the bus; answer its id when it is durable (B1)."""
        self._check_free(source)
        return await super().emit(topic, payload, source=source, correlation_id=correlation_id)

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
        self._check_free(source)
        return await super().schedule_at(
            delay, topic, payload, source=source, correlation_id=correlation_id
        )

    def subscribe(
        self, topic: str, handler: Handler, *, subscriber_id: str, retry: Retry = DEFAULT_RETRY
    ) -> None:
        """Let a coroutine function be called with every event of a topic (B3).

        The durable record is written by the next emit, schedule_at, drain or serve, before that
        call's own work; from then on no event of the topic is missed (B13).
        """
        self._check_own(subscriber_id)
        super().subscribe(topic, handler, subscriber_id=subscriber_id, retry=retry)

    async def unsubscribe(self, subscriber_id: str) -> int:
        """End a subscription; answer how many deliveries were closed for it (B13).

        Of an extension's, only what it has left behind: what is connected belongs to it.
        """
        is_here = self._dispatcher.is_connected(subscriber_id)
        if is_here or str(subscriber_id).startswith(f"{OWN_SOURCE}:"):
            self._check_own(subscriber_id)
        return await self._dispatcher.disconnect(subscriber_id)

    # -- Dead letters (B5) ----------------------------------------------------------------------

    async def retry(self, event_id: int, subscriber_id: str, *, by: str = USER) -> JournalStatus:
        """Give a dead delivery all its attempts again, beginning now; answer the event's status."""
        action = self._action(by, "retry_delivery")
        try:
            return await self._store.retry_delivery(
                event_id, subscriber_id, action=action, now=self._env.now_ms()
            )
        finally:
            self._dispatcher.wake()

    async def discard(self, event_id: int, subscriber_id: str, *, by: str = USER) -> JournalStatus:
        """Close a dead delivery for good; its error stays, and the event stays failed."""
        action = self._action(by, "discard_delivery")
        return await self._store.discard(
            event_id, subscriber_id, action=action, now=self._env.now_ms()
        )

    # -- Questions (B14) ------------------------------------------------------------------------

    async def journal(
        self,
        topic: str | None = None,
        status: JournalStatus | str | None = None,
        correlation_id: str | None = None,
        *,
        limit: int = 100,
        before: int | None = None,
    ) -> tuple[Journaled, ...]:
        """List events, newest first; `before` is the last id of the page before."""
        page = {} if before is None else {"before": before}
        rows = await self._store.list_journal(
            topic=topic,
            status=_word(JournalStatus, status),
            correlation_id=correlation_id,
            limit=limit,
            **page,
        )
        return tuple(map(show_event, rows))

    async def deliveries(
        self,
        status: DeliveryStatus | str | None = None,
        *,
        event_id: int | None = None,
        limit: int = 100,
        after: tuple[int, str] = (0, ""),
    ) -> tuple[Delivery, ...]:
        """List deliveries, oldest event first; `after` is (event_id, subscriber_id) of the last."""
        rows = await self._store.list_deliveries(
            event_id=event_id, status=_word(DeliveryStatus, status), limit=limit, after=after
        )
        is_connected, now = self._dispatcher.is_connected, self._env.now_ms()
        return tuple(
            show_delivery(row, is_connected=is_connected(row.subscriber_id), now=now)
            for row in rows
        )

    async def deferred(
        self,
        status: DeferredStatus | str = DeferredStatus.SCHEDULED,
        *,
        limit: int = 100,
        after: Deferred | None = None,
    ) -> tuple[Deferred, ...]:
        """List deferred events of one status in the order in which they fire."""
        place = {}
        if after is not None:
            place = {"after": (round(after.fire_at.timestamp() * 1000), after.id)}
        rows = await self._store.list_deferred(
            status=_word(DeferredStatus, status) or "", limit=limit, **place
        )
        return tuple(map(show_deferred, rows))

    def _check_free(self, source: object) -> None:
        if source in self._taken:
            raise RequestRefused(
                f"Only {source} itself can emit as {source}; give a source of your own."
            )

    def _check_own(self, subscriber_id: object) -> None:
        owner, colon, _ = str(subscriber_id).partition(":")
        if colon and owner in self._taken:
            raise RequestRefused(f"The subscriber {subscriber_id} belongs to {owner}.")

    def _action(self, by: object, verb: str) -> Action:
        most = self._limits.name_chars
        if not isinstance(by, str) or not by.strip() or not by.isprintable() or len(by) > most:
            raise Invalid(f"by must say who acts, in 1 to {most} printable characters.", path="by")
        return Action(self._env.new_id("action"), by, verb)


def _word(kind: Any, status: object) -> str | None:
    """Read a status, or name those there are."""
    if status is None:
        return None
    try:
        return str(kind(status))
    except ValueError:
        words = ", ".join(kind)
        raise Invalid(f"{status!r} is no status here; say one of {words}.", path="status") from None
