"""Another program that writes for a moment costs no answer of a repairer (F3, H1)."""

from __future__ import annotations

import apsw
import pytest

from duly.testing import Stage
from tests.engine.repairing import actions, played, versions
from tests.engine.test_repair_claimed_anew import WIDER
from tests.engine.test_repair_meanwhile import later, thinking

__all__ = ["played"]

pytestmark = pytest.mark.usefixtures("played")


async def test_a_busy_database_loses_no_proposal(duly_world: Stage) -> None:
    """F3: the file is locked by another program during a turn that only looks."""
    play, _ = await thinking(duly_world, later(WIDER), later(None))
    async with play.host.running():
        await duly_world.advance(1)
        other = apsw.Connection(duly_world.url.removeprefix("sqlite:///"))
        other.execute("begin immediate")
        play.desk.engine.wake(await play.workflow_id())
        await duly_world.advance(1)
        other.execute("rollback")
        other.close()
        await duly_world.advance(600)
    assert sorted(await versions(play)) == ["1.0", "1.1"]
    assert len(await actions(play, "propose")) == 1
