"""Crashes at a verb of the store: it is done or not as planned, and nobody is answered after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duly.errors import ConfigError
from duly.store import Store
from duly.store.base import Durability, Transaction
from duly.store.sqlite import open_sqlite
from duly.testing.crash import VERBS, Crash, CrashingStore, Moment
from duly.testing.env import VirtualEnv


async def opened(env: VirtualEnv, folder: Path) -> Store:
    return Store(await open_sqlite(folder / "duly.db", env))


async def put(store: Store, value: str) -> None:
    await store.put_state("mail", "cursor", value, now=0)


async def get(store: Store) -> str | None:
    return await store.get_state("mail", "cursor")


@pytest.mark.parametrize(("moment", "kept"), [("before", "1"), ("after", "2")])
def test_a_verb_is_done_or_not_and_the_store_is_dead_then(
    runner: asyncio.Runner, env: VirtualEnv, tmp_path: Path, moment: Moment, kept: str
) -> None:
    async def play() -> str | None:
        store = await opened(env, tmp_path)
        crashing = CrashingStore(store)
        await put(store, "1")
        crashing.plan({"put_state": moment})
        for attempt in (put(store, "2"), put(store, "3"), get(store)):
            with pytest.raises(Crash):
                await attempt
        await crashing.close()
        again = await opened(env, tmp_path)
        found = await get(again)
        await again.close()
        return found

    assert runner.run(play()) == kept


class Named:
    """A backend that runs nothing and keeps the names of what it was given."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def transact(self, body: Callable[[Transaction], object], durability: Durability) -> None:
        self.names.append(getattr(body, "__name__", ""))


def test_the_point_of_a_verb_bears_the_name_by_which_it_is_planned(
    runner: asyncio.Runner,
) -> None:
    """A plan for a verb whose transaction had another name would never crash a host."""
    backend: Any = Named()
    store = Store(backend)

    async def play() -> None:
        for verb in VERBS:
            await getattr(store, verb)()

    runner.run(play())
    assert tuple(backend.names) == VERBS


def test_a_verb_on_its_way_is_not_answered_after_a_crash(
    runner: asyncio.Runner, env: VirtualEnv, tmp_path: Path
) -> None:
    async def play() -> None:
        store = await opened(env, tmp_path)
        crashing = CrashingStore(store)
        reading = asyncio.ensure_future(get(store))
        asyncio.get_running_loop().call_soon(crashing.kill)
        with pytest.raises(Crash):
            await reading
        await crashing.close()

    runner.run(play())


def test_who_held_the_store_before_meets_the_crash_too(
    runner: asyncio.Runner, env: VirtualEnv, tmp_path: Path
) -> None:
    async def play() -> None:
        store = await opened(env, tmp_path)
        holder = store
        crashing = CrashingStore(store, at={"get_state": "before"})
        with pytest.raises(Crash):
            await get(holder)
        await crashing.close()

    runner.run(play())


def test_every_verb_can_be_planned_and_nothing_else(
    runner: asyncio.Runner, env: VirtualEnv, tmp_path: Path
) -> None:
    async def play() -> None:
        store = await opened(env, tmp_path)
        crashing = CrashingStore(store, at=dict.fromkeys(VERBS, "after"))
        with pytest.raises(ConfigError, match="no verb recrod"):
            crashing.plan({"recrod": "before"})
        with pytest.raises(ConfigError, match="no verb close"):
            crashing.plan({"close": "before"})
        with pytest.raises(ConfigError, match="say before or after"):
            crashing.plan({"record": "during"})  # type: ignore[dict-item]
        await crashing.close()

    runner.run(play())
    assert {"record", "send", "prepare_run", "commit_run", "succeed_run"} <= set(VERBS)
