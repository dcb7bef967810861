"""Every state of a run that can be reached, and every move out of it: the map the tests walk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from duly.errors import IllegalTransition, RequestRefused
from duly.rules import lifecycle
from duly.rules.lifecycle import Change, Counts, Run
from duly.rules.word import Act, Answer, Failure, Progress, Status, Verdict

ANY_CRASH = Counts(crash=1)
THIRD_CRASH = Counts(crash=lifecycle.CRASHES_MAX)


@dataclass(frozen=True, slots=True)
class Move:
    """One move out of a state: who makes it, what it is called, and what it makes of the run."""

    by: str
    name: str
    change: Change


def _try(by: str, name: str, decide: object, *args: object) -> Iterator[Move]:
    assert callable(decide)
    try:
        decided = decide(*args)
    except (IllegalTransition, RequestRefused):
        return
    yield Move(by, name, decided if isinstance(decided, Change) else Change(decided))


def _act(run: Run, wish: Act) -> Change:
    """Let a person act who was told whatever L5 tells."""
    return lifecycle.act(run, wish, is_told=True)


def _changed(run: Run) -> Run:
    """Find that the row of a run was changed in the store, before its first send (L11)."""
    return lifecycle.spoil(run, was_sent=False)


def _late(run: Run, given: Answer) -> Iterator[Move]:
    """Let a send that was not waited for any more answer, the only one of its row (L1)."""
    decided = lifecycle.late(run, given, is_definite=True)
    if decided is not None:
        yield Move("late answer", given, Change(decided))


def moves(run: Run) -> Iterator[Move]:
    """Try everything that could happen to a run; what the rules refuse is not a move."""
    for step in Progress:
        if step is Progress.COMMIT:
            yield from _try("host", step, lifecycle.commit, run)
        else:
            yield from _try("host", step, lifecycle.advance, run, step)
    for failure in Failure:
        yield from _try("failure", failure, lifecycle.fail, run, failure)
    for given in Answer:
        yield from _try("answer", given, lifecycle.answer, run, given)
    yield from _try("reconciler", "send again", lifecycle.resend, run)
    for verdict in Verdict:
        yield from _try("reconciler", verdict, lifecycle.judge, run, verdict)
    for given in Answer:
        yield from _late(run, given)
    yield from _try("host", "changed in the store", _changed, run)
    yield from _try("restart", "crash", lifecycle.crash, run, ANY_CRASH)
    yield from _try("restart", "third crash", lifecycle.crash, run, THIRD_CRASH)
    yield from _try("host", "succeed", lifecycle.succeed, run)
    for wish in Act:
        for move in _try("person", wish, _act, run, wish):
            if move.change.run != run or move.change.successor:
                yield move


def reachable() -> tuple[Run, ...]:
    """Walk from both starts through every move and every successor."""
    seen: dict[Run, None] = {}
    todo = [lifecycle.PRODUCER_START, lifecycle.CONSUMER_START]
    while todo:
        run = todo.pop()
        if run in seen:
            continue
        seen[run] = None
        for move in moves(run):
            if move.change.successor is None:
                todo.append(move.change.run)
            else:
                todo.append(move.change.successor)
    return tuple(seen)


def is_open(run: Run) -> bool:
    """Tell whether a run is still to be moved on."""
    return run.status not in (Status.COMMITTED, Status.ABANDONED)


def in_flight() -> Run:
    """Answer a run whose call is out."""
    run = lifecycle.advance(lifecycle.CONSUMER_START, Progress.PREPARE_DONE)
    return lifecycle.advance(lifecycle.advance(run, Progress.BEGIN_MUTATE), Progress.SEND)


def proposed() -> Run:
    """Answer a run whose call waits for approval."""
    run = lifecycle.advance(lifecycle.CONSUMER_START, Progress.PREPARE_DONE)
    return lifecycle.advance(lifecycle.advance(run, Progress.BEGIN_MUTATE), Progress.ASK_APPROVAL)


def indeterminate() -> Run:
    """Answer a run that nobody but a person can settle."""
    return lifecycle.judge(in_flight(), Verdict.GIVEN_UP)


ALL = reachable()
OPEN = tuple(run for run in ALL if is_open(run))
