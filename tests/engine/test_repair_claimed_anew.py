"""What a repairer answers is not thrown away because the host claimed its workflow anew (F3)."""

from __future__ import annotations

import pytest

from duly.rules.word import Status
from duly.testing import Stage
from tests.engine.repairing import actions, played, versions
from tests.engine.stand import CONSUMER, consumer, flow
from tests.engine.test_repair_meanwhile import later, thinking
from tests.engine.test_store_outage import failing
from verification.moves import Call

__all__ = ["played"]

pytestmark = pytest.mark.usefixtures("played")

# A repair that only a person may put to use: it publishes what the failed version did not.
WIDER = flow(
    {CONSUMER: consumer(mutate=(Call("sheet.append", (), {"text": "other"}),))},
    topics=(
        "in",
        "more",
        "out",
    ),
).source()


async def test_a_claim_made_anew_costs_no_second_question_to_the_repairer(
    duly_world: Stage,
) -> None:
    """F3: the store could not be read for a moment while the repairer thought; it answers once."""
    play, smith = await thinking(duly_world, later(None), later(None), later(None))
    async with play.host.running():
        await duly_world.advance(1)
        assert len(smith.cases) == 1
        failing(play, "take_turn")
        await play.publish("b")  # the workflow has a turn, and that fails
        await duly_world.advance(600)
    run = await play.run()
    assert (run.status, bool(run.escalated)) == (Status.FAILED_LOGIC, True)
    assert len(smith.cases) == 1


async def test_a_claim_made_anew_loses_no_proposal(duly_world: Stage) -> None:
    """F3: what a repairer proposed and may not put to use is kept for a person."""
    play, _ = await thinking(duly_world, later(WIDER), later(None))
    async with play.host.running():
        await duly_world.advance(1)
        failing(play, "take_turn")
        await play.publish("b")
        await duly_world.advance(600)
    assert sorted(await versions(play)) == ["1.0", "1.1"]
    assert len(await actions(play, "propose")) == 1
