"""Sheets, Calendar and Drive of Google.

Sheets: https://developers.google.com/workspace/sheets/api/reference/rest
Calendar: https://developers.google.com/workspace/calendar/api/v3/reference/events
Drive: https://developers.google.com/workspace/drive/api/reference/rest/v3/files
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, Final

from duly.testing.doubles.base import Rejected, ServiceAsk, ServiceDouble, ServiceReply, route
from duly.testing.doubles.google_mail import AUTH, PLAIN, page_of
from duly.testing.doubles.shape import OneOf, TextOf, misfit, needed

BOOK: Final = "/v4/spreadsheets/{book}"
SHEETS: Final = (f"{AUTH}spreadsheets",)
SHEETS_READ: Final = (*SHEETS, f"{AUTH}spreadsheets.readonly")
EVENTS: Final = "/calendar/v3/calendars/{calendar}/events"
CALENDAR: Final = (f"{AUTH}calendar.events",)
CALENDAR_READ: Final = (*CALENDAR, f"{AUTH}calendar.events.readonly")
DRIVE: Final = (f"{AUTH}drive.file", f"{AUTH}drive")
DRIVE_READ: Final = (*DRIVE, f"{AUTH}drive.readonly")
CELL_CHARS_MAX: Final = 50_000
PROPERTY_BYTES_MAX: Final = 124  # of the name and the value of one property
UPLOAD_BYTES_MAX: Final = 5 * 1024 * 1024
RANGE: Final = re.compile(r"'((?:[^']|'')+)'!([A-Z]+)([0-9]+)(?::([A-Z]+)([0-9]*))?")
EVENT_ID: Final = re.compile(r"[a-v0-9]{5,1024}")
TIME: Final = {
    "dateTime": OneOf((TextOf(40), type(None))),
    "date": OneOf((TextOf(10), type(None))),
    "timeZone": str,
}
EVENT: Final = {
    "id": TextOf(1024),
    "summary": str,
    "description": TextOf(8192),
    "location": str,
    "start": TIME,
    "end": TIME,
    "extendedProperties": {"private": None, "shared": None},
}
CELL: Final = OneOf((TextOf(CELL_CHARS_MAX), int, float, bool))
VALUE_RANGE: Final = {"range": str, "majorDimension": str, "values": needed([[CELL]])}
FILE: Final = {
    "name": TextOf(32_767),
    "mimeType": str,
    "parents": [str],
    "appProperties": None,
    "properties": None,
    "description": str,
}


def new_office() -> dict[str, Any]:
    """Return an empty account."""
    return {"books": {}, "events": {}, "files": {}, "bytes": {}}


class SheetsRoutes(ServiceDouble):
    """Spreadsheets: each is sheets by their titles, each a list of rows."""

    def put_sheet(self, account: str, book: str, title: str, rows: list[list[Any]]) -> None:
        """Let there be a sheet of 26 columns and 1,000 rows."""
        with self._door:
            self.account(account)["books"].setdefault(book, {})[title] = [[*each] for each in rows]

    @route("GET", BOOK, scopes=SHEETS_READ, query=(*PLAIN, "includeGridData", "ranges"))
    def book(self, ask: ServiceAsk, book: str) -> ServiceReply:
        """Tell the sheets and their sizes."""
        sheets = [
            {
                "properties": {
                    "title": title,
                    "gridProperties": {"rowCount": max(1000, len(rows)), "columnCount": 26},
                }
            }
            for title, rows in _book(ask, book).items()
        ]
        return ServiceReply({"sheets": sheets})

    @route(
        "GET",
        f"{BOOK}/values/{{place}}",
        scopes=SHEETS_READ,
        query=(*PLAIN, "majorDimension", "valueRenderOption", "dateTimeRenderOption"),
    )
    def values(self, ask: ServiceAsk, book: str, place: str) -> ServiceReply:
        """Return cells; empty ones at the end of a row, and empty rows at the end, are left out."""
        rows, (first, top, last, bottom) = _cells(ask, book, place)
        found = [_trimmed([*row[first - 1 : last]]) for row in rows[top - 1 : bottom]]
        while found and not found[-1]:
            found.pop()
        said = f"{place}{bottom}" if place[-1].isalpha() else place
        answer: dict[str, Any] = {"range": said, "majorDimension": "ROWS"}
        return ServiceReply({**answer, "values": found} if found else answer)

    @route(
        "POST",
        f"{BOOK}/values/{{place}}:append",
        scopes=SHEETS,
        query=(*PLAIN, "valueInputOption", "insertDataOption", "includeValuesInResponse"),
    )
    def append(self, ask: ServiceAsk, book: str, place: str) -> ServiceReply:
        """Write rows below the last one of the table."""
        body = self.json_of(ask, VALUE_RANGE)
        _option(ask.query.get("valueInputOption"))
        rows, _ = _cells(ask, book, place)
        while rows and not _trimmed([*rows[-1]]):
            rows.pop()
        rows += [[*each] for each in body["values"]]
        ask.account["changes"] += 1
        updates = {"updatedRange": f"A{len(rows)}", "updatedRows": len(body["values"])}
        return ServiceReply({"spreadsheetId": book, "updates": updates})

    @route("POST", f"{BOOK}/values:batchUpdate", scopes=SHEETS, query=PLAIN)
    def update(self, ask: ServiceAsk, book: str) -> ServiceReply:
        """Write cells at several places, all or none."""
        shape = {"valueInputOption": needed(str), "data": needed([VALUE_RANGE])}
        body = self.json_of(ask, shape)
        _option(body["valueInputOption"])
        places = [(_cells(ask, book, each["range"]), each["values"]) for each in body["data"]]
        count = 0
        for (rows, (first, top, _, _)), values in places:
            for down, line in enumerate(values):
                for right, value in enumerate(line):
                    _put(rows, top - 1 + down, first - 1 + right, value)
                    count += 1
        ask.account["changes"] += 1
        return ServiceReply({"spreadsheetId": book, "totalUpdatedCells": count})


class CalendarRoutes(ServiceDouble):
    """Events of calendars."""

    @route(
        "GET",
        EVENTS,
        scopes=CALENDAR_READ,
        query=(
            *PLAIN,
            *("timeMin", "timeMax", "singleEvents", "orderBy", "maxResults", "pageToken"),
        ),
    )
    def events(self, ask: ServiceAsk, calendar: str) -> ServiceReply:
        """List events; those that were cancelled are left out."""
        if ask.query.get("orderBy") == "startTime" and ask.query.get("singleEvents") != "true":
            raise Rejected(400, "badRequest", "The requested ordering is not available.")
        lower, upper = (_bound(ask, name) for name in ("timeMin", "timeMax"))
        found = [
            each
            for each in _calendar(ask, calendar)
            if each["status"] != "cancelled"
            and (lower is None or _at(each, "end") > lower)
            and (upper is None or _at(each, "start") < upper)
        ]
        page = page_of(ask, sorted(found, key=lambda each: _at(each, "start")), "items")
        return ServiceReply({"kind": "calendar#events", "items": [], **page})

    @route("GET", f"{EVENTS}/{{own}}", scopes=CALENDAR_READ, query=PLAIN)
    def event(self, ask: ServiceAsk, calendar: str, own: str) -> ServiceReply:
        """Show one event, also a cancelled one."""
        return ServiceReply(_event(ask, calendar, own))

    @route("POST", EVENTS, scopes=CALENDAR, query=(*PLAIN, "sendUpdates"))
    def insert(self, ask: ServiceAsk, calendar: str) -> ServiceReply:
        """Make an event; an id that is taken is rejected."""
        body = self.json_of(ask, {**EVENT, "start": needed(TIME), "end": needed(TIME)})
        own = body.get("id") or f"made{len(ask.account['events'])}"
        if not EVENT_ID.fullmatch(own):
            raise Rejected(400, "invalid", "Invalid resource id value.")
        if (calendar, own) in ask.account["events"]:
            raise Rejected(409, "duplicate", "The requested identifier already exists.")
        _check_times(body)
        made = {**body, "id": own, "status": "confirmed", "etag": '"1"'}
        ask.account["events"][calendar, own] = made
        ask.account["changes"] += 1
        return ServiceReply(made)

    @route("PATCH", f"{EVENTS}/{{own}}", scopes=CALENDAR, query=(*PLAIN, "sendUpdates"))
    def patch(self, ask: ServiceAsk, calendar: str, own: str) -> ServiceReply:
        """Change an event, of the version that the request names."""
        body = self.json_of(ask, EVENT)
        found = _event(ask, calendar, own)
        if ask.headers.get("if-match", found["etag"]) != found["etag"]:
            raise Rejected(412, "conditionNotMet", "Precondition Failed")
        number = int(found["etag"].strip('"')) + 1
        found |= {**body, "etag": f'"{number}"'}
        ask.account["changes"] += 1
        return ServiceReply(found)


class DriveRoutes(ServiceDouble):
    """Files, their descriptions and their bytes."""

    def put_file(self, account: str, name: str, data: bytes, kind: str = "text/plain") -> str:
        """Let there be a file that another program made; return its id."""
        with self._door:
            return str(_make(self.account(account), {"name": name, "mimeType": kind}, data)["id"])

    @route(
        "GET",
        "/drive/v3/files",
        scopes=DRIVE_READ,
        query=(*PLAIN, "q", "orderBy", "pageSize", "pageToken", "spaces"),
    )
    def files(self, ask: ServiceAsk) -> ServiceReply:
        """List files; of the language of searches it knows the terms that it names."""
        tests = [_term(each) for each in _split(ask.query.get("q", ""))]
        found = [each for each in ask.account["files"].values() if all(t(each) for t in tests)]
        order = ask.query.get("orderBy", "")
        if order not in ("", "modifiedTime", "modifiedTime desc"):
            raise Rejected(400, "badRequest", "The order is not known here.")
        if order:
            # Of files of one moment the later one is the newer.
            found.sort(key=lambda each: str(each.get("modifiedTime", "")))
        if order.endswith(" desc"):
            found.reverse()
        page = page_of(ask, found, "files")
        return ServiceReply({"files": [], "incompleteSearch": False, **page})

    @route("GET", "/drive/v3/files/{own}", scopes=DRIVE_READ, query=PLAIN)
    def file(self, ask: ServiceAsk, own: str) -> ServiceReply:
        """Describe a file, or return its bytes."""
        found = _file(ask, own)
        if ask.query.get("alt") != "media":
            return ServiceReply(found)
        if found["mimeType"].startswith("application/vnd.google-apps."):
            raise Rejected(403, "fileNotDownloadable", "Use Export with Docs Editors files.")
        return ServiceReply(ask.account["bytes"][own], headers={"Content-Type": found["mimeType"]})

    @route("GET", "/drive/v3/files/{own}/export", scopes=DRIVE_READ, query=(*PLAIN, "mimeType"))
    def export(self, ask: ServiceAsk, own: str) -> ServiceReply:
        """Return a document of Google's own in another form."""
        _file(ask, own)
        kind = ask.query["mimeType"]
        return ServiceReply(ask.account["bytes"][own], headers={"Content-Type": kind})

    @route("POST", "/upload/drive/v3/files", scopes=DRIVE, query=(*PLAIN, "uploadType"))
    def upload(self, ask: ServiceAsk) -> ServiceReply:
        """Make a file of its description and its bytes."""
        if ask.query.get("uploadType") != "multipart" or ask.content_type != "multipart/related":
            raise Rejected(400, "badRequest", "Malformed multipart body.")
        boundary = ask.headers["content-type"].partition("boundary=")[2].encode()
        parts = ask.body.split(b"--" + boundary)
        if len(parts) != 4 or parts[3].strip() != b"--":
            raise Rejected(400, "badContent", "Malformed multipart body.")
        head, _, said = parts[1].partition(b"\r\n\r\n")
        kind, _, data = parts[2].partition(b"\r\n\r\n")
        if b"application/json" not in head:
            raise Rejected(400, "badContent", "Media type is not supported.")
        about = json.loads(said)
        if (why := misfit(about, FILE)) is not None:
            raise Rejected(400, "badRequest", why)
        for name, value in about.get("appProperties", {}).items():
            if len(f"{name}{value}".encode()) > PROPERTY_BYTES_MAX:
                raise Rejected(403, "propertyTooLong", "The property is too long.")
        data = data.removesuffix(b"\r\n")
        if len(data) > UPLOAD_BYTES_MAX:
            raise Rejected(413, "uploadTooLarge", "The file is too large.")
        named = kind.strip().partition(b":")[2].strip().decode()
        ask.account["changes"] += 1
        return ServiceReply(_make(ask.account, {"mimeType": named, **about}, data))


