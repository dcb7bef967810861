"""What breaks in the sandboxes: each test fails, and says what must be so."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from contextlib import AsyncExitStack

import pytest

from duly.engine.library import size_bytes
from duly.env import Loop
from duly.rules.catalog import Catalog
from duly.rules.source import Language, Source
from duly.sandbox import pool as pool_module
from duly.sandbox import wire
from duly.sandbox.base import Asked
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import STARTING_MAX, Pool, Worker
from duly.sandbox.slot import RUNNING_MAX
from tests.sandbox.javascript_stand import Stand
from tests.sandbox.test_javascript_code import WITHOUT
from tests.sandbox.test_pool import standing

LOOP_MS_MAX = 250  # as in the corpus
FLOW = "from duly import workflow\nflow = workflow('x', topics=['t'])\n"
POLL = "@flow.producer()\nasync def poll(ctx, state):\n"


# -- The host's loop ------------------------------------------------------------------------------


# -- A lone carriage return ends a line for Python's parser, and not for ours ---------------------


# -- Places and workers ---------------------------------------------------------------------------


async def test_a_script_that_waits_for_a_place_learns_that_the_pool_was_closed() -> None:
    """H1: it waits for as long as the slowest call of those that have a place."""
    async with standing() as stand, AsyncExitStack() as stack:
        late, *others = [
            await stand.script("return await ctx.a.b()") for _ in range(RUNNING_MAX + 1)
        ]
        for script in others:
            assert isinstance(await (await stack.enter_async_context(script)).start(), Asked)
        entering = asyncio.ensure_future(late.__aenter__())
        await asyncio.sleep(0)
        await stand.pool.close()
        await asyncio.wait([entering], timeout=2)
        is_told = entering.done()
        entering.cancel()
        await asyncio.gather(entering, return_exceptions=True)
        assert is_told


class SlowToStart(Worker):
    """A worker that says for a while nothing after its start, from the second one on."""

    started = 0

    async def ready(self) -> wire.Ready:
        SlowToStart.started += 1
        if SlowToStart.started > 1:
            await asyncio.sleep(4)
        return await super().ready()


async def test_a_script_gets_an_idle_worker_while_others_are_slow_to_start() -> None:
    """X2: it waits for its turn to start one, and does not see that one became idle."""
    SlowToStart.started = 0
    pool = Pool(Loop(), worker=SlowToStart)
    try:
        first = await pool.take("first")
        names = [str(number) for number in range(STARTING_MAX + 1)]
        taking = [asyncio.ensure_future(pool.take(name)) for name in names]
        await asyncio.sleep(0.1)
        await pool.give_back(first)
        done, _ = await asyncio.wait(taking, timeout=2, return_when=asyncio.FIRST_COMPLETED)
        has_one = bool(done)
        for worker in await asyncio.gather(*taking):
            await pool.give_back(worker)
        assert has_one
    finally:
        await pool.close()


async def test_to_close_a_pool_does_not_stop_the_loop_while_something_is_read_beside_it() -> None:
    """X2, H1: the threads are waited for in the loop."""
    pool = Pool(Loop())
    goes_on, began = threading.Event(), threading.Event()

    def read() -> bool:
        began.set()
        return goes_on.wait(2)

    reading = asyncio.ensure_future(pool.apart(read))
    await asyncio.to_thread(began.wait)
    asyncio.get_running_loop().call_later(0.1, goes_on.set)
    await pool.close()
    assert await reading  # else the loop did not turn for two seconds


# -- What is kept ---------------------------------------------------------------------------------


async def test_a_loaded_version_counts_as_what_it_takes() -> None:
    """X2: 1000 long names are made by a short text; they take 360 KB and count as 8."""
    text = (
        'export default Keep.workflow({name: "w", topics: ["t"], producers: Object.fromEntries('
        'Array.from({length: 998}, (_, i) => [("p" + i).padEnd(100, "y"), async () => {}]))})'
    )
    pool = Pool(Loop())
    sandbox = JavaScriptSandbox(pool)
    try:
        source = Source(Language.JAVASCRIPT, text)
        await sandbox.load(source, Catalog())
        tracemalloc.start()
        loaded = await sandbox.load(source, Catalog())
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        await pool.close()
    assert taken < 4 * size_bytes(loaded)


# -- Bytecode -------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [pool_module.PROGRAM, WITHOUT], ids=["bytecode", "text"])
async def test_the_parts_of_a_template_are_frozen(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X3: as the language says; read back from bytecode their length can be written."""
    monkeypatch.setattr(pool_module, "PROGRAM", program)
    pool = Pool(Loop())
    try:
        body = "const tag = (parts) => parts; return Object.isFrozen(tag`a`)"
        assert await Stand(pool).returned(body) is True
    finally:
        await pool.close()
