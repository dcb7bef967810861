"""Reads and changes calendars: events of iCalendar, recurring ones expanded, times in UTC.

Law 1: a calendar is written by strangers. A host runs this in a locked process (K7).
Law 2: an event lies where its own time zone puts it: a name of the zone database, a zone that the
       calendar describes itself, UTC, or the zone of the caller where the event names none.
Law 3: a recurring event is counted in the wall time of its zone, and only within the time that is
       asked for. A rule that never ends costs the processor time of one look.
Law 4: a change leaves every line that it does not concern as it was.
"""

from __future__ import annotations

import io
import re
import zoneinfo
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final
from xml.parsers import expat

import msgspec
from dateutil import rrule, tz

from duly.connectors.mail import plain
from duly.connectors.xml_text import XmlRefused, local_name, read_tree, text_at

SEPARATOR: Final = b"\0"
COMPONENTS_MAX: Final = 20_000
OCCURRENCES_MAX: Final = 1000
TEXT_CHARS_MAX: Final = 10_000
TITLE_CHARS_MAX: Final = 200
FOLD_BYTES: Final = 73
PARAMETER: Final = re.compile(r';([A-Za-z0-9-]+)=("[^"]*"|[^;:"]*)')
NAME: Final = re.compile(r"[A-Za-z0-9-]+")
DURATION: Final = re.compile(
    r"([+-])?P(?:(\d{1,4})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?"
)
# Python itself keeps eight zones, and a locked process can open no other.
ZONES: Final[dict[str, zoneinfo.ZoneInfo]] = {}
UNTIL: Final = re.compile(r"(?i)(UNTIL=)(\d{8})(?:T(\d{6})(Z?))?")


@dataclass(frozen=True, slots=True)
class IcsQuestion:
    """Which time is asked for, as ISO 8601 in UTC, and the zone of events that name none."""

    start: str
    end: str
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class IcsEvent:
    """One occurrence of an event; times in UTC, or dates where it lasts whole days."""

    uid: str
    start: str
    end: str
    title: str = ""
    location: str = ""
    description: str = ""
    status: str = ""
    all_day: bool = False
    recurs: bool = False
    key: str = ""
    href: str = ""
    etag: str = ""


