"""When a person wants to be asked before a change: chosen on a page, kept with the grant (A3).

Law 1  A choice adds to the rules of the settings, and the strictest holds: no page asks less often
       than they do.
Law 2  The limits of the grant stay as they are; only what was chosen for its tools is changed.
Law 3  A form says what it showed. What another person chose since is never taken back by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from duly.api.registry import Scope
from duly.api.value import Json
from duly.errors import Invalid
from duly.faces.web.form import BACK, go
from duly.faces.web.guard import Entry, visit_of
from duly.faces.web.sign import read_form

ASKS: Final = "asks."  # before the name of a tool
SHOWN: Final = "shown."  # before the name of a tool: what stood when the form was shown
NEEDED: Final = ("workflow", "capability")


def list_entries() -> Iterator[Entry]:
    """Make the entry of the form."""
    yield Entry("/ask-me", ask_me, {"POST": Scope.DECIDE})


async def ask_me(request: Request) -> Response:
    """Take when a person wants to be asked before the changes of one grant."""
    form = await read_form(request)
    asks = {name.removeprefix(ASKS): form[name] for name in form if name.startswith(ASKS)}
    for each in (*NEEDED, *(f"{SHOWN}{tool}" for tool in asks)):
        if each not in form:
            raise Invalid(code="missing", path=each, facts={"of": "choose_asks"})
    seen = {tool: form[f"{SHOWN}{tool}"] for tool in asks}
    changed: dict[str, Json] = {t: word for t, word in asks.items() if word != seen[t]}
    if changed:
        await visit_of(request).session.call(
            "choose_asks",
            workflow=form["workflow"],
            capability=form["capability"],
            asks=changed,
            seen={tool: seen[tool] for tool in changed},
        )
    return go(request, form.get(BACK, ""))
