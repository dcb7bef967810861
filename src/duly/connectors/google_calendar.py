"""One calendar of Google Calendar: events are listed, made and changed.

    [connectors.events]
    use = "google_calendar"
    client_id = "123-abc.apps.googleusercontent.com"
    calendar = "primary"

Law 1: the id of an event is made from the key of its call. So it is found again by asking for that
       id; a cancelled event was made. Google may not see at once that an id is taken, so a call is
       never sent again before it was asked about.
Law 2: a change names the version of the event by its etag, and leaves the mark of its call in a
       property of the event that only this application sees.
Law 3: no person is invited, and no mail is sent: an event has no attendees of ours.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypedDict
from urllib.parse import quote

from duly.connectors.base import Applied, Call, NotApplied, Page, Unsure, Verdict, mutation, read
from duly.connectors.conflict import Theirs
from duly.connectors.google import CLIENT_NEED, Google, made, mark_of, one_segment, text_at
from duly.connectors.json_answer import pick
from duly.connectors.need import Need
from duly.connectors.rest import Paging
from duly.connectors.status import Meaning
from duly.errors import ConfigError, Refused
from duly.rules.value import Json

EVENTS: Final = Paging(items="items", cursor="nextPageToken", parameter="pageToken")
PAGE_EVENTS: Final = 100
TITLE_CHARS_MAX: Final = 1_000
TEXT_CHARS_MAX: Final = 8_000
ID_BYTES: Final = 25  # 40 characters of base32hex
MARK: Final = "duly"
# The id is taken: by this very call, sent before. Whether it was is asked, not guessed (law 1).
INSERTED: Final[Mapping[int, Meaning]] = MappingProxyType({409: Meaning.UNKNOWN})
TRIAL: Final = {
    "title": "Duly: trial",
    "start": "2001-01-01",
    "end": "2001-01-02",
    "description": "Duly made this event to find out whether it is found again. Delete it.",
}


class GoogleEvent(TypedDict):
    """An event as a list returns it; times are as Google writes them, with their offset."""

    id: str
    title: str
    start: str
    end: str
    all_day: bool
    location: str
    description: str
    status: str
    link: str
    etag: str


class MadeGoogleEvent(TypedDict):
    """The result of a change."""

    id: str
    etag: str


class GoogleCalendar(Google):
    """The events of one calendar; `calendar` is its id, or `primary`."""

    name = "google_calendar"
    home = "https://www.googleapis.com"
    base_path = "/calendar/v3"
    scopes = MappingProxyType(
        {
            "read": ("calendar.events.readonly",),
            "create": ("calendar.events",),
            "update": ("calendar.events",),
        }
    )
    needs = (CLIENT_NEED, Need("calendar", "the id of the calendar", "primary", is_required=False))

    def __init__(
        self,
        client_id: str,
        *,
        calendar: str = "primary",
        url: str = "",
        secret: str = "sign_in",
        client_secret: str = "client_secret",
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "google_calendar",
    ) -> None:
        super().__init__(
            client_id,
            url=url,
            secret=secret,
            client_secret=client_secret,
            allow=allow,
            ca=ca,
            name=name,
        )
        if not calendar or not calendar.isprintable() or len(calendar) > 500:
            raise ConfigError("calendar: write the id of a calendar, or primary.")
        self._calendar = calendar
        self._events = f"/calendars/{quote(calendar, safe='')}/events"

    @read
    async def list(self, start: str, end: str, after: str | None = None) -> Page[GoogleEvent]:
        """List the events between two times; a recurring one comes each time, with its own id.

        Of a whole day `start` is a date (`2026-03-01`) and `end` the day after the last. Returns a
        page of {id, title, start, end, all_day, location, description, status, link, etag}.
        """
        self.require("read")
        query: dict[str, Json] = {
            "timeMin": _moment(start, "start"),
            "timeMax": _moment(end, "end"),
            "singleEvents": "true",
            "orderBy": "startTime",
            "maxResults": str(PAGE_EVENTS),
        }
        found = await self.list_page(self._events, EVENTS, query, after=after)
        return Page([_event(each) for each in found.items], **found.names)

    @read(by_id=True)
    async def get(self, id: str) -> GoogleEvent | None:  # noqa: A002  # as every other connector
        """Read one event; nothing if there is none.

        Returns {id, title, start, end, all_day, location, description, status, link, etag}.
        """
        self.require("read")
        found = await self.fetch_one(self._one(id))
        return None if found is None else _event(found)

    @mutation(
        noun="event",
        lag_s=60,
        key_in="id",
        asked="exactly",
        deleted="seen",
        labels={"title": "Title", "start": "Start", "end": "End"},
        editable=("title", "start", "end", "location", "description"),
    )
    async def create(
        self,
        call: Call,
        title: str,
        start: str,
        end: str,
        location: str = "",
        description: str = "",
    ) -> MadeGoogleEvent:
        """Make an event: from a time to a time, with their offsets, or from a date to a date.

        The end is not part of it: one whole day ends on the date after. Returns {id, etag}.
        """
        self.require("create")
        fields = _fields(title, start, end, location, description)
        body = {**fields, "id": _id_of(call.key), **_marked(call)}
        query: dict[str, Json] = {"sendUpdates": "none"}
        answer = await self.change_at(
            call, "POST", self._events, body, query=query, statuses=INSERTED
        )
        return {"id": made(call, answer), "etag": text_at(answer, "etag")}

    @create.reconcile
    async def create_happened(self, call: Call) -> Verdict:
        """Look for the event whose id is made from this very key; a cancelled one was made."""
        own = _id_of(call.key)
        found = await self.look(self._one(own))
        if found is None:
            return NotApplied()
        if pick(found, "id") != own:
            return Unsure("the answer speaks of another event")
        return Applied({"id": own, "etag": text_at(found, "etag")})

    @create.trial
    def create_tried(self) -> dict[str, Json]:
        """Makes one event on 1 January 2001, and looks for it by its id."""
        return {**TRIAL}

    @mutation(
        noun="event",
        lag_s=60,
        key_in="field",
        asked="exactly",
        deleted="seen",
        labels={"id": "Event", "title": "Title", "start": "Start", "end": "End"},
        editable=("title", "start", "end", "location", "description"),
    )
    async def update(
        self,
        call: Call,
        id: str,  # noqa: A002
        etag: str,
        title: str | None = None,
        start: str | None = None,
        end: str | None = None,
        location: str | None = None,
        description: str | None = None,
    ) -> MadeGoogleEvent:
        """Change an event of this version; what is not given stays as it is.

        Returns {id, etag}.
        """
        self.require("update")
        if (start is None) is not (end is None):
            raise Refused("start: give start and end together.")
        body = {**_fields(title, start, end, location, description), **_marked(call)}
        headers = {"If-Match": _version(etag)}
        query: dict[str, Json] = {"sendUpdates": "none"}
        answer = await self.change_at(
            call,
            "PATCH",
            self._one(id),
            body,
            query=query,
            headers=headers,
            look=self.update_happened,
            is_exact=True,
        )
        return {"id": made(call, answer), "etag": text_at(answer, "etag")}

    @update.reconcile
    async def update_happened(self, call: Call) -> Verdict:
        """Look whether the event has the mark of this very call."""
        own, etag = str(call.args["id"]), str(call.args["etag"])
        found = await self.look(self._one(own))
        if found is None:
            return Unsure("the event is not there any more")
        if pick(found, f"extendedProperties.private.{MARK}") == mark_of(call.key):
            return Applied({"id": own, "etag": text_at(found, "etag")})
        if pick(found, "etag") == etag:
            return NotApplied()
        if pick(found, "id") != own or not text_at(found, "etag"):
            return Unsure("the answer shows no event")
        return Theirs("another program has changed the event since")

    def _one(self, own: str) -> str:
        return f"{self._events}/{one_segment(own, 'id')}"

    def _relies_on(self, method: str) -> Json:
        return [str(self.base), self._calendar]


def _id_of(key: str) -> str:
    """Return the id of the event that a call makes (law 1)."""
    digest = sha256(f"duly event {key}".encode()).digest()[:ID_BYTES]
    return base64.b32hexencode(digest).decode().lower()


def _marked(call: Call) -> dict[str, Any]:
    return {"extendedProperties": {"private": {MARK: mark_of(call.key)}}}


def _fields(
    title: str | None,
    start: str | None,
    end: str | None,
    location: str | None,
    description: str | None,
) -> dict[str, Any]:
    """Write what is given as fields of an event."""
    fields: dict[str, Any] = {}
    if title is not None:
        if not title.strip() or len(title) > TITLE_CHARS_MAX:
            raise Refused(f"title: an event has a title of 1 to {TITLE_CHARS_MAX} characters.")
        fields["summary"] = title
    if start is not None and end is not None:
        first, last = _point(start, "start"), _point(end, "end")
        if isinstance(first, datetime) is not isinstance(last, datetime):
            raise Refused("end: start and end are both times, or both dates.")
        if not first < last:
            raise Refused("end: an event ends after it has begun.")
        fields["start"], fields["end"] = _spell(first), _spell(last)
    for name, text in (("location", location), ("description", description)):
        if text is not None:
            if len(text) > TEXT_CHARS_MAX:
                raise Refused(f"{name}: at most {TEXT_CHARS_MAX} characters are written.")
            fields[name] = text
    return fields


def _point(text: str, what: str) -> date | datetime:
    try:
        if len(text) == 10:
            return date.fromisoformat(text)
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise Refused(
            f"{what}: {text[:50]!r} is no time. Write 2026-05-01T09:00:00+02:00, or a date."
        )
    return found


def _spell(point: date | datetime) -> dict[str, str | None]:
    """Write a time; the other way of writing it is taken away, so that an event can change it."""
    if isinstance(point, datetime):
        return {"dateTime": point.isoformat(), "date": None}
    return {"date": point.isoformat(), "dateTime": None}


def _moment(text: str, what: str) -> str:
    """Write one end of the time that is asked for; a date begins in UTC."""
    found = _point(text, what)
    if isinstance(found, datetime):
        return found.isoformat()
    return datetime(found.year, found.month, found.day, tzinfo=UTC).isoformat()


def _version(etag: str) -> str:
    if not 2 <= len(etag) <= 200 or not etag.isascii() or not etag.isprintable():
        raise Refused("etag: give the etag that get or list returned.")
    return etag


def _event(found: Any) -> GoogleEvent:
    start, end = text_at(found, "start.dateTime"), text_at(found, "end.dateTime")
    return {
        "id": text_at(found, "id"),
        "title": text_at(found, "summary"),
        "start": start or text_at(found, "start.date"),
        "end": end or text_at(found, "end.date"),
        "all_day": not start,
        "location": text_at(found, "location"),
        "description": text_at(found, "description"),
        "status": text_at(found, "status"),
        "link": text_at(found, "htmlLink"),
        "etag": text_at(found, "etag"),
    }
