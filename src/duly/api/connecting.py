"""What `duly connect` writes into the settings: a connector, and operations of a description.

Law 1  What a person wrote is not changed unless they agree: an operation that was read from a
       description before, and changed since, is known by the mark below its name.
Law 2  A connector is built from what would be written, before it is written.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from duly.api.build import CONNECTORS as CONNECTORS
from duly.api.build import find_class
from duly.api.description import mark_of
from duly.api.description import read_openapi as read_openapi
from duly.api.elsewhere import ForeignKind as ForeignKind
from duly.api.elsewhere import foreign_kinds
from duly.api.project import Project, settings_of
from duly.api.settings_text import change_file, is_as_written, put_key, put_table
from duly.connectors.need import Need
from duly.errors import ConfigError
from duly.rules.openapi import Imported
from duly.rules.url import is_own_address

WITH_PORT: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*|[0-9a-fA-F:]+)(?::[0-9]+)?")
SKIPPED: Final = frozenset({"self", "name", "lock"})  # the project names the file of a lock


@dataclass(frozen=True, slots=True)
class OperationChange:
    """One operation that a description brings: what is there now, and whether a person made it."""

    name: str
    table: Mapping[str, Any]
    is_there: bool = False
    is_edited: bool = False
    is_same: bool = False


def list_kinds() -> list[tuple[str, ForeignKind | None]]:
    """List every kind of connector that settings can name, and where it comes from."""
    own: list[tuple[str, ForeignKind | None]] = [(name, None) for name in CONNECTORS]
    return own + [(each.name, each) for each in foreign_kinds(CONNECTORS).values()]


def find_foreign(project: Project, connector: str) -> ForeignKind | None:
    """Return the kind of a connector of the project, if another package brings it."""
    use = project.config.connectors.get(connector, {}).get("use")
    return foreign_kinds(CONNECTORS).get(use) if isinstance(use, str) else None


def find_needs(project: Project, use: str) -> tuple[Need, ...]:
    """Return what a kind of connector must be told: as declared, or by what its class takes."""
    declared: tuple[Need, ...] = getattr(find_class(project, use), "needs", ())
    known = {each.name for each in declared}
    return (*declared, *(each for each in _taken(project, use, known) if each.is_required))


def list_settings(project: Project, use: str) -> tuple[Need, ...]:
    """Return every setting of a kind, those that it must be told first."""
    declared = find_needs(project, use)
    known = {each.name for each in declared}
    every = (*declared, *_taken(project, use, known))
    return tuple(sorted(every, key=lambda each: not each.is_required))


def _taken(project: Project, use: str, known: Collection[str]) -> Iterator[Need]:
    """Name what the class of a kind takes besides; it has no words for it."""
    for each in inspect.signature(find_class(project, use)).parameters.values():
        is_setting = each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        if is_setting and each.name not in SKIPPED and each.name not in known:
            yield Need(each.name, "", is_required=each.default is each.empty)


def check_reach(project: Project, name: str, table: Mapping[str, Any], origin: str | None) -> None:
    """Refuse an address of one's own network that the settings do not open: no call could reach it.

    Only what is an address by its spelling is judged here; a name is resolved when it is asked.
    """
    use = str(table.get("use"))
    if all(each.name != "allow" for each in list_settings(project, use)):
        return
    given = table.get("allow", ())
    named = {str(each).lower().strip("[]") for each in given} if isinstance(given, list) else set()
    for host in _hosts_of(origin or ""):
        if is_own_address(host) and host not in named:
            facts = {"connector": name, "setting": f'allow = ["{host}"]'}
            raise ConfigError(code="own_network", subject=host, facts=facts)


def _hosts_of(origin: str) -> Iterator[str]:
    """Name the hosts of where a connector leads: addresses, or servers with their ports."""
    for each in origin.split():
        authority = each.partition("://")[2] or each
        found = WITH_PORT.fullmatch(authority.rpartition("@")[2].partition("/")[0])
        if found is not None:
            yield found[1].lower().strip("[]")


def write_settings(
    project: Project,
    name: str,
    *,
    table: Mapping[str, Any] | None = None,
    keys: Mapping[str, Any] | None = None,
    operations: Sequence[OperationChange] = (),
) -> Path:
    """Write a new connector, keys of one that is there, and operations, in one step.

    An operation has a mark by which a later change of a person is seen (law 1).
    """
    file, place = settings_of(project), ("connectors", name)

    def change(text: str) -> str:
        if table is not None:
            text = put_table(text, place, table)
        for key, value in (keys or {}).items():
            text = put_key(text, place, key, value)
        for each in operations:
            path = (*place, "operations", each.name)
            text = put_table(text, path, each.table, note=mark_of(each.table))
        return text

    change_file(file, change)
    return file


# -- Descriptions -------------------------------------------------------------------------------


def compare(project: Project, connector: str, made: Imported) -> list[OperationChange]:
    """Compare the operations of a description with those of the settings."""
    text = _text_of(project)
    known = tomllib.loads(text).get("connectors", {}).get(connector, {}).get("operations", {})
    found = []
    for name, table in made.operations.items():
        there = known.get(name)
        place = ("connectors", connector, "operations", name)
        is_ours = there is not None and is_as_written(text, place, there, note=mark_of(there))
        found.append(
            OperationChange(
                name,
                table,
                is_there=there is not None,
                is_edited=there is not None and not is_ours,
                is_same=there == dict(table),
            )
        )
    return found


def _text_of(project: Project) -> str:
    file = settings_of(project)
    return file.read_bytes().decode() if file.exists() else ""
