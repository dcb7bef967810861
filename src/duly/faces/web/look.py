"""How a page is made: templates that escape all they are given, one style sheet, one script.

Law 1  Text from outside is text (G9): it is made visible, then escaped. A template that names what
       it was not given fails.
Law 2  No sentence of its own: what a page says is a label, or comes from `words` with the answer.
Law 3  A page is facts and a template. A program that asks for JSON gets the facts as they are.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from importlib import resources
from types import MappingProxyType
from typing import Any, Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from duly.api.clock import unguessable
from duly.api.text import TAB_COLUMNS, cut, visible
from duly.api.value import Json
from duly.errors import DulyError
from duly.faces.web import drawing
from duly.faces.web.guard import VISIT, Visit, path_of
from duly.faces.web.problem import problem, status_of
from duly.words import addable, approval
from duly.words import hook as hooked
from duly.words import page as words
from duly.words.done import tell_nothing

BROWSERS: Final = ("Firefox", "Edg", "Chrome", "Safari")
SYSTEMS: Final = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
NAMES: Final = {"Edg": "Edge", "Mac OS": "Mac"}
NO_SIDES: Final[Mapping[str, Json]] = MappingProxyType({})
FOR_PROGRAMS: Final = ("/api/", "/hooks/", "/metrics", "/healthz")
HTML: Final = "text/html"
JSON: Final = "application/json"
ZONE: Final = ContextVar("zone", default="UTC")  # of the page that is written now
FINGERPRINT_CHARS: Final = 12
TITLE_CHARS: Final = 2000  # of a text in a list; an approval is never cut (G9)


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a page shows: its template, and the facts in it by name."""

    template: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("duly.faces.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["shown"] = lambda value: visible(str(value))
    made.filters["listed"] = lambda value: visible(cut(str(value), TITLE_CHARS))
    made.filters["shown_block"] = lambda value: visible(str(value), is_block=True)
    made.filters["editable"] = _editable
    made.filters["json_text"] = _json_text
    made.filters["json_listed"] = _json_listed
    made.filters["json_value"] = json.dumps
    made.filters["moment"] = lambda at: words.say_moment(at, ZONE.get())
    made.filters["exactly"] = lambda at: words.say_exactly(at, ZONE.get())
    made.filters["plain"] = words.plain
    made.globals["nothing"] = lambda verb: tell_nothing(verb, "").sentence
    made.globals["words"] = words
    made.globals["add"] = addable
    made.globals["hooked"] = hooked
    made.globals["asked_by"] = approval
    made.filters["under"] = lambda name, begin: f"{begin}{name}"
    made.globals["draw"] = drawing
    made.globals["fresh_id"] = unguessable
    made.globals["fingerprint"] = fingerprint
    return made


def _editable(text: str) -> str:
    """Return a text for a field; nothing, if it has a character that a person would not see."""
    lines = (each.expandtabs(TAB_COLUMNS) for each in text.split("\n"))
    return text if visible(text, is_block=True) == "\n".join(lines) else ""


def _json_text(value: object) -> str:
    """Write JSON as a person reads it; no character of it is hidden or replaced by its number."""
    return visible(json.dumps(value, indent=2, ensure_ascii=False), is_block=True)


def _json_listed(value: object) -> str:
    """Write JSON in a list of many: its beginning, and how long it is."""
    return visible(cut(json.dumps(value, indent=2, ensure_ascii=False), TITLE_CHARS), is_block=True)


def render(request: Request, template: str, status: int = 200, **given: Any) -> Response:
    """Make a page that is short."""
    return HTMLResponse(_write(template, {**_surround(request), **given}), status)


async def show(request: Request, sheet: Sheet, *, is_live: bool = False) -> Response:
    """Show a page to a person, or its facts to a program."""
    if wants_json(request):
        return Response(msgspec.json.encode(sheet.facts), media_type=JSON)
    return HTMLResponse(await write_page(request, sheet, is_live=is_live))


async def write_page(
    request: Request, sheet: Sheet, *, is_live: bool = False, is_part: bool = False
) -> str:
    """Write a page as HTML; a part of one has nothing in it that belongs to its viewer.

    It is written beside the loop, so that a long one keeps no other viewer waiting (G10).
    """
    around = _surround(request, is_live=is_live, is_part=is_part)
    return await asyncio.to_thread(_write, sheet.template, {**around, **sheet.facts})


def _surround(request: Request, *, is_live: bool = False, is_part: bool = False) -> dict[str, Any]:
    """Return what every page is given."""
    visit: Visit | None = request.scope.get(VISIT)
    host = None if visit is None else visit.session.host
    return {
        "root": request.scope.get("root_path", ""),
        "path": path_of(request),
        "caller": None if visit is None else visit.caller,
        "may": _never if visit is None else visit.may,
        "host_id": "" if host is None else f"{host.pid} {host.since}",
        "is_live": is_live,
        "is_part": is_part,
        "zone": "UTC" if visit is None else visit.zone,
    }


def _write(template: str, given: Mapping[str, Any]) -> str:
    shown = ZONE.set(given["zone"])
    try:
        return _environment().get_template(template).render(given)
    finally:
        ZONE.reset(shown)


def _never(path: str) -> bool:
    return False


def refuse(
    request: Request, error: DulyError, sides: Mapping[str, Json] = NO_SIDES, **more: Any
) -> Response:
    """Say an error to a person who looks, or to a program that asks.

    `sides` are the two calls that a person compares.
    """
    if not _is_for_person(request):
        return problem(error, **more)
    status = status_of(error)
    if status == HTTPStatus.UNAUTHORIZED:
        return render(request, "sign_in.html", status, code="", name="")
    told = {
        "title": words.say_refused(status),
        "detail": str(error),
        "code": error.code,
        "sides": sides,
        "waits": str(error.next.args.get("id", ""))
        if error.next and error.next.verb == "why"
        else "",
    }
    return render(request, "problem.html", status, **told)


def _is_for_person(request: Request) -> bool:
    is_page = HTML in request.headers.get("accept", "")
    return is_page and not path_of(request).startswith(FOR_PROGRAMS)


def wants_json(request: Request) -> bool:
    """Tell whether a program asks for facts; a browser takes anything, but names pages first."""
    accepted = request.headers.get("accept", "")
    return JSON in accepted and HTML not in accepted


@cache
def read_static(name: str) -> bytes:
    """Read a file that a browser keeps."""
    return resources.files("duly.faces.web").joinpath("static", name).read_bytes()


@cache
def fingerprint(name: str) -> str:
    """Name the content of a file, so that a browser asks for it anew after an upgrade."""
    return sha256(read_static(name)).hexdigest()[:FINGERPRINT_CHARS]


def browser_of(agent: str) -> str:
    """Name a browser for the list of devices; its user may write something else."""
    browser = next((each for each in BROWSERS if each in agent), "Browser")
    system = next((each for each in SYSTEMS if each in agent), "")
    named = NAMES.get(browser, browser)
    return f"{named} on {NAMES.get(system, system)}" if system else named
