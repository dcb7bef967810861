"""What is shown of a connector that another package brings, before anything is granted to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.faces.cli.base import confirm, hint, is_terminal
from duly.words.exam import say_exam

if TYPE_CHECKING:
    from duly.api.elsewhere import ForeignKind
    from duly.api.project import Project
    from duly.faces.cli.base import Face


def tell_kind(kind: ForeignKind) -> str:
    """Say where a kind comes from, which code it is, and what was examined of it."""
    exam = kind.exam()
    if exam is None:
        return say_exam(kind.package, None, {}, is_stale=False)
    return say_exam(kind.package, exam.code, exam.points, is_stale=exam.is_stale)


def tell_before_grant(face: Face, capability: str) -> None:
    """Say it before a grant, and ask at a terminal: without one the typed command is the yes."""
    told = tell_foreign(face.project, capability.partition(".")[0])
    if told is None:
        return
    hint(told)
    if is_terminal():
        confirm(f"Grant {capability}?", is_yes=False)


def tell_foreign(project: Project, connector: str) -> str | None:
    """Say it of a connector of a project; None if it is built in or the project's own."""
    from duly.api.connecting import find_foreign

    kind = find_foreign(project, connector)
    return None if kind is None else f"{connector} is of another package: {tell_kind(kind)}."
