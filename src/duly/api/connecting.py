"""What `duly connect` writes into the settings: a connector, and operations of a description.

Law 1  What a person wrote is not changed unless they agree: an operation that was read from a
       description before, and changed since, is known by the mark below its name.
Law 2  A connector is built from what would be written, before it is written.
"""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import yaml

from duly.api.build import CONNECTORS as CONNECTORS
from duly.api.build import find_class
from duly.api.elsewhere import ForeignKind as ForeignKind
from duly.api.elsewhere import foreign_kinds
from duly.api.project import Project, settings_of
from duly.api.settings_text import change_file, is_as_written, put_key, put_table
from duly.connectors.http import Http
from duly.connectors.need import Need
from duly.connectors.operation import read_operations
from duly.errors import ConfigError, Invalid
from duly.rules.openapi import Imported, LeftOut, Omission, read_description
from duly.rules.value import canonical

DESCRIPTION_BYTES_MAX: Final = 8 * 1024 * 1024
DEPTH_MAX: Final = 100
MARK: Final = "openapi"
MARK_CHARS: Final = 12
SKIPPED: Final = frozenset({"self", "name"})


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
    found = find_class(project, use)
    declared: tuple[Need, ...] = getattr(found, "needs", ())
    known = {each.name for each in declared}
    parameters = inspect.signature(found).parameters.values()
    rest = [
        Need(each.name, each.name.replace("_", " "))
        for each in parameters
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        and each.name not in SKIPPED | known
    ]
    return (*declared, *rest)


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


def read_openapi(file: Path) -> Imported:
    """Read a file that describes a web service; what cannot be used is left out."""
    try:
        with file.open("rb") as opened:
            data = opened.read(DESCRIPTION_BYTES_MAX + 1)
    except OSError as error:
        facts = {"cause": error.strerror}
        raise Invalid(code="unreadable", subject=str(file), facts=facts) from error
    if len(data) > DESCRIPTION_BYTES_MAX:
        most = {"limit": DESCRIPTION_BYTES_MAX, "unit": "bytes"}
        raise Invalid(code="too_long", subject=str(file), facts=most)
    made = read_description(_parse(data, file))
    for name, table in list(made.operations.items()):
        try:
            read_operations({name: table})
            Http("https://example.com", operations={name: table})
        except ConfigError as error:
            del made.operations[name]
            made.omitted.append(Omission(name, LeftOut.REFUSED, str(error)[:200]))
    return made


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


def mark_of(table: Mapping[str, Any]) -> str:
    """Return the mark of an operation as it was written."""
    return f"{MARK} {sha256(canonical(dict(table))).hexdigest()[:MARK_CHARS]}"


def _text_of(project: Project) -> str:
    file = settings_of(project)
    return file.read_bytes().decode() if file.exists() else ""


def _check_depth(data: bytes, loader: Any) -> None:
    """Refuse YAML that is too deep before it is put together: the library in C would crash."""
    depth = 0
    for event in yaml.parse(data, Loader=loader):
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            depth += 1
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            depth -= 1
        if depth > DEPTH_MAX:
            raise RecursionError


def _parse(data: bytes, file: Path) -> object:
    """Parse JSON, or YAML without anything but plain values."""
    cause: str
    try:
        if data.lstrip()[:1] == b"{":
            return json.loads(data)
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        _check_depth(data, loader)
        return yaml.load(data, Loader=loader)  # a safe one in either case
    except RecursionError:
        cause = "it is too deep"
    except (ValueError, yaml.YAMLError, MemoryError) as error:
        cause = str(error).splitlines()[0][:200]
    raise Invalid(code="unreadable", subject=str(file), facts={"cause": cause})
