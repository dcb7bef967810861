"""Connectors that come from other packages: they name themselves as entry points.

    [project.entry-points."duly.connectors"]
    tea = "acme_tea:Tea"

Law 1: nothing of a package is imported before settings use its kind by name; then it must be a
       class of `Connector`, as every other (K14).
Law 2: what a package says of its connector's exam is believed of the code that is installed, and
       shown with the hash of that code before anything is granted.
Law 3: a package replaces no kind that is built in, and a kind that two packages name is neither's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from duly.rules.foreign import ForeignCode
from duly.testing.exam_record import ExamRecord, read_exam

GROUP: Final = "duly.connectors"


@dataclass(frozen=True, slots=True)
class ForeignKind:
    """A kind of connector: its name in the settings, what it names, and the package it is of."""

    name: str
    target: str
    package: str

    def told(self) -> ForeignCode:
        """Return what is known of its code, as it is shown before a grant."""
        found = self.exam()
        if found is None:
            return ForeignCode(self.package, None, {}, is_stale=False)
        return ForeignCode(self.package, found.code, found.points, found.is_stale)

    def exam(self) -> ExamRecord | None:
        """Read what its package says of its exam; None if its code is not found."""
        place = _find_code(self.target.partition(":")[0])
        return None if place is None else read_exam(place)


def _find_code(module: str) -> Path | None:
    """Find the outermost module that is in one place, without importing it (law 1).

    Several packages may share the name before a dot; then it is the part below that is meant.
    """
    name, *inner = module.split(".")
    try:
        found = find_spec(name)
    except (ImportError, ValueError):
        return None
    while found is not None:
        places = [*(found.submodule_search_locations or ())]
        if len(places) < 2:
            place = Path(places[0] if places else found.origin or "")
            return place if place.name and place.exists() else None
        if not inner:
            return None
        name = f"{name}.{inner.pop(0)}"
        found = PathFinder.find_spec(name, places)
    return None


def foreign_kinds(built_in: Mapping[str, str]) -> dict[str, ForeignKind]:
    """List the kinds of other packages, by name (law 3)."""
    found: dict[str, list[ForeignKind]] = {}
    for each in entry_points(group=GROUP):
        if each.name not in built_in:
            kind = ForeignKind(each.name, each.value, _package_of(each))
            found.setdefault(each.name, []).append(kind)
    alone = {name: set(kinds) for name, kinds in found.items()}
    return {name: kinds.pop() for name, kinds in sorted(alone.items()) if len(kinds) == 1}


def _package_of(entry: EntryPoint) -> str:
    owner = entry.dist
    return "" if owner is None else f"{owner.name} {owner.version}"
