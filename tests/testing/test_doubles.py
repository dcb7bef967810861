"""Doubles of services: strict, counted, and faulty on command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from typing import Any

import pytest

from duly.testing.doubles.base import (
    HOST,
    Mishap,
    PlannedMishap,
    Rejected,
    ServiceAsk,
    ServiceDouble,
    ServiceReply,
    route,
)
from duly.testing.doubles.shape import ANYTHING, OneOf, TextOf, misfit, needed

NOTE = {"text": needed(TextOf(10)), "tags": [str]}


class Notes(ServiceDouble):
    """Notes that a test writes."""

    @route("POST", "/v1/{book}/notes", scopes=("write",), query=("dry",))
    def add(self, ask: ServiceAsk, book: str) -> ServiceReply:
        body = self.json_of(ask, NOTE)
        if book == "closed":
            raise Rejected(409, "closed")
        ask.account["notes"].append((book, body["text"]))
        return ServiceReply({"id": len(ask.account["notes"])}, 201)

    @route("GET", "/v1/open", is_open=True)
    def look(self, ask: ServiceAsk) -> ServiceReply:
        return ServiceReply(b"hello", headers={"Content-Type": "text/plain"})

    @route("POST", "/v1/form")
    def form(self, ask: ServiceAsk) -> ServiceReply:
        return ServiceReply(self.form_of(ask, {"a": needed(str)}))

    def new_account(self) -> dict[str, Any]:
        return {"notes": []}

    def effects(self, account: dict[str, Any]) -> int:
        return len(account["notes"])


@pytest.fixture
def notes() -> Iterator[Notes]:
    with Notes() as found:
        found.give_token("t", ("write",))
        yield found


def ask(
    double: ServiceDouble, path: str = "/v1/b/notes", body: Any = None, **headers: str
) -> tuple[int, Any]:
    """Ask as a program would; a body that is None is a note."""
    way = HTTPConnection(HOST, double.port, timeout=30)
    sent = {"Authorization": "Bearer t", "Content-Type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    data = json.dumps({"text": "tea"} if body is None else body) if body != "raw" else "a=1"
    try:
        way.request("POST", path, data, sent)
        found = way.getresponse()
        return found.status, json.loads(found.read())
    finally:
        way.close()


@pytest.mark.parametrize(
    ("path", "body", "headers", "said"),
    [
        ("/v1/b/notes", {"text": "x" * 11}, {}, (400, "text: longer than 10 characters")),
        ("/v1/b/notes", {"text": "x", "a": 1}, {}, (400, "a: unknown field")),
        ("/v1/b/notes", {}, {}, (400, "text: required")),
        ("/v1/b/notes", {"text": 1}, {}, (400, "text: expected a string")),
        ("/v1/b/notes", {"text": "x", "tags": [1]}, {}, (400, "tags[0]: expected str")),
        ("/v1/b/notes", {"text": "x", "tags": "y"}, {}, (400, "tags: expected a list")),
        ("/v1/b/notes", [], {}, (400, "body: expected an object")),
        ("/v1/b/notes?x=1", None, {}, (400, "x: unknown field of the query")),
        ("/v1/b/notes", None, {"Content_Type": "text/plain"}, (415, "Content-Type must be")),
        ("/v1/b/notes", "raw", {}, (400, "The body is not JSON.")),
        ("/v1/form", None, {}, (415, "The body must be a form.")),
        ("/v1/b/notes", None, {"Authorization": "Bearer u"}, (401, "The token is not valid.")),
        ("/v1/b/notes", None, {"Authorization": "Bearer r1"}, (403, "It needs the scope write.")),
        ("/v1/nothing/here", None, {}, (404, "There is no /v1/nothing/here.")),
        ("/v1/open", None, {}, (405, "POST is not allowed here.")),
        ("/v1/closed/notes", None, {}, (409, "closed")),
    ],
)
def test_what_the_service_rejects_is_rejected_and_not_done(
    notes: Notes, path: str, body: Any, headers: dict[str, str], said: tuple[int, str]
) -> None:
    notes.give_tokens("r", ("read",))
    status, found = ask(notes, path, body, **headers)
    assert (status, found["message"].startswith(said[1])) == (said[0], True), found
    assert notes.count("t") == 0


def test_each_token_has_its_own_account(notes: Notes) -> None:
    notes.give_token("u", account="t")
    notes.give_tokens("exam-")
    assert ask(notes)[0] == 201
    assert ask(notes, "/v1/a%20b/notes", Authorization="bearer u") == (201, {"id": 2})
    assert ask(notes, Authorization="Bearer exam-1") == (201, {"id": 1})
    assert (notes.count("t"), notes.count("exam-1"), notes.count("u")) == (2, 1, 0)
    assert notes.account("t")["notes"][1][0] == "a b"
    assert len(notes.asked("POST .*/notes")) == 3
    notes.revoke("t")
    assert ask(notes)[0] == 401


def test_a_request_goes_wrong_as_planned(notes: Notes) -> None:
    """Done and not heard, heard and not done, and everything between."""
    notes.plan(Mishap.CUT)
    with pytest.raises((HTTPException, OSError)):
        ask(notes)
    assert notes.count("t") == 0
    for done, mishap in enumerate((Mishap.LOST, Mishap.HALF), 1):
        notes.plan(mishap)
        with pytest.raises((HTTPException, OSError)):
            ask(notes)
        assert notes.count("t") == done
    notes.plan(PlannedMishap(Mishap.STATUS, "/form", status=503, headers={"Retry-After": "7"}))
    assert ask(notes)[0] == 201  # it is planned for another path
    assert ask(notes, "/v1/form") == (503, {"error": 503})
    notes.plan(PlannedMishap(Mishap.STATUS, status=500, is_done=True), Mishap.DRIP)
    assert (ask(notes)[0], notes.count("t")) == (500, 4)
    assert ask(notes) == (201, {"id": 5})
    notes.plan(Mishap.LATE)
    notes.go_on.set()
    assert ask(notes)[0] == 201
    assert notes.arrived.is_set()


def test_a_shape_says_where_a_value_does_not_fit() -> None:
    assert misfit({"a": 1}, {"a": OneOf((str, int))}) is None
    assert misfit({"a": True}, {"a": int}) == "a: expected int"
    assert misfit({"a": 1.5}, {"a": int}) == "a: expected int"
    assert misfit({"a": 1}, {"a": float}) is None
    assert misfit({"a": "z"}, {"a": TextOf(5, ("x", "y"))}) == "a: must be one of x, y"
    assert misfit({"a": {"b": []}}, {"a": {"b": ANYTHING}}) is None
    assert misfit({"a": {"c": 1}}, {"a": {"b": str}}) == "a.c: unknown field"
