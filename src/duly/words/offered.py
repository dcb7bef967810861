"""The tools of an MCP server as a person sees them before they agree: all of each, every change.

Law: what the server wrote is shown in full, as lines of its own, so that nothing is agreed to
unseen (M7). The face spells out hidden characters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Any, Final

from duly.rules.pin import PinState, Unnamed

STATES: Final = {
    PinState.AGREED: "agreed to",
    PinState.NEW: "new",
    PinState.CHANGED: "changed since it was agreed to, and not used",
    PinState.GONE: "not offered any more",
}
PROBLEMS: Final = {
    Unnamed.NO_NAME: "no script can call it: no name can be made of its own",
    Unnamed.TWIN: "no script can call it: another tool would have the same name",
}


def show_offered(tool: Mapping[str, Any]) -> Iterator[str]:
    """Write one tool as lines: what it is, and what of it is new."""
    kind = "only reads, as your settings say" if tool["is_read"] else "changes; high risk"
    called = "" if tool["tool"] is None else f" (scripts call {tool['tool']})"
    yield f"{tool['name']}{called}: {kind}; {STATES[PinState(tool['state'])]}."
    if tool["problem"] is not None:
        yield f"    {PROBLEMS[Unnamed(tool['problem'])]}."
    if tool["state"] == PinState.NEW:
        yield from (f"    {line}" for line in _lines(tool["now"]))
    elif tool["state"] == PinState.CHANGED:
        found = [*unified_diff(_lines(tool["before"]), _lines(tool["now"]), n=1, lineterm="")]
        yield from (f"    {line}" for line in found[2:] if not line.startswith("@@"))


def _lines(facts: Mapping[str, Any]) -> list[str]:
    """Write a definition as lines; its description as it stands, the rest as JSON."""
    found: list[str] = []
    for name, value in facts.items():
        if name == "name" or not value:
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
        found += [f"{name}: {line}" for line in text.splitlines()]
    return found
