"""Lists the calls of tools that stand in a text, with the arguments they write out (M9).

Law: a value is shown as a constant only where the text proves that it is one. Everything else is
filled in when the script runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from duly.rules.catalog import Catalog, Tool, camel
from duly.rules.preview import CALLS_MAX, Filled, WrittenCall
from duly.script.outline import Outline, Use, Value, WrittenArgument, reach, walk

ARGS_MAX: Final = 20  # of one call
DEPTH_MAX: Final = 3  # of an object or a list in an argument
LOOKS_PER_CALL: Final = 4
HOLDERS: Final = frozenset(
    {"data", "payload", "items", "prepared"}
)  # they say nothing by themselves


def list_calls(outline: Outline, catalog: Catalog) -> tuple[WrittenCall, ...]:
    """List every call of a tool that the steps of a text can reach, in their order."""
    found: dict[tuple[object, ...], WrittenCall] = {}
    for handler in outline.handlers:
        for step, key in handler.steps.items():
            for each in reach(outline.functions, key):
                for node in walk(outline.functions[each].body):
                    outline.effort.spend(LOOKS_PER_CALL)
                    tool = _tool_of(node, catalog) if isinstance(node, Use) else None
                    if tool is None or not isinstance(node, Use) or len(found) >= CALLS_MAX:
                        continue
                    args = tuple(_fill(tool, node))
                    is_open = node.is_open or len(args) > ARGS_MAX
                    args, line = args[:ARGS_MAX], node.place.line
                    call = WrittenCall(handler.name, step, tool.name, line, args, is_open)
                    found[handler.name, step, node.place, args] = call
    return tuple(found.values())


def _tool_of(use: Use, catalog: Catalog) -> Tool | None:
    return None if use.path is None else catalog.names.get(use.path)


def _fill(tool: Tool, use: Use) -> Iterator[Filled]:
    """Say how each argument is filled, in the order of the tool and under its names."""
    named = _by_own_names(tool, use.named)
    for place, parameter in enumerate(tool.parameters):
        given = use.positional[place] if place < len(use.positional) else named.get(parameter.name)
        if given is not None:
            yield from _parts(parameter.name, given.written or WrittenArgument(), 1)


def _by_own_names(tool: Tool, named: Mapping[str, Value]) -> dict[str, Value]:
    own = {each.name: each.name for each in tool.parameters}
    own |= {camel(name): name for name in own}
    return {own[name]: value for name, value in named.items() if name in own}


def _parts(name: str, written: WrittenArgument, depth: int) -> Iterator[Filled]:
    """Take an object or a list apart, as far as the text writes it out."""
    if written.parts and depth < DEPTH_MAX:
        for key, each in written.parts:
            yield from _parts(f"{name}.{key}", each, depth + 1)
        return
    keys = [each for each in written.keys if each not in HOLDERS]
    yield Filled(name, written.text, tuple(keys or written.keys))
