"""Verbs with JSON: what comes in is checked before a host sees it, what goes out is JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

import pytest

from duly.api import codec
from duly.api.codec import perform, read_arguments, to_json
from duly.api.registry import VERBS, Scope
from duly.bus.bus import Bus
from duly.desk.record import Output, Why
from duly.errors import DulyError, Invalid, see
from duly.fact import Offer, Reason
from duly.host import Host
from duly.rules.source import Language, Source
from duly.rules.standing import Mover
from duly.rules.value import INTEGER_MAX, Json
from duly.words import Clock
from tests.faces.stand import EVENT, replace_verb

# What JSON itself is, in a record or an answer; its alias refers to itself.
JSON = {"Json": str, "Results": str, "Any": str}
WRITTEN = {type(None), bool, int, float, str, datetime, Path, tuple, frozenset, dict, Mapping}
WRITTEN |= {UnionType}
NOON = datetime(2026, 1, 2, 12, 0, 0, 5000, tzinfo=UTC)


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("name", "args", "path", "sentence"),
    [
        ("why", {}, "id", "id is missing for why. Add it."),
        ("why", {"idd": "x"}, "why.idd", 'why.idd is not known. Did you mean "id"?'),
        ("why", {"id": 3}, "id", "id is a whole number. Give text."),
        ("why", {"id": None}, "id", "id is null. Give text."),
        ("why", {"id": "\ud800"}, "id", "id has a NUL or half a character. Send whole"),
        ("workflows", {"limit": True}, "limit", "limit is true or false. Give a whole number"),
        ("workflows", {"limit": 1.0}, "limit", "limit is a number. Give a whole number"),
        ("workflows", {"limit": None}, "limit", "limit is null. Give a whole number"),
        (
            "workflows",
            {"limit": INTEGER_MAX + 1},
            "limit",
            "limit is a whole number. Give a whole number within ±(2^53 - 1).",
        ),
        ("deploy", {"source": "x.py"}, "source", "source is text. Give an object."),
        (
            "deploy",
            {"source": {"text": "x"}},
            "source",
            "source: object missing required field `language`.",
        ),
        (
            "deploy",
            {"source": {"language": "perl", "text": ""}},
            "source.language",
            "source.language is 'perl'. Use one of javascript, python.",
        ),
        (
            "deploy",
            {"source": {"language": "python", "text": "", "file": "/etc/passwd"}},
            "source.file",
            "source.file is not known.",
        ),
        (
            "deploy",
            {"source": {"language": "python", "text": ""}, "grant": 1},
            "grant",
            "grant is a whole number. Give true or false.",
        ),
        ("backup", {"path": "copy.db"}, "path", "path is text. Give an absolute path."),
        (
            "skip",
            {"workflow": "w", "topic": "t", "message_id": 1.5},
            "message_id",
            "message_id is a number. Give text or a whole number",
        ),
        (
            "grant",
            {"workflow": "w", "capability": "c", "where": {"to": 3}},
            "where.to",
            "where.to is a whole number. Give text.",
        ),
        (
            "try_",
            {"source": {"language": "python", "text": ""}, "events": [3]},
            "events[0]",
            "events[0] is a whole number. Give an object.",
        ),
        ("bus.emit", {**EVENT, "payload": []}, "payload", "payload is a list. Give an object."),
        ("bus.schedule_at", {**EVENT, "delay": "1"}, "delay", "delay is text. Give a number."),
        ("bus.deliveries", {"after": [1]}, "after", "after: expected `array` of length 2, got 1."),
        ("bus.deliveries", {"after": ["1", "x"]}, "after[0]", "after[0] is text. Give a whole"),
        (
            "bus.deferred",
            {"after": {"id": 1}},
            "after",
            "after: object missing required field `topic`.",
        ),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name(
    name: str, args: dict[str, Json], path: str, sentence: str
) -> None:
    with pytest.raises(Invalid) as caught:
        read_arguments(VERBS.find(name), args)
    assert str(caught.value).startswith(sentence)
    assert caught.value.path == path


def test_what_is_left_out_is_left_to_the_default() -> None:
    given: dict[str, Json] = {"workflow": "w", "topic": "t", "title": "T", "message_id": 7}
    assert read_arguments(VERBS.find("publish"), given) == given


def test_a_source_crosses_as_text() -> None:
    source: Json = {"language": "javascript", "text": "1", "name": "a.js"}
    read = read_arguments(VERBS.find("check"), {"source": source})
    assert read == {"source": Source(Language.JAVASCRIPT, "1", "a.js")}


# -- Answers ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Thing:
    colour: Colour
    at: datetime
    path: Path
    parts: tuple[Any, ...]
    words: frozenset[Colour]

    @property
    def sentence(self) -> str:
        return "It is red."

    @property
    def _private(self) -> str:
        return "hidden"


def test_records_become_plain_json() -> None:
    east = NOON.astimezone(timezone(timedelta(hours=2)))
    thing = Thing(Colour.RED, east, Path("/a/b"), (1, math.inf, None), frozenset({Colour.RED}))
    assert to_json((thing, {"as": ["it", "is"]})) == [
        {
            "colour": "red",
            "at": "2026-01-02T12:00:00.005Z",
            "path": "/a/b",
            "parts": [1, "inf", None],
            "words": ["red"],
            "sentence": "It is red.",
        },
        {"as": ["it", "is"]},
    ]
    assert type(to_json(Colour.RED)) is str


def test_facts_have_their_words_beside_them() -> None:
    """U1, U7: a program reads code, facts and verb; a person the text made of them."""
    clock = Clock(0)
    at = datetime(1970, 1, 1, 0, 0, 12, tzinfo=UTC)
    reason = Reason("retrying", "run_1", {"doing": "checking", "retry_at": at})
    plain = {
        "code": "retrying",
        "subject": "run_1",
        "facts": {"doing": "checking", "retry_at": "1970-01-01T00:00:12.000Z"},
    }
    assert to_json(reason) == plain
    assert to_json(reason, clock) == {**plain, "text": "Temporary error; retrying in 12 s"}
    offer = Offer("skip", {"workflow": "a"}, "skip")
    why = Why("a", reason, (), None, None, Mover.BACKOFF, None, (offer,))
    shown: Any = to_json(why, clock)
    assert shown["reason"]["detail"].startswith("Temporary error while ")
    assert shown["offers"] == [
        {
            "verb": "skip",
            "args": {"workflow": "a"},
            "does": "skip",
            "asks": [],
            "text": "it ends skipped for good; nothing is sent for it",
        }
    ]
    assert "detail" not in cast("dict[str, Any]", to_json(reason, clock))


def test_what_is_no_record_is_found_out() -> None:
    with pytest.raises(AssertionError, match="an answer holds a object"):
        to_json((object(),))


def kinds_of(hint: Any, found: set[Any]) -> set[Any]:
    """Collect every type that an answer can hold, through records and collections."""
    if hint in found or hint is Ellipsis:
        return found
    if is_dataclass(hint):
        found.add(hint)
        hints = get_type_hints(hint, localns=JSON)
        inner = tuple(hints[each.name] for each in fields(hint))
    else:
        found.add(get_origin(hint) or hint)
        inner = get_args(hint)
    for each in inner:
        kinds_of(each, found)
    return found


def test_every_answer_is_of_kinds_that_can_be_written() -> None:
    """U6: a verb that answers something new is found out here, not by the first caller."""
    found: set[Any] = set()
    for name in VERBS:
        owner = Bus if name.startswith("bus.") else Host
        function = getattr(owner, name.removeprefix("bus."))
        kinds_of(get_type_hints(function, localns=JSON)["return"], found)
    others = {each for each in found if not is_dataclass(each) and not issubclass(each, StrEnum)}
    assert others - WRITTEN == set()
    assert Output in found


# -- Performing ---------------------------------------------------------------------------------


async def test_a_verb_is_carried_out_and_answers_json(tmp_path: Path) -> None:
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        assert await perform(host, "bus.emit", EVENT, by="anna", scope=Scope.ADMIN) == 1
        answer = await perform(host, "bus.journal", {}, by="anna", scope=Scope.ADMIN)
        assert isinstance(answer, list)
        (event,) = answer
        assert isinstance(event, dict)
        assert (event["topic"], event["payload"]) == ("tea.ready", {"cups": 2})
        assert event["status"] == "pending"
        assert await perform(host, "extensions", {}, by="anna", scope=Scope.ADMIN) == []


async def test_a_page_goes_on_from_an_entry_as_it_was_answered(tmp_path: Path) -> None:
    """B14: the key of the page before is given back as it came."""
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        for seconds in (60, 120.5, 180):
            await perform(
                host, "bus.schedule_at", {**EVENT, "delay": seconds}, by="anna", scope=Scope.ADMIN
            )
        first = await perform(host, "bus.deferred", {"limit": 2}, by="anna", scope=Scope.ADMIN)
        assert isinstance(first, list)
        rest = await perform(
            host, "bus.deferred", {"after": first[-1]}, by="anna", scope=Scope.ADMIN
        )
        assert isinstance(rest, list)
        assert [each["id"] for each in (*first, *rest) if isinstance(each, dict)] == [1, 2, 3]
        assert (
            await perform(host, "bus.deliveries", {"after": [0, ""]}, by="anna", scope=Scope.ADMIN)
            == []
        )
        with pytest.raises(Invalid, match="scheduled"):
            await perform(host, "bus.deferred", {"status": "gone"}, by="anna", scope=Scope.ADMIN)


async def test_a_number_json_does_not_know_is_refused_by_the_host(tmp_path: Path) -> None:
    """T8: what is handed over unread is checked where it is used."""
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        with pytest.raises(Invalid, match="nan"):
            await perform(
                host,
                "bus.emit",
                {**EVENT, "payload": {"x": math.nan}},
                by="anna",
                scope=Scope.ADMIN,
            )
        with pytest.raises(Invalid):
            await perform(
                host, "bus.schedule_at", {**EVENT, "delay": math.nan}, by="anna", scope=Scope.ADMIN
            )


@pytest.mark.parametrize(
    ("verb", "args", "path"),
    [
        ("workflows", {"limit": {"a": 1}}, "limit"),
        ("workflows", {"limit": [1, 2]}, "limit"),
        ("runs", {"status": {"a": 1}}, "status"),
        ("bus.cancel", {"deferred_id": {"a": 1}}, "deferred_id"),
        ("backup", {"path": {"a": "/x"}}, "path"),
    ],
)
def test_an_object_or_a_list_is_refused_by_the_name_of_its_argument(
    verb: str, args: dict[str, Json], path: str
) -> None:
    """U6: also where the type of the argument is annotated, and has parts of its own."""
    with pytest.raises(Invalid) as caught:
        read_arguments(VERBS[verb], args)
    assert caught.value.path == path


# -- An act that a bug ended --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "done", "told"),
    [
        ("before", "no", "It was not done."),
        ("inside", "unknown", "Whether it was done is not known: look before you try again."),
        ("after", "yes", "It was done all the same."),
    ],
)
async def test_a_bug_says_whether_the_act_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, done: str, told: str
) -> None:
    """U6, A5: and nothing of what the bug knew."""

    def fail(*_: object, **__: object) -> Any:
        raise KeyError("hunter2")

    async def act(host: Host, workflow: str, **_: Any) -> None:
        if place == "inside":
            fail()

    replace_verb(monkeypatch, "pause", act)
    if place != "inside":
        monkeypatch.setattr(codec, {"before": "read_arguments", "after": "to_json"}[place], fail)
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        with pytest.raises(DulyError) as caught:
            await perform(host, "pause", {"workflow": "tea"}, by="ada", scope=Scope.ADMIN)
    error = caught.value
    assert (error.code, error.facts) == ("failed_inside", {"cause": "KeyError", "done": done})
    assert str(error) == f"pause failed inside the host (KeyError), which is a bug in Duly. {told}"
    assert error.next == (None if done == "no" else see("actions"))
