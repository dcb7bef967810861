"""The bus in the store, over several verbs: order, attempts, recovery, closing, ways in (B)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.errors import Stale
from duly.rules.delivery import DEPTH_MAX, HOST_DEATHS_MAX, DeliveryStatus, JournalStatus, Retry
from duly.rules.value import DEFAULT_LIMITS
from duly.store import queries
from duly.store.lane import OpenDelivery
from duly.store.record import JournalEvent
from tests.store.exam import NOW, World, same
from tests.store.post import (
    A_MINUTE,
    A_SECOND,
    BOTH,
    FIRST,
    MAIL,
    NEWS,
    ONCE,
    SAID,
    SECOND,
    begun,
    dead,
    deferred,
    delivered,
    emitted,
    ids,
    ingress,
    left_behind,
    listened,
    statuses,
    subscribed,
)
from tests.store.scene import WORKFLOW


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """An empty store."""
    world = await World(tmp_path / "world").open()
    yield world
    await world.close()


async def attempt(world: World, event_id: int, error: str | None = None, now: int = NOW) -> str:
    """Begin the event's next delivery and end it at once; answer whose it was."""
    answer = await world.store.begin_delivery(event_id, BOTH, now=now)
    assert answer.delivery is not None
    await world.store.finish_delivery(
        event_id, answer.delivery.subscriber_id, answer.delivery.attempts, error=error, now=now
    )
    return answer.delivery.subscriber_id


async def can_begin(world: World, now: int = NOW) -> list[tuple[int, str | None]]:
    """Read what both subscribers could begin now."""
    found = await world.store.open_deliveries(BOTH, now=now, limit=100)
    return [(each.event_id, each.subscriber_id) for each in found]


# -- Order (B3, B6) -----------------------------------------------------------------------------


async def test_the_handlers_of_one_event_run_one_after_another(world: World) -> None:
    """B3: in registration order, the second not before the first has ended."""
    await begun(world)
    assert await can_begin(world) == []
    with pytest.raises(Stale):
        await world.store.begin_delivery(1, BOTH, now=NOW)
    await world.store.finish_delivery(1, FIRST, 1, error="it rained", now=NOW)
    assert await attempt(world, 1) == SECOND


async def test_a_handler_that_left_while_it_runs_is_still_waited_for(world: World) -> None:
    """B3: the next one begins when it has ended, whichever has unsubscribed meanwhile."""
    await begun(world)
    await world.store.unsubscribe(FIRST, now=NOW)
    assert await can_begin(world) == []
    await world.store.finish_delivery(1, FIRST, 1, now=NOW)
    assert await can_begin(world) == [(1, SECOND)]


async def test_a_delivery_that_waits_holds_back_its_own_subscriber_alone(world: World) -> None:
    """B6: the others go on with later events, and other topics know nothing of it."""
    await emitted(world)
    await world.store.subscribe("first:news:read", "news", ONCE, now=NOW)
    await world.store.emit(NEWS, now=NOW)
    assert await attempt(world, 1, "it rained") == FIRST
    assert await attempt(world, 1) == SECOND
    assert await attempt(world, 2) == SECOND
    with pytest.raises(Stale):
        await world.store.begin_delivery(2, BOTH, now=NOW)
    news = await world.store.begin_delivery(3, {"first:news:read"}, now=NOW)
    assert news.delivery is not None
    assert await can_begin(world, NOW + A_SECOND) == [(1, FIRST)]


async def test_an_event_nobody_was_told_of_stands_before_the_later_ones(world: World) -> None:
    """B6: a subscriber is not told of the second event before the first is opened."""
    await emitted(world)
    assert await can_begin(world) == [(1, FIRST)]
    with pytest.raises(Stale):
        await world.store.begin_delivery(2, {SECOND}, now=NOW)


async def test_a_retried_delivery_does_not_run_beside_a_later_one(world: World) -> None:
    """B6: a subscriber is at one event of a topic at a time, also when an older one comes back."""
    await dead(world)
    assert await attempt(world, 2) == FIRST
    await world.store.begin_delivery(2, BOTH, now=NOW)
    await world.store.retry_delivery(1, SECOND, action=SAID, now=NOW)
    assert await can_begin(world) == []
    await world.store.finish_delivery(2, SECOND, 1, now=NOW)
    assert await can_begin(world) == [(1, SECOND)]


