"""Every double of a service rejects what its service rejects (doubles/base, law 1)."""

from __future__ import annotations

import base64
import inspect
import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

import pytest

from duly.testing.doubles.airtable import BASE, TABLE, AirtableDouble
from duly.testing.doubles.base import HOST, ServiceDouble
from duly.testing.doubles.declared import SPELLINGS, DeclaredDesk, secret_line
from duly.testing.doubles.github import GithubDouble
from duly.testing.doubles.google import GoogleDouble
from duly.testing.doubles.google_mail import AUTH
from duly.testing.doubles.notion import DATABASE, NotionDouble
from duly.testing.doubles.slack import CHANNEL, SlackDouble
from duly.testing.doubles.stripe import StripeDouble
from duly.testing.doubles.telegram import CHAT, TelegramDouble

TOKEN, OTHER = "all-scopes", "another-scope"
UUID = "0f1e2d3c-0000-4000-8000-000000000000"
ADF = {
    "type": "doc",
    "version": 1,
    "content": [{"type": "paragraph", "content": [{"type": "text", "text": "x"}]}],
}
TEXT = {"text": {"content": "Tea"}}


@dataclass(frozen=True, slots=True)
class GoodChange:
    """A change that the double makes; places where it can be spoiled."""

    double: type[ServiceDouble]
    path: str
    body: dict[str, Any]
    scope: str = ""  # which it needs; empty where the service has none
    inside: tuple[Any, ...] = ()  # the object of the service's own fields
    text: tuple[Any, ...] = ()  # a field whose text has a longest length; empty if none is said
    chars_max: int = 0
    method: str = "POST"
    is_form: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[Any], None] | None = None


def shelve(double: Any) -> None:
    double.put_sheet(TOKEN, "book", "Book", [["a"]])


LINEAR = {"id": UUID, "teamId": "t", "title": "Tea"}
TODOIST = [{"type": "item_add", "uuid": UUID, "temp_id": UUID, "args": {"content": "Tea"}}]
JIRA = {"project": {"key": "T"}, "issuetype": {"name": "Bug"}, "summary": "S", "labels": []}
AT = {"dateTime": "2026-05-01T10:00:00", "timeZone": "UTC"}
SUMMARY = {"summary": "Tea", "description": "x", "start": AT, "end": AT}
RECORD = {"fields": {"Name": "Tea", "Duly key": "k"}}
NAMED = {"parent": {"database_id": DATABASE}, "properties": {"Name": {"title": [TEXT]}}}

