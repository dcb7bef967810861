"""Reads the definitions of an MCP server's tools (M7).

Law: a list of tools is whole and within its limits, or it is no list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from duly.errors import Invalid
from duly.rules.pin import NAME_CHARS_MAX, TOOL_BYTES_MAX, TOOLS_MAX, ServedTool
from duly.rules.value import check_json


def read_tool(given: object) -> ServedTool:
    """Read one definition of a server's list, or refuse it."""
    if not isinstance(given, dict):
        raise Invalid("a tool is no object", path="tools")
    name, title = given.get("name"), given.get("title", "")
    description = given.get("description", "")
    if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable():
        raise Invalid("a tool has no name that can be used", path="tools.name")
    texts = [each if each is not None else "" for each in (title, description)]
    takes, returns = given.get("inputSchema"), given.get("outputSchema")
    if not all(isinstance(each, str) for each in texts) or not isinstance(takes, dict):
        raise Invalid(f"the definition of {name!r} is malformed", path="tools")
    if returns is not None and not isinstance(returns, dict):
        raise Invalid(f"the definition of {name!r} is malformed", path="tools")
    found = ServedTool(name, texts[0], texts[1], takes, returns)
    check_json(found.facts, f"tools.{name}", limit_bytes=TOOL_BYTES_MAX)
    return found


def read_list(given: Iterable[object]) -> tuple[ServedTool, ...]:
    """Read a whole list of tools; two of one name make it none."""
    found = tuple(map(read_tool, given))
    if len(found) > TOOLS_MAX:
        raise Invalid(f"it offers more than {TOOLS_MAX} tools", path="tools")
    twice = [name for name, count in Counter(each.name for each in found).items() if count > 1]
    if twice:
        raise Invalid(f"it offers two tools called {twice[0]!r}", path="tools")
    return found
