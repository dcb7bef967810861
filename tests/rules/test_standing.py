"""What a person is told: one standing, one sentence, no words of the machinery."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import pytest

from duly.errors import RequestRefused
from duly.rules import standing
from duly.rules.event import EventStatus
from duly.rules.lifecycle import Run
from duly.rules.standing import CausedEvent, Count, Facts, InputStatus, Standing
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


def every_fact() -> Iterator[Facts]:
    """Every combination of facts, those that cannot be reached included."""
    runs: list[Run | None] = [None]
    for status, row, waits in product(OPEN, (None, *MutationStatus), (None, *Waits)):
        if status is not Status.PAUSED_APPROVAL or waits is not None:
            runs.append(run(status, row, waits))
    for open_run, paused, told, name, title, due_at_ms in product(
        runs, (False, True), (None, "The same mail failed three times"), (None, "Gmail"),
        (None, "Add a row"), (None, NOW - 1, NOW + 90_000),
    ):  # fmt: skip
        yield Facts(open_run, paused, told, name, title, due_at_ms)


# -- Standing -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "expected", "reason"),
    [
        (Facts(), IDLE, "Nothing to do right now"),
        (Facts(ACTIVE), RUNNING, "At work"),
        (Facts(SENDING, title="Add a row"), RUNNING, "Sending “Add a row”"),
        (Facts(SENDING), RUNNING, "Sending a change"),
        (
            Facts(BACKOFF, due_at_ms=NOW + 120_000),
            RUNNING,
            "A passing trouble; trying again in 2 min",
        ),
        (Facts(BACKOFF, due_at_ms=NOW), RUNNING, "A passing trouble; trying again now"),
        (Facts(BROKEN), RUNNING, "The script is being repaired"),
        (Facts(ASKING), RUNNING, "Finding out whether a change happened"),
        (Facts(run(Status.CRASHED)), RUNNING, "Going on after an interruption"),
        (Facts(paused=True), STOPPED, "Paused by you"),
        (Facts(BACKOFF, paused=True), STOPPED, "Paused by you"),
        (
            Facts(SENDING, paused=True, title="Add a row"),
            STOPPED,
            "Paused by you; “Add a row” under way will still be finished",
        ),
        (Facts(FAULT), STOPPED, "A fault of Duly or a connector stopped it; it waits for you"),
        (Facts(FAULT, escalated="Gmail's reader broke"), STOPPED, "Gmail's reader broke"),
        (Facts(APPROVAL, title="Add a row"), NEEDS, "Waiting for you to approve “Add a row”"),
        (Facts(CONNECTION, waits_for="Gmail"), NEEDS, "Waiting for you to reconnect Gmail"),
        (Facts(GRANT, waits_for="sheets.append"), NEEDS, "Waiting for you to allow sheets.append"),
        (Facts(UNKNOWN), NEEDS, "Waiting for you to say whether a change happened"),
        (Facts(UNKNOWN, paused=True), NEEDS, "Waiting for you to say whether a change happened"),
        (Facts(CONNECTION, paused=True), NEEDS, "Waiting for you to reconnect a connection"),
        (Facts(BROKEN, escalated="It failed three times"), NEEDS, "It failed three times"),
        (Facts(is_due=True), IDLE, "Nothing under way yet; it begins in a moment"),
        (Facts(paused=True, paused_by="anna", is_due=True), STOPPED, "Paused by anna"),
        (
            Facts(SENDING, tool="sheets.delete_row", title="Add a row"),
            RUNNING,
            "Sending sheets.delete_row (the script calls it “Add a row”)",
        ),
        (Facts(SENDING, tool="a.b", is_unsent=True), RUNNING, "About to send a.b (no title given)"),
        (Facts(SENDING, tool="a.b", is_unsent=True, paused=True), STOPPED, "Paused by you"),
        (
            Facts(GRANT, waits_for="sheets.append", due_at_ms=NOW),
            RUNNING,
            "Going on, since sheets.append is there",
        ),
        (Facts(GRANT, due_at_ms=NOW, paused=True), STOPPED, "Paused by you"),
        (Facts(BACKOFF, escalated="Gmail is down", paused=True), NEEDS, "Gmail is down"),
    ],
)
def test_a_workflow_has_the_first_standing_that_applies(
    facts: Facts, expected: Standing, reason: str
) -> None:
    """U1: needs attention before stopped before running before idle, with one sentence."""
    assert standing.read(facts, NOW) == standing.Reading(expected, reason)


def test_the_standing_of_every_fact_is_the_one_the_rule_names() -> None:
    """U1: said a second time, as the rule says it, over all facts there can be."""
    for facts in every_fact():
        row = facts.run.row if facts.run else None
        internal = facts.status is Status.FAILED_INTERNAL
        waits = facts.run.waits if facts.run else None
        came = waits in (Waits.CONNECTION, Waits.GRANT) and facts.due_at_ms is not None
        asked = facts.status is Status.PAUSED_APPROVAL and not came
        unknown = row is MutationStatus.INDETERMINATE
        if asked or unknown or (facts.escalated and not internal and not came):
            expected = NEEDS
        elif facts.paused or internal:
            expected = STOPPED
        else:
            expected = IDLE if facts.run is None else RUNNING
        assert standing.read(facts, NOW).standing is expected, facts


MACHINERY = re.compile(
    r"\b(run|runs|phase|phases|topic|topics|retry|retries|retrying|retried|successor|mutation"
    r"|ledger|reconcile|indeterminate|reservation|consumer|producer|handler|transient|None)\b",
    re.IGNORECASE,
)


def test_no_word_of_the_machinery_is_needed_to_understand_a_standing() -> None:
    """U5: whatever the facts, the sentence is a person's sentence: short, plain, one."""
    reasons = {standing.read(facts, NOW).reason for facts in every_fact()}
    assert len(reasons) > 20
    for reason in reasons:
        assert not MACHINERY.search(reason), reason
        assert reason == reason.strip() != ""
        assert not reason.endswith(".")


