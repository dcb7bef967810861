"""`duly serve` with a connector of threads: stopped, forked, told to stop, killed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.breaks import tenth_of_commit
from tests.fire.mixed import Mix
from tests.fire.stand import Nursery, open_outside

ROUNDS: Final = 8  # `make fire` has hundreds
SEED: Final = tenth_of_commit()


def test_harms_of_every_kind_leave_one_effect_per_mail(nursery: Nursery, tmp_path: Path) -> None:
    """L6, R7, H1: threads outlive their timeout, their host and its orderly stop; nothing twice."""
    with open_outside() as outside:
        report = Mix(nursery, outside, tmp_path, SEED).blow(ROUNDS)
    assert report.rounds == ROUNDS
    assert report.effects == report.mails > 0
