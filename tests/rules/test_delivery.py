"""The bus: statuses walked through their tables, and who is called when."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.config import Limits
from duly.errors import IllegalTransition, Invalid
from duly.rules import delivery as bus
from duly.rules.deferral import DeferredStatus
from duly.rules.delivery import (
    Delivery,
    DeliveryMove,
    DeliveryStatus,
    Event,
    JournalStatus,
    Retry,
)

NOW = 1_780_000_000_000
SETTINGS = settings(derandomize=True, deadline=None, max_examples=150)
THRICE = Retry()
FIRST = Delivery(event_id=1, topic="t", subscriber_id="a:t:f")
WAITING, RUNNING = DeliveryStatus.WAITING, DeliveryStatus.RUNNING
DONE, DEAD, DISCARDED = DeliveryStatus.DONE, DeliveryStatus.DEAD, DeliveryStatus.DISCARDED


# -- The tables -----------------------------------------------------------------------------


def test_the_words_are_those_of_the_journal_and_the_deferred_events() -> None:
    """B2, B4: pending → processing → done | failed; scheduled → fired | cancelled."""
    assert list(JournalStatus) == ["pending", "processing", "done", "failed"]
    assert list(DeferredStatus) == ["scheduled", "fired", "cancelled"]


def test_a_delivery_moves_only_along_its_table() -> None:
    """B4, B5: of forty-five moves nine exist; a success is final, and so is a discarded failure."""
    allowed = set()
    for status, move in product(DeliveryStatus, DeliveryMove):
        with suppress(IllegalTransition):
            allowed.add((status, move, bus.move_delivery(status, move)))
    assert allowed == {
        (WAITING, DeliveryMove.BEGIN, RUNNING),
        (WAITING, DeliveryMove.LOSE_SUBSCRIBER, DISCARDED),
        (RUNNING, DeliveryMove.SUCCEED, DONE),
        (RUNNING, DeliveryMove.FAIL, WAITING),
        (RUNNING, DeliveryMove.GIVE_UP, DEAD),
        (RUNNING, DeliveryMove.LOSE_HOST, WAITING),
        (RUNNING, DeliveryMove.GIVE_BACK, WAITING),
        (DEAD, DeliveryMove.RETRY, WAITING),
        (DEAD, DeliveryMove.DISCARD, DISCARDED),
    }


# -- What is put on the bus -----------------------------------------------------------------


def test_a_payload_is_copied_when_it_is_taken() -> None:
    """B1: what the caller does to its dict afterwards changes nothing."""
    payload = {"text": "hello", "list": [1]}
    kept = bus.encode_payload(payload)
    payload["list"].append(2)  # type: ignore[attr-defined]  # the value is a list
    assert kept == '{"text":"hello","list":[1]}'


@pytest.mark.parametrize(
    "payload", [None, [], "text", 1, {1: 2}, {"a": math.nan}, {"a": object()}, {"a": (1,)}]
)
def test_a_payload_that_is_no_json_object_is_refused(payload: object) -> None:
    """B1: it is refused to the caller, by place."""
    with pytest.raises(Invalid) as refused:
        bus.encode_payload(payload)
    assert refused.value.path.startswith("payload")


def test_a_payload_has_a_largest_size() -> None:
    """B1: exactly the limit passes, one byte more is refused."""
    limits = Limits(payload_bytes=20)
    assert len(bus.encode_payload({"text": "x" * 9}, limits)) == 20
    with pytest.raises(Invalid):
        bus.encode_payload({"text": "x" * 10}, limits)


@pytest.mark.parametrize("topic", ["", "a b", "a/b", "ä", "x" * 101, "a\n", None, 7])
def test_a_topic_that_is_no_name_is_refused(topic: object) -> None:
    """B1: letters, digits, dots, underscores and hyphens, at most a hundred of them."""
    with pytest.raises(Invalid):
        bus.check_topic(topic)


def test_a_topic_of_a_hundred_characters_passes() -> None:
    """B1: the limit itself is allowed."""
    assert bus.check_topic("reminder.due")
    assert bus.check_topic("x" * 100)


@pytest.mark.parametrize(
    ("delay", "delay_ms"),
    [
        (0, 0),
        (-5, 0),
        (-math.inf, 0),
        (5, 5_000),
        (0.0001, 1),
        (1.5, 1_500),
        (timedelta(hours=2), 7_200_000),
        (timedelta(microseconds=1), 1),
        (timedelta(seconds=-1), 0),
        (36_525 * 86_400, 36_525 * 86_400_000),
    ],
)
def test_a_delay_is_seconds_or_a_timedelta(delay: object, delay_ms: int) -> None:
    """B2: rounded up to a millisecond, never before its time; none or less is at once."""
    assert bus.parse_delay_ms(delay) == delay_ms


@pytest.mark.parametrize(
    "delay", [math.nan, math.inf, 10**400, 36_525 * 86_400 + 1, "5", None, True, timedelta.max]
)
def test_a_delay_that_is_no_time_is_refused(delay: object) -> None:
    """B2: NaN, more than a century, or no number at all."""
    with pytest.raises(Invalid) as refused:
        bus.parse_delay_ms(delay)
    assert refused.value.path == "delay"


def test_an_event_is_frozen_and_each_handler_has_its_own_copy() -> None:
    """B8: seven fields, and no handler sees what another did to the payload."""
    event = Event(7, "t", "mail", {"list": [1]}, created_at=1.5)
    assert (event.correlation_id, event.status) == (None, "processing")
    with pytest.raises(FrozenInstanceError):
        event.topic = "u"  # type: ignore[misc]  # that is the point
    mine, yours = bus.copy_event(event), bus.copy_event(event)
    mine.payload["list"].append(2)
    assert yours == event == Event(7, "t", "mail", {"list": [1]}, created_at=1.5)


def test_depth_grows_with_each_event_and_a_wait_of_a_second_resets_it() -> None:
    """B12: outside a handler it is zero; a deferral below a second is no rest."""
    assert bus.depth_after(None) == 0
    assert bus.depth_after(0) == 1
    assert bus.depth_after(41) == 42
    assert bus.depth_after(41, delay_ms=999) == 42
    assert bus.depth_after(41, delay_ms=1_000) == 0


def test_a_chain_of_more_than_a_hundred_is_a_loop() -> None:
    """B12: the hundredth passes, the next one is failed and says why."""
    assert not bus.is_loop(100)
    assert bus.is_loop(101)


def test_a_repeated_subscription_gets_an_ordinal() -> None:
    """B13: extension, topic and handler name it; the second and third of the same are numbered."""
    taken: list[str] = []
    for _ in range(3):
        taken.append(bus.subscriber_id("mail", "alert", "on_alert", taken))
    assert taken == ["mail:alert:on_alert", "mail:alert:on_alert:2", "mail:alert:on_alert:3"]


def test_a_subscriber_id_is_readable_and_bounded() -> None:
    """B13: the limit passes, one more does not, nor what cannot be read."""
    assert bus.check_subscriber_id("x" * 320) == "x" * 320
    for name in ("", " ", "a\nb", "x" * 321, None):
        with pytest.raises(Invalid):
            bus.check_subscriber_id(name)


# -- Attempts -------------------------------------------------------------------------------


def attempt(delivery: Delivery, error: str | None, retry: Retry = THRICE) -> Delivery:
    return bus.end(bus.begin(delivery), error, retry, NOW)


def test_an_attempt_counts_before_the_handler_runs() -> None:
    """B5: a crash inside the handler cannot hide it."""
    begun = bus.begin(FIRST)
    assert (begun.status, begun.attempts) == (RUNNING, 1)


def test_three_attempts_after_one_and_five_seconds_then_dead() -> None:
    """B5: the default of a subscription."""
    first = attempt(FIRST, "boom")
    second = attempt(first, "boom")
    third = attempt(second, "bang")
    assert [(d.status, d.due_at_ms - NOW) for d in (first, second)] == [
        (WAITING, 1_000),
        (WAITING, 5_000),
    ]
    assert (third.status, third.attempts, third.error) == (DEAD, 3, "bang")


def test_one_attempt_is_allowed_and_means_no_retry() -> None:
    """B5: 1 is the plain bus that tries once."""
    assert attempt(FIRST, "boom", Retry(attempts=1, delays_s=())).status is DEAD


def test_a_success_after_a_failure_is_a_success() -> None:
    """B4: the error of an earlier attempt is gone with it."""
    done = attempt(attempt(FIRST, "boom"), None)
    assert (done.status, done.error) == (DONE, None)


def test_the_last_delay_serves_all_further_attempts() -> None:
    """B5: fewer delays than attempts are enough."""
    retry = Retry(attempts=5, delays_s=(1, 5))
    assert [retry.delay_ms(attempts) for attempts in (1, 2, 3, 4)] == [1_000, 5_000, 5_000, 5_000]


@pytest.mark.parametrize(
    ("attempts", "delays_s"), [(0, (1,)), (101, (1,)), (2, ()), (2, (math.nan,)), (2, (math.inf,))]
)
def test_a_retry_that_makes_no_sense_is_refused(attempts: int, delays_s: tuple[float, ...]) -> None:
    """B5: at least one attempt and at most a hundred, with delays that end."""
    assert Retry(attempts=100).attempts == 100
    with pytest.raises(Invalid):
        Retry(attempts, delays_s)


def test_only_a_dead_delivery_is_reopened_or_discarded() -> None:
    """B5: a reopened one has all its attempts again; the others are left alone."""
    dead = replace(FIRST, status=DEAD, attempts=3, error="boom")
    assert bus.reopen(dead, NOW) == replace(dead, status=WAITING, attempts=0, due_at_ms=NOW)
    assert bus.discard(dead) == replace(dead, status=DISCARDED)
    for status in set(DeliveryStatus) - {DEAD}:
        with pytest.raises(IllegalTransition):
            bus.reopen(replace(FIRST, status=status), NOW)
        with pytest.raises(IllegalTransition):
            bus.discard(replace(FIRST, status=status))


def test_a_delivery_that_lost_its_subscriber_says_so() -> None:
    """B13: unsubscribing ends the wait; what was called before and did not succeed has failed."""
    closed = bus.close(replace(FIRST, attempts=1))
    assert closed.status is DISCARDED
    assert bus.judge([closed]) is JournalStatus.FAILED
    assert bus.list_failures([closed]) == (("a:t:f", "unsubscribed before delivery"),)


def test_a_subscriber_that_was_never_called_fails_no_event() -> None:
    """B13, B4: nothing went wrong, so the event ends by what became of the others."""
    closed = bus.close(FIRST)
    assert (closed.status, closed.error) == (DISCARDED, "unsubscribed before delivery")
    assert bus.judge([closed, replace(FIRST, status=DONE)]) is JournalStatus.DONE
    assert bus.judge([closed, replace(FIRST, status=DEAD)]) is JournalStatus.FAILED
    assert bus.list_failures([closed]) == ()
    failed = bus.close(replace(FIRST, attempts=1, error="no"))
    assert bus.judge([failed]) is JournalStatus.FAILED


# -- The event --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ((DONE, DONE), JournalStatus.DONE),
        ((DONE, RUNNING), JournalStatus.PROCESSING),
        ((DEAD, WAITING), JournalStatus.PROCESSING),
        ((DONE, DEAD), JournalStatus.FAILED),
        ((DONE, DISCARDED), JournalStatus.FAILED),
    ],
)
def test_an_event_is_what_its_deliveries_are(
    statuses: tuple[DeliveryStatus, ...], expected: JournalStatus
) -> None:
    """B4: processing while one is open, also for a retry; done when all succeeded; else failed."""
    assert bus.judge(replace(FIRST, status=status) for status in statuses) is expected


def test_an_event_nobody_subscribes_to_is_done() -> None:
    """B11: it blocks nothing."""
    assert bus.judge([]) is JournalStatus.DONE


def test_every_status_an_event_can_get_is_a_move_of_the_journal() -> None:
    """B4: whatever happens to two deliveries, the event's status moves along its table."""
    pair = (FIRST, replace(FIRST, subscriber_id="b:t:f", position=1))
    start = (pair, JournalStatus.PROCESSING)
    found, waiting = {start}, [start]
    while waiting:
        deliveries, status = waiting.pop()
        for place, move in product((0, 1), DeliveryMove):
            try:
                moved = bus.move_delivery(deliveries[place].status, move)
            except IllegalTransition:
                continue
            changed = list(deliveries)
            changed[place] = replace(deliveries[place], status=moved)
            after = (changed[0], changed[1]), bus.judge(changed)
            assert after[1] is status or after[1] in bus.JOURNAL[status]
            if after not in found:
                found.add(after)
                waiting.append(after)
    assert {status for _, status in found} == set(JournalStatus) - {JournalStatus.PENDING}


