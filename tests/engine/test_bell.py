"""Hosts tell each other where to look, at most fifty times a second."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from duly.store.base import Durability
from duly.store.bell import ALL, Bell
from duly.testing.stage import Stage

PER_SECOND_MAX = 50


class Wire:
    """What a server was told to pass on, and when."""

    def __init__(self, stage: Stage) -> None:
        self._env = stage.env
        self.told: list[tuple[int, str]] = []

    async def transact(self, body: Callable[[Any], None], durability: Durability) -> None:
        assert durability is Durability.RIDER  # no commit waits for a notification
        body(self)

    def all(self, statement: str, /, *, told: str) -> None:
        assert statement == "ring"
        self.told.append((self._env.monotonic_ms(), told))


async def test_a_busy_host_rings_fifty_times_a_second_and_forgets_nothing(
    duly_world: Stage,
) -> None:
    """H9: what happens meanwhile is told together."""
    wire = Wire(duly_world)
    bell = Bell(duly_world.env, "postgresql://nowhere/x", wire)  # type: ignore[arg-type]
    for number in range(3_000):
        bell.ring(f"flow{number}")
        await duly_world.env.sleep(0.001)
    await bell.close()
    times = [at for at, _ in wire.told]
    for at in times:
        assert sum(at <= each < at + 1_000 for each in times) <= PER_SECOND_MAX
    named = {what for _, text in wire.told for what in text.split()[1:]}
    assert named == {f"flow{number}" for number in range(3_000)}


class Deaf:
    """A connection that is there, and on which no notification ever comes."""

    def __init__(self) -> None:
        self._line, self._end = socket.socketpair()
        self.is_closed = False

    def fileno(self) -> int:
        return self._line.fileno()

    def close(self) -> None:
        self.is_closed = True
        self._line.close()
        self._end.close()


@pytest.mark.parametrize("is_connected", [False, True], ids=["cut off", "deaf"])
async def test_a_host_that_hears_nothing_looks_once_a_second(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch, is_connected: bool
) -> None:
    """H9: a proxy may pass no notification on, and a line may be lost."""
    env, made, looks = duly_world.env, list[Deaf](), list[tuple[int, str]]()

    def connect(_: Bell) -> Any:
        if not is_connected:
            raise psycopg.OperationalError("connection refused")
        made.append(Deaf())
        return made[-1]

    monkeypatch.setattr(Bell, "_connect", connect)
    bell = Bell(env, "postgresql://nowhere/x", Wire(duly_world))  # type: ignore[arg-type]
    bell.rung = lambda what: looks.append((env.monotonic_ms() - began_ms, what))
    began_ms = env.monotonic_ms()
    bell.open()
    await env.sleep(60.5)
    await bell.close()
    assert looks == [(second * 1_000, ALL) for second in range(1, 61)]
    assert len(made) == (6 if is_connected else 0)  # it tries again after two and ten seconds
    assert all(each.is_closed for each in made)
