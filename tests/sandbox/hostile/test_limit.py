"""Each limit of a step, in both languages: at it a script passes, past it its name is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.config import Limits
from duly.env import Loop
from duly.errors import ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.value import Json, encode
from duly.sandbox import python_seat, wire
from duly.sandbox.base import MISSING, Asked, Broke, Log, Returned, Sandbox, ScriptCall
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool
from duly.sandbox.python import PythonSandbox
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from tests.sandbox.hostile.attack import Program, write
from tests.sandbox.hostile.stand import ROOMY, WORLD

LANGUAGES = ["javascript", "python"]


@dataclass(slots=True)
class Stand:
    """One pool for this file; a Python sandbox has its own limits, so there is one per test."""

    pool: Pool

    def sandbox(self, language: str, limits: Limits) -> Sandbox:
        if language == "javascript":
            return JavaScriptSandbox(self.pool, limits)
        return PythonSandbox(Loop(), limits, names=NAMES, refuse=refuse_lacking)

    async def run(
        self, language: str, body: str, limits: Limits = ROOMY
    ) -> tuple[Returned | Broke, list[Log]]:
        """Run a body; every call is answered with null."""
        sandbox = self.sandbox(language, limits)
        logs: list[Log] = []
        try:
            loaded = await sandbox.load(write(language, Program(body), {}), Catalog())
            async with sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD) as script:
                turn, waiting = await script.start(), list[ScriptCall]()
                while isinstance(turn, Asked):
                    logs += turn.logs
                    waiting += turn.calls
                    turn = await script.answer(waiting.pop(0).id, None)
            return turn, [*logs, *turn.logs]
        finally:
            if language == "python":
                await sandbox.close()

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
    yield Stand(pool)
    await pool.close()


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


@pytest.mark.parametrize(("seconds", "is_fine"), [(60, True), (60.001, False)])
async def test_wall_time(stand: Stand, seconds: float, is_fine: bool) -> None:
    """X2: to the millisecond, since nobody really sleeps; a JavaScript step cannot even ask to."""
    body = f"import time\ntime.sleep({seconds})"
    if is_fine:
        await stand.passes("python", body)
    else:
        await stand.breaks("python", body, "60 s of wall time")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_memory(stand: Stand, language: str) -> None:
    """X2: half of it is fine; a text twice as long as the limit is not (JavaScript's is soft)."""
    size = ROOMY.step_memory_bytes
    body = {"javascript": "return 'x'.repeat({0}).length", "python": "return len('x' * {0})"}
    await stand.passes(language, body[language].format(size // 2))
    await stand.breaks(language, body[language].format(size * 2 + 1), "more than 16 MiB")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_stack(stand: Stand, language: str) -> None:
    """X2: four hundred levels are fine, without end is not."""
    body = {
        "javascript": "const f = (n) => n === 0 ? 0 : 1 + f(n - 1); return f({0})",
        "python": "def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nreturn f({0})",
    }[language]
    says = {"javascript": "too deeply", "python": "500 times deep"}[language]
    await stand.passes(language, body.replace("{0}", "400"))
    await stand.breaks(language, body.replace("{0}", "1000000"), says)


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
async def test_source_size(stand: Stand, language: str) -> None:
    """W6: in bytes; one past is refused before anything runs."""
    source = write(language, Program("return 1"), {})
    limits = replace(ROOMY, source_bytes=len(source.text.encode()))
    sandbox = stand.sandbox(language, limits)
    await sandbox.load(source, Catalog())
    with pytest.raises(ScriptError, match="the limit is"):
        await sandbox.load(replace(source, text=source.text + " "), Catalog())
    if language == "python":
        await sandbox.close()


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
