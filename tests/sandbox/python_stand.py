"""A stand for Python's sandbox alone: one producer whose body is what a test is about."""

from __future__ import annotations

import textwrap
from typing import Any

from duly.config import MIB, Limits
from duly.env import Loop
from duly.errors import ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog, Tool, ToolKind
from duly.rules.source import Language, Source
from duly.sandbox.base import MISSING, Asked, Broke, Loaded, Returned, World
from duly.sandbox.python import PythonSandbox, PythonScript
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from tests.sandbox.contract import Story, play

LIMITS = Limits(
    step_wall_s=60, calls_per_step=2, publishes_per_run=1, log_lines=8, step_memory_bytes=16 * MIB
)
CATALOG = Catalog((Tool("mail.send", ToolKind.MUTATION, "mail.send"),))
WORLD = World(now_ms=1_800_000_000_000, frozen=False, seed=7)


def make(limits: Limits = LIMITS, **more: Any) -> PythonSandbox:
    return PythonSandbox(Loop(), limits, names=NAMES, refuse=refuse_lacking, **more)


def source(body: str, module: str = "", ctx: str = "ctx") -> Source:
    """Write a workflow whose producer `poll` is this body; it begins in line 6 or later."""
    return Source(
        Language.PYTHON,
        "from duly import workflow\n"
        f"{textwrap.dedent(module)}\n"
        "flow = workflow('x', topics=['t'])\n"
        f"@flow.producer()\nasync def poll({ctx}, state):\n"
        f"{textwrap.indent(textwrap.dedent(body), '    ')}\n",
    )


def opened(sandbox: PythonSandbox, loaded: Loaded, world: World = WORLD) -> PythonScript:
    return sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), world)


async def run(
    sandbox: PythonSandbox, body: str, module: str = "", world: World = WORLD
) -> Returned | Broke:
    """Run one step and answer every call with null."""
    loaded = await sandbox.load(source(body, module), CATALOG)
    async with opened(sandbox, loaded, world) as script:
        turn = await script.start()
        while isinstance(turn, Asked):
            for call in turn.calls:
                turn = await script.answer(call.id, None)
        return turn


async def tell(sandbox: PythonSandbox, body: str, module: str = "", ctx: str = "ctx") -> Story:
    """Run one step, answer every call with null, and keep all of its calls and logs."""
    loaded = await sandbox.load(source(body, module, ctx), CATALOG)
    async with opened(sandbox, loaded) as script:
        return await play(script)


def error_of(turn: Returned | Broke) -> ScriptError:
    assert isinstance(turn, Broke), turn
    assert not turn.is_lost
    return turn.error
