"""What an extension can do with its context, and in whose name."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest

import duly
from duly.bus.extension import Extension, ExtensionContext
from duly.config import Limits
from duly.errors import Invalid
from duly.host import Host
from duly.rules.delivery import Event
from duly.rules.value import DEFAULT_LIMITS
from duly.store.bus import STATE_KEY_CHARS
from duly.testing import Stage as World
from tests.bus.extension import stand
from tests.bus.extension.stand import KEEPS, Shelf, User


async def opened(stage: World, shelf: Shelf, *, channels: Any = (), **more: Any) -> Host:
    """Open a host with the extension `greeter`, whose context is at hand."""
    shelf.put("greeter", KEEPS, **more)
    return await stage.host(extensions=shelf.folder, channels=channels)


def context() -> ExtensionContext:
    return cast(ExtensionContext, stand.contexts["greeter"])


def ear(into: list[Any]) -> Callable[[Event], Any]:
    async def hear(event: Event) -> None:
        into.append(event)

    return hear


# -- The three of the seed ------------------------------------------------------------------------


def test_the_context_has_exactly_the_promised_words() -> None:
    """B9: emit, schedule_at and subscribe_event take what they always took."""
    words = {
        name: " ".join(list(inspect.signature(getattr(ExtensionContext, name)).parameters)[1:])
        for name in ("emit", "schedule_at", "subscribe_event", "notify_user")
    }
    assert words == {
        "emit": "topic payload correlation_id",
        "schedule_at": "delay topic payload correlation_id",
        "subscribe_event": "topic handler retry",
        "notify_user": "text channel_id",
    }


async def test_an_event_bears_the_id_of_the_extension(duly_world: World, shelf: Shelf) -> None:
    """B1, B8: source, topic, payload and correlation id arrive as they were given."""
    events: list[Event] = []
    host = await opened(duly_world, shelf)
    context().subscribe_event("alert", ear(events))
    number = await context().emit("alert", {"level": "warning"}, correlation_id="req-123")
    await host.drain()
    (event,) = events
    assert event == Event(
        id=cast(int, number),
        topic="alert",
        source="greeter",
        payload={"level": "warning"},
        created_at=duly_world.env.now_ms() / 1000,
        correlation_id="req-123",
    )


async def test_a_payload_that_is_no_object_is_refused_to_the_caller(
    duly_world: World, shelf: Shelf
) -> None:
    """B1: nothing is stored."""
    host = await opened(duly_world, shelf)
    with pytest.raises(Invalid, match="payload must be an object"):
        await context().emit("alert", cast(Any, ["x"]))
    assert await host.bus.journal() == ()


@pytest.mark.parametrize("delay", [5.0, 5, timedelta(seconds=5)])
async def test_a_scheduled_event_comes_in_its_time_and_in_the_extension_s_name(
    duly_world: World, shelf: Shelf, delay: float | timedelta
) -> None:
    """B1: a deferred event has the same source as one that comes at once."""
    events: list[Event] = []
    host = await opened(duly_world, shelf)
    context().subscribe_event("reminder.due", ear(events))
    number = await context().schedule_at(delay, "reminder.due", {"text": "Drink water"}, "c")
    assert isinstance(number, int)
    async with host.running():
        await duly_world.advance(4.9)
        assert events == []
        await duly_world.advance(0.1)
    assert [(each.source, each.correlation_id) for each in events] == [("greeter", "c")]


async def test_a_scheduled_event_can_be_cancelled_once(duly_world: World, shelf: Shelf) -> None:
    """B9: true for the one who stopped it, false afterwards."""
    await opened(duly_world, shelf)
    number = await context().schedule_at(5, "reminder.due", {})
    assert await context().cancel(cast(int, number)) is True
    assert await context().cancel(cast(int, number)) is False


# -- Whose name it is -----------------------------------------------------------------------------

TRICKS: list[Callable[[Any], Any]] = [
    lambda context: setattr(context, "extension_id", "duly"),
    lambda context: setattr(context, "_extension_id", "duly"),
    lambda context: setattr(context, "source", "duly"),
    lambda context: setattr(context, "_seat", None),
    lambda context: setattr(context, "emit", None),
    lambda context: delattr(context, "_seat"),
    lambda context: vars(context).update(extension_id="duly"),
    lambda context: context.emit("alert", {}, source="duly"),
    lambda context: context.emit("alert", {}, None, "duly"),
    lambda context: context.schedule_at(0, "alert", {}, source="duly"),
]


@pytest.mark.parametrize("trick", TRICKS)
async def test_an_extension_cannot_say_that_it_is_another(
    duly_world: World, shelf: Shelf, trick: Callable[[Any], Any]
) -> None:
    """B1: neither by an argument nor by writing on its context."""
    host = await opened(duly_world, shelf)
    with pytest.raises((AttributeError, TypeError)):
        trick(context())
    await context().emit("alert", {"source": "duly"})
    assert {each.source for each in await host.bus.journal()} == {"greeter"}


async def test_a_property_put_over_the_id_changes_nothing(
    duly_world: World, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B1: the name is the host's, not what the context says of itself."""
    host = await opened(duly_world, shelf)
    monkeypatch.setattr(ExtensionContext, "extension_id", property(lambda _: "duly"))
    await context().emit("alert", {})
    assert [each.source for each in await host.bus.journal()] == ["greeter"]


