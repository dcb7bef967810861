"""A stopped store is made smaller by SQLite itself, as the page for operators says (H1, H5)."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from duly.config import Policy
from duly.testing.plugin import duly_world, pytest_pycollect_makeitem
from duly.testing.stage import Stage
from tests.desk.stores import folder_of
from tests.engine.stand import NAME, Play, flow, opened

__all__ = ["duly_world", "pytest_pycollect_makeitem"]

DAY_S = 86_400
TEXT = "x" * 8_000


def make_smaller(path: Path) -> None:
    """Do what the page says, with the file of a host that was stopped."""
    small = path.with_name("small.db")
    store = apsw.Connection(str(path))
    store.execute("vacuum into ?", (str(small),))
    store.close()
    store = apsw.Connection(str(small))
    assert store.pragma("integrity_check") == "ok"
    store.close()
    path.rename(path.with_name("duly.db.large"))
    small.rename(path)


async def filled(stage: Stage) -> Play:
    """Open a host whose history was mostly removed."""
    play = await opened(stage, policy=Policy(retention_days=1))
    await play.deploy(flow())
    for number in range(40):
        await play.publish(f"a-{number}", payload=TEXT)
    await play.drain()
    await stage.advance(3 * DAY_S)
    await play.host.tidy()
    return play


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_stopped_store_is_made_smaller_and_goes_on(
    duly_world: Stage, is_killed: bool
) -> None:
    """H1, H5: whole, smaller, nothing done again; a killed one at most begins paused."""
    play = await filled(duly_world)
    path = folder_of(duly_world) / "duly.db"
    sent = duly_world.count()
    if is_killed:
        await duly_world.crash(play.host)
    else:
        await play.host.close()
    before = path.stat().st_size
    make_smaller(path)
    assert path.stat().st_size < before / 2
    play.host = await duly_world.host(policy=Policy(retention_days=1))
    workflow = await play.host.workflow(NAME)
    assert is_killed or not workflow.paused
    if workflow.paused:
        assert workflow.reason.code == "restored"
        await play.host.resume(NAME)
    assert (await play.host.verify()).ok
    await play.publish("a-0", payload=TEXT)  # known, and not done again
    await play.publish("new")
    await play.drain()
    assert duly_world.count() == sent + 1
