"""The pool, with real processes: started late, watched, wiped, and all gone at the end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from duly.config import Limits
from duly.env import Loop
from duly.errors import ConfigError, DulyError
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.source import Language, Source
from duly.sandbox import pool as pool_module
from duly.sandbox.base import MISSING, Asked, Broke, Loaded, Returned, World
from duly.sandbox.javascript import JavaScriptSandbox, JavaScriptScript
from duly.sandbox.pool import Pool

LIMITS = Limits(step_cpu_s=30, step_wall_s=30)
WORLD = World(now_ms=0, frozen=True, seed=0)
# A loop inside a built-in function, where the interpreter itself never looks at the time.
NATIVE_LOOP = "'a'.repeat(2 ** 25).indexOf('a'.repeat(2 ** 12) + 'b')"


def source(body: str) -> Source:
    text = (
        f'export default Keep.workflow({{name: "w", producers: {{p: async (ctx) => {{{body}}}}}}})'
    )
    return Source(Language.JAVASCRIPT, text)


class Stand:
    """A pool, a sandbox on it, and a short way to run a body."""

    def __init__(self, **options: Any) -> None:
        self.pool = Pool(Loop(), **options)

    async def script(self, body: str, limits: Limits = LIMITS) -> JavaScriptScript:
        sandbox = JavaScriptSandbox(self.pool, limits)
        text = source(body)
        loaded = await sandbox.load(text, Catalog())
        return sandbox.open(loaded, "p", Step.PRODUCE, (MISSING,), WORLD)


@asynccontextmanager
async def standing(**options: Any) -> AsyncIterator[Stand]:
    stand = Stand(**options)
    try:
        yield stand
    finally:
        await stand.pool.close()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def has_ended(pid: int) -> bool:
    """Tell whether a process is gone, or only waits to be asked for its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for the kernel; a machine that is busy takes longer, a wrong answer forever."""
    while not is_so():
        os.sched_yield()


async def test_nothing_is_started_before_the_first_script() -> None:
    """X1: a host that runs no script has no worker."""
    async with standing() as stand:
        assert stand.pool.pids == ()


async def test_a_worker_serves_one_script_after_the_other() -> None:
    """C1: the same process, and nothing of the script before."""
    async with standing() as stand:
        body = "globalThis.n = (globalThis.n ?? 0) + 1; return globalThis.n"
        for _ in range(3):
            async with await stand.script(body) as script:
                assert await script.start() == Returned(1)
        assert len(stand.pool.pids) == 1


async def test_past_the_most_a_script_waits_for_a_worker() -> None:
    """X2: one worker is owned by one script; the next gets it when the first leaves."""
    async with standing(workers_max=1) as stand:
        first, second = await stand.script("return 1"), await stand.script("return 2")
        await first.__aenter__()
        entering = asyncio.ensure_future(second.__aenter__())
        await asyncio.sleep(0.05)
        assert not entering.done()
        await first.__aexit__(None, None, None)
        await entering
        assert await second.start() == Returned(2)
        await second.__aexit__(None, None, None)
        assert len(stand.pool.pids) == 1


async def test_two_scripts_at_once_have_two_workers() -> None:
    """C1: at the limit of two, neither waits."""
    async with standing(workers_max=2) as stand:
        first, second = await stand.script("return 1"), await stand.script("return 2")
        async with first, second:
            assert await second.start() == Returned(2)
            assert await first.start() == Returned(1)
            assert len(stand.pool.pids) == 2


async def test_closing_leaves_no_process() -> None:
    """X2: neither idle workers nor one a script still has."""
    async with standing() as stand:
        first, second = await stand.script("return 1"), await stand.script("await ctx.a.b()")
        async with first:
            await second.__aenter__()
        pids = stand.pool.pids
        await stand.pool.close()
        assert len(pids) == 2
        assert all(is_gone(pid) for pid in pids)
        turn = await second.start()
        assert isinstance(turn, Broke)
        assert turn.is_lost
        await second.__aexit__(None, None, None)
        assert stand.pool.pids == ()
        with pytest.raises(DulyError, match="closed"):
            await first.__aenter__()


async def test_closing_wakes_a_script_that_runs() -> None:
    """X2: nobody waits for a worker that is gone."""
    async with standing() as stand:
        script = await stand.script("for (;;);")
        async with script:
            running = asyncio.ensure_future(script.start())
            await asyncio.sleep(0.05)
            await stand.pool.close()
            turn = await running
            assert isinstance(turn, Broke)
            assert turn.is_lost


async def test_a_cancelled_turn_ends_its_worker() -> None:
    """C3: what was left in the middle makes no further step, and no process stays behind."""
    async with standing() as stand:
        script = await stand.script("for (;;);")

        async def run() -> None:
            async with script:
                await script.start()

        running = asyncio.ensure_future(run())
        while not stand.pool.pids:  # noqa: ASYNC110  # a busy machine takes its time to start it
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        (pid,) = stand.pool.pids
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert is_gone(pid)
        assert stand.pool.pids == ()


async def test_a_cancelled_start_leaves_no_process() -> None:
    """X2: not even a worker that never said a word."""
    async with standing() as stand:
        taking = asyncio.ensure_future(stand.pool.take())
        await asyncio.sleep(0)
        (pid,) = stand.pool.pids
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        assert stand.pool.pids == ()
    assert is_gone(pid)


async def test_a_worker_that_dies_is_lost_and_replaced() -> None:
    """F1: a worker lost without a limit is nobody's fault."""
    async with standing() as stand:
        script = await stand.script("await ctx.a.b()")
        async with script:
            assert isinstance(await script.start(), Asked)
            os.kill(stand.pool.pids[0], signal.SIGKILL)
            turn = await script.answer(1, None)
            assert isinstance(turn, Broke)
            assert turn.is_lost
        async with await stand.script("return 1") as script:
            assert await script.start() == Returned(1)


