"""What a chain of runs counts, and who moves its open run on (F2, F3, R7, F8).

Law: the counts belong to the chain: a successor inherits them, a commit ends them, a person's
retry sets them to zero. Where only a person can move a run on, that person is told.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from duly.errors import IllegalTransition
from duly.rules.lifecycle import CRASHES_MAX, ENDED, Counts, Run
from duly.rules.outage import Outage
from duly.rules.word import Failure, Status, Way
from duly.rules.word import MutationStatus as Row  # the rules' own short word for it

EMPTY_CRASHES_MAX: Final = 10  # of runs that held nothing, the tenth waits for a person (R7)
LOGIC_FAILURES_MAX: Final = 3  # the third logic failure in a row asks a person (F3)


def counted(counts: Counts, run: Run, outage: Outage | None = None) -> Counts:
    """Count a stop; only crashes must come in a row, so any other stop sets them to zero.

    `outage` is the outage after this stop, if the outside was unreachable. A crash proves nothing
    about the outside, so it leaves an outage as it is; any other stop ends it (F2).
    """
    if run.status is Status.CRASHED:
        return replace(counts, crash=counts.crash + 1)
    counts = replace(counts, crash=0, outage=outage)
    if run.status is Status.PAUSED_TRANSIENT and outage is None:
        return replace(counts, transient=counts.transient + 1)
    if run.status is Status.FAILED_LOGIC:
        return replace(counts, logic=counts.logic + 1)
    return counts


def unanswered(counts: Counts, failure: Failure, now_ms: int) -> Counts:
    """Keep why a send gave no answer: it begins or goes on an outage, or ends one (F2).

    The host asks what became of the call; if it was not made, this says why it failed.
    """
    if failure is not Failure.UNREACHABLE:
        return replace(counts, outage=None)
    return replace(counts, outage=counts.outage or Outage(now_ms))


def trouble_of_absent(counts: Counts, *, is_answered: bool) -> Failure:
    """Classify a call that was sent and did not happen; without an answer it is no outage (F2)."""
    is_away = is_answered and counts.outage is not None
    return Failure.UNREACHABLE if is_away else Failure.TRANSIENT


def is_empty(run: Run, reserved: int) -> bool:
    """Tell whether a run had reserved and sent nothing, so that its crash undid nothing (R7)."""
    return run.row is None and reserved == 0


def way(
    run: Run,
    counts: Counts,
    *,
    retries_max: int = 5,
    repairs_max: int = 2,
    has_repairer: bool,
    was_empty: bool = False,
) -> Way:
    """Say who moves an open run on; `counts` already counts its stop. A person means escalate.

    `was_empty` says of a crashed run that it had reserved and sent nothing (R7).
    """
    if run.status in ENDED:
        raise IllegalTransition(code="bug", facts={"detail": "chain", "status": run.status})
    if run.status is Status.PAUSED_TRANSIENT:
        is_tried = counts.outage is not None or counts.transient <= retries_max
        return Way.BACKOFF if is_tried else Way.PERSON
    if run.status is Status.FAILED_LOGIC:
        repairable = counts.logic < LOGIC_FAILURES_MAX and counts.repair < repairs_max
        return Way.REPAIR if has_repairer and repairable else Way.PERSON
    if run.status is Status.CRASHED:
        if counts.crash < CRASHES_MAX:
            return Way.HOST
        backs_off = was_empty and counts.crash < EMPTY_CRASHES_MAX
        return Way.BACKOFF if backs_off else Way.PERSON
    if run.status is Status.PAUSED_RECONCILIATION and run.row is not Row.INDETERMINATE:
        return Way.RECONCILER
    return Way.HOST if run.status is Status.ACTIVE else Way.PERSON
