"""An outage of changes alone, in which questions are answered, is an outage all the same (F2)."""

from __future__ import annotations

import pytest

from duly.rules.standing import Standing
from duly.testing import Fault, Stage
from tests.engine.stand import NAME, flow, opened, plan
from tests.engine.test_unreachable import LONG, back, notices


@pytest.mark.parametrize(
    "fault", [Fault.AMBIGUOUS_BEFORE, Fault.TIMEOUT_BEFORE], ids=lambda each: each.name
)
async def test_changes_that_fail_and_did_not_happen_need_no_person(
    duly_world: Stage, fault: Fault
) -> None:
    """F2, L6: sends break off for three hours, and the outside says each time that none arrived."""
    play = await opened(duly_world)
    plan(duly_world, *[fault] * LONG)
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance("3h")
        assert (await play.host.workflow(NAME)).standing is Standing.RUNNING
        back(duly_world, "sheet.append")
        await duly_world.advance("10m")
    assert (duly_world.count(), await play.statuses()) == (1, {"a": "consumed"})
    assert len(await notices(play)) == 1


async def test_a_connector_that_fails_again_and_again_needs_one(duly_world: Stage) -> None:
    """F2: an error that says nothing of the outside is no outage; after five the person is told."""
    play = await opened(duly_world)
    plan(duly_world, *[Fault.AMBIGUOUS_BEFORE] * 3, *[Fault.ERROR] * LONG)
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance("3h")
    assert (await play.host.workflow(NAME)).standing is Standing.NEEDS_ATTENTION
    assert [each.transient_count for each in await play.runs()] == [0, 0, 0, 1, 2, 3, 4, 5, 6]
    assert await notices(play) == []


async def test_a_send_nobody_heard_is_no_outage(duly_world: Stage) -> None:
    """F2, R7: a change that kills its host again and again is shown, also after an outage."""
    play = await opened(duly_world)
    plan(duly_world, Fault.AMBIGUOUS_BEFORE, *[Fault.CRASH_BEFORE] * 6)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    await play.pass_by(120)
    for _ in range(6):
        await duly_world.advance(700)
        await duly_world.crash(play.host, play.host.drain())
        play.host = await duly_world.host(**play.options)
        await play.drain()
        await play.pass_by(120)
    assert (await play.host.workflow(NAME)).standing is Standing.NEEDS_ATTENTION
