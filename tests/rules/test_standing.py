"""How a workflow stands: one standing and one code, by one table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from duly.fact import Reason
from duly.rules import standing
from duly.rules.blind import BlindCause
from duly.rules.event import EventStatus
from duly.rules.lifecycle import Run
from duly.rules.permission import Lack
from duly.rules.standing import CausedEvent, Code, Facts, InputStatus, Mover, Standing
from duly.rules.word import Act, Kind, MutationStatus, Phase, Status, Waits, Way

NOW = 1_780_000_000_000
DAY_MS = 86_400_000
OPEN = sorted(set(Status) - {Status.COMMITTED, Status.ABANDONED})
NEEDS, STOPPED = Standing.NEEDS_ATTENTION, Standing.STOPPED
RUNNING, IDLE = Standing.RUNNING, Standing.IDLE


def run(
    status: Status,
    row: MutationStatus | None = None,
    waits: Waits | None = None,
    phase: Phase = Phase.MUTATING,
) -> Run:
    return Run(Kind.CONSUMER, phase, status, row, None, waits)


APPROVAL = run(Status.PAUSED_APPROVAL, MutationStatus.PROPOSED, Waits.APPROVAL)
CONNECTION = run(Status.PAUSED_APPROVAL, None, Waits.CONNECTION)
GRANT = run(Status.PAUSED_APPROVAL, None, Waits.GRANT)
UNKNOWN = run(Status.PAUSED_RECONCILIATION, MutationStatus.INDETERMINATE)
ASKING = run(Status.PAUSED_RECONCILIATION, MutationStatus.NEEDS_RECONCILE)
BACKOFF = run(Status.PAUSED_TRANSIENT)
BROKEN = run(Status.FAILED_LOGIC)
FAULT = run(Status.FAILED_INTERNAL)
ACTIVE = run(Status.ACTIVE)
SENDING = run(Status.ACTIVE, MutationStatus.IN_FLIGHT)


TOLD = Reason("script_failed", facts={"message": "no"})


def every_fact() -> Iterator[Facts]:
    """Every combination of facts, those that cannot be reached included."""
    runs: list[Run | None] = [None]
    for status, row, waits in product(OPEN, (None, *MutationStatus), (None, *Waits)):
        if status is not Status.PAUSED_APPROVAL or waits is not None:
            runs.append(run(status, row, waits))
    for open_run, paused, told, name, due_at_ms, blind, way in product(
        runs, (False, True), (None, TOLD), (None, "gmail", "gmail.password"),
        (None, NOW - 1, NOW + 90_000), (None, NOW), (Way.HOST, Way.BACKOFF),
    ):  # fmt: skip
        yield Facts(open_run, way, paused, told, name, due_at_ms=due_at_ms, copied_at_ms=blind)


# -- Standing -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "expected", "code"),
    [
        (Facts(), IDLE, Code.IDLE),
        (Facts(check_at_ms=NOW), IDLE, Code.SCHEDULED),
        (Facts(held_until_ms=NOW), IDLE, Code.HELD_BACK),
        (Facts(is_due=True), IDLE, Code.DUE),
        (Facts(ACTIVE), RUNNING, Code.AT_WORK),
        (Facts(SENDING), RUNNING, Code.SENDING),
        (Facts(SENDING, is_unsent=True), RUNNING, Code.UNSENT),
        (Facts(SENDING, is_unsent=True, paused=True), STOPPED, Code.PAUSED_UNSENT),
        (Facts(SENDING, paused=True), STOPPED, Code.PAUSED_SENDING),
        (Facts(BACKOFF, due_at_ms=NOW), RUNNING, Code.RETRYING),
        (Facts(BACKOFF, unreachable_since_ms=NOW), RUNNING, Code.UNREACHABLE),
        (Facts(BACKOFF, paused=True), STOPPED, Code.PAUSED),
        (Facts(BACKOFF, escalated=TOLD, paused=True), NEEDS, Code.RETRIES_EXHAUSTED),
        (Facts(BROKEN), RUNNING, Code.REPAIRING),
        (Facts(BROKEN, escalated=TOLD), NEEDS, Code.SCRIPT_FAILED),
        (Facts(BROKEN, Way.PERSON), NEEDS, Code.SCRIPT_FAILED),
        (Facts(ASKING), RUNNING, Code.ASKING),
        (Facts(ASKING, may_settle=True), RUNNING, Code.UNASKED),
        (Facts(ASKING, paused=True), STOPPED, Code.PAUSED_ASKING),
        (Facts(ASKING, paused=True, can_be_asked=False), STOPPED, Code.PAUSED_UNASKABLE),
        (Facts(run(Status.CRASHED)), RUNNING, Code.INTERRUPTED),
        (Facts(run(Status.CRASHED), due_at_ms=NOW), RUNNING, Code.INTERRUPTED_AGAIN),
        (Facts(run(Status.CRASHED), Way.PERSON), NEEDS, Code.CRASHED_TOO_OFTEN),
        (Facts(paused=True), STOPPED, Code.PAUSED),
        (Facts(paused=True, is_due=True), STOPPED, Code.PAUSED),
        (Facts(paused=True, copied_at_ms=NOW), NEEDS, Code.RESTORED),
        (
            Facts(paused=True, copied_at_ms=NOW, blind_cause=BlindCause.LOST_LOG),
            NEEDS,
            Code.LOG_LOST,
        ),
        (Facts(FAULT, paused=True, copied_at_ms=NOW), NEEDS, Code.RESTORED),
        (Facts(FAULT), STOPPED, Code.INTERNAL_FAULT),
        (Facts(FAULT, escalated=TOLD), STOPPED, Code.INTERNAL_FAULT),
        (Facts(APPROVAL), NEEDS, Code.NEEDS_APPROVAL),
        (Facts(CONNECTION, needs="gmail"), NEEDS, Code.NEEDS_CONNECTION),
        (Facts(CONNECTION, needs="gmail.password"), NEEDS, Code.NEEDS_SECRET),
        (Facts(CONNECTION, paused=True), NEEDS, Code.NEEDS_CONNECTION),
        (Facts(GRANT, needs="sheets.append"), NEEDS, Code.NEEDS_GRANT),
        (Facts(GRANT, lack=Lack.WHERE), NEEDS, Code.GRANT_TOO_NARROW),
        (Facts(GRANT, lack=Lack.MUTATIONS_PER_DAY), NEEDS, Code.DAILY_LIMIT_REACHED),
        (Facts(GRANT, lack=None), NEEDS, Code.DENIED_OUTSIDE),
        (Facts(GRANT, due_at_ms=NOW), RUNNING, Code.UNBLOCKED),
        (Facts(GRANT, due_at_ms=NOW, paused=True), STOPPED, Code.PAUSED_UNBLOCKED),
        (Facts(UNKNOWN), NEEDS, Code.OUTCOME_UNKNOWN),
        (Facts(UNKNOWN, paused=True), NEEDS, Code.OUTCOME_UNKNOWN),
    ],
)
def test_a_workflow_has_the_first_standing_that_applies(
    facts: Facts, expected: Standing, code: Code
) -> None:
    """U1: needs attention before stopped before running before idle, with one code."""
    reading = standing.read(facts)
    assert (reading.standing, reading.reason.code) == (expected, code)


def test_the_standing_of_every_fact_is_the_one_the_rule_names() -> None:
    """U1, H5: said a second time, as the rule says it, over all facts there can be."""
    for facts in every_fact():
        row = facts.run.row if facts.run else None
        internal = facts.status is Status.FAILED_INTERNAL
        waits = facts.run.waits if facts.run else None
        came = waits in (Waits.CONNECTION, Waits.GRANT) and facts.due_at_ms is not None
        asked = facts.status is Status.PAUSED_APPROVAL and not came
        unknown = row is MutationStatus.INDETERMINATE
        blind = facts.paused and facts.copied_at_ms is not None
        if asked or unknown or blind or (facts.escalated and not internal and not came):
            expected = NEEDS
        elif facts.paused or internal:
            expected = STOPPED
        else:
            expected = IDLE if facts.run is None else RUNNING
        assert standing.read(facts).standing is expected, facts


def test_every_code_is_in_the_table_once_and_the_last_line_always_applies() -> None:
    """U7: nothing is ever without a code."""
    assert [line.code for line in standing.LINES] == list(Code)
    assert standing.LINES[-1].applies(Facts(ACTIVE))


def test_a_title_decides_nothing() -> None:
    """L11: with another title the code is the same, and every other fact."""
    for facts in (APPROVAL, UNKNOWN, SENDING, BROKEN):
        one = standing.read(Facts(facts, Way.PERSON, title="Add a row")).reason
        other = standing.read(Facts(facts, Way.PERSON, title="Nothing at all")).reason
        assert one.code == other.code
        assert {**one.facts, "title": ""} == {**other.facts, "title": ""}


def test_what_came_is_no_question_any_more() -> None:
    """U7, F4: a grant or a connection that is there again is moved on by the host."""
    for asked, paused in product((CONNECTION, GRANT), (False, True)):
        assert standing.needs_person(Facts(asked, Way.PERSON, paused))
        assert not standing.needs_person(Facts(asked, Way.HOST, paused, due_at_ms=NOW))


# -- Inputs ---------------------------------------------------------------------------------


def work(status: EventStatus) -> CausedEvent:
    return CausedEvent(status, has_consumer=True)


TERMINAL = CausedEvent(EventStatus.PENDING, has_consumer=False)
PENDING, RESERVED = work(EventStatus.PENDING), work(EventStatus.RESERVED)
CONSUMED, SKIPPED = work(EventStatus.CONSUMED), work(EventStatus.SKIPPED)


@pytest.mark.parametrize(
    ("caused", "expected"),
    [
        ([PENDING], InputStatus.PENDING),
        ([CONSUMED, RESERVED], InputStatus.PENDING),
        ([SKIPPED, PENDING], InputStatus.PENDING),
        ([SKIPPED], InputStatus.SKIPPED),
        ([SKIPPED, SKIPPED, TERMINAL], InputStatus.SKIPPED),
        ([CONSUMED, SKIPPED], InputStatus.DONE),
        ([CONSUMED, TERMINAL], InputStatus.DONE),
        ([TERMINAL], InputStatus.DONE),
        ([CausedEvent(EventStatus.PENDING, False, is_orphaned=True)], InputStatus.PENDING),
        ([CausedEvent(EventStatus.SKIPPED, False, is_orphaned=True)], InputStatus.SKIPPED),
    ],
)
def test_an_input_is_pending_until_all_it_caused_is_finished(
    caused: list[CausedEvent], expected: InputStatus
) -> None:
    """U2: skipped only if all of it was; an event nobody consumes is never pending work."""
    assert standing.input_status(caused) is expected


def test_work_is_stale_after_more_than_seven_days() -> None:
    """U4: at seven days not yet; never in a terminal topic, never when reserved or finished."""
    week_ago = NOW - 7 * DAY_MS
    assert not standing.is_stale(PENDING, week_ago, NOW, 7)
    assert standing.is_stale(PENDING, week_ago - 1, NOW, 7)
    for other in (RESERVED, CONSUMED, SKIPPED, TERMINAL):
        assert not standing.is_stale(other, week_ago - 1, NOW, 7)


# -- Who moves it on ------------------------------------------------------------------------


def test_a_time_is_named_only_for_what_the_host_does_at_a_time() -> None:
    """U7: a decision of a person has no hour."""
    assert standing.mover(Facts(APPROVAL, Way.PERSON, due_at_ms=9)) == (Mover.PERSON, None)
    assert standing.mover(Facts(ASKING, Way.RECONCILER, due_at_ms=9)) == (Mover.RECONCILER, 9)
    assert standing.mover(Facts(BACKOFF, Way.BACKOFF, due_at_ms=9)) == (Mover.BACKOFF, 9)


def test_while_paused_only_asking_and_what_is_under_way_go_on() -> None:
    """U7: everything else waits for the resume, whatever would have moved it."""
    held = Facts(BACKOFF, Way.BACKOFF, paused=True, due_at_ms=9)
    assert standing.mover(held) == (Mover.RESUME, None)
    asking = Facts(ASKING, Way.RECONCILER, paused=True, due_at_ms=9)
    assert standing.mover(asking) == (Mover.RECONCILER, 9)


def test_every_way_a_run_can_go_has_its_mover() -> None:
    """U7: who or what moves it on is always a fact."""
    assert {Mover(way) for way in Way} <= set(Mover)


def test_what_is_offered_is_what_the_rules_allow() -> None:
    """U7: the verbs of a waiting proposal, and of an unknown change; no second pause."""
    assert {Act.APPROVE, Act.REJECT} <= set(standing.offered(APPROVAL, is_paused=False))
    assert Act.APPROVE not in standing.offered(APPROVAL, is_paused=True)
    unknown = set(standing.offered(UNKNOWN, is_paused=True))
    assert unknown == {Act.TRY_AGAIN, Act.DID_NOT_HAPPEN, Act.HAPPENED, Act.SKIP}
