"""A run that could not be laid down at the stop is laid down before its late answer is awaited."""

from __future__ import annotations

import asyncio

import pytest

from duly.rules.word import MutationStatus as Row
from duly.testing import Stage
from tests.engine.slow import TIMEOUT_S, Keyed, Mute, Slow, hanging
from tests.engine.test_late_kept import failing


@pytest.mark.parametrize("slow", [Mute(), Keyed()], ids=["first send", "send again"])
async def test_a_late_answer_outlasts_a_stop_with_a_full_disk(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch, slow: Slow
) -> None:
    """L1, R7, H3: the disk is full while the host stops, and is not any more when it closes."""
    monkeypatch.setattr("duly.engine.scheduler.STOP_S", 1.0)
    play = await hanging(duly_world, slow)
    is_full = False
    for verb in ("succeed_run", "move_run"):
        real = getattr(play.store, verb)
        monkeypatch.setattr(play.store, verb, failing(real, lambda: is_full))
    again = isinstance(slow, Keyed)
    async with play.host.running():
        await duly_world.advance(TIMEOUT_S + 5 if again else 5)
        is_full = True
    assert (await play.row()).status == Row.IN_FLIGHT
    is_full = False
    closing = asyncio.ensure_future(play.host.close())
    await duly_world.advance(1)
    await slow.end(len(slow.sends))
    if again:
        await slow.end(1)
    await closing
    play.host = await duly_world.host(**play.options)
    assert (await play.row()).status == Row.APPLIED
