"""The walk of verbs on the server: the same acts, answers, failures and crashes in any order."""

from __future__ import annotations

from random import Random

import pytest

from tests.breaks import tenth_of_commit
from tests.postgres.world import Place, PostgresWorld
from tests.store.test_walk import WALKS, walk_over

STEP = 20  # every so many walks with a commit


@pytest.mark.parametrize("seed", range(tenth_of_commit(), WALKS, STEP))
async def test_no_walk_on_a_server_strands_an_event(seed: int, place: Place) -> None:
    """H1, S3, R9: as on SQLite."""
    world = PostgresWorld(place)
    await world.open()
    await walk_over(Random(seed).randrange, world.store, world.connection.execute)
    await world.close()
