"""Bad moments: a crowd, a sandbox that closes while it starts, a worker that dies in mid-word."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.env import Loop
from duly.errors import DulyError, ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.sandbox import pool as pool_module
from duly.sandbox import python_process
from duly.sandbox.base import MISSING, Asked, Broke, Loaded, Returned, Sandbox
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.python import PythonSandbox
from duly.sandbox.slot import Slots
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from tests.sandbox.contract import children
from tests.sandbox.hostile.attack import Program, write
from tests.sandbox.hostile.stand import ROOMY, WORLD
from tests.sandbox.hostile.test_turn_taking import (
    ASK,
    ENDLESS,
    load,
    open_,
    sandbox_of,
    until,
)
from tests.sandbox.test_pool import HOSTILE, has_ended, source, standing

LANGUAGES = ["javascript", "python"]
CROWD = 100
WORKERS = 4


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_hundred_workflows_share_four_workers(language: str) -> None:
    """X2: each has its own result; there are never more processes than were allowed."""
    others, most = children(), 0
    async with sandbox_of(language, workers_max=WORKERS) as sandbox:
        loaded = [
            await load(sandbox, language, Program(f"return [{n}, await ctx.a.b()]"), f"w{n}")
            for n in range(CROWD)
        ]

        async def step(number: int) -> Any:
            nonlocal most
            async with open_(sandbox, loaded[number]) as script:
                turn = await script.start()
                most = max(most, len({pid for pid in children() - others if not has_ended(pid)}))
                assert isinstance(turn, Asked), turn
                turn = await script.answer(turn.calls[0].id, number)
            assert isinstance(turn, Returned), turn
            return turn.value

        told = await asyncio.gather(*(step(number) for number in range(CROWD)))
    assert told == [[number, number] for number in range(CROWD)]
    assert 1 < most <= WORKERS  # how many of them meet is up to the machine


@pytest.mark.parametrize("language", LANGUAGES)
async def test_closing_while_a_worker_starts_leaves_no_process(language: str) -> None:
    """X2, F1: the caller that waits for it is told, and no script is to blame."""
    others = children()
    async with sandbox_of(language) as sandbox:
        loading = asyncio.ensure_future(load(sandbox, language, ASK[language]))
        await until(lambda: bool(children() - others))
        await sandbox.close()
        with pytest.raises(DulyError) as told:
            await loading
        assert getattr(told.value, "is_lost", True)
        await until(lambda: not {pid for pid in children() - others if not has_ended(pid)})


@pytest.mark.parametrize("language", LANGUAGES)
async def test_closing_reaches_a_script_that_waits_for_its_turn(language: str) -> None:
    """X2, F1: it holds a worker or none, but no slot; it does not begin in a closed sandbox."""
    running, others = Slots(1), children()
    async with sandbox_of(language, running=running) as sandbox:
        endless = await load(sandbox, language, ENDLESS[language])
        other = await load(sandbox, language, ASK[language], "other")
        async with open_(sandbox, endless) as computes, open_(sandbox, other) as waits:
            begun = asyncio.ensure_future(computes.start())
            await until(lambda: running.free == 0)
            waiting = asyncio.ensure_future(waits.start())
            await until(lambda: "other" in str(running._waiting))
            await sandbox.close()
            for turn in (await begun, await waiting):
                assert isinstance(turn, Broke)
                assert turn.is_lost, turn
        assert running.free == 1
        await until(lambda: not {pid for pid in children() - others if not has_ended(pid)})


@pytest.mark.parametrize("language", LANGUAGES)
async def test_closing_reaches_a_script_that_waits_for_a_worker(language: str) -> None:
    """F1: past `workers_max` it never began; it is the host that ended."""
    async with sandbox_of(language, workers_max=1) as sandbox:
        loaded = await load(sandbox, language, ASK[language])
        script, late = open_(sandbox, loaded), open_(sandbox, loaded)
        await script.__aenter__()
        entering = asyncio.ensure_future(late.__aenter__())
        await asyncio.sleep(0)
        await sandbox.close()
        await script.__aexit__(None, None, None)
        with pytest.raises(DulyError, match="closed"):
            await entering


ENDS_IN_MID_WORD = {
    "after a length": "os.write(channel, b'\\x10\\0\\0\\0'); os._exit(0)",
    "within a length": "os.write(channel, b'\\x10\\0'); os._exit(0)",
    "within a frame": "os.write(channel, b'\\x10\\0\\0\\0{\"end\"'); os._exit(0)",
    "after a call": (
        'say(b\'{"calls":[{"id":1,"path":"a.b","args":[],"stack":""}]}\'); os._exit(0)'
    ),
}


async def hostile_turn(sandbox: Sandbox) -> Asked | Returned | Broke:
    """Start a step in a worker that does what its test says, and answer its call."""
    declaration: Any = None
    loaded = Loaded(source("return 1"), declaration)
    async with sandbox.open(loaded, "p", Step.PRODUCE, (MISSING,), WORLD) as script:
        turn = await script.start()
        if isinstance(turn, Asked):
            turn = await script.answer(turn.calls[0].id, None)
    return turn


@pytest.mark.parametrize("body", ENDS_IN_MID_WORD.values(), ids=ENDS_IN_MID_WORD)
async def test_a_worker_that_dies_in_mid_word_is_lost(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1: half a word is no word; nobody waits for the rest of it."""
    monkeypatch.setattr(pool_module, "PROGRAM", HOSTILE.replace("BODY", body))
    async with standing() as stand:
        turn = await hostile_turn(JavaScriptSandbox(stand.pool, ROOMY))
        assert isinstance(turn, Broke)
        assert turn.is_lost
        assert stand.pool.pids == ()


