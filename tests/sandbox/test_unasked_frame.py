"""A frame nobody asked for is not the next script's answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.rules.access import Step
from duly.sandbox import pool as pool_module
from duly.sandbox.base import MISSING, Broke, Loaded, Returned
from duly.sandbox.javascript import JavaScriptSandbox
from tests.sandbox.test_pool import HOSTILE, LIMITS, WORLD, source, standing, wait_until

# It answers the first script, and when it is to forget it, answers the next one in advance.
BODY = """
say(b'{"end":{"value":1}}')
os.read(channel, 1000000)
say(b'{"end":{"value":"forged"}}')
open(PLACE, "w").close()
"""


async def test_an_answer_given_before_it_was_asked_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """X2, C1: a worker that was not asked cannot say anything."""
    said = tmp_path / "said"
    program = HOSTILE.replace("BODY", BODY.replace("PLACE", repr(str(said))))
    monkeypatch.setattr(pool_module, "PROGRAM", program)
    declaration: Any = None
    loaded = Loaded(source("return 1"), declaration)
    async with standing(workers_max=1) as stand:
        sandbox = JavaScriptSandbox(stand.pool, LIMITS)
        async with sandbox.open(loaded, "p", Step.PRODUCE, (MISSING,), WORLD) as first:
            assert await first.start() == Returned(1)
        wait_until(said.exists)
        async with sandbox.open(loaded, "p", Step.PRODUCE, (MISSING,), WORLD) as second:
            turn = await second.start()
            assert isinstance(turn, Broke), turn
            assert turn.is_lost
        assert stand.pool.pids == ()
