"""A real sandbox under virtual time: scripts take none of it, and runaways are still caught."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from duly.config import Limits
from duly.env import Loop
from duly.errors import ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog, Parameter, Tool, ToolKind
from duly.rules.source import Language, Source
from duly.sandbox.base import Asked, Broke, Loaded, Returned, Sandbox, World
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool
from duly.testing.env import VirtualEnv
from duly.testing.loop import VirtualLoop
from duly.testing.sandbox import Outstanding, OutstandingScript

CATALOG = Catalog((Tool("mail.find", ToolKind.READ, "mail.read", parameters=(Parameter("id"),)),))
WORLD = World(now_ms=0, frozen=False, seed=1)
HANDLERS = """\
export default Keep.workflow({
  name: "w", topics: ["t"],
  producers: {
    ask: async (ctx) => (await ctx.mail.find({ id: "1" })) + 1,
    runaway: async (ctx) => { for (;;) {} },
  },
});
"""


@asynccontextmanager
async def opened(loop: VirtualLoop, limits: Limits | None = None) -> AsyncIterator[Outstanding]:
    real = Loop()
    sandbox = Outstanding(JavaScriptSandbox(Pool(real), limits or Limits()), loop)
    try:
        yield sandbox
    finally:
        await sandbox.close()
        real.close()


async def load(sandbox: Sandbox) -> Loaded:
    return await sandbox.load(Source(Language.JAVASCRIPT, HANDLERS, "w.js"), CATALOG)


async def ask(sandbox: Outstanding) -> object:
    """Answer the script's question only after an hour."""
    loaded = await load(sandbox)
    async with sandbox.open(loaded, "ask", Step.PRODUCE, (None,), WORLD) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        await asyncio.sleep(3600)
        return await script.answer(turn.calls[0].id, 41)


def test_a_script_takes_no_virtual_time(runner: asyncio.Runner, loop: VirtualLoop) -> None:
    async def play() -> object:
        async with opened(loop) as sandbox, asyncio.timeout(3601):
            return await ask(sandbox)

    turn = runner.run(play())
    assert isinstance(turn, Returned)
    assert (turn.value, loop.time(), loop.busy) == (42, 3600, 0)


def test_several_scripts_run_beside_each_other(runner: asyncio.Runner, loop: VirtualLoop) -> None:
    async def play() -> list[object]:
        async with opened(loop) as sandbox:
            return await asyncio.gather(*(ask(sandbox) for _ in range(3)))

    assert [getattr(turn, "value", turn) for turn in runner.run(play())] == [42] * 3
    assert loop.time() == 3600


def test_a_runaway_script_is_ended_although_time_stands_still(
    runner: asyncio.Runner, loop: VirtualLoop
) -> None:
    async def play() -> object:
        async with opened(loop, Limits(step_cpu_s=0.2, step_wall_s=1)) as sandbox:
            loaded = await load(sandbox)
            async with sandbox.open(loaded, "runaway", Step.PRODUCE, (None,), WORLD) as script:
                return await script.start()

    turn = runner.run(play())
    assert isinstance(turn, Broke)
    assert (turn.is_lost, loop.time()) == (False, 0)


def test_an_error_of_the_sandbox_arrives(runner: asyncio.Runner, loop: VirtualLoop) -> None:
    async def play() -> None:
        async with opened(loop) as sandbox:
            await sandbox.load(Source(Language.JAVASCRIPT, "export default (", "w.js"), CATALOG)

    with pytest.raises(ScriptError):
        runner.run(play())
    assert loop.busy == 0


def test_who_is_cancelled_goes_when_the_sandbox_has_let_go(
    runner: asyncio.Runner, loop: VirtualLoop
) -> None:
    seen: list[str] = []
    begun = asyncio.Event()

    async def stubborn() -> None:
        loop.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            seen.append("let go")

    async def play() -> None:
        async with opened(loop) as sandbox:
            task = asyncio.create_task(sandbox.ask(stubborn()))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            seen.append("gone")

    runner.run(play())
    assert (seen, loop.busy) == (["let go", "gone"], 0)


def test_no_thread_before_the_first_script_and_none_after_closing(
    runner: asyncio.Runner, loop: VirtualLoop
) -> None:
    def threads() -> int:
        return sum(each.name == "duly-sandbox" for each in threading.enumerate())

    async def play() -> list[int]:
        async with opened(loop) as sandbox:
            before = threads()
            loaded = await load(sandbox)
            sandbox.open(loaded, "ask", Step.PRODUCE, (None,), WORLD)
            return [before, threads()]

    assert runner.run(play()) == [0, 1]
    assert threads() == 0


def test_the_env_passes_a_sandbox_through_this(env: VirtualEnv) -> None:
    wrapped = env.wrap_sandbox(JavaScriptSandbox(Pool(env)))
    assert isinstance(wrapped, Outstanding)
    assert env.sandboxes == [wrapped]


def test_it_keeps_the_protocol(loop: VirtualLoop, env: VirtualEnv) -> None:
    sandbox: Sandbox = Outstanding(JavaScriptSandbox(Pool(env)), loop)
    assert OutstandingScript.__doc__
    assert sandbox is not None
