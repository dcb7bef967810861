"""The store's exam on PostgreSQL: every verb, every question, on the server that is used."""

from __future__ import annotations

import pytest

from tests.postgres.world import Place, PostgresWorld
from tests.store.exam import Trial
from tests.store.test_exam_complete import sat_trials


@pytest.mark.parametrize("trial", [pytest.param(each, id=each.name) for each in sat_trials()])
async def test_every_verb_passes_its_exam(trial: Trial, place: Place) -> None:
    """H1: the same verbs, the same rules, the same exam."""
    await trial.sit_in(PostgresWorld(place, trial.case.store))
