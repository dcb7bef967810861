"""The exam of the bus: emit, defer, subscribe, what extensions keep, what people read (B)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.errors import Invalid, NotFound, RequestRefused
from duly.rules.delivery import JournalStatus, Retry
from duly.store.bus import HELD, STATE_KEY_CHARS
from duly.store.record import Action, JournalEvent
from duly.store.subscription import Left
from tests.store.exam import NOW, Again, Call, Case, ReadCase, Refusal, Trial, World, exam
from tests.store.exam import nothing as empty
from tests.store.post import (
    A_MINUTE,
    A_SECOND,
    FIRST,
    MAIL,
    ONCE,
    SECOND,
    begun,
    deferred,
    delivered,
    ids,
    mixed,
    statuses,
    subscribed,
)

# -- Emit, defer, cancel, promote ---------------------------------------------------------------


async def _it_is_pending(world: World, answer: Any) -> None:
    assert answer == 1
    (row,) = await world.store.list_journal()
    assert (row.topic, row.source, row.payload) == (MAIL.topic, MAIL.source, MAIL.payload)
    assert (row.correlation_id, row.causation_id, row.depth) == ("thread-1", "cause-1", 2)
    assert (row.status, row.created_at, row.processed_at) == (JournalStatus.PENDING, NOW, None)


async def _there_are_two(world: World, answer: Any) -> None:
    assert answer == 2
    assert await statuses(world) == ["pending", "pending"]


EMIT = Case(
    verb="emit",
    arrange=empty,
    call=lambda world: world.store.emit(MAIL, now=NOW),
    effect=_it_is_pending,
    refusals=(
        Refusal(
            "a topic that is no name",
            Invalid,
            call=lambda world: world.store.emit(JournalEvent("a b", "postman", "{}"), now=NOW),
        ),
    ),
    again=Again.FREE,
    effect_again=_there_are_two,
)


async def _it_is_scheduled(world: World, answer: Any) -> None:
    (row,) = await world.store.list_deferred()
    assert (answer, row.id, row.fire_at, row.status) == (1, 1, NOW + 999, "scheduled")
    assert (row.correlation_id, row.causation_id, row.depth) == ("thread-1", "cause-1", 2)
    assert await world.store.list_journal() == ()


async def _two_are_scheduled(world: World, answer: Any) -> None:
    assert [each.id for each in await world.store.list_deferred()] == [1, answer]


DEFER = Case(
    verb="defer",
    arrange=empty,
    call=lambda world: world.store.defer(MAIL, delay_ms=999, now=NOW),
    effect=_it_is_scheduled,
    refusals=(
        Refusal(
            "a topic that is no name",
            Invalid,
            call=lambda world: world.store.defer(
                JournalEvent("", "postman", "{}"), delay_ms=1, now=NOW
            ),
        ),
    ),
    again=Again.FREE,
    effect_again=_two_are_scheduled,
)


async def _it_is_cancelled(world: World, answer: Any) -> None:
    assert answer is True
    assert [each.id for each in await world.store.list_deferred(status="cancelled")] == [2]
    assert await world.store.promote_due(now=NOW + A_MINUTE, limit=9) == (1, 2)


CANCEL = Case(
    verb="cancel",
    arrange=deferred,
    call=lambda world: world.store.cancel(2, now=NOW),
    effect=_it_is_cancelled,
    refusals=(
        Refusal(
            "an event nobody deferred", NotFound, call=lambda world: world.store.cancel(9, now=NOW)
        ),
    ),
    again=Again.NOTHING,
)


async def _two_have_fired(world: World, answer: Any) -> None:
    assert answer == (1, 2)
    fired = await world.store.list_deferred(status="fired")
    assert [(each.id, each.event_id, each.fired_at) for each in fired] == [
        (2, 1, NOW + A_SECOND),
        (3, 2, NOW + A_SECOND),
    ]
    first = (await world.store.list_journal())[-1]
    assert (first.topic, first.source, first.payload) == (MAIL.topic, MAIL.source, MAIL.payload)
    assert (first.correlation_id, first.causation_id, first.depth) == ("thread-1", "cause-1", 0)


PROMOTE = Case(
    verb="promote_due",
    arrange=deferred,
    call=lambda world: world.store.promote_due(now=NOW + A_SECOND, limit=1000),
    effect=_two_have_fired,
    refusals=(
        Refusal(
            "a batch past the limit",
            Invalid,
            call=lambda world: world.store.promote_due(now=NOW + A_SECOND, limit=1001),
        ),
    ),
    again=Again.NOTHING,
)


# -- Subscribe, unsubscribe ---------------------------------------------------------------------


async def _it_has_the_next_place(world: World, answer: Any) -> None:
    assert answer == 3
    found = await world.store.list_subscriptions()
    assert [each.subscriber_id for each in found] == [FIRST, SECOND, "third"]
    assert found[2].retry == Retry(2, (0.5,))


SUBSCRIBE = Case(
    verb="subscribe",
    arrange=subscribed,
    call=lambda world: world.store.subscribe("third", "mail", Retry(2, (0.5,)), now=NOW),
    effect=_it_has_the_next_place,
    refusals=(
        Refusal(
            "a subscriber of another topic",
            RequestRefused,
            call=lambda world: world.store.subscribe(FIRST, "news", ONCE, now=NOW),
            match="Unsubscribe it before",
        ),
        Refusal(
            "a name nobody can read",
            Invalid,
            call=lambda world: world.store.subscribe("\n", "mail", ONCE, now=NOW),
        ),
        Refusal(
            "a topic that is no name",
            Invalid,
            call=lambda world: world.store.subscribe("third", "a b", ONCE, now=NOW),
        ),
    ),
    again=Again.SAME,
)


async def _what_waited_is_closed(world: World, answer: Any) -> None:
    assert answer == Left(1, is_over=True)
    assert await delivered(world) == [(1, FIRST, "running", 1), (1, SECOND, "discarded", 0)]
    assert [each.subscriber_id for each in await world.store.list_subscriptions()] == [FIRST]


UNSUBSCRIBE = Case(
    verb="unsubscribe",
    arrange=begun,
    call=lambda world: world.store.unsubscribe(SECOND, now=NOW),
    effect=_what_waited_is_closed,
    refusals=(
        Refusal(
            "a subscriber nobody knows",
            NotFound,
            call=lambda world: world.store.unsubscribe("third", now=NOW),
        ),
    ),
    again=Again.MISSING,
)


async def leaving(world: World) -> None:
    """Both events wait for the second subscriber, which was ended after its first turn."""
    await begun(world)
    await world.store.begin_delivery(2, frozenset(), now=NOW)
    await world.store.unsubscribe(SECOND, now=NOW, limit=1)


async def _the_next_turn_is_the_last(world: World, answer: Any) -> None:
    assert answer == Left(1, is_over=True)
    assert (2, SECOND, "discarded", 0) in await delivered(world)
    assert await world.store.close_left(SECOND, now=NOW) == Left(0, is_over=True)


CLOSE_LEFT = Case(
    verb="close_left",
    arrange=leaving,
    call=lambda world: world.store.close_left(SECOND, now=NOW, limit=1),
    effect=_the_next_turn_is_the_last,
    never_refuses="a subscription whose end is over has nothing left to close",
    again=Again.NOTHING,
)


# -- What extensions keep -----------------------------------------------------------------------


def put(key: str, value: str = '{"n":1}') -> Call:
    """Call the verb for an extension."""
    return lambda world: world.store.put_state("postman", key, value, now=NOW)


async def _it_is_kept(world: World, answer: Any) -> None:
    assert await world.store.get_state("postman", "k" * STATE_KEY_CHARS) == '{"n":1}'
    assert await world.store.get_state("milkman", "k" * STATE_KEY_CHARS) is None


PUT_STATE = Case(
    verb="put_state",
    arrange=put("k" * STATE_KEY_CHARS, "{}"),
    call=put("k" * STATE_KEY_CHARS),
    effect=_it_is_kept,
    refusals=(
        Refusal("an empty key", Invalid, call=put("")),
        Refusal("a key past the limit", Invalid, call=put("k" * (STATE_KEY_CHARS + 1))),
        Refusal("a key with half a character", Invalid, call=put("a\ud800b")),
        Refusal("a key with a NUL", Invalid, call=put("a\0b")),
        Refusal("a value past the limit", Invalid, call=put("k", "é" * (32 * 1024) + "x")),
    ),
    again=Again.SAME,
)


# -- Reads --------------------------------------------------------------------------------------


async def _newest_first(world: World, answer: Any) -> None:
    assert ids(answer) == [3, 2, 1]
    assert ids(await world.store.list_journal(before=3, limit=1)) == [2]
    assert ids(await world.store.list_journal(topic="mail", status="failed")) == [1]
    assert ids(await world.store.list_journal(status="pending")) == [3, 2]
    assert ids(await world.store.list_journal(correlation_id="thread-1")) == [2, 1]
    found = await world.store.list_journal(correlation_id="thread-1", topic="news", status="done")
    assert found == ()


JOURNAL = ReadCase(
    verb="list_journal",
    arrange=mixed,
    call=lambda world: world.store.list_journal(),
    effect=_newest_first,
    refusals=(
        Refusal(
            "a page past the limit",
            Invalid,
            call=lambda world: world.store.list_journal(limit=1001),
        ),
    ),
)


async def _all_deliveries(world: World, answer: Any) -> None:
    assert [each.subscriber_id for each in answer] == [FIRST, SECOND]
    letters = await world.store.list_deliveries(status="dead")
    assert [(each.subscriber_id, each.error) for each in letters] == [(SECOND, "it rained")]
    done = await world.store.list_deliveries(status="done", after=(1, ""))
    assert [each.subscriber_id for each in done] == [FIRST]
    assert await world.store.list_deliveries(after=(1, SECOND)) == ()
    assert await world.store.list_deliveries(event_id=1, status="dead") == letters
    assert await world.store.list_deliveries(event_id=2) == ()


LIST_DELIVERIES = ReadCase(
    verb="list_deliveries",
    arrange=mixed,
    call=lambda world: world.store.list_deliveries(),
    effect=_all_deliveries,
    refusals=(
        Refusal(
            "a page of none",
            Invalid,
            call=lambda world: world.store.list_deliveries(event_id=1, limit=0),
        ),
    ),
)


async def _in_order_of_firing(world: World, answer: Any) -> None:
    assert ids(answer) == [2, 3, 1]
    last = answer[0]
    assert ids(await world.store.list_deferred(after=(last.fire_at, last.id), limit=1)) == [3]
    assert await world.store.list_deferred(status="fired") == ()


LIST_DEFERRED = ReadCase(
    verb="list_deferred",
    arrange=mixed,
    call=lambda world: world.store.list_deferred(),
    effect=_in_order_of_firing,
    refusals=(
        Refusal("a page of none", Invalid, call=lambda world: world.store.list_deferred(limit=0)),
    ),
)


async def _in_registration_order(world: World, answer: Any) -> None:
    assert [(each.subscriber_id, each.position) for each in answer] == [(FIRST, 1), (SECOND, 2)]
    assert [each.retry for each in answer] == [Retry(), ONCE]


async def _come_again(world: World) -> None:
    await world.store.unsubscribe(FIRST, now=NOW)
    await world.store.subscribe(FIRST, "news", ONCE, now=NOW)
    found = await world.store.list_subscriptions()
    assert [each.subscriber_id for each in found] == [SECOND, FIRST]


SUBSCRIPTIONS = ReadCase(
    verb="list_subscriptions",
    arrange=subscribed,
    call=lambda world: world.store.list_subscriptions(),
    effect=_in_registration_order,
    edge=_come_again,
)


async def _its_value(world: World, answer: Any) -> None:
    assert answer == '{"n":1}'


async def _nothing_yet(world: World) -> None:
    assert await world.store.get_state("postman", "other") is None


GET_STATE = ReadCase(
    verb="get_state",
    arrange=put("k"),
    call=lambda world: world.store.get_state("postman", "k"),
    effect=_its_value,
    edge=_nothing_yet,
)


# -- After a restore ----------------------------------------------------------------------------


async def held(world: World) -> None:
    """A waiter waits for something, in a store that was restored."""
    await deferred(world)
    world.connection.execute("insert into upkeep (name, at) values (?, ?)", (HELD, NOW))


async def _it_goes_on(world: World, answer: Any) -> None:
    assert answer is True
    assert await world.store.bus_held_since() is None
    assert world.dump()["action"][-1][2:6] == ("ada", "resume_bus", None, "bus")
    assert await world.store.promote_due(now=NOW + A_MINUTE, limit=1) == (1,)


RESUME = Case(
    verb="resume_bus",
    arrange=held,
    call=lambda world: world.store.resume_bus(
        action=Action("action_r", "ada", "resume_bus"), now=NOW
    ),
    effect=_it_goes_on,
    again=Again.NOTHING,
    never_refuses="a bus that is not held back goes on as it does",
)


async def _nothing_fires(world: World, answer: Any) -> None:
    assert answer == NOW
    assert await world.store.promote_due(now=NOW + A_MINUTE, limit=1000) == ()
    outlook = await world.store.bus_outlook((FIRST,), now=NOW + A_MINUTE, limit=10)
    assert (outlook.deliveries, outlook.is_overdue, outlook.next_at) == ((), False, None)


async def _never_held(world: World) -> None:
    world.connection.execute("delete from upkeep")
    assert await world.store.bus_held_since() is None


HELD_SINCE = ReadCase(
    verb="bus_held_since",
    arrange=held,
    call=lambda world: world.store.bus_held_since(),
    effect=_nothing_fires,
    edge=_never_held,
)


@pytest.mark.parametrize("trial", exam(RESUME, HELD_SINCE))
async def test_a_restored_bus_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """H5: it delivers nothing until a person resumes it."""
    await trial.sit(tmp_path)


@pytest.mark.parametrize("trial", exam(EMIT, DEFER, CANCEL, PROMOTE))
async def test_events_now_and_later_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """B1, B2: what is emitted is durable; what is deferred fires once or is cancelled once."""
    await trial.sit(tmp_path)


@pytest.mark.parametrize("trial", exam(SUBSCRIBE, UNSUBSCRIBE, CLOSE_LEFT, SUBSCRIPTIONS))
async def test_subscriptions_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """B13: a subscription lasts from its first registration until it is ended."""
    await trial.sit(tmp_path)


@pytest.mark.parametrize("trial", exam(PUT_STATE, GET_STATE))
async def test_the_state_of_extensions_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """B9: an extension keeps its own keys, whole."""
    await trial.sit(tmp_path)


@pytest.mark.parametrize("trial", exam(JOURNAL, LIST_DELIVERIES, LIST_DEFERRED))
async def test_lists_of_the_bus_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """B14: the bus can be read by topic, status, correlation and time, page by page."""
    await trial.sit(tmp_path)
