"""Keys, re-sends, and when an absence can be believed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.rules import ledger
from duly.rules.catalog import Tool, ToolKind
from duly.rules.ledger import Stamp, Terms
from duly.rules.lifecycle import GROWS_GENERATION
from duly.rules.word import Answer

INPUTS = [("email.received", "m1"), ("email.received", "m2"), ("calendar", "m1")]
MINUTE_MS = 60_000


BOOT = "boot-1"
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
TERMS = Terms(lag_ms=60_000, timeout_ms=30_000, key_lifetime_ms=DAY_MS)
FIRST = Stamp(0, BOOT, 0)
TOOL = Tool(
    "sheet.append", ToolKind.MUTATION, "sheet.append", idempotent=True, key_lifetime_s=86_400
)


def later(ms: int, *, wall_ms: int | None = None, boot: str | None = BOOT) -> Stamp:
    """Spell a moment after the first send; its wall clock may say something else."""
    return Stamp(ms if wall_ms is None else wall_ms, boot, ms)


def may_resend(
    now: Stamp = later(10 * MINUTE_MS),  # noqa: B008  # it is a value
    terms: Terms = TERMS,
    firsts: tuple[Stamp, ...] = (FIRST,),
    resends: int = 0,
) -> bool:
    """Ask with a call that may be sent again, changed as told."""
    return ledger.may_resend(terms, firsts, now, resends=resends)


@pytest.mark.parametrize(("since_end_ms", "settled"), [(0, False), (4_999, False), (5_000, True)])
def test_an_absence_is_believed_only_after_the_lag(since_end_ms: int, settled: bool) -> None:
    """L6: until then a request may still land, and "not there" counts as unsure."""
    assert ledger.is_absence_settled(5_000, since_end_ms) is settled


def test_a_tool_that_is_not_idempotent_is_never_sent_again() -> None:
    """L7: only a tool that declares it."""
    assert may_resend()
    assert not may_resend(terms=replace(TERMS, key_lifetime_ms=None))


def test_an_unknown_call_is_sent_again_at_most_five_times() -> None:
    """L7: the fifth is the last."""
    assert may_resend(resends=4)
    assert not may_resend(resends=5)


def test_a_key_is_used_only_while_the_whole_send_fits_into_its_lifetime() -> None:
    """L7: now + timeout + lag must be before the first send + lifetime, not merely now."""
    terms = replace(TERMS, key_lifetime_ms=20 * MINUTE_MS)
    assert may_resend(later(20 * MINUTE_MS - 90_001), terms)
    assert not may_resend(later(20 * MINUTE_MS - 90_000), terms)


def test_a_key_the_outside_never_forgets_has_no_age() -> None:
    """L7: whatever the clocks say, a unique column still has it."""
    terms = Terms.of(replace(TOOL, key_lifetime_s=math.inf))
    assert may_resend(Stamp(-DAY_MS), terms)
    assert may_resend(later(10_000 * DAY_MS), terms)


@pytest.mark.parametrize("wall_ms", [-30 * DAY_MS, 0, HOUR_MS])
def test_within_one_boot_no_clock_that_was_set_back_makes_a_key_young(wall_ms: int) -> None:
    """L7: the clock of the boot says how old it is."""
    assert may_resend(later(23 * HOUR_MS, wall_ms=wall_ms))
    assert not may_resend(later(DAY_MS, wall_ms=wall_ms))


def test_of_two_clocks_in_one_boot_the_older_age_is_believed() -> None:
    """L7: a virtual machine that stood still for two days knows it by the wall clock alone."""
    assert not may_resend(later(MINUTE_MS, wall_ms=2 * DAY_MS))


OTHER_BOOTS = [Stamp(0), Stamp(0, "boot-0", 0), Stamp(0, BOOT, 2 * HOUR_MS)]


@pytest.mark.parametrize("first", OTHER_BOOTS, ids=["unknown", "other", "runs backwards"])
def test_after_a_reboot_the_wall_clock_is_believed_with_a_margin_of_a_day(first: Stamp) -> None:
    """L7: a key of 25 hours is good for an hour, less the send itself; one of a day for nothing."""
    terms = replace(TERMS, key_lifetime_ms=25 * HOUR_MS)
    assert may_resend(later(HOUR_MS - 90_001), terms, (first,))
    assert not may_resend(later(HOUR_MS - 90_000), terms, (first,))
    assert not may_resend(later(0), TERMS, (first,))
    assert not may_resend(later(HOUR_MS, wall_ms=-1), replace(terms, key_lifetime_ms=50), (first,))


@pytest.mark.parametrize("wall_ms", [-30 * DAY_MS, 0, 30 * DAY_MS])
def test_between_machines_the_clock_of_the_server_is_believed(wall_ms: int) -> None:
    """L7: with the same margin, whatever the two wall clocks say; set back it says nothing."""
    terms, first = replace(TERMS, key_lifetime_ms=25 * HOUR_MS), Stamp(0, "boot-0", 0, 7)

    def now(clock_ms: int) -> Stamp:
        return replace(later(HOUR_MS, wall_ms=wall_ms), clock_ms=clock_ms)

    assert may_resend(now(7 + HOUR_MS - 90_001), terms, (first,))
    assert not may_resend(now(7 + HOUR_MS - 90_000), terms, (first,))
    assert not may_resend(now(6), replace(terms, key_lifetime_ms=1000 * DAY_MS), (first,))


def test_a_clock_before_the_first_send_says_nothing_after_a_reboot() -> None:
    """L7: it was set back, by nobody knows how much."""
    terms = replace(TERMS, key_lifetime_ms=1000 * DAY_MS)
    assert not may_resend(later(HOUR_MS, wall_ms=-1, boot="boot-2"), terms)


def test_the_age_of_a_key_is_that_of_its_oldest_send_by_any_row() -> None:
    """L7: the outside has known the key since then."""
    young = later(DAY_MS - 5 * MINUTE_MS)
    assert may_resend(later(DAY_MS), TERMS, (young,))
    assert not may_resend(later(DAY_MS), TERMS, (young, FIRST))
    assert not may_resend(later(DAY_MS), TERMS, ())


def test_the_stricter_of_what_was_kept_and_what_the_tool_says_now_holds() -> None:
    """L6: the longer lag and timeout, the shorter lifetime; a key must have been one throughout."""
    now = Terms.of(TOOL)
    assert now == Terms(60_000, 30_000, DAY_MS)
    assert ledger.terms_of(Terms(5, 90_000, 2 * DAY_MS), TOOL) == Terms(60_000, 90_000, DAY_MS)
    assert ledger.terms_of(Terms(90_000, 5, 7), TOOL) == Terms(90_000, 30_000, 7)
    assert ledger.terms_of(Terms(1, 1, None), TOOL).key_lifetime_ms is None


def test_what_was_kept_holds_without_the_connector() -> None:
    """L6: and of a row that kept nothing, nothing is believed for a day."""
    kept = Terms(600_000, 30_000, 7)
    assert ledger.terms_of(kept, None) == kept
    assert ledger.terms_of(None, TOOL) == Terms.of(TOOL)
    assert ledger.terms_of(None, None) == Terms(DAY_MS, DAY_MS, None)


def test_only_a_refusal_on_the_merits_grows_the_generation() -> None:
    """L7: not sent, sign-in, permission, rate limit and doubt keep the key as it is."""
    assert {Answer.REFUSED, Answer.REMEMBERED} == GROWS_GENERATION


@given(st.permutations(INPUTS))
def test_the_key_does_not_depend_on_the_order_of_the_inputs(inputs: list[tuple[str, str]]) -> None:
    """L7: the same set has the same key, whichever run reserved it and in whatever order."""
    assert ledger.inputs_digest("w", "c", inputs) == ledger.inputs_digest("w", "c", INPUTS)


def test_the_key_depends_on_everything_it_stands_for() -> None:
    """L7: workflow id, consumer, inputs and generation; no two of them can be confused."""
    digests = {
        ledger.inputs_digest("w", "c", INPUTS),
        ledger.inputs_digest("w2", "c", INPUTS),
        ledger.inputs_digest("w", "c2", INPUTS),
        ledger.inputs_digest("w", "c", INPUTS[:2]),
        ledger.inputs_digest("w", "c", [("email", "received/m1")]),
        ledger.inputs_digest("w", "c", [("email/received", "m1")]),
    }
    assert len(digests) == 6
    digest = ledger.inputs_digest("w", "c", INPUTS)
    assert len({ledger.idempotency_key(digest, generation) for generation in range(3)}) == 3


def test_the_key_is_the_same_in_every_process() -> None:
    """L7: after a restart or on another host the same inputs still have this very key."""
    digest = ledger.inputs_digest("wf_1", "process", [("in", "m1")])
    assert ledger.idempotency_key(digest, 0) == (
        "08e6c890266d96854ab97db97b7a5ed78319c5b18da922d0f2113471b7f88393"
    )


@pytest.mark.parametrize(
    ("is_repeatable", "can_be_asked", "is_paused", "chosen"),
    [
        (True, True, False, "send again"),
        (True, False, False, "send again"),
        (True, True, True, "ask"),
        (True, False, True, "wait"),
        (False, True, False, "ask"),
        (False, True, True, "ask"),
        (False, False, False, "give up"),
        (False, False, True, "give up"),
    ],
)
def test_an_unknown_call_is_sent_again_asked_about_or_told_to_a_person(
    is_repeatable: bool, can_be_asked: bool, is_paused: bool, chosen: str
) -> None:
    """L5, L7, F7: a key before a question, a question before a person; paused sends nothing."""
    found = ledger.recourse(
        is_repeatable=is_repeatable, can_be_asked=can_be_asked, is_paused=is_paused
    )
    assert found == chosen


def test_the_fifth_question_without_an_answer_is_the_last() -> None:
    """L5: five answers of Unsure in the background, then a person."""
    assert [ledger.is_last_ask(asks, 5) for asks in range(6)] == [False] * 4 + [True] * 2
