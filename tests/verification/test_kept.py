"""Scenarios of long searches that found something are run with every commit."""

from __future__ import annotations

import pytest

from verification.suite import WORKFLOW

# An approval of several calls woke the engine while the turn of the workflow was about to end, and
# the call was not sent before the next wake (A4, S4).
LOST_WAKES = (205585, 222627, 222855)
# The oracle's own faults: a run that outlived its version asks although an allowance is left; a
# person amended a call, and the host died before it said so; a proposal was made and taken away
# in one commit.
MISJUDGED = (563, 200619, 208941, 215017, 8004703)


@pytest.mark.parametrize("seed", [*LOST_WAKES, *MISJUDGED])
def test_what_a_search_found_stays_right(seed: int) -> None:
    """A3, A4, S4: the call that a person agreed to is sent, and what asks has a reason."""
    assert WORKFLOW.run(WORKFLOW.from_seed(seed)).problems == ()