OUT_OF_ORDER = {
    "its first words again": 'say(b\'{"held":[],"missing":[]}\')',
    "a second call first": 'say(b\'{"calls":[{"id":2,"path":"a.b","args":[],"stack":""}]}\')',
    "the same call twice": (
        'say(b\'{"calls":[{"id":1,"path":"a.b","args":[],"stack":""},'
        '{"id":1,"path":"a.b","args":[],"stack":""}]}\')'
    ),
    "a call again after its answer": (
        'call = b\'{"calls":[{"id":1,"path":"a.b","args":[],"stack":""}]}\'; say(call);'
        " os.read(channel, 1000000); say(call)"
    ),
}


@pytest.mark.parametrize("body", OUT_OF_ORDER.values(), ids=OUT_OF_ORDER)
async def test_a_worker_that_speaks_out_of_order_is_lost(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X2, F1: what it says is hostile until proven, and this is proof."""
    monkeypatch.setattr(pool_module, "PROGRAM", HOSTILE.replace("BODY", body))
    async with standing() as stand:
        turn = await hostile_turn(JavaScriptSandbox(stand.pool, ROOMY))
        assert isinstance(turn, Broke)
        assert turn.is_lost
        assert stand.pool.pids == ()


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_module_too_large_to_keep_is_loaded_for_every_step(language: str) -> None:
    """X2, W6: what a host keeps of a version is bounded, whatever its module made while it loaded.

    Past the memory of a step it is refused by that limit's name.
    """
    module = {
        "javascript": "const big = Array(200000).fill('x');",
        "python": "big = ['x'] * 400000",
    }[language]
    async with sandbox_of(language) as sandbox:
        big = write(language, Program("return 1", module), {})
        loaded = await sandbox.load(big, Catalog())
        assert len(loaded.image or b"") < 1024 * 1024
        async with open_(sandbox, loaded) as script:
            assert await script.start() == Returned(1)


async def test_a_worker_that_never_begins_is_not_the_script_s_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F1: nothing of the script has run, so it cannot have run for too long."""

    monkeypatch.setattr(python_process, "PROGRAM", "import time; time.sleep(600)")
    monkeypatch.setattr(pool_module, "START_S", 0.1)
    sandbox = PythonSandbox(Loop(), ROOMY, names=NAMES, refuse=refuse_lacking)
    with pytest.raises(DulyError, match="said nothing") as told:
        await sandbox.load(write("python", Program("return 1"), {}), Catalog())
    assert not isinstance(told.value, ScriptError)
    await sandbox.close()
