"""The loop of engine and bus: when it looks, when it sleeps, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from duly.env import Env
from duly.errors import RequestRefused
from duly.loop import REST_MS, WorkLoop, end_within, outlast
from duly.rules.schedule import HOUR_MS
from duly.testing import Stage

STEP_S = REST_MS / 1000


async def nothing() -> None:
    """Do nothing during a look."""


class Looks(WorkLoop[str]):
    """A loop that does nothing but look, and counts when it did."""

    def __init__(self, env: Env, during: Callable[[], Awaitable[None]] = nothing) -> None:
        super().__init__(env)
        self.during = during
        self.at: list[int] = []
        self.is_stopped = False

    async def _look(self, now: int, is_draining: bool) -> None:
        self.at.append(self._env.monotonic_ms())
        await self.during()

    def _begin_found(self, is_draining: bool) -> bool:
        return bool(self._at_work)

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        self._bell.set()

    async def _stop(self) -> None:
        self.is_stopped = True

    def rest(self) -> None:
        """Plan a look as after an error."""
        self._rest()

    def plan(self, look_at: int, now: int) -> None:
        """Plan a look."""
        self._plan(look_at, now)


async def test_a_plan_that_is_made_during_a_look_is_kept(duly_world: Stage) -> None:
    """H3, S9: a task that fails while the loop reads the store is looked at again."""
    looks = Looks(duly_world.env)

    async def fail_once() -> None:
        if len(looks.at) == 1:
            looks.rest()
            await duly_world.env.sleep(0)

    looks.during = fail_once
    serving = asyncio.ensure_future(looks.serve())
    await duly_world.advance(STEP_S * 5)
    serving.cancel()
    await asyncio.wait((serving,))
    assert [at - looks.at[0] for at in looks.at] == [0, REST_MS]
    assert looks.is_stopped


async def test_a_look_that_fails_at_its_planned_time_rests_before_the_next(
    duly_world: Stage,
) -> None:
    """H3, S9: the time that has passed is no reason to look again at once."""
    looks = Looks(duly_world.env)

    async def fail() -> None:
        looks.rest()

    looks.during = fail
    serving = asyncio.ensure_future(looks.serve())
    await duly_world.advance(STEP_S * 3.5)
    serving.cancel()
    await asyncio.wait((serving,))
    assert [at - looks.at[0] for at in looks.at] == [0, REST_MS, REST_MS * 2, REST_MS * 3]


@pytest.mark.parametrize("is_draining", [True, False])
async def test_a_wake_during_a_look_is_followed_by_another_look(
    duly_world: Stage, is_draining: bool
) -> None:
    """S9: the look may have read the store before what the wake is about was written."""
    looks = Looks(duly_world.env)

    async def wake_once() -> None:
        if len(looks.at) == 1:
            looks.wake()
            await duly_world.env.sleep(0)

    looks.during = wake_once
    working = asyncio.ensure_future(looks.drain() if is_draining else looks.serve())
    await duly_world.advance(1)
    assert len(looks.at) == 2
    assert working.done() == is_draining
    working.cancel()
    await asyncio.wait((working,))


@pytest.mark.parametrize(
    ("jump_ms", "waited_s"), [(-5 * HOUR_MS, STEP_S), (0, STEP_S), (5 * HOUR_MS, 0)]
)
async def test_a_clock_that_is_set_during_a_look_makes_no_plan_later(
    duly_world: Stage, jump_ms: int, waited_s: float
) -> None:
    """S2: set back, the clock of the boot has the plan; set forward, the wall clock has it."""
    looks = Looks(duly_world.env)

    async def plan_once() -> None:
        if len(looks.at) == 1:
            looks.rest()
            duly_world.env.jump(jump_ms)

    looks.during = plan_once
    serving = asyncio.ensure_future(looks.serve())
    await duly_world.advance(STEP_S * 5)
    serving.cancel()
    await asyncio.wait((serving,))
    assert [(at - looks.at[0]) / 1000 for at in looks.at] == [0, waited_s]


async def test_a_clock_that_is_set_back_before_a_plan_is_made_makes_it_no_later(
    duly_world: Stage,
) -> None:
    """S2: the store was read by a clock that shows less when the plan is made of what was read."""
    looks = Looks(duly_world.env)

    async def plan_once() -> None:
        if len(looks.at) == 1:
            now = duly_world.env.now_ms()
            duly_world.env.jump(-5 * HOUR_MS)
            looks.plan(now + REST_MS, now)

    looks.during = plan_once
    serving = asyncio.ensure_future(looks.serve())
    await duly_world.advance(STEP_S * 5)
    serving.cancel()
    await asyncio.wait((serving,))
    assert [at - looks.at[0] for at in looks.at] == [0, REST_MS]


async def test_a_drain_waits_for_no_planned_time(duly_world: Stage) -> None:
    """S9: it ends when nothing is under way."""
    looks = Looks(duly_world.env)

    async def plan() -> None:
        looks.rest()

    looks.during = plan
    await looks.drain()
    assert len(looks.at) == 1


async def test_a_second_caller_is_refused_and_the_first_goes_on(duly_world: Stage) -> None:
    """S1: one at a time."""
    looks = Looks(duly_world.env)
    serving = asyncio.ensure_future(looks.serve())
    await duly_world.advance(1)
    for again in (looks.drain, looks.serve):
        with pytest.raises(RequestRefused, match="one at a time"):
            await again()
    looks.wake()
    await duly_world.advance(1)
    assert len(looks.at) == 2
    serving.cancel()
    await asyncio.wait((serving,))
    await looks.drain()


async def test_a_task_that_does_not_end_in_time_is_cancelled(duly_world: Stage) -> None:
    """R7: and waited for."""
    ended: list[str] = []

    async def work(name: str, seconds: float) -> None:
        try:
            await duly_world.env.sleep(seconds)
        finally:
            ended.append(name)

    tasks = [duly_world.env.spawn(work(str(each), each), "work") for each in (1, 100)]
    ending = asyncio.ensure_future(end_within(tasks, 5))
    await duly_world.advance(10)
    assert ending.done()
    assert ended == ["1", "100"]
    assert [task.cancelled() for task in tasks] == [False, True]


async def test_a_caller_that_is_cancelled_waits_to_the_end(duly_world: Stage) -> None:
    """R7: twice cancelled is cancelled once, after that."""
    task = duly_world.env.spawn(duly_world.env.sleep(5), "work")
    waiting = asyncio.ensure_future(outlast(task))
    for _ in range(2):
        await duly_world.advance(1)
        waiting.cancel()
    await duly_world.advance(1)
    assert not waiting.done()
    await duly_world.advance(5)
    assert task.done()
    assert waiting.cancelled()
