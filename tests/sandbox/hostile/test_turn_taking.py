"""Who runs when: slots are given back while a script waits, and workflows take turns."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from duly.config import Policy, SandboxSettings
from duly.engine.workshop import build_workshop
from duly.env import Loop
from duly.errors import DulyError, IllegalTransition
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.sandbox.base import MISSING, Asked, Loaded, Returned, Sandbox, Script
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool
from duly.sandbox.python import PythonSandbox
from duly.sandbox.slot import RUNNING_MAX, Slots
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from tests.sandbox.contract import CATALOG, Body, make_subject
from tests.sandbox.hostile.attack import Program, write
from tests.sandbox.hostile.stand import ROOMY, WORLD

ASK = {
    "javascript": Program("return await ctx.a.b()"),
    "python": Program("return await ctx.a.b()"),
}
# How long a script that may run takes to say so, at the very most; Python has to start a worker.
WAIT_S = {"javascript": 0.2, "python": 1.5}
ENDLESS = {"javascript": Program("for (;;);"), "python": Program("while True:\n    pass")}


@asynccontextmanager
async def sandbox_of(language: str, **options: Any) -> AsyncIterator[Sandbox]:
    made: Sandbox
    if language == "javascript":
        made = JavaScriptSandbox(Pool(Loop(), **options), ROOMY)
    else:
        made = PythonSandbox(Loop(), ROOMY, names=NAMES, refuse=refuse_lacking, **options)
    try:
        yield made
    finally:
        await made.close()


async def load(sandbox: Sandbox, language: str, program: Program, name: str = "w") -> Loaded:
    return await sandbox.load(write(language, program, {}, name), Catalog())


def open_(sandbox: Sandbox, loaded: Loaded) -> Script:
    return sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that happens by itself."""
    async with asyncio.timeout(120):
        while not is_so():  # noqa: ASYNC110  # nobody tells when a timer of the pool has fired
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("language", ["javascript", "python"])
async def test_twenty_scripts_that_wait_hold_nobody_up(language: str) -> None:
    """X2: there is one slot to run in; all twenty gave it back, so the next one runs at once."""
    async with sandbox_of(language, running=Slots(1), workers_max=21) as sandbox:
        loaded = await load(sandbox, language, ASK[language])
        async with AsyncExitStack() as stack:
            for _ in range(21):
                script = await stack.enter_async_context(open_(sandbox, loaded))
                assert isinstance(await script.start(), Asked)
                stack.enter_context(script.waiting_outside())
            assert await script.answer(1 if language == "javascript" else 0, 7) == Returned(7)


@pytest.mark.parametrize("language", ["javascript", "python"])
async def test_who_computes_holds_a_slot(language: str) -> None:
    """X2: past `running_max` a script waits for its turn, and has it when the other was left."""
    async with sandbox_of(language, running=Slots(1)) as sandbox:
        endless = await load(sandbox, language, ENDLESS[language])
        other = await load(sandbox, language, ASK[language], "other")
        async with open_(sandbox, other) as waits:
            async with open_(sandbox, endless) as computes:
                running = asyncio.ensure_future(computes.start())
                await asyncio.sleep(0.05)
                starting = asyncio.ensure_future(waits.start())
                done, _ = await asyncio.wait([starting], timeout=WAIT_S[language])
                assert done == set()
                running.cancel()
            assert isinstance(await starting, Asked)


async def test_workflows_take_turns() -> None:
    """X2: who has five waiting gets one of every two slots beside who has two."""
    slots, order = Slots(1), []

    async def hold(workflow: str) -> None:
        await slots.take(workflow)
        order.append(workflow)
        slots.give_back()

    await slots.take("first")
    tasks = [asyncio.ensure_future(hold(name)) for name in "aaaaabb"]
    await asyncio.sleep(0)
    slots.give_back()
    await asyncio.gather(*tasks)
    assert "".join(order) == "ababaaa"
    assert slots.free == 1


async def test_a_slot_is_never_lost() -> None:
    """X2: a caller that is cancelled, before or in the moment it is granted, keeps none."""
    dice, slots, most = random.Random(7), Slots(3), 0
    holding = 0

    async def hold(workflow: str) -> None:
        nonlocal holding, most
        await slots.take(workflow)
        try:
            holding += 1
            most = max(most, holding)
            await asyncio.sleep(0)
        finally:
            holding -= 1
            slots.give_back()

    tasks = [asyncio.ensure_future(hold(dice.choice("abc"))) for _ in range(200)]
    for _ in range(100):
        dice.choice(tasks).cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (slots.free, most) == (3, 3)


async def test_a_slot_that_was_granted_to_somebody_cancelled_is_passed_on() -> None:
    """X2: the grant and the cancellation meet in one round of the loop."""
    slots = Slots(1)
    await slots.take("a")
    waiting = asyncio.ensure_future(slots.take("b"))
    await asyncio.sleep(0)
    slots.give_back()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert slots.free == 1


# -- The pool -----------------------------------------------------------------------------------


async def test_many_scripts_at_once_start_few_workers_at_a_time() -> None:
    """X2: each start stops the loop for a moment; not all of them one after the other."""
    pool = Pool(Loop())
    starting: list[int] = []
    real: Callable[[], Any] = pool._start

    async def start() -> Any:
        starting.append(1)
        assert len(starting) <= 2
        try:
            return await real()
        finally:
            starting.pop()

    pool._start = start  # type: ignore[method-assign]
    workers = await asyncio.gather(*(pool.take() for _ in range(6)))
    assert len({worker.pid for worker in workers}) == 6
    for worker in workers:
        await pool.give_back(worker)
    await pool.close()


async def test_both_languages_share_the_slots_to_run_in() -> None:
    """X2: a loop in one language holds the only slot; a script in the other waits for its turn."""
    running = Slots(1)
    async with (
        sandbox_of("javascript", running=running) as javascript,
        sandbox_of("python", running=running) as python,
    ):
        endless = await load(javascript, "javascript", ENDLESS["javascript"])
        other = await load(python, "python", ASK["python"], "other")
        async with open_(python, other) as waits:
            async with open_(javascript, endless) as computes:
                begun = asyncio.ensure_future(computes.start())
                await until(lambda: running.free == 0)
                starting = asyncio.ensure_future(waits.start())
                await until(lambda: "other" in str(running._waiting))
                begun.cancel()
            assert isinstance(await starting, Asked)


async def test_a_host_gives_both_languages_the_same_slots() -> None:
    """X2: so `running_max` is of all scripts."""
    both: Any = build_workshop(Loop(), Policy(), SandboxSettings()).sandbox
    javascript, python = both._sandboxes.values()
    assert javascript._pool.running is python.pool.running
    assert python.pool.running.free == RUNNING_MAX
    await both.close()


# -- The same in all three ------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["javascript", "python", "scripted"])
async def test_a_script_is_started_once(language: str) -> None:
    """C1: a second start would be a second step in one context."""
    subject = await make_subject(language)
    loaded = await subject.sandbox.load(Body().source(language), CATALOG)
    async with subject.sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD) as script:
        assert isinstance(await script.start(), Returned)
        with pytest.raises(IllegalTransition):
            await script.start()
    await subject.sandbox.close()


async def test_a_closed_stand_in_takes_no_script() -> None:
    """F1: like the two languages: it is the host's error, not the script's."""
    sandbox = (await make_subject("scripted")).sandbox
    loaded = await sandbox.load(Body().source("scripted"), CATALOG)
    await sandbox.close()
    with pytest.raises(DulyError, match="closed"):
        async with sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD):
            pass
