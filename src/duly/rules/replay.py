"""What another version would have changed outside, given what past runs were given (F3).

Law 1  Two changes are the same when tool and arguments are. The order of the keys and the title
       decide nothing (L11).
Law 2  A change that cannot be compared is reported as such. It never counts as the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from duly.rules.value import Json, digest


@dataclass(frozen=True, slots=True)
class OutsideChange:
    """A change outside: the tool, and the arguments under the tool's own names."""

    tool: str
    args: Mapping[str, Json]

    @property
    def digest(self) -> str:
        """Name the change by its content."""
        return digest([self.tool, dict(self.args)])


@dataclass(frozen=True, slots=True)
class Difference:
    """One past run the version does not repeat, or of which that cannot be told.

    `inputs` are the titles of the events it worked on; a change that is None was none at all.
    """

    run: str
    inputs: tuple[str, ...]
    before: OutsideChange | None = None
    after: OutsideChange | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of trying a version on past runs: how many, and where it differs."""

    tried: int
    differences: tuple[Difference, ...] = ()

    @property
    def is_same(self) -> bool:
        """Tell whether every run that was tried is known to make the same change."""
        return not self.differences


def compare(
    run: str, inputs: tuple[str, ...], before: OutsideChange | None, after: OutsideChange | None
) -> Difference | None:
    """Compare what a run changed with what it would change now; None: that is the same."""
    if before is None or after is None:
        return None if before is after else Difference(run, inputs, before, after)
    if before.digest == after.digest:
        return None
    return Difference(run, inputs, before, after)
