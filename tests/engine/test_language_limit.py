"""Limits of looking and reserving, one past each, in the sandboxes of both languages (T6, T7)."""

from __future__ import annotations

from typing import Any

import pytest

from duly import Source
from duly.config import Limits, Policy
from duly.connectors.base import Connector, read
from duly.host import Host
from duly.rules.source import Language
from duly.sandbox.javascript import JavaScriptScript
from duly.sandbox.python import PythonScript
from duly.testing import Stage

LANGUAGES = ("python", "javascript")
PYTHON = """\
import asyncio
from duly import workflow

flow = workflow("flow", topics={"in": {"ingress": True}})


@flow.consumer("in")
class file:
    async def prepare(self, ctx, state):
        BODY
        return {"reservations": [], "data": {}}
"""
JAVASCRIPT = """\
export default Keep.workflow({
  name: "flow",
  topics: {in: {ingress: true}},
  consumers: {
    file: Keep.consumer({
      subscribe: ["in"],
      prepare: async (ctx, state) => {
        BODY
        return {reservations: [], data: {}};
      },
    }),
  },
});
"""
LIMITS = Limits(peek_events=3, peek_bytes=60, reservations_per_run=2)
RESERVE_TWICE = {
    "python": """ids = [each["id"] for each in await ctx.peek("in")]
        return {"reservations": [{"topic": "in", "ids": ids + ids}]}""",
    "javascript": """const ids = (await ctx.peek("in")).map((each) => each.id);
        return {reservations: [{topic: "in", ids: [...ids, ...ids]}]};""",
}
# What stands at the limit, what is one past it, and what is said then.
CASES: dict[str, dict[str, tuple[str, str, str]]] = {
    "limit of a peek": {
        "python": (
            'assert len(await ctx.peek("in", limit=3)) == 2',
            'await ctx.peek("in", limit=4)',
            "peek.limit must be a whole number from 1 to 3",
        ),
        "javascript": (
            'if ((await ctx.peek("in", {limit: 3})).length !== 2) throw new Error("not two");',
            'await ctx.peek("in", {limit: 4});',
            "peek.limit must be a whole number from 1 to 3",
        ),
    },
    "ids of getByIds": {
        "python": (
            'assert len(await ctx.get_by_ids("in", ["a", "y", "z"])) == 1',
            'await ctx.get_by_ids("in", ["a", "x", "y", "z"])',
            "at most 3 message ids",
        ),
        "javascript": (
            'if ((await ctx.getByIds("in", ["a", "y", "z"])).length !== 1) throw new Error("no");',
            'await ctx.getByIds("in", ["a", "x", "y", "z"]);',
            "at most 3 message ids",
        ),
    },
    "bytes of getByIds": {
        "python": (
            'assert len(await ctx.get_by_ids("in", ["a", "b"])) == 2',
            'await ctx.get_by_ids("in", ["a", "b", "c"])',
            "one call returns at most 60. Ask for fewer at a time",
        ),
        "javascript": (
            'if ((await ctx.getByIds("in", ["a", "b"])).length !== 2) throw new Error("no");',
            'await ctx.getByIds("in", ["a", "b", "c"]);',
            "one call returns at most 60. Ask for fewer at a time",
        ),
    },
    "reservations": {
        "python": (
            RESERVE_TWICE["python"],
            'return {"reservations": [{"topic": "in", "ids": ["c", "d", "e"]}]}',
            "at most 2 events are allowed",
        ),
        "javascript": (
            RESERVE_TWICE["javascript"],
            'return {reservations: [{topic: "in", ids: ["c", "d", "e"]}]};',
            "at most 2 events are allowed",
        ),
    },
}


class Tape(Connector):
    """Answers what it is told, and counts."""

    name = "tape"

    def __init__(self) -> None:
        self.begun = 0

    @read
    async def play(self, text: str) -> str:
        self.begun += 1
        return text


async def running(host: Host, language: str, body: str) -> Any:
    """Deploy a prepare, let it run, and answer its run."""
    template = PYTHON if language == "python" else JAVASCRIPT
    source = Source(Language(language), template.replace("BODY", body))
    await host.deploy(source, by="me", grant=True)
    await host.drain()
    return (await host.runs("flow"))[0]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_one_past_a_limit_of_looking_is_named(duly_world: Stage, language: str) -> None:
    """T6, T7, X2: what stands at it passes; one more is a logic failure, never a shorter answer."""
    host = await duly_world.host(policy=Policy(limits=LIMITS))
    await running(host, language, "pass" if language == "python" else "")
    for message_id in ("a", "b", "c"):
        # 8 bytes of title and 22 of payload: two fit into 60.
        await host.publish("flow", "in", title="An event", message_id=message_id, payload="x" * 20)
    for name, texts in CASES.items():
        at, past, says = texts[language]
        run = await running(host, language, at)
        assert run.status == "committed", (name, run.error)
        run = await running(host, language, past)
        assert run.status == "failed:logic", name
        assert says in run.error.message, name


GATHERED = {
    "python": (
        'told = await asyncio.gather(*[ctx.tape.play(text=f"{n:018}") for n in range(40)])\n'
        '        assert told == [f"{n:018}" for n in range(40)]'
    ),
    "javascript": (
        "const words = Array.from({length: 40}, (_, n) => `${n}`.padStart(18, '0'));\n"
        "const told = await Promise.all(words.map((text) => ctx.tape.play({text})));\n"
        'if (told.join() !== words.join()) throw new Error("another order");'
    ),
}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_gathered_answers_wait_by_bytes_in_both_languages(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    """X2: forty reads at once, room for five answers; each gets its own."""
    tape = Tape()
    handed, waiting = [0], [0]
    kind: Any = PythonScript if language == "python" else JavaScriptScript
    plain = kind.answer

    async def answer(self: Any, call_id: int, value: Any) -> Any:
        waiting.append(tape.begun - handed[0])
        handed[0] += 1
        return await plain(self, call_id, value)

    monkeypatch.setattr(kind, "answer", answer)
    limits = Limits(result_bytes=20, answers_bytes=100)
    host = await duly_world.host(policy=Policy(limits=limits), connectors=[tape])
    run = await running(host, language, GATHERED[language])
    assert run.status == "committed", run.error
    assert (tape.begun, handed) == (40, [40])
    assert 2 <= max(waiting) <= 5
