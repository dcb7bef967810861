"""No hook of the interpreter leads a script to its bridge (X1)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Final

import pytest

from duly.config import MIB, Limits
from duly.env import Loop
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.source import Language, Source
from duly.sandbox.base import MISSING, Asked, Loaded, Returned, ScriptCall, World
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool
from tests.sandbox.hostile.corpus_hook import Hook, hooks

LIMITS = Limits(step_cpu_s=5, load_s=5, step_wall_s=60, step_memory_bytes=16 * MIB)
WORLD = World(now_ms=1_800_000_000_000, frozen=True, seed=1)
HOOKS = hooks()
# The names in what the bridge keeps: its step, its settings, its traps, its parts, its lines.
BRIDGE_NAMES = frozenset(
    [
        "limits",
        "broken",
        "lastCall",
        "definition",
        "definitions",
        "now_ms",
        "frozen",
        "dice",
        "output_chars",
        "own_calls",
        "takeLogs",
        "declaration",
        "begin",
        "watch",
        "declare",
        "take",
        "exceed",
        "ownKeys",
        "handler",
        "hasMarks",
    ]
)
# What the interpreter itself looks up while the bridge works, and when; it finds the script's own
# values there and hands over nothing else.
INTERPRETER: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    # A promise is resolved with an object; a promise is awaited.
    ("Object.prototype", "then"): frozenset({"answer"}),
    ("Promise.prototype", "constructor"): frozenset({"answer"}),
    # JSON.stringify asks each value for it, and keeps the holders of a value in an array.
    ("Object.prototype", "toJSON"): frozenset({"call", "world"}),
    ("Array.prototype", "toJSON"): frozenset({"call", "world"}),
    ("Array.prototype", "0"): frozenset({"call", "world"}),
    ("Array.prototype", "1"): frozenset({"call", "world"}),
    ("Array.prototype", "2"): frozenset({"call", "world"}),
    # The script looks at its clock.
    ("globalThis", "Date"): frozenset({"clock"}),
    # `instanceof`, of a value that is written to the log.
    ("Error", "@@hasInstance"): frozenset({"world"}),
}
# What a script is meant to have: the dice, and the door of its clock.
OFFERED = frozenset(
    {
        "() => late().random()",
        "() => late().Date",
        '(value) => put(globalThis, "Date", value)',
    }
)


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[JavaScriptSandbox]:
    made = JavaScriptSandbox(Pool(Loop(), workers_max=1), LIMITS)
    yield made
    await made.close()


@pytest.fixture(scope="module")
async def declared(sandbox: JavaScriptSandbox) -> Loaded:
    return await sandbox.load(Source(Language.JAVASCRIPT, HOOKS[0].text()), Catalog())


@pytest.mark.parametrize("hook", HOOKS, ids=lambda each: each.id)
async def test_a_hook_is_shown_nothing_of_the_bridge(
    sandbox: JavaScriptSandbox, declared: Loaded, hook: Hook
) -> None:
    """X1: no function, no state; the clock stands, the host hears what was asked alone.

    While only the bridge works, it looks nothing up where a script can put a function (law 2 of
    prelude.js): no hook is called, but by the interpreter itself, as listed above.
    """
    text = hook.text()
    loaded = Loaded(Source(Language.JAVASCRIPT, text), declared.declaration, catalog=Catalog())
    handler = "produce" if hook.step == "produce" else "consume"
    given = tuple(MISSING for _ in range(3))
    waiting: list[ScriptCall] = []
    paths: list[str] = []
    async with sandbox.open(loaded, handler, Step(hook.step), given, WORLD) as script:
        turn = await script.start()
        while isinstance(turn, Asked):
            waiting += turn.calls
            call = waiting.pop(0)
            paths.append(call.path)
            turn = await script.answer(call.id, {"y": 1})
    assert isinstance(turn, Returned), turn
    assert isinstance(turn.value, str)
    found = json.loads(turn.value)
    foreign = [each for each in found["functions"] if "[native code]" not in each]
    assert [each for each in foreign if each not in text and each not in OFFERED] == []
    assert BRIDGE_NAMES.isdisjoint(found["names"])
    assert found["texts"] == ""
    assert found["now"] == WORLD.now_ms
    assert set(paths) <= {"echo.back"}
    assert len(paths) <= 3
    allowed = INTERPRETER.get((hook.holder, hook.name), frozenset())
    assert set(found["called"].split()) <= allowed


def test_the_corpus_of_hooks_is_large() -> None:
    """X1: each hook is another one: another place in the interpreter, in the script or in a run."""
    assert len({hook.id for hook in HOOKS}) == len(HOOKS) >= 300
