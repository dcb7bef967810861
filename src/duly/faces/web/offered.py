"""The page of what an MCP server offers: all of each tool, and the agreement to exactly that (M7).

Law 1  A server is started or called to be asked, so that no page does it by being looked at: a
       person presses a button.
Law 2  The agreement carries the hash of the list that was shown. A server that offers another one
       by then is agreed to in nothing; its new list is shown instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from duly.api.registry import Scope
from duly.errors import Invalid, RequestRefused
from duly.faces.web.guard import Entry, visit_of
from duly.faces.web.look import render
from duly.faces.web.sign import read_form
from duly.words.offered import AGREED, show_offered

TEMPLATE: Final = "offered.html"
OTHER: Final = "other_tools"
WELL: Final = 200
CONFLICT: Final = 409


def list_entries() -> Iterator[Entry]:
    """Make the entries of the question, and of the agreement."""
    yield Entry("/offered", offered, {"POST": Scope.ADMIN})
    yield Entry("/agree", agree, {"POST": Scope.ADMIN})


async def offered(request: Request) -> Response:
    """Ask a server what it offers, and show all of it."""
    (name,) = await _fields(request, "connector")
    found: Any = await visit_of(request).session.call("offered", connector=name)
    return _show(request, found)


async def agree(request: Request) -> Response:
    """Agree to what was shown, and show how it stands then."""
    name, seen = await _fields(request, "connector", "hash")
    session = visit_of(request).session
    try:
        made: Any = await session.call("pin", connector=name, hash=seen)
    except RequestRefused as error:
        if error.code != OTHER:
            raise
        found: Any = await session.call("offered", connector=name)
        return _show(request, found, status=CONFLICT)
    return _show(request, made, is_done=True)


async def _fields(request: Request, *names: str) -> tuple[str, ...]:
    form = await read_form(request)
    for each in names:
        if each not in form:
            raise Invalid(code="missing", path=each, facts={"of": "pin"})
    return tuple(form[each] for each in names)


def _show(request: Request, found: Any, *, status: int = WELL, is_done: bool = False) -> Response:
    tools = [(*_parted(show_offered(each)), each["state"] == AGREED) for each in found["tools"]]
    is_waiting = not all(is_agreed for *_, is_agreed in tools)
    told = {"found": found, "tools": tools, "is_waiting": is_waiting, "is_done": is_done}
    return render(request, TEMPLATE, status, is_changed=status == CONFLICT, **told)


def _parted(lines: Iterator[str]) -> tuple[str, str]:
    """Return the sentence about a tool, and the lines of its definition."""
    return next(lines), "\n".join(each.removeprefix("    ") for each in lines)
