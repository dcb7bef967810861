"""A simulation with a model and an MCP server among the tools: neither is reached (M10, M3)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.api.registry import Scope
from duly.connectors import Llm
from duly.errors import Invalid
from duly.host import Host
from duly.rules.model import ANSWER_BYTES_MAX
from duly.rules.model_schema import check_schema, find_misfit, make_sample
from duly.rules.source import Language, Source
from duly.testing.crash_test import CrashTest, Props
from tests.connectors.test_mcp import agreed
from tests.models.test_llm import CLASSIFY, SCRIPT, Desk

TEXT = (
    SCRIPT.replace("CALL", CLASSIFY)
    .replace('"data": {"kind": kind},', '"data": {"kind": kind}, "ui": {"title": "File"},')
    .replace('ctx.desk.file(to="archive@example.com", kind=', "ctx.notes.add_note(text=")
)


def mail(number: int) -> dict[str, Any]:
    payload = {"text": f"mail {number}"}
    return {"topic": "mails", "title": "A", "message_id": f"m{number}", "payload": payload}


def test_a_workflow_that_asks_a_model_is_crashed_without_one(tmp_path: Path) -> None:
    """M3, M10: its tools answer in their form; no server of the settings is started."""
    connectors = [Desk(), Llm(), agreed(tmp_path)]
    props = Props(events=tuple(map(mail, range(4))))
    with CrashTest(Source(Language.PYTHON, TEXT), connectors, props=props) as test:
        told = test.run(crashes_max=1)
    assert (told.troubles, told.mismatches, told.crashes) == ((), (), 1)
    # Which class is said depends on the text, so that more than one way of a script is tried.
    assert {each.args["text"] for each in told.changes} == {"bill", "other"}
    assert not (tmp_path / "started").exists()


class Files(duly.Connector):
    """What an agent would like to read."""

    name = "files"

    def __init__(self) -> None:
        self.asked: list[str] = []

    @duly.read(capability="files.read")
    async def text(self, path: str) -> str:
        self.asked.append(path)
        return "private"


PEEKS = TEXT.replace(f"await {CLASSIFY}", 'await ctx.files.text(path="/private")').replace(
    "ctx.notes.add_note(text=", 'ctx.desk.file(to="a", kind='
)


async def test_an_agent_reads_nothing_real_in_a_simulation(tmp_path: Path) -> None:
    """A1, M1: a simulation looks at no grant; a person may let it read, an agent may not."""
    asked: list[dict[str, Any]] = []

    async def simulator(source: Any, events: Any, answers: Any, crashes: int) -> Any:
        asked.append(answers)
        empty: list[Any] = []
        told = {"workflow": "", "changes": empty, "troubles": empty, "mismatches": empty}
        return {**told, "possible": 0, "crashes": 0, "asked": 0, "missed": 0}

    files, source = Files(), duly.Source(Language.PYTHON, PEEKS)
    connectors = [Desk(), files]
    url = f"sqlite:///{tmp_path}/duly.db"
    async with Host(url, connectors=connectors, simulator=simulator) as host:
        for right in (Scope.ADMIN, Scope.DECIDE, Scope.AGENT):
            await host.simulate(source, right=right)
        await host.simulate(source, answers={"files.text": "given"}, right=Scope.AGENT)
    assert [[*each] for each in asked] == [[], [], ["files.text"], ["files.text"]]
    assert asked[3] == {"files.text": "given"}
    props = Props(events=(mail(1),), answers=asked[2])

    def run() -> Any:
        with CrashTest(source, connectors, props=props) as test:
            return test.run(crashes_max=1)

    told = await asyncio.to_thread(run)
    assert [each.args["kind"] for each in told.changes] == [asked[2]["files.text"]]
    assert files.asked == []


NUMBER: dict[str, Any] = {"type": "number", "maximum": -2}
SCHEMAS: tuple[dict[str, Any], ...] = (
    {"enum": ["a", 1, None]},
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": 2.5}}, "required": ["a"]},
    {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 3},
    {"type": "array", "maxItems": 0},
    {"type": "array", "items": {"type": "null"}, "minItems": 1000},
    {"type": "string", "minLength": 9, "maxLength": 9},
    {"type": ["string", "null"], "maxLength": 2},
    {"type": "boolean"},
    {"type": "null"},
)


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_a_sample_fits_its_schema(schema: dict[str, Any]) -> None:
    """M3: whichever one of an enum is picked."""
    check_schema(schema)
    for pick in range(3):
        assert find_misfit(make_sample(schema, pick), schema) is None


LARGE: tuple[tuple[dict[str, Any], int], ...] = (
    ({"type": "string"}, 1),
    ({"type": ["null", "string"]}, 1),
    ({"type": "object", "properties": {"a": {"type": "string"}}}, 3),
)


@pytest.mark.parametrize(("schema", "around"), LARGE, ids=str)
def test_a_schema_that_no_answer_can_fit_is_refused(schema: dict[str, Any], around: int) -> None:
    """M3, N: else a simulation of an agent's script would fill the memory with a sample of it."""
    inner = schema.get("properties", {}).get("a", schema)
    inner["minLength"] = ANSWER_BYTES_MAX - around
    check_schema(schema)
    inner["minLength"] += 1
    with pytest.raises(Invalid, match=f"longer than {ANSWER_BYTES_MAX} bytes"):
        check_schema(schema)


def test_lists_in_lists_are_counted_by_what_they_hold() -> None:
    """M3, N: 60 to the power of 7 values, in a schema of 200 characters."""
    schema: dict[str, Any] = {"type": "null"}
    for depth in range(7):
        schema = {"type": "array", "items": schema, "minItems": 60}
        if depth < 2:
            check_schema(schema)
    with pytest.raises(Invalid):
        check_schema(schema)
    texts: dict[str, Any] = {"enum": ["x" * 1000]}
    check_schema({"type": "array", "items": texts, "minItems": 100})
    with pytest.raises(Invalid):
        check_schema({"type": "array", "items": texts, "minItems": 1000})
