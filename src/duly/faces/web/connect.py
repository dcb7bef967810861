"""The page of one connection: what it needs, what it says of its changes, and their proof (K10).

Law 1  A trial is a real change outside. The page shows the call first; the form carries a digest of
       what was shown, and what is shown no longer is not made.
Law 2  A trial that was made is part of what is shown. So a second click, and the same page in
       another tab, send nothing: they show what came of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from duly.api.registry import VERBS, Scope
from duly.api.session import Session
from duly.errors import Invalid
from duly.faces.web.add import ask_settings
from duly.faces.web.body import read_arguments
from duly.faces.web.form import go
from duly.faces.web.guard import Endpoint, Entry, Visit, visit_of
from duly.faces.web.look import Sheet, render
from duly.faces.web.sign import read_form
from duly.faces.web.stream import Show

GRANT: Final = "/act/grant"
FIELDS: Final = ("tool", "seen")
CODE_CHARS_MAX: Final = 100
WELL: Final = 200
CONFLICT: Final = 409


def list_entries(live: Callable[[Show], Endpoint]) -> Iterator[Entry]:
    """Make the entries of the page, and of its trials."""
    yield Entry("/connect/{name}", live(connection), {"GET": Scope.READ})
    yield Entry("/prove", prove, {"POST": Scope.ADMIN})
    yield Entry("/begin-sign-in", begin_sign_in, {"POST": Scope.ADMIN})
    yield Entry("/look-sign-in", look_sign_in, {"POST": Scope.ADMIN})


async def connection(request: Request) -> Sheet:
    """Show what a connection needs, and what was proven with the account."""
    session = visit_of(request).session
    found = await _ask(session, request.path_params["name"])
    return Sheet("connect.html", await _tell(session, found))


async def ask_foreign(visit: Visit) -> list[dict[str, Any]]:
    """Ask which connectors other packages bring, for a person who could grant something (K14)."""
    if not visit.may(GRANT):
        return []
    found: Any = await visit.session.call("connections")
    return [{name: each[name] for name in ("name", "foreign")} for each in found if each["foreign"]]


async def begin_sign_in(request: Request) -> Response:
    """Show where a person agrees, and a field for the address that comes back (K9).

    The browser may be on another machine than the host, so the address is brought by hand.
    """
    form = await read_form(request)
    if "connector" not in form:
        raise Invalid(code="missing", path="connector", facts={"of": "begin_oauth"})
    session, name = visit_of(request).session, form["connector"]
    is_device = form.get("way") == "device"
    begun: Any = await session.call("begin_oauth", connector=name, device=is_device)
    found = await _ask(session, name)
    shown = {**begun, "is_early": False}
    return render(request, "connect.html", WELL, **await _tell(session, found, begun=shown))


async def look_sign_in(request: Request) -> Response:
    """Ask whether a person has agreed on another device; until then the form comes again (K9)."""
    form = await read_form(request)
    for each in ("connector", "ticket"):
        if each not in form:
            raise Invalid(code="missing", path=each, facts={"of": "finish_oauth"})
    session, name = visit_of(request).session, form["connector"]
    more = {"other_account": True} if form.get("other_account") == "true" else {}
    ended: Any = await session.call("finish_oauth", connector=name, ticket=form["ticket"], **more)
    if ended["is_done"]:
        return go(request, f"connect/{name}")
    found = await _ask(session, name)
    code = form.get("user_code", "")[:CODE_CHARS_MAX]
    begun = {"ticket": form["ticket"], "user_code": code, "address": "", "is_early": True}
    return render(request, "connect.html", WELL, **await _tell(session, found, begun=begun))


async def prove(request: Request) -> Response:
    """Make the trial that was shown, and show what came of it."""
    form = await read_form(request)
    for each in FIELDS:
        if each not in form:
            raise Invalid(code="missing", path=each, facts={"of": "prove"})
    session, tool = visit_of(request).session, form["tool"]
    name = tool.partition(".")[0]
    found = await _ask(session, name)
    seen = _digests(found)
    if seen.get(tool) != form["seen"]:
        told = await _tell(session, found, is_changed=True)
        return render(request, "connect.html", CONFLICT, **told)
    given = [("args", form["args"])] if form.get("args") else []
    await session.call("prove", tool=tool, **read_arguments(VERBS["prove"], given))
    return go(request, f"connect/{name}")


async def _tell(
    session: Session, found: Any, *, is_changed: bool = False, begun: Any = None
) -> dict[str, Any]:
    """Return what the page shows: the connection, and whether its settings have changed since."""
    return {
        "each": found,
        "seen": _digests(found),
        "is_changed": is_changed,
        "begun": begun,
        "settings": await ask_settings(session),
    }


async def _ask(session: Session, name: str) -> Any:
    return await session.call("connection", connector=name)


def _digests(found: Mapping[str, Any]) -> dict[str, str]:
    """Return for each change a digest of what the page shows of its trial (laws 1 and 2)."""
    return {
        each["tool"]: sha256(
            msgspec.json.encode([each["does"], each["args"], each["last"]], order="sorted")
        ).hexdigest()
        for each in found["tools"]
        if each["needs_trial"]
    }
