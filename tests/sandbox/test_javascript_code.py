"""Compiled texts: the same script again, other builds of the library, and what is kept."""

from __future__ import annotations

import ctypes
import gc
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import _quickjs  # type: ignore[import-not-found]
import msgspec
import pytest

from duly.env import Loop
from duly.rules.value import Json
from duly.sandbox import javascript_code, wire
from duly.sandbox import pool as pool_module
from duly.sandbox.base import Broke, Loaded, Returned, Turn
from duly.sandbox.javascript_code import (
    EVAL_MODULE,
    EVAL_SCRIPT,
    CodeShelf,
    Compiler,
    find_compiler,
)
from duly.sandbox.javascript_worker import Interpreter, PeakMemory, Prelude, cpu_s, read_text
from duly.sandbox.pool import Pool
from tests.sandbox.javascript_stand import HEAD, LIMITS, Stand

# A worker of a library that lacks one of the functions.
WITHOUT = """
import sys
sys.path[:0] = sys.argv[2:]
from duly.sandbox import javascript_code, javascript_worker
javascript_code.FUNCTIONS["JS_OfAnotherBuild"] = (None,)
assert javascript_code.find_compiler(javascript_worker.cpu_s) is None
javascript_worker.serve(int(sys.argv[1]))
"""
# A worker that ends when a text is compiled a second time.
ONCE = """
import sys
sys.path[:0] = sys.argv[2:]
from duly.sandbox import javascript_code, javascript_worker
real, seen = javascript_code.Compiler.compile, set()
def compile(compiler, text, *rest):
    assert text not in seen
    seen.add(text)
    return real(compiler, text, *rest)
javascript_code.Compiler.compile = compile
javascript_worker.serve(int(sys.argv[1]))
"""
PROGRAMS = {"bytecode": pool_module.PROGRAM, "text": WITHOUT}
TIMES = 3


@asynccontextmanager
async def standing() -> AsyncIterator[Stand]:
    pool = Pool(Loop())
    try:
        yield Stand(pool)
    finally:
        await pool.close()


@pytest.fixture(params=PROGRAMS)
async def stand(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stand]:
    monkeypatch.setattr(pool_module, "PROGRAM", PROGRAMS[request.param])
    async with standing() as made:
        yield made


async def run(stand: Stand, body: str, **options: Any) -> Turn:
    """Run a body several times in one worker; each time must be like the first."""
    ended = [(await stand.turns(body, **options))[-1] for _ in range(TIMES)]
    assert len(stand.pool.pids) == 1
    assert [str(each) for each in ended] == [str(ended[0])] * TIMES
    return ended[0]


CHANGES = """
const p = ((parts) => parts)`a${1}b`;
const ways = [() => p[0] = 1, () => p.push(1), () => p.raw = 1, () => p.length = 1,
  () => p.raw[0] = 1, () => delete p[0]];
const works = (way) => { try { way(); return true } catch { return false } };
return [ways.filter(works).length, p, p.raw]
"""
SAME: dict[str, tuple[str, Json]] = {
    "its own text": ("const f = (a) => a + 1; return f.toString()", "(a) => a + 1"),
    "nothing of a run before": ("return globalThis.n = (globalThis.n ?? 0) + 1", 1),
    "a clock that stands": ("return [Date.now(), Math.random() < 1]", [1_800_000_000_000, True]),
    "a pattern": ("return 'a1b22'.match(/[0-9]+/g)", ["1", "22"]),
    "a template": ("const t = (s) => s.raw[0]; return t`\\n`", "\\n"),
    "the parts of a template, which cannot be changed": (CHANGES, [0, ["a", "b"], ["a", "b"]]),
    "a class": ("class A { #x = 7; get x() { return this.#x } } return new A().x", 7),
    "half a character": ("return '\\ud83d'.length + '\U0001f600'.length", 3),
    "large numbers": (
        "return String(2n ** 70n) + (0.1 + 0.2)",
        "11805916207174113034240.30000000000000004",
    ),
    "no name of ours": (
        "return [typeof enter, typeof LATE_PARTS, 'enter' in globalThis]",
        ["undefined", "undefined", False],
    ),
}


@pytest.mark.parametrize(("body", "value"), SAME.values(), ids=SAME)
async def test_a_script_is_the_same_each_time_and_in_every_build(
    stand: Stand, body: str, value: Json
) -> None:
    """C1, C13: from its text and from bytecode, in a worker that had it before."""
    assert await run(stand, body) == Returned(value)


