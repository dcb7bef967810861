"""A run that fails for ever because one write of it fails is told to a person (R7, F8, H3)."""

from __future__ import annotations

import pytest

from duly.rules.standing import Standing
from duly.testing import Stage
from tests.engine.stand import NAME, flow, opened
from tests.engine.test_store_outage import failing


@pytest.mark.parametrize("verb", ["prepare_run", "commit_run"])
async def test_a_write_that_never_fits_is_not_tried_for_ever_in_silence(
    duly_world: Stage, verb: str
) -> None:
    """R7, F8: a disk that is nearly full takes small writes and refuses a large one each time."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    failing(play, verb, times=1_000_000)
    async with play.host.running():
        await duly_world.advance("1h")
    seen = await play.host.workflow(NAME)
    told = [each.topic for each in await play.store.list_journal()]
    assert seen.standing is Standing.NEEDS_ATTENTION or told, (seen.reason, len(await play.runs()))
    assert len(await play.runs()) < 50  # was 361: one every ten seconds
