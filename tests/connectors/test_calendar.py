"""Events on a real CalDAV server: made once, changed by version, each where its zone puts it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from duly.connectors import CalendarFeed, ics_text
from duly.connectors.base import Applied, Call, NotApplied, Unsure
from duly.connectors.calendar import Calendar, _id_of
from duly.connectors.calendar_cell import MODULES, PROGRAM, READERS
from duly.connectors.ics_text import IcsChange, IcsEvents, IcsQuestion, ask, change_event
from duly.connectors.reader import Readers, Unreadable
from duly.errors import AuthNeeded, ConfigError, Refused, Transient, UnknownOutcome
from duly.testing import WEB_REPLIES, examine_network
from tests.connectors.calendar_server import HOST, CalendarServer
from tests.connectors.shop import Shop, raw
from tests.connectors.twice import Twice

pytestmark = pytest.mark.anyio

ARGS: dict[str, Any] = {
    "title": "Lunch; with, Ada\nand Bob",
    "start": "2026-05-01T12:00:00+02:00",
    "end": "2026-05-01T13:00:00+02:00",
}
MAY = ("2026-05-01", "2026-06-01")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CalendarServer]:
    shared = Readers(PROGRAM, MODULES)
    shared.read("ics.one", b"", IcsEvents)  # in this thread: a process ends with its beginner
    with pytest.MonkeyPatch.context() as patch:
        for kind in (Calendar, CalendarFeed):
            patch.setattr(kind, "_readers", shared)
        with CalendarServer(tmp_path_factory.mktemp("calendars")) as made:
            yield made
    shared.close()


def call(tool: str = "create", key: str = "k1", **args: Any) -> Call:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Call(f"calendar.{tool}", args, key=key, workflow="w", attempt=1, sent_at=at)


async def make(calendar: Any, key: str = "k1", **args: Any) -> Any:
    made = call(key=key, **{**ARGS, **args})
    return await calendar.create(made, **made.args)


async def test_an_event_is_made_read_changed_and_deleted(server: CalendarServer) -> None:
    """L5, K12: its id comes from the key, its words are data, its times are UTC."""
    calendar = server.connect("round")
    made = await make(calendar, location="Room 1", description="a\\b\nc")
    assert made == {"id": _id_of("k1")}
    event = await calendar.get(made["id"])
    assert {**event, "etag": "", "id": ""} == {
        "id": "",
        "occurrence": _id_of("k1"),
        "title": "Lunch; with, Ada and Bob",
        "start": "2026-05-01T10:00:00Z",
        "end": "2026-05-01T11:00:00Z",
        "all_day": False,
        "location": "Room 1",
        "description": "a\\b\nc",
        "status": "",
        "etag": "",
    }
    (listed,) = (await calendar.events(*MAY)).items
    assert (listed["id"], listed["etag"]) == (made["id"], event["etag"])
    assert (await calendar.events("2026-06-01", "2026-07-01")).items == []
    change = {"id": made["id"], "etag": event["etag"], "title": "Late lunch"}
    await calendar.update(call("update", "k2", **change), **change)
    after = await calendar.get(made["id"])
    assert (after["title"], after["location"]) == ("Late lunch", "Room 1")
    assert after["start"] == event["start"]
    old = {"id": made["id"], "etag": event["etag"]}
    with pytest.raises(Refused, match="412"):
        await calendar.delete(call("delete", **old), **old)
    await calendar.delete(call("delete"), id=made["id"], etag=after["etag"])
    assert (await calendar.get(made["id"]), server.texts("round")) == (None, [])


async def test_a_second_send_makes_no_second_event(server: CalendarServer) -> None:
    """L5, L7: the same key is the same address, and the precondition stops it."""
    calendar, made = server.connect("twice"), call(**ARGS)
    assert await calendar.create_happened(made) == NotApplied()
    answer = await calendar.create(made, **ARGS)
    with pytest.raises(UnknownOutcome, match="412"):
        await calendar.create(replace(made, attempt=2), **ARGS)
    assert await calendar.create_happened(made) == Applied(answer)
    assert await calendar.create_happened(replace(made, key="other")) == NotApplied()
    assert len(server.texts("twice")) == 1


async def test_a_request_that_a_proxy_repeats_is_not_refused(server: CalendarServer) -> None:
    """L4, L5: refused, it would be made anew under another key."""
    calendar, made = server.connect("proxy"), call(**ARGS)
    calendar.transport = Twice(allow=[HOST])
    with pytest.raises(UnknownOutcome, match="412"):
        await calendar.create(made, **ARGS)
    assert await calendar.create_happened(made) == Applied({"id": _id_of("k1")})
    event = await calendar.get(_id_of("k1"))
    change = {"id": event["id"], "etag": event["etag"], "title": "Late"}
    assert await calendar.update(call("update", "k2", **change), **change) == {"id": event["id"]}
    gone = {"id": event["id"], "etag": (await calendar.get(event["id"]))["etag"]}
    with pytest.raises(UnknownOutcome, match="404"):
        await calendar.delete(call("delete", "k3", **gone), **gone)
    assert await calendar.delete_happened(call("delete", "k3", **gone)) == Applied()


async def test_a_cancelled_event_was_made(server: CalendarServer) -> None:
    """L5: what a person cancelled since is not made anew."""
    calendar, made = server.connect("cancelled"), call(**ARGS)
    await calendar.create(made, **ARGS)
    (text,) = server.texts("cancelled")
    gone = text.replace("SUMMARY:", "STATUS:CANCELLED\nSUMMARY:")
    assert server.ask("PUT", f"cancelled/{_id_of('k1')}.ics", gone)[0] in (201, 204)
    assert isinstance(await calendar.create_happened(made), Applied)
    assert (await calendar.get(_id_of("k1")))["status"] == "cancelled"


async def test_a_change_is_found_by_its_key_and_never_writes_over(server: CalendarServer) -> None:
    """L5: its key stands in the event; a version that is gone refuses it, and is unsure later."""
    calendar = server.connect("changed")
    own = (await make(calendar))["id"]
    old = (await calendar.get(own))["etag"]
    change = call("update", "k2", id=own, etag=old, title="B")
    assert await calendar.update_happened(change) == NotApplied()
    await calendar.update(change, **change.args)
    assert await calendar.update_happened(change) == Applied({"id": own})
    with pytest.raises(Refused, match="another version"):
        await calendar.update(change, **change.args)
    assert isinstance(await calendar.update_happened(replace(change, key="k3")), Unsure)
    for wrong in ({"start": ARGS["start"]}, {"title": ""}, {"title": "x" * 201}):
        with pytest.raises(Refused):
            await calendar.update(change, id=own, etag=old, **wrong)


WEEKLY = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//x//y//EN
BEGIN:VEVENT
UID:weekly
DTSTAMP:20260101T000000Z
SUMMARY:Weekly
DTSTART;TZID=Europe/Berlin:20260320T090000
DTEND;TZID=Europe/Berlin:20260320T093000
RRULE:FREQ=WEEKLY;UNTIL=20260403T070000Z
EXDATE;TZID=Europe/Berlin:20260327T090000
END:VEVENT
END:VCALENDAR
""".replace("\n", "\r\n")


