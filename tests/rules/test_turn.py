"""What a workflow does next, from what is stored and from what this process has in hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duly.rules.schedule import DAY_MS, HOUR_MS, MINUTE_MS, WAIT_MAX_MS, Schedule, next_run_at
from duly.rules.turn import (
    Choice,
    HandlerOutlook,
    OpenRun,
    Work,
    choose,
    is_suspect,
    replanned,
)
from duly.rules.word import Kind, MutationStatus, Status

NOW = 1_000_000
EPOCH = 3  # of the claim that the host holds
RUN = "run_1"
TRANSIENT, APPROVAL = Status.PAUSED_TRANSIENT, Status.PAUSED_APPROVAL
RECONCILIATION = Status.PAUSED_RECONCILIATION
ASK, OUT = MutationStatus.NEEDS_RECONCILE, MutationStatus.IN_FLIGHT

# status, row, when the run is due, when the row is, what is done: running, in hand, paused
TABLE = [
    (Status.ACTIVE, None, None, None, Work.RECOVER, Work.GO_ON, Work.NOTHING),
    (Status.ACTIVE, OUT, None, None, Work.RECOVER, Work.GO_ON, Work.RECOVER),
    (RECONCILIATION, OUT, None, None, Work.RECOVER, Work.NOTHING, Work.RECOVER),
    (RECONCILIATION, ASK, None, NOW, Work.RECONCILE, Work.RECONCILE, Work.RECONCILE),
    (RECONCILIATION, ASK, None, NOW + 1, Work.NOTHING, Work.NOTHING, Work.NOTHING),
    (TRANSIENT, None, NOW, None, Work.FOLLOW, Work.FOLLOW, Work.NOTHING),
    (TRANSIENT, None, NOW + 1, None, Work.NOTHING, Work.NOTHING, Work.NOTHING),
    (TRANSIENT, None, NOW + WAIT_MAX_MS + 1, None, Work.FOLLOW, Work.FOLLOW, Work.NOTHING),
    (TRANSIENT, None, None, None, Work.NOTHING, Work.NOTHING, Work.NOTHING),
    (APPROVAL, None, NOW, None, Work.UNBLOCK, Work.UNBLOCK, Work.NOTHING),
    (APPROVAL, None, None, None, Work.NOTHING, Work.NOTHING, Work.NOTHING),
    (Status.FAILED_LOGIC, None, None, None, Work.NOTHING, Work.NOTHING, Work.NOTHING),
    (Status.FAILED_LOGIC, None, NOW, None, Work.REPAIR, Work.NOTHING, Work.NOTHING),
    (Status.FAILED_LOGIC, None, NOW + 1, None, Work.NOTHING, Work.NOTHING, Work.NOTHING),
    (Status.CRASHED, None, None, None, Work.NOTHING, Work.NOTHING, Work.NOTHING),
]


def handler(name: str, **more: object) -> HandlerOutlook:
    """A consumer that has seen everything, unless told otherwise."""
    plain: dict[str, object] = {
        "name": name,
        "kind": "consumer",
        "position": 0,
        "next_run_at": None,
        "wake_at": None,
        "changed": 1,
        "seen": 1,
        "not_before": 0,
        "untried": 0,
        "oldest_pending_seq": None,
    }
    return HandlerOutlook(**{**plain, **more})  # type: ignore[arg-type]  # the words are its own


DUE = handler("due", changed=2, oldest_pending_seq=5)
OLDER = handler("older", changed=2, oldest_pending_seq=4, position=1)
POLL = handler("poll", kind="producer", next_run_at=NOW)


@pytest.mark.parametrize(
    ("status", "row", "due_at", "row_due_at", "left", "held", "paused"),
    TABLE,
    ids=[f"{line[0]}-{line[1]}-{line[2]}-{line[3]}" for line in TABLE],
)
def test_the_open_run_goes_first_and_nobody_else_starts(
    status: Status,
    row: MutationStatus | None,
    due_at: int | None,
    row_due_at: int | None,
    left: Work,
    held: Work,
    paused: Work,
) -> None:
    """F6, R7, H2: left under an earlier claim, taken up under ours, by no host, and paused."""
    run = OpenRun(RUN, status, EPOCH - 1, due_at, row, row_due_at)
    busy = (DUE, POLL)
    assert choose(run, busy, NOW, is_paused=False, epoch=EPOCH).work is left
    assert choose(run, busy, NOW, is_paused=True, epoch=EPOCH).work is paused
    for epoch in (EPOCH, None):
        ours = replace(run, epoch=epoch)
        assert choose(ours, busy, NOW, is_paused=False, epoch=EPOCH, repairing={RUN}).work is held


def test_a_wait_says_when_to_look_again() -> None:
    """S9: a host sleeps until then."""
    waiting = OpenRun(RUN, TRANSIENT, None, NOW + 5, None, None)
    assert choose(waiting, (), NOW, is_paused=False, epoch=EPOCH) == Choice(
        Work.NOTHING, look_at=NOW + 5
    )


def test_without_an_open_run_the_handler_that_goes_first_is_started() -> None:
    """S5: consumers before producers, the oldest event first."""
    chosen = choose(None, (POLL, DUE, OLDER), NOW, is_paused=False, epoch=EPOCH)
    assert chosen == Choice(Work.START, OLDER)
    assert choose(None, (POLL,), NOW, is_paused=False, epoch=EPOCH).handler == POLL
    assert choose(None, (POLL, DUE), NOW, is_paused=True, epoch=EPOCH) == Choice(Work.NOTHING)


def test_handlers_that_wait_say_when() -> None:
    """S9: the first of their times, and none where nothing is planned."""
    later = handler("poll", kind="producer", next_run_at=NOW + 7)
    wake = handler("wake", wake_at=NOW + 3)
    assert choose(None, (later, wake), NOW, is_paused=False, epoch=EPOCH).look_at == NOW + 3
    assert choose(None, (handler("idle"),), NOW, is_paused=False, epoch=EPOCH).look_at is None


# -- A clock that was wrong ------------------------------------------------------------------------

FIVE = Schedule(interval_ms=5 * MINUTE_MS)
HOURLY = Schedule(cron="0 * * * *")


@pytest.mark.parametrize("schedule", [FIVE, HOURLY])
@pytest.mark.parametrize("ahead_ms", [HOUR_MS, DAY_MS, 3650 * DAY_MS])
def test_what_is_planned_is_never_further_away_than_twice(
    schedule: Schedule, ahead_ms: int
) -> None:
    """S2: whatever was planned before, and whatever the clock showed then."""
    limit_ms = 2 * (schedule.interval_ms or HOUR_MS)
    for planned in (NOW - ahead_ms, NOW, NOW + 1, NOW + ahead_ms):
        found = next_run_at(schedule, planned, NOW)
        assert found is not None
        assert NOW < found <= NOW + limit_ms
        assert found != planned


def test_a_planned_time_keeps_its_pace_when_the_clock_is_set_back() -> None:
    """S2: planned time + k × interval, k may be negative."""
    found = next_run_at(FIVE, NOW + DAY_MS + 7, NOW)
    assert found is not None
    assert (found - (NOW + DAY_MS + 7)) % (5 * MINUTE_MS) == 0


@pytest.mark.parametrize(
    ("schedule", "limit_ms"), [(FIVE, 10 * MINUTE_MS), (HOURLY, None)], ids=["interval", "cron"]
)
def test_a_next_time_is_kept_up_to_twice_and_recomputed_beyond(
    schedule: Schedule, limit_ms: int | None
) -> None:
    """S2: two intervals, or the second next cron time; one past it is recomputed."""
    first = next_run_at(schedule, NOW, NOW)
    assert first is not None
    second = next_run_at(schedule, first, first)
    assert second is not None
    last = second if limit_ms is None else NOW + limit_ms
    assert replanned(schedule, last, NOW) == last
    again = replanned(schedule, last + 1, NOW)
    assert again is not None
    assert NOW < again <= second
    assert again < last


def test_only_a_plan_of_a_later_clock_is_suspect() -> None:
    """S2, S9: so that asking costs an index, and each is looked at once."""
    far = handler("poll", kind=Kind.PRODUCER, next_run_at=NOW + 3650 * DAY_MS)
    assert not is_suspect(replace(far, planned_at=NOW), NOW)
    assert is_suspect(replace(far, planned_at=NOW + 1), NOW)
    chosen = choose(None, (replace(far, planned_at=NOW + 1),), NOW, is_paused=False, epoch=EPOCH)
    assert chosen.work is Work.REPLAN


@pytest.mark.parametrize("status", [Status.PAUSED_TRANSIENT, Status.CRASHED])
def test_a_wait_that_a_later_clock_wrote_is_over(status: Status) -> None:
    """F2, S2: the times of runs, and of questions about what they sent."""
    run = OpenRun(RUN, status, None, NOW + HOUR_MS, None, None, set_at=NOW + 1)
    assert choose(run, (), NOW, is_paused=False, epoch=EPOCH).work is Work.FOLLOW
    run = replace(run, set_at=NOW)
    assert choose(run, (), NOW, is_paused=False, epoch=EPOCH).work is Work.NOTHING
    asked = OpenRun(
        RUN,
        Status.PAUSED_RECONCILIATION,
        None,
        None,
        MutationStatus.NEEDS_RECONCILE,
        NOW + HOUR_MS,
        row_set_at=NOW + 1,
    )
    assert choose(asked, (), NOW, is_paused=False, epoch=EPOCH).work is Work.RECONCILE


def test_a_wake_further_away_than_can_be_asked_for_is_due() -> None:
    """S6: at the maximum and five minutes it waits, one past it is due."""
    most = DAY_MS + 5 * MINUTE_MS
    waits = handler("wait", wake_at=NOW + most)
    assert choose(None, (waits,), NOW, is_paused=False, epoch=EPOCH).work is Work.NOTHING
    due = handler("wait", wake_at=NOW + most + 1)
    assert choose(None, (due,), NOW, is_paused=False, epoch=EPOCH).work is Work.START
    longer = choose(None, (due,), NOW, is_paused=False, epoch=EPOCH, wake_max_ms=2 * DAY_MS)
    assert longer.work is Work.NOTHING
