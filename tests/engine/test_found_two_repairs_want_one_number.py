"""Found by attack: two repairs of one workflow that end at the same moment and want one number."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from duly.rules.repair import RepairCase
from duly.rules.source import Source
from duly.testing import Stage
from tests.engine.repairing import Smith, active, failing, played, versions
from tests.engine.stand import CONSUMER, consumer, flow
from tests.spoken import told

__all__ = ["played"]

pytestmark = pytest.mark.usefixtures("played")

GOOD = flow().source()
LESS = flow({CONSUMER: consumer(mutate=None)}).source()


def after(seconds: float, answer: Source) -> Callable[[RepairCase], Awaitable[Source]]:
    async def answering(_: RepairCase) -> Source:
        await asyncio.sleep(seconds)
        return answer

    return answering


async def both(stage: Stage, second: Source) -> tuple[Smith, dict[str, str], str | None, str]:
    """Let a person retry while the repairer thinks; both answers come at the same moment."""
    smith = Smith(after(20, LESS), after(10, second))
    play = await failing(stage, smith)
    async with play.host.running():
        await stage.advance(10)
        await play.host.retry((await play.run()).id)
        await stage.advance(30)
        kept = {each.version: each.source for each in (await versions(play)).values()}
        return smith, kept, await active(play), told(await play.run())


async def test_both_proposals_are_kept_and_nobody_is_asked_again(duly_world: Stage) -> None:
    """F3, W8: the second gets the next number."""
    smith, kept, version, told = await both(duly_world, LESS)
    assert (len(smith.cases), version) == (2, "1.0")
    assert sorted(kept) == ["1.0", "1.1", "1.2"]
    assert "Version 1." in told


async def test_a_repair_is_adopted_beside_a_proposal(duly_world: Stage) -> None:
    """F3, W8: what comes too late for its own run does not stand in the way of the other."""
    _, kept, version, _ = await both(duly_world, GOOD)
    assert kept[str(version)] == GOOD.text
    assert sorted(kept) == ["1.0", "1.1", "1.2"]
    assert duly_world.count() == 1
