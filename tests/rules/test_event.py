"""Events: what may be published, what becomes of it, and what a script sees of it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.config import Limits
from duly.errors import IllegalTransition, Invalid
from duly.rules.declaration import TopicDeclaration
from duly.rules.event import (
    CHANGES,
    Caused,
    EventMove,
    EventStatus,
    Publication,
    PublishBudget,
    Republish,
    bus_publication,
    bus_title,
    check_ingress,
    count_fitting,
    derive_message_id,
    missing_value,
    move,
    on_republish,
    parse_message_id,
    parse_peek,
    parse_publication,
    parse_title,
    roots,
    show_events,
)
from duly.rules.value import INTEGER_MAX, Json, decode

PROPERTY = settings(derandomize=True, deadline=None, max_examples=200)
PENDING, RESERVED = EventStatus.PENDING, EventStatus.RESERVED
CONSUMED, SKIPPED = EventStatus.CONSUMED, EventStatus.SKIPPED


def publish(**fields: Any) -> Publication:
    return parse_publication("mail", {"title": "Email from alice", **fields})


# -- Status (T4) --------------------------------------------------------------------------------


def test_the_status_moves_only_along_the_table() -> None:
    """T4: every pair of status and move is either in this list or an error."""
    legal = {
        (PENDING, EventMove.RESERVE): RESERVED,
        (PENDING, EventMove.SKIP): SKIPPED,
        (RESERVED, EventMove.CONSUME): CONSUMED,
        (RESERVED, EventMove.SKIP): SKIPPED,
        (RESERVED, EventMove.RELEASE): PENDING,
    }
    for status, event_move in product(EventStatus, EventMove):
        if (status, event_move) in legal:
            assert move(status, event_move) is legal[status, event_move]
        else:
            with pytest.raises(IllegalTransition):
                move(status, event_move)


# -- Titles and ids (T3) ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "title", ["", "   ", "\u00a0", "\u200b\u2060", None, 5, True, ["x"], "x" * 501]
)
def test_a_title_that_says_nothing_is_refused(title: object) -> None:
    """T3: a title is a string, not blank, at most 500 characters."""
    with pytest.raises(Invalid, match=r"publish\.title"):
        publish(title=title)


@pytest.mark.parametrize("character", ["\n", "\t", "\0", "\x1b", "\x7f", "\x85", "\ud800"])
def test_a_title_with_a_control_character_is_refused(character: str) -> None:
    """T3: a title is one plain line, safe in a terminal."""
    with pytest.raises(Invalid, match="control character"):
        publish(title=f"Email{character}from alice")


def test_a_missing_title_is_refused() -> None:
    """T3: a title is required."""
    with pytest.raises(Invalid, match=r"publish\.title must be a string"):
        parse_publication("mail", {"payload": 1})


@pytest.mark.parametrize("title", ['Email from alice: "Invoice 👩‍👧"', "x" * 500, " x"])
def test_a_title_for_a_person_is_kept_as_it_is(title: str) -> None:
    """T3: 500 characters are allowed, and nothing is trimmed."""
    assert parse_title(title, "title") == title


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (INTEGER_MAX, "9007199254740991"),
        ("a", "a"),
        ("é" * 500, "é" * 500),
        (7, "7"),
        (-7, "-7"),
        (0, "0"),
        (" ", " "),
        ("a\n", "a\n"),
    ],
)
def test_a_message_id_is_kept_and_an_integer_becomes_its_digits(raw: object, kept: str) -> None:
    """T3: 1 to 500 characters; an integer becomes its digits."""
    assert publish(message_id=raw).message_id == kept


@pytest.mark.parametrize(
    "raw", ["", "x" * 501, True, 1.0, [], {}, INTEGER_MAX + 1, "a\0b", "\ud800"]
)
def test_a_message_id_that_is_none_is_refused(raw: object) -> None:
    """T3: neither empty nor too long, no boolean, nothing a store could not keep."""
    with pytest.raises(Invalid, match=r"publish\.message_id"):
        publish(message_id=raw)


def test_a_missing_message_id_is_made_of_topic_and_payload() -> None:
    """T3: derived, never random; the title and the order of keys do not matter."""
    first = publish(payload={"a": 1, "b": 2})
    again = publish(payload={"b": 2, "a": 1}, title="Another title", message_id=None)
    assert first.message_id == again.message_id == derive_message_id("mail", {"a": 1, "b": 2})
    assert publish(payload={"a": 1}).message_id != first.message_id
    assert derive_message_id("other", {"a": 1, "b": 2}) != first.message_id
    assert parse_message_id(first.message_id, "id") == first.message_id


# -- Publishing ---------------------------------------------------------------------------------


def test_a_missing_payload_is_null() -> None:
    """T3: nothing published is null, not an empty object."""
    assert publish().payload_text == "null"


@pytest.mark.parametrize("raw", [None, [], "mail", {"title": "x", 1: 2}])
def test_a_publication_that_is_no_object_is_refused(raw: object) -> None:
    """T7: the shape is checked before the content."""
    with pytest.raises(Invalid, match="publish must be an object"):
        parse_publication("mail", raw)


@pytest.mark.parametrize("name", ["messageId", "id", "status", "seq", "topic", "Title"])
def test_an_unknown_field_in_publish_is_refused(name: str) -> None:
    """T7: a script sets exactly message id, title and payload."""
    with pytest.raises(Invalid, match=rf"publish\.{name} is not known"):
        publish(**{name: "x"})


def test_a_payload_at_the_limit_is_kept_and_one_past_is_refused() -> None:
    """N: a payload has at most 256 KiB of JSON; a violation inside is named by path."""
    most = 256 * 1024
    assert len(publish(payload="x" * (most - 2)).payload_text) == most
    with pytest.raises(Invalid, match=rf"publish\.payload is longer than {most} bytes"):
        publish(payload="x" * (most - 1))
    with pytest.raises(Invalid, match=r"publish\.payload\.rows\[0\]"):
        publish(payload={"rows": [float("nan")]})


def test_the_same_title_and_payload_are_the_same_content() -> None:
    """T5: content is title and payload, and key order means nothing."""
    one = publish(message_id="1", payload={"a": 1, "b": 2})
    assert one.digest == publish(message_id="2", payload={"b": 2, "a": 1}).digest
    assert one.digest != publish(message_id="1", payload={"a": 1}).digest
    assert one.digest != publish(message_id="1", title="Other", payload={"a": 1, "b": 2}).digest


@pytest.mark.parametrize(
    ("status", "is_same", "expected"),
    [
        (None, False, "new"),
        (PENDING, True, "same"),
        (PENDING, False, "replaced"),
        (RESERVED, True, "same"),
        (RESERVED, False, "beside"),
        (CONSUMED, True, "frozen"),
        (CONSUMED, False, "dropped"),
        (SKIPPED, True, "frozen"),
        (SKIPPED, False, "dropped"),
    ],
)
def test_a_publish_does_to_an_event_what_its_status_allows(
    status: EventStatus | None, is_same: bool, expected: str
) -> None:
    """T5: pending is replaced, reserved is kept beside, finished never changes."""
    assert on_republish(status, is_same) == expected


def test_only_new_and_replaced_content_counts_as_a_change() -> None:
    """T5, S3: an identical republish wakes nobody."""
    assert {Republish.NEW, Republish.REPLACED} == CHANGES
    with pytest.raises(IllegalTransition):
        on_republish(None, True)


def test_a_run_publishes_1000_events_and_not_one_more() -> None:
    """N: at most 1000 publishes per run."""
    budget = PublishBudget()
    for _ in range(1000):
        budget = budget.spend(publish())
    assert budget.count == 1000
    with pytest.raises(Invalid, match="at most 1000 events"):
        budget.spend(publish())


def test_a_run_publishes_16_mebibytes_and_not_one_byte_more() -> None:
    """N: at most 16 MiB of payload per run, counted in bytes of UTF-8."""
    full = PublishBudget(payload_bytes=16 * 1024 * 1024 - 4)
    assert full.spend(publish(payload="é")).payload_bytes == 16 * 1024 * 1024
    with pytest.raises(Invalid, match="at most 16777216 bytes"):
        full.spend(publish(payload="éx"))


# -- Reading (T6, T7) ---------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1, 1001, True, 1.0, "5", []])
def test_a_peek_limit_outside_1_to_1000_is_refused(limit: object) -> None:
    """T6: a limit outside 1–1000 is a logic failure."""
    with pytest.raises(Invalid, match=r"peek\.limit"):
        parse_peek("mail", limit)


def test_a_peek_sees_100_events_unless_told() -> None:
    """T6: limit = 100, up to 1000, after a message id."""
    assert parse_peek("mail").limit == 100
    assert parse_peek("mail", 1).limit == 1
    assert parse_peek("mail", 1000, 7).limit == 1000
    assert parse_peek("mail", after=7).after == "7"
    assert parse_peek("mail", limits=Limits(peek_events=10)).limit == 10
    with pytest.raises(Invalid, match=r"peek\.after"):
        parse_peek("mail", after="")


def test_a_peek_holds_4_mebibytes_and_at_least_one_event() -> None:
    """T6: at most 1000 events and 4 MiB, but never nothing while something is pending."""
    assert count_fitting([5, 5, 1], 10) == 2
    assert count_fitting([5, 6], 10) == 1
    assert count_fitting([11, 1], 10) == 1
    assert count_fitting([], 10) == 0
    assert count_fitting([4 * 1024 * 1024, 0, 1], Limits().peek_bytes) == 2


def test_a_script_sees_exactly_five_fields() -> None:
    """T7: topic, message id, id, title and payload; nothing of the host's."""
    shown = show_events([("mail", "m1", "Email", '{"a":1}'), ("mail", "m2", "Ö", "null")])
    assert decode(shown.decode()) == [
        {"topic": "mail", "message_id": "m1", "id": "m1", "title": "Email", "payload": {"a": 1}},
        {"topic": "mail", "message_id": "m2", "id": "m2", "title": "Ö", "payload": None},
    ]


