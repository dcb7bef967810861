"""What a workflow does next, from what is stored and from what this process has in hand."""

from __future__ import annotations

import pytest

from duly.rules.schedule import WAIT_MAX_MS
from duly.rules.turn import Choice, HandlerOutlook, OpenRun, Work, choose
from duly.rules.word import MutationStatus, Status

NOW = 1_000_000
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
    """F6, F7, R7: what is done with it, left by a dead host, in hand, and in a paused workflow."""
    run = OpenRun(RUN, status, due_at, row, row_due_at)
    busy = (DUE, POLL)
    assert choose(run, busy, NOW, is_paused=False, in_hand=()).work is left
    assert choose(run, busy, NOW, is_paused=False, in_hand={RUN}).work is held
    assert choose(run, busy, NOW, is_paused=True, in_hand=()).work is paused


def test_a_wait_says_when_to_look_again() -> None:
    """S9: a host sleeps until then."""
    waiting = OpenRun(RUN, TRANSIENT, NOW + 5, None, None)
    assert choose(waiting, (), NOW, is_paused=False, in_hand=()) == Choice(
        Work.NOTHING, look_at=NOW + 5
    )


def test_without_an_open_run_the_handler_that_goes_first_is_started() -> None:
    """S5: consumers before producers, the oldest event first."""
    chosen = choose(None, (POLL, DUE, OLDER), NOW, is_paused=False, in_hand=())
    assert chosen == Choice(Work.START, OLDER)
    assert choose(None, (POLL,), NOW, is_paused=False, in_hand=()).handler == POLL
    assert choose(None, (POLL, DUE), NOW, is_paused=True, in_hand=()) == Choice(Work.NOTHING)


def test_handlers_that_wait_say_when() -> None:
    """S9: the first of their times, and none where nothing is planned."""
    later = handler("poll", kind="producer", next_run_at=NOW + 7)
    wake = handler("wake", wake_at=NOW + 3)
    assert choose(None, (later, wake), NOW, is_paused=False, in_hand=()).look_at == NOW + 3
    assert choose(None, (handler("idle"),), NOW, is_paused=False, in_hand=()).look_at is None
