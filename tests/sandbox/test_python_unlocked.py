"""Accepting an incomplete lock is no wish for none."""

from __future__ import annotations

from pathlib import Path

from duly.config import Limits
from duly.env import Loop
from duly.rules.access import Step
from duly.sandbox.base import MISSING, Asked
from duly.sandbox.python import PythonSandbox
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from tests.sandbox.contract import CATALOG, WORLD, Body

ASK = Body(python="await ctx.gmail.search()")


def status(pid: int | None) -> dict[str, str]:
    told = Path(f"/proc/{pid}/status").read_text("ascii")
    return dict(line.split(":\t", 1) for line in told.splitlines() if ":\t" in line)


async def test_who_accepts_less_than_a_lock_still_gets_what_there_is() -> None:
    """X1: an incomplete lock is still a lock, for Python as for JavaScript."""
    sandbox = PythonSandbox(Loop(), Limits(), names=NAMES, refuse=refuse_lacking, is_unlocked=True)
    loaded = await sandbox.load(ASK.source("python"), CATALOG)
    async with sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD) as script:
        assert isinstance(await script.start(), Asked)
        told = status(script._worker.pid if script._worker else None)
    await sandbox.close()
    assert (told["Seccomp"], told["NoNewPrivs"], told["CapEff"]) == ("2", "1", "0" * 16)
