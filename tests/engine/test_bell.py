"""Hosts tell each other where to look, at most fifty times a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from duly.store.base import Durability
from duly.store.bell import Bell
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
