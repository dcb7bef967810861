"""The store's exam on PostgreSQL: every verb, on the server that is used.

Of the questions about a crash a commit asks a third; of the rest `make test` asks a quarter, and
every verb at least one (tests/pace.py). On SQLite every verb is asked everything each time.
`TEST_EXAM=all python -m pytest tests/postgres` asks everything here too.
"""

from __future__ import annotations

import os

import pytest

from tests.breaks import tenth_of_commit
from tests.postgres.world import Place, PostgresWorld
from tests.store.exam import Question, Trial
from tests.store.test_exam_complete import sat_trials

PARTS = 1 if os.environ.get("TEST_EXAM") == "all" else 3


def chosen() -> list[Trial]:
    """Leave out the crashes that belong to other commits."""
    trials = sat_trials()
    crashes = [each for each in trials if each.question is Question.CRASH]
    left_out = {id(each) for each in crashes} - {
        id(each) for each in crashes[tenth_of_commit() % PARTS :: PARTS]
    }
    return [each for each in trials if id(each) not in left_out]


@pytest.mark.parametrize("trial", [pytest.param(each, id=each.name) for each in chosen()])
async def test_every_verb_passes_its_exam(trial: Trial, place: Place) -> None:
    """H1: the same verbs, the same rules, the same exam."""
    await trial.sit_in(PostgresWorld(place, trial.case.store))
