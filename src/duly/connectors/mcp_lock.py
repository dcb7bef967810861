"""The file of what a person agreed to use of an MCP server, and what it makes of a tool (M7).

Law 1: the file is written whole or not at all, and only when a person agrees.
Law 2: a file that cannot be read is no agreement: nothing of the server is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import reduce
from operator import or_
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from duly.connectors.mcp_tool import read_list
from duly.connectors.place import Argument
from duly.errors import ConfigError, Invalid
from duly.rules.pin import WHOLE, ServedTool, read_arguments
from duly.rules.shown import visible

FORMAT: Final = 1
LOCK_BYTES_MAX: Final = 16 * 1024 * 1024
DESCRIPTION_CHARS_MAX: Final = 1_000  # of what is told about a tool; all of it is in the file
TYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "string": str,
        "integer": int,
        "number": float,
        "boolean": bool,
        "array": list,
        "object": dict,
        "null": type(None),
    }
)


class _Pinned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tool in the file."""

    name: str
    takes: dict[str, Any]
    title: str = ""
    description: str = ""
    returns: dict[str, Any] | None = None


class _LockFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    format: int
    tools: dict[str, _Pinned]


def read_lock(file: Path) -> dict[str, ServedTool]:
    """Read what a person agreed to, by the names for scripts; nothing if there is no file."""
    try:
        with file.open("rb") as opened:
            data = opened.read(LOCK_BYTES_MAX + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}).") from error
    try:
        if len(data) > LOCK_BYTES_MAX:
            raise ValueError(f"it is larger than {LOCK_BYTES_MAX:,} bytes")
        found = msgspec.json.decode(data, type=_LockFile)
        if found.format != FORMAT:
            raise ValueError(f"it has the format {found.format}")
        tools = {
            name: ServedTool(each.name, each.title, each.description, each.takes, each.returns)
            for name, each in found.tools.items()
        }
        read_list([_as_served(each) for each in tools.values()])
    except (msgspec.MsgspecError, ValueError, Invalid, RecursionError) as error:
        said = f"{file} is not what was written there ({error}). Remove it, and connect again."
        raise ConfigError(said) from None
    return tools


def write_lock(file: Path, tools: Mapping[str, ServedTool]) -> None:
    """Write what a person agreed to, on the disk before this returns (law 1)."""
    made = {"format": FORMAT, "tools": {name: each.facts for name, each in tools.items()}}
    text = msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n"
    draft = file.with_name(f".{file.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    draft.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def arguments_of(tool: ServedTool) -> tuple[tuple[Argument, ...], Mapping[str, str]]:
    """Return the arguments for scripts, and what the server calls each of them."""
    found = read_arguments(tool.takes)
    if found is None:
        return (Argument(WHOLE, dict, True),), MappingProxyType({})
    made = []
    for each in found:
        kinds = [TYPES.get(word) for word in sorted(each.types)]
        known = kinds and all(kinds)
        annotation: Any = reduce(or_, [kind for kind in kinds if kind]) if known else Any
        if not each.is_required and annotation is not Any:
            annotation = annotation | None
        made.append(Argument(each.name, annotation, each.is_required))
    return tuple(made), {each.name: each.served for each in found}


def describe_tool(tool: ServedTool) -> str:
    """Say what a tool does, in the words of its server, marked as such (G9)."""
    words = " ".join(visible(" ".join(tool.description.split())).split())
    if not words:
        return f"The tool {visible(tool.name)} of the server."
    cut = len(words) > DESCRIPTION_CHARS_MAX
    quoted = words[:DESCRIPTION_CHARS_MAX].replace('"', "'").replace("\\", "/")
    return f"The server says: “{quoted}{'…' if cut else ''}”"


def _as_served(tool: ServedTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.takes,
        "outputSchema": tool.returns,
    }
