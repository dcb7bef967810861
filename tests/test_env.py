"""The real `Env`: clocks that go forward, ids nobody has, tasks that live, threads that end."""

from __future__ import annotations

import asyncio
import gc
import re
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.connectors.watch import LoopPlace, Watch
from duly.env import BLOCKING_THREADS_MAX, LAG_SPAN_MS, SLEEP_SLICE_S, Env, Lag, Loop, _boot_id

PATIENCE_S = 60  # no test waits this long unless it is about to fail


@pytest.fixture
def env() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def test_a_loop_is_an_env(env: Loop) -> None:
    """The assignment is what the type checker looks at; the call is what we look at."""
    checked: Env = env
    assert isinstance(checked.now_ms(), int)


def test_now_is_the_wall_clock_in_milliseconds(env: Loop) -> None:
    before = time.time_ns() // 1_000_000
    now = env.now_ms()
    assert before <= now <= time.time_ns() // 1_000_000


def test_monotonic_is_a_clock_of_its_own_that_never_goes_back(env: Loop) -> None:
    before = time.monotonic_ns() // 1_000_000
    readings = [env.monotonic_ms() for _ in range(1000)]
    assert readings == sorted(readings)
    assert before <= readings[0] <= readings[-1] <= time.monotonic_ns() // 1_000_000


def test_a_boot_is_the_same_for_every_process_and_its_clock_never_goes_back(env: Loop) -> None:
    """L7: what one process stamped, another can compare with its own moment."""
    command = "from duly.env import Loop; boot = Loop().boot(); print(boot.id, boot.ms, sep='|')"
    before = env.boot()
    other = subprocess.run(  # our own interpreter
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    )
    named, _, ms = other.stdout.strip().partition("|")
    assert before.id is not None
    assert named == before.id
    assert before.ms <= int(ms) <= env.boot().ms