async def test_a_recurring_event_keeps_its_wall_time(server: CalendarServer) -> None:
    """Law 3: nine o'clock stays nine when the clocks change; what was taken out stays out."""
    calendar = server.connect("weekly")
    assert server.ask("PUT", "weekly/weekly.ics", WEEKLY)[0] == 201
    found = (await calendar.events("2026-03-01", "2026-05-01")).items
    assert [each["start"] for each in found] == ["2026-03-20T08:00:00Z", "2026-04-03T07:00:00Z"]
    assert found[0]["occurrence"] == "weekly 2026-03-20T08:00:00Z"
    etag = found[0]["etag"]
    with pytest.raises(Refused, match="recurring"):
        await calendar.update(
            call("update"), id="weekly", etag=etag, start=ARGS["start"], end=ARGS["end"]
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": "2026-05-01T12:00:00"},
        {"start": "tomorrow"},
        {"start": "2026-05-01"},
        {"start": "2026-05-01T14:00:00+02:00"},
        {"title": " "},
        {"title": "x" * 201},
        {"description": "x" * 10_001},
    ],
)
async def test_what_is_no_event_is_refused(server: CalendarServer, wrong: Any) -> None:
    """K12, N: before anything is sent."""
    with pytest.raises(Refused):
        await make(server.connect("wrong"), **wrong)
    assert server.texts("wrong") == []


