"""The page behind the link of a mail: one question, and its two buttons (G6, G11).

Law 1  Nothing changes by GET: the link shows the question. A program that looks at links before
       their reader does decides nothing.
Law 2  The code of the link is what lets an answer in, for this question alone. It signs in nowhere
       else, and no cookie is set. A token of an agent that has read the mail answers nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from duly.api.registry import Scope as Right
from duly.errors import Invalid
from duly.faces.web.body import read_pairs
from duly.faces.web.guard import OPEN, Entry, visit_of
from duly.faces.web.look import render
from duly.faces.web.sign import CODE_CHARS_MAX, read_form

ASK: Final = "/ask"
FIELDS: Final = ("code", "seen", "choice")


def list_entries() -> Iterator[Entry]:
    """Make the entry; the code of the link is what lets an answer in."""
    yield Entry(ASK, asked, {"GET": OPEN, "POST": OPEN}, is_form=True, right=Right.DECIDE)


async def asked(request: Request) -> Response:
    """Show what a mail asks, or take the answer."""
    session = visit_of(request).session
    told = ""
    if request.method == "POST":
        form = await read_form(request)
        for each in FIELDS:
            if each not in form:
                raise Invalid(code="missing", path=each, facts={"of": "ask"})
        code = form["code"][:CODE_CHARS_MAX]
        pressed: Any = await session.call(
            "answer", code=code, choice=form["choice"], seen=form["seen"]
        )
        told = pressed["told"]
    else:
        code = dict(read_pairs(request.url.query)).get("code", "")[:CODE_CHARS_MAX]
        if not code:
            raise Invalid(code="missing", path="code", facts={"of": "ask"})
    found: Any = await session.call("asked", code=code)
    return render(request, "asked.html", code=code, told=told or found["told"], asked=found)
