"""The table of verbs: nothing is missing, and what comes in is checked before a host sees it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from duly.api import registry as verb
from duly.api.registry import (
    ANNOTATIONS,
    LABOURS,
    LIFE,
    QUESTIONS,
    READERS,
    VERBS,
    Kind,
    find_verb,
    perform,
    read_arguments,
    to_json,
)
from duly.bus.bus import Bus
from duly.desk.record import Output
from duly.errors import Invalid, NotFound
from duly.host import Host
from duly.rules.account import OutputStatus
from duly.rules.source import Language, Source
from duly.rules.value import INTEGER_MAX, Json
from tests.faces.stand import EVENT

# Acts whose doer is named by `source`.
WITHOUT_BY = {"bus.emit", "bus.schedule_at"}
# What JSON itself is, in a record or an answer; its alias refers to itself.
JSON = {"Json": str, "Results": str, "Any": str}
WRITTEN = {type(None), bool, int, float, str, datetime, Path, tuple, frozenset, dict, Mapping}
WRITTEN |= {UnionType}
NOON = datetime(2026, 1, 2, 12, 0, 0, 5000, tzinfo=UTC)


def coroutines(owner: type) -> set[str]:
    found = {name for name, each in vars(owner).items() if inspect.iscoroutinefunction(each)}
    return {name for name in found if not name.startswith("_")}


def test_every_public_coroutine_is_a_verb_or_of_a_hosts_own_life() -> None:
    """U6: whoever adds a verb to a host has added it to every face."""
    host = set().union(*(coroutines(each) for each in Host.__mro__))
    bus = {f"bus.{name}" for each in Bus.__mro__ for name in coroutines(each)}
    assert set(VERBS) == (host - LIFE) | bus
    assert host >= LIFE


def test_questions_and_acts_are_told_apart_by_who_does_them() -> None:
    """A6: an act says who did it; a question changes nothing and says nothing."""
    acts = {name for name, each in VERBS.items() if not each.is_question}
    named = {each.name for each in VERBS.values() if "by" in {p.name for p in each.parameters}}
    assert set(VERBS) >= QUESTIONS
    assert not named & QUESTIONS
    assert acts - named <= WITHOUT_BY | {each for each in acts if each.startswith("bus.")}
    assert acts - named - WITHOUT_BY == set()


def test_questions_that_work_for_their_answer_are_not_followed() -> None:
    assert QUESTIONS >= LABOURS
    assert {each.name for each in VERBS.values() if each.is_followable} == QUESTIONS - LABOURS


def test_every_verb_says_what_it_does() -> None:
    assert [each.name for each in VERBS.values() if not each.doc] == []


def test_every_kind_has_its_reader_and_every_annotation_is_somebodys() -> None:
    assert set(READERS) == set(Kind)
    used = {
        str(parameter.annotation).removesuffix(" | None")
        for name in VERBS
        for parameter in inspect.signature(
            getattr(Bus if name.startswith("bus.") else Host, name.removeprefix("bus."))
        ).parameters.values()
        if parameter.name != "self"
    }
    assert used == set(ANNOTATIONS)


def test_a_parameter_of_an_unknown_annotation_stops_the_import() -> None:
    async def paint(self: object, colour: Colour) -> None: ...

    (_, colour) = inspect.signature(paint).parameters.values()
    with pytest.raises(AssertionError, match=r"paint\(colour: Colour\)"):
        verb._read_parameter("paint", colour)


class Colour(StrEnum):
    RED = "red"


def test_a_verb_is_read_off_its_signature() -> None:
    events = find_verb("events")
    shown = {
        each.name: (each.kind, each.is_required, each.is_keyword) for each in events.parameters
    }
    assert shown == {
        "workflow": (Kind.STR, True, False),
        "topic": (Kind.STR, False, True),
        "status": (Kind.WORD, False, True),
        "limit": (Kind.INT, False, True),
        "after": (Kind.INT, False, True),
    }
    defaults = {each.name: (each.default, each.is_nullable) for each in events.parameters}
    assert defaults["limit"] == (100, False)
    assert defaults["after"] == (None, True)
    (status,) = (each for each in events.parameters if each.name == "status")
    assert status.words == ("pending", "reserved", "consumed", "skipped")
    assert events.doc.startswith("List the events of a workflow")


@pytest.mark.parametrize(
    ("name", "args", "path", "sentence"),
    [
        ("why", {}, "id", "why needs id (str), which is missing."),
        ("why", {"idd": "x"}, "why.idd", 'why.idd is not known. Did you mean "id"?'),
        ("why", {"id": 3}, "id", "id is a number; give text."),
        ("why", {"id": None}, "id", "id is null; give text."),
        ("why", {"id": "\ud800"}, "id", "id has half a character. Send whole ones, in UTF-8."),
        ("workflows", {"limit": True}, "limit", "limit is a boolean; give a whole number."),
        ("workflows", {"limit": 1.0}, "limit", "limit is a number; give a whole number."),
        ("workflows", {"limit": None}, "limit", "limit is null; give a whole number."),
        (
            "workflows",
            {"limit": INTEGER_MAX + 1},
            "limit",
            "limit is beyond ±(2^53 - 1), and nothing has such a number.",
        ),
        ("deploy", {"source": "x.py"}, "source", "source is text; give an object such as {"),
        ("deploy", {"source": {"text": "x"}}, "source.language", "source.language is null;"),
        (
            "deploy",
            {"source": {"language": "perl", "text": ""}},
            "source.language",
            "source.language is 'perl'; say one of javascript, python.",
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
            "grant is a number; give true or false.",
        ),
        ("backup", {"path": "copy.db"}, "path", "path is 'copy.db'; give an absolute path."),
        (
            "skip",
            {"workflow": "w", "topic": "t", "message_id": 1.5},
            "message_id",
            "message_id is a number; give text or a whole number.",
        ),
        (
            "grant",
            {"workflow": "w", "capability": "c", "where": {"to": 3}},
            "where.to",
            "where.to is a number; give text.",
        ),
        (
            "try_",
            {"source": {"language": "python", "text": ""}, "events": [3]},
            "events[0]",
            "events[0] is a number; give an object.",
        ),
        ("bus.emit", {**EVENT, "payload": []}, "payload", "payload is a list; give an object."),
        ("bus.schedule_at", {**EVENT, "delay": "1"}, "delay", "delay is text; give a number of"),
        ("bus.deliveries", {"after": [1]}, "after", "after has 1 entries; give two."),
        ("bus.deliveries", {"after": ["1", "x"]}, "after[0]", "after[0] is text; give a whole"),
        ("bus.deferred", {"after": {"id": 1}}, "after", "after is no entry as it was answered:"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name(
    name: str, args: dict[str, Json], path: str, sentence: str
) -> None:
    with pytest.raises(Invalid) as caught:
        read_arguments(find_verb(name), args)
    assert str(caught.value).startswith(sentence)
    assert caught.value.path == path


def test_what_is_left_out_is_left_to_the_default() -> None:
    given: dict[str, Json] = {"workflow": "w", "topic": "t", "title": "T", "message_id": 7}
    assert read_arguments(find_verb("publish"), given) == given


def test_a_source_crosses_as_text() -> None:
    source: Json = {"language": "javascript", "text": "1", "name": "a.js"}
    read = read_arguments(find_verb("check"), {"source": source})
    assert read == {"source": Source(Language.JAVASCRIPT, "1", "a.js")}


def test_an_unknown_verb_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(NotFound, match=r'no verb "bus.emmit". Did you mean "bus.emit"\?'):
        find_verb("bus.emmit")
    for life in LIFE:
        with pytest.raises(NotFound):
            find_verb(life)


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


def test_an_output_is_marked_as_the_scripts_words() -> None:
    """L11: what the script calls a change goes out with the mark on it."""
    output = Output("m", "Row", None, OutputStatus.DONE, NOON, (), "k")
    shown = to_json(output)
    assert isinstance(shown, dict)
    assert (shown["claimed"], shown["words"]) == ("Row", output.words)


def test_what_is_no_record_is_found_out() -> None:
    with pytest.raises(AssertionError, match="an answer holds a object"):
        to_json((object(),))


def kinds_of(hint: Any, found: set[Any]) -> set[Any]:
    """Collect every type that an answer can hold, through records and collections."""
    if hint in found or hint is Ellipsis:
        return found
    if is_dataclass(hint):
        found.add(hint)
        inner = tuple(get_type_hints(hint, localns=JSON).values())
    else:
        found.add(get_origin(hint) or hint)
        inner = get_args(hint)
    for each in inner:
        kinds_of(each, found)
    return found


def test_every_answer_is_of_kinds_that_can_be_written() -> None:
    """U6: a verb that answers something new is found out here, not by whoever asks first."""
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
        assert await perform(host, "bus.emit", EVENT, by="anna") == 1
        answer = await perform(host, "bus.journal", {}, by="anna")
        assert isinstance(answer, list)
        (event,) = answer
        assert isinstance(event, dict)
        assert (event["topic"], event["payload"]) == ("tea.ready", {"cups": 2})
        assert event["status"] == "pending"
        assert await perform(host, "extensions", {}, by="anna") == []


async def test_a_page_goes_on_from_an_entry_as_it_was_answered(tmp_path: Path) -> None:
    """B14: the key of the page before is given back as it came."""
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        for seconds in (60, 120.5, 180):
            await perform(host, "bus.schedule_at", {**EVENT, "delay": seconds}, by="anna")
        first = await perform(host, "bus.deferred", {"limit": 2}, by="anna")
        assert isinstance(first, list)
        rest = await perform(host, "bus.deferred", {"after": first[-1]}, by="anna")
        assert isinstance(rest, list)
        assert [each["id"] for each in (*first, *rest) if isinstance(each, dict)] == [1, 2, 3]
        assert await perform(host, "bus.deliveries", {"after": [0, ""]}, by="anna") == []
        with pytest.raises(Invalid, match="scheduled"):
            await perform(host, "bus.deferred", {"status": "gone"}, by="anna")


async def test_a_number_json_does_not_know_is_refused_by_the_host(tmp_path: Path) -> None:
    """T8: what is handed over unread is checked where it is used."""
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        with pytest.raises(Invalid, match="nan"):
            await perform(host, "bus.emit", {**EVENT, "payload": {"x": math.nan}}, by="anna")
        with pytest.raises(Invalid):
            await perform(host, "bus.schedule_at", {**EVENT, "delay": math.nan}, by="anna")