# -- Attempts (B4, B5) --------------------------------------------------------------------------


async def test_the_third_failure_is_a_dead_letter(world: World) -> None:
    """B5: three attempts, one second and five seconds apart, then it is dead and in sight."""
    await emitted(world)
    await world.store.unsubscribe(SECOND, now=NOW)
    now = NOW
    for wait_ms in (A_SECOND, 5 * A_SECOND):
        await attempt(world, 1, "it rained", now)
        assert await can_begin(world, now + wait_ms - 1) == []
        now += wait_ms
    await attempt(world, 1, "it snowed", now)
    (letter,) = await world.store.list_deliveries(status="dead")
    assert (letter.subscriber_id, letter.attempts, letter.error) == (FIRST, 3, "it snowed")
    assert await statuses(world) == ["failed", "pending"]


async def test_another_retry_takes_effect_at_the_next_failure(world: World) -> None:
    """B5, B13: a subscriber that registers again brings its own number of attempts."""
    await begun(world)
    await world.store.subscribe(FIRST, "mail", ONCE, now=NOW)
    finished = await world.store.finish_delivery(1, FIRST, 1, error="it rained", now=NOW)
    assert finished.delivery.status is DeliveryStatus.DEAD


async def test_an_event_is_done_when_everyone_has_succeeded(world: World) -> None:
    """B4: processing until no delivery is open, then done, with its time."""
    await emitted(world)
    await attempt(world, 1)
    assert await statuses(world) == ["processing", "pending"]
    await attempt(world, 1, now=NOW + 1)
    event = (await world.store.list_journal())[-1]
    assert (event.status, event.processed_at, event.error) == ("done", NOW + 1, None)


async def test_a_failure_stays_in_sight_while_it_is_tried_again(world: World) -> None:
    """B4: the error goes when its subscriber has succeeded, not before."""
    await emitted(world)
    await attempt(world, 1, "it rained")
    await attempt(world, 1)
    await world.store.begin_delivery(1, BOTH, now=NOW + A_SECOND)
    event = (await world.store.list_journal())[-1]
    assert (event.status, event.error) == ("processing", f"{FIRST}: it rained")


async def test_a_failed_event_names_every_failure_until_it_is_made_good(world: World) -> None:
    """B4, B5: the error names the subscriber; a retry that succeeds makes the event done."""
    await dead(world)
    event = (await world.store.list_journal())[-1]
    assert (event.status, event.error) == ("failed", f"{SECOND}: it rained")
    await world.store.retry_delivery(1, SECOND, action=SAID, now=NOW)
    assert await attempt(world, 1) == SECOND
    event = (await world.store.list_journal())[-1]
    assert (event.status, event.error) == ("done", None)
    assert await delivered(world) == [(1, FIRST, "done", 1), (1, SECOND, "done", 1)]


# -- Who is told (B11, B12, B13) ----------------------------------------------------------------


async def test_a_subscriber_that_is_not_connected_waits(world: World) -> None:
    """B13: its record is written with the others, and the event stays open for it."""
    await emitted(world)
    await world.store.begin_delivery(1, {SECOND}, now=NOW)
    await world.store.finish_delivery(1, SECOND, 1, now=NOW)
    assert await delivered(world) == [(1, FIRST, "waiting", 0), (1, SECOND, "done", 1)]
    assert await world.store.open_deliveries({SECOND}, now=NOW, limit=9) == (
        OpenDelivery(2, SECOND),
    )
    assert await can_begin(world) == [(1, FIRST), (2, SECOND)]


async def test_a_later_subscription_gets_later_events(world: World) -> None:
    """B13: an event is opened for those who had subscribed at its first delivery."""
    await begun(world)
    await world.store.subscribe("third", "mail", ONCE, now=NOW)
    await world.store.finish_delivery(1, FIRST, 1, now=NOW)
    await attempt(world, 1)
    found = await world.store.open_deliveries({"third"}, now=NOW, limit=9)
    assert found == (OpenDelivery(2, "third"),)


