"""Keys, re-sends, and when an absence can be believed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.rules import ledger
from duly.rules.lifecycle import GROWS_GENERATION
from duly.rules.word import Answer

INPUTS = [("email.received", "m1"), ("email.received", "m2"), ("calendar", "m1")]
MINUTE_MS = 60_000


def may_resend(**changed: object) -> bool:
    """Ask with a call that may be sent again, changed as told."""
    facts: dict[str, object] = {
        "idempotent": True,
        "resends": 0,
        "now_ms": 10 * MINUTE_MS,
        "first_sent_ms": 0,
        "timeout_ms": 30_000,
        "lag_ms": 60_000,
        "key_lifetime_ms": 24 * 60 * MINUTE_MS,
    }
    return ledger.may_resend(**{**facts, **changed})  # type: ignore[arg-type]  # facts by name


@pytest.mark.parametrize(("since_end_ms", "settled"), [(0, False), (4_999, False), (5_000, True)])
def test_an_absence_is_believed_only_after_the_lag(since_end_ms: int, settled: bool) -> None:
    """L6: until then a request may still land, and "not there" counts as unsure."""
    assert ledger.is_absence_settled(5_000, since_end_ms) is settled


def test_a_tool_that_is_not_idempotent_is_never_sent_again() -> None:
    """L7: only a tool that declares it."""
    assert may_resend()
    assert not may_resend(idempotent=False)


def test_an_unknown_call_is_sent_again_at_most_five_times() -> None:
    """L7: the fifth is the last."""
    assert may_resend(resends=4)
    assert not may_resend(resends=5)


def test_a_key_is_used_only_while_the_whole_send_fits_into_its_lifetime() -> None:
    """L7: now + timeout + lag must be before the first send + lifetime, not merely now."""
    lifetime = 20 * MINUTE_MS
    assert may_resend(key_lifetime_ms=lifetime, now_ms=lifetime - 90_001)
    assert not may_resend(key_lifetime_ms=lifetime, now_ms=lifetime - 90_000)
    assert may_resend(key_lifetime_ms=math.inf)


def test_only_a_refusal_on_the_merits_grows_the_generation() -> None:
    """L7: not sent, sign-in, permission, rate limit and doubt keep the key as it is."""
    assert {Answer.REFUSED, Answer.REMEMBERED} == GROWS_GENERATION


@given(st.permutations(INPUTS))
def test_the_key_does_not_depend_on_the_order_of_the_inputs(inputs: list[tuple[str, str]]) -> None:
    """L7: the same set has the same key, whoever reserved it and in whatever order."""
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
    """L5: five background attempts, then a person."""
    assert [ledger.is_last_ask(asks, 5) for asks in range(6)] == [False] * 4 + [True] * 2