@dataclass(frozen=True, slots=True)
class IcsEvents:
    """The events of a calendar, in the order of their times, or what is wrong with it."""

    events: tuple[IcsEvent, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class IcsChange:
    """What is written in place of the lines of an event; the first is its key."""

    lines: dict[str, str]


@dataclass(frozen=True, slots=True)
class IcsText:
    """A calendar as text, or what is wrong with it."""

    text: str = ""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    parameters: dict[str, str]
    value: str


@dataclass(slots=True)
class _Component:
    name: str
    lines: list[_Line] = field(default_factory=list)
    inside: list[_Component] = field(default_factory=list)

    def first(self, name: str) -> _Line | None:
        return next((each for each in self.lines if each.name == name), None)

    def text(self, name: str, most: int = TITLE_CHARS_MAX) -> str:
        found = self.first(name)
        return "" if found is None else _shown(_unescape(found.value), most)


class _Unread(Exception):
    """It is no calendar."""


def ask(question: object, data: bytes) -> bytes:
    """Put a question before the calendar it is about."""
    return msgspec.json.encode(question) + SEPARATOR + data


def read_events(asked: bytes) -> IcsEvents:
    """Read the events of a calendar that touch a time."""
    said, _, data = asked.partition(SEPARATOR)
    question = msgspec.json.decode(said, type=IcsQuestion)
    return _gather(lambda: _events(data, question))


def read_report(asked: bytes) -> IcsEvents:
    """Read the events that a CalDAV server answers with, each with its address and version."""
    said, _, data = asked.partition(SEPARATOR)
    question = msgspec.json.decode(said, type=IcsQuestion)

    def find() -> Iterator[IcsEvent]:
        for each in read_tree(data):
            if local_name(each) != "response":
                continue
            href = text_at(each, "href")
            for status in each:
                if local_name(status) == "propstat" and text_at(status, "prop", "calendar-data"):
                    etag = text_at(status, "prop", "getetag")
                    calendar = text_at(status, "prop", "calendar-data").encode()
                    for event in _events(calendar, question):
                        yield replace(event, href=href, etag=etag)

    return _gather(find)


def read_one(data: bytes) -> IcsEvents:
    """Read the one event of an object, at its first time, whenever that is."""

    def find() -> Iterator[IcsEvent]:
        for master, _ in _grouped(_parse(data)).values():
            if master is not None:
                yield _event(master, _zones(data), UTC)[0]

    return _gather(find)


def change_event(asked: bytes) -> IcsText:
    """Put other lines into the one event of an object (law 4)."""
    said, _, data = asked.partition(SEPARATOR)
    change = msgspec.json.decode(said, type=IcsChange)
    inside: list[str] = []
    written: list[str] = []
    changed = 0
    for line in _unfold(data):
        name = re.split("[;:]", line, maxsplit=1)[0].upper()
        if name == "BEGIN":
            inside.append(line[6:].strip().upper())
        if inside == ["VCALENDAR", "VEVENT"] and name in change.lines:
            continue
        if name == "END":
            if inside == ["VCALENDAR", "VEVENT"]:
                written += [f"{each}{value}" for each, value in change.lines.items() if value]
                changed += 1
            if inside:
                inside.pop()
        written.append(line)
    if changed != 1:
        return IcsText(problem=f"it holds {changed} events, and one is changed at a time")
    return IcsText(fold(written))


def fold(lines: Iterable[str]) -> str:
    """Write lines as a calendar does: none longer than 75 bytes, each ended by CR LF."""
    made: list[str] = []
    for line in lines:
        rest = line
        while len(rest.encode()) > FOLD_BYTES:
            cut = FOLD_BYTES
            while len(rest[:cut].encode()) > FOLD_BYTES:
                cut -= 1
            made.append(rest[:cut])
            rest = f" {rest[cut:]}"
        made.append(rest)
    return "".join(f"{each}\r\n" for each in made)


def escape(text: str) -> str:
    """Write a text so that it is one value on one line (K12)."""
    kept = "".join(
        each for each in text.replace("\r\n", "\n") if each == "\n" or each.isprintable()
    )
    return re.sub(r"([\\;,])", r"\\\1", kept).replace("\n", "\\n")


def warm_up() -> None:
    """Load every zone, and what the readers import late: a locked process opens nothing."""
    for each in zoneinfo.available_timezones():
        with suppress(ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
            ZONES[each] = zoneinfo.ZoneInfo(each)
    calendar = (
        b"BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nTZID:x\nBEGIN:STANDARD\nDTSTART:19700101T000000\n"
        b"RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\n"
        b"TZOFFSETFROM:+0200\nTZOFFSETTO:+0100\nEND:STANDARD\nEND:VTIMEZONE\nBEGIN:VEVENT\nUID:1\n"
        b"DTSTART;TZID=x:20260101T090000\nRRULE:FREQ=DAILY;COUNT=2\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    asked = ask(IcsQuestion("2026-01-01T00:00:00+00:00", "2026-02-01T00:00:00+00:00"), calendar)
    read_events(asked)
    read_report(asked)
    read_one(calendar)
    change_event(ask(IcsChange({"SUMMARY": ":x"}), calendar))


# -- Within ---------------------------------------------------------------------------------------


def _gather(find: Any) -> IcsEvents:
    try:
        found = [*find()]
    except (_Unread, XmlRefused) as error:
        return IcsEvents(problem=str(error))
    except (ValueError, OverflowError, expat.ExpatError, KeyError, TypeError) as error:
        return IcsEvents(problem=f"it is malformed ({plain(str(error), TITLE_CHARS_MAX)})")
    found.sort(key=lambda each: (each.start, each.uid))
    more = len(found) - OCCURRENCES_MAX
    said = f"{more} more events are left out." if more > 0 else None
    return IcsEvents(tuple(found[:OCCURRENCES_MAX]), said)


def _unfold(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    return [each for each in re.sub(r"\r?\n[ \t]", "", text).splitlines() if each.strip()]


def _parse(data: bytes) -> _Component:
    root = _Component("")
    stack, count = [root], 0
    for line in _unfold(data):
        read = _read_line(line)
        if read is None:
            continue
        if read.name == "BEGIN":
            count += 1
            if count > COMPONENTS_MAX or len(stack) > 20:
                raise _Unread(f"it has more than {COMPONENTS_MAX} parts")
            made = _Component(read.value.strip().upper())
            stack[-1].inside.append(made)
            stack.append(made)
        elif read.name == "END":
            if len(stack) > 1:
                stack.pop()
        else:
            stack[-1].lines.append(read)
    calendar = next((each for each in root.inside if each.name == "VCALENDAR"), None)
    if calendar is None:
        raise _Unread("it is no calendar")
    return calendar


def _read_line(line: str) -> _Line | None:
    found = NAME.match(line)
    if found is None:
        return None
    at, parameters = found.end(), {}
    while (more := PARAMETER.match(line, at)) is not None:
        parameters[more[1].upper()] = more[2].strip('"')
        at = more.end()
    return _Line(found[0].upper(), parameters, line[at + 1 :]) if line[at : at + 1] == ":" else None


def _grouped(calendar: _Component) -> dict[str, tuple[_Component | None, list[_Component]]]:
    """Return each event by its id: what it is, and what was changed of single occurrences."""
    found: dict[str, tuple[_Component | None, list[_Component]]] = {}
    for each in calendar.inside:
        if each.name != "VEVENT" or each.first("DTSTART") is None:
            continue
        uid = each.text("UID", 500)
        master, changed = found.get(uid, (None, []))
        if each.first("RECURRENCE-ID") is not None:
            changed = [*changed, each]
        else:
            master = master or each
        found[uid] = (master, changed)
    return found


def _events(data: bytes, question: IcsQuestion) -> Iterator[IcsEvent]:
    start, end = datetime.fromisoformat(question.start), datetime.fromisoformat(question.end)
    zones, own = _zones(data), _zone(question.timezone) or UTC
    for master, changed in _grouped(_parse(data)).values():
        apart = {_moment(each.first("RECURRENCE-ID"), zones, own)[0]: each for each in changed}
        for each in changed:
            yield from _within(*_event(each, zones, own), start, end, own)
        if master is None:
            continue
        event, at, length = _event(master, zones, own)
        if master.first("RRULE") is None and master.first("RDATE") is None:
            yield from _within(event, at, length, start, end, own)
            continue
        for moment in _occurrences(master, at, length, (start, end), zones, own):
            if moment not in apart:
                again = _at(replace(event, recurs=True), moment, length)
                yield from _within(again, moment, length, start, end, own)


def _within(
    event: IcsEvent, at: datetime, length: timedelta, start: datetime, end: datetime, own: tzinfo
) -> Iterator[IcsEvent]:
    first = at.replace(tzinfo=own) if at.tzinfo is None else at
    if first < end and (first + length > start or first >= start):
        yield event


def _occurrences(
    master: _Component,
    at: datetime,
    length: timedelta,
    asked: tuple[datetime, datetime],
    zones: dict[str, tzinfo],
    own: tzinfo,
) -> Iterator[datetime]:
    """Yield when a recurring event begins, within the time asked for (law 3)."""
    zone = at.tzinfo
    local = at.replace(tzinfo=None)
    rules = rrule.rruleset()
    for each in master.lines:
        if each.name == "RRULE":
            until = UNTIL.sub(lambda found: _local_until(found, zone or own), each.value)
            rules.rrule(rrule.rrulestr(until, dtstart=local))  # type: ignore[arg-type]
        elif each.name in ("RDATE", "EXDATE"):
            for value in each.value.split(","):
                moment, _ = _moment(replace(each, value=value.split("/")[0]), zones, own)
                shown = moment.astimezone(zone) if moment.tzinfo and zone else moment
                add = rules.rdate if each.name == "RDATE" else rules.exdate
                add(shown.replace(tzinfo=None))
    if master.first("RRULE") is None:
        rules.rdate(local)
    edges = [each.astimezone(zone or own).replace(tzinfo=None) for each in asked]
    for found, moment in enumerate(rules.xafter(edges[0] - length - timedelta(days=1), inc=True)):
        if moment > edges[1] or found >= OCCURRENCES_MAX:
            return
        yield moment.replace(tzinfo=zone)


def _local_until(found: re.Match[str], zone: tzinfo) -> str:
    """Write the end of a rule in the wall time of the event."""
    if found[3] is None:
        return f"{found[1]}{found[2]}T235959"
    until = datetime.strptime(f"{found[2]}T{found[3]}", "%Y%m%dT%H%M%S")  # noqa: DTZ007
    if found[4]:
        until = until.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)
    return f"{found[1]}{until:%Y%m%dT%H%M%S}"


def _event(
    each: _Component, zones: dict[str, tzinfo], own: tzinfo
) -> tuple[IcsEvent, datetime, timedelta]:
    """Read an event; return also when it begins, and how long it lasts."""
    at, is_day = _moment(each.first("DTSTART"), zones, own)
    length = timedelta(days=1) if is_day else timedelta(0)
    if (last := each.first("DTEND")) is not None:
        length = max(timedelta(0), _moment(last, zones, own)[0] - at)
    elif (lasts := each.first("DURATION")) is not None:
        length = _duration(lasts.value)
    event = IcsEvent(
        uid=each.text("UID", 500),
        start="",
        end="",
        title=each.text("SUMMARY"),
        location=each.text("LOCATION", 500),
        description=each.text("DESCRIPTION", TEXT_CHARS_MAX),
        status=each.text("STATUS", 50).lower(),
        all_day=is_day,
        recurs=any(each.first(name) for name in ("RRULE", "RDATE", "RECURRENCE-ID")),
        key=each.text("X-DULY-KEY", 500),
    )
    return _at(event, at, length), at, length


def _at(event: IcsEvent, at: datetime, length: timedelta) -> IcsEvent:
    """Return an event at a time; what lasts in wall time lasts so over a change of the clocks."""
    end = at + length
    if event.all_day:
        return replace(event, start=f"{at:%Y-%m-%d}", end=f"{end:%Y-%m-%d}")
    return replace(event, start=_utc(at), end=_utc(end))


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _moment(line: _Line | None, zones: dict[str, tzinfo], own: tzinfo) -> tuple[datetime, bool]:
    """Read a time, and whether it is a day; a day has no zone."""
    if line is None:
        raise ValueError("an event has no time")
    text = line.value.strip()
    if len(text) == 8:
        day = date(int(text[:4]), int(text[4:6]), int(text[6:]))
        return datetime.combine(day, time()), True
    at = datetime.strptime(text[:15], "%Y%m%dT%H%M%S")  # noqa: DTZ007
    if text.endswith("Z"):
        return at.replace(tzinfo=UTC), False
    name = line.parameters.get("TZID", "")
    return at.replace(tzinfo=_zone(name) or zones.get(name) or own), False


def _zone(name: str) -> tzinfo | None:
    """Find a zone of the database; some programs put a path before its name."""
    for each in (name, "/".join(name.rsplit("/", 2)[-2:])):
        with suppress(ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
            return ZONES.get(each) or (zoneinfo.ZoneInfo(each) if each else None)
    return None


def _zones(data: bytes) -> dict[str, tzinfo]:
    """Read the zones that a calendar describes itself."""
    lines, inside = [], False
    for line in _unfold(data):
        inside = inside or line.upper().startswith("BEGIN:VTIMEZONE")
        if inside:
            lines.append(line)
        inside = inside and not line.upper().startswith("END:VTIMEZONE")
    if not lines:
        return {}
    try:
        found = tz.tzical(io.StringIO("\n".join(lines)))
        return {str(name): zone for name in [*found.keys()] if (zone := found.get(name))}
    except (ValueError, TypeError, AttributeError):
        return {}


def _duration(text: str) -> timedelta:
    found = DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError("a duration is malformed")
    weeks, days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[1:])
    length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return timedelta(0) if found[1] == "-" else length


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] in "nN" else found[1], text)


def _shown(text: str, most: int) -> str:
    if most < TEXT_CHARS_MAX:
        return plain(text, most)
    return "".join(each for each in text[:most] if each == "\n" or each.isprintable())
