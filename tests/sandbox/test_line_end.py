"""The ends of lines: whichever a source is written with, all of its readers see the same lines."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from duly.engine.study import STUDY
from duly.engine.workshop import STUDIED
from duly.env import Loop
from duly.errors import ScriptError
from duly.rules.catalog import Catalog
from duly.rules.source import Language, Source
from duly.sandbox.base import Returned, Turn
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool
from duly.sandbox.python import PythonSandbox
from duly.sandbox.study import Studies
from duly.script import study
from tests.sandbox.python_stand import CATALOG, make, opened

FLOW = "from duly import workflow\nflow = workflow('x', topics=['t'])\n"
POLL = "@flow.producer()\nasync def poll(ctx, state):\n"
ENDS = ["\n", "\r\n", "\r"]


@pytest.fixture
async def sandbox() -> AsyncIterator[PythonSandbox]:
    sandbox = make()
    yield sandbox
    await sandbox.close()


async def run_text(sandbox: PythonSandbox, text: str) -> Turn:
    loaded = await sandbox.load(Source(Language.PYTHON, text), CATALOG)
    async with opened(sandbox, loaded) as script:
        return await script.start()


@pytest.mark.parametrize("end", ENDS)
def test_a_source_is_the_same_with_every_end_of_line(end: str) -> None:
    """W8, X3: neither its text nor its hash differs, so it is the same version."""
    text = f"{FLOW}{POLL}    return 1\n\n"
    source = Source(Language.PYTHON, text.replace("\n", end))
    assert (source.text, source.hash) == (text, Source(Language.PYTHON, text).hash)


async def test_the_text_that_runs_is_the_text_that_was_read(sandbox: PythonSandbox) -> None:
    """X3, W6: a lone carriage return above an import moves no line."""
    text = (
        f"{FLOW}# a\rz = 1\ry = 2\n{POLL}"
        "    n = 1\n"
        "    if state == 'never':\n"
        "        from duly import workflow\n"
        "    if True:\n"
        "        n = 2\n"
        "    return n\n"
    )
    assert await run_text(sandbox, text) == Returned(2)


async def test_a_lone_carriage_return_above_an_import_does_not_break_a_script(
    sandbox: PythonSandbox,
) -> None:
    """W6: Python reads this text; so do the study and the load."""
    assert await run_text(sandbox, f"# a\rz = 1\n{FLOW}{POLL}    return 1\n") == Returned(1)


@pytest.mark.parametrize("end", ENDS)
async def test_a_text_of_several_lines_has_line_feeds(sandbox: PythonSandbox, end: str) -> None:
    """W1: as Python itself reads it."""
    text = f"{FLOW}{POLL}    return '''a\nb'''\n".replace("\n", end)
    assert await run_text(sandbox, text) == Returned("a\nb")


@pytest.mark.parametrize("end", ENDS)
async def test_an_error_of_javascript_names_the_line_for_every_end(end: str) -> None:
    """X3: the lines are those of the source, however they end."""
    text = "const a = 1\nconst b = `x\ny` === 'x\\ny'\nthrow new Error(b)\n".replace("\n", end)
    pool = Pool(Loop())
    try:
        with pytest.raises(ScriptError, match="true") as caught:
            await JavaScriptSandbox(pool).load(Source(Language.JAVASCRIPT, text), Catalog())
    finally:
        await pool.close()
    assert caught.value.line == 4


@pytest.mark.parametrize("end", ENDS)
async def test_no_end_of_line_kills_the_reader_of_a_source(end: str) -> None:
    """F1, X2, W5: findings stand in the lines of the text."""
    text = f"{FLOW}{POLL}    return ctx.no_such.tool()\n".replace("\n", end)
    source = Source(Language.PYTHON, text)
    studies = Studies(Loop(), STUDIED, wall_s=60)
    try:
        said = await studies.ask(STUDY, study.ask(source, Catalog(), "none"))
    finally:
        await studies.close()
    found = study.answer(said).findings(source.name)
    assert [(each.rule, each.line) for each in found] == [("unknown-tool", 5)]
