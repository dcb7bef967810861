"""Every code has its sentences, and each can be read, whatever is known and whatever is not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest

from duly import words
from duly.fact import Offer, Reason
from duly.rules.account import Came, Ended, Waiting
from duly.rules.blind import BlindCause
from duly.rules.count import Activity, Count, add_up, count_of_tool, noun_of_topic, singular
from duly.rules.history import Milestone
from duly.rules.schedule import moment
from duly.rules.standing import Code, Doing
from duly.rules.waiting import EventFate, Wait
from duly.rules.word import Known
from duly.words import Clock, alert, ending, say, say_activity, say_offer, standing, trial
from duly.words.noun import say_count
from duly.words.part import DOING, KNOWN, LEFT
from duly.words.phrase import QUOTE_CHARS_MAX, in_quotes, name_all, quote
from duly.words.template import fill, names

NOW = 1_780_000_000_000
CLOCK = Clock(NOW)
AT = moment(NOW - 60_000)
LATER = moment(NOW + 90_000)
LIE = "Mail” is fine. “"
QUOTED = re.compile(r"“[^”]*”")
# What a reader should not have to look up (U5).
MACHINERY = re.compile(
    r"\b(runs?|phases?|topics?|ledger|reconcil\w*|indeterminate|mutations?|payloads?|handlers?"
    r"|transient|successors?|reserv\w*|consumers?|producers?|None|host\.|duly)\b"
)
CODES = sorted({*Code, *Ended, *Came, *Waiting, *Wait, *EventFate, "told"})
# Facts that a reason has whenever it has its code.
ALWAYS: Mapping[str, Any] = {
    "workflow": "orders",
    "doing": Doing.WORKING,
    "at": AT,
    "since": AT,
    "copied_at": AT,
    "machine": "attic",
    "paused_by": "anna",
    "unreachable_since": AT,
    "held_until": LATER,
    "check_at": LATER,
    "connection": "mail",
    "secret": "password",
    "counts": (Count(2, "order"),),
    "pending": (Count(1, "order"),),
    "days": 7,
    "oldest": LIE,
    "version": "1.1",
    "receiver": "ear",
    "subscriber": "ear",
    "subscribers": ("ear", "eye"),
    "attempt": 2,
    "inputs": (LIE,),
    "deliveries": ({"code": "in_turn", "facts": {"subscriber": "ear"}},),
    "said": "It broke.",
}
# Facts that a reason may have or not.
OPTIONAL: Mapping[str, Any] = {
    "tool": "sheets.append_row",
    "title": LIE,
    "more_inputs": 2,
    "message": "No room. Try later.",
    "needs": "sheets.append",
    "service": "sheets",
    "attempts": 3,
    "retry_at": LATER,
    "suspect": LIE,
    "paused_since": AT,
    "wake_at": LATER,
    "blocks": True,
    "late": "Send 1 came late.",
    "unrepaired": "it needs x.",
    "proposed": "1.2",
    "by": "user",
    "known": "settled",
    "known_by": "anna",
    "known_said": "happened",
    "note": LIE,
    "left": "applied",
    "resent": True,
    "taken_up": True,
    "more": 2,
    "at_least": True,
    "led_on": True,
    "is_yours": True,
    "can_be_run": True,
    "may_settle": True,
    "log_lost": True,
    "writes_lost": True,
    "standby_behind": True,
    "standby_promoted": True,
    "error": "boom",
    "errors": "ear: boom",
}


def every_reason(code: str) -> list[Reason]:
    """A code without, with each one and each pair of, and with all optional facts."""
    known = [name for name in OPTIONAL if name in _facts_of(code)]
    chosen = [(), *combinations(known, 1), *combinations(known, 2), tuple(known)]
    bare = {
        name: each
        for name, each in ALWAYS.items()
        if name not in ("pending", "inputs", "check_at", "paused_by", "said")
    }
    made = [Reason(code, "x", {**ALWAYS, **{n: OPTIONAL[n] for n in each}}) for each in chosen]
    if code.startswith(("paused", "input_behind", "needed_no", "stray", "told")):
        return made
    if code in ("scheduled", "left_pending", *BlindCause):
        return made
    return [*made, Reason(code, "x", bare)]


def _facts_of(code: str) -> set[str]:
    """Name the facts a sentence can use, through its parts."""
    own = names(words.SHORT[code]) | names(words.LONG.get(code, ""))
    through = {"tool", "title", "more_inputs", "blocks", "late", "paused_since"}
    through |= {"log_lost", "writes_lost", "standby_behind", "standby_promoted"}
    times = {"retry_in": "retry_at", "wake_in": "wake_at", "lacking": "needs", "there": "service"}
    known = {"known_by", "known_said"} if "known" in own else set()
    return set(own) | through | known | {times[name] for name in own if name in times}


@pytest.mark.parametrize("code", CODES)
def test_every_code_can_be_said_whatever_is_known(code: str) -> None:
    """U1, U2, U7: no brace, no None, no empty quotes, no double space; one sentence begins."""
    for reason in every_reason(code):
        for long in (False, True):
            said = say(reason, CLOCK, long=long)
            plain = QUOTED.sub("X", said)
            assert not re.search(r"[{}\[\]|]|None|“”|  | [.,;:]|[;,:]\.|; ;|\.\.", plain), said
            assert said == said.strip() != ""
            assert said[0] == said[0].upper(), said
            assert "”" not in QUOTED.sub("", said), said


@pytest.mark.parametrize("code", CODES)
def test_no_sentence_needs_a_word_of_the_machinery_or_names_a_command(code: str) -> None:
    """U5: what others said is in quotation marks; what can be done is an offer."""
    for reason in every_reason(code):
        for long in (False, True):
            plain = QUOTED.sub("X", say(reason, CLOCK, long=long))
            assert not MACHINERY.search(plain), plain
            assert "`" not in plain


def test_the_tables_have_every_code_and_no_other() -> None:
    """U1, U2: and the parts that depend on a word have each word."""
    assert set(words.SHORT) == {*CODES, *trial.SHORT, *Milestone}
    assert set(words.LONG) <= set(CODES)
    assert set(standing.LONG) >= set(Code)
    assert set(ending.SHORT) == {*Ended, *Came}
    assert set(DOING) == set(Doing)
    assert set(KNOWN) == set(Known)
    assert set(LEFT) == {"applied", "rejected", "skipped", "nothing"}


@pytest.mark.parametrize("does", sorted(words.DOES))
def test_every_offer_says_what_comes_of_it(does: str) -> None:
    """R9: half a sentence that fits below a command, without a word of the machinery."""
    said = say_offer(Offer("verb", {}, does))
    assert said == said.strip(" .")
    assert 0 < len(said) <= 72
    assert not MACHINERY.search(said)


@pytest.mark.parametrize("code", sorted(Code))
def test_a_sentence_that_names_a_claim_names_the_call(code: str) -> None:
    """L11: never a title without what it stands for."""
    reason = Reason(code, "x", {**ALWAYS, "tool": "a.b", "title": "Add a row"})
    for long in (False, True):
        said = say(reason, CLOCK, long=long)
        assert ("“Add a row”" in said) == ("a.b (claimed: “Add a row”)" in said)


def test_what_is_blocked_is_said_at_the_end() -> None:
    """F6: with how much is pending, if anything is."""
    facts = {"workflow": "flow", "doing": "checking", "blocks": True}
    said = say(Reason("internal_fault", "", facts), CLOCK, long=True)
    assert said.endswith("Fix it, then retry or abandon. “flow” is blocked.")
    more = {**facts, "pending": (Count(1, "input"),)}
    said = say(Reason("internal_fault", "", more), CLOCK, long=True)
    assert said.endswith("“flow” is blocked; 1 input waits behind this.")
    said = say(Reason("internal_fault", "", {**more, "schedule": True}), CLOCK, long=True)
    assert said.endswith("“flow” is blocked; 1 input and its schedule wait behind this.")
    said = say(Reason("internal_fault", "", {**facts, "schedule": True}), CLOCK, long=True)
    assert said.endswith("“flow” is blocked; its schedule waits behind this.")
    many = {**facts, "pending": (Count(1, "input", is_more=True),)}
    said = say(Reason("internal_fault", "", many), CLOCK, long=True)
    assert said.endswith("“flow” is blocked; 1+ inputs wait behind this.")


def test_what_went_wrong_is_quoted_once_in_an_alert() -> None:
    """F8: where the short sentence does not say it already."""
    facts = {"needs": "gmail", "message": "Token expired. Sign in."}
    reconnect = "Waiting for you to reconnect gmail: “Token expired”"
    assert alert(Reason("needs_connection", "", facts), CLOCK) == reconnect
    failed = Reason("script_failed", "", facts)
    assert alert(failed, CLOCK) == say(failed, CLOCK) == "The script failed: “Token expired”"


def test_why_a_repair_was_not_adopted_is_said() -> None:
    """F8: whether or not something was proposed."""
    facts = {"message": "no", "unrepaired": "it needs x."}
    assert say(Reason("script_failed", "", facts), CLOCK) == (
        "The script failed: “no”. It was not repaired: it needs x."
    )
    assert say(Reason("script_failed", "", {**facts, "proposed": "1.1"}), CLOCK) == (
        "The script failed: “no”. Version 1.1 is proposed and not adopted: it needs x."
    )


def test_a_sentence_that_an_older_duly_kept_is_shown_as_it_is() -> None:
    """F8: it has no code of its own."""
    assert say(Reason("told", facts={"said": "It failed: “no”"}), CLOCK) == "It failed: “no”"


# -- Templates ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("a {x}", "a 1"),
        ("a[ {x}][ {none}]", "a 1"),
        ("[{none}|{x}|b]", "1"),
        ("[{none}|b]", "b"),
        ("a[ yes{?x}][ no{?none}]", "a yes"),
        ("[{x}[ and {none}]]", "1"),
    ],
)
def test_a_segment_is_said_if_its_parts_are_there(template: str, said: str) -> None:
    """U5: of several the first that can be said is."""
    assert fill(template, _parts) == said


def _parts(name: str) -> str:
    return {"x": "1"}.get(name, "")


def test_what_a_part_says_is_no_template() -> None:
    """L11: no title can add a segment."""
    assert fill("a {x}", lambda _: "[{y}|b]") == "a [{y}|b]"


# -- Phrases --------------------------------------------------------------------------------------


def test_a_quote_is_the_first_sentence_and_not_longer_than_its_limit() -> None:
    """U5: at the limit whole, one past it cut."""
    assert quote("No room. Try later.\nTraceback") == "“No room”"
    assert quote("  ") == ""
    assert quote("x" * QUOTE_CHARS_MAX) == in_quotes("x" * QUOTE_CHARS_MAX)
    assert quote("x" * (QUOTE_CHARS_MAX + 1)) == in_quotes("x" * 182 + "… (201 characters)")


def test_of_many_titles_one_is_named() -> None:
    """U5, L11: and how many more there are."""
    assert name_all(()) == ""
    assert name_all(("a",)) == "“a”"
    assert name_all(("a", "b"), more=1) == "“a” and 2 more"
    assert name_all((LIE,)) == '“Mail" is fine. "”'


@pytest.mark.parametrize(
    ("zone", "said"), [("UTC", "28 May 20:26 UTC"), ("Europe/Berlin", "28 May 22:26 CEST")]
)
def test_a_moment_is_said_on_the_reader_s_clock_with_its_zone(zone: str, said: str) -> None:
    """U1: with its year only if that is another one."""
    assert Clock(NOW + 86_400_000, zone).say(moment(NOW)) == said
    later = Clock(NOW + 365 * 86_400_000, zone)
    assert later.say(moment(NOW)) == said.replace("May", "May 2026")


@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
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
    inputs: list[Count], outputs: list[Count], said: str
) -> None:
    """U1: singular and plural, and nothing is said of what there is none of."""
    assert say_activity(Activity(tuple(inputs), tuple(outputs))) == said


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
    ("tool", "noun", "said"),
    [
        ("sheets.append_row", "row", "3 rows added"),
        ("sheets.delete_row", "row", "3 rows deleted"),
        ("mail.send", None, "3 changes sent"),
        ("lamp.blink", None, "3 changes by lamp.blink"),
    ],
)
def test_what_a_tool_did_is_read_off_the_call(tool: str, noun: str | None, said: str) -> None:
    """U1, L11: its noun, and what its operation does."""
    assert say_count(count_of_tool(tool, noun, 3)) == said


def test_what_two_tools_did_to_the_same_is_one_count() -> None:
    """U1: same noun and same end; the bound holds for what is added up."""
    rows, more = Count(2, "row", "added"), Count(1, "row", "added")
    gone = Count(1, "row", "deleted")
    assert add_up((rows, gone, more), 3) == (Count(3, "row", "added"), gone)
    assert add_up((rows, more), 2) == (Count(2, "row", "added", is_more=True),)


def test_a_count_past_its_bound_says_so() -> None:
    """U1: counting ends somewhere."""
    assert say_count(Count(1000, "mail", is_more=True)) == "1000+ mails"
    assert say_count(Count(1, "mail", is_more=True)) == "1+ mails"


def test_a_reason_of_a_newer_host_is_said_by_its_code() -> None:
    """U6: an older client shows the code and what it can read of the facts; it never breaks."""
    reason = Reason("from_later", facts={"count": 3, "note": "\x1b[31m", "deep": {"a": 1}})
    assert say(reason, CLOCK, long=True) == "from_later (count 3, note \\x1b[31m)"
    assert say(Reason("from_later"), CLOCK) == "from_later"
    assert say_offer(Offer("why", {}, "from_later")) == "from_later"
