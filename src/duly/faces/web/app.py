"""The application: every entry there is, behind the guard."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response

from duly.api.door import Door
from duly.api.registry import Scope
from duly.faces.web import agent, asked, export, health, hook, offered, page, sign, verb
from duly.faces.web.body import JSON
from duly.faces.web.guard import Entry, Guard, Place
from duly.faces.web.look import refuse
from duly.faces.web.openapi import describe_api
from duly.faces.web.problem import problem


def make_app(door: Door, place: Place) -> Guard:
    """Make the application of a page and its HTTP interface."""
    return Guard(door, _list_entries(door), place, refuse)


def make_hooks_app(door: Door, place: Place) -> Guard:
    """Make the application of an address where webhooks alone are taken (G8)."""
    return Guard(door, hook.list_entries(), place, lambda _, error: problem(error))


def _list_entries(door: Door) -> Iterator[Entry]:
    described = verb.write(describe_api(door.verbs))

    async def openapi(request: Request) -> Response:
        return Response(described.body, media_type=JSON)

    yield Entry(f"{verb.API}openapi.json", openapi, {"GET": Scope.READ})
    yield from verb.list_entries(door.verbs)
    yield from hook.list_entries()
    yield from health.list_entries()
    yield from sign.list_entries()
    yield from asked.list_entries()
    yield from agent.list_entries(door)
    yield from offered.list_entries()
    yield from export.list_entries()
    yield from page.list_entries(door.verbs)