def _book(ask: ServiceAsk, book: str) -> dict[str, list[list[Any]]]:
    found: dict[str, list[list[Any]]] | None = ask.account["books"].get(book)
    if found is None:
        raise Rejected(404, "notFound", "Requested entity was not found.")
    return found


def _cells(ask: ServiceAsk, book: str, place: str) -> tuple[list[list[Any]], tuple[int, ...]]:
    """Return the rows of a sheet, and the corners of a range in it."""
    parts = RANGE.fullmatch(place)
    rows = None if parts is None else _book(ask, book).get(parts[1].replace("''", "'"))
    if parts is None or rows is None:
        raise Rejected(400, "badRequest", f"Unable to parse range: {place}")
    first, top = _number(parts[2]), int(parts[3])
    grid = max(1000, len(rows))
    last = _number(parts[4] or parts[2])
    bottom = int(parts[5] or (parts[3] if parts[4] is None else grid))  # `D2:D`: to its end
    if last > 26 or bottom > grid:
        raise Rejected(400, "badRequest", f"Range ({place}) exceeds grid limits.")
    return rows, (first, top, last, bottom)


def _number(letters: str) -> int:
    number = 0
    for each in letters:
        number = number * 26 + ord(each) - ord("A") + 1
    return number


def _trimmed(row: list[Any]) -> list[Any]:
    while row and row[-1] == "":
        row.pop()
    return row