async def test_questions_have_limits(server: CalendarServer) -> None:
    """N, K3: a year at most, and an id that stays in the calendar."""
    calendar = server.connect("limits")
    await calendar.events("2026-01-01T00:00:00Z", "2027-01-02T00:00:00Z")
    with pytest.raises(Refused):
        await calendar.events("2026-01-01T00:00:00Z", "2027-01-02T00:00:01Z")
    for own in ("../other/a", "", "..", "a/b", "x" * 201):
        with pytest.raises(Refused):
            await calendar.get(own)
    calendar._vault = lambda connector, name: "wrong"
    with pytest.raises(AuthNeeded):
        await calendar.get("a")
    with pytest.raises(ConfigError):
        Calendar("https://dav.example.com/a", "ada", timezone="Europe/Atlantis")


# -- A calendar behind an address -----------------------------------------------------------------


async def test_a_secret_address_is_read_and_never_shown(
    server: CalendarServer, tmp_path: Path
) -> None:
    """K4, A5: the secret part of a path is in no URL and no message."""
    with Shop(tmp_path) as shop:
        url = f"http://{HOST}:{shop.port}/cal/***/basic.ics"
        feed: Any = CalendarFeed(url, allow=[HOST], timezone="Europe/Berlin")
        feed._vault = lambda connector, name: "private-123abc"
        shop.next(raw(_ok(WEEKLY)), raw(_ok("no calendar")))
        found = (await feed.events("2026-03-01", "2026-05-01")).items
        assert [each["title"] for each in found] == ["Weekly", "Weekly"]
        with pytest.raises(Transient) as caught:
            await feed.events(*MAY)
        assert "private" not in str(caught.value)
        assert shop.asks[0].path == "/cal/private-123abc/basic.ics"


