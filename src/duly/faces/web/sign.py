"""Signing in by a one-time link, and out (G6).

Law 1  Nothing changes by GET: a link shows a form, and its button signs in. A program that looks at
       links before their reader does uses none of them up.
Law 2  Where a browser is sent afterwards is fixed. No address comes from a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from duly.api.page import DEVICE_DAYS
from duly.api.registry import Scope
from duly.errors import Invalid
from duly.faces.web.body import FORM, FORM_BYTES_MAX, read_body, read_pairs, read_text, refuse_query
from duly.faces.web.guard import OPEN, Entry, visit_of
from duly.faces.web.look import browser_of, render

SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"
SEE_OTHER: Final = 303
DAY_S: Final = 86_400
CODE_CHARS_MAX: Final = 200


def list_entries() -> Iterator[Entry]:
    """Make the entries; the code of the link is what lets a browser in."""
    yield Entry(SIGN_IN, sign_in, {"GET": OPEN, "POST": OPEN}, is_form=True)
    yield Entry(SIGN_OUT, sign_out, {"POST": Scope.READ})


async def sign_in(request: Request) -> Response:
    """Show the form of a link, or use it."""
    if request.method != "POST":
        given = dict(read_pairs(request.url.query))
        code = given.get("code", "")[:CODE_CHARS_MAX]
        name = browser_of(request.headers.get("user-agent", ""))
        return render(request, "sign_in.html", code=code, name=name)
    form = await read_form(request)
    for each in ("code", "name"):
        if each not in form:
            raise Invalid(code="missing", path=each, facts={"of": "sign-in"})
    visit = visit_of(request)
    made = await visit.session.call("sign_in", code=form["code"], name=form["name"])
    assert isinstance(made, dict), made
    response = _go_home(request)
    response.set_cookie(
        visit.cookie,
        str(made["token"]),
        max_age=DEVICE_DAYS * DAY_S,
        path="/",
        secure=visit.is_secure,
        httponly=True,
        samesite="strict",
    )
    return response


async def sign_out(request: Request) -> Response:
    """Take the token back that the request came with, and let the browser forget it."""
    visit = visit_of(request)
    await visit.session.call("sign_out", token=visit.token)
    response = _go_home(request)
    response.delete_cookie(
        visit.cookie, path="/", secure=visit.is_secure, httponly=True, samesite="strict"
    )
    return response


async def read_form(request: Request, limit_bytes: int = FORM_BYTES_MAX) -> dict[str, str]:
    """Read the fields of a form; none may stand there twice, or in the query."""
    refuse_query(request)
    pairs = read_pairs(read_text(await read_body(request, FORM, limit_bytes)), limit_bytes)
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise Invalid(code="given_twice", path="form")
    return fields


def _go_home(request: Request) -> RedirectResponse:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/", SEE_OTHER)
