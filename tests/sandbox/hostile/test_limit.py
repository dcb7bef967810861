"""Each limit of a step, in both languages: at it a script passes, past it its name is told."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.config import MIB, Limits
from duly.env import Loop
from duly.errors import ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.value import Json, encode
from duly.sandbox import python_seat, wire
from duly.sandbox.base import MISSING, Asked, Broke, Log, Returned, Sandbox, ScriptCall
from duly.sandbox.border import WRAPPING_DEPTH
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool
from duly.sandbox.python import PythonSandbox
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from tests.sandbox.hostile.attack import Program, write
from tests.sandbox.hostile.stand import ROOMY, WORLD, stopped

LANGUAGES = ["javascript", "python"]


@dataclass(slots=True)
class Stand:
    """One pool for this file; a Python sandbox has its own limits, so there is one for each."""

    pool: Pool
    pythons: dict[Limits, PythonSandbox] = field(default_factory=dict)

    def sandbox(self, language: str, limits: Limits) -> Sandbox:
        if language == "javascript":
            return JavaScriptSandbox(self.pool, limits)
        if limits not in self.pythons:
            made = PythonSandbox(Loop(), limits, names=NAMES, refuse=refuse_lacking)
            self.pythons[limits] = made
        return self.pythons[limits]

    async def run(
        self, language: str, body: str, limits: Limits = ROOMY
    ) -> tuple[Returned | Broke, list[Log]]:
        """Run a body; every call is answered with null."""
        sandbox = self.sandbox(language, limits)
        logs: list[Log] = []
        loaded = await sandbox.load(write(language, Program(body), {}), Catalog())
        async with sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD) as script:
            turn, waiting = await script.start(), list[ScriptCall]()
            while isinstance(turn, Asked):
                logs += turn.logs
                waiting += turn.calls
                turn = await script.answer(waiting.pop(0).id, None)
        return turn, [*logs, *turn.logs]

    async def passes(self, language: str, body: str, limits: Limits = ROOMY) -> None:
        end, _ = await self.run(language, body, limits)
        assert isinstance(end, Returned), end

    async def breaks(self, language: str, body: str, says: str, limits: Limits = ROOMY) -> None:
        end, _ = await self.run(language, body, limits)
        assert isinstance(end, Broke), end
        assert not end.is_lost
        assert says in str(end.error)


@pytest.fixture(scope="module")
async def stand() -> AsyncIterator[Stand]:
    pool = Pool(Loop())
    made = Stand(pool)
    yield made
    await pool.close()
    for each in made.pythons.values():
        await each.close()


# What is repeated: its text, how often it is fine, how often it is not, and what is said then.
REPEATED = {
    "connector calls": ("await ctx.a.b()", 20, "more than 20 calls of tools"),
    "publishes": ("await ctx.publish('t')", 100, "more than 100 publishes and looks"),
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("what", REPEATED)
async def test_calls(stand: Stand, language: str, what: str) -> None:
    """X2: so many calls of a step are answered; one more ends it."""
    text, most, says = REPEATED[what]
    for count in (most, most + 1):
        loop = {
            "javascript": f"for (let i = 0; i < {count}; i++) {text}",
            "python": f"for i in range({count}):\n    {text}",
        }[language]
        if count == most:
            await stand.passes(language, loop)
        else:
            await stand.breaks(language, loop, says)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_cpu_time(stand: Stand, language: str) -> None:
    """X2: who computes within its time returns, who does not is told how long it had."""
    some = {"javascript": "for (let i = 0; i < 1e4; i++);", "python": "sum(range(10000))"}
    endless = {"javascript": "for (;;);", "python": "while True:\n    pass"}
    await stand.passes(language, some[language])
    await stand.breaks(language, endless[language], "0.1 s", replace(ROOMY, step_cpu_s=0.1))


@pytest.mark.parametrize("language", LANGUAGES)
async def test_load_time(stand: Stand, language: str) -> None:
    """W6, X2: a module that is done in time is loaded, one that is not is told how long it had."""
    limits = replace(ROOMY, load_s=0.3)
    sandbox = stand.sandbox(language, limits)
    with pytest.raises(ScriptError, match=r"longer than 0\.3 s") as told:
        await sandbox.load(write(language, Program("return 1", ENDLESS[language]), {}), Catalog())
    assert not told.value.is_lost
    await stand.passes(language, "return 1")


ENDLESS = {"javascript": "for (;;);", "python": "while True:\n    pass"}
BUSY = {
    "javascript": "for (let n = 0; n < 5e6; n++);",
    "python": "for n in range(1_000_000):\n    pass",
}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_wall_time_of_a_load(stand: Stand, language: str) -> None:
    """W6, X2: a load that lasts too long is ended, however little it computes."""
    sandbox = stand.sandbox(language, replace(ROOMY, load_s=60, load_wall_s=0.5))
    with pytest.raises(ScriptError, match=r"longer than 0\.5 s"):
        await sandbox.load(write(language, Program("return 1", ENDLESS[language]), {}), Catalog())


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_load_is_limited_by_what_it_computes(stand: Stand, language: str) -> None:
    """W6, X2: a machine that is busy elsewhere for longer than the limit refuses no source."""
    await stand.passes(language, "return 1")  # now a worker is there: its start does not count
    sandbox: Any = stand.sandbox(language, replace(ROOMY, load_s=1, load_wall_s=60))
    source = write(language, Program("return 1", BUSY[language]), {})
    loading = asyncio.create_task(sandbox.load(source, Catalog()))
    # No event tells that a worker was taken.
    while not (pids := worker_pids(sandbox)) and not loading.done():  # noqa: ASYNC110
        await asyncio.sleep(0)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(2.5)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    assert (await loading).declaration.name


def worker_pids(sandbox: Any) -> list[int]:
    """List the processes in which a script of this sandbox runs now."""
    pool = sandbox.pool if isinstance(sandbox, PythonSandbox) else sandbox._pool
    return [worker.pid for worker in pool._all.difference(pool._idle)]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_wall_time_of_a_worker_that_stands_still(stand: Stand, language: str) -> None:
    """X2: it computes nothing and says nothing; within its time it goes on where it stood."""
    for wall_s, is_fine in ((ROOMY.step_wall_s, True), (0.2, False)):
        sandbox = stand.sandbox(language, replace(ROOMY, step_wall_s=wall_s))
        program = Program("await ctx.a.b()\nreturn 1")
        loaded = await sandbox.load(write(language, program, {}), Catalog())
        script: Any = sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD)
        async with script:
            turn = await script.start()
            pid = script._worker.pid
            os.kill(pid, signal.SIGSTOP)
            await stopped(pid)
            if is_fine:
                asyncio.get_running_loop().call_later(0.1, os.kill, pid, signal.SIGCONT)
            turn = await script.answer(turn.calls[0].id, None)
        if is_fine:
            assert turn == Returned(1)
        else:
            assert isinstance(turn, Broke)
            assert "longer than 0.2 s" in str(turn.error)


@pytest.mark.parametrize(("seconds", "is_fine"), [(60, True), (60.001, False)])
async def test_wall_time_that_was_slept(stand: Stand, seconds: float, is_fine: bool) -> None:
    """X2: to the millisecond, since nobody really sleeps; a JavaScript step cannot even ask to."""
    body = f"import time\ntime.sleep({seconds})"
    if is_fine:
        await stand.passes("python", body)
    else:
        await stand.breaks("python", body, "60 s of wall time")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_memory(stand: Stand, language: str) -> None:
    """X2: Python's to the mebibyte its own things take; JavaScript's is soft by half."""
    size = ROOMY.step_memory_bytes
    body = {"javascript": "return 'x'.repeat({0}).length", "python": "return len('x' * {0})"}
    fine, past = {"javascript": (size, size * 2), "python": (size - MIB, size)}[language]
    await stand.passes(language, body[language].format(fine))
    await stand.breaks(language, body[language].format(past), "more than 16 MiB")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_stack(stand: Stand, language: str) -> None:
    """X2: Python's to the few levels its caller takes; JavaScript's is a mebibyte."""
    body = {
        "javascript": "const f = (n) => n === 0 ? 0 : 1 + f(n - 1); return f({0})",
        "python": "def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nreturn f({0})",
    }[language]
    says = {"javascript": "too deeply", "python": "500 times deep"}[language]
    fine, past = {"javascript": ("400", "100000"), "python": ("490", "500")}[language]
    await stand.passes(language, body.replace("{0}", fine))
    await stand.breaks(language, body.replace("{0}", past), says)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_output(stand: Stand, language: str) -> None:
    """X2: what all calls of a step carry is bounded; what one more would carry is too much."""
    size = 1_000_000
    limits = replace(ROOMY, publish_bytes_per_run=10 * size, data_bytes=1, state_bytes=1)
    body, says = {
        "javascript": (
            "for (let i = 0; i < {0}; i++) await ctx.a.b({x: 'y'.repeat(1e6)})",
            "at most",
        ),
        "python": ("for i in range({0}):\n    await ctx.a.b(x='y' * 1000000)", "more memory"),
    }[language]
    fine, past = {"javascript": (9, 10), "python": (16, 17)}[language]
    await stand.passes(language, body.replace("{0}", str(fine)), limits)
    await stand.breaks(language, body.replace("{0}", str(past)), says, limits)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("count", "last"), [(20, "19"), (21, "1 more lines were left out.")])
async def test_log_lines(stand: Stand, language: str, count: int, last: str) -> None:
    """X4: so many are kept; the rest is counted, and never a failure."""
    body = {
        "javascript": f"for (let i = 0; i < {count}; i++) console.log(i)",
        "python": f"for i in range({count}):\n    print(i)",
    }[language]
    end, logs = await stand.run(language, body)
    assert isinstance(end, Returned)
    assert (len(logs), logs[-1].text) == (count, last)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_log_line_length(stand: Stand, language: str) -> None:
    """X4: so many characters of a line are kept; the rest is left out, and never a failure."""
    most = ROOMY.log_line_chars
    say = {"javascript": "console.log('é'.repeat({0}))", "python": "print('é' * {0})"}[language]
    for count in (most, most + 1):
        end, logs = await stand.run(language, say.format(count))
        assert isinstance(end, Returned)
        assert [log.text for log in logs] == ["é" * most]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_depth(stand: Stand, language: str) -> None:
    """T8, X2: as deep as a payload in its call may be, which is two levels more than itself."""
    most = ROOMY.json_depth + WRAPPING_DEPTH
    body = {
        "javascript": "let a = 1; for (let i = 0; i < {0}; i++) a = [a]; return a",
        "python": "a = 1\nfor i in range({0}):\n    a = [a]\nreturn a",
    }[language]
    await stand.passes(language, body.replace("{0}", str(most)))
    await stand.breaks(language, body.replace("{0}", str(most + 1)), "nested")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_source_size(stand: Stand, language: str) -> None:
    """W6: in bytes; one past is refused before anything runs."""
    source = write(language, Program("return 1"), {})
    limits = replace(ROOMY, source_bytes=len(source.text.encode()))
    sandbox = stand.sandbox(language, limits)
    await sandbox.load(source, Catalog())
    with pytest.raises(ScriptError, match="is longer than"):
        await sandbox.load(replace(source, text=source.text + " "), Catalog())


@pytest.mark.parametrize("language", LANGUAGES)
async def test_values(stand: Stand, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """X2: tiny values are counted before they are read, over all calls and the result."""
    monkeypatch.setattr(wire, "VALUES_MAX", 1000)
    monkeypatch.setattr(python_seat, "VALUES_MAX", 1000)
    body = {
        "javascript": "await ctx.a.b({x: Array({0}).fill(0)}); return Array(400).fill(',[{')",
        "python": "await ctx.a.b(x=[0] * {0})\nreturn [',[{'] * 400",
    }[language]
    await stand.passes(language, body.replace("{0}", "500"))
    await stand.breaks(language, body.replace("{0}", "601"), "values in all")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text('ab",[{\\\n', max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('a",[{\\', max_size=3), inner),
    max_leaves=20,
)


def count(value: Json) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(count(each) for each in inner)


@given(JSON, st.integers(1, 9))
def test_values_are_counted_whatever_the_texts_hold(value: Json, chunk_bytes: int) -> None:
    """X2: never fewer than there are, never more than twice; a comma in a text is no value."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "COUNTED_BYTES", chunk_bytes)
        told = wire.count_values(encode(value, "value", limit_bytes=10_000).encode())
    assert count(value) <= told <= 2 * count(value)
