"""What is said of the exam of a connector that another package brings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

CODE_CHARS: Final = 12
NOT_FOUND: Final = "its code is not found"
NO_CODE: Final = "too large to hash, or not readable"
NO_EXAM: Final = "no exam is known"
STALE: Final = "its exam is of other code"


def say_exam(package: str, code: str | None, points: Mapping[str, int], is_stale: bool) -> str:
    """Say in one line which code a package brings, and what was examined of it."""
    if code is None:
        return f"{package}; {NOT_FOUND}"
    passed = ", ".join(f"{tool} at {count} points" for tool, count in sorted(points.items()))
    told = STALE if is_stale else f"it says it passed its exam: {passed}" if passed else NO_EXAM
    return f"{package}, code {code[:CODE_CHARS] or NO_CODE}; {told}"


def say_foreign(connector: str, exam: str) -> str:
    """Say it of a connector, before anything is granted to it."""
    return f"{connector} is of another package: {exam}."


def tell_foreign(connection: Mapping[str, Any]) -> str:
    """Say it of a connection that is shown on a page."""
    return say_foreign(str(connection["name"]), say_exam(**connection["foreign"]))


def uses(capabilities: Iterable[str], connector: str) -> bool:
    """Tell whether one of some capabilities is of a connector."""
    return any(each.partition(".")[0] == connector for each in capabilities)
