"""The pages of a host: what needs a person, and what there is to look up.

Law: facts come from verbs, sentences from `words` with the answer; a page adds labels alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from duly.api.page import PAGE_ROWS_MAX
from duly.api.registry import VERBS, Scope, Verb
from duly.faces.web import add, choice, connect, detail, flow, form, guide, model, script
from duly.faces.web.body import read_pairs
from duly.faces.web.guard import OPEN, Endpoint, Entry, Visit, visit_of
from duly.faces.web.look import Sheet, read_static
from duly.faces.web.query import NARROWING, ROWS, SOUGHT, further, look_empty, older, read_query
from duly.faces.web.stream import Lives, still

APPROVAL: Final = "approval"
CHECK: Final = "/api/v1/check_connection"
STATIC: Final = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


def list_entries(verbs: Mapping[str, Verb]) -> Iterator[Entry]:
    """Make the entries of pages, and a form for every act."""
    live = Lives().live
    yield from list_static()
    yield Entry("/", live(partial(home, model.Writers())), {"GET": Scope.READ})
    yield Entry("/find", still(find), {"GET": Scope.READ})
    yield Entry("/bus", live(bus), {"GET": Scope.READ})
    yield Entry("/tools", still(tools), {"GET": Scope.READ})
    yield Entry("/actions", live(actions), {"GET": Scope.READ})
    yield Entry("/settings", live(settings), {"GET": Scope.ADMIN})
    yield Entry("/doctor", still(doctor), {"GET": Scope.READ})
    yield from flow.list_entries(live)
    yield from detail.list_entries(live)
    yield from connect.list_entries(live)
    yield from choice.list_entries()
    yield from add.list_entries(still)
    yield from model.list_entries(live)
    yield from form.list_entries(verbs)
    yield from script.list_entries()
    yield from guide.list_entries()


def list_static() -> Iterator[Entry]:
    """Make the entries of what every page is made with."""
    for name, media_type in STATIC.items():
        yield make_static(name, media_type)


def make_static(name: str, media_type: str) -> Entry:
    """Make the entry of one file that shows no data."""
    return Entry(f"/static/{name}", _static(name, media_type), {"GET": OPEN})


def _static(name: str, media_type: str) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        headers = {"Cache-Control": "public, max-age=3600"}
        return Response(read_static(name), headers=headers, media_type=media_type)

    return endpoint


async def home(writers: model.Writers, request: Request) -> Sheet:
    """Show what needs a person, and all workflows."""
    session = visit_of(request).session
    query = read_query(request, VERBS["attention"], ("after",))
    found: Any = await session.call("attention", limit=PAGE_ROWS_MAX, **query)
    workflows: Any = await session.call("workflows", limit=PAGE_ROWS_MAX)
    waiting = found[:ROWS]
    approvals = await flow.ask_forms(session, waiting)
    facts = {
        "did": await flow.ask_did(request),
        "waiting": waiting,
        "more": len(found) - len(waiting),
        "is_cut": len(found) == PAGE_ROWS_MAX,
        "after": urlencode({"after": waiting[-1]["key"]}) if len(found) > ROWS else "",
        "approvals": approvals,
        "forms": await flow.ask_unknown(session, waiting, approvals),
        "together": count_together(waiting, approvals),
        "workflows": workflows,
        "is_cut_short": len(workflows) == PAGE_ROWS_MAX,
        "has_model": await writers.find(session),
        "paused": [each["name"] for each in workflows if each["paused"]],
        # A person who begins has not found Tools yet; later the files are not read for each look.
        "settings": None if workflows else await add.ask_settings(session),
        "here": [] if workflows else await add.list_here(session),
        "scripts": [] if workflows else await script.list_scripts(visit_of(request)),
    }
    return Sheet("home.html", facts)


def count_together(
    waiting: Sequence[Mapping[str, Any]], approvals: Mapping[str, Mapping[str, Any]]
) -> dict[str, int]:
    """Count the waiting calls of each tool of which several can be approved at once (A3)."""
    shown = {
        str(offer["args"]["mutation"])
        for each in waiting
        for offer in each["offers"]
        if offer["verb"] == "approve"
    }
    tools = Counter(
        str(each["observed"]["tool"])
        for each in approvals.values()
        if each["mutation"] in shown and each["waits"] == APPROVAL
    )
    return {tool: count for tool, count in tools.items() if count > 1}


async def find(request: Request) -> Sheet:
    """Find events by the beginning of their message id, by a text in their title, or by a day.

    `q` is another word for the text: people and browsers that search by an address know it.
    """
    query = read_query(request, VERBS["find"], SOUGHT)
    asked = dict(read_pairs(request.url.query)).get("q")
    if asked and "text" not in query:
        query["text"] = asked
    found: Any = {"hits": [], "after": None}
    is_asked = any(map(query.get, NARROWING))
    if is_asked:
        found = await visit_of(request).session.call("find", limit=ROWS, **query)
    facts = {
        "hits": found["hits"],
        "text": query.get("text", ""),
        "query": query,
        "is_asked": is_asked,
        "older": further(query, found["after"]),
        "empty": look_empty(found["after"], is_later="after" in query),
    }
    return Sheet("find.html", facts)


async def bus(request: Request) -> Sheet:
    """Show the bus: its journal, what is to come, what was given up, and who hears."""
    session = visit_of(request).session
    query = read_query(request, VERBS["bus.journal"], ("topic", "status", "before"))
    journal: Any = await session.call("bus.journal", limit=ROWS, **query)
    facts = {
        "journal": journal,
        "older": older(query, journal, "id"),
        "query": query,
        "dead": await session.call("bus.deliveries", status="dead", limit=ROWS),
        "waiting": await session.call("bus.deliveries", status="waiting", limit=ROWS),
        "deferred": await session.call("bus.deferred", limit=ROWS),
        "subscribers": await session.call("bus.subscribers"),
    }
    return Sheet("bus.html", facts)


async def tools(request: Request) -> Sheet:
    """Show the connections of the host, and every tool."""
    session = visit_of(request).session
    found: Any = await session.call("connections")
    facts = {
        "tools": await session.call("tools"),
        "connections": found,
        "faults": await _find_faults(visit_of(request), found),
        "settings": await add.ask_settings(session),
    }
    return Sheet("tools.html", facts)


async def _find_faults(visit: Visit, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Try the set-up of each connection where that changes nothing outside."""
    if not visit.may(CHECK):
        return {}
    names = [each["name"] for each in found if each["can_check"]]
    told: list[Any] = [
        await visit.session.call("check_connection", connector=each) for each in names
    ]
    return {each["name"]: each["faults"] for each in told}


