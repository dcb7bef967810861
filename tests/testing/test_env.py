"""The env of a test: the same times, ids and dice in every run, and counters that tell."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime

from duly.env import Env
from duly.testing.env import START, VirtualEnv
from duly.testing.loop import VirtualLoop


def test_the_wall_clock_starts_where_it_is_told_and_moves_with_sleep(
    runner: asyncio.Runner, env: VirtualEnv
) -> None:
    assert env.now() == START == datetime(2026, 1, 1, tzinfo=UTC)
    runner.run(env.sleep(3600.5))
    assert env.now_ms() == round(START.timestamp() * 1000) + 3_600_500
    assert (env.monotonic_ms(), env.wakes) == (3_600_500, 1)


def test_a_jump_moves_the_wall_clock_alone(env: VirtualEnv) -> None:
    before = env.now_ms()
    env.jump(60_000)
    env.jump(-90_000)
    assert (env.now_ms() - before, env.monotonic_ms(), env.wakes) == (-30_000, 0, 0)


def test_a_reboot_begins_another_boot_and_moves_no_other_clock(
    runner: asyncio.Runner, env: VirtualEnv
) -> None:
    runner.run(env.sleep(5))
    before, now, monotonic = env.boot(), env.now_ms(), env.monotonic_ms()
    env.jump(-1000)
    assert env.boot() == before
    env.reboot()
    assert (env.boot().id != before.id, before.ms, env.boot().ms) == (True, 5000, 0)
    assert (env.now_ms(), env.monotonic_ms()) == (now - 1000, monotonic)


def test_ids_are_new_in_order_and_the_same_in_every_run(
    runner: asyncio.Runner, loop: VirtualLoop, env: VirtualEnv
) -> None:
    async def make(env: VirtualEnv) -> list[str]:
        made = [env.new_id("run"), env.new_id("run")]
        await env.sleep(1)
        return [*made, env.new_id("run")]

    ids = runner.run(make(env))
    assert ids == sorted(set(ids))
    again = VirtualEnv(loop)
    again.jump(-1000)
    assert runner.run(make(again)) == ids
    again.close()


def test_dice_fall_by_their_seed(loop: VirtualLoop) -> None:
    envs = [VirtualEnv(loop, seed=seed) for seed in (1, 1, 2)]
    thrown = [env.random_bytes(40) + env.random_bytes(3) for env in envs]
    assert thrown[0] == thrown[1] != thrown[2]
    assert len(thrown[0]) == 43
    assert thrown[0][:40] != envs[0].random_bytes(40)


def test_what_blocks_runs_here_after_others_had_their_turn(
    runner: asyncio.Runner, env: VirtualEnv
) -> None:
    seen: list[object] = []

    async def other() -> None:
        seen.append("other")

    async def block() -> None:
        env.spawn(other(), "other")
        seen.append(await env.call_blocking(threading.get_ident))

    runner.run(block())
    assert seen == ["other", threading.get_ident()]
    assert (env.blocking_calls, env.wakes) == (1, 0)


def test_another_thread_gets_the_real_clock(runner: asyncio.Runner, env: VirtualEnv) -> None:
    async def ask() -> int:
        return await asyncio.to_thread(env.monotonic_ms)

    assert runner.run(ask()) > 0
    assert env.monotonic_ms() == 0


def test_it_is_an_env(env: VirtualEnv) -> None:
    accepted: Env = env
    assert accepted is env
