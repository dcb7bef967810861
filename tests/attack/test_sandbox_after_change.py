"""What breaks in the sandboxes: each test fails, and says what must be so."""

from __future__ import annotations

import tracemalloc

import pytest

from duly.engine.library import size_bytes
from duly.env import Loop
from duly.rules.catalog import Catalog
from duly.rules.source import Language, Source
from duly.sandbox import pool as pool_module
from duly.sandbox.javascript import JavaScriptSandbox
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