def test_the_error_of_an_event_names_every_failure() -> None:
    """B4: subscriber and message of each, in registration order; successes are not named."""
    deliveries = [
        replace(FIRST, subscriber_id="z:t:f", position=2, status=DEAD, error="bang"),
        replace(FIRST, status=DEAD, error="boom"),
        replace(FIRST, subscriber_id="m:t:f", position=1, status=DONE),
    ]
    assert bus.list_failures(deliveries) == (("a:t:f", "boom"), ("z:t:f", "bang"))
    assert bus.list_failures(deliveries[2:]) == ()


def test_an_error_message_is_cut_and_never_empty() -> None:
    """B4: a failure has words, and no more than can be shown."""
    assert attempt(FIRST, "").error == "no message"
    assert attempt(FIRST, "x" * 500).error == "x" * 500
    assert attempt(FIRST, "x" * 501).error == "x" * 482 + "… (501 characters)"


# -- Recovery -------------------------------------------------------------------------------


def test_recovery_makes_what_was_being_processed_pending() -> None:
    """B7: and nothing else; a second time changes nothing."""
    expected = {status: status for status in JournalStatus}
    expected[JournalStatus.PROCESSING] = JournalStatus.PENDING
    assert {status: bus.recover_event(status) for status in JournalStatus} == expected
    assert {bus.recover_event(status) for status in expected.values()} == set(expected.values())