async def test_a_copy_of_a_context_speaks_in_the_same_name(duly_world: World, shelf: Shelf) -> None:
    """B1: to copy it is to get nothing new, if it can be copied at all."""
    host = await opened(duly_world, shelf)
    with pytest.raises((AttributeError, TypeError)):
        copy.copy(context())
    made = ExtensionContext("duly", seat=context()._seat)
    await made.emit("alert", {})
    assert [each.source for each in await host.bus.journal()] == ["greeter"]


# -- Subscribing ----------------------------------------------------------------------------------


class Caller:
    """A handler that is an object."""

    async def __call__(self, event: Event) -> None:
        """Do nothing."""


async def named(event: Event, more: int = 0) -> None:
    """Do nothing."""


class Deaf:
    """A seat that takes whatever passed the door."""

    def subscribe(self, topic: str, handler: object, name: str, retry: object) -> None:
        """Do nothing."""


def test_a_handler_that_is_not_async_is_refused_by_its_name() -> None:
    """B9: and told how to be written."""
    seated = ExtensionContext("greeter", seat=cast(Any, Deaf()))

    def on_mail(event: Event) -> None: ...

    for handler, name in ((on_mail, "on_mail"), (lambda _: None, "<lambda>"), (7, "int")):
        with pytest.raises(Invalid, match=f"The handler {name} for mail is not async"):
            seated.subscribe_event("mail", cast(Any, handler))
    seated.subscribe_event("mail", named)


async def test_subscriptions_are_known_by_extension_topic_and_handler(
    duly_world: World, shelf: Shelf
) -> None:
    """B13: a name that comes again gets its ordinal."""
    host = await opened(duly_world, shelf)
    for handler in (named, named, partial(named, more=1), Caller()):
        context().subscribe_event("mail", handler)
    context().subscribe_event("letter", named)
    await host.drain()
    rows = await host._desk().parts.store.list_subscriptions()
    assert [each.subscriber_id for each in rows if each.topic != "user.notify"] == [
        "greeter:mail:named",
        "greeter:mail:named:2",
        "greeter:mail:named:3",
        "greeter:mail:Caller",
        "greeter:letter:named",
    ]


async def test_a_handler_with_an_endless_name_is_refused(duly_world: World, shelf: Shelf) -> None:
    """B13: before anything waits for it."""
    await opened(duly_world, shelf)
    handler = cast(Any, partial(named))
    long = type("L" * 400, (Caller,), {})()
    context().subscribe_event("mail", handler)
    with pytest.raises(Invalid, match="subscriber_id"):
        context().subscribe_event("mail", long)


async def test_a_later_subscription_gets_later_events(duly_world: World, shelf: Shelf) -> None:
    """B13: what was delivered before is not delivered again."""
    events: list[Event] = []
    host = await opened(duly_world, shelf)
    await context().emit("mail", {"n": 1})
    await host.drain()
    context().subscribe_event("mail", ear(events))
    await context().emit("mail", {"n": 2})
    await host.drain()
    assert [each.payload for each in events] == [{"n": 2}]


# -- User, configuration, logger, state -----------------------------------------------------------


async def test_the_user_is_told_over_the_bus(duly_world: World, shelf: Shelf) -> None:
    """B9: the event is what was said, its delivery how that ended; a failed one is tried again."""
    user, other = User(), User("other")
    host = await opened(duly_world, shelf, channels=[user, other])
    number = await context().notify_user("Hello")
    await context().notify_user("Psst", channel_id="other")
    assert user.texts == []
    user.failures = 1
    await host.drain()
    assert user.texts == []
    async with host.running():
        await duly_world.advance(1)
    assert (user.texts, other.texts) == (["Hello"], ["Psst"])
    said = await host.bus.journal(topic="user.notify")
    assert [(each.source, str(each.status)) for each in said] == [("greeter", "done")] * 2
    (sent,) = await host.bus.deliveries(event_id=cast(int, number))
    assert (sent.subscriber_id, sent.attempts) == ("duly:user.notify:notify_user", 2)


