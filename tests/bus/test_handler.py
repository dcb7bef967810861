"""Handlers that raise anything, never return, block, or work against the bus they hang on (B3)."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable

import pytest

from duly.bus.attempt import GRACE_S
from duly.errors import RequestRefused
from duly.host import Host
from duly.rules.delivery import ERROR_CHARS, HANDLER_TIMEOUT_S, Event, Retry
from duly.rules.fault import describe
from duly.rules.redaction import Redactor
from duly.rules.shown import cut
from duly.testing import Stage
from tests.bus.stand import ONCE, delivered, listen, say, statuses
from tests.spoken import short


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit("not even this")


RAISED: list[BaseException] = [
    ValueError("no"),
    asyncio.CancelledError(),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopAsyncIteration(),
    BaseExceptionGroup("many", [SystemExit(1), ValueError("x")]),
    Mute(),
    ValueError("half a character: \ud800, and a NUL: \0"),
    ValueError("x" * 10_000),
    Exception(),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda each: type(each).__name__)
async def test_whatever_a_handler_raises_the_dispatcher_lives_and_the_record_is_true(
    duly_world: Stage, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B3, B4: that delivery is dead with its words, the next subscriber and event are served."""
    # Half a character in a captured log is more than a report that is sent in UTF-8 can carry.
    monkeypatch.setattr(logging.getLogger("duly"), "propagate", False)
    host = await duly_world.host()

    async def fail(event: Event) -> None:
        if event.id == 1:
            raise error

    first = listen(host, subscriber_id="first", then=fail)
    second = listen(host, subscriber_id="second")
    async with host.running():
        await say(host)
        await say(host)
        await duly_world.advance(1)
        assert first.ids == second.ids == [1, 2]
    assert (await delivered(host))[1, "first"] == ("dead", 1)
    assert await statuses(host) == {1: "failed", 2: "done"}
    (dead,) = await host.bus.deliveries(status="dead")
    assert dead.error == cut(describe(error, Redactor()), ERROR_CHARS)


