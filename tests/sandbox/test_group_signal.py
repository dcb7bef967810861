"""Ctrl-C and a supervisor's stop reach the whole group."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, os, signal, sys
from duly.rules.access import Step
from duly.sandbox.base import MISSING
from tests.sandbox.contract import CATALOG, WORLD, Body, make_subject

ASK = Body(javascript="await ctx.gmail.search(); return 1",
           python="await ctx.gmail.search()\\nreturn 1")

async def main(language, name):
    signal.signal(getattr(signal, name), lambda *_: None)  # a host that ends in its own time
    sandbox = (await make_subject(language)).sandbox
    loaded = await sandbox.load(ASK.source(language), CATALOG)
    async with sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD) as script:
        (call,) = (await script.start()).calls
        os.killpg(0, getattr(signal, name))
        print(await script.answer(call.id, []))
    await sandbox.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("language", ["javascript", "python"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_to_the_host_s_group_takes_no_worker_from_it(language: str, name: str) -> None:
    """X2: a host that is asked to end lets what runs come to its end, and ends its workers."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, language, name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "Returned(value=1, logs=())\n"), done.stderr
