"""Sources are analysed and typed in locked processes, within 5 s of CPU time (W6, X2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from duly.cell.process import Stat
from duly.config import Limits, Policy, SandboxSettings
from duly.engine import study
from duly.engine.workshop import STUDIED, Workshop, build_workshop
from duly.env import Loop
from duly.errors import ScriptError
from duly.rules.source import Language, Source
from duly.sandbox import python as python_sandbox
from duly.sandbox import study as study_module
from duly.sandbox import watch
from duly.sandbox.python_text import TypeQuestion
from duly.sandbox.study import Studies
from duly.script import analysis
from duly.script.analysis import fingerprint
from duly.script.check import check
from tests.script.catalogue import CATALOG

ROOT = Path(__file__).parents[2]
PYTHON = """from duly import workflow
flow = workflow("w", topics=["t"])
@flow.producer(every="5m")
async def p(ctx, state):
    await ctx.sheets.append_row(values=[nobody])
    ctx.sheet.append_row()
"""
JAVASCRIPT = """export default Keep.workflow({name: "w", topics: ["t"], producers: {
  p: async (ctx, state) => { fetch(1); await ctx.sheets.appendRow({}); }
}});
"""


CHANCY = {
    Language.PYTHON: PYTHON.replace(
        "    ctx.sheet", "    import time\n    x = time.time()\n    ctx.sheet"
    ),
    Language.JAVASCRIPT: JAVASCRIPT.replace("fetch(1)", "const x = Date.now()"),
}


@pytest.mark.parametrize("language", CHANCY)
async def test_what_a_repair_is_compared_by_is_read_apart(
    workshop: Workshop, language: Language, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F3, X2: the same as here, and the host's own process reads nothing."""
    source = Source(language, CHANCY[language], "p")
    here = fingerprint(source, CATALOG)
    monkeypatch.setattr(analysis, "fingerprint", None)
    apart = await study.fingerprint(Loop(), workshop.apart, source, CATALOG)
    assert here is not None
    assert here.chances
    assert apart == here


@pytest.fixture(scope="module")
async def workshop() -> AsyncIterator[Workshop]:
    env = Loop()
    made = build_workshop(env, Policy(), SandboxSettings())
    yield made
    await made.close()
    env.close()


@pytest.mark.parametrize(
    "source",
    [
        Source(Language.PYTHON, PYTHON, "p.py"),
        Source(Language.PYTHON, PYTHON.replace("nobody", "len"), "p.py"),
        Source(Language.PYTHON, "x = (", "p.py"),
        Source(Language.PYTHON, "import uuid\n" + PYTHON, "p.py"),
        Source(Language.PYTHON, "ä = 'ß'\n" + PYTHON, "p.py"),
        Source(Language.JAVASCRIPT, JAVASCRIPT, "p.js"),
        Source(Language.JAVASCRIPT, "let x = (", "p.js"),
    ],
)
async def test_apart_finds_what_is_found_here(workshop: Workshop, source: Source) -> None:
    """W5, X2: the same findings and the same facts, whichever process reads the source."""
    findings, analysis = await study.examine(Loop(), workshop.apart, source, CATALOG)
    assert findings == check(source, CATALOG)
    assert analysis == (await study.study(Loop(), None, source, CATALOG)).analysis


async def test_the_process_that_reads_is_locked(workshop: Workshop) -> None:
    """X1: it has a filter of system calls, no privileges and no other descriptor."""
    assert workshop.studies is not None
    await study.study(Loop(), workshop.apart, Source(Language.JAVASCRIPT, JAVASCRIPT), CATALOG)
    (pid,) = workshop.studies.pool.pids
    with open(f"/proc/{pid}/status") as status:  # noqa: ASYNC230, PTH123  # a file of the kernel
        told = dict(line.split(":\t", 1) for line in status if ":\t" in line)
    assert told["Seccomp"].strip() == "2"
    assert told["NoNewPrivs"].strip() == "1"
    assert int(told["CapEff"], 16) == 0


async def test_the_process_that_types_is_locked(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X1: the type checker reads a hostile text as a script would run: behind the lock."""
    found: list[str] = []
    real = python_sandbox.PythonScript.type_check

    async def ask(script: Any, question: Any) -> str | None:
        said = await real(script, question)
        pid = script._worker.pid
        with open(f"/proc/{pid}/status") as status:  # noqa: ASYNC230, PTH123  # of the kernel
            found.extend(line.split()[1] for line in status if line.startswith("Seccomp:"))
        return said

    monkeypatch.setattr(python_sandbox.PythonScript, "type_check", ask)
    await study.examine(Loop(), workshop.apart, Source(Language.PYTHON, PYTHON), CATALOG)
    assert found == ["2"]


async def test_a_source_that_takes_too_long_is_refused_by_the_limit_s_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """W6, X2: CPU time is named; the host's loop goes on, and the next source is read."""
    places = {**STUDIED, "loop": "tests.engine.endless:loop"}
    program = f"import sys; sys.path.append({str(ROOT)!r}); {study_module.PROGRAM}"
    monkeypatch.setattr(study_module, "PROGRAM", program)
    studies = Studies(Loop(), places, wall_s=60, cpu_s=0.2)
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    turning = asyncio.create_task(turn())
    try:
        with pytest.raises(ScriptError, match=r"more than 0\.2 s of CPU time") as raised:
            await studies.ask("loop", b"x")
        assert not raised.value.is_lost
        assert turns > 10
        with pytest.raises(ScriptError, match="died") as lost:
            await studies.ask("loop", b"die")
        assert lost.value.is_lost
    finally:
        turning.cancel()
        await studies.close()


async def test_typing_that_takes_too_long_is_refused_by_the_limit_s_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """W6, X2: the type checker is ended from outside; the limit that was exceeded is named."""
    monkeypatch.setattr(python_sandbox, "STUDY_CPU_S", 0.05)
    monkeypatch.setattr(watch, "GRACE_S", 0.02)  # it is looked at long before it is done
    passed = iter(range(1000))
    monkeypatch.setattr(Stat, "cpu_s", lambda _: next(passed))
    source = Source(Language.PYTHON, PYTHON + "    x = 1\n" * 5000)
    policy = replace(Policy(), limits=replace(Limits(), load_wall_s=600))
    made = build_workshop(Loop(), policy, SandboxSettings())
    try:
        assert made.studies is not None
        assert made.apart is not None
        read = await study.study(Loop(), None, source, CATALOG)
        assert read.annotated is not None
        question = TypeQuestion(read.annotated.text * 15, "", "")  # within its memory
        with pytest.raises(ScriptError, match=r"more than 0\.05 s of CPU time"):
            await made.apart.check_types(question)
    finally:
        await made.close()


async def test_what_a_broken_worker_says_is_not_believed() -> None:
    """X2, F1: an answer of the wrong shape is a lost worker, not a source without findings."""

    async def lie(_what: str, _body: bytes) -> bytes:
        return b"\x93\x01\x02\x03"

    async def nothing(_question: object) -> str | None:
        return None

    apart = study.Apart(lie, nothing)
    with pytest.raises(ScriptError) as raised:
        await study.study(Loop(), apart, Source(Language.PYTHON, PYTHON), CATALOG)
    assert raised.value.is_lost
