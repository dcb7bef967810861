"""The catalogue: tools that are what they say, under every name a script may use."""

from __future__ import annotations

import math
from typing import Any

import pytest

from duly.errors import Invalid
from duly.rules.catalog import (
    Catalog,
    JsonType,
    Parameter,
    Risk,
    Tool,
    ToolKind,
    bind,
    camel,
)
from duly.rules.value import Json

APPEND = Tool(
    "sheets.append_row",
    ToolKind.MUTATION,
    "sheets.append",
    parameters=(
        Parameter("spreadsheet_id", types=frozenset({JsonType.STRING})),
        Parameter("values", types=frozenset({JsonType.LIST})),
        Parameter("at", required=False, types=frozenset({JsonType.INTEGER, JsonType.NULL})),
        Parameter("note", required=False),
    ),
)
SEARCH = Tool("gmail.search", ToolKind.READ, "gmail.read", Risk.LOW)


def tool(**changes: Any) -> Tool:
    fields: dict[str, Any] = {"name": "a.b", "kind": ToolKind.MUTATION, "capability": "a.write"}
    return Tool(**{**fields, **changes})


def test_a_tool_has_the_defaults_of_the_public_interface() -> None:
    """A1: a tool nobody described is of medium risk, slow to show, and never sent twice."""
    made = tool()
    assert (made.risk, made.noun, made.lag_s, made.timeout_s) == (Risk.MEDIUM, None, 60, 30)
    assert (made.idempotent, made.key_lifetime_s, made.reconciles) == (False, None, False)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"idempotent": True}, "key_lifetime_s"),
        ({"key_lifetime_s": 60}, "key_lifetime_s"),
        ({"idempotent": True, "key_lifetime_s": 0}, "key_lifetime_s"),
        ({"idempotent": True, "key_lifetime_s": math.nan}, "key_lifetime_s"),
        ({"lag_s": -1}, "lag_s"),
        ({"lag_s": math.inf}, "lag_s"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": math.nan}, "timeout_s"),
        ({"timeout_s": True}, "timeout_s"),
        ({"kind": ToolKind.READ, "reconciles": True}, "kind"),
        ({"kind": ToolKind.READ, "idempotent": True, "key_lifetime_s": 5}, "kind"),
    ],
)
def test_a_tool_that_contradicts_itself_is_refused(changes: dict[str, Any], path: str) -> None:
    """L7: an idempotent tool says how long its key is remembered; times are times."""
    with pytest.raises(Invalid) as refused:
        tool(**changes)
    assert refused.value.path == path


def test_a_key_that_is_remembered_for_ever_is_fine() -> None:
    """L7: a unique column never forgets, and a tool without lag says so."""
    assert tool(idempotent=True, key_lifetime_s=math.inf, lag_s=0).key_lifetime_s == math.inf


@pytest.mark.parametrize(
    "name",
    [
        *["append", "a.b.c", "A.b", "a.B", "a._b", "a.b_", "a.b__c", ".b", "a.", "a.1b", "a.é"],
        *["a b.c", "publish.all", "x.then", "x.import", "peek.x", "get_by_ids.x", "x." + "y" * 99],
    ],
)
def test_a_name_no_script_could_use_is_refused(name: str) -> None:
    """A1: a tool's name is two snake_case words that neither language nor ctx has taken."""
    with pytest.raises(Invalid):
        tool(name=name)
    with pytest.raises(Invalid):
        tool(capability=name)


def test_a_name_of_100_characters_is_the_longest() -> None:
    """N: names have at most 100 characters."""
    assert tool(name="x." + "y" * 98).name.endswith("y")


def test_both_languages_find_the_same_tool() -> None:
    """W1: snake_case and camelCase are two entries of one table."""
    catalog = Catalog((APPEND, SEARCH))
    assert catalog.find("sheets.append_row") is APPEND
    assert catalog.find("sheets.appendRow") is APPEND
    assert catalog.find("gmail.search") is SEARCH
    assert camel("google_sheets.append_row_2") == "googleSheets.appendRow2"