def test_an_attempt_cut_short_by_a_crash_is_repeated_without_a_wait() -> None:
    """B5, B7: it stays counted and is due at once, also where one attempt is all there is."""
    cut = bus.begin(replace(FIRST, attempts=1, due_at_ms=NOW - 9))
    for retry in (Retry(), Retry(attempts=1)):
        recovered = bus.recover_delivery(cut, retry, NOW)
        assert (recovered.status, recovered.attempts, recovered.due_at_ms) == (WAITING, 2, NOW)
        assert bus.recover_delivery(recovered, retry, NOW + 5) == recovered


@pytest.mark.parametrize(("allowed", "dead_after"), [(1, 3), (3, 5), (5, 7)])
def test_a_handler_that_kills_its_host_every_time_is_parked(allowed: int, dead_after: int) -> None:
    """B5: after its attempts, and after three deaths at the least, its delivery is dead."""
    delivery, retry = FIRST, Retry(attempts=allowed)
    for _ in range(dead_after):
        assert delivery.status is WAITING
        delivery = bus.recover_delivery(bus.begin(delivery), retry, NOW)
    assert delivery.status is DEAD
    assert delivery.error
    assert delivery.error == bus.HOST_DIED


def test_failures_of_its_own_do_not_count_as_deaths_of_its_host() -> None:
    """B5: an attempt that a single crash cut short is repeated, also if it was the last one."""
    delivery, retry = FIRST, Retry(attempts=3)
    for _ in range(2):
        delivery = bus.end(bus.begin(delivery), "no", retry, NOW)
    assert bus.recover_delivery(bus.begin(delivery), retry, NOW).status is WAITING


