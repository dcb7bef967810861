"""What a source may ask that no person has agreed to yet (M3, M9).

Law: a grant was given to the text that a person saw. Another text is tried with it only where it
carries nothing away: to addresses that stand in it, and to no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from duly.connectors.llm import find_asking
from duly.connectors.pinning import find_pinning
from duly.desk.base import Desk
from duly.engine.draft import Draft
from duly.errors import PermissionDenied
from duly.rules.catalog import Tool
from duly.rules.preview import WrittenCall
from duly.rules.value import Json
from duly.rules.writing import is_written_out
from duly.store import people


async def is_in_use(desk: Desk, draft: Draft) -> bool:
    """Tell whether a source is the active version of its workflow."""
    current = await desk.parts.store.find_workflow(draft.declaration.name)
    if current is None or current.active_version is None:
        return False
    workflow, version = current.id, current.active_version
    row = await desk.look(lambda tx: people.get_version(tx, workflow, version))
    return row.hash == draft.source.hash


def foreign_tools(desk: Desk) -> frozenset[str]:
    """List the tools that another program describes."""
    outside = desk.parts.outside
    servers = find_pinning(outside)
    names = (each.name for each in outside.catalog.tools)
    return frozenset(each for each in names if each.partition(".")[0] in servers)


def is_model_asked(desk: Desk, tool: str) -> bool:
    """Tell whether a tool hands what it is given to a model."""
    return tool.partition(".")[0] in find_asking(desk.parts.outside)


def judge_read(
    desk: Desk, tool: Tool, args: Mapping[str, Json], calls: Iterable[WrittenCall]
) -> None:
    """Refuse a read of a trial that could carry away what another one found."""
    if is_model_asked(desk, tool.name):
        raise PermissionDenied(code="asks_a_model", subject=tool.name)
    is_foreign = tool.name in foreign_tools(desk)
    if not is_written_out(tool.name, args, calls, is_foreign=is_foreign):
        raise PermissionDenied(code="made_up_address", subject=tool.name)
