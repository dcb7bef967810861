"""Hosts killed at any moment: every acknowledged mail is one line in a book kept elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.breaks import tenth_of_commit
from tests.fire.stand import Fire
from tests.fire.storm import FLOWS, Storm

ROUNDS: Final = 8  # `make fire` has hundreds
SEED: Final = tenth_of_commit()


def test_kills_at_any_moment_leave_one_effect_per_mail(light: Callable[..., Fire]) -> None:
    """L3, R7, C11: nothing twice, nothing lost, nothing open, whichever process died where."""
    report = Storm(light(*FLOWS), SEED).blow(ROUNDS)
    assert report.kills == ROUNDS
    assert report.effects == report.mails > 0