async def test_a_worker_that_dies_while_idle_is_not_given_to_anybody() -> None:
    """F1: the next script gets a living one."""
    async with standing() as stand:
        script = await stand.script("return 1")
        (pid,) = stand.pool.pids
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: has_ended(pid))
        async with script:
            assert await script.start() == Returned(1)
        assert stand.pool.pids != (pid,)


async def test_a_script_that_computes_where_nobody_looks_is_ended_from_outside() -> None:
    """X2: the watchdog names the limit, and the host goes on meanwhile."""
    async with standing() as stand:
        script = await stand.script(NATIVE_LOOP, replace(LIMITS, step_cpu_s=0.1))
        async with script:
            running = asyncio.ensure_future(script.start())
            (pid,) = stand.pool.pids
            await asyncio.sleep(0)
            assert not running.done()
            turn = await running
        assert isinstance(turn, Broke)
        assert "computed longer than 0.1 s" in str(turn.error)
        assert not turn.is_lost
        assert is_gone(pid)


async def test_a_worker_that_stands_still_is_ended_when_its_wall_time_is_over() -> None:
    """X2: it uses no CPU time, so only the wall clock tells."""
    async with standing() as stand:
        script = await stand.script("return 1", replace(LIMITS, step_wall_s=0.1))
        async with script:
            (pid,) = stand.pool.pids
            os.kill(pid, signal.SIGSTOP)
            turn = await script.start()
        assert isinstance(turn, Broke)
        assert "ran longer than 0.1 s" in str(turn.error)
        assert is_gone(pid)


async def test_time_between_turns_is_nobody_s() -> None:
    """X2: waiting for the host's answer does not count as script time."""

    class Jumping(Loop):
        jumped_ms = 0

        def monotonic_ms(self) -> int:
            return super().monotonic_ms() + self.jumped_ms

    env = Jumping()
    worker_pool = Pool(env)
    sandbox = JavaScriptSandbox(worker_pool, LIMITS)
    loaded = await sandbox.load(source("await ctx.a.b(); return 1"), Catalog())
    async with sandbox.open(loaded, "p", Step.PRODUCE, (MISSING,), WORLD) as script:
        await script.start()
        env.jumped_ms = 3_600_000
        assert await script.answer(1, None) == Returned(1)
    await sandbox.close()


# A worker that says what it must not say.


HOSTILE = """
import os, sys
sys.path[:0] = sys.argv[2:]
from duly.sandbox import wire
channel = int(sys.argv[1])
say = lambda body: os.write(channel, wire.frame(body))
say(b'{"held":[],"missing":[]}')
os.read(channel, 1000000)
BODY
os.read(channel, 1000000)
"""