# -- Causes (T9) --------------------------------------------------------------------------------


def test_what_next_publishes_comes_from_the_roots_of_what_was_reserved() -> None:
    """T9: an input is its own root; others hand theirs on; the union has each once."""
    assert roots([Caused(5)]) == (5,)
    assert roots([Caused(9, (3, 5)), Caused(10, (5,)), Caused(2)]) == (2, 3, 5)
    assert roots([]) == ()


@PROPERTY
@given(st.lists(st.sets(st.integers(0, 5), max_size=3), min_size=1, max_size=8))
def test_every_chain_of_events_leads_back_to_inputs(reservations: list[set[int]]) -> None:
    """T9: however events are combined, roots are inputs and no root is lost."""
    events = [Caused(0), Caused(1)]
    ancestors = {0: {0}, 1: {1}}
    for picks in reservations:
        reserved = [events[pick % len(events)] for pick in picks]
        born = Caused(len(events), roots(reserved))
        events.append(born)
        ancestors[born.seq] = {r for event in reserved for r in ancestors[event.seq]} or {born.seq}
        assert set(born.caused_by or (born.seq,)) == ancestors[born.seq]


# -- From outside (T10) -------------------------------------------------------------------------


def test_a_topic_lets_in_only_whom_it_declares() -> None:
    """T10: ingress: true is for requests, ingress: {bus: …} for that bus topic."""
    check_ingress(TopicDeclaration("mail", ingress=True), "request")
    check_ingress(TopicDeclaration("mail", bus="user.message"), "bus", "user.message")
    for topic in (TopicDeclaration("mail"), TopicDeclaration("mail", bus="user.message")):
        with pytest.raises(Invalid, match="takes nothing from outside"):
            check_ingress(topic, "request")
    for topic in (
        TopicDeclaration("mail"),
        TopicDeclaration("mail", ingress=True),
        TopicDeclaration("mail", bus="other"),
    ):
        with pytest.raises(Invalid, match=r'does not listen to "user\.message"'):
            check_ingress(topic, "bus", "user.message")


