"""Bugs that are planted must be found, or the simulation is asleep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duly.engine import reconciler
from duly.rules import ledger
from tests.breaks import number_of_commit
from verification.workflow import planted
from verification.workflow.planted import BUGS, RANGES, Bug, NoSuchPlace, Place, find, seeds_of

NAMES = {bug.name: bug for bug in BUGS}
# Where `python -m verification --planted --json` found each of them first. The seed is tried
# before the others, so that a hunt which would lead there again is cheap; it decides nothing.
FOUND: dict[str, int] = json.loads(Path(__file__).with_name("found.json").read_bytes())


# A commit looks for a quarter of them; the command looks for all.
CHOSEN = sorted(NAMES)[number_of_commit() % 4 :: 4]


@pytest.mark.parametrize("name", CHOSEN)
def test_planted_bug_is_found(name: str) -> None:
    """L2, L3, R7: within 600 schedules; the other ranges are looked through by a command."""
    first = [FOUND[name]] if name in FOUND else []
    assert find(NAMES[name], (*first, *seeds_of(RANGES[0]))) is not None


def test_there_are_enough_bugs_in_every_room() -> None:
    """At least twenty-five, five of them in the store and five in the rules."""
    assert len(NAMES) == len(BUGS) >= 25
    for room in ("duly.store", "duly.rules", "duly.engine"):
        assert sum(bug.places[0].module.startswith(room) for bug in BUGS) >= 5
    assert all(bug.says.endswith(".") for bug in BUGS)


@pytest.mark.parametrize(
    "place",
    [
        Place("duly.attic", "absent", lambda original: None),
        Place("duly.rules.ledger", "absent", lambda original: None),
        Place("duly.rules.ledger", "RESENDS_MAX", lambda original: original),
        Place("duly.rules.ledger", "RESENDS_MAX", lambda original: original + 0),
    ],
)
def test_bug_that_changes_nothing_is_refused(place: Place) -> None:
    """A bug without a place would be found by nobody, or by accident."""
    with pytest.raises(NoSuchPlace), planted.planted(Bug("none", "Nothing.", (place,))):
        pass


def test_bug_is_gone_afterwards() -> None:
    """What was planted is taken away, also where it was imported by name."""
    holders = (vars(ledger), vars(reconciler))
    original = ledger.recourse
    bug = Bug("gone", "Gone.", (Place("duly.rules.ledger", "recourse", lambda _: len),))
    with planted.planted(bug):
        assert [each["recourse"] for each in holders] == [len, len]
    assert [each["recourse"] for each in holders] == [original, original]