async def test_a_subscriber_that_left_while_it_ran_is_not_tried_again(world: World) -> None:
    """B13: its success counts; its failure is closed and stays in sight."""
    await begun(world)
    await world.store.unsubscribe(FIRST, now=NOW)
    finished = await world.store.finish_delivery(1, FIRST, 1, error="it rained", now=NOW)
    assert finished.delivery.status is DeliveryStatus.DISCARDED
    again = await world.store.finish_delivery(1, FIRST, 1, error="it rained", now=NOW)
    assert again == finished
    event = (await world.store.list_journal())[-1]
    assert event.error == f"{FIRST}: it rained"


async def test_an_event_nobody_wants_blocks_nothing(world: World) -> None:
    """B11: it is offered to be closed, beside what can be delivered."""
    await world.store.emit(NEWS, now=NOW)
    await emitted(world)
    assert await can_begin(world) == [(1, None), (2, FIRST)]
    await world.store.begin_delivery(1, BOTH, now=NOW)
    assert await can_begin(world) == [(2, FIRST)]


@pytest.mark.parametrize(
    ("depth", "status"), [(DEPTH_MAX, "processing"), (DEPTH_MAX + 1, "failed")]
)
async def test_a_chain_that_does_not_end_is_failed_as_a_loop(
    world: World, depth: int, status: str
) -> None:
    """B12: the event past the limit is told to nobody and says why."""
    await subscribed(world)
    await world.store.emit(replace(MAIL, depth=depth), now=NOW)
    answer = await world.store.begin_delivery(1, BOTH, now=NOW)
    (event,) = await world.store.list_journal()
    assert event.status == answer.status == status
    assert (event.error or "").endswith("a loop.") is (status == "failed")


@pytest.mark.parametrize(("delay_ms", "depth"), [(0, 2), (999, 2), (1000, 0)])
async def test_a_deferral_of_a_second_begins_a_new_chain(
    world: World, delay_ms: int, depth: int
) -> None:
    """B12: a shorter one stays as deep as it is."""
    await world.store.defer(MAIL, delay_ms=delay_ms, now=NOW)
    await world.store.promote_due(now=NOW + delay_ms, limit=9)
    (event,) = await world.store.list_journal()
    assert event.depth == depth


# -- Later (B2) ---------------------------------------------------------------------------------


async def test_a_deferred_event_fires_once_and_not_before_its_time(world: World) -> None:
    """B2: in order of its time, one batch after the other; what has fired cannot be cancelled."""
    await deferred(world)
    assert await world.store.promote_due(now=NOW + A_SECOND - 1, limit=9) == ()
    assert await world.store.promote_due(now=NOW + A_MINUTE, limit=2) == (1, 2)
    assert await world.store.promote_due(now=NOW + A_MINUTE, limit=2) == (3,)
    fired = await world.store.list_deferred(status="fired")
    assert [(each.id, each.event_id) for each in fired] == [(2, 1), (3, 2), (1, 3)]
    assert await world.store.cancel(1, now=NOW) is False


async def test_a_delay_of_less_than_nothing_is_at_once(world: World) -> None:
    """B2: it fires with the next batch."""
    await world.store.defer(MAIL, delay_ms=-5, now=NOW)
    assert [each.fire_at for each in await world.store.list_deferred()] == [NOW]
    assert await world.store.promote_due(now=NOW, limit=9) == (1,)


# -- Recovery (B7) ------------------------------------------------------------------------------


async def test_recovering_twice_gives_the_same_state(world: World) -> None:
    """B7: the second time there is nothing to give back."""
    await left_behind(world)
    await world.store.recover_bus(now=NOW + A_MINUTE)
    once = world.dump()
    again = await world.store.recover_bus(now=NOW + A_MINUTE)
    same(once, world.dump(), "the second recovery")
    assert (again.events, again.promoted) == (0, 0)


async def test_what_a_dead_host_was_at_is_begun_again_at_once(world: World) -> None:
    """B5, B7: without backoff, as another attempt, and with the same event."""
    await begun(world)
    await world.store.recover_bus(now=NOW)
    answer = await world.store.begin_delivery(1, BOTH, now=NOW)
    assert answer.delivery is not None
    assert (answer.delivery.subscriber_id, answer.delivery.attempts) == (FIRST, 2)
    assert answer.event is not None
    assert answer.event.id == 1


