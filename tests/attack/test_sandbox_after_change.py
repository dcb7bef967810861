"""What breaks in the sandboxes: each test fails, and says what must be so."""

from __future__ import annotations

import pytest

from duly.env import Loop
from duly.sandbox import pool as pool_module
from duly.sandbox.pool import Pool
from tests.sandbox.javascript_stand import Stand
from tests.sandbox.test_javascript_code import WITHOUT

LOOP_MS_MAX = 250  # as in the corpus
FLOW = "from duly import workflow\nflow = workflow('x', topics=['t'])\n"
POLL = "@flow.producer()\nasync def poll(ctx, state):\n"


# -- The host's loop ------------------------------------------------------------------------------


# -- A lone carriage return ends a line for Python's parser, and not for ours ---------------------


# -- Places and workers ---------------------------------------------------------------------------


# -- What is kept ---------------------------------------------------------------------------------


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
