"""Thousands of steps: no memory, process or step is lost, whatever happens to the workers."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from duly.engine.base import sandbox_failure
from duly.errors import DulyError
from duly.rules.access import Step
from duly.rules.word import Failure
from duly.sandbox.base import MISSING, Asked, Broke, Returned
from tests.sandbox.contract import WORLD, Body, Subject, children, make_subject

ROOT = Path(__file__).parents[2]
STEPS = 400
AT_ONCE = 4
KILL_EACH = 25  # after every so many steps one process is killed, whatever it is doing
KILLS_MIN = STEPS // KILL_EACH // 2
TRIES_MAX = 20

ASK = Body(
    javascript="return await ctx.gmail.search({query: 'x'})",
    python="return await ctx.gmail.search(query='x')",
)


async def step(subject: Subject, number: int) -> int:
    """Play one step until it comes to its end; answer how often its worker was lost."""
    for lost in range(TRIES_MAX):
        try:
            async with await subject.open(ASK, Step.PRODUCE, (MISSING,), WORLD) as script:
                turn = await script.start()
                if isinstance(turn, Asked):
                    turn = await script.answer(turn.calls[0].id, number)
        except DulyError as error:
            if sandbox_failure(error).failure is not Failure.TRANSIENT:
                raise
            continue  # it died while it was being started
        if turn == Returned(number):
            return lost
        assert isinstance(turn, Broke), turn
        assert turn.is_lost, turn
    raise AssertionError(f"step {number} was lost {TRIES_MAX} times")


@pytest.mark.parametrize("language", ["javascript", "python"])
async def test_killing_workers_at_random_loses_no_step(language: str) -> None:
    """X2, F1: hundreds of steps; each arrives, or its worker is lost and it is tried again.

    Any process of the pool is hit, the idle, the starting and the running ones; when is decided by
    the number of steps that were begun, who by dice.
    """
    dice, others = random.Random(11), children()
    subject = await make_subject(language)
    begun = killed = 0

    async def go_on() -> None:
        nonlocal begun, killed
        while begun < STEPS:
            begun += 1
            number = begun
            if number % KILL_EACH == 0:
                ours = sorted(children() - others)
                with suppress(ProcessLookupError, IndexError):
                    os.kill(dice.choice(ours), signal.SIGKILL)
                    killed += 1
            await step(subject, number)

    await asyncio.gather(*(go_on() for _ in range(AT_ONCE)))
    await subject.sandbox.close()
    assert (begun, killed >= KILLS_MIN) == (STEPS, True)
    assert not {pid for pid in children() - others if not _has_ended(pid)}


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# Runs so many steps, and tells its memory on the way and its processes at the end.
PROGRAM = """
import asyncio, os, sys
from duly.engine.base import sandbox_failure
from duly.errors import DulyError
from duly.rules.access import Step
from duly.rules.word import Failure
from duly.sandbox.base import MISSING, Asked, Returned
from tests.sandbox.contract import WORLD, children, make_subject
from tests.sandbox.test_endurance import ASK

PAGE = os.sysconf("SC_PAGE_SIZE")

def held_bytes():
    with open("/proc/self/statm") as told:
        return int(told.read().split()[1]) * PAGE

async def main(language):
    subject = await make_subject(language)
    for number in range(1, 2001):
        async with await subject.open(ASK, Step.PRODUCE, (MISSING,), WORLD) as script:
            turn = await script.start()
            if number % 10 == 9:
                continue  # a script that is left in the middle
            turn = await script.answer(turn.calls[0].id, number)
            assert turn == Returned(number), turn
        if number in (500, 2000):
            print(held_bytes())
    await subject.sandbox.close()
    print(len(children()))

asyncio.run(main(sys.argv[1]))
"""
GROWTH_MAX_BYTES = 8 * 1024 * 1024 // 3  # under two kilobytes a step


@pytest.mark.parametrize("language", ["javascript", "python"])
def test_two_thousand_steps_cost_no_memory_and_leave_no_process(language: str) -> None:
    """X2: between the 500th and the last less than 3 MB; the program ends with its own status."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, language],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    early_bytes, late_bytes, left = map(int, done.stdout.split())
    assert late_bytes - early_bytes < GROWTH_MAX_BYTES, done.stdout
    assert left == 0
