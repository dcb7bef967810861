"""What is said of the exam of a connector that another package brings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CODE_CHARS: Final = 12
NOT_FOUND: Final = "its code is not found"
NO_CODE: Final = "too large to hash"
NO_EXAM: Final = "no exam is known"
STALE: Final = "its exam is of other code"


def say_exam(package: str, code: str | None, points: Mapping[str, int], is_stale: bool) -> str:
    """Say in one line which code a package brings, and what was examined of it."""
    if code is None:
        return f"{package}; {NOT_FOUND}"
    passed = ", ".join(f"{tool} at {count} points" for tool, count in sorted(points.items()))
    told = STALE if is_stale else f"it says it passed its exam: {passed}" if passed else NO_EXAM
    return f"{package}, code {code[:CODE_CHARS] or NO_CODE}; {told}"
