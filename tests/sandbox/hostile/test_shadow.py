"""No name and no value of a Python script takes the place of what its bridge uses (X1, X3)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from duly.config import MIB, Limits
from duly.env import Loop
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.source import Language, Source
from duly.sandbox.base import MISSING, Asked, Broke, Loaded, Returned, ScriptCall, World
from duly.sandbox.python import PythonSandbox
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from tests.sandbox.hostile.corpus_shadow import Shadow, shadows, write

LIMITS = Limits(step_cpu_s=5, step_wall_s=60, step_memory_bytes=16 * MIB)
WORLD = World(now_ms=1_800_000_000_000, frozen=True, seed=1)
SHADOWS = shadows()
NUMBERED = list(enumerate(SHADOWS))


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[PythonSandbox]:
    made = PythonSandbox(Loop(), LIMITS, names=NAMES, refuse=refuse_lacking, workers_max=2)
    yield made
    await made.close()


@pytest.fixture(scope="module")
async def loaded(sandbox: PythonSandbox) -> Loaded:
    return await sandbox.load(Source(Language.PYTHON, write(SHADOWS)), Catalog())


@pytest.mark.parametrize(("number", "attack"), NUMBERED, ids=[each.id for each in SHADOWS])
async def test_a_shadow_falls_on_nothing_of_the_bridge(
    sandbox: PythonSandbox, loaded: Loaded, number: int, attack: Shadow
) -> None:
    """X1, X3: the host hears the one call as it was made, or refuses the value by its path."""
    calls: list[ScriptCall] = []
    async with sandbox.open(loaded, f"a{number}", Step.PRODUCE, (MISSING,), WORLD) as script:
        turn = await script.start()
        while isinstance(turn, Asked):
            calls += turn.calls
            turn = await script.answer(turn.calls[0].id, "answered")
    assert [(call.path, dict(call.kwargs)) for call in calls] in ([], [("echo.back", {"x": 1})])
    if isinstance(turn, Broke):
        assert not turn.is_lost
        assert any(word in str(turn.error) for word in ("is a Value", "TypeError", "not defined"))
    else:
        assert isinstance(turn, Returned)
        assert turn.value == ["answered", []]