def test_no_word_of_the_machinery_is_a_word_of_standing_or_inputs() -> None:
    """U5: the words themselves are plain too."""
    for word in (*Standing, *InputStatus):
        assert not MACHINERY.search(word)


# -- Activity -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "outputs", "words"),
    [
        ([Count(3, "email")], [Count(3, "row", "added")], "Processed 3 emails → 3 rows added"),
        ([Count(1, "email")], [Count(1, "row", "added")], "Processed 1 email → 1 row added"),
        ([Count(2, "reply")], [Count(2, "box")], "Processed 2 replies → 2 boxes"),
        ([Count(2, "day"), Count(1, "mail")], [], "Processed 2 days, 1 mail"),
        ([Count(2, "email"), Count(0, "form")], [Count(0, "row")], "Processed 2 emails"),
        ([], [Count(2, "row")], "→ 2 rows"),
        ([], [], "Nothing processed lately"),
    ],
)
def test_activity_is_counted_with_nouns(
    inputs: list[Count], outputs: list[Count], words: str
) -> None:
    """U1: singular and plural, and nothing is said of what there is none of."""
    assert standing.describe_activity(inputs, outputs) == words
    assert not MACHINERY.search(words)


def test_pending_work_is_counted() -> None:
    """U1: how much waits, or that nothing does."""
    assert standing.describe_pending(Count(2, "email")) == "2 emails waiting"
    assert standing.describe_pending(Count(0, "email")) == "Nothing waiting"


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


# -- Why ------------------------------------------------------------------------------------


def why(facts: Facts, way: Way) -> standing.Why:
    return standing.why(facts, way, NOW, inputs=("Email from alice",), observed="sheets.append()")


def test_why_keeps_what_is_claimed_apart_from_what_was_observed() -> None:
    """U7: inputs, claim, observation, reason, mover and time, each in its own place."""
    said = why(Facts(BACKOFF, title="Add a row", due_at_ms=NOW + 9), Way.BACKOFF)
    assert said.inputs == ("Email from alice",)
    assert (said.claimed, said.observed) == ("Add a row", "sheets.append()")
    assert said.reason.startswith("A passing trouble")
    assert (said.moved_on_by, said.at_ms) == (standing.MOVERS[Way.BACKOFF], NOW + 9)


def test_why_names_a_time_only_for_what_the_host_does_at_a_time() -> None:
    """U7: a decision of a person has no hour."""
    assert why(Facts(APPROVAL, due_at_ms=NOW + 9), Way.PERSON).at_ms is None
    assert why(Facts(ASKING, due_at_ms=NOW + 9), Way.RECONCILER).at_ms == NOW + 9


def test_while_paused_only_asking_and_what_is_under_way_go_on() -> None:
    """U7: everything else waits for the resume, whatever would have moved it."""
    held = why(Facts(BACKOFF, paused=True, due_at_ms=NOW + 9), Way.BACKOFF)
    assert (held.moved_on_by, held.at_ms) == (standing.PAUSED_MOVER, None)
    asking = why(Facts(ASKING, paused=True, due_at_ms=NOW + 9), Way.RECONCILER)
    assert (asking.moved_on_by, asking.at_ms) == (standing.MOVERS[Way.RECONCILER], NOW + 9)


def test_every_way_a_run_can_go_has_a_sentence() -> None:
    """U7: who or what moves it on is always said."""
    assert set(standing.MOVERS) == set(Way)


def test_what_is_offered_is_what_the_rules_allow() -> None:
    """U7: the verbs of a waiting proposal, and of an unknown change; no second pause."""
    assert {Act.APPROVE, Act.REJECT} <= set(why(Facts(APPROVAL), Way.PERSON).offered)
    assert Act.APPROVE not in why(Facts(APPROVAL, paused=True), Way.PERSON).offered
    unknown = set(why(Facts(UNKNOWN, paused=True), Way.PERSON).offered)
    assert unknown == {Act.TRY_AGAIN, Act.DID_NOT_HAPPEN, Act.HAPPENED, Act.SKIP}


def test_nothing_open_has_no_why() -> None:
    """U7: an idle workflow is told so, not given an empty explanation."""
    with pytest.raises(RequestRefused):
        why(Facts(), Way.HOST)