async def test_a_text_for_a_user_nobody_reaches_becomes_a_dead_letter(
    duly_world: World, shelf: Shelf
) -> None:
    """B9: a host without a channel loses nothing in silence."""
    host = await opened(duly_world, shelf)
    await context().notify_user("Hello")
    async with host.running():
        await duly_world.advance(10)
    (dead,) = await host.bus.deliveries(status="dead")
    assert "This host has no channel" in str(dead.error)


async def test_the_configuration_is_what_the_manifest_says(duly_world: World, shelf: Shelf) -> None:
    """B9: and nobody changes it."""
    await opened(duly_world, shelf, config={"snooze_s": 5})
    assert context().config == {"snooze_s": 5}
    with pytest.raises(TypeError):
        cast(Any, context().config)["snooze_s"] = 6


def test_the_logger_has_the_extension_s_name() -> None:
    """B9: so that its lines can be told from others."""
    assert ExtensionContext("greeter").logger is logging.getLogger("duly.extension.greeter")


async def test_state_outlives_the_host_and_belongs_to_one_extension(
    duly_world: World, shelf: Shelf
) -> None:
    """B9: any JSON value, under a key of its own."""
    shelf.put("other", KEEPS)
    host = await opened(duly_world, shelf)
    assert await context().get_state("last") is None
    await context().put_state("last", {"step": 2, "seen": [1.5, None, "é"]})
    await context().put_state("zero", 0)
    await host.close()
    host = await duly_world.host(extensions=shelf.folder)
    assert await context().get_state("last") == {"step": 2, "seen": [1.5, None, "é"]}
    assert await context().get_state("zero") == 0
    assert await stand.contexts["other"].get_state("last") is None


async def test_state_holds_at_its_limits_and_not_one_past(duly_world: World, shelf: Shelf) -> None:
    """B9: bytes of a value, characters of a key, and JSON alone."""
    await opened(duly_world, shelf)
    most = DEFAULT_LIMITS.state_bytes - len('""')
    await context().put_state("k" * STATE_KEY_CHARS, "v" * most)
    with pytest.raises(Invalid, match="longer than 65536 bytes"):
        await context().put_state("k", "v" * (most + 1))
    with pytest.raises(Invalid, match=f"1 to {STATE_KEY_CHARS} characters"):
        await context().put_state("k" * (STATE_KEY_CHARS + 1), 1)
    with pytest.raises(Invalid, match="is a set"):
        await context().put_state("k", cast(Any, {1}))


@pytest.mark.parametrize("key", ["a\ud800b", "a\0b"])
async def test_a_key_that_not_every_store_can_keep_is_refused(
    duly_world: World, shelf: Shelf, key: str
) -> None:
    """B9, H3: half a character or a NUL, to the caller that writes and to the one that reads."""
    await opened(duly_world, shelf)
    with pytest.raises(Invalid, match="NUL or half a character"):
        await context().put_state(key, 1)
    with pytest.raises(Invalid, match="NUL or half a character"):
        await context().get_state(key)


async def test_the_policy_s_limit_of_state_is_the_one_that_holds(
    duly_world: World, shelf: Shelf
) -> None:
    """B9: a host that allows more allows it to extensions too."""
    shelf.put("greeter", KEEPS)
    policy = duly.Policy(limits=Limits(state_bytes=100_000))
    await duly_world.host(extensions=shelf.folder, policy=policy)
    await context().put_state("k", "v" * 90_000)


# -- Without a bus --------------------------------------------------------------------------------


async def test_on_a_context_without_a_bus_nothing_happens() -> None:
    """B1: so an extension can be tried by itself."""
    alone = ExtensionContext("greeter", {"snooze_s": 5})
    assert await alone.emit("mail", {}) is None
    assert await alone.schedule_at(5, "mail", {}) is None
    assert await alone.notify_user("Hello") is None
    assert await alone.cancel(1) is False
    alone.subscribe_event("mail", cast(Any, lambda _: None))
    await alone.put_state("k", 1)
    assert await alone.get_state("k") is None
    assert (alone.extension_id, alone.config) == ("greeter", {"snooze_s": 5})


async def test_an_extension_that_does_nothing_is_an_extension() -> None:
    """B9: both methods are there to be overridden."""
    plain = Extension()
    await plain.initialize(ExtensionContext("plain"))
    await plain.close()
