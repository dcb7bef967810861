"""Four real `duly serve` and a server with a standby: killed, stopped, cut off, promoted."""

from __future__ import annotations

import pytest

from tests.postgres.stand import KEY
from tests.postgres.storm import run, short_folder, stormy

STORM_S = 45


async def test_a_fleet_in_a_storm_posts_every_note_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """H2, H3, H10: no change twice, no double commit, nothing stuck, whatever happens."""
    monkeypatch.setenv("DULY_KEY", KEY)
    with short_folder() as base:
        async with stormy(base, workflows=20, seed=1) as storm:
            print(await run(storm, hosts=4, seconds=STORM_S))
