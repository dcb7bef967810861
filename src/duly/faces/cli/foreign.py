"""What is shown of a connector that another package brings, before anything is granted to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.faces.cli.base import confirm, hint, is_terminal
from duly.words.exam import say_exam, say_foreign

if TYPE_CHECKING:
    from duly.api.elsewhere import ForeignKind
    from duly.api.project import Project
    from duly.faces.cli.base import Face


def tell_kind(kind: ForeignKind) -> str:
    """Say where a kind comes from, which code it is, and what was examined of it."""
    told = kind.told()
    return say_exam(told.package, told.code, told.points, is_stale=told.is_stale)


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
    return None if kind is None else say_foreign(connector, tell_kind(kind))