def _put(rows: list[list[Any]], down: int, right: int, value: Any) -> None:
    while len(rows) <= down:
        rows.append([])
    while len(rows[down]) <= right:
        rows[down].append("")
    rows[down][right] = value


def _option(given: str | None) -> None:
    if given not in ("RAW", "USER_ENTERED"):
        raise Rejected(400, "badRequest", "'valueInputOption' is required but not specified")


def _calendar(ask: ServiceAsk, calendar: str) -> list[dict[str, Any]]:
    return [each for (home, _), each in ask.account["events"].items() if home == calendar]


def _event(ask: ServiceAsk, calendar: str, own: str) -> dict[str, Any]:
    found: dict[str, Any] | None = ask.account["events"].get((calendar, own))
    if found is None:
        raise Rejected(404, "notFound", "Not Found")
    return found


def _at(event: dict[str, Any], side: str) -> datetime:
    """Return when an event begins or ends; a date is read in UTC, the zone of the calendar."""
    place = event[side]
    found = datetime.fromisoformat(place.get("dateTime") or place["date"])
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _bound(ask: ServiceAsk, name: str) -> datetime | None:
    """Read a bound of a list: a moment with an offset, as RFC 3339 has it."""
    if name not in ask.query:
        return None
    try:
        found = datetime.fromisoformat(ask.query[name])
    except ValueError:
        raise Rejected(400, "badRequest", "Bad Request") from None
    if found.tzinfo is None:
        raise Rejected(400, "badRequest", "Bad Request")
    return found


