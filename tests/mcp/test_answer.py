"""What a tool answers is short, goes on where it ended, and names its page (M5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duly.api.registry import VERBS, Scope
from duly.faces.mcp.answer import ANSWER_BYTES_MAX, envelop, fit
from duly.faces.mcp.tool import ROWS, ROWS_MAX, ToolRow, Tools

TOOLS = Tools(VERBS)


def test_the_tools_are_these_in_this_order() -> None:
    """M5: an agent that learned them finds them again."""
    names = (
        "guide status attention why inputs outputs runs run find tools source versions check try "
        "what_if simulate wait deploy publish act"
    )
    assert [each.name for each in TOOLS.list_all(Scope.AGENT)] == names.split()
    assert [each.name for each in TOOLS.list_all(Scope.ADMIN)] == names.split()
    assert TOOLS.list_all(Scope.READ)[-1].name == "act"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_tool_takes_what_its_verb_takes(row: ToolRow) -> None:
    """M5, U6: with the types of the registry; how many rows is not the agent's to say."""
    (tool,) = (each for each in TOOLS.list_all(Scope.ADMIN) if each.name == row.name)
    verb = VERBS[row.verb]
    known = {each.name for each in verb.parameters} - {"limit", *row.left_out}
    assert {*tool.schema["properties"]} - {"offset"} == known
    assert {*tool.schema["required"]} == {e.name for e in verb.parameters if e.is_required}
    assert tool.schema["additionalProperties"] is False
    assert "$ref" not in json.dumps(tool.schema) or "$defs" in tool.schema


def rows(count: int, text: str = "x") -> list[Any]:
    return [{"id": f"run_{number}", "title": text} for number in range(count)]


def test_rows_are_limited_and_go_on_behind_the_last_one_shown() -> None:
    """M5: one past the limit, and rows that are too long to be shown together."""
    verb = VERBS["runs"]
    data, more = fit(verb, {"workflow": "w", "limit": ROWS_MAX}, rows(ROWS_MAX))
    assert (len(data), more) == (ROWS_MAX, {"workflow": "w", "before": "run_49"})  # type: ignore[arg-type]
    assert fit(verb, {"limit": ROWS_MAX}, rows(ROWS_MAX - 1))[1] is None
    data, more = fit(verb, {"limit": ROWS_MAX}, rows(ROWS_MAX, "x" * 1500))
    assert isinstance(data, list)
    assert 1 <= len(data) < 15
    assert more == {"before": data[-1]["id"]}  # type: ignore[call-overload, index]
    data, more = fit(VERBS["tools"], {}, rows(ROWS_MAX + 1))
    assert (len(data), more) == (ROWS_MAX, {"left_out": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [{"a": "é\u202e" * 60_000}, rows(1, "x" * 90_000), "y" * 90_000])
def test_no_answer_is_longer_than_its_limit(answer: Any) -> None:
    """M5: whatever it is; long texts say how much is left out."""
    said = envelop(ToolRow("runs", "runs"), VERBS["runs"], {}, answer, "http://127.0.0.1:7337")
    assert len(said.encode()) <= ANSWER_BYTES_MAX
    assert "more characters" in said
    deep: Any = "z" * 1000
    for _ in range(40):
        deep = [deep] * 3
        if len(json.dumps(deep)) > 300_000:
            break
    assert len(envelop(ToolRow("a", "why"), VERBS["why"], {}, deep, None).encode()) <= 20_000


def test_a_long_text_is_handed_out_in_parts() -> None:
    """M5: put together they are the whole text."""
    row, text = TOOLS.find("source"), "é" * 30_000
    found, args = "", {"workflow": "a/b"}
    while True:
        said = json.loads(envelop(row, VERBS["source"], args, text, "http://page"))
        found += said["data"]["text"]
        assert said["page"] == "http://page/w/a%2Fb/versions"
        if "more" not in said:
            break
        args = said["more"]
    assert found == text
