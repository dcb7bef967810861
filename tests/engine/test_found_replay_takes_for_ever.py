"""Found by attack: a repair slow on the past kept its place, and whoever drained, for hours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.engine import repair
from duly.rules.replay import Replay
from duly.testing import Stage
from tests.engine.repairing import Smith, active, failing, played, versions
from tests.engine.stand import flow

__all__ = ["played"]

pytestmark = pytest.mark.usefixtures("played")


@pytest.mark.parametrize(("seconds", "version"), [(299, "1.1"), (3600, "1.0")])
async def test_judging_has_its_time_as_answering_has(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch, seconds: float, version: str
) -> None:
    """F3, X2: fifty runs of three steps, each within its own limit, are hours of one worker."""

    async def slow(*_: Any) -> Replay:
        await asyncio.sleep(seconds)
        return Replay(1)

    monkeypatch.setattr(repair, "replay", slow)
    play = await failing(duly_world, Smith(flow().source()))
    began_s = duly_world.loop.time()
    await play.drain()
    assert duly_world.loop.time() - began_s <= 300
    assert (await active(play), sorted(await versions(play))) == (version, ["1.0", "1.1"])
    is_told = "it was not tried on all that was done within 300 s" in str(
        (await play.run()).escalated
    )
    assert is_told == (version == "1.0")
