"""When a person wants to be asked before a change: chosen on a page, kept with the grant (A3).

Law 1  A choice adds to the rules of the settings, and the strictest holds: no page asks less often
       than they do.
Law 2  The limits of the grant stay as they are; only what was chosen for its tools is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from duly.api.registry import Scope
from duly.api.session import Session
from duly.errors import Invalid, NotFound, see
from duly.faces.web.form import BACK, go
from duly.faces.web.guard import Entry, visit_of
from duly.faces.web.sign import read_form

ASKS: Final = "asks."  # before the name of a tool
NEEDED: Final = ("workflow", "capability")


def list_entries() -> Iterator[Entry]:
    """Make the entry of the form."""
    yield Entry("/ask-me", ask_me, {"POST": Scope.DECIDE})


async def ask_me(request: Request) -> Response:
    """Take when a person wants to be asked before the changes of one grant."""
    form = await read_form(request)
    for each in NEEDED:
        if each not in form:
            raise Invalid(code="missing", path=each, facts={"of": "grant"})
    rules = {name.removeprefix(ASKS): form[name] for name in form if name.startswith(ASKS)}
    await grant_with(visit_of(request).session, form["workflow"], form["capability"], rules)
    return go(request, form.get(BACK, ""))


async def grant_with(
    session: Session, workflow: str, capability: str, rules: Mapping[str, str]
) -> None:
    """Grant a capability as it is granted, with other rules; an empty one is taken back."""
    grants: Any = await session.call("grants", workflow=workflow)
    held = next((each for each in grants if each["capability"] == capability), None)
    if held is None:
        raise NotFound(
            code="no_grant",
            subject=capability,
            facts={"workflow": workflow},
            next=see("actions", workflow=workflow),
        )
    now = {each["tool"]: each["chosen"] for each in held["asks"]}
    asks = {tool: word for tool, word in {**now, **rules}.items() if word}
    await session.call(
        "grant",
        workflow=workflow,
        capability=capability,
        mutations_per_day=held["mutations_per_day"],
        where=held["where"] or None,
        asks=asks,
    )
