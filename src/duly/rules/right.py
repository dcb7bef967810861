"""What stands of a right, in one word, so that an act can say what was shown of it (A1, A6).

Law: a right has the same word at two moments only if it has the same limits, and if it was taken
back between them neither by itself nor together with its workflow. No clock decides that.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from duly.rules.value import digest


@dataclass(frozen=True, slots=True)
class Right:
    """A capability of a workflow: its limits if it is granted, and how often it was lost.

    `removed` counts the workflows of this name that were removed. The ids name one of each, so that
    what was lost after a restore is not taken for what was lost before.
    """

    workflow_id: str
    capability: str
    mutations_per_day: int | None = None
    matching: str | None = None  # None of a right that is not granted
    taken: int = 0
    taken_id: str | None = None
    removed: int = 0
    removed_id: str | None = None

    @property
    def word(self) -> str:
        """Return the word; not of the workflow, which a first deploy has yet to make."""
        return digest([*astuple(self)[2:]])

    @property
    def losses(self) -> int:
        """Return how often it was lost."""
        return self.taken + self.removed
