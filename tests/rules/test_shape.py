"""What a tool answers, as its author declared it: told to scripts, and stood in for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

from duly import Connector, Page, read
from duly.connectors import Clock, Files, Mailbox, Table
from duly.connectors.registry import Registry
from duly.connectors.signature import shape_of
from duly.rules.catalog import JsonType, Shape
from duly.rules.shape import in_javascript, sample
from duly.rules.value import Json

STRING, INTEGER = Shape(frozenset({JsonType.STRING})), Shape(frozenset({JsonType.INTEGER}))
ROW = Shape(frozenset({JsonType.OBJECT}), (("row", INTEGER), ("table", STRING)))


class Dict(TypedDict):
    row: int
    table: str


@dataclass
class Data:
    row: int
    table: str


class Struct(msgspec.Struct):
    row: int
    table: str


class Endless(TypedDict):
    inside: Endless


@pytest.mark.parametrize("kind", [Dict, Data, Struct])
def test_a_shape_is_read_of_every_way_to_declare_one(kind: Any) -> None:
    assert shape_of(kind) == ROW
    assert shape_of(kind | None) == Shape(ROW.types | {JsonType.NULL}, ROW.fields)
    assert shape_of(list[kind]) == Shape(frozenset({JsonType.LIST}), item=ROW)
    assert shape_of(Page[kind]) == Shape(ROW.types, item=ROW, is_page=True)


@pytest.mark.parametrize("kind", [Any, object, set[int], Dict | Any, complex])
def test_what_says_nothing_claims_nothing(kind: Any) -> None:
    assert shape_of(kind) == Shape()
    assert in_javascript(shape_of(kind)) == "any"


def test_a_shape_ends_and_an_annotation_that_cannot_be_read_refuses_nothing() -> None:
    class Odd(Connector):
        name = "odd"

        @read
        async def look(self) -> NoSuchName: ...  # type: ignore[name-defined]  # noqa: F821

    assert "Record" not in in_javascript(shape_of(Endless))
    (tool,) = Registry([Odd()]).catalog.tools
    assert tool.result is None


@pytest.mark.parametrize(
    ("args", "made"),
    [
        ({"table": "people", "row": {"a": 1}}, {"table": "people"}),
        ({"table": "people", "row": 7}, {"table": "people", "row": 7}),
        ({}, {}),
    ],
)
def test_a_sample_has_the_shape_and_repeats_what_was_asked(
    args: dict[str, Json], made: dict[str, Json]
) -> None:
    found = sample(ROW, args)
    assert isinstance(found, dict)
    assert (type(found["row"]), type(found["table"])) == (int, str)
    assert found.items() >= made.items()
    assert sample(ROW, args) == found  # the same call, the same answer
    assert sample(ROW, {"other": 1}) != found
    assert sample(None, args) == {}


def test_every_ready_made_tool_says_what_it_answers(tmp_path: Any) -> None:
    made = Registry([Clock(), Files(tmp_path), Mailbox(tmp_path), Table(tmp_path)]).catalog
    told = {tool.name: in_javascript(tool.result) for tool in made.tools}
    assert told["table.insert"] == "{ row: number; table: string }"
    assert told["files.write"] == "{ path: string; bytes: number }"
    assert told["clock.next"] == "string"
    assert told["table.find"] == "{ row: number; values: Record<string, any> } | null"
    assert "from: string" in told["mailbox.search"]
    assert "any" not in {each.partition(" ")[0] for each in told.values()}
