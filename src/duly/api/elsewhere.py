"""Connectors that come from other packages: they name themselves as entry points.

    [project.entry-points."duly.connectors"]
    tea = "acme_tea:Tea"

Law 1: nothing of a package is imported before settings use its kind by name; then it must be a
       class of `Connector`, as every other (K14).
Law 2: a package replaces no kind that is built in, and a kind that two packages name is neither's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final

GROUP: Final = "duly.connectors"


@dataclass(frozen=True, slots=True)
class ForeignKind:
    """A kind of connector: its name in the settings, what it names, and the package it is of."""

    name: str
    target: str
    package: str


def foreign_kinds(built_in: Mapping[str, str]) -> dict[str, ForeignKind]:
    """List the kinds of other packages, by name (law 2)."""
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
