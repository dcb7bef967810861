"""Schedules: what may be declared, when it is due, whose turn it is, how long to wait."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.config import Backoff, Policy
from duly.errors import Invalid
from duly.rules import schedule
from duly.rules.schedule import (
    DAY_MS,
    HOUR_MS,
    MANUAL,
    MINUTE_MS,
    SECOND_MS,
    Candidate,
    Consumer,
    DueBy,
    Producer,
    Schedule,
    StartOrder,
    Wake,
)
from duly.words.warning import say_ignored_wake

NOW = 1_780_000_000_000
POLICY = Policy()
SETTINGS = settings(derandomize=True, deadline=None, max_examples=200)


# -- Declaring ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "meant"),
    [
        (None, MANUAL),
        ({"interval": "1s"}, Schedule(interval_ms=SECOND_MS)),
        ({"interval": "5m"}, Schedule(interval_ms=5 * MINUTE_MS)),
        ({"interval": "2h"}, Schedule(interval_ms=2 * HOUR_MS)),
        ({"interval": "36525d"}, Schedule(interval_ms=36_525 * DAY_MS)),
        ({"cron": "0 9 * * *"}, Schedule(cron="0 9 * * *")),
        ({"cron": " 0  9 * *  MON-FRI "}, Schedule(cron="0 9 * * MON-FRI")),
        (
            {"cron": "0 9 * * *", "timezone": "Europe/Berlin"},
            Schedule(cron="0 9 * * *", timezone="Europe/Berlin"),
        ),
    ],
)
def test_a_declared_schedule_is_read_and_written_back(declared: object, meant: Schedule) -> None:
    """W2, W5: an interval, or a cron pattern with or without a zone, or nothing at all."""
    assert schedule.parse(declared) == meant
    assert schedule.parse(schedule.declare(meant)) == meant


@pytest.mark.parametrize(
    ("declared", "path"),
    [
        ("5m", "schedule"),
        ({}, "schedule"),
        ({"interval": "5m", "cron": "0 9 * * *"}, "schedule"),
        ({"timezone": "Europe/Berlin"}, "schedule"),
        ({"every": "5m"}, "schedule.every"),
        ({"interval": "5m", "timezone": "UTC"}, "schedule.timezone"),
        *(
            ({"interval": text}, "schedule.interval")
            for text in (
                "0m",
                "-1m",
                "5",
                "m",
                "1.5h",
                "5 m",
                "5M",
                "5w",
                "٥m",
                "",
                "36526d",
                5,
                None,
            )
        ),
        *(
            ({"cron": text}, "schedule.cron")
            for text in (
                "* * * *",
                "* * * * * *",
                "60 * * * *",
                "* 24 * * *",
                "* * 0 * *",
                "* * * 13 *",
                "* * * * 8",
                "*/0 * * * *",
                "0 0 30 2 *",
                "0 0 */31 * 1#5",
                "@daily",
                9,
                None,
            )
        ),
        *(
            ({"cron": "0 9 * * *", "timezone": name}, "schedule.timezone")
            for name in (
                "Berlin",
                "",
                "America",
                "../etc/passwd",
                "/etc/passwd",
                "a\0b",
                "é" * 300,
                1,
            )
        ),
    ],
)
def test_a_schedule_that_breaks_the_grammar_is_refused_by_path(declared: object, path: str) -> None:
    """W5: what cannot be a schedule is refused, and the refusal names the place."""
    with pytest.raises(Invalid) as refused:
        schedule.parse(declared)
    assert refused.value.path == path
    assert str(refused.value).endswith((".", "?"))


def test_a_pattern_has_a_longest_length() -> None:
    """W5: two hundred characters pass, one more does not."""
    longest = "10," * 63 + "1 " + "9 * * *  "
    assert len(longest) == 200
    assert schedule.parse({"cron": longest}).cron is not None
    with pytest.raises(Invalid):
        schedule.parse({"cron": longest + " "})


@SETTINGS
@given(st.text("0123456789*/-,LW#SUNMOFRI ", max_size=30))
def test_any_text_is_a_pattern_or_invalid(text: str) -> None:
    """W5: no text makes the reader stumble, and what is accepted happens some day."""
    try:
        accepted = schedule.parse({"cron": text})
    except Invalid:
        return
    assert schedule.next_run_at(accepted, NOW, NOW) is not None


# -- Producers ------------------------------------------------------------------------------


@SETTINGS
@given(
    interval_ms=st.integers(1, 400).map(lambda seconds: seconds * SECOND_MS),
    late_ms=st.integers(-DAY_MS, 3 * DAY_MS),
)
def test_an_interval_keeps_its_beat_and_never_repeats_it(interval_ms: int, late_ms: int) -> None:
    """S2: on the beat of the planned one, after now, and never further away than two intervals."""
    now_ms = NOW + late_ms
    found = schedule.next_run_at(Schedule(interval_ms=interval_ms), NOW, now_ms)
    assert found is not None
    assert (found - NOW) % interval_ms == 0
    assert now_ms < found <= now_ms + 2 * interval_ms
    # One planned further away than the next was a wrong clock's, and is passed over.
    assert found > NOW or now_ms + interval_ms < NOW
    assert found - interval_ms <= max(now_ms, NOW)


def test_a_manual_producer_has_no_next_time() -> None:
    """S2: nothing plans a producer that runs only by hand."""
    assert schedule.next_run_at(MANUAL, NOW, NOW) is None
    assert not schedule.is_producer_due(Producer(None), NOW)


def test_a_producer_is_due_from_its_time_on() -> None:
    """S2: not a millisecond before, and still due when the time has passed."""
    assert not schedule.is_producer_due(Producer(NOW + 1), NOW)
    assert schedule.is_producer_due(Producer(NOW), NOW)
    assert schedule.is_producer_due(Producer(NOW - DAY_MS), NOW)


EVERY_5_MIN = Schedule(interval_ms=5 * MINUTE_MS)


@pytest.mark.parametrize(
    ("stored", "declared", "planned_ms", "expected_ms"),
    [
        (EVERY_5_MIN, EVERY_5_MIN, NOW + 7, NOW + 7),
        (EVERY_5_MIN, EVERY_5_MIN, NOW - 7, NOW - 7),
        (MANUAL, MANUAL, None, None),
        (EVERY_5_MIN, Schedule(interval_ms=HOUR_MS), NOW + 7, NOW),
        (MANUAL, EVERY_5_MIN, None, NOW),
        (None, EVERY_5_MIN, None, NOW),
        (None, MANUAL, None, NOW),
        (EVERY_5_MIN, MANUAL, NOW + 7, NOW),
        (Schedule(cron="0 9 * * *"), Schedule(cron="0 9 * * *", timezone="UTC"), NOW + 7, NOW),
    ],
)
def test_a_deploy_keeps_an_unchanged_time_and_starts_what_is_new(
    stored: Schedule | None, declared: Schedule, planned_ms: int | None, expected_ms: int | None
) -> None:
    """W9, W2: unchanged keeps its time, changed or new is due, manual ones once."""
    assert schedule.next_run_at_on_deploy(stored, declared, planned_ms, NOW) == expected_ms


DAILY = Schedule(cron="0 9 * * *", on_deploy=False)


@pytest.mark.parametrize(
    ("stored", "declared", "planned_ms", "expected_ms"),
    [
        (None, DAILY, None, schedule.next_cron_at("0 9 * * *", NOW, "Asia/Tokyo")),
        (
            None,
            Schedule(cron="0 9 * * *", timezone="UTC", on_deploy=False),
            None,
            schedule.next_cron_at("0 9 * * *", NOW, "UTC"),
        ),
        (None, Schedule(interval_ms=HOUR_MS, on_deploy=False), None, NOW + HOUR_MS),
        (DAILY, DAILY, NOW + 5, NOW + 5),
        (
            Schedule(cron="0 9 * * *"),
            DAILY,
            NOW + 5,
            schedule.next_cron_at("0 9 * * *", NOW, "Asia/Tokyo"),
        ),
        (DAILY, Schedule(cron="0 9 * * *"), NOW + 5, NOW),
    ],
)
def test_a_schedule_may_begin_at_its_own_time(
    stored: Schedule | None, declared: Schedule, planned_ms: int | None, expected_ms: int | None
) -> None:
    """W2, W9: never at the deploy, in the zone that holds."""
    found = schedule.next_run_at_on_deploy(stored, declared, planned_ms, NOW, "Asia/Tokyo")
    assert found == expected_ms


@pytest.mark.parametrize("declared", [DAILY, Schedule(interval_ms=HOUR_MS, on_deploy=False)])
def test_a_schedule_that_waits_is_stored_so(declared: Schedule) -> None:
    """W2, W7: and one that does not is stored as before."""
    told = schedule.declare(declared)
    assert told is not None
    assert (told["on_deploy"], schedule.parse(told)) == (False, declared)
    assert schedule.parse({**told, "on_deploy": True}).on_deploy
    assert "on_deploy" not in (schedule.declare(Schedule(cron="0 9 * * *")) or {})


@pytest.mark.parametrize("wrong", ["no", 0, None, {}])
def test_on_deploy_is_true_or_false(wrong: object) -> None:
    """W5: nothing else is taken for either."""
    with pytest.raises(Invalid) as caught:
        schedule.parse({"cron": "0 9 * * *", "on_deploy": wrong})
    assert caught.value.path == "schedule.on_deploy"


# -- Consumers ------------------------------------------------------------------------------

RESTING = Consumer(changed=5, seen=5, committed_by_active_version=True)


@pytest.mark.parametrize(
    ("consumer", "why"),
    [
        (RESTING, None),
        (Consumer(0, 0, False), DueBy.NEW_VERSION),
        (Consumer(6, 5, True, oldest_pending_seq=6), DueBy.CHANGED),
        (Consumer(6, 5, True), None),
        (Consumer(5, 5, True, oldest_pending_seq=3), None),
        (Consumer(5, 5, True, wake_at_ms=NOW), DueBy.WAKE),
        (Consumer(5, 5, True, wake_at_ms=NOW + 1), None),
        (Consumer(6, 5, True, oldest_pending_seq=6, not_before_ms=NOW + 1), None),
        (Consumer(6, 5, True, oldest_pending_seq=6, not_before_ms=NOW), DueBy.CHANGED),
        (Consumer(0, 0, False, not_before_ms=NOW + 1), None),
        (Consumer(5, 5, True, wake_at_ms=NOW, not_before_ms=NOW + 1), None),
    ],
)
def test_a_consumer_is_due_for_one_of_three_reasons(consumer: Consumer, why: DueBy | None) -> None:
    """S3: a new version, a change with something pending, a wake; a pause holds back all three."""
    assert schedule.why_due(consumer, NOW) == why
    assert schedule.is_consumer_due(consumer, NOW) == (why is not None)


def test_a_new_event_makes_an_idle_consumer_due_at_once() -> None:
    """S4: there is no interval between the publish and the due time."""
    published = Consumer(changed=6, seen=5, committed_by_active_version=True, oldest_pending_seq=6)
    assert schedule.consumer_due_at(published, NOW) == NOW


def test_a_restart_does_not_start_a_consumer_that_declined_what_is_pending() -> None:
    """S8: due-ness comes from the store alone; what was seen and left stays left."""
    declined = Consumer(changed=5, seen=5, committed_by_active_version=True, oldest_pending_seq=2)
    assert not schedule.is_consumer_due(declined, NOW)
    assert schedule.consumer_due_at(declined, NOW) is None


@pytest.mark.parametrize(
    ("consumer", "due_at"),
    [
        (RESTING, None),
        (Consumer(5, 5, True, wake_at_ms=NOW + 9), NOW + 9),
        (Consumer(5, 5, True, wake_at_ms=NOW - 9), NOW),
        (Consumer(6, 5, True, oldest_pending_seq=6, not_before_ms=NOW + 9), NOW + 9),
        (Consumer(5, 5, True, wake_at_ms=NOW + 5, not_before_ms=NOW + 9), NOW + 9),
        (Consumer(5, 5, True, wake_at_ms=NOW - 5, not_before_ms=NOW + 9), NOW + 9),
        (Consumer(5, 5, True, not_before_ms=NOW + 9), None),
    ],
)
def test_a_host_sleeps_exactly_until_a_consumer_is_due(
    consumer: Consumer, due_at: int | None
) -> None:
    """S9: the time answered is the first at which the consumer is due, or there is none."""
    assert schedule.consumer_due_at(consumer, NOW) == due_at


TIMES = st.one_of(st.none(), st.integers(NOW - 5, NOW + 5))


@SETTINGS
@given(
    consumer=st.builds(
        Consumer,
        changed=st.integers(0, 2),
        seen=st.integers(0, 2),
        committed_by_active_version=st.booleans(),
        oldest_pending_seq=st.one_of(st.none(), st.just(1)),
        wake_at_ms=TIMES,
        not_before_ms=TIMES,
    )
)
def test_the_due_time_is_the_first_moment_at_which_a_consumer_is_due(consumer: Consumer) -> None:
    """S9, S3: looking at every millisecond finds the same moment."""
    moments = range(NOW, NOW + 10)
    first = next((now for now in moments if schedule.is_consumer_due(consumer, now)), None)
    assert schedule.consumer_due_at(consumer, NOW) == first


def test_an_idle_host_sleeps_without_end() -> None:
    """S9: with nothing planned there is no time to wake at; else it is the earliest."""
    assert schedule.earliest([]) is None
    assert schedule.earliest([None, None]) is None
    assert schedule.earliest([NOW + 2, None, NOW + 1]) == NOW + 1


def test_only_a_consumer_that_publishes_and_reserves_nothing_is_held_back() -> None:
    """S3: it is not started again for 30 s; any other is free at once."""
    assert schedule.pause_after_commit(reserved=0, published=1, now_ms=NOW) == NOW + 30_000
    assert schedule.pause_after_commit(reserved=1, published=1, now_ms=NOW) is None
    assert schedule.pause_after_commit(reserved=0, published=0, now_ms=NOW) is None


# -- Turns ----------------------------------------------------------------------------------

IN_ORDER = (
    Candidate(StartOrder.OPEN_RUN, "open", position=9),
    Candidate(StartOrder.CONSUMER, "older", position=3, oldest_pending_seq=4),
    Candidate(StartOrder.CONSUMER, "newer", position=1, oldest_pending_seq=7),
    Candidate(StartOrder.CONSUMER, "woken first declared", position=0),
    Candidate(StartOrder.CONSUMER, "woken", position=2),
    Candidate(StartOrder.PRODUCER, "early", position=1, next_run_at=NOW - 9),
    Candidate(StartOrder.PRODUCER, "late", position=0, next_run_at=NOW),
    Candidate(StartOrder.PRODUCER, "late, declared later", position=2, next_run_at=NOW),
)


def test_what_is_due_goes_in_one_order_however_it_was_found() -> None:
    """S5: open run, consumers by oldest pending event, producers by time, then declaration."""
    for some in permutations(IN_ORDER, 3):
        assert schedule.order(some) == tuple(c for c in IN_ORDER if c in some)
    assert schedule.order(reversed(IN_ORDER)) == IN_ORDER


def test_run_now_is_refused_while_something_is_open_or_paused() -> None:
    """S7: each refusal says what to do; with neither there is none."""
    cases = [(False, False), (True, False), (False, True), (True, True)]
    found = [schedule.run_now_refusal("mail", *case) for case in cases]
    told = [each and (each.code, each.next and each.next.verb) for each in found]
    assert told == [None, ("busy", "why"), ("workflow_paused", "resume"), ("busy", "why")]


# -- Waiting --------------------------------------------------------------------------------


def wake(declared: object) -> Wake:
    return schedule.clamp_wake_at(declared, NOW, POLICY.wake_min_s, POLICY.wake_max_s)


def written(at_ms: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    return moment.isoformat()


@pytest.mark.parametrize(
    ("offset_ms", "clamped_ms"),
    [
        (HOUR_MS, HOUR_MS),
        (30_000, 30_000),
        (29_999, 30_000),
        (-DAY_MS, 30_000),
        (DAY_MS, DAY_MS),
        (DAY_MS + 1, DAY_MS),
        (400 * DAY_MS, DAY_MS),
    ],
)
def test_a_wake_time_is_brought_within_bounds(offset_ms: int, clamped_ms: int) -> None:
    """S6: no sooner than 30 s and no later than 24 h from now."""
    assert wake(written(NOW + offset_ms)) == Wake(NOW + clamped_ms)


def test_a_wake_time_without_a_zone_is_utc() -> None:
    """S6: with or without Z, and with an offset, the same moment."""
    moment = written(NOW + HOUR_MS)
    local = datetime.fromisoformat(moment).astimezone(tz=None).isoformat()
    spellings = (moment, moment.removesuffix("+00:00"), moment.replace("+00:00", "Z"), local)
    assert {wake(spelling) for spelling in spellings} == {Wake(NOW + HOUR_MS)}


@pytest.mark.parametrize(
    "declared",
    [
        0,
        NOW,
        1.5,
        True,
        [],
        {},
        "",
        "tomorrow",
        "2026-13-01",
        "2026-05-01x10:00",
        "2026-05-01 10:00",
    ],
)
def test_a_wake_time_that_cannot_be_read_is_ignored_with_a_warning(declared: object) -> None:
    """S6: anything but an ISO 8601 string is never a failure."""
    ignored = wake(declared)
    assert ignored.at_ms is None
    assert ignored.ignored is not None
    assert "ISO 8601" in say_ignored_wake(ignored.ignored)


def test_a_wake_time_has_at_most_a_hundred_characters() -> None:
    """S6, N: one past the limit is ignored with a warning, never a failure."""
    text = "2026-05-01T09:00:00."
    longest = text.ljust(schedule.WAKE_CHARS_MAX, "0")
    assert schedule.clamp_wake_at(longest, NOW, 30, 86_400).at_ms is not None
    wake = schedule.clamp_wake_at(f"{longest}0", NOW, 30, 86_400)
    assert (wake.at_ms, bool(wake.ignored)) == (None, True)


def test_an_absent_wake_time_is_cleared_in_silence() -> None:
    """S6: absent is an answer, not a mistake."""
    assert wake(None) == Wake()


@SETTINGS
@given(st.one_of(st.text(), st.text("0123456789-+:.TWZ", max_size=30), st.datetimes().map(str)))
def test_no_text_makes_the_reader_of_wake_times_stumble(text: str) -> None:
    """S6: every string gives a time within bounds, or a warning of bounded length."""
    found = wake(text)
    if found.at_ms is None:
        assert found.ignored is not None
        assert len(say_ignored_wake(found.ignored)) < 200
    else:
        assert NOW + 30_000 <= found.at_ms <= NOW + DAY_MS


def test_the_waits_double_up_to_ten_minutes() -> None:
    """L5, F2: 10 s × 2ⁿ, at most 10 min, also after very many."""
    waits_s = [schedule.reconcile_delay_ms(POLICY.reconcile, n) // 1000 for n in range(9)]
    assert waits_s == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert schedule.reconcile_delay_ms(Backoff(10, 1e300, 600, 5), 10**6) == 600_000


def test_chance_spreads_a_wait_by_a_fifth() -> None:
    """F2: × 0.8 at the least, just under × 1.2 at the most, the plain wait in the middle."""
    waits = [schedule.backoff_ms(POLICY.retries, 0, jitter) for jitter in (0.0, 0.5, 0.999999)]
    assert waits == [8_000, 10_000, 12_000]
    assert schedule.backoff_ms(POLICY.retries, 20, 0.999999) == 720_000


@pytest.mark.parametrize(
    ("retry_after_s", "expected_ms"),
    [
        (None, 10_000),
        (0, 10_000),
        (-5, 10_000),
        (math.nan, 10_000),
        (10.0005, 10_001),
        (3600, 3_600_000),
        (86_400, DAY_MS),
        (86_401, DAY_MS),
        (math.inf, DAY_MS),
    ],
)
def test_the_outside_can_lengthen_a_wait_by_a_day_at_most(
    retry_after_s: float | None, expected_ms: int
) -> None:
    """F2: never before Retry-After, which counts up to 24 h and never shortens the wait."""
    assert schedule.backoff_ms(POLICY.retries, 0, 0.5, retry_after_s) == expected_ms
