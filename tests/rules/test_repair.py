"""When a repair is asked for, how it is numbered, and why it is not adopted."""

from __future__ import annotations

import pytest

from duly.fact import Reason
from duly.rules.access import Step
from duly.rules.declaration import ConsumerDeclaration, Declaration, ProducerDeclaration
from duly.rules.lifecycle import FAILS_AT, Counts
from duly.rules.repair import (
    REASON_CHARS,
    STEP_AT,
    adoption_refusal,
    ask_refusal,
    asked_today,
    cut,
    left_out,
    next_repair,
    replay_refusal,
)
from duly.rules.replay import Difference, OutsideChange, Replay
from duly.rules.schedule import DAY_MS
from duly.rules.word import Failure, Phase
from duly.words import say_difference
from duly.words.repair import say_deed, say_unrepaired

NOW = 10 * DAY_MS
FILE = ConsumerDeclaration("file", ("mail", "letter"), (Step.PREPARE, Step.MUTATE))
POLL = ProducerDeclaration("poll")
OLD = Declaration("flow", producers=(POLL,), consumers=(FILE,))


def test_every_phase_a_script_can_fail_in_names_its_step() -> None:
    """F1, F3: a repairer is told in which step it was."""
    fails = {phase for phase, failures in FAILS_AT.items() if Failure.LOGIC in failures}
    assert STEP_AT.keys() == fails
    assert STEP_AT[Phase.EMITTING] is Step.NEXT


@pytest.mark.parametrize(
    ("repairs", "chain", "is_asked"),
    [(0, 0, True), (9, 1, True), (10, 0, False), (0, 2, False), (11, 3, False)],
)
def test_asking_is_bounded_per_chain_and_per_day(repairs: int, chain: int, is_asked: bool) -> None:
    """F3: two per chain and ten a day; at the limit nobody is asked any more."""
    refusal = ask_refusal(Counts(repair=chain), repairs, chain_max=2, day_max=10, has_repairer=True)
    assert (refusal is None) == is_asked


def test_the_reason_says_which_limit_it_was() -> None:
    """F3, F8: in words, with the number."""

    def asked(counts: Counts, today: int, day_max: int = 10, *, is_there: bool = True) -> str:
        found = ask_refusal(counts, today, chain_max=2, day_max=day_max, has_repairer=is_there)
        return said(found)

    assert asked(Counts(repair=2), 0) == (
        "a repair was asked for twice, which is all the policy allows."
    )
    assert asked(Counts(), 10) == (
        "a repair was asked for 10 times within a day, which is all the policy allows."
    )
    assert asked(Counts(), 0, is_there=False) == "there is no repairer."
    assert asked(Counts(), 0, day_max=0) == "the policy allows no repairs."


@pytest.mark.parametrize(
    ("since", "asked"),
    [(NOW, 7), (NOW - DAY_MS + 1, 7), (NOW - DAY_MS, 0), (NOW + 5, 7), (NOW + DAY_MS, 0)],
)
def test_a_day_begins_with_its_first_question(since: int, asked: int) -> None:
    """F3: a clock set back forgives nothing; one that was years ahead does not block for years."""
    assert asked_today(7, since, NOW) == asked


@pytest.mark.parametrize(
    ("failed", "known", "number"),
    [
        ("1.0", (), "1.1"),
        ("1.0", ("1.0", "1.1"), "1.2"),
        ("1.2", ("1.0", "1.1", "2.0", "2.7"), "1.3"),
        ("2.9", ("2.10", "20.40"), "2.11"),
    ],
)
def test_a_repair_is_the_next_minor_version_that_is_free(
    failed: str, known: tuple[str, ...], number: str
) -> None:
    """W8: counted as numbers, proposals included, whatever major is active now."""
    assert next_repair(failed, known) == number


def said(reason: Reason | None) -> str:
    """Say a reason; there must be one."""
    assert reason is not None
    return say_unrepaired(reason)


def refusal(new: Declaration = OLD, **more: object) -> Reason | None:
    """Ask about a repair that is fine unless told otherwise."""
    plain: dict[str, object] = {
        "findings": (),
        "used": frozenset({"a.read"}),
        "granted": frozenset({"a.read", "b.write"}),
    }
    return adoption_refusal(OLD, new, **{**plain, **more})  # type: ignore[arg-type]


def test_a_repair_that_keeps_within_everything_is_adopted() -> None:
    """F3, A2: it may use less, or other things that are granted, and do more."""
    more = ConsumerDeclaration("more", ("out",))
    grown = Declaration("flow", producers=(POLL,), consumers=(FILE, more))
    assert refusal() is None
    assert refusal(grown, used=frozenset({"b.write"})) is None


def test_a_repair_never_widens_the_envelope() -> None:
    """A2: what is missing is named, all of it."""
    assert said(refusal(used=frozenset({"c.delete"}))) == "it needs c.delete, which is not granted."
    assert said(refusal(used=frozenset({"c.delete", "a.read", "b.delete", "d"}))) == (
        "it needs b.delete, c.delete and d, which are not granted."
    )


def test_findings_keep_a_repair_from_being_adopted() -> None:
    """W5: every repair is strict; what is said of it is cut where it grows long."""
    found = refusal(findings=("1:1: a.", "2:1: b."))
    assert said(found) == "it does not check clean: 1:1: a. 2:1: b."
    assert len(said(refusal(findings=["x" * 5000]))) < REASON_CHARS + 50


@pytest.mark.parametrize(
    ("new", "lost"),
    [
        (Declaration("flow", consumers=(FILE,)), ("“poll”",)),
        (
            Declaration("flow", producers=(POLL,)),
            ("“file” for “mail”", "“file” for “letter”", "the change “file” makes"),
        ),
        (
            Declaration(
                "flow", producers=(POLL,), consumers=(ConsumerDeclaration("file", ("mail",)),)
            ),
            ("“file” for “letter”", "the change “file” makes"),
        ),
    ],
)
def test_what_a_repair_leaves_out_is_named(new: Declaration, lost: tuple[str, ...]) -> None:
    """F3, W9: a handler, a subscription or a mutation less fails less, and does less."""
    assert tuple(map(say_deed, left_out(OLD, new))) == lost
    assert said(refusal(new)).startswith("it leaves out “")


def test_a_replay_that_differs_is_told_by_its_first_difference() -> None:
    """F3: and how many more there are."""
    same = OutsideChange("sheet.append", {"text": "a"})
    first = Difference("run_1", ("Mail",), same, None)
    told = say_difference(first)
    assert replay_refusal(Replay(3), "") is None
    assert said(replay_refusal(Replay(3, (first,)), told)).endswith("now it would change nothing.")
    assert said(replay_refusal(Replay(3, (first, first, first)), told)).endswith("(and 2 more)")


def test_words_are_cut_one_past_the_limit() -> None:
    """F8: a person reads a sentence, not a page."""
    assert cut("x" * REASON_CHARS) == "x" * REASON_CHARS
    assert len(cut("x" * (REASON_CHARS + 1))) == REASON_CHARS
    assert cut("x" * 9999).endswith("x… (9999 characters)")