async def actions(request: Request) -> Sheet:
    """Show who did what."""
    query = read_query(request, VERBS["actions"], ("workflow", "before"))
    done: Any = await visit_of(request).session.call("actions", limit=ROWS, **query)
    facts = {"actions": done, "older": older(query, done, "id"), "query": query}
    return Sheet("actions.html", facts)


async def settings(request: Request) -> Sheet:
    """Show tokens and devices, who is asked over channels, and the names of the secrets."""
    session = visit_of(request).session
    facts = {
        "tokens": await session.call("tokens"),
        "secrets": await session.call("secrets"),
        "connections": await session.call("connections"),
        "channels": await session.call("channels"),
        "foreign": await connect.ask_foreign(visit_of(request)),
        "scopes": [*map(str, Scope)],
    }
    return Sheet("settings.html", facts)


async def doctor(request: Request) -> Sheet:
    """Show how the host is, and check its store if that is asked for."""
    session = visit_of(request).session
    host = session.host
    facts: dict[str, Any] = {
        "host": None if host is None else {"pid": host.pid, "version": host.version},
        "hosts": await session.call("hosts"),
        "extensions": await session.call("extensions"),
        "next_due": await session.call("next_due"),
        "verified": None,
        "settings": await add.ask_settings(session),
    }
    if dict(read_pairs(request.url.query)).get("verify"):
        facts["verified"] = await session.call("verify")
    return Sheet("doctor.html", facts)