CHANGES: dict[str, GoodChange] = {
    "airtable": GoodChange(
        AirtableDouble,
        f"/{BASE}/{TABLE}",
        {"performUpsert": {"fieldsToMergeOn": ["Duly key"]}, "records": [RECORD]},
        "data.records:write",
        text=("records", 0, "fields", "Name"),
        chars_max=100_000,
        method="PATCH",
    ),
    "discord": GoodChange(
        DeclaredDesk,
        "/discord/channels/1/messages",
        {"content": "Tea"},
        "SEND_MESSAGES",
        text=("content",),
        chars_max=2000,
    ),
    "github": GoodChange(
        GithubDouble,
        "/repos/ada/tea/issues",
        {"title": "Tea"},
        "issues:write",
        text=("title",),
        chars_max=256,
        headers={"X-GitHub-Api-Version": "2022-11-28", "User-Agent": "test"},
    ),
    "gmail": GoodChange(
        GoogleDouble,
        "/gmail/v1/users/me/drafts",
        {"message": {"raw": base64.urlsafe_b64encode(b"To: ada@example.com\r\n\r\nx").decode()}},
        f"{AUTH}gmail.compose",
        inside=("message",),
    ),
    "google_calendar": GoodChange(
        GoogleDouble,
        "/calendar/v3/calendars/primary/events",
        SUMMARY,
        f"{AUTH}calendar.events",
        text=("description",),
        chars_max=8192,
    ),
    "hubspot": GoodChange(
        DeclaredDesk,
        "/hubspot/crm/v3/objects/contacts",
        {"properties": {"email": "ada@example.com", "duly_key": "k"}},
        "crm.objects.contacts.write",
        inside=("properties",),
        text=("properties", "email"),
        chars_max=65_536,
    ),
    "jira": GoodChange(
        DeclaredDesk,
        "/jira/rest/api/3/issue",
        {"fields": {**JIRA, "description": ADF}},
        "write:jira-work",
        inside=("fields",),
        text=("fields", "summary"),
        chars_max=255,
    ),
    "linear": GoodChange(
        DeclaredDesk,
        "/linear/graphql",
        {"query": "mutation { issueCreate }", "variables": {"input": LINEAR}},
        "write",
        inside=("variables", "input"),
        text=("variables", "input", "id"),
        chars_max=36,
    ),
    "notion": GoodChange(
        NotionDouble,
        "/pages",
        NAMED,
        "insert",
        text=("properties", "Name", "title", 0, "text", "content"),
        chars_max=2000,
        headers={"Notion-Version": "2022-06-28"},
    ),
    "outlook": GoodChange(
        DeclaredDesk,
        "/outlook/me/messages",
        {"subject": "Tea"},
        "Mail.ReadWrite",
        text=("subject",),
        chars_max=255,
    ),
    "sheets": GoodChange(
        GoogleDouble,
        "/v4/spreadsheets/book/values/'Book'!A1:A1:append?valueInputOption=RAW",
        {"values": [["Tea"]]},
        f"{AUTH}spreadsheets",
        text=("values", 0, 0),
        chars_max=50_000,
        prepare=shelve,
    ),
    "slack": GoodChange(
        SlackDouble,
        "/chat.postMessage",
        {"channel": CHANNEL, "text": "Tea"},
        "chat:write",
        text=("text",),
        chars_max=40_000,
    ),
    "stripe": GoodChange(
        StripeDouble,
        "/customers",
        {"name": "Tea"},
        "write",
        text=("name",),
        chars_max=5000,
        is_form=True,
    ),
    "telegram": GoodChange(
        TelegramDouble,
        f"/bot{TOKEN}/sendMessage",
        {"chat_id": CHAT, "text": "Tea"},
        text=("text",),
        chars_max=4096,
    ),
    "todoist": GoodChange(
        DeclaredDesk,
        "/todoist/sync",
        {"commands": TODOIST},
        "task:add",
        inside=("commands", 0, "args"),
        text=("commands", 0, "args", "content"),
        chars_max=500,
        is_form=True,
    ),
    "trello": GoodChange(
        DeclaredDesk,
        "/trello/cards",
        {"idList": "l", "name": "Tea"},
        "write",
        text=("name",),
        chars_max=16_384,
    ),
}


@pytest.fixture(scope="module")
def doubles() -> Iterator[dict[type[ServiceDouble], ServiceDouble]]:
    found = {each: each() for each in {one.double for one in CHANGES.values()}}
    for each in found.values():
        each.__enter__()
        each.give_token(TOKEN)
        each.give_token(OTHER, ("other",))
    yield found
    for each in found.values():
        each.__exit__(None, None, None)


def line_of(service: str, token: str) -> str:
    """Spell the header Authorization as the service wants it."""
    if service == "jira":
        return f"Basic {base64.b64encode(f'ada@example.com:{token}'.encode()).decode()}"
    line = secret_line(service, token)
    return line if line != token or service == "linear" else f"Bearer {token}"


def send(
    double: ServiceDouble, service: str, body: dict[str, Any], line: str, kind: str = ""
) -> str:
    """Send a change; return what a rejection says, empty if it was made."""
    change = CHANGES[service]
    data = json.dumps(body)
    if change.is_form:
        plain = {k: v if isinstance(v, str) else json.dumps(v) for k, v in body.items()}
        data = urlencode(plain)
    own = "application/x-www-form-urlencoded" if change.is_form else "application/json"
    way = HTTPConnection(HOST, double.port, timeout=30)
    try:
        headers = {"Authorization": line, "Content-Type": kind or own, **change.headers}
        way.request(change.method, change.path, data, headers)
        reply = way.getresponse()
        said = reply.read().decode()
    finally:
        way.close()
    return said if reply.status >= 400 or '"error' in said else ""


