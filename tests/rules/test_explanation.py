"""Sentences of why: every open state has one, and each says what it must to whom it must."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest

from duly.rules import chain, explanation, lifecycle
from duly.rules.account import (
    CAME_OF_IT,
    UNTOUCHED,
    OutputStatus,
    Past,
    explain_abandoned,
    explain_change,
    explain_followed,
    explain_held_up,
    explain_nothing_done,
    explain_orphaned,
    explain_stale,
    explain_untouched,
)
from duly.rules.event import EventStatus
from duly.rules.explanation import NO_HELP, Case, Rest, explain, explain_rest, needs_person
from duly.rules.lifecycle import Counts
from duly.rules.standing import (
    Count,
    Facts,
    add_up,
    count_of_tool,
    describe_waiting,
    noun_of_topic,
    singular,
)
from duly.rules.word import Kind, MutationStatus, Phase, Status, Waits, Way
from duly.rules.wording import QUOTE_CHARS_MAX, describe_moment, in_quotes, name_all, quote
from tests.rules import walk

NOW = 1_780_000_000_000
SECOND_MS = 1000
DAY_MS = 86_400_000
LOOK = "a look the script asked for"
TOOK_NOTHING = "the script looked and took nothing. It looks again when something new comes in"
UNTIL = "until then you can skip what waits, or deploy a version that takes it"
QUOTED = re.compile(r"“[^”]*”")
MACHINERY = re.compile(
    r"\b(runs?|phases?|topics?|ledger|reconcil\w*|indeterminate|mutations?|payloads?|handlers?"
    r"|transient|successors?|reserv\w*|consumers?|producers?|events?|None)\b",
    re.IGNORECASE,
)


def case(run: lifecycle.Run, *, paused: bool = False, **more: object) -> Case:
    """Everything that could be known of a run, at the end of its chances."""
    has_row = run.row is not None
    facts = Facts(
        run=run,
        paused=paused,
        waits_for="sheets" if run.waits else None,
        title="Add a row" if has_row else None,
        tool="sheets.append_row" if has_row else None,
    )
    way = chain.way(run, Counts(9, 9, 9, 9), has_repairer=False)
    return replace(
        Case(facts, way, NOW, ("Email from alice",), "it said no", 6),
        paused="the workflow was paused by anna on 3 May 09:12" if paused else "",
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("run", sorted(walk.OPEN, key=str))
def test_every_open_state_has_a_sentence_for_everybody(run: lifecycle.Run, paused: bool) -> None:
    """U5, U7: one or two sentences, no word of the machinery, whatever the state."""
    said = explain(case(run, paused=paused))
    plain = QUOTED.sub("X", said)
    assert not MACHINERY.search(plain), said
    assert 1 <= len(re.findall(r"\.(?: |$)", plain)) <= 2, said


@pytest.mark.parametrize("run", sorted(walk.OPEN, key=str))
def test_a_sentence_asks_a_person_exactly_where_only_a_person_can_help(run: lifecycle.Run) -> None:
    """U7, F8: what the host does by itself needs nobody, and says so."""
    asked = case(run)
    said = explain(asked)
    is_moving = "by itself" in said or "nothing is needed from you" in said
    assert needs_person(asked.facts, asked.way) is not is_moving, said


@pytest.mark.parametrize("run", [run for run in sorted(walk.OPEN, key=str) if run.row])
def test_a_sentence_that_names_a_claim_names_the_call(run: lifecycle.Run) -> None:
    """L11: never a title without what it stands for."""
    for paused in (False, True):
        said = explain(case(run, paused=paused))
        assert ("“Add a row”" in said) <= ("sheets.append_row (the script calls it" in said)


@pytest.mark.parametrize("run", [run for run in sorted(walk.OPEN, key=str) if run.row])
def test_a_title_decides_nothing(run: lifecycle.Run) -> None:
    """L11: with another title the same is said."""
    asked = case(run)
    other = replace(asked, facts=replace(asked.facts, title="Nothing at all"))
    assert explain(other) == explain(asked).replace("Add a row", "Nothing at all")


def test_what_came_is_no_question_any_more() -> None:
    """U7, F4: a grant or a connection that is there again is moved on by the host."""
    for waits, paused in product((Waits.CONNECTION, Waits.GRANT), (False, True)):
        run = lifecycle.Run(status=Status.PAUSED_APPROVAL, waits=waits)
        asked = case(run, paused=paused)
        assert needs_person(asked.facts, asked.way)
        came = replace(asked, facts=replace(asked.facts, due_at_ms=NOW), way=Way.HOST)
        assert not needs_person(came.facts, came.way)
        assert ("Resume it" in explain(came)) is paused


def test_an_approved_call_is_not_said_to_be_on_its_way() -> None:
    """U7, A4: before the first byte leaves nothing was sent."""
    run = lifecycle.Run(phase=Phase.MUTATING, status=Status.ACTIVE, row=MutationStatus.IN_FLIGHT)
    asked = case(run)
    assert "is on its way" in explain(asked)
    unsent = replace(asked, facts=replace(asked.facts, is_unsent=True))
    assert "is approved and is sent next" in explain(unsent)


def test_a_call_nobody_can_be_asked_about_waits_for_the_resume() -> None:
    """U7, F7, L7: it would have to be sent again, and a pause sends nothing."""
    run = lifecycle.Run(
        phase=Phase.MUTATING,
        status=Status.PAUSED_RECONCILIATION,
        row=MutationStatus.NEEDS_RECONCILE,
    )
    asked = case(run, paused=True)
    assert "Duly still finds out by itself" in explain(asked)
    assert explain(replace(asked, can_be_asked=False)).endswith(
        "Resume it, and Duly finds out by itself."
    )


def test_a_repair_is_waited_for_until_a_person_is_told() -> None:
    """U7, F3: then the same failure is theirs."""
    run = lifecycle.Run(status=Status.FAILED_LOGIC)
    asked = replace(case(run), way=Way.REPAIR)
    assert "A corrected version is being asked for" in explain(asked)
    told = replace(asked, facts=replace(asked.facts, escalated="It was not adopted"))
    assert "Deploy a corrected version" in explain(told)


# -- In the way -----------------------------------------------------------------------------------


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("run", sorted(walk.OPEN, key=str))
def test_what_stands_still_says_what_it_holds_up(run: lifecycle.Run, paused: bool) -> None:
    """F6, U7: still in two sentences; what the host moves on holds nothing up."""
    asked = case(run, paused=paused, workflow="orders", waiting="2 orders wait", suspect="Order 7")
    said = explain(asked)
    plain = QUOTED.sub("X", said)
    assert not MACHINERY.search(plain), said
    assert 1 <= len(re.findall(r"\.(?: |$)", plain)) <= 2, said
    stands_still = (asked.way is not Way.HOST or paused) and not asked.facts.has_call_out
    held = "; until then nothing else of “orders” begins, and 2 orders wait"
    assert (held in said) is stands_still
    assert said.count("until then") == stands_still or "nothing else" not in said
    assert explain(replace(asked, waiting="")) == explain(case(run, paused=paused, **NAMED))


NAMED: dict[str, object] = {"workflow": "orders", "suspect": "Order 7"}


def test_what_took_nothing_yet_has_nothing_behind_it() -> None:
    """F6: what waits may be the very thing it stands still over."""
    failed = lifecycle.Run(status=Status.FAILED_LOGIC)
    said = explain(case(failed, waiting="1 order waits"))
    assert said.endswith("; until then nothing else of the workflow begins, and 1 order waits.")
    later = lifecycle.Run(phase=Phase.MUTATING, status=Status.FAILED_LOGIC)
    assert explain(case(later, waiting="1 order waits")).endswith("1 order waits behind it.")


def test_a_cause_nobody_knows_is_named_as_a_possibility() -> None:
    """U3, U7: only where nothing was taken, and never as a fact."""
    failed = lifecycle.Run(status=Status.FAILED_LOGIC)
    asked = replace(case(failed), inputs=(), suspect="Mail” is fine. “")
    assert '; if “Mail" is fine. "” is the cause, skip it.' in explain(asked)
    assert "is the cause" not in explain(replace(asked, suspect=""))


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((), ""),
        ((Count(0, "order"),), ""),
        ((Count(1, "order"),), "1 order waits"),
        ((Count(2, "order"),), "2 orders wait"),
        ((Count(1, "mail"), Count(1, "order")), "1 mail, 1 order wait"),
        ((Count(1, "order", is_more=True),), "1+ orders wait"),
    ],
)
def test_how_much_waits_is_said_to_go_on_from(counts: tuple[Count, ...], words: str) -> None:
    """F6, U1: with the verb that goes with the number."""
    assert describe_waiting(*counts) == words


@pytest.mark.parametrize(
    ("titles", "is_yours", "words"),
    [
        (("Order 1",), True, "It waits behind “Order 1”, which waits for you."),
        (("Order 1", "Order 2"), False, "It waits behind “Order 1” and 1 more, which is not"),
        ((), True, "It waits until its workflow goes on, which waits for you."),
        ((), False, "It waits until its workflow goes on."),
    ],
)
def test_an_input_says_what_is_in_its_way(
    titles: tuple[str, ...], is_yours: bool, words: str
) -> None:
    """F6, U2: only while it waits; what was skipped was skipped all the same."""
    said = explain_held_up(titles, is_yours=is_yours)
    assert said.startswith(words)
    assert explain_untouched(EventStatus.PENDING, held_up=said) == said
    assert explain_untouched(EventStatus.SKIPPED, held_up=said) == "It was skipped."
    assert "left it behind" in explain_untouched(
        EventStatus.PENDING, is_left_behind=True, held_up=said
    )


# -- Nothing is open ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (Rest(NOW), "Nothing is waiting. It begins when something comes in."),
        (
            Rest(NOW, can_be_asked=True),
            "Nothing is waiting. It begins when something comes in, or when you ask for a check.",
        ),
        (
            Rest(NOW, check_at_ms=NOW + 180 * SECOND_MS, wake_at_ms=NOW + 7200 * SECOND_MS),
            f"Nothing is waiting; the next check comes in 3 min, and {LOOK} comes in 2 h.",
        ),
        (
            Rest(NOW, waiting="2 emails waiting", check_at_ms=NOW + 60 * SECOND_MS),
            f"With 2 emails waiting, {TOOK_NOTHING}; the next check comes in 60 s; {UNTIL}.",
        ),
        (
            Rest(NOW, paused="the workflow was paused by anna", is_due=True),
            "The workflow was paused by anna. Resume it to go on.",
        ),
        (
            Rest(NOW, is_due=True, check_at_ms=NOW),
            f"There is something to do, and Duly begins as soon as it gets to it; {NO_HELP}.",
        ),
    ],
)
def test_why_nothing_happens_is_said_by_what_is_planned(rest: Rest, said: str) -> None:
    """U7: the pause first, then what is due, what holds it back, what is planned."""
    assert explain_rest(rest) == said


def test_half_a_minute_of_rest_has_its_reason() -> None:
    """U7, S3: how long, and why."""
    said = explain_rest(Rest(NOW, rests_until_ms=NOW + 30 * SECOND_MS))
    assert said.startswith("It waits for 30 s, because ")


# -- It is over -----------------------------------------------------------------------------------


def test_how_a_change_ended_is_said_with_who_ended_it() -> None:
    """U7, A6: by name where a person did, and what was never sent is never called done."""
    past = Past("3 May 09:12", "sheets.append_row", ("Email",), message="no room. Try later.")
    anna = replace(past, by="anna")
    assert explain_change(past, MutationStatus.APPLIED) == (
        "Done on 3 May 09:12: sheets.append_row for “Email”."
    )
    assert ", as anna said:" in explain_change(anna, MutationStatus.APPLIED)
    resent = replace(past, is_resent=True)
    assert explain_change(resent, MutationStatus.APPLIED).startswith(
        "Done on 3 May 09:12, sent once more in a way that cannot make it twice: "
    )
    assert explain_change(anna, MutationStatus.REJECTED).startswith("Declined by anna on ")
    assert explain_change(anna, MutationStatus.SKIPPED).startswith("Skipped by anna on ")
    assert "ended with “no room”." in explain_change(past, MutationStatus.FAILED)
    unsent = replace(past, is_sent=False)
    assert explain_change(unsent, MutationStatus.FAILED).endswith("was never sent.")


@pytest.mark.parametrize("verb", ["abandon", "skip", "pause"])
def test_who_ended_something_is_named(verb: str) -> None:
    """U7, A6: with what is left of it."""
    past = Past("3 May 09:12", "sheets.append_row", ("Email",), by="anna", verb=verb)
    assert "anna" in explain_abandoned(past, None)
    assert explain_abandoned(past, None).endswith("nothing was changed for “Email”.")
    done = explain_abandoned(past, MutationStatus.APPLIED)
    assert done.endswith("sheets.append_row for “Email” is done and stays so.")


def test_what_made_no_change_says_so() -> None:
    """U7: a check, nothing to do, nothing to change."""
    past = Past("3 May 09:12")
    assert "checked" in explain_nothing_done(past, Kind.PRODUCER)
    assert "nothing to do" in explain_nothing_done(past, Kind.CONSUMER)
    mail = replace(past, inputs=("Email",))
    assert "“Email” needed no change" in explain_nothing_done(mail, Kind.CONSUMER)
    assert "was taken up again" in explain_followed(past)


def test_every_word_of_an_output_and_of_an_input_has_a_sentence() -> None:
    """U2: the tables are whole."""
    assert set(CAME_OF_IT) == set(OutputStatus)
    assert set(UNTOUCHED) == set(EventStatus)
    assert explain_untouched(EventStatus.SKIPPED, by="anna") == "It was skipped by anna."


def test_a_title_is_quoted_wherever_it_is_named() -> None:
    """L11: also among what was left and what waits too long."""
    bad = "Mail” is fine. “"
    for said in (explain_orphaned("1 mail", bad, "2.0"), explain_stale("1 mail", 7, bad, "today")):
        assert '“Mail" is fine. "”' in said


# -- Words ----------------------------------------------------------------------------------------


def test_a_quote_is_the_first_sentence_and_not_longer_than_its_limit() -> None:
    """U5: at the limit whole, one past it cut."""
    assert quote("No room. Try later.\nTraceback") == "“No room”"
    assert quote("  ") == ""
    assert quote("x" * QUOTE_CHARS_MAX) == in_quotes("x" * QUOTE_CHARS_MAX)
    assert quote("x" * (QUOTE_CHARS_MAX + 1)) == in_quotes("x" * 182 + "… (201 characters)")


def test_of_many_titles_one_is_named() -> None:
    """U5: and how many more there are."""
    assert name_all(()) == ""
    assert name_all(("a",)) == "“a”"
    assert name_all(("a", "b", "c")) == "“a” and 2 more"


@pytest.mark.parametrize(
    ("zone", "words"), [("UTC", "28 May 20:26"), ("Europe/Berlin", "28 May 22:26")]
)
def test_a_moment_is_said_on_the_reader_s_clock(zone: str, words: str) -> None:
    """U1: with its year only if that is another one."""
    assert describe_moment(NOW, NOW + DAY_MS, zone) == words
    assert describe_moment(NOW, NOW + 365 * DAY_MS, zone) == words.replace("May", "May 2026")


@pytest.mark.parametrize(
    ("topic", "noun"),
    [
        ("email.received", "email"),
        ("emails.received", "email"),
        ("entries", "entry"),
        ("boxes_in", "box"),
        ("address-new", "address"),
        ("status", "status"),
        ("in", "input"),
        ("42.things", "input"),
    ],
)
def test_what_comes_in_is_named_after_its_topic(topic: str, noun: str) -> None:
    """U1: by its first word, made singular; a word that says nothing is an input."""
    assert noun_of_topic(topic) == noun
    assert singular(noun) == noun


@pytest.mark.parametrize(
    ("tool", "noun", "words"),
    [
        ("sheets.append_row", "row", "3 rows added"),
        ("sheets.delete_row", "row", "3 rows deleted"),
        ("mail.send", None, "3 changes sent"),
        ("lamp.blink", None, "3 changes by lamp.blink"),
    ],
)
def test_what_a_tool_did_is_read_off_the_call(tool: str, noun: str | None, words: str) -> None:
    """U1, L11: its noun, and what its operation does."""
    assert str(count_of_tool(tool, noun, 3)) == words


def test_what_two_tools_did_to_the_same_is_one_count() -> None:
    """U1: same noun and same end; the bound holds for what is added up."""
    rows, more = Count(2, "row", "added"), Count(1, "row", "added")
    gone = Count(1, "row", "deleted")
    assert add_up((rows, gone, more), 3) == (Count(3, "row", "added"), gone)
    assert add_up((rows, more), 2) == (Count(2, "row", "added", is_more=True),)
    cut = replace(more, is_more=True)
    assert add_up((cut, rows), 9) == (Count(3, "row", "added", is_more=True),)


def test_a_count_past_its_bound_says_so() -> None:
    """U1: nobody counts for ever."""
    assert str(Count(1000, "mail", is_more=True)) == "1000+ mails"
    assert str(Count(1, "mail", is_more=True)) == "1+ mails"


def test_the_lines_end_with_one_that_always_applies() -> None:
    """U7: nothing open is ever without a word."""
    assert explanation.LINES[-1].applies(case(lifecycle.CONSUMER_START))