# -- Clocks that were wrong -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempts", "ahead_ms", "is_believed"),
    [(0, 0, True), (0, 1, False), (1, 1_000, True), (1, 1_001, False), (2, 5_000, True)],
)
def test_a_time_later_than_anybody_was_told_to_wait_is_over(
    attempts: int, ahead_ms: int, is_believed: bool
) -> None:
    """B5: it was written by a clock that has been set back; a first attempt waits for no time."""
    delivery = replace(FIRST, attempts=attempts, due_at_ms=NOW + ahead_ms)
    believed = bus.believe_due(delivery, Retry(3, (1, 5)), NOW)
    assert believed == (delivery if is_believed else replace(delivery, due_at_ms=NOW))
    if ahead_ms:  # where there are no waits at all, no time ahead can be
        assert bus.believe_due(delivery, Retry(1, ()), NOW).due_at_ms == NOW


@pytest.mark.parametrize("status", sorted(set(DeliveryStatus) - {RUNNING}))
def test_recovery_leaves_every_other_delivery_alone(status: DeliveryStatus) -> None:
    """B7: a recorded success is never called again, and a wait goes on."""
    delivery = replace(FIRST, status=status, due_at_ms=NOW + 5_000)
    assert bus.recover_delivery(delivery, Retry(), NOW) == delivery


# -- Who is called --------------------------------------------------------------------------

EVERYONE = frozenset({"a", "b"})


def make(event_id: int, subscriber: str, **fields: object) -> Delivery:
    position = "ab".index(subscriber)
    return replace(Delivery(event_id, "t", subscriber, position), **fields)  # type: ignore[arg-type]


