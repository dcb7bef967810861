"""The border: names we own are translated, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.rules.access import Step
from duly.rules.catalog import Catalog, Parameter, Tool, ToolKind
from duly.rules.value import Json
from duly.sandbox import border

CATALOG = Catalog(
    (
        Tool(
            "sheets.append_row",
            ToolKind.MUTATION,
            "sheets.append",
            parameters=(Parameter("spreadsheet_id"), Parameter("values")),
        ),
    )
)
EVENT = {"topic": "t", "message_id": "1", "title": "One", "payload": {"message_id": 5}}


def to_javascript(path: str, value: Json) -> tuple[Json, Json]:
    """Translate a value, and read what came of it."""
    shown, names = border.to_javascript(path, border.written(value))
    return msgspec.json.decode(shown), msgspec.json.decode(names)


def to_python(path: str, value: Json) -> Json:
    """Translate a value, and read what came of it."""
    read: Json = msgspec.json.decode(border.to_python(path, border.written(value)))
    return read


@pytest.mark.parametrize(
    ("path", "args", "wanted"),
    [
        (
            "sheets.appendRow",
            [{"spreadsheetId": "S", "values": [{"spreadsheetId": 1}]}],
            ("sheets.append_row", (), {"spreadsheet_id": "S", "values": [{"spreadsheetId": 1}]}),
        ),
        ("sheets.append_row", [{"values": 1}], ("sheets.append_row", (), {"values": 1})),
        ("sheets.appendRow", [], ("sheets.append_row", (), {})),
        ("sheets.appendRow", ["S", [1]], ("sheets.append_row", ("S", [1]), {})),
        ("sheets.appendRow", [{"newThing": 1}], ("sheets.append_row", (), {"newThing": 1})),
        ("mail.sendAll", [{"toWhom": 1}], ("mail.sendAll", (), {"toWhom": 1})),
        (
            "publish",
            ["t", {"messageId": "1", "title": "x", "payload": {"messageId": 2}, "colour": 3}],
            (
                "publish",
                ("t",),
                {"message_id": "1", "title": "x", "payload": {"messageId": 2}, "colour": 3},
            ),
        ),
        ("publish", ["t"], ("publish", ("t",), {})),
        ("publish", ["t", "u"], ("publish", ("t", "u"), {})),
        ("peek", ["t"], ("peek", ("t",), {})),
        ("peek", ["t", {"limit": 5, "after": "9"}], ("peek", ("t",), {"limit": 5, "after": "9"})),
        ("getByIds", ["t", ["1", "2"]], ("get_by_ids", ("t", ["1", "2"]), {})),
    ],
)
def test_a_call_is_spelled_our_way(path: str, args: list[Any], wanted: border.Asked) -> None:
    """X3: tool, argument and field names are looked up; what they hold is unchanged."""
    assert border.from_javascript_call(CATALOG, path, args) == wanted


def test_a_name_in_both_spellings_is_not_merged() -> None:
    """X3: neither of two values is lost in silence; the reader refuses the strange one."""
    _, _, fields = border.from_javascript_call(
        CATALOG, "publish", ["t", {"messageId": "1", "message_id": "2"}]
    )
    assert fields == {"messageId": "1", "message_id": "2"}


def test_only_the_top_of_a_prepare_result_has_a_name_of_ours() -> None:
    """C4: wakeAt is ours there, and nowhere else."""
    value: Any = {"reservations": [], "data": {"wakeAt": 1}, "wakeAt": "2030-01-01"}
    wanted = {"reservations": [], "data": {"wakeAt": 1}, "wake_at": "2030-01-01"}
    assert border.from_javascript_result(Step.PREPARE, value) == wanted
    for step in (Step.PRODUCE, Step.MUTATE, Step.NEXT):
        assert border.from_javascript_result(step, value) == value
    assert border.from_javascript_result(Step.PREPARE, [1]) == [1]


@pytest.mark.parametrize("path", ["peek", "get_by_ids"])
def test_an_event_is_shown_with_exactly_its_five_names(path: str) -> None:
    """T7: in the script's own spelling; nothing else of it is shown."""
    stored: Any = [{**EVENT, "seq": 7, "status": "pending"}]
    same = {"topic": "t", "id": "1", "title": "One", "payload": {"message_id": 5}}
    assert to_javascript(path, stored) == ([{**same, "messageId": "1"}], None)
    assert to_python(path, stored) == [{**same, "message_id": "1"}]


def test_what_looks_like_an_event_elsewhere_is_not_touched() -> None:
    """X3: results of tools pass unchanged."""
    value: Any = [EVENT]
    assert to_javascript("mail.search", value) == (value, None)
    assert to_python("mail.search", value) == value


def test_a_page_is_a_list_with_names_in_javascript_and_an_object_in_python() -> None:
    """X3: the mark itself never crosses."""
    page: Any = {"$page": True, "items": [{"a_b": 1}], "last_cursor": "c", "has_more": False}
    items, names = to_javascript("mail.search", page)
    assert (items, names) == ([{"a_b": 1}], {"lastCursor": "c", "hasMore": False})
    assert to_python("mail.search", page) == {
        "items": [{"a_b": 1}],
        "last_cursor": "c",
        "has_more": False,
    }


@pytest.mark.parametrize("value", [{"items": [1]}, {"$page": 1, "items": []}, {"$page": True}, 3])
def test_what_is_not_marked_is_no_page(value: Any) -> None:
    """X3: an object of the outside that has items stays one."""
    assert to_javascript("mail.search", value) == (value, None)
    assert to_python("mail.search", value) == value


@given(st.integers(), st.integers())
def test_the_dice_are_the_seed_s_and_nobody_else_s(one: int, other: int) -> None:
    """C13: the same seed throws the same, another throws another, of whatever size."""
    assert (border.dice(one) == border.dice(other)) == (one == other)
    assert all(0 <= word < 2**32 for word in border.dice(one))