async def test_what_a_handler_raised_is_kept_and_logged_without_secrets(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """A5, G9: redacted before it is cut, and nothing in the log is unseen."""
    host = await duly_world.host()
    secret = "canary-4711-canary"
    host._desk().parts.outside.remember(secret)
    basic = b64encode(f"me:{secret}".encode()).decode()

    async def fail(event: Event) -> None:
        said = f"\x1b[2J\u202e Basic {basic} " + "x" * (ERROR_CHARS - 60) + secret
        raise ValueError(said) from RuntimeError(secret)

    listen(host, subscriber_id="first", then=fail)
    await say(host)
    with caplog.at_level(logging.ERROR, "duly.bus"):
        await host.drain()
    ((delivery,), (event,)) = await host.bus.deliveries(), await host.bus.journal()
    kept = f"{delivery.error}{event.error}"
    logged = caplog.text + repr([vars(each) for each in caplog.records])
    assert "[redacted]" in kept
    assert basic[8:20] not in kept + logged
    assert "canary" not in kept + logged
    assert "\x1b" not in caplog.text
    assert "\u202e" not in caplog.text


async def test_a_failure_is_logged_with_subscriber_and_event(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """B7: in words and as fields, with the traceback."""
    host = await duly_world.host()

    async def fail(event: Event) -> None:
        raise ValueError("no luck")

    listen(host, subscriber_id="first", then=fail)
    await say(host)
    with caplog.at_level(logging.ERROR, "duly.bus"):
        await host.drain()
    (record,) = caplog.records
    assert (record.subscriber_id, record.event_id) == ("first", 1)  # type: ignore[attr-defined]
    assert "first" in record.getMessage()
    assert "no luck" in record.getMessage()
    assert 'raise ValueError("no luck")' in record.getMessage()


async def test_a_handler_that_cancels_its_own_task_has_succeeded_if_it_returned(
    duly_world: Stage,
) -> None:
    """B4: what it did is done, whatever was cancelled around it."""
    host = await duly_world.host()

    async def cancel_itself(event: Event) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    ear = listen(host, then=cancel_itself)
    await say(host)
    await host.drain()
    assert ear.done == [1]
    assert await statuses(host) == {1: "done"}


# -- Never returning (B3) -----------------------------------------------------------------------


async def test_a_handler_that_never_returns_hits_its_time_limit(duly_world: Stage) -> None:
    """B3: it is cancelled after 300 s, its delivery failed, and the next subscriber is called."""
    host = await duly_world.host()
    cancelled_at: list[int] = []

    async def hang(event: Event) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled_at.append(duly_world.env.now_ms())

    listen(host, subscriber_id="first", then=hang)
    second = listen(host, subscriber_id="second")
    async with host.running():
        await say(host)
        start = duly_world.env.now_ms()
        await duly_world.advance(HANDLER_TIMEOUT_S - 1)
        assert second.events == []
        await duly_world.advance(2)
    assert cancelled_at == second.times == [start + HANDLER_TIMEOUT_S * 1000]
    (dead,) = await host.bus.deliveries(status="dead")
    assert dead.error == "it took longer than 300 s"


async def test_a_handler_just_within_its_time_has_succeeded(duly_world: Stage) -> None:
    """B3: one at the limit's edge, for the one past it."""
    host = await duly_world.host()

    async def linger(event: Event) -> None:
        await duly_world.env.sleep(HANDLER_TIMEOUT_S - 0.001)

    listen(host, then=linger)
    await say(host)
    await host.drain()
    assert await statuses(host) == {1: "done"}


async def test_a_handler_that_swallows_its_cancellation_is_left_behind_and_reported(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """B3: after a grace nobody waits for it; closing ends it, or says that it cannot."""
    host = await duly_world.host()
    freed = asyncio.Event()

    async def deaf(event: Event) -> None:
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                continue

    listen(host, subscriber_id="first", then=deaf)
    second = listen(host, subscriber_id="second")
    async with host.running():
        await say(host)
        start = duly_world.env.now_ms()
        await duly_world.advance(HANDLER_TIMEOUT_S + GRACE_S + 1)
        assert second.times == [start + round((HANDLER_TIMEOUT_S + GRACE_S) * 1000)]
    (dead,) = await host.bus.deliveries(status="dead")
    assert dead.error is not None
    assert "did not end when it was cancelled" in dead.error
    caplog.clear()
    closed_at = duly_world.env.now_ms()
    await host.close()
    assert duly_world.env.now_ms() - closed_at == GRACE_S * 1000
    assert "event 1 for first does not end and is left behind" in caplog.text
    freed.set()
    await duly_world.loop.rest()


async def test_a_handler_that_blocks_the_whole_loop_is_recorded_when_it_is_over(
    duly_world: Stage,
) -> None:
    """B3: nothing can be done meanwhile, and nothing is lost by it."""
    host = await duly_world.host()

    async def block(event: Event) -> None:
        duly_world.loop._jump(HANDLER_TIMEOUT_S * 2)  # as a call of time.sleep would

    blocking = listen(host, then=block)
    other = listen(host, "news")
    async with host.running():
        await say(host)
        await say(host, "news")
        await duly_world.advance(1)
    assert (blocking.done, other.done) == ([1], [2])
    assert await statuses(host) == {1: "done", 2: "done"}


# -- Handlers that use the bus ------------------------------------------------------------------


async def run_in_handler(stage: Stage, act: Callable[[Host, Event], Awaitable[None]]) -> Host:
    """Let a handler of the first event do something with the host, and drain."""
    host = await stage.host()

    async def then(event: Event) -> None:
        if event.id == 1:
            await act(host, event)

    listen(host, subscriber_id="first", then=then, retry=ONCE)
    await say(host)
    await host.drain()
    return host


async def test_a_handler_may_emit_to_its_own_topic(duly_world: Stage) -> None:
    """B3: it is told of that after it has returned."""

    async def emit(host: Host, event: Event) -> None:
        await say(host)
        assert await statuses(host) == {1: "processing", 2: "pending"}

    host = await run_in_handler(duly_world, emit)
    assert await statuses(host) == {1: "done", 2: "done"}


async def test_a_handler_may_unsubscribe_itself(duly_world: Stage) -> None:
    """B13: its success counts, and it hears nothing more."""

    async def leave(host: Host, event: Event) -> None:
        await say(host)
        await host.bus.unsubscribe("first")

    host = await run_in_handler(duly_world, leave)
    assert await delivered(host) == {(1, "first"): ("done", 1)}
    assert await statuses(host) == {1: "done", 2: "done"}


async def test_a_handler_may_not_retry_its_own_delivery(duly_world: Stage) -> None:
    """B5: only the dead are retried; the refusal is its own to handle."""

    async def retry(host: Host, event: Event) -> None:
        with pytest.raises(RequestRefused, match="running"):
            await host.bus.retry(event.id, "first", by="itself")

    host = await run_in_handler(duly_world, retry)
    assert await delivered(host) == {(1, "first"): ("done", 1)}


async def test_a_handler_that_drains_its_host_is_refused_and_nobody_waits_for_ever(
    duly_world: Stage,
) -> None:
    """B3: the drain it runs in goes on."""

    async def drain(host: Host, event: Event) -> None:
        with pytest.raises(RequestRefused, match="one at a time"):
            await host.drain()

    host = await run_in_handler(duly_world, drain)
    assert await statuses(host) == {1: "done"}


async def test_a_handler_may_connect_another(duly_world: Stage) -> None:
    """B13: which gets later events."""
    late = []

    async def connect(host: Host, event: Event) -> None:
        late.append(listen(host, subscriber_id="late"))
        await say(host)

    host = await run_in_handler(duly_world, connect)
    assert late[0].ids == [2]
    assert await statuses(host) == {1: "done", 2: "done"}


async def test_closing_the_host_from_a_handler_does_not_hang(duly_world: Stage) -> None:
    """B7: the close waits for the handlers, and the handler for nobody."""
    host = await duly_world.host()
    closing: list[asyncio.Task[None]] = []

    async def close(event: Event) -> None:
        closing.append(asyncio.ensure_future(host.close()))

    listen(host, then=close, retry=Retry())
    await say(host)
    await host.drain()
    await closing[0]


# -- Deaf handlers (B3, B6) ---------------------------------------------------------------------


class Deaf:
    """A handler that goes on when it is cancelled, until it is freed; it counts its calls."""

    def __init__(self) -> None:
        self.freed = asyncio.Event()
        self.running = 0
        self.most = 0
        self.ids: list[int] = []

    async def hear(self, event: Event) -> None:
        self.ids.append(event.id)
        self.running += 1
        self.most = max(self.most, self.running)
        while not self.freed.is_set():
            try:
                await self.freed.wait()
            except asyncio.CancelledError:
                continue
        self.running -= 1


async def test_a_deaf_handler_is_not_called_again_before_it_has_ended(duly_world: Stage) -> None:
    """B3, B6: its retries and later events wait, and say for what; nobody else does."""
    host = await duly_world.host()
    deaf = Deaf()
    host.bus.subscribe("mail", deaf.hear, subscriber_id="deaf", retry=Retry(2, (1,)))
    other = listen(host, subscriber_id="other")
    async with host.running():
        await say(host)
        await say(host)
        await duly_world.advance(HANDLER_TIMEOUT_S + GRACE_S + 60)
        assert (deaf.ids, other.ids) == ([1], [1, 2])
        waiting = await host.bus.deliveries(status="waiting")
        assert {(each.event_id, short(host, each)) for each in waiting} == {
            (
                event_id,
                "Waits for a call of deaf to end, which was cancelled and has not stopped.",
            )
            for event_id in (1, 2)
        }
        deaf.freed.set()
        await duly_world.advance(1)
    assert (deaf.ids, deaf.most) == ([1, 1, 2], 1)
    assert await statuses(host) == {1: "done", 2: "done"}


async def test_a_handler_that_outlasts_a_stop_does_not_run_beside_itself(
    duly_world: Stage,
) -> None:
    """B7, B3: the same host serves again; what was cut short waits for the old call's end."""
    host = await duly_world.host()
    deaf = Deaf()
    host.bus.subscribe("mail", deaf.hear, subscriber_id="deaf", retry=ONCE)
    async with host.running():
        await say(host)
        await duly_world.advance(1)
    await host.drain()
    assert deaf.ids == [1]
    (waiting,) = await host.bus.deliveries()
    assert "to end, which was cancelled" in short(host, waiting)
    async with host.running():
        await duly_world.advance(1)
        deaf.freed.set()
        await duly_world.advance(1)
    assert (deaf.ids, deaf.most) == ([1, 1], 1)
    assert await statuses(host) == {1: "done"}
