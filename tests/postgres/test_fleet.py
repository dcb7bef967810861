"""Two real `duly serve` on one server: killed, stopped longer than the lease, cut off, closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres.stand import KEY
from tests.postgres.storm import run, stormy
from tests.postgres.world import Place


async def test_a_fleet_in_a_storm_posts_every_note_once(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2, H3, H7: no change twice, none lost, nothing stuck, whatever befalls the hosts."""
    monkeypatch.setenv("DULY_KEY", KEY)
    name = place.make()
    with stormy(tmp_path, place.folder, name, workflows=4, seed=1) as storm:
        print(await run(storm, hosts=2, seconds=8))
    place.give_back(name)
