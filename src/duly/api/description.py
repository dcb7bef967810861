"""Reads a description of a web service (OpenAPI), out of a file or a form, as operations.

Law 1  It is a stranger's: plain values alone are read, so deep and so long at most, and what cannot
       be an operation is left out with its reason.
Law 2  A description that comes through a page repeats nothing by name (YAML's aliases): a few lines
       of them are as long as one likes when they are put together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import yaml

from duly.connectors.http import Http
from duly.connectors.operation import read_operations
from duly.errors import ConfigError, Invalid, parts_of
from duly.rules.openapi import Imported, LeftOut, Omission, read_description
from duly.rules.value import canonical

DESCRIPTION_BYTES_MAX: Final = 8 * 1024 * 1024
DEPTH_MAX: Final = 100
MARK: Final = "openapi"
MARK_CHARS: Final = 12
EMPTY: Final = "it describes no operation that can be used"
ALIASES: Final = "it repeats a part by its name (* in YAML), which is not read on a page"


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
    return _read(_parse(data, str(file), has_aliases=True))


def read_openapi_text(text: str, path: str) -> Imported:
    """Read a description that was typed into a field (law 2)."""
    try:
        made = _read(_parse(text.encode(), MARK, has_aliases=False))
        if not made.operations:
            raise Invalid(code="unreadable", subject=MARK, facts={"cause": EMPTY})
    except Invalid as error:
        if error.code == "unreadable":  # it is no file
            facts = error.facts
            raise Invalid(code="unreadable_text", path=path, subject=MARK, facts=facts) from None
        raise Invalid(**parts_of(error), path=path) from None
    return made


def mark_of(table: Mapping[str, Any]) -> str:
    """Return the mark of an operation as it was written."""
    return f"{MARK} {sha256(canonical(dict(table))).hexdigest()[:MARK_CHARS]}"


def _read(spec: object) -> Imported:
    made = read_description(spec)
    for name, table in list(made.operations.items()):
        try:
            read_operations({name: table})
            Http("https://example.com", operations={name: table})
        except ConfigError as error:
            del made.operations[name]
            made.omitted.append(Omission(name, LeftOut.REFUSED, str(error)[:200]))
    return made


def _check_events(data: bytes, loader: Any, *, has_aliases: bool) -> None:
    """Refuse YAML that is too deep before it is put together: the library in C would crash."""
    depth = 0
    for event in yaml.parse(data, Loader=loader):
        if isinstance(event, yaml.AliasEvent) and not has_aliases:
            raise ValueError(ALIASES)
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            depth += 1
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            depth -= 1
        if depth > DEPTH_MAX:
            raise RecursionError


def _parse(data: bytes, subject: str, *, has_aliases: bool) -> object:
    """Parse JSON, or YAML without anything but plain values."""
    cause: str
    try:
        if data.lstrip()[:1] == b"{":
            return json.loads(data)
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        _check_events(data, loader, has_aliases=has_aliases)
        return yaml.load(data, Loader=loader)  # a safe one in either case
    except RecursionError:
        cause = "it is too deep"
    except (ValueError, yaml.YAMLError, MemoryError) as error:
        cause = str(error).splitlines()[0][:200]
    raise Invalid(code="unreadable", subject=subject, facts={"cause": cause})
