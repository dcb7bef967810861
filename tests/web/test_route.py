"""Default deny: every route with every method, unsigned and with every scope (G3)."""

from __future__ import annotations

from typing import Final

import pytest

from duly.api.registry import VERBS, Scope
from duly.faces.web.guard import OPEN as PUBLIC
from duly.faces.web.guard import Entry
from tests.web.stand import OWN, ask, bearer, cookie, fake

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
# What is reached without a sign-in. A route that is added here is a decision.
OPEN: Final = {
    ("/hooks/{workflow}/{topic}", "POST"),
    ("/hooks/{workflow}/{topic}/{key}", "POST"),
    ("/healthz", "GET"),
    ("/sign-in", "GET"),
    ("/sign-in", "POST"),
    ("/ask", "GET"),
    ("/ask", "POST"),
    ("/static/page.css", "GET"),
    ("/static/page.js", "GET"),
    ("/static/icon.svg", "GET"),
}


def spelled(entry: Entry) -> str:
    return entry.path.replace("{", "a-").replace("}", "")


def wanted(entry: Entry, method: str, scope: Scope | None) -> set[int]:
    """Say which status a request must get, by the table alone."""
    asked = "GET" if method == "HEAD" else method
    need = entry.needs.get(asked, Scope.READ)
    if need is not PUBLIC and scope is None:
        return {401}
    if asked not in entry.needs:
        return {405}
    if need is not PUBLIC and scope is not None and not scope.covers(need):
        return {403}
    return {200, 202, 303, 400, 403, 415} if need is PUBLIC else {200, 303, 400, 404, 406, 415}


@pytest.mark.parametrize("scope", [None, *Scope])
async def test_every_route_and_method_is_denied_unless_the_table_says_otherwise(
    scope: Scope | None,
) -> None:
    """G3, G4: an unsigned caller reaches nothing, a caller with a scope what it covers."""
    app, door = fake()
    headers = {} if scope is None else bearer(scope)
    for entry in app.entries:
        for method in METHODS:
            door.asked.clear()
            reply = await ask(app, spelled(entry), method, headers=headers, body={})
            told = (method, entry.path, reply.status)
            assert reply.status in wanted(entry, method, scope), told
            if reply.status in (401, 403, 405):
                assert door.asked == [], told


def test_what_is_open_to_anybody_is_listed_here() -> None:
    """G3: no route becomes public by oversight."""
    app, _ = fake()
    found = {
        (entry.path, method)
        for entry in app.entries
        for method, need in entry.needs.items()
        if need is PUBLIC
    }
    assert found == OPEN


def test_every_verb_is_reachable_with_the_scope_it_declares() -> None:
    """U6, G4: one route for each verb, and a form for each act; none has another scope."""
    app, _ = fake()
    needs = {entry.path: entry.needs for entry in app.entries}
    for name, verb in VERBS.items():
        methods = ("GET", "POST") if verb.is_question else ("POST",)
        assert needs[f"/api/v1/{name}"] == dict.fromkeys(methods, verb.scope)
        if not verb.is_question:
            assert needs[f"/act/{name}"] == {"POST": verb.scope}


def test_no_act_is_done_by_get() -> None:
    """G2: nothing changes by a link, an image or a reload."""
    app, _ = fake()
    acts = {name for name, verb in VERBS.items() if not verb.is_question}
    for entry in app.entries:
        name = entry.path.rpartition("/")[2]
        if name in acts:
            assert "GET" not in entry.needs, entry.path


async def test_an_unknown_path_is_unknown_to_those_who_signed_in_alone() -> None:
    """G3: an unsigned caller does not learn what there is."""
    app, _ = fake()
    for path in ("/nothing", "/api/v1/nothing", "/api/v2/workflows", "/w", "/mcp2", "/admin"):
        assert (await ask(app, path)).status == 401, path
        signed = await ask(app, path, headers=bearer(Scope.READ))
        assert (signed.status, signed.json["code"]) == (404, "no_page"), path


async def test_a_method_that_is_not_there_is_named_with_those_that_are() -> None:
    app, _ = fake()
    reply = await ask(app, "/api/v1/pause", "GET", headers=bearer())
    assert (reply.status, reply["allow"], reply.json["code"]) == (405, "POST", "wrong_method")


async def test_a_scope_too_small_is_refused_before_the_host_is_asked() -> None:
    """G4: the host checks again, but is not even reached."""
    app, door = fake()
    reply = await ask(app, "/api/v1/approve", "POST", headers=bearer(Scope.AGENT), body={})
    assert (reply.status, reply.json["code"]) == (403, "beyond_scope")
    assert reply.json["facts"] == {"scope": "agent", "needed": "decide"}
    assert door.asked == []


async def test_a_websocket_is_closed() -> None:
    """G3: a second way in would need a second guard."""
    app, door = fake()
    sent = []

    async def send(message: object) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/", "headers": []}
    await app(scope, None, send)  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}]
    assert door.asked == []


async def test_a_device_does_what_its_scope_covers_and_no_more() -> None:
    """G4: a cookie is a token like any other."""
    app, door = fake()
    for scope, status in ((Scope.READ, 403), (Scope.AGENT, 200)):
        headers = {**cookie(f"token of {scope}"), **OWN}
        reply = await ask(app, "/api/v1/pause", "POST", headers=headers, body={"workflow": "x"})
        assert reply.status == status
    assert [each.scope for each in door.asked] == [Scope.AGENT]
