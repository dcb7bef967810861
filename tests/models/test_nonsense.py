"""A model that answers nonsense: a counted error, and never the end of a host (M2)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.errors import ConnectorError
from duly.rules.model import ANSWER_BYTES_MAX
from tests.connectors.shop import packed, raw
from tests.models.server import ModelServer
from tests.models.test_asking import SCHEMA, Desk, question
from tests.store.exam import World

pytestmark = pytest.mark.anyio

DEEP = "[" * 100_000 + "]" * 100_000
WHOLE = {"role": "assistant", "content": "a", "refusal": None}


def openai(content: Any, end: Any = "stop", **usage: Any) -> dict[str, Any]:
    message = {**WHOLE, "content": content}
    return {"choices": [{"message": message, "finish_reason": end}], "usage": usage}


def anthropic(content: Any, end: Any = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"content": content, "stop_reason": end, "usage": usage}


def said(text: Any) -> list[Any]:
    return [{"type": "text", "text": text}]


NONSENSE: dict[str, tuple[str, Any]] = {
    "an end that is no word": ("openai", openai("a", {"a": 1})),
    "an end that is a list": ("anthropic", anthropic(said("a"), ["end_turn"])),
    "no choice": ("openai", {"choices": []}),
    "choices by name": ("openai", {"choices": {"0": {}}}),
    "a text that is none": ("openai", openai({"a": 1})),
    "a block without a text": ("anthropic", anthropic([{"type": "text"}, 5, None])),
    "a text that is a number": ("anthropic", anthropic(said(5))),
    "only a list": ("openai", [1, 2]),
    "nothing": ("anthropic", None),
    "huge": ("openai", openai("x" * (ANSWER_BYTES_MAX + 1))),
}
BODIES = {
    "deep": DEEP.encode(),
    "deep inside": json.dumps(openai("a")).replace('"a"', DEEP).encode(),
    "no JSON": b"<html>no</html>",
    "not UTF-8": b'{"choices": "\xff"}',
    "a number without end": b'{"choices": 1e99999999}',
    "larger than a response may be": b'"' + b"x" * (3 * 1024 * 1024) + b'"',
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    with ModelServer(tmp_path) as made:
        yield made


@pytest.fixture
async def desk(tmp_path: Path, server: ModelServer) -> AsyncIterator[Desk]:
    world = await World(tmp_path / "world").open()
    yield Desk(world, server)
    await world.close()


async def ends_in_an_error(desk: Desk, body: bytes, api: str) -> None:
    desk.server.next(raw(packed(body)))
    with pytest.raises(ConnectorError):
        await desk.models(api=api).ask(question())
    (day,) = await desk.days()
    (row,) = await desk.questions()
    assert (day.calls, row.status) == (1, "failed")


@pytest.mark.parametrize("name", NONSENSE)
async def test_an_answer_of_another_form_is_an_error(name: str, desk: Desk) -> None:
    """M2: whatever stands where a word or a text should."""
    api, value = NONSENSE[name]
    await ends_in_an_error(desk, json.dumps(value).encode(), api)


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_that_is_no_answer_is_an_error(name: str, desk: Desk) -> None:
    """M2: also one that would exhaust a reader."""
    await ends_in_an_error(desk, BODIES[name], "openai")


@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "\u202eobey", "\x1b[2J"])
@pytest.mark.parametrize("is_json", [True, False])
async def test_characters_that_no_store_keeps_are_an_answer_or_an_error(
    text: str, is_json: bool, desk: Desk
) -> None:
    """M2: it is recorded, or it fails; a question never stays open because of its answer."""
    shown = json.dumps({"kind": text}) if is_json else text
    schema = {**SCHEMA, "properties": {"kind": {"type": "string"}}} if is_json else None
    for _ in range(2):
        desk.server.next(raw(packed(json.dumps(openai(shown)).encode())))
    try:
        found = await desk.models().ask(question(schema=schema))
    except ConnectorError:
        pass
    else:
        assert found.text.encode()
    rows = await desk.questions()
    assert {each.status for each in rows} <= {"answered", "failed"}


@pytest.mark.parametrize("tokens", [-1, True, 10**30, "7", None, {"a": 1}, 1.5])
async def test_a_count_that_is_none_keeps_its_reservation(tokens: Any, desk: Desk) -> None:
    """M2: what a service says of its tokens is believed only if it can be."""
    value = openai("fine", prompt_tokens=tokens, completion_tokens=tokens)
    desk.server.next(raw(packed(json.dumps(value).encode())))
    await desk.models().ask(question())
    (day,) = await desk.days()
    assert day.reserved > 0
    assert (day.tokens_in, day.tokens_out) == (0, 0)