@pytest.mark.parametrize(("program", "is_frozen"), [(PROGRAMS["bytecode"], False), (WITHOUT, True)])
async def test_what_bytecode_changes_is_known(
    program: str, is_frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X3: the one difference that decision 092 names; remove it there when the library has none."""
    monkeypatch.setattr(pool_module, "PROGRAM", program)
    async with standing() as stand:
        body = "return Object.isFrozen(((parts) => parts)`a`)"
        assert await stand.returned(body) is is_frozen


async def test_an_error_has_its_line_each_time(stand: Stand) -> None:
    """X3: bytecode knows the lines of its text."""
    ended = await run(stand, "const x = 1;\n\n  x.y.z()")
    assert isinstance(ended, Broke)
    assert (ended.error.line, ended.error.column) == (4, 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\nlet a = ;", "unexpected token"),
        ("throw new Error('x')", "Error: x"),
        ("\n\na.b", "a is not defined"),
    ],
)
async def test_a_text_that_does_not_load_says_why(stand: Stand, text: str, says: str) -> None:
    """W6: the words and the line are the interpreter's, whether it compiles or runs."""
    for _ in range(TIMES):
        with pytest.raises(Exception, match=says) as told:
            await stand.load(text)
        assert getattr(told.value, "line", None) == text.count("\n") + 1
    assert len(stand.pool.pids) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("for (;;);", "longer than 0.2 s"),
        ("await null; for (;;);", "longer than 0.2 s"),
        ("const a = []; for (;;) a.push(`${a.length}`.repeat(1000));", "more than 16 MiB"),
        ("const f = () => 1 + f(); f();", "too deeply"),
    ],
)
async def test_limits_hold_while_a_module_loads(stand: Stand, text: str, says: str) -> None:
    """X2: time, memory and stack, the first time and from bytecode."""
    limits = replace(LIMITS, load_s=0.2)
    for _ in range(2):
        with pytest.raises(Exception, match=says):
            await stand.load(text, limits)


async def test_a_frozen_global_object_does_not_keep_a_script_from_loading(stand: Stand) -> None:
    """X1: the promise of a module takes no way through what a script can change."""
    for planted in (
        "Object.freeze(globalThis);",
        "Object.defineProperty(Object.prototype, 'enter', {set() { throw 1 }, get() { throw 2 }});",
        "globalThis.enter = 7;",
    ):
        assert await stand.returned("return 1", before=planted) == 1


async def test_a_text_is_compiled_once_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """X2: loading compiles it; every step after that reads what was made then."""
    monkeypatch.setattr(pool_module, "PROGRAM", ONCE)
    async with standing() as stand:
        for _ in range(TIMES):
            assert await stand.returned("return 1") == 1
        assert len(stand.pool.pids) == 1


def test_no_bytecode_crosses_the_wire() -> None:
    """X1: a worker is sent a text and runs what it made of it; the host keeps nothing compiled."""
    assert [each.type for each in msgspec.structs.fields(wire.Begin)] == [
        str,
        wire.World,
        wire.Bounds,
        msgspec.Raw,
    ]
    assert {each.name for each in fields(Loaded)} == {"source", "declaration", "image", "catalog"}


async def test_a_loaded_script_has_no_image() -> None:
    """X1: what the host keeps of JavaScript is its text."""
    async with standing() as stand:
        loaded = await stand.load(HEAD + "}}})")
        assert loaded.image is None


# -- Other builds ---------------------------------------------------------------------------------


def test_the_installed_library_keeps_compiled_texts() -> None:
    """X2: without this, every context would compile its texts, at twice the cost."""
    assert find_compiler(cpu_s) is not None


