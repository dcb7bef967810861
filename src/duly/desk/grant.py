"""What a person may grant: capabilities this host knows, with limits that can hold (A1).

Law: a grant that could never fit a call, or never bind one, is refused by name; a wrong word in a
limit would otherwise look like safety.
"""

from __future__ import annotations

from collections.abc import Mapping

from duly.errors import Invalid, NotFound
from duly.rules.catalog import Catalog, ToolKind
from duly.rules.permission import Grant
from duly.rules.value import Json, suggest

GLOB_CHARS_MAX = 500


def check_grant(
    catalog: Catalog, capability: object, mutations_per_day: object, where: object
) -> Grant:
    """Read a grant as it was given, or refuse it with what is wrong."""
    tools = [each for each in catalog.tools if each.capability == capability]
    if not isinstance(capability, str) or not tools:
        known = sorted({each.capability for each in catalog.tools})
        raise NotFound(f'No tool here needs "{capability}". {suggest(str(capability), known)}')
    is_read = all(each.kind is not ToolKind.MUTATION for each in tools)
    if mutations_per_day is not None and is_read:
        raise Invalid(
            f"{capability} only reads: mutations_per_day would limit nothing. Leave it out.",
            path="mutations_per_day",
        )
    globs = _read_globs(where)
    arguments = sorted({each.name for tool in tools for each in tool.parameters})
    for name in globs:
        if name not in arguments:
            raise Invalid(
                f"where.{name}: no tool of {capability} has such an argument. "
                f"{suggest(name, arguments)}",
                path=f"where.{name}",
            )
    return Grant(capability, mutations_per_day, globs)  # type: ignore[arg-type]  # it is checked


def to_json(grant: Grant) -> dict[str, Json]:
    """Write the limits of a grant, for the record of the act (A6)."""
    return {"mutations_per_day": grant.mutations_per_day, "where": dict(grant.where)}


def _read_globs(where: object) -> dict[str, str]:
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise Invalid('where maps an argument to a glob: {"to": "*@acme.com"}.', path="where")
    for name, glob in where.items():
        if (
            not isinstance(name, str)
            or not isinstance(glob, str)
            or not 0 < len(glob) <= GLOB_CHARS_MAX
        ):
            raise Invalid(
                f"where.{name} must be a glob of 1 to {GLOB_CHARS_MAX} characters.", path="where"
            )
    return dict(where)
