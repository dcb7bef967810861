"""The watch over a script: decided in time that is counted, not measured, so no machine matters."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.cell.process import Stat
from duly.rules.access import Step
from duly.sandbox.base import Broke, Loaded, Returned, Turn
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool
from duly.sandbox.watch import GRACE_S, OWN_WORD_S, STOOD_STILL_S, Limit, ScriptWatch
from duly.testing.env import VirtualEnv
from duly.testing.loop import VirtualLoop
from tests.sandbox import python_stand
from tests.sandbox.hostile.stand import stopped
from tests.sandbox.test_pool import LIMITS, WORLD, source

PAST_LIMIT_S = 2.0
ROUNDED_S = 1e-6

seconds = st.floats(0.01, 600)


def lasts(watch: ScriptWatch, turns: list[float], rate: float) -> tuple[Limit | None, float]:
    """Play a script that computes at a rate; its last turn never ends of itself."""
    lasted_s = 0.0
    for turn_s in [*turns, float("inf")]:
        left_s, wait_s = turn_s, watch.begin_turn()
        while left_s > wait_s:
            lasted_s += wait_s
            left_s -= wait_s
            assert watch.add(wait_s)
            if (broken := watch.judge(lasted_s * rate)) is not None:
                return broken, lasted_s
            wait_s = watch.wait_again()
        lasted_s += left_s
        assert watch.add(left_s)
    raise AssertionError


@given(seconds, seconds, st.lists(st.floats(0, 20), max_size=5), st.floats(0, 1))
def test_a_script_ends_within_its_limit_and_two_seconds(
    cpu_s: float, wall_s: float, turns: list[float], rate: float
) -> None:
    """X2: whichever limit it reaches first, in whichever turn, at whatever pace it computes."""
    over_at_s = min(wall_s, cpu_s / rate if rate > 0 else wall_s)
    begun_s = sum(turns)  # turns that came to their end in time are nobody's matter
    broken, ended_s = lasts(ScriptWatch(cpu_s, wall_s), turns, rate)
    assert over_at_s < ended_s <= max(over_at_s, begun_s) + PAST_LIMIT_S + ROUNDED_S
    is_first = ended_s <= wall_s or cpu_s <= wall_s  # of two that are broken, the tighter one
    assert broken is (Limit.CPU if ended_s * rate > cpu_s and is_first else Limit.WALL)


@given(seconds, seconds, seconds)
def test_a_script_within_its_limits_is_left_alone(
    cpu_s: float, wall_s: float, waited_s: float
) -> None:
    """X2: at the limit it goes on, past it it does not."""
    watch = ScriptWatch(cpu_s, wall_s)
    watch.begin_turn()
    watch.add(min(waited_s, wall_s))
    assert watch.judge(cpu_s) is None
    assert watch.judge(cpu_s + OWN_WORD_S + 0.01) is Limit.CPU


@given(seconds)
def test_a_worker_has_one_look_s_time_to_say_that_its_cpu_time_is_used_up(cpu_s: float) -> None:
    """X2, X3: it knows the line, and the host does not; a worker that says nothing is ended."""
    watch = ScriptWatch(cpu_s, wall_s=1000)
    watch.add(watch.begin_turn())
    assert watch.judge(cpu_s + 0.01) is None
    watch.add(watch.wait_again())
    assert watch.judge(cpu_s + 0.02) is Limit.CPU


def test_who_cannot_tell_computing_from_lasting_counts_it_all() -> None:
    """X2: where the kernel does not say how long a process computed."""
    watch = ScriptWatch(cpu_s=1, wall_s=10)
    watch.begin_turn()
    watch.add(1.5)
    assert watch.judge(None) is Limit.CPU


def test_a_host_that_stood_still_blames_nobody() -> None:
    """X2: what it waited for may be there; of its own time little is counted."""
    watch = ScriptWatch(cpu_s=1, wall_s=10)
    wait_s = watch.begin_turn()
    assert watch.add(wait_s + STOOD_STILL_S)
    assert not watch.add(3600)
    assert watch.judge(0) is None


def test_what_the_kernel_does_not_tell_is_not_known() -> None:
    """X2: nobody is there, or nobody any more."""
    assert Stat(2**22 + 1).cpu_s() is None
    here = Stat(os.getpid())
    assert (here.cpu_s() or 0) > 0
    here.close()
    here.close()
    assert here.cpu_s() is None


# -- The same with a worker that stands still, in virtual time ------------------------------------


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=VirtualLoop) as made:
        yield made


def virtual(runner: asyncio.Runner) -> tuple[VirtualLoop, VirtualEnv]:
    loop = runner.get_loop()
    assert isinstance(loop, VirtualLoop)
    return loop, VirtualEnv(loop)


@pytest.mark.parametrize(
    ("is_computing", "limits", "says"),
    [
        (False, replace(LIMITS, step_cpu_s=10, step_wall_s=300), "ran longer than 300 s"),
        (True, replace(LIMITS, step_cpu_s=10, step_wall_s=300), "computed longer than 10 s"),
        (True, replace(LIMITS, step_cpu_s=300, step_wall_s=10), "ran longer than 10 s"),
    ],
)
def test_javascript_is_ended_from_outside_in_time(
    runner: asyncio.Runner,
    monkeypatch: pytest.MonkeyPatch,
    is_computing: bool,
    limits: Any,
    says: str,
) -> None:
    """X2: a worker that says nothing, and computes all the time or not at all."""
    loop, env = virtual(runner)

    def cpu_s(_: Stat) -> float:
        return loop.time() if is_computing else 0.0

    async def play() -> tuple[Turn, float]:
        pool = Pool(env)
        sandbox = JavaScriptSandbox(pool, limits)
        nothing: Any = None
        script = sandbox.open(Loaded(source("return 1"), nothing), "p", Step.PRODUCE, (), WORLD)
        with loop.outstanding():
            await script.__aenter__()
        (pid,) = pool.pids
        os.kill(pid, signal.SIGSTOP)
        began_s = loop.time()
        turn = await script.start()
        took_s = loop.time() - began_s
        with loop.outstanding():
            await script.__aexit__(None, None, None)
            await pool.close()
        return turn, took_s

    monkeypatch.setattr(Stat, "cpu_s", cpu_s)
    turn, took_s = runner.run(play())
    assert isinstance(turn, Broke)
    assert says in str(turn.error)
    assert not turn.is_lost
    limit_s = min(limits.step_wall_s, limits.step_cpu_s if is_computing else limits.step_wall_s)
    assert limit_s < took_s <= limit_s + PAST_LIMIT_S


@pytest.mark.parametrize("is_computing", [False, True])
async def test_python_is_ended_from_outside(
    monkeypatch: pytest.MonkeyPatch, is_computing: bool
) -> None:
    """X2: by the same watch, whose time is tested above; here that it ends a real process."""
    wall_s, cpu_s = (600.0, 0.2) if is_computing else (0.2, 600.0)
    limits = replace(python_stand.LIMITS, step_wall_s=wall_s, step_cpu_s=cpu_s)
    sandbox = python_stand.make(limits)
    loaded = await sandbox.load(
        python_stand.source("await ctx.mail.send()\nreturn 1"), python_stand.CATALOG
    )
    async with python_stand.opened(sandbox, loaded) as script:
        turn = await script.start()
        assert script._worker is not None
        os.kill(script._worker.pid, signal.SIGSTOP)
        await stopped(script._worker.pid)
        if is_computing:
            monkeypatch.setattr(Stat, "cpu_s", lambda _: 1e6)
        turn = await script.answer(0, None)
    assert isinstance(turn, Broke)
    assert not turn.is_lost
    assert f"0.2 s of {'CPU' if is_computing else 'wall'} time" in str(turn.error)
    assert await python_stand.run(sandbox, "return 1") == Returned(1)
    await sandbox.close()


def test_the_first_look_comes_a_grace_after_what_is_left() -> None:
    """X2: a script that used nearly all of its time in earlier turns is looked at soon."""
    watch = ScriptWatch(cpu_s=10, wall_s=300)
    assert watch.begin_turn() == 10 + GRACE_S
    watch.add(9.5)
    assert watch.begin_turn() == 0.5 + GRACE_S