def put(body: dict[str, Any], place: tuple[Any, ...], name: Any, value: Any) -> dict[str, Any]:
    """Return a copy with a value in a place."""
    made = deepcopy(body)
    at: Any = made
    for each in place:
        at = at[each]
    at[name] = value
    return made


def test_every_double_names_the_pages_it_follows() -> None:
    """What a double does is written down at the service; its file says where."""
    homes = {inspect.getmodule(each) for one in CHANGES.values() for each in one.double.__mro__}
    files = [each for each in homes if each is not None and "doubles" in each.__name__]
    for each in files:
        if not each.__name__.endswith((".base", ".shape")):
            assert re.search(r"\w+\.(?:com|dev|org)/", each.__doc__ or ""), each.__name__


ADF_TEXT = ("fields", "description", "content", 0, "content", 0, "text")


@pytest.mark.parametrize(
    ("service", "place", "value"),
    [
        ("jira", ("fields", "summary"), "two\nlines"),
        ("jira", ("fields", "summary"), ""),
        ("jira", ADF_TEXT, ""),
        ("google_calendar", ("end",), {"date": "2020-01-01"}),
    ],
)
def test_a_double_rejects_an_empty_text_two_lines_and_no_time(
    doubles: dict[type[ServiceDouble], ServiceDouble],
    service: str,
    place: tuple[Any, ...],
    value: Any,
) -> None:
    double = doubles[CHANGES[service].double]
    before = double.effects(double.account(TOKEN))
    body = put(CHANGES[service].body, place[:-1], place[-1], value)
    assert send(double, service, body, line_of(service, TOKEN))
    assert double.effects(double.account(TOKEN)) == before


@pytest.mark.parametrize("service", [*CHANGES])
def test_a_double_rejects_what_its_service_rejects(
    doubles: dict[type[ServiceDouble], ServiceDouble], service: str
) -> None:
    """An unknown field, another content type, a long text, a strange token, a missing scope."""
    change = CHANGES[service]
    double, line = doubles[change.double], line_of(service, TOKEN)
    double.accounts.clear()
    if change.prepare is not None:
        change.prepare(double)
    before = double.effects(double.account(TOKEN))
    assert send(double, service, put(change.body, change.inside, "not_there", "x"), line)
    kind = "application/json" if change.is_form else "text/plain"
    assert send(double, service, change.body, line, kind)
    if change.text:
        *place, name = change.text
        long = put(change.body, tuple(place), name, "x" * (change.chars_max + 1))
        assert send(double, service, long, line)
    if change.scope:
        assert send(double, service, change.body, line_of(service, "not-given"))
        assert send(double, service, change.body, line_of(service, OTHER))
        assert double.effects(double.account(OTHER)) == 0
    assert double.effects(double.account(TOKEN)) == before
    if change.scope:
        double.give_token("just-enough", (change.scope,), TOKEN)
        line = line_of(service, "just-enough")
    longest = change.body
    if change.text and service != "linear":
        longest = put(change.body, tuple(place), name, "x" * change.chars_max)
    assert send(double, service, longest, line) == ""


@pytest.mark.parametrize("service", [*SPELLINGS])
def test_a_token_is_spelled_as_its_service_wants(
    doubles: dict[type[ServiceDouble], ServiceDouble], service: str
) -> None:
    """What another service takes is no sign-in here: a bot's token has its word, a key its line."""
    desk = doubles[DeclaredDesk]
    right = line_of(service, TOKEN)
    for other in {line_of(each, TOKEN) for each in SPELLINGS} - {right}:
        if service == "linear" and other.startswith("Bearer"):
            continue  # a key of a person comes alone, one of an app behind Bearer
        assert "not valid" in send(desk, service, CHANGES[service].body, other)


def test_every_double_of_a_service_is_here() -> None:
    """A new double is added above, or this fails."""
    from duly.testing.daily import SERVICES

    kinds = {each.double for name, each in SERVICES.items() if name != "feed"}
    assert kinds <= {each.double for each in CHANGES.values()}
