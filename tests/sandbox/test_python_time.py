"""A Python step has the CPU time of a step, not of a load."""

from __future__ import annotations

import time

from duly.config import Limits
from duly.env import Loop
from duly.rules.access import Step
from duly.sandbox.base import MISSING, Broke
from duly.sandbox.python import PythonSandbox
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from tests.sandbox.contract import CATALOG, WORLD, Body

LIMITS = Limits(load_s=1, step_cpu_s=3, step_wall_s=60)


async def test_a_step_may_compute_as_long_as_its_own_limit_says() -> None:
    """X2: the limit that is named is the limit that was reached."""
    sandbox = PythonSandbox(Loop(), LIMITS, names=NAMES, refuse=refuse_lacking)
    loaded = await sandbox.load(Body(python="while True:\n    pass").source("python"), CATALOG)
    async with sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD) as script:
        began_s = time.monotonic()
        turn = await script.start()
        took_s = time.monotonic() - began_s
    await sandbox.close()
    assert isinstance(turn, Broke)
    assert "longer than 3 s" in str(turn.error)
    assert took_s >= LIMITS.step_cpu_s