async def test_an_event_that_kills_every_host_is_parked_after_its_attempts(world: World) -> None:
    """B5, B7: its delivery is dead and the others go on."""
    await emitted(world)
    for _ in range(Retry().attempts - 1 + HOST_DEATHS_MAX):
        answer = await world.store.begin_delivery(1, frozenset({FIRST}), now=NOW)
        assert answer.delivery is not None
        await world.store.recover_bus(now=NOW)
    assert [row[2] for row in await delivered(world)] == ["dead", "waiting"]
    assert await attempt(world, 1) == SECOND
    assert await statuses(world) == ["failed", "pending"]


async def test_a_recorded_success_outlives_the_host(world: World) -> None:
    """B4, B7: it is not called again; the event goes on with the others."""
    await emitted(world)
    await attempt(world, 1)
    await world.store.recover_bus(now=NOW)
    assert await statuses(world) == ["pending", "pending"]
    assert await attempt(world, 1) == SECOND
    assert await statuses(world) == ["done", "pending"]


async def test_what_was_given_back_is_pending_until_somebody_is_called(world: World) -> None:
    """B7: that one of its subscribers leaves does not make an event processing."""
    await begun(world)
    await world.store.recover_bus(now=NOW)
    await world.store.unsubscribe(SECOND, now=NOW)
    assert await statuses(world) == ["pending", "pending"]
    assert await attempt(world, 1) == FIRST


async def test_a_dead_host_s_delivery_to_a_subscriber_that_left_is_closed(world: World) -> None:
    """B7, B13: it would wait for ever and hold the event open."""
    await begun(world)
    await world.store.unsubscribe(FIRST, now=NOW)
    await world.store.unsubscribe(SECOND, now=NOW)
    await world.store.recover_bus(now=NOW)
    assert await statuses(world) == ["failed", "pending"]
    assert [row[2] for row in await delivered(world)] == ["discarded", "discarded"]


@pytest.mark.parametrize("payload", ["{", "[]"])
async def test_an_event_that_cannot_be_read_is_failed(world: World, payload: str) -> None:
    """B7: with its reason, and the next event goes on."""
    await subscribed(world)
    await world.store.emit(JournalEvent("mail", "postman", payload), now=NOW)
    await world.store.emit(MAIL, now=NOW)
    answer = await world.store.begin_delivery(1, BOTH, now=NOW)
    assert (answer.status, answer.event) == (JournalStatus.FAILED, None)
    event = (await world.store.list_journal())[-1]
    assert (event.error or "").startswith("This event cannot be read:")
    assert await attempt(world, 2) == FIRST


# -- Ways in and out (T10, B14) -----------------------------------------------------------------


async def test_a_delivery_made_again_enters_the_workflow_once(world: World) -> None:
    """T10, B4: a host that died before the record publishes the same message id again."""
    await listened(world)
    await world.store.finish_delivery(1, FIRST, 1, ingress=ingress("letters"), now=NOW)
    await world.store.begin_delivery(1, BOTH, now=NOW)
    await world.store.finish_delivery(1, SECOND, 1, ingress=ingress("letters"), now=NOW)
    assert [each.message_id for each in await world.store.list_events(WORKFLOW)] == ["bus:1"]


async def test_a_failed_attempt_enters_no_workflow(world: World) -> None:
    """T10: the way in is part of the success."""
    await listened(world)
    await world.store.finish_delivery(
        1, FIRST, 1, error="it rained", ingress=ingress("letters"), now=NOW
    )
    assert await world.store.list_events(WORKFLOW) == ()


async def test_the_views_speak_the_words_of_the_bus_in_unix_seconds(world: World) -> None:
    """B14: columns, words and times are those its users know."""
    await dead(world)
    await deferred(world)
    journal = world.connection.execute("select * from event_journal order by id").get
    later = world.connection.execute("select * from deferred_events where id = 1").get
    error = f"{SECOND}: it rained"
    at_s = NOW / 1000
    payload = '{"text":"hello"}'
    assert journal == [
        (1, "mail", "postman", payload, "thread-1", "failed", at_s, at_s, error),
        (2, "mail", "postman", payload, "thread-1", "pending", at_s, None, None),
    ]
    assert later == (
        *(1, "mail", "postman", payload, "thread-1"),
        *(at_s + 3, "scheduled", at_s, None),
    )


