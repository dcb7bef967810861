"""What one workflow does next: one pure choice, then one piece of work.

Law 1  The open run goes first, in any status; while there is one, nothing else starts (F6).
Law 2  A run that was taken up under an earlier claim was left by a host that died, or that lost
       its memory of it (R7). One that no host has taken up yet goes on: an act or its predecessor
       made it active (R4, H2).
Law 3  While a person has paused the workflow nothing starts and nothing is sent; only questions
       about what was already sent go on (F7).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from duly.rules.lifecycle import FOLLOWED_BY_HOST
from duly.rules.schedule import (
    DAY_MS,
    WAIT_MAX_MS,
    Candidate,
    Consumer,
    Producer,
    Schedule,
    StartOrder,
    consumer_due_at,
    earliest,
    is_consumer_due,
    is_producer_due,
    next_run_at,
    order,
)
from duly.rules.word import Kind, MutationStatus, Status


@dataclass(frozen=True, slots=True)
class OpenRun:
    """The open run of a workflow; `row` is its mutation's status, the times are when to look.

    `set_at` and `row_set_at` say what the clock showed when those times were written.
    """

    run_id: str
    status: str
    epoch: int | None  # the claim under which a host took it up; None: no host has yet (H2)
    due_at: int | None
    row: str | None
    row_due_at: int | None
    set_at: int = 0
    row_set_at: int = 0


@dataclass(frozen=True, slots=True)
class HandlerOutlook:
    """What decides whether a handler is due (S2, S3)."""

    name: str
    kind: str
    position: int
    next_run_at: int | None
    wake_at: int | None
    changed: int
    seen: int
    not_before: int
    untried: int
    oldest_pending_seq: int | None
    planned_at: int = 0  # what the clock showed when `next_run_at` was written

    def consumer(self, wake_max_ms: int) -> Consumer:
        """The handler as S3 sees it."""
        return Consumer(
            changed=self.changed,
            seen=self.seen,
            committed_by_active_version=not self.untried,
            oldest_pending_seq=self.oldest_pending_seq,
            wake_at_ms=self.wake_at,
            not_before_ms=self.not_before,
            wake_max_ms=wake_max_ms,
        )


class Work(StrEnum):
    """What there is to do in a workflow."""

    NOTHING = "nothing"
    START = "start"
    GO_ON = "go on"
    FOLLOW = "follow"
    RECOVER = "recover"
    RECONCILE = "reconcile"
    UNBLOCK = "unblock"
    REPAIR = "repair"
    REPLAN = "replan"
    HAND_OVER = "hand over"


@dataclass(frozen=True, slots=True)
class Choice:
    """The next piece of work, or when to look again; `None` waits to be woken."""

    work: Work
    handler: HandlerOutlook | None = None
    look_at: int | None = None


def choose(
    open_run: OpenRun | None,
    handlers: tuple[HandlerOutlook, ...],
    now: int,
    *,
    is_paused: bool,
    epoch: int,
    repairing: Collection[str] = (),
    wake_max_ms: int = DAY_MS,
    is_able: bool = True,
) -> Choice:
    """Choose what a workflow does now, for the holder of this epoch (S5, F6, F7).

    `repairing` are the failed runs that a repair is being asked for. A holder that is not able to
    do it leaves it to other hosts (H7).
    """
    if not is_able:
        return Choice(Work.HAND_OVER)
    if open_run is not None:
        return _of_run(open_run, now, is_paused, epoch, repairing)
    if is_paused:
        return Choice(Work.NOTHING)
    return _of_handlers(handlers, now, wake_max_ms)


def _of_run(
    run: OpenRun, now: int, is_paused: bool, epoch: int, repairing: Collection[str]
) -> Choice:
    is_left = run.epoch is not None and run.epoch < epoch
    if run.row == MutationStatus.IN_FLIGHT and is_left:
        return Choice(Work.RECOVER)  # no host waits for its answer any more (R7)
    if run.status == Status.PAUSED_RECONCILIATION and run.row == MutationStatus.NEEDS_RECONCILE:
        return _when(run.row_due_at, run.row_set_at, now, Work.RECONCILE)
    if is_paused:
        return Choice(Work.NOTHING)
    if run.status == Status.ACTIVE:
        return Choice(Work.RECOVER if is_left else Work.GO_ON)
    if run.status in FOLLOWED_BY_HOST and run.due_at is not None:
        return _when(run.due_at, run.set_at, now, Work.FOLLOW)
    if run.status == Status.PAUSED_APPROVAL and run.due_at is not None:
        return _when(run.due_at, run.set_at, now, Work.UNBLOCK)
    is_asked_for = run.run_id in repairing  # a repairer is not asked twice at once (F3)
    if run.status == Status.FAILED_LOGIC and run.due_at is not None and not is_asked_for:
        return _when(run.due_at, run.set_at, now, Work.REPAIR)
    return Choice(Work.NOTHING)


def _when(due_at: int | None, set_at: int, now: int, work: Work) -> Choice:
    """Do it when its time has come.

    A time further away than any wait, or one that was written when the clock showed more than now,
    was a wrong clock's and is not waited for.
    """
    if due_at is None or due_at <= now or due_at > now + WAIT_MAX_MS or set_at > now:
        return Choice(work)
    return Choice(Work.NOTHING, look_at=due_at)


def _of_handlers(handlers: tuple[HandlerOutlook, ...], now: int, wake_max_ms: int) -> Choice:
    suspect = next((each for each in handlers if is_suspect(each, now)), None)
    if suspect is not None:
        return Choice(Work.REPLAN, suspect)
    by_name = {each.name: each for each in handlers}
    candidates = [_candidate(each) for each in handlers if _is_due(each, now, wake_max_ms)]
    if candidates:
        return Choice(Work.START, by_name[order(candidates)[0].handler])
    times = (_due_at(each, now, wake_max_ms) for each in handlers)
    return Choice(Work.NOTHING, look_at=earliest(times))


def is_suspect(handler: HandlerOutlook, now: int) -> bool:
    """Tell whether a producer was planned by a clock that showed more than now's (S2).

    No plan is further away than two intervals from the clock that made it, so no other time can be.
    """
    is_planned = handler.kind == Kind.PRODUCER and handler.next_run_at is not None
    return is_planned and handler.planned_at > now


def replanned(schedule: Schedule, next_at: int, now: int, zone: str = "UTC") -> int | None:
    """Return when a suspect producer is to run (S2).

    A next time within two intervals, or up to the second next cron time, is kept.
    """
    if next_at <= now:
        return next_at
    if schedule.interval_ms is not None:
        is_far = next_at - now > 2 * schedule.interval_ms
    elif schedule.cron is None:
        return now  # a manual producer is only ever planned for the moment of its planning (W2)
    else:
        first = next_run_at(schedule, now, now, zone)
        second = None if first is None else next_run_at(schedule, first, first, zone)
        is_far = second is not None and next_at > second
    return next_run_at(schedule, next_at, now, zone) if is_far else next_at


def _is_due(handler: HandlerOutlook, now: int, wake_max_ms: int) -> bool:
    if handler.kind == Kind.PRODUCER:
        return is_producer_due(Producer(handler.next_run_at), now)
    return is_consumer_due(handler.consumer(wake_max_ms), now)


def _due_at(handler: HandlerOutlook, now: int, wake_max_ms: int) -> int | None:
    if handler.kind == Kind.PRODUCER:
        return handler.next_run_at
    return consumer_due_at(handler.consumer(wake_max_ms), now)


def _candidate(handler: HandlerOutlook) -> Candidate:
    if handler.kind == Kind.PRODUCER:
        return Candidate(
            StartOrder.PRODUCER, handler.name, handler.position, next_run_at=handler.next_run_at
        )
    return Candidate(
        StartOrder.CONSUMER,
        handler.name,
        handler.position,
        oldest_pending_seq=handler.oldest_pending_seq,
    )
