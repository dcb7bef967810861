"""Workers of JavaScript: how they take turns, what they held at most, and when one is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from duly.env import Loop
from duly.errors import ScriptError
from duly.rules.catalog import Catalog
from duly.rules.source import Language, Source
from duly.sandbox.base import Asked, Broke, Returned
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool
from tests.sandbox.javascript_stand import HEAD, LIMITS, Stand

MIB = 1024 * 1024
LITTLE = Source(Language.JAVASCRIPT, HEAD + "}}});")
ENDLESS = Source(Language.JAVASCRIPT, "for (;;);")
FILL = "const a = []; for (let i = 0; i < COUNT; i++) a.push('x'.repeat(1000) + i);"


@asynccontextmanager
async def standing() -> AsyncIterator[Stand]:
    pool = Pool(Loop())
    try:
        yield Stand(pool)
    finally:
        await pool.close()


def test_a_worker_starts_without_sentences_and_rules_and_says_codes() -> None:
    """X2: what it does not need is not loaded; an error is told where the lock lets nothing in."""
    program = (
        "import sys; import duly.sandbox.javascript_worker; from duly import errors;"
        " errors.speak_in_codes(); print(errors.Invalid(code='c', subject='s'));"
        " print([n for n in sys.modules if n.startswith(('duly.words', 'duly.rules'))])"
    )
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(command, env=path, capture_output=True, text=True, check=True)
    assert done.stdout == "c: s\n[]\n"


async def test_the_worker_that_was_used_last_is_used_first() -> None:
    """S9: the others stay idle, and end; a script that follows another needs no second process."""
    async with standing() as stand:
        first, second = await stand.pool.take(), await stand.pool.take()
        await stand.pool.give_back(second)
        await stand.pool.give_back(first)
        for _ in range(3):
            worker = await stand.pool.take()
            assert worker is first
            await stand.pool.give_back(worker)
        assert set(stand.pool.pids) == {first.pid, second.pid}


async def test_contexts_made_ahead_are_as_fresh_as_any() -> None:
    """C1: more scripts than contexts are kept, one after the other, in one worker."""
    async with standing() as stand:
        body = "globalThis.n = (globalThis.n ?? 0) + 1; return [globalThis.n, Date.now()]"
        for _ in range(10):
            assert await stand.returned(body) == [1, 1_800_000_000_000]
        assert len(stand.pool.pids) == 1


# Memory.


@pytest.mark.parametrize(
    "body",
    [
        "try { const a = []; for (;;) a.push(new Array(1000).fill(1.5)) } catch {} return 1",
        "try { const a = []; for (;;) a.push('x'.repeat(1000) + a.length) } catch {} return 1",
        "try { let a = null; for (;;) a = {a} } catch {} return 1",
        "const f = async () => { const a = []; for (;;) a.push([{}]) }; await f().catch(() => 0)",
    ],
)
async def test_a_script_that_caught_its_memory_limit_breaks_all_the_same(body: str) -> None:
    """X2: what was caught is not forgotten; the limit is named."""
    limits = replace(LIMITS, step_cpu_s=10)
    async with standing() as stand:
        assert "more than 16 MiB" in str(await stand.broke(body, limits=limits))
        assert await stand.returned("return 1") == 1


async def test_a_memory_limit_caught_between_two_calls_ends_the_script() -> None:
    """X2, C8: the call before it counts, the one after it is not made."""
    full = "try { const a = []; for (;;) a.push(new Array(1000).fill(1.5)) } catch {}"
    body = f"await ctx.a.b(); {full} await ctx.c.d(); return 1"
    async with standing() as stand:
        asked, *rest = await stand.turns(body, None, limits=replace(LIMITS, step_cpu_s=10))
        assert isinstance(asked, Asked)
        assert isinstance(rest[-1], Broke)
        assert "more than 16 MiB" in str(rest[-1].error)


async def test_a_script_below_its_memory_limit_goes_on_in_the_same_worker() -> None:
    """X2: one that comes near its limit has broken nothing, time after time."""
    limits = replace(LIMITS, step_memory_bytes=32 * MIB, step_cpu_s=10)
    async with standing() as stand:
        body = FILL.replace("COUNT", "20000") + " return a.length"
        assert await stand.returned(body, limits=limits) == 20_000
        pids = stand.pool.pids
        for _ in range(3):
            assert await stand.returned(body, limits=limits) == 20_000
        assert stand.pool.pids == pids


async def test_a_worker_that_held_much_is_replaced() -> None:
    """X2: what one script held at most is not held against the next."""
    limits = replace(LIMITS, step_memory_bytes=32 * MIB, step_cpu_s=10)
    async with standing() as stand:
        body = FILL.replace("COUNT", "36000") + " return a.length"
        assert await stand.returned(body, limits=limits) == 36_000
        assert stand.pool.pids == ()
        assert await stand.returned("return 1") == 1


# Lost while loading.


async def test_a_worker_lost_while_it_loads_is_nobody_s_fault() -> None:
    """F1: the source was not refused; it can be loaded again."""
    async with standing() as stand:
        sandbox = JavaScriptSandbox(stand.pool, replace(LIMITS, load_s=30))
        await sandbox.load(LITTLE, Catalog())
        (pid,) = stand.pool.pids
        loading = asyncio.ensure_future(sandbox.load(ENDLESS, Catalog()))
        await asyncio.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ScriptError, match="process that ran this script died") as lost:
            await loading
        assert lost.value.is_lost
        assert (await sandbox.load(LITTLE, Catalog())).declaration.name == "w"


async def test_a_source_that_exceeds_a_limit_is_not_lost() -> None:
    """F1: a limit is the source's own fault."""
    async with standing() as stand:
        sandbox = JavaScriptSandbox(stand.pool, replace(LIMITS, load_s=0.2))
        with pytest.raises(ScriptError, match="longer than") as refused:
            await sandbox.load(ENDLESS, Catalog())
        assert not refused.value.is_lost


async def test_what_returned_stays_returned() -> None:
    """X2: a script that holds little ends as it says."""
    async with standing() as stand:
        (turn,) = await stand.turns("return 1")
        assert turn == Returned(1)