INDEXES = {
    "next_unopened_topic": "journal_unopened",
    "unopened_events": "journal_unopened",
    "recover_journal_events": "journal_by_status",
    "list_journal_by_topic": "journal_by_topic",
    "list_journal_by_status": "journal_by_status",
    "list_journal_by_correlation": "journal_by_correlation",
    "list_lanes": "delivery_open",
    "open_deliveries": "delivery_open",
    "running_deliveries": "delivery_running",
    "running_beside": "delivery_running",
    "list_unfinished_deliveries": "delivery_unfinished",
    "overdue_deferred_events": "deferred_due",
    "count_deferred_of": "deferred_by_source",
    "next_leaving": "subscription_leaving",
    "list_deferred": "deferred_by_status",
    "topic_lanes": "subscription_by_topic",
    "event_records": "sqlite_autoindex_delivery_1",
}


@pytest.mark.parametrize("name", INDEXES)
async def test_the_bus_is_read_along_its_indexes(world: World, name: str) -> None:
    """B14, S9: no read of the bus walks a table or sorts what it found."""
    text = queries.load("bus")[name]
    given = dict.fromkeys(queries.parameters(text))
    rows = world.connection.execute(f"explain query plan {text}", given).get
    plan = [row[3] for row in ([rows] if isinstance(rows, tuple) else rows or [])]
    assert any(f"INDEX {INDEXES[name]}" in step for step in plan), plan
    assert not any("TEMP B-TREE" in step for step in plan), plan


# -- What extensions keep -----------------------------------------------------------------------


async def test_a_state_at_its_limit_is_kept(world: World) -> None:
    """N: the limit itself is not past it."""
    value = "é" * (DEFAULT_LIMITS.state_bytes // 2)
    await world.store.put_state("postman", "k", value, now=NOW)
    assert await world.store.get_state("postman", "k") == value


# -- Whatever happens (B4, B6) ------------------------------------------------------------------


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=10, max_size=40))
def test_whatever_happens_a_subscriber_sees_events_in_order_and_a_success_once(
    happenings: list[tuple[int, int]],
) -> None:
    """B4, B6: emits, failures, deaths of the host and dead letters in any mixture."""
    with TemporaryDirectory() as folder:
        asyncio.run(_live(Path(folder), happenings))


async def _live(folder: Path, happenings: list[tuple[int, int]]) -> None:
    world = await World(folder / "world").open()
    await subscribed(world)
    now = NOW
    succeeded: dict[str, list[int]] = defaultdict(list)
    for what, which in happenings:
        now += which * A_SECOND
        match what:
            case 0:
                await world.store.emit(MAIL, now=now)
            case 1:
                await world.store.recover_bus(now=now)
            case _:
                await _deliver_one(world, now, which, succeeded)
    for _ in range(1 + 2 * len(happenings)):
        now += A_MINUTE
        await world.store.recover_bus(now=now)
        await _deliver_one(world, now, 0, succeeded)
    events = ids(reversed(await world.store.list_journal(limit=1000)))
    letters = await world.store.list_deliveries(status="dead", limit=1000)
    for subscriber_id in BOTH:
        lost = {each.event_id for each in letters if each.subscriber_id == subscriber_id}
        assert succeeded[subscriber_id] == [each for each in events if each not in lost]
    await world.close()


async def _deliver_one(world: World, now: int, which: int, succeeded: dict[str, list[int]]) -> None:
    """Begin what can be begun; then it succeeds, fails, or its host dies before the record."""
    found = await world.store.open_deliveries(BOTH, now=now, limit=100)
    if not found:
        return
    chosen = found[which % len(found)]
    answer = await world.store.begin_delivery(chosen.event_id, BOTH, now=now)
    assert answer.delivery is not None
    subscriber_id, attempts = answer.delivery.subscriber_id, answer.delivery.attempts
    assert subscriber_id == chosen.subscriber_id
    if which == 3:
        return
    error = "it rained" if which == 1 else None
    await world.store.finish_delivery(
        chosen.event_id, subscriber_id, attempts, error=error, now=now
    )
    if error is None:
        succeeded[subscriber_id].append(chosen.event_id)
