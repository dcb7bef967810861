"""Allowances: which calls need no further yes, and when that ends (A3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duly.errors import Invalid
from duly.rules.allowance import (
    CALLS_MAX,
    DAYS_MAX,
    Allowance,
    End,
    check_terms,
    find_end,
    find_misfit,
    is_covered,
)
from duly.rules.catalog import Risk, Tool, ToolKind
from duly.rules.schedule import DAY_MS
from duly.rules.value import Json

TOOL = Tool("mail.send", ToolKind.MUTATION, "mail.send")
ARGS: dict[str, Json] = {"to": "a@acme.com", "text": "hello", "copies": 1}
ALLOWED = Allowance("mail.send", "1.0", ARGS, {"to": "*@acme.com"}, calls=2, until=100)


def covers(args: dict[str, Json], *, tool: Tool = TOOL, most: str = "medium") -> bool:
    return is_covered(ALLOWED, tool, args, "1.0", 50, risk_max=most)


@pytest.mark.parametrize(
    ("args", "is_fine"),
    [
        (ARGS, True),
        ({**ARGS, "to": "b@acme.com"}, True),
        ({**ARGS, "copies": 1.0}, True),
        ({**ARGS, "to": "b@evil.com"}, False),
        ({**ARGS, "to": "b@evil.com, b@acme.com"}, False),
        ({**ARGS, "to": None}, False),
        ({**ARGS, "text": "other"}, False),
        ({**ARGS, "copies": 2}, False),
        ({**ARGS, "cc": "c@acme.com"}, False),
        ({"to": "a@acme.com", "text": "hello"}, False),
        ({"text": "hello", "copies": 1}, False),
    ],
)
def test_named_arguments_match_their_globs_and_the_others_are_the_same(
    args: dict[str, Json], is_fine: bool
) -> None:
    """A3: what an allowance does not name equals the approved call."""
    assert covers(args) is is_fine


@pytest.mark.parametrize("row", [{"number": 2}, {}, [{"number": 2}], 2, "two", None])
def test_a_lone_star_covers_every_value_of_an_argument(row: Json) -> None:
    """A3: a row is an object, which no other glob sees; one that was left out is not covered."""
    tool = Tool("table.insert", ToolKind.MUTATION, "table.insert")
    first: dict[str, Json] = {"table": "invoices", "row": {"number": 1}}
    allowed = Allowance(tool.name, "1.0", first, {"row": "*"}, calls=2, until=100)

    def covers(args: dict[str, Json]) -> bool:
        return is_covered(allowed, tool, args, "1.0", 50, risk_max="medium")

    assert covers({**first, "row": row})
    assert not covers({"table": "orders", "row": row})
    assert not covers({"table": "invoices"})


def test_a_glob_that_does_not_fit_the_call_itself_is_found() -> None:
    """A3: such an allowance would cover nothing, and nobody would know."""
    args: dict[str, Json] = {"table": "invoices", "row": {"number": 1}}
    tool = Tool("table.insert", ToolKind.MUTATION, "table.insert")
    assert find_misfit({"table": "inv*", "row": "*"}, tool, args) is None
    assert find_misfit({"table": "inv*", "row": "*1*"}, tool, args) == "row"
    assert find_misfit({"table": "orders"}, tool, args) == "table"
    assert find_misfit({"key": "*"}, tool, args) == "key"


def test_another_tool_and_a_higher_risk_are_not_covered() -> None:
    """A3: for high risk only where the policy allows it, also when the risk was raised since."""
    assert not covers(ARGS, tool=replace(TOOL, name="mail.draft"))
    high = replace(TOOL, risk=Risk.HIGH)
    assert not covers(ARGS, tool=high)
    assert covers(ARGS, tool=high, most="high")
    assert not covers(ARGS, most="low")


@pytest.mark.parametrize(
    ("allowance", "version", "now", "end"),
    [
        (ALLOWED, "1.0", 99, None),
        (ALLOWED, "1.0", 100, End.TIME),
        (ALLOWED, "1.1", 99, End.VERSION),
        (ALLOWED, "2.0", 99, End.VERSION),
        (replace(ALLOWED, used=1), "1.0", 99, None),
        (replace(ALLOWED, used=2), "1.0", 99, End.CALLS),
        (replace(ALLOWED, is_revoked=True), "1.0", 99, End.REVOKED),
    ],
)
def test_an_allowance_ends(allowance: Allowance, version: str, now: int, end: End | None) -> None:
    """A3: with its version, at its time, after its calls, or when it is revoked."""
    assert find_end(allowance, version, now) is end
    assert is_covered(allowance, TOOL, ARGS, version, now, risk_max="medium") is (end is None)


def test_an_allowance_has_limits() -> None:
    """A3: so many calls and so many days, and not one more."""
    most = DAYS_MAX * DAY_MS
    assert check_terms(CALLS_MAX, 10 + most, 10) == CALLS_MAX
    for calls in (0, CALLS_MAX + 1, True, 1.0, "1"):
        with pytest.raises(Invalid, match="calls is"):
            check_terms(calls, 20, 10)
    for until in (10, 9, 11 + most):
        with pytest.raises(Invalid, match="until must"):
            check_terms(1, until, 10)