def names(deliveries: list[Delivery], connected: frozenset[str] = EVERYONE) -> list[str]:
    chosen = bus.startable(deliveries, connected, NOW)
    return [f"{each.topic}{each.event_id}{each.subscriber_id}" for each in chosen]


def test_handlers_of_one_event_are_called_in_registration_order() -> None:
    """B3: the second waits until the first has returned, failed or hit its time limit."""
    assert bus.HANDLER_TIMEOUT_S == 300
    a, b = make(1, "a"), make(1, "b")
    assert names([b, a]) == ["t1a"]
    assert names([replace(a, status=RUNNING), b]) == []
    assert names([replace(a, status=DONE), b]) == ["t1b"]
    assert names([replace(a, due_at_ms=NOW + 1), b]) == ["t1b"]
    assert names([replace(a, status=DEAD), b]) == ["t1b"]


def test_a_subscriber_sees_the_events_of_a_topic_in_order() -> None:
    """B6: the next one only when the one before is closed."""
    assert names([make(2, "a"), make(1, "a")]) == ["t1a"]
    assert names([make(1, "a", status=RUNNING), make(2, "a")]) == []
    assert names([make(1, "a", status=DEAD), make(2, "a")]) == ["t2a"]


def test_a_waiting_retry_holds_back_only_its_own_subscriber_and_topic() -> None:
    """B6: others of the same event, and the same subscriber in another topic, go on."""
    retrying = make(1, "a", due_at_ms=NOW + 1)
    others = [make(1, "b", status=DONE), make(2, "a"), make(2, "b"), make(3, "a", topic="u")]
    assert names([retrying, *others]) == ["t2b", "u3a"]


def test_a_subscriber_that_moved_begins_when_its_old_handler_has_ended() -> None:
    """B3, B6: one call at a time, also if the event it is at is of another topic."""
    old, new = make(1, "a", status=RUNNING), make(2, "a", topic="u")
    assert names([old, new]) == []
    assert names([replace(old, status=DONE), new]) == ["u2a"]


def test_a_retry_is_due_exactly_at_its_time() -> None:
    """B5: not a millisecond before."""
    assert names([make(1, "a", due_at_ms=NOW + 1)]) == []
    assert names([make(1, "a", due_at_ms=NOW)]) == ["t1a"]


def test_a_subscriber_that_is_not_connected_waits_alone() -> None:
    """B13: its deliveries wait for it and hold back nobody."""
    deliveries = [make(1, "a"), make(1, "b"), make(2, "a")]
    assert names(deliveries, connected=frozenset({"b"})) == ["t1b"]


def test_a_reopened_delivery_does_not_run_beside_a_later_one() -> None:
    """B6: a subscriber handles one event of a topic at a time, also after a retry of an old one."""
    assert names([make(1, "a"), make(5, "a", status=RUNNING)]) == []


DELIVERIES = st.lists(
    st.builds(
        make,
        event_id=st.integers(1, 3),
        subscriber=st.sampled_from("ab"),
        status=st.sampled_from(DeliveryStatus),
        topic=st.sampled_from("tu"),
        due_at_ms=st.sampled_from([NOW, NOW + 1]),
    ),
    max_size=8,
    unique_by=lambda each: (each.event_id, each.subscriber_id),
)


@SETTINGS
@given(DELIVERIES)
def test_whatever_begins_leaves_everyone_with_one_thing_at_a_time(all_: list[Delivery]) -> None:
    """B3, B6: one handler per event, one event per subscriber and topic, and never out of order."""
    chosen = bus.startable(all_, EVERYONE, NOW)
    active = [*chosen, *(each for each in all_ if each.status is RUNNING)]
    for one in chosen:
        assert one.status is WAITING
        assert one.due_at_ms <= NOW
        assert [each for each in active if each.event_id == one.event_id] == [one]
        lane = [e for e in all_ if (e.subscriber_id, e.topic) == (one.subscriber_id, one.topic)]
        assert not [e for e in lane if e.status in bus.OPEN and e.event_id < one.event_id]
        assert not [e for e in lane if e.status is RUNNING]


@SETTINGS
@given(DELIVERIES)
def test_something_begins_whenever_something_is_due_and_nothing_runs(all_: list[Delivery]) -> None:
    """B6: nobody waits for a stranger."""
    still = [each for each in all_ if each.status is not RUNNING]
    due = [replace(each, due_at_ms=NOW) for each in still]
    waiting = any(each.status is WAITING for each in due)
    assert bool(bus.startable(due, EVERYONE, NOW)) == waiting