def _check_times(body: dict[str, Any]) -> None:
    for each in ("start", "end"):
        given = [name for name in ("dateTime", "date") if body[each].get(name)]
        if len(given) != 1:
            raise Rejected(400, "required", f"Missing {each} time.")
    if _at(body, "end") < _at(body, "start"):
        raise Rejected(400, "timeRangeEmpty", "The specified time range is empty.")


def _make(account: dict[str, Any], about: dict[str, Any], data: bytes) -> dict[str, Any]:
    account["count"] += 1
    own = f"file-{account['count']}"
    made = {"trashed": False, "size": str(len(data)), **about, "id": own}
    made["modifiedTime"] = f"2026-01-01T00:00:{account['count'] % 60:02}.000Z"
    account["files"][own], account["bytes"][own] = made, data
    return made


def _file(ask: ServiceAsk, own: str) -> dict[str, Any]:
    found: dict[str, Any] | None = ask.account["files"].get(own)
    if found is None:
        raise Rejected(404, "notFound", f"File not found: {own}.")
    return found


def _split(query: str) -> list[str]:
    """Part the terms of a search; inside of braces `and` parts nothing."""
    return [each for each in re.split(r" and (?![^{]*\})", query) if each]


def _term(text: str) -> Any:
    if text == "trashed = false":
        return lambda each: not each["trashed"]
    if found := re.fullmatch(r"'([A-Za-z0-9_-]+)' in parents", text):
        return lambda each: found[1] in each.get("parents", [])
    if found := re.fullmatch(r"name = '((?:[^'\\]|\\.)*)'", text):
        name = re.sub(r"\\(.)", r"\1", found[1])
        return lambda each: each["name"] == name
    if found := re.fullmatch(r"appProperties has \{ key='(\w+)' and value='(\w+)' \}", text):
        return lambda each: each.get("appProperties", {}).get(found[1]) == found[2]
    raise Rejected(400, "invalid", f"Invalid Value: {text}")