@pytest.mark.parametrize(
    "body",
    [
        "say(b'{}')",
        "say(b'nonsense')",
        'say(b\'{"end":{"missing":true},"extra":1}\')',
        'say(b\'{"calls":[{"id":7,"path":"a.b","args":[],"stack":""}]}\')',
        'say(b\'{"end":{"missing":true}}\' * 2)',
        "os.write(channel, b'\\xff' * 4)",
        "os._exit(3)",
    ],
)
async def test_a_worker_that_breaks_the_wire_is_lost_and_ended(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X2: schema, sizes, numbers and order; a violation is a broken worker."""
    monkeypatch.setattr(pool_module, "PROGRAM", HOSTILE.replace("BODY", body))
    declaration: Any = None
    async with standing() as stand:
        sandbox = JavaScriptSandbox(stand.pool, LIMITS)
        loaded = Loaded(source("return 1"), declaration)
        async with sandbox.open(loaded, "p", Step.PRODUCE, (MISSING,), WORLD) as script:
            (pid,) = stand.pool.pids
            turn = await script.start()
            assert isinstance(turn, Broke)
            assert turn.is_lost
        assert is_gone(pid)
        assert stand.pool.pids == ()


async def test_a_worker_that_does_not_listen_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """X2: what fits into no buffer is not sent forever."""
    deaf = HOSTILE.split("os.read", maxsplit=1)[0] + "import signal; signal.pause()"
    monkeypatch.setattr(pool_module, "PROGRAM", deaf)
    declaration: Any = None
    async with standing() as stand:
        sandbox = JavaScriptSandbox(stand.pool, replace(LIMITS, step_wall_s=0.1))
        loaded = Loaded(source("return 1"), declaration)
        args = ("x" * 8_000_000,)
        async with sandbox.open(loaded, "p", Step.PRODUCE, args, WORLD) as script:
            turn = await script.start()
            assert isinstance(turn, Broke)
            assert turn.is_lost


async def test_a_value_that_is_no_strict_json_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """T8: also if the worker says it is a result."""
    body = 'say(b\'{"end":{"value":{"n":99999999999999999999}}}\')'
    monkeypatch.setattr(pool_module, "PROGRAM", HOSTILE.replace("BODY", body))
    declaration: Any = None
    async with standing() as stand:
        sandbox = JavaScriptSandbox(stand.pool, LIMITS)
        loaded = Loaded(source("return 1"), declaration)
        async with sandbox.open(loaded, "p", Step.PRODUCE, (MISSING,), WORLD) as script:
            turn = await script.start()
            assert isinstance(turn, Broke)
            assert "result.n" in str(turn.error)


# The lock.


UNLOCKED = pool_module.PROGRAM.replace(
    "; serve(",
    "; from duly.cell import lock; lock._filter_system_calls = lambda profile: None; serve(",
)


async def test_a_worker_with_an_incomplete_lock_takes_no_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X1: the host says which layer is missing, and what to do."""
    monkeypatch.setattr(pool_module, "PROGRAM", UNLOCKED)
    async with standing() as stand:
        with pytest.raises(ConfigError, match=r"a socket.*sandbox.unlocked"):
            await stand.pool.take()
        assert stand.pool.pids == ()


async def test_an_accepted_incomplete_lock_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """X1: a person who accepted it is reminded, but not at every worker."""
    monkeypatch.setattr(pool_module, "PROGRAM", UNLOCKED)
    with caplog.at_level(logging.WARNING, logger="duly.sandbox"):
        async with standing(unlocked="i-accept") as stand:
            workers = [await stand.pool.take() for _ in range(2)]
            for worker in workers:
                await stand.pool.give_back(worker)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "a socket" in caplog.text


async def test_a_worker_that_cannot_start_is_told_and_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X2: it is an error with a reason, and leaves nothing."""
    monkeypatch.setattr(pool_module, "PROGRAM", "import nothing_of_this_name")
    async with standing() as stand:
        with pytest.raises(DulyError, match="could not be started"):
            await stand.pool.take()
        assert stand.pool.pids == ()


async def test_a_worker_knows_nothing_of_its_host() -> None:
    """X1: no environment but the zone, no arguments but its channel and its packages."""
    async with standing() as stand:
        worker = await stand.pool.take()
        told = environment(worker.pid)
        await stand.pool.give_back(worker)
    assert told == b"TZ=UTC0\0"


# The program around.


PROGRAM = """
import asyncio, signal, sys
from duly.env import Loop
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.source import Source
from duly.sandbox.base import MISSING, World
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool

TEXT = 'export default Keep.workflow({name: "w", producers: {p: async (c) => { BODY }}})'

async def main():
    sandbox = JavaScriptSandbox(Pool(Loop()))
    loaded = await sandbox.load(Source("javascript", TEXT), Catalog())
    for _ in range(3):
        async with sandbox.open(loaded, "p", Step.PRODUCE, (MISSING,), World(0, True, 0)) as script:
            await script.start()
    CLOSE
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL

asyncio.run(main())
sys.exit(7)
"""


@pytest.mark.parametrize("close", ["await sandbox.close()", "print(*sandbox._pool.pids)"])
def test_the_program_s_own_exit_status_is_kept(close: str) -> None:
    """X2: dropped scripts change nothing, and workers end with the program, closed or not."""
    text = PROGRAM.replace("BODY", "await c.a.b()").replace("CLOSE", close)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (7, "")
    for pid in map(int, done.stdout.split()):
        wait_until(partial(has_ended, pid))


def test_a_worker_is_what_the_wire_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """X1: the command names no module path but those of the packages it needs."""
    command = pool_module.command(9)
    assert command[1:5] == ["-I", "-S", "-c", pool_module.PROGRAM]
    assert command[5] == "9"
    assert all(Path(place).is_dir() for place in command[6:])
    monkeypatch.setattr(pool_module, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="not installed"):
        pool_module.command(9)