@pytest.mark.parametrize(
    "words",
    [(None, None), (8, 8), (1 << 63, 1 << 63), (id(object()), id(object()))],
    ids=["nothing", "a small number", "past the end", "something else"],
)
def test_a_context_that_is_laid_out_in_another_way_is_not_touched(
    words: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """X1: a pointer is believed only when the library itself agrees."""
    monkeypatch.setattr(javascript_code, "_words", lambda context: words)
    assert find_compiler(cpu_s) is None


def test_swapped_words_are_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """X1: both point somewhere, but not where they should."""
    real = javascript_code._words
    monkeypatch.setattr(javascript_code, "_words", lambda context: real(context)[::-1])
    assert find_compiler(cpu_s) is None


def test_values_that_are_laid_out_in_another_way_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X1: another size of a value would put its kind elsewhere."""
    monkeypatch.setattr(javascript_code, "PROBES", {b"42": (3, None)})
    assert find_compiler(cpu_s) is None
    monkeypatch.setattr(javascript_code, "PROBES", {b"42": (0, 41)})
    assert find_compiler(cpu_s) is None


@pytest.mark.parametrize("name", javascript_code.FUNCTIONS)
def test_each_function_that_is_missing_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X1: a build that hides it compiles every text instead."""
    others = {
        each if each != name else f"{name}_is_hidden": kinds
        for each, kinds in javascript_code.FUNCTIONS.items()
    }
    monkeypatch.setattr(javascript_code, "FUNCTIONS", others)
    assert find_compiler(cpu_s) is None


# -- What is kept ---------------------------------------------------------------------------------


def held_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize()


class Colliding(bytes):
    """A text whose hash is that of every other."""

    def __hash__(self) -> int:
        return 7


def test_bytecode_belongs_to_one_text_byte_for_byte() -> None:
    """X1: texts that a table takes for the same do not get each other's code."""
    shelf = CodeShelf(1024)
    shelf.put(Colliding(b"one"), b"code of one")
    assert shelf.find(Colliding(b"two")) is None
    assert shelf.find(Colliding(b"one, and more")) is None
    assert shelf.find(Colliding(b"one")) is not None


def test_a_full_shelf_is_emptied_and_never_grows() -> None:
    """X2: what a worker keeps is bounded, and is there from the start."""
    shelf = CodeShelf(1024)
    for number in range(100):
        text = b"%03d" % number
        assert shelf.put(text, bytes(97)) is not None
        assert shelf.find(text) is not None
    assert len(shelf._bytes) == 1024
    assert len(shelf._places) <= 10
    assert shelf.put(b"large", bytes(252)) is None


def test_what_is_kept_is_held_from_the_start() -> None:
    """X2: so that no script is blamed for it, whatever was compiled before.

    In a process of its own: this one may have room left that other tests gave back.
    """
    program = (
        "from duly.sandbox.javascript_code import CodeShelf\n"
        "from tests.sandbox.test_javascript_code import held_bytes\n"
        "before_bytes, size_bytes = held_bytes(), 16 * 1024 * 1024\n"
        "shelf = CodeShelf(size_bytes)\n"
        "assert held_bytes() - before_bytes > size_bytes * 3 // 4\n"
        "assert shelf.find(b'text') is None\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])


def test_what_is_found_is_what_was_put() -> None:
    """X1: the address and the size of exactly these bytes."""
    shelf = CodeShelf(4096)
    for number in range(20):
        shelf.put(b"text %d" % number, b"code %d" % number * (number + 1))
    for number in range(20):
        found = shelf.find(b"text %d" % number)
        assert found is not None
        assert ctypes.string_at(*found) == b"code %d" % number * (number + 1)


def make_compiler() -> Compiler:
    compiler = find_compiler(cpu_s)
    assert compiler is not None
    return compiler


def test_a_text_that_is_none_is_not_compiled() -> None:
    """X2: also one that would need more memory than it may; nothing of a text runs meanwhile."""
    compiler = make_compiler()
    assert compiler.compile(b"let a = ;", EVAL_MODULE) is None
    assert compiler.compile(b"for (;;);", EVAL_MODULE) is not None
    long = b"[" + b"1," * 100_000 + b"]"
    assert compiler.compile(long, EVAL_SCRIPT, 1024 * 1024) is None
    assert compiler.compile(long, EVAL_SCRIPT, 64 * 1024 * 1024) is not None


def test_a_context_that_is_dropped_leaves_nothing() -> None:
    """X2: a value that is not given back keeps 20 KB of each context in the worker."""
    prelude, memory = Prelude(read_text(), make_compiler()), PeakMemory()
    before_bytes = held_bytes()
    for _ in range(500):
        Interpreter(prelude, memory)
    assert held_bytes() - before_bytes < 500 * 10_000


def test_a_value_keeps_its_context() -> None:
    """X1: it is never freed in a context that is gone."""
    held = Interpreter(Prelude(read_text(), make_compiler()), PeakMemory())._held
    gc.collect()
    assert held is not None
    assert held.value.tag == javascript_code.OBJECT


def test_a_context_without_room_for_a_text_raises_memory_error() -> None:
    """X2: reading bytecode is bounded as reading a text is."""
    compiler = make_compiler()
    context = _quickjs.Context()
    _, held = compiler.evaluate(context, compiler.compile(b"(way) => 0", EVAL_SCRIPT) or b"")
    text = "const a = [" + "1," * 20_000 + "];"
    context.set_memory_limit(1)
    with pytest.raises(MemoryError):
        compiler.load(held, text, b"", memory_bytes=-1, ends_at_s=cpu_s() + 10)


def test_a_module_that_never_ends_is_interrupted_here() -> None:
    """X2: the binding's own interrupt is not on then; the host would end the whole worker."""
    compiler = make_compiler()
    context = _quickjs.Context()
    _, held = compiler.evaluate(context, compiler.compile(b"(way) => 0", EVAL_SCRIPT) or b"")
    ends_at_s = cpu_s() + 0.1
    compiler.load(held, "for (;;);", b"", memory_bytes=-1, ends_at_s=ends_at_s)
    assert ends_at_s <= cpu_s() < ends_at_s + 5
    assert context.eval("6 * 7") == 42
