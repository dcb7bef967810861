"""What a ledger row keeps of its tool, and what is done with a row that was begun (L3, L6)."""

from __future__ import annotations

import pytest

from duly.errors import RequestRefused
from duly.rules.word import MutationStatus as Row
from duly.store.base import Durability
from duly.testing import Fault, Stage
from tests.engine.stand import Play, flow, opened, plan

LAG_S = 600
DAY_S = 86_400


async def without_connector(stage: Stage) -> Play:
    """A host without the connector of a call that only a person can settle."""
    play = await opened(stage, reconcile=False, lag_s=LAG_S)
    plan(stage, Fault.AMBIGUOUS_BEFORE)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert (await play.row()).status == Row.INDETERMINATE
    await stage.crash(play.host)
    stage.connectors = []
    play.host = await stage.host(**play.options)
    return play


async def test_the_lag_holds_without_the_connector(duly_world: Stage) -> None:
    """L6, L10: it stands on the row; was a minute for every tool."""
    play = await without_connector(duly_world)
    row = await play.row()
    assert (row.lag_ms, row.timeout_ms, row.key_lifetime_ms) == (LAG_S * 1000, 30_000, None)
    await duly_world.advance(LAG_S - 1)
    with pytest.raises(RequestRefused, match="too early"):
        await play.host.settle(row.id, "did_not_happen")
    await duly_world.advance(1)
    await play.host.settle(row.id, "did_not_happen")
    assert (await play.row()).status == Row.FAILED


async def test_of_a_row_that_kept_nothing_nothing_is_believed_for_a_day(duly_world: Stage) -> None:
    """L6: a row of schema 1, without its connector; with it the connector's own lag holds."""
    play = await without_connector(duly_world)
    row = await play.row()
    forget = "update mutation set lag_ms = null, timeout_ms = null where id = ?"
    play.store.backend._connection.execute(forget, (row.id,))  # type: ignore[attr-defined]
    await duly_world.advance(DAY_S - 1)
    with pytest.raises(RequestRefused, match="too early"):
        await play.host.settle(row.id, "did_not_happen")
    await duly_world.advance(1)
    await play.host.settle(row.id, "did_not_happen")
    assert (await play.row()).status == Row.FAILED


async def test_to_try_again_needs_the_connector(duly_world: Stage) -> None:
    """L10: nothing could be tried without it."""
    play = await without_connector(duly_world)
    with pytest.raises(RequestRefused, match="cannot be asked what happened"):
        await play.host.settle((await play.row()).id, "try_again")


async def test_a_run_in_hand_whose_call_has_begun_is_recovered_not_sent(duly_world: Stage) -> None:
    """L3, R7: only what nobody began to send is sent; was sent a second time."""
    play = await opened(duly_world)
    plan(duly_world, Fault.CRASH_AFTER)
    await play.deploy(flow())
    await play.publish("a")
    await duly_world.crash(play.host, play.host.drain())
    play.host = await duly_world.host(**play.options)
    run = await play.run()
    assert (run.status, run.row) == ("active", Row.IN_FLIGHT)
    # It looks like a run that an act made active.
    await play.store.backend.transact(
        lambda tx: tx.run("take_up_run", id=run.id, epoch=None), Durability.BARRIER
    )
    await play.drain()
    assert (play.sends(), duly_world.count()) == (1, 1)
    assert [each.crash_count for each in await play.runs()] == [0] * len(await play.runs())
    assert await play.is_clean()