@pytest.mark.parametrize(
    ("payload", "title"),
    [
        ({"title": "Lunch", "text": "eat"}, "Lunch"),
        ({"title": "  ", "text": "eat\nwell"}, "eat well"),
        ({"title": 5, "text": "x" * 500}, "x" * 119 + "…"),
        ({"title": "y" * 501}, "y" * 499 + "…"),
        ({"title": "y" * 500}, "y" * 500),
        ({"title": "\u200b", "text": ""}, "user.message from chat (bus:7)"),
        ({}, "user.message from chat (bus:7)"),
    ],
)
def test_a_bus_event_finds_words_for_itself(payload: dict[str, Json], title: str) -> None:
    """T10: payload.title, else payload.text cut, else topic, source and id."""
    assert bus_title("user.message", "chat", 7, payload) == title


@PROPERTY
@given(st.dictionaries(st.sampled_from(["title", "text"]), st.text(st.characters(codec="utf-8"))))
def test_a_bus_event_is_never_refused_for_its_title(payload: dict[str, Json]) -> None:
    """T10: same validation, same idempotency; the bus id names the event."""
    made = bus_publication(
        "inbox", bus_topic="user.message", source="chat", event_id=7, payload=payload
    )
    assert made.message_id == "bus:7"
    assert made.topic == "inbox"