def _ok(text: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/calendar\r\nContent-Length: {len(text)}"
    return f"{head}\r\n\r\n{text}".encode()


def read(text: str, zone: str = "UTC") -> IcsEvents:
    question = IcsQuestion("2026-01-01T00:00:00+00:00", "2027-01-01T00:00:00+00:00", zone)
    lines = text.strip().splitlines()
    body = ["BEGIN:VCALENDAR", *(each.strip() for each in lines), "END:VCALENDAR"]
    return ics_text.read_events(ask(question, "\r\n".join(body).encode()))


def starts(text: str, zone: str = "UTC") -> list[str]:
    return [each.start for each in read(text, zone).events]


ZONES = {
    "utc": ("DTSTART:20260701T090000Z", "2026-07-01T09:00:00Z"),
    "a name": ("DTSTART;TZID=America/New_York:20260701T090000", "2026-07-01T13:00:00Z"),
    "a name behind a path": (
        "DTSTART;TZID=/x.org/Asia/Tokyo:20260701T090000",
        "2026-07-01T00:00:00Z",
    ),
    "no zone": ("DTSTART:20260701T090000", "2026-07-01T07:00:00Z"),
    "an unknown zone": ("DTSTART;TZID=Nowhere:20260701T090000", "2026-07-01T07:00:00Z"),
    "a day": ("DTSTART;VALUE=DATE:20260701", "2026-07-01"),
    "a zone of its own": ("DTSTART;TZID=Mine:20260701T090000", "2026-07-01T04:00:00Z"),
}
OWN_ZONE = """BEGIN:VTIMEZONE
TZID:Mine
BEGIN:STANDARD
DTSTART:19700101T000000
TZOFFSETFROM:+0500
TZOFFSETTO:+0500
END:STANDARD
END:VTIMEZONE
"""


@pytest.mark.parametrize("what", ZONES)
def test_an_event_lies_where_its_zone_puts_it(what: str) -> None:
    """Law 2: by name, by the calendar's own words, or by the zone of the caller."""
    line, wanted = ZONES[what]
    text = f"{OWN_ZONE}BEGIN:VEVENT\nUID:1\n{line}\nEND:VEVENT"
    assert starts(text, "Europe/Berlin") == [wanted]


def test_the_locked_process_knows_every_zone(server: CalendarServer) -> None:
    """K7: it can open no file, so it has them all before it reads the first byte."""
    readers = server.connect("zones").readers
    question = IcsQuestion("2026-01-01T00:00:00+00:00", "2027-01-01T00:00:00+00:00")
    for zone, hour in (("Africa/Lagos", "08"), ("Asia/Tokyo", "00"), ("America/Lima", "14")):
        line = f"DTSTART;TZID={zone}:20260701T090000"
        text = f"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\n{line}\nEND:VEVENT\nEND:VCALENDAR"
        (event,) = readers.read("ics", ask(question, text.encode()), IcsEvents).events
        assert event.start == f"2026-07-01T{hour}:00:00Z"


RULES = {
    "FREQ=DAILY;COUNT=3": 3,
    "FREQ=WEEKLY;BYDAY=MO,WE;UNTIL=20260131": 8,
    "FREQ=MONTHLY;BYDAY=-1FR": 12,
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29": 0,
    "FREQ=DAILY": 361,
}


@pytest.mark.parametrize("rule", RULES)
def test_recurring_events_are_counted(rule: str) -> None:
    """Law 3: as their rule says, within the year that is asked for."""
    text = f"BEGIN:VEVENT\nUID:1\nDTSTART:20260105T090000Z\nRRULE:{rule}\nEND:VEVENT"
    assert len(starts(text)) == RULES[rule]


def test_an_occurrence_that_was_moved_replaces_the_one_it_was() -> None:
    """Law 3: by its time in the zone of the event, and each has its own name."""
    text = """
        BEGIN:VEVENT
        UID:1
        DTSTART;TZID=Europe/Berlin:20260328T090000
        RRULE:FREQ=DAILY;COUNT=3
        RDATE;TZID=Europe/Berlin:20260405T090000
        END:VEVENT
        BEGIN:VEVENT
        UID:1
        RECURRENCE-ID:20260329T070000Z
        DTSTART;TZID=Europe/Berlin:20260329T150000
        SUMMARY:Moved
        END:VEVENT
    """
    assert starts(text) == [
        "2026-03-28T08:00:00Z",
        "2026-03-29T13:00:00Z",
        "2026-03-30T07:00:00Z",
        "2026-04-05T07:00:00Z",
    ]


HOSTILE = {
    "an endless rule": "DTSTART:19700101T000000Z\nRRULE:FREQ=SECONDLY",
    "a time that is none": "DTSTART:20261399T250000Z",
    "a rule that is none": "DTSTART:20260101T000000Z\nRRULE:FREQ=X",
    "a duration that is none": "DTSTART:20260101T000000Z\nDURATION:X",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_calendar_costs_one_look(server: CalendarServer, what: str) -> None:
    """K7: it is a problem or too much, and never the end of the connector."""
    text = f"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\n{HOSTILE[what]}\nEND:VEVENT\nEND:VCALENDAR"
    question = IcsQuestion("2026-01-01T00:00:00+00:00", "2027-01-01T00:00:00+00:00")
    readers = server.connect("hostile").readers
    readers.bounds = replace(readers.bounds, cpu_s=0.3)
    try:
        said = str(readers.read("ics", ask(question, text.encode()), IcsEvents).problem)
    except Unreadable as error:
        said = str(error)
    finally:
        readers.bounds = replace(readers.bounds, cpu_s=2.0)
    assert "malformed" in said or "to compute" in said
    assert readers.read("ics.one", b"", IcsEvents).problem is not None


def test_no_text_makes_a_second_line() -> None:
    """K12: a title with line ends and separators is one value, and long lines are folded."""
    hostile = "x\r\nEND:VEVENT\nATTENDEE:mailto:a@b.c;,\\" + "ä" * 100
    text = ics_text.fold([f"SUMMARY:{ics_text.escape(hostile)}"])
    assert max(len(each) for each in text.encode().split(b"\r\n")) <= 75
    body = f"BEGIN:VEVENT\r\nUID:1\r\nDTSTART:20260501T000000Z\r\n{text}END:VEVENT"
    calendar = f"BEGIN:VCALENDAR\r\n{body}\r\nEND:VCALENDAR\r\n".encode()
    (event,) = ics_text.read_one(calendar).events
    assert event.title.startswith("x END:VEVENT ATTENDEE:mailto:a@b.c;,\\ä")
    changed = change_event(ask(IcsChange({"LOCATION": ":here"}), calendar))
    assert changed.text == calendar.decode().replace(
        "END:VEVENT\r\nEND", "LOCATION:here\r\nEND:VEVENT\r\nEND"
    )


# -- The exam -------------------------------------------------------------------------------------


class Inline(Calendar):
    """Reads calendars in its own process: a point of the exam would start one of its own."""

    async def _parse(self, reader: str, data: bytes, kind: Any, what: str) -> Any:
        return READERS[reader](data)


def count(server: CalendarServer, prefix: str, word: str = "UID") -> Any:
    return lambda here: sum(word in each for each in server.texts(f"{prefix}{here.name}"))


def examined(server: CalendarServer, folder: Path, kind: Any = Inline, **more: Any) -> Any:
    return examine_network(
        lambda here, port: server.connect(f"c-{folder.name}-{here.name}", port, kind),
        "create",
        ARGS,
        server=(HOST, server.port),
        effects=count(server, f"c-{folder.name}-"),
        folder=folder,
        **more,
    )


def test_a_new_event_passes_the_exam(server: CalendarServer, tmp_path: Path) -> None:
    """L4, L5, K2: every fault of the network, and every status."""
    report = examined(server, tmp_path, replies=WEB_REPLIES)
    lost = "the last bytes of the answer are lost: it said unknown, it was done, reconcile said"
    assert f"{lost} Applied." in str(report)


class Direct(Inline):
    """Reads by another way, so that the faults meet the change itself."""

    real_port = 0

    async def _fetch(self, own: str, timeout_s: float, *, is_delete: bool = False) -> Any:
        here: Any = Calendar(str(replace(self.base, port=self.real_port)), "ada", allow=[HOST])
        here._vault = self._vault
        return await Calendar._fetch(here, own, timeout_s, is_delete=is_delete)


async def test_a_calendar_that_is_gone_says_nothing_of_its_events(server: CalendarServer) -> None:
    """L5: 404 is no yes to a delete, and no no to a create, where the calendar is missing."""
    calendar = server.connect("leaving")
    remove = call("delete", id="a", etag='"1"')
    assert await calendar.delete_happened(remove) == Applied()
    assert await calendar.create_happened(call()) == NotApplied()
    assert server.ask("DELETE", "leaving/")[0] == 200
    for verdict in (await calendar.delete_happened(remove), await calendar.create_happened(call())):
        assert isinstance(verdict, Unsure)
        assert "calendar" in verdict.reason


@pytest.mark.parametrize("tool", ["update", "delete"])
def test_a_change_passes_the_exam(
    tool: str, server: CalendarServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4, L5: the same for what is changed and deleted, by version."""
    monkeypatch.setattr(Direct, "real_port", server.port)
    event = (
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:{own}\r\n"
        "DTSTAMP:20260101T000000Z\r\nDTSTART:20260501T100000Z\r\nSUMMARY:old\r\n"
        "END:VEVENT\r\nEND:VCALENDAR\r\n"
    )
    prefix = f"{tool}-{tmp_path.name}-"

    def reach(here: Path, port: int, kind: Any = Direct) -> Any:
        made = server.connect(f"{prefix}{here.name}", port, kind)
        if not (here / "made").exists():
            (here / "made").touch()
            for own in ("a", "b"):
                server.ask("PUT", f"{prefix}{here.name}/{own}.ics", event.format(own=own))
        return made

    async def etag_of(own: str) -> str:
        calendar = server.connect(f"{prefix}first")
        server.ask("PUT", f"{prefix}first/{own}.ics", event.format(own=own))
        return str((await calendar.get(own))["etag"])

    more = {"title": "new"} if tool == "update" else {}
    first, other = ({"id": own, "etag": asyncio.run(etag_of(own)), **more} for own in ("a", "b"))
    left = count(server, prefix)

    report = examine_network(
        reach,
        tool,
        first,
        other_args=other,
        server=(HOST, server.port),
        effects=count(server, prefix, "SUMMARY:new") if more else lambda here: 2 - left(here),
        folder=tmp_path,
        replies=WEB_REPLIES[::4],
        asking=partial(reach, kind=Inline),
    )
    assert "reconcile said Applied" in str(report)
