"""How a page is made: templates that escape all they are given, and one style sheet.

Law 1  Text from outside is text (G9): it is made visible, then escaped. A template that names what
       it was not given fails.
Law 2  No sentence of its own: what a page says is a label, or comes from `words` with the answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from importlib import resources
from types import MappingProxyType
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from duly.api.text import visible
from duly.api.value import Json
from duly.errors import DulyError
from duly.faces.web.guard import VISIT, Visit, path_of
from duly.faces.web.problem import problem, status_of
from duly.words import page as words
from duly.words.done import tell_nothing

BROWSERS: Final = ("Firefox", "Edg", "Chrome", "Safari")
SYSTEMS: Final = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
NAMES: Final = {"Edg": "Edge", "Mac OS": "Mac"}
STYLE: Final = "page.css"
NO_SIDES: Final[Mapping[str, Json]] = MappingProxyType({})
FOR_PROGRAMS: Final = ("/api/", "/hooks/", "/metrics", "/healthz")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("duly.faces.web"), autoescape=True, undefined=StrictUndefined
    )
    made.filters["shown"] = lambda value: visible(str(value))
    made.filters["shown_block"] = lambda value: visible(str(value), is_block=True)
    made.filters["json_text"] = _json_text
    made.filters["json_value"] = json.dumps
    made.globals["nothing"] = lambda verb: tell_nothing(verb, "").sentence
    made.globals["words"] = words
    return made


def _json_text(value: object) -> str:
    """Write JSON as a person reads it; no character of it is hidden or replaced by its number."""
    return visible(json.dumps(value, indent=2, ensure_ascii=False), is_block=True)


def render(request: Request, template: str, status: int = 200, **given: Any) -> Response:
    """Make a page."""
    visit: Visit | None = request.scope.get(VISIT)
    common = {
        "root": request.scope.get("root_path", ""),
        "caller": None if visit is None else visit.caller,
        "may": _never if visit is None else visit.may,
    }
    made = _environment().get_template(template)
    return HTMLResponse(made.render(**common, **given), status)


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
    title = HTTPStatus(status).phrase
    told = {"title": title, "detail": str(error), "code": error.code, "sides": sides}
    return render(request, "problem.html", status, **told)


def _is_for_person(request: Request) -> bool:
    is_page = "text/html" in request.headers.get("accept", "")
    return is_page and not path_of(request).startswith(FOR_PROGRAMS)


@cache
def style_sheet() -> bytes:
    """Read the one style sheet."""
    return resources.files("duly.faces.web").joinpath("static", STYLE).read_bytes()


def browser_of(agent: str) -> str:
    """Name a browser for the list of devices; its user may write something else."""
    browser = next((each for each in BROWSERS if each in agent), "Browser")
    system = next((each for each in SYSTEMS if each in agent), "")
    named = NAMES.get(browser, browser)
    return f"{named} on {NAMES.get(system, system)}" if system else named
