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
AGREED: Final = PinState.AGREED
AGREE: Final = "Agree to these tools as shown"
ASK_OFFERS: Final = "See what the server offers"
PINS: Final = (
    "Its tools are those that a person agreed to. The server is asked when you press the button."
)
OFFERS_ARE_WORDS: Final = (
    "The descriptions are the server's own words, and may be false. What only reads, the settings "
    "of the project say; everything else is a change of high risk."
)
OFFERS_OTHERS: Final = (
    "Nothing was agreed to: the server offers other tools now than you were shown. These are they."
)
OFFERS_UNSEEN: Final = "Nothing: no person has agreed to a tool of it that changes something."
OFFERS_STALE: Final = "Scripts see them when the host was started again."
OFFERS_NOTHING: Final = "It offers no tools."
OFFERS_AGREED: Final = "Agreed to as it stands: it offers nothing else."
PROBLEMS: Final = {
    Unnamed.NO_NAME: "no script can call it: no name can be made of its own",
    Unnamed.TWIN: "no script can call it: another tool would have the same name",
}


def say_offers(connector: str) -> str:
    """Name the page of what a server offers."""
    return f"What {connector} offers"


def say_agreed(count: int) -> str:
    """Say that a person agreed."""
    return f"Agreed to: {count} tools." if count != 1 else "Agreed to: 1 tool."


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