def test_a_machine_that_does_not_name_its_boot_says_so(
    env: Loop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """L7: then no key is taken for young by the boot clock."""
    monkeypatch.setattr("duly.env.BOOT_ID", tmp_path / "none")
    monkeypatch.setattr("duly.env.TIME_NAMESPACE", tmp_path / "none")
    _boot_id.cache_clear()
    try:
        assert env.boot().id is None
    finally:
        _boot_id.cache_clear()


def test_an_id_names_its_kind_and_is_nobody_elses(env: Loop) -> None:
    ids = [env.new_id("run") for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert all(re.fullmatch(r"run_[0-9a-f]{27}", each) for each in ids)


def test_ids_sort_by_the_millisecond_they_were_made_in(
    env: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [0, 1, 0xF, 0x10, 2**40, 2**44 - 1]
    clock = iter(times)
    monkeypatch.setattr(env, "now_ms", lambda: next(clock))
    ids = [env.new_id("run") for _ in times]
    assert ids == sorted(ids)
    assert len({len(each) for each in ids}) == 1


def test_ids_grow_within_a_millisecond_and_when_the_clock_is_set_back(
    env: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([5] * 1000 + [4] * 1000)
    monkeypatch.setattr(env, "now_ms", lambda: next(clock))
    ids = [env.new_id("run") for _ in range(2000)]
    assert ids == sorted(set(ids))
    assert all(re.fullmatch(r"run_[0-9a-f]{27}", each) for each in ids)


def test_random_bytes_are_as_many_as_asked_and_differ(env: Loop) -> None:
    assert len(env.random_bytes(0)) == 0
    assert len(env.random_bytes(32)) == 32
    assert env.random_bytes(32) != env.random_bytes(32)


async def test_sleep_lets_others_run(env: Loop) -> None:
    order = []

    async def other() -> None:
        order.append("other")

    task = env.spawn(other(), "other")
    await env.sleep(0)
    await task
    assert order == ["other"]


async def test_sleep_lasts_as_long_as_asked(env: Loop) -> None:
    before = time.monotonic()
    await env.sleep(0.01)
    assert time.monotonic() - before >= 0.009


async def test_a_sleep_ends_in_time_although_the_machine_was_suspended(
    env: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S9: the loop's clock stands still while the machine sleeps; the plan must not."""
    clock_s = 0.0
    slices_s: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal clock_s
        slices_s.append(seconds)
        clock_s += seconds + (7200 if len(slices_s) == 1 else 0)  # two hours asleep

    monkeypatch.setattr("duly.env._awake_or_not_s", lambda: clock_s)
    monkeypatch.setattr("duly.env.asyncio.sleep", sleep)
    await env.sleep(7300)
    assert slices_s == [SLEEP_SLICE_S, 40]


async def test_a_spawned_task_has_its_name_and_is_kept_until_it_ends(env: Loop) -> None:
    """asyncio keeps only a weak reference to a task; the caller that spawns may forget it."""
    ended = asyncio.Event()

    async def work() -> None:
        # Nothing but the task itself refers to what it waits for, as with a lost timer.
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.append(weakref.ref(waiting))
        await waiting
        ended.set()

    waiters: list[weakref.ref[asyncio.Future[None]]] = []
    assert env.spawn(work(), "work").get_name() == "work"
    await env.sleep(0)
    gc.collect()
    waiting = waiters[0]()
    assert waiting is not None, "the task was collected while it waited"
    waiting.set_result(None)
    await asyncio.wait_for(ended.wait(), PATIENCE_S)


async def test_an_ended_task_is_let_go(env: Loop) -> None:
    async def work() -> None:
        return None

    task = env.spawn(work(), "work")
    await task
    await env.sleep(0)
    assert env._tasks == set()


async def test_a_blocking_call_does_not_stop_the_loop(env: Loop) -> None:
    """The function ends only when the loop went on beside it."""
    went_on = threading.Event()

    async def other() -> None:
        went_on.set()

    env.spawn(other(), "other")
    assert await env.call_blocking(lambda: went_on.wait(PATIENCE_S)) is True


async def test_a_blocking_call_answers_and_raises_as_the_function_does(env: Loop) -> None:
    assert await env.call_blocking(lambda: 7) == 7

    def fail() -> None:
        raise LookupError("no such row")

    with pytest.raises(LookupError, match="no such row"):
        await env.call_blocking(fail)


async def test_as_many_functions_block_at_once_as_there_are_threads(env: Loop) -> None:
    """None of them ends before all of them have begun."""
    begun = threading.Barrier(BLOCKING_THREADS_MAX, timeout=PATIENCE_S)
    calls = (env.call_blocking(begun.wait) for _ in range(BLOCKING_THREADS_MAX))
    assert sorted(await asyncio.gather(*calls)) == list(range(BLOCKING_THREADS_MAX))


async def test_close_waits_for_what_is_still_running() -> None:
    env = Loop()
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(PATIENCE_S)
        ended.set()

    call = asyncio.ensure_future(env.call_blocking(work))
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    closing = asyncio.ensure_future(asyncio.to_thread(env.close))
    done, _ = await asyncio.wait([closing], timeout=0.05)
    assert not done, "close returned while a function was running"
    may_end.set()
    await closing
    assert ended.is_set()
    await call


# -- How late the loop is -----------------------------------------------------------------------


class Pulse:
    """A clock for figures that stands until it is moved; it says when a thread has read it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.s = 0.0
        self.is_read = threading.Event()
        self._own = threading.get_ident()
        monkeypatch.setattr("duly.env.precise_s", self)
        monkeypatch.setattr("duly.connectors.watch.precise_s", self)

    def __call__(self) -> float:
        read = self.s
        if threading.get_ident() != self._own:
            self.is_read.set()
        return read


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["call_blocking", "compute"])
async def test_a_block_that_is_over_is_seen_by_a_thread_that_ended_in_it(
    env: Loop, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """L13: asked afterwards; was measured at the question alone."""
    pulse = Pulse(monkeypatch)
    waiting = asyncio.ensure_future(getattr(env, way)(lambda: "read"))
    await asyncio.sleep(0)
    assert pulse.is_read.wait(PATIENCE_S)  # it has ended, and the loop is blocked from here on
    pulse.s = 5
    assert (await waiting, env.lag.longest_s()) == ("read", 5)


@pytest.mark.anyio
async def test_a_block_that_is_over_is_seen_by_a_timer_that_was_due_in_it(
    env: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L13, S9: by a timer that there is anyway."""
    pulse = Pulse(monkeypatch)
    waiting = asyncio.ensure_future(env.sleep(0.001))
    await asyncio.sleep(0)
    pulse.s = 5
    await waiting
    assert env.lag.longest_s() == pytest.approx(5, abs=0.01)


@pytest.mark.anyio
async def test_a_step_of_a_connector_that_held_the_loop_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """L13: one that is over too, whether anything else waited or not."""
    pulse, lag = Pulse(monkeypatch), Lag()

    async def blocks() -> str:
        pulse.s += 5
        return "done"

    watch = Watch("sheet.append", clock=lambda: 0, pace=LoopPlace(lag=lag))
    watch.begin(blocks())
    assert (await watch.result(PATIENCE_S), lag.longest_s()) == ("done", 5)


def test_the_longest_lag_is_that_of_the_last_minutes_whoever_asks() -> None:
    """L13: to ask changes nothing; after two spans it is forgotten."""
    now = 0
    lag = Lag(lambda: now)
    lag.note(5)
    lag.note(1)
    assert [lag.longest_s(), lag.longest_s()] == [5, 5]
    now = 2 * LAG_SPAN_MS - 1
    lag.note(2)
    assert lag.longest_s() == 5
    now = 2 * LAG_SPAN_MS
    assert lag.longest_s() == 2
    now = 9 * LAG_SPAN_MS
    assert lag.longest_s() == 0
