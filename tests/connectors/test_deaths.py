"""Each change of a service killed, failing and stopped on its way: reconcile knows what happened.

The suite dies wherever the outside, or what was kept of the call, has just changed, and fails at a
few lines of many, and a commit takes half of the changes; `TEST_EXAM=all` takes all, and dies and
fails at every line of the connector's own code.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.airtable import Airtable
from duly.connectors.blob import MemoryBlobs, using_blobs
from duly.connectors.github import Github
from duly.connectors.http import Http
from duly.connectors.mcp import Mcp
from duly.connectors.notion import Notion
from duly.connectors.s3 import S3
from duly.connectors.slack import Slack
from duly.connectors.stripe import Stripe
from duly.testing import Report, examine
from duly.testing.doubles.airtable import BASE, AirtableDouble
from duly.testing.doubles.base import HOST, ServiceDouble
from duly.testing.doubles.declared import DeclaredDesk
from duly.testing.doubles.github import REPO
from duly.testing.doubles.slack import CHANNEL
from duly.testing.doubles.stripe import StripeDouble
from tests.breaks import number_of_commit
from tests.connectors import (
    test_airtable,
    test_calendar,
    test_declared,
    test_github,
    test_google,
    test_notion,
    test_slack,
    test_stripe,
)
from tests.connectors.calendar_server import CalendarServer
from tests.connectors.google_stand import MAILS, TOKENS, StockedGoogle, make, secrets_of
from tests.connectors.mcp_server import Notes, Site
from tests.connectors.object_server import BUCKET, ObjectServer
from tests.connectors.service_exam import PREFIX, reach
from tests.connectors.shop import Shop
from tests.connectors.test_mcp_exam import pinned
from tests.connectors.test_network_exam import count_orders

EVENT = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:{own}\r\n"
    "DTSTAMP:20260101T000000Z\r\nDTSTART:20260501T100000Z\r\nSUMMARY:old\r\n"
    "END:VEVENT\r\nEND:VCALENDAR\r\n"
)
ETAG = "9dd4e461268c8034f5c8564e155c67a6"  # of "x"
PDF = MemoryBlobs()
FILE: Any = PDF.put(b"%PDF", "a.pdf", "application/pdf")


@dataclass(frozen=True, slots=True)
class Way:
    """A change, and another one. `leaves_state`: a twin leaves the same, so the two are one."""

    args: dict[str, Any]
    other: dict[str, Any] = field(default_factory=dict)
    leaves_state: bool = False


@dataclass(frozen=True, slots=True)
class At:
    """A double, and what makes the connector that is at it."""

    double: type[ServiceDouble]
    kind: Any
    more: dict[str, Any] = field(default_factory=dict)


SERVICES = {
    "airtable": At(AirtableDouble, Airtable, {"base": BASE}),
    "github": At(test_github.Desk, Github),
    "notion": At(test_notion.Desk, Notion),
    "slack": At(test_slack.Desk, Slack),
    "stripe": At(StripeDouble, Stripe),
}
OF_SERVICES = {
    "airtable.create": Way(test_airtable.ROW),
    "airtable.upsert": Way(test_airtable.MERGE, {"values": {"Name": "Milk"}}, leaves_state=True),
    "github.create_issue": Way(test_github.ISSUE),
    "github.comment": Way({"repo": REPO, "number": 1, "text": "Hello"}),
    "github.add_label": Way(
        {"repo": REPO, "number": 1, "label": "bug"}, {"number": 2}, leaves_state=True
    ),
    "github.create_pull": Way(
        {**test_github.ISSUE, "head": "fix", "base": "main"}, {"head": "ada:fix2"}
    ),
    "github.create_release": Way({**test_github.ISSUE, "tag": "v1"}, {"tag": "v2"}),
    "notion.create": Way(test_notion.PAGE),
    "notion.update": Way(test_notion.UPDATE, {"id": test_notion.SECOND}),
    "slack.post": Way(test_slack.POST),
    "slack.update": Way({**test_slack.POST, "ts": test_slack.FIRST}, {"ts": test_slack.SECOND}),
    "slack.react": Way(
        {"channel": CHANNEL, "ts": test_slack.FIRST, "emoji": "tea"},
        {"ts": test_slack.SECOND},
        leaves_state=True,
    ),
    "slack.upload": Way({"channel": CHANNEL, "file": FILE}),
    "stripe.create": Way(test_stripe.REFUND),
}
OF_GOOGLE = {
    "gmail.send": Way(test_google.MAIL),
    "gmail.label": Way({"id": MAILS[0], "label": "Bills"}, {"id": MAILS[1]}, leaves_state=True),
    "gmail.archive": Way({"id": MAILS[0]}, {"id": MAILS[1]}, leaves_state=True),
    "sheets.append": Way({"row": {"customer": "=1+1", "total": 2.5}}),
    "sheets.update": Way({"key": "k1", "row": {"total": 7}}, {"key": "k2"}, leaves_state=True),
    "google_calendar.create": Way(test_google.EVENT),
    "google_calendar.update": Way(
        {"id": "event1", "etag": '"1"', "title": "New"}, {"id": "event2"}
    ),
    "drive.create": Way({"name": "a.txt", "text": "One"}),
}
IS_WHOLE = os.environ.get("TEST_EXAM") == "all"
OF_FILES = {
    (name := f"{service}.{tool}"): Way(args, test_declared.OTHER.get(name, {}))
    for service, (tool, args) in test_declared.CALLS.items()
}
if IS_WHOLE:  # they are operations of one kit, as those above
    OF_FILES |= {tool: Way(args) for tool, args in test_declared.FURTHER.items()}


def chosen(tools: Iterable[str]) -> list[str]:
    """Choose what this commit tries of changes that stand on one kit."""
    return sorted(tools)[number_of_commit() % 2 :: 2] if not IS_WHOLE else sorted(tools)


@pytest.fixture(autouse=True)
def _few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    if not IS_WHOLE:
        monkeypatch.setattr("duly.testing.exam.POINTS_MAX", 4)
        monkeypatch.setattr("duly.testing.exam.STOPS_MAX", 1)


def let_die(
    build: Callable[[Path], Any],
    tool: str,
    way: Way,
    effects: Callable[[Path], int],
    folder: Path,
) -> Report:
    """Kill a change where the outside, or what was kept of it, has just changed."""

    def look(here: Path) -> object:
        kept = sorted(here.parent.glob(f"{here.name}.*.handle"))
        return effects(here), [each.read_bytes() for each in kept]

    return examine(
        build,
        tool,
        way.args,
        other_args={**way.args, **way.other},
        effects=effects,
        folder=folder,
        look=None if IS_WHOLE else look,
        has_twin=not way.leaves_state,
    )


@pytest.mark.parametrize("tool", chosen(OF_SERVICES))
def test_a_change_of_a_service_survives_its_death(tool: str, tmp_path: Path) -> None:
    """L4, L5, L14: killed, failing and stopped, it is known and made once."""
    service, _, name = tool.partition(".")
    at = SERVICES[service]
    with at.double() as double, using_blobs(PDF):
        double.give_tokens(PREFIX)
        report = let_die(
            lambda here: reach(double, at.kind, f"{PREFIX}{here.name}", **at.more),
            name,
            OF_SERVICES[tool],
            lambda here: double.count(f"{PREFIX}{here.name}"),
            tmp_path / "exam",
        )
    assert report.applied > 0


@pytest.mark.parametrize("tool", chosen(OF_FILES))
def test_a_change_of_a_declared_service_survives_its_death(tool: str, tmp_path: Path) -> None:
    """L4, L5: the same for services without code."""
    service, _, name = tool.partition(".")
    with DeclaredDesk() as double:
        double.give_tokens(PREFIX)
        report = let_die(
            lambda here: reach(double, test_declared.at(service), f"{PREFIX}{here.name}"),
            name,
            OF_FILES[tool],
            lambda here: double.count(f"{PREFIX}{here.name}"),
            tmp_path / "exam",
        )
    assert report.points > 5


@pytest.mark.parametrize("tool", chosen(OF_GOOGLE))
def test_a_change_at_google_survives_its_death(tool: str, tmp_path: Path) -> None:
    """L4, L5, L14: the same for Google, also for a mail that is a draft first."""
    kind, _, name = tool.partition(".")
    with StockedGoogle() as google:
        google.give_tokens(TOKENS)
        report = let_die(
            lambda here: make(kind, google, secrets_of(f"{TOKENS}{here.name}")),
            name,
            OF_GOOGLE[tool],
            lambda here: google.count(f"{TOKENS}{here.name}"),
            tmp_path / "exam",
        )
    assert report.applied > 0


@pytest.fixture(scope="module")
def calendars(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CalendarServer]:
    with CalendarServer(tmp_path_factory.mktemp("calendars")) as made:
        yield made


@pytest.mark.parametrize("tool", ["create", "update", "delete"])
def test_a_change_of_a_calendar_survives_its_death(
    calendars: CalendarServer, tool: str, tmp_path: Path
) -> None:
    """L4, L5: the same before a real server."""
    prefix = f"d-{tool}-"

    def build(here: Path) -> Any:
        made = calendars.connect(f"{prefix}{here.name}", 0, test_calendar.Inline)
        if tool != "create" and not (here / "made").exists():
            (here / "made").touch()
            for own in ("a", "b"):
                text = EVENT.format(own=own)
                calendars.ask("PUT", f"{prefix}{here.name}/{own}.ics", text)
        return made

    async def etag_of(own: str) -> str:
        calendars.ask("PUT", f"{prefix}etags/{own}.ics", EVENT.format(own=own))
        return str((await calendars.connect(f"{prefix}etags").get(own))["etag"])

    calendars.connect(f"{prefix}etags")
    more = {"title": "new"} if tool == "update" else {}
    way = Way(test_calendar.ARGS)
    if tool != "create":
        first, other = (
            {"id": own, "etag": asyncio.run(etag_of(own)), **more} for own in ("a", "b")
        )
        way = Way(first, other, leaves_state=tool == "delete")
    word = "SUMMARY:new" if tool == "update" else "UID"
    count = test_calendar.count(calendars, prefix, word)

    def effects(here: Path) -> int:
        is_made = (here / "made").exists()
        there: int = count(here)
        return 2 * is_made - there if tool == "delete" else there

    assert let_die(build, tool, way, effects, tmp_path / "exam").applied > 0


@pytest.fixture(scope="module")
def objects() -> Iterator[ObjectServer]:
    with ObjectServer() as made:
        yield made


@pytest.mark.parametrize("tool", ["put", "delete"])
def test_a_change_of_a_bucket_survives_its_death(
    objects: ObjectServer, tool: str, tmp_path: Path
) -> None:
    """L4, L5: the same for an object."""
    prefix = f"d-{tool}-"

    def build(here: Path) -> S3:
        own = f"{prefix}{here.name}/"
        if tool == "delete" and not (here / "made").exists():
            (here / "made").touch()
            for key in ("a", "b"):
                objects.ask("PUT", f"/{BUCKET}/{own}{key}", b"x")
        made: S3 = objects.connect(own)
        return made

    def effects(here: Path) -> int:
        there = len(objects.keys(f"{prefix}{here.name}/"))
        return 2 * (here / "made").exists() - there if tool == "delete" else there

    way = Way({"key": "a.pdf", "file": FILE}, {"key": "b.pdf"})
    if tool == "delete":
        way = Way({"key": "a", "etag": ETAG}, {"key": "b"}, leaves_state=True)
    with using_blobs(PDF):
        assert let_die(build, tool, way, effects, tmp_path / "exam").applied > 0


def test_a_request_survives_its_death(tmp_path: Path) -> None:
    """L4, L5: it cannot be asked, and what is unknown stays so."""
    with Shop(tmp_path / "exam") as shop:
        shop.forgets_keys = True

        def build(here: Path) -> Http:
            made: Any = Http(shop.url, writes=[f"{HOST}:{shop.port}"], allow=[HOST])
            send, url = made.request, f"{shop.url}/{here.name}/orders"
            made.request = lambda call, **args: send(call, **{**args, "url": url})
            return made  # type: ignore[no-any-return]

        way = Way({"method": "POST", "url": "", "body": {"item": "tea"}})
        report = let_die(build, "request", way, count_orders(shop), tmp_path / "exam")
    assert (report.applied, report.not_applied, report.unsure > 5) == (0, 0, True)


def test_a_call_over_mcp_survives_its_death(tmp_path: Path) -> None:
    """M8, L4: the same for a tool of another server."""
    (place := tmp_path / "exam").mkdir()
    site = Site(place, streams=False)
    try:
        report = let_die(
            lambda here: Mcp(
                lock=pinned(here),
                url=f"http://{HOST}:{site.server_address[1]}/mcp",
                headers={"X-Shelf": here.name},
                allow=[HOST],
                name="notes",
            ),
            "add_note",
            Way({"text": "milk"}),
            lambda here: len(Notes(here).notes()),
            place,
        )
    finally:
        site.close()
    assert (report.applied, report.not_applied, report.unsure > 5) == (0, 0, True)