SMALL = Limits(title_chars=5, message_id_chars=5, payload_bytes=8, json_depth=2)


def test_peek_after_takes_the_message_ids_the_policy_allows() -> None:
    """T6, N: an id that could be published can be peeked after, and no other."""
    assert parse_peek("t", 1, "x" * 5, SMALL).after == "x" * 5
    with pytest.raises(Invalid, match=r"peek\.after"):
        parse_peek("t", 1, "x" * 6, SMALL)


@pytest.mark.parametrize(
    ("field", "fits", "past"),
    [
        ("title", "12345", "123456"),
        ("message_id", "12345", "123456"),
        ("payload", "123456", "1234567"),
        ("payload", [[]], [[[]]]),
    ],
)
def test_a_publication_is_held_to_the_limits_of_the_policy(
    field: str, fits: object, past: object
) -> None:
    """N: one at the limit, one past it."""
    raw = {"title": "t", "message_id": "m", "payload": None}
    parse_publication("t", {**raw, field: fits}, SMALL)
    with pytest.raises(Invalid):
        parse_publication("t", {**raw, field: past}, SMALL)


TURNED = ["Add a row\u2028Approved by you", "a\u2029b", "Pay \u202e000,1\u202c to Bob", "a\u2066b"]


@pytest.mark.parametrize("title", TURNED)
def test_a_title_that_breaks_or_turns_its_line_is_refused(title: str) -> None:
    """T3, L11: a person who approves must read what stands there, in its order."""
    with pytest.raises(Invalid, match="control character"):
        parse_title(title, "title")


def test_an_emoji_of_several_characters_stays_in_a_title() -> None:
    """T3: joiners control nothing."""
    joined = "Mail from \N{WOMAN}\N{ZERO WIDTH JOINER}\N{ROCKET}"
    assert parse_title(joined, "title") == joined


@pytest.mark.parametrize(
    ("message_id", "title", "word"),
    [
        ("row:undefined", "Row", "undefined"),
        ("row:1", "Mail from None", "None"),
        ("[object Object]", "Row", "[object Object]"),
        ("NaN", "Row", "NaN"),
        ("row:1", "Nonesuch wrote about undefinedness", None),
    ],
)
def test_the_trace_of_a_missing_value_is_found(
    message_id: str, title: str, word: str | None
) -> None:
    """T3: the author is told of a word a language writes for nothing, where it stands alone."""
    published = parse_publication("mail", {"message_id": message_id, "title": title})
    assert missing_value(published) == word