def test_two_tools_on_one_name_are_refused() -> None:
    """W1: a name is never converted back, so it must not fall together with another."""
    with pytest.raises(Invalid, match=r'"a\.get2" in a script'):
        Catalog((tool(name="a.get_2"), tool(name="a.get2")))
    with pytest.raises(Invalid, match="Rename one"):
        Catalog((APPEND, APPEND))
    with pytest.raises(Invalid, match="Rename one"):
        tool(parameters=(Parameter("v_1"), Parameter("v1")))


def test_an_unknown_tool_is_refused_with_the_nearest_name() -> None:
    """W5: the author is told which tool was probably meant."""
    with pytest.raises(Invalid, match=r'no tool sheets\.apendRow\. .*"sheets\.appendRow"'):
        Catalog((APPEND, SEARCH)).find("sheets.apendRow")


@pytest.mark.parametrize(
    ("named", "positional"),
    [
        ({"spreadsheet_id": "S1", "values": [1]}, ()),
        ({"spreadsheetId": "S1", "values": [1]}, ()),
        ({"values": [1]}, ("S1",)),
        ({}, ("S1", [1])),
    ],
)
def test_arguments_are_bound_under_the_names_of_the_tool(
    named: dict[str, Json], positional: tuple[Json, ...]
) -> None:
    """A1: whatever the language, the ledger sees one spelling; what is absent stays absent."""
    assert bind(APPEND, named, positional) == {"spreadsheet_id": "S1", "values": [1]}


GOOD: dict[str, Json] = {"spreadsheet_id": "S1", "values": []}


@pytest.mark.parametrize(
    ("named", "positional", "path"),
    [
        ({"values": []}, (), "sheets.append_row.spreadsheet_id"),
        ({}, (), "sheets.append_row.spreadsheet_id"),
        ({**GOOD, "row": 1}, (), "sheets.append_row.row"),
        ({**GOOD, "spreadsheetId": "S1"}, (), "sheets.append_row.spreadsheet_id"),
        (GOOD, ("S1",), "sheets.append_row.spreadsheet_id"),
        ({}, ("S1", [], 1, 2, 3), "sheets.append_row"),
        ({**GOOD, "values": "x"}, (), "sheets.append_row.values"),
        ({**GOOD, "spreadsheet_id": None}, (), "sheets.append_row.spreadsheet_id"),
        ({**GOOD, "at": True}, (), "sheets.append_row.at"),
        ({**GOOD, "at": 1.5}, (), "sheets.append_row.at"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(
    named: dict[str, Json], positional: tuple[Json, ...], path: str
) -> None:
    """A1: unknown, missing, doubled and wrong arguments are refused before anything is sent."""
    with pytest.raises(Invalid) as refused:
        bind(APPEND, named, positional)
    assert refused.value.path == path


def test_all_arguments_may_be_given_by_place() -> None:
    """A1: as many as there are parameters, and not one more."""
    assert bind(APPEND, {}, ("S1", [], 1, "n")) == {**GOOD, "at": 1, "note": "n"}


def test_an_argument_of_any_listed_type_fits() -> None:
    """A1: an integer is a number, null fits where it is listed, no types means any."""
    for value in (1, None):
        assert bind(APPEND, {**GOOD, "at": value})["at"] == value
    assert bind(APPEND, {**GOOD, "note": {"x": 1.5}})["note"] == {"x": 1.5}
    number = tool(parameters=(Parameter("n", types=frozenset({JsonType.NUMBER})),))
    assert bind(number, {"n": 1}) == {"n": 1}
    assert bind(number, {"n": 1.5}) == {"n": 1.5}


@pytest.mark.parametrize(
    "value",
    [2**60, float("nan"), "\ud800", "x" * 1_100_000],
    ids=["integer", "nan", "half", "long"],
)
def test_an_argument_that_is_no_strict_json_is_refused_before_it_is_hashed(value: object) -> None:
    """A1, T8: the ledger keeps arguments as JSON, so a mistake of the script is named as one."""
    with pytest.raises(Invalid):
        bind(APPEND, {**GOOD, "note": value})  # type: ignore[dict-item]  # what a script may send
