"""Found by attack: a call whose connection came back, but whose connector is not there any more."""

from __future__ import annotations

import logging

import pytest

from duly.rules.word import Status
from duly.testing import Fault, Stage
from tests.engine.stand import flow, opened, plan


async def test_a_call_without_its_connector_is_taken_back_and_told(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """F4, L4: nothing was sent, so it failed; nobody tries every ten seconds for ever."""
    play = await opened(duly_world)
    plan(duly_world, Fault.AUTH)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert (await play.row()).status == "proposed"
    kept = list(duly_world.connectors)
    duly_world.connectors.clear()
    await play.restart()
    assert await play.host.reconnect("sheet") == 1
    with caplog.at_level(logging.ERROR, "duly.engine"):
        await play.drain()
    assert not caplog.records
    assert (await play.row()).status == "failed"
    assert ((await play.run()).status, duly_world.count()) == (Status.PAUSED_TRANSIENT, 0)
    assert "its connector is not here" in (await play.error())["message"]
    duly_world.connectors.extend(kept)
    await play.restart()
    await play.pass_by(60)
    assert (await play.statuses(), duly_world.count()) == ({"a": "consumed"}, 1)
