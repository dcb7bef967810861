"""Calendars: events on a CalDAV server, and a calendar behind an address that is only read.

    [connectors.team]
    use = "calendar"
    url = "https://dav.example.com/calendars/ada/team/"
    user = "ada"                # then: duly secret set team password

Law 1: the id of an event is made from the key of its call, and it is made only where none is
       (`If-None-Match: *`). So a call is found again by asking for that very event (L5).
Law 2: a change names the version it is made on (`If-Match`) and writes the key of its call into the
       event. An event that was changed since by another program is never written over.
Law 3: a deletion names the version too. Gone means done, and the same version means not done.
Law 4: what a calendar says is read in a locked process (K7).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, TypedDict, TypeVar
from urllib.parse import unquote, urlsplit

from duly.connectors.base import (
    SEND_S,
    Applied,
    Call,
    NotApplied,
    Page,
    Unsure,
    Verdict,
    mutation,
    read,
)
from duly.connectors.calendar_cell import MODULES, PROGRAM
from duly.connectors.clock import Timed
from duly.connectors.conflict import Theirs, find_own, is_alone
from duly.connectors.event_lines import check_text, check_zone, event_lines, read_time, spell_stamp
from duly.connectors.ics_text import (
    IcsChange,
    IcsEvent,
    IcsEvents,
    IcsQuestion,
    IcsText,
    ask,
    escape,
    fold,
)
from duly.connectors.reader import Readers, ReadingConnector, Unreadable
from duly.connectors.response import HttpResponse
from duly.connectors.rest import FIND_S, READ_S, Auth, Rest
from duly.connectors.status import DELETED, check_proof, raise_for_change, raise_for_read
from duly.connectors.transport import HIDDEN, Credentials
from duly.errors import NotSent, Refused, Transient, UnknownOutcome
from duly.rules.url import Url
from duly.rules.value import Json

T = TypeVar("T")

WINDOW_DAYS_MAX: Final = 366
ID: Final = re.compile(r"[A-Za-z0-9@._-]{1,200}")
ETAG: Final = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{1,200}"')
ICS: Final = "text/calendar; charset=utf-8"
NO_MATCH: Final = 412
TRIAL: Final = "A trial of Duly. Delete it."
NO_CALENDAR: Final = "the calendar itself is not there"
KIND_QUERY: Final = (
    b'<?xml version="1.0"?><D:propfind xmlns:D="DAV:"><D:prop><D:resourcetype/></D:prop>'
    b"</D:propfind>"
)
QUERY: Final = """<?xml version="1.0" encoding="utf-8"?>
<C:calendar-query xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav">
<D:prop><D:getetag/><C:calendar-data/></D:prop>
<C:filter><C:comp-filter name="VCALENDAR"><C:comp-filter name="VEVENT">
<C:time-range start="{start}" end="{end}"/>
</C:comp-filter></C:comp-filter></C:filter>
</C:calendar-query>
"""


class CalendarEvent(TypedDict):
    """An event, or one occurrence of it; times in UTC, or dates where it lasts whole days."""

    id: str
    occurrence: str
    title: str
    start: str
    end: str
    all_day: bool
    location: str
    description: str
    status: str


class StoredEvent(CalendarEvent):
    """An event of a CalDAV server; `etag` is its version."""

    etag: str


class MadeEvent(TypedDict):
    """The result of a change."""

    id: str


class _Reading(ReadingConnector, Timed, Rest):
    """What both kinds of calendars share."""

    _readers: Readers | None = None  # of another program than its parent's
    timezone: str = "UTC"

    @property
    def readers(self) -> Readers:
        """The processes it reads in; none is started before the first calendar."""
        if self._readers is None:
            object.__setattr__(self, "_readers", Readers(PROGRAM, MODULES))
        assert self._readers is not None
        return self._readers

    async def _parse(self, reader: str, data: bytes, kind: Callable[..., T], what: str) -> T:
        try:
            found: T = await self.in_thread(self.readers.read, reader, data, kind)  # type: ignore[arg-type]
        except Unreadable as error:
            raise Refused(f"{what}: the calendar cannot be read: {error}.") from None
        return found

    def _question(self, start: str, end: str) -> IcsQuestion:
        first, last = read_time(start, "start", self.timezone), read_time(end, "end", self.timezone)
        if not timedelta(0) < last - first <= timedelta(days=WINDOW_DAYS_MAX):
            raise Refused(f"end: give a time behind start, at most {WINDOW_DAYS_MAX} days later.")
        return IcsQuestion(first.isoformat(), last.isoformat(), self.timezone)


class Calendar(_Reading):
    """One calendar of a CalDAV server; `timezone` is that of events that name none."""

    name = "calendar"

    def __init__(
        self,
        url: str,
        user: str,
        *,
        secret: str = "password",
        timezone: str = "UTC",
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "calendar",
    ) -> None:
        self.name = name
        self.timezone = check_zone(timezone)
        auth = Auth("basic", secret=secret, user=user)
        super().__init__(url, auth=auth, allow=allow, ca=None if ca is None else Path(ca))

    @read
    async def events(self, start: str, end: str) -> Page[StoredEvent]:
        """List the events between two times, recurring ones each time they come.

        Returns a page of {id, occurrence, title, start, end, all_day, location, description,
        status, etag}.
        """
        question = self._question(start, end)
        times = (datetime.fromisoformat(each) for each in (question.start, question.end))
        first, last = (f"{each:%Y%m%dT%H%M%SZ}" for each in times)
        body = QUERY.format(start=first, end=last).encode()
        headers = {"Depth": "1", "Content-Type": "application/xml; charset=utf-8"}
        make = partial(self._request, "REPORT", self._at(""), headers, body)
        request, response = await self._read_signed(
            lambda: replace(make(), is_query=True), READ_S, self._may_ask
        )
        if not raise_for_read(response, request.shown, self.name):
            raise Refused(f"{request.shown}: there is no such calendar.")
        asked = ask(question, response.body)
        found = await self._parse("ics.report", asked, IcsEvents, request.shown)
        if found.problem is not None and not found.events:
            raise Transient(f"{request.shown}: {found.problem}.")
        items = [_stored(each) for each in found.events]
        return Page(items, has_more=False, problem=found.problem)

    @read(by_id=True)
    async def get(self, id: str) -> StoredEvent | None:  # noqa: A002  # as every other connector
        """Read one event; nothing if there is none.

        Returns {id, occurrence, title, start, end, all_day, location, description, status, etag}.
        """
        found = await self._look(id, READ_S)
        return None if found is None else {**_stored(found[0]), "id": id, "etag": found[1]}

    @mutation(
        noun="event",
        lag_s=60,
        key_in="id",
        asked="exactly",
        deleted="unseen",
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
    ) -> MadeEvent:
        """Make an event: from a time to a time, with their offsets, or from a date to a date.

        Returns {id}.
        """
        own = _id_of(call.key)
        lines = event_lines(title=title, start=start, end=end, location=location)
        lines |= {"DESCRIPTION": f":{escape(check_text(description, 'description'))}"}
        text = fold(
            [
                *("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//duly//calendar//EN", "BEGIN:VEVENT"),
                *(f"UID:{own}", f"X-DULY-KEY:{escape(call.key)}"),
                f"DTSTAMP:{spell_stamp(call.first_sent_at)}",
                *(f"{name}{value}" for name, value in lines.items()),
                *("END:VEVENT", "END:VCALENDAR"),
            ]
        )
        if not await self._put(call, own, text, {"If-None-Match": "*"}):
            # The id is made from the key of this call: it was sent twice on its way, or before.
            raise UnknownOutcome(f"{own}: the server answered 412: it is there already.")
        return {"id": own}

    @create.reconcile
    async def create_happened(self, call: Call) -> Verdict:
        """Look for the event whose id is made from this very key; a cancelled one was made."""
        own = _id_of(call.key)
        found = await self._look(own, FIND_S)
        if found is None:
            return Unsure(NO_CALENDAR) if await self._is_gone() else NotApplied()
        if own != found[0].uid and call.key != found[0].key:
            return Unsure("another event is at the place of this one")
        return Applied({"id": own})

    @create.trial
    def create_tried(self) -> dict[str, Json]:
        """Makes one event on 1 January 2000, and looks for it under its id."""
        return {"title": TRIAL, "start": "2000-01-01", "end": "2000-01-02"}

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
    ) -> MadeEvent:
        """Change an event of this version; what is not given stays as it is.

        Returns {id}.
        """
        lines = {"X-DULY-KEY": f":{escape(call.key)}"}
        lines |= event_lines(title=title, start=start, end=end, location=location)
        if description is not None:
            lines["DESCRIPTION"] = f":{escape(check_text(description, 'description'))}"
        if start is not None or end is not None:
            if start is None or end is None:
                raise Refused("start: give start and end together.")
            lines["DURATION"] = ""
        try:
            before = await self._fetch(id, READ_S)
        except Transient as error:
            raise NotSent(str(error), retry_after_s=error.retry_after_s) from error
        if before is None or before[1] != _version(etag):
            raise Refused(f"{id}: another version is there now, or none.")
        if start is not None:
            event = await self._parse("ics.one", before[0].body, IcsEvents, id)
            if not event.events or event.events[0].recurs:
                raise Refused(f"{id}: the time of a recurring event is not changed here.")
        asked = ask(IcsChange(lines), before[0].body)
        made = await self._parse("ics.change", asked, IcsText, id)
        if made.problem is not None:
            raise Refused(f"{id}: {made.problem}.")
        if not await self._put(call, id, made.text, {"If-Match": _version(etag)}):
            said = f"{id}: another version is there now (412)"
            await find_own(call, self.update_happened, said)
        return {"id": id}

    @update.reconcile
    async def update_happened(self, call: Call) -> Verdict:
        """Look whether the event carries the key of this very call."""
        own, etag = str(call.args["id"]), str(call.args["etag"])
        found = await self._look(own, FIND_S)
        if found is not None and found[0].key == call.key:
            return Applied({"id": own})
        if found is not None and found[1] == _version(etag):
            return NotApplied()
        return Unsure("another program has changed the event since")

    @mutation(
        risk="high",
        noun="event",
        lag_s=60,
        key_in="id",
        asked="exactly",
        deleted="seen",
        labels={"id": "Event", "etag": "Version"},
    )
    async def delete(self, call: Call, id: str, etag: str) -> None:  # noqa: A002
        """Delete an event of this version."""
        make = partial(self._request, "DELETE", self._event(id), {"If-Match": _version(etag)})
        request, response = await self._change_signed(make, SEND_S, DELETED)
        if response.status == NO_MATCH:
            said = f"{request.shown}: another version is there now, or none (412)"
            await find_own(call, self.delete_happened, said)
            return
        raise_for_change(response, request.shown, self.name, is_alone=False, own=DELETED)
        if response.status not in (200, 204):
            raise UnknownOutcome(f"{request.shown}: the server answered {response.status}.")

    @delete.reconcile
    async def delete_happened(self, call: Call) -> Verdict:
        """Look whether the event of this version is still there."""
        found = await self._fetch(str(call.args["id"]), FIND_S, is_delete=True)
        if found is None:
            return Unsure(NO_CALENDAR) if await self._is_gone() else Applied()
        if found[1] == _version(str(call.args["etag"])):
            return NotApplied()
        return Theirs("another version of the event is there now")

    # -- Within -----------------------------------------------------------------------------------

    def _event(self, own: str) -> Url:
        if not ID.fullmatch(own) or set(own) == {"."}:
            raise Refused(f"id: {own[:80]!r} cannot be the id of an event.")
        return self._at(f"/{own}.ics")

    async def _fetch(
        self, own: str, timeout_s: float, *, is_delete: bool = False
    ) -> tuple[HttpResponse, str] | None:
        """Return an event as it is kept, and its version; None if there is none."""
        fresh = {"Cache-Control": "no-cache"}
        make = partial(self._request, "GET", self._event(own), fresh)
        request, response = await self._read_signed(make, timeout_s, lambda url: False)
        if timeout_s == FIND_S:  # a question, which is to prove something
            check_proof(response, request.shown, is_delete=is_delete)
        if not raise_for_read(response, request.shown, self.name):
            return None
        etag = (response.header("etag") or "").strip()
        if not ETAG.fullmatch(etag):
            raise Transient(f"{request.shown}: the server answered without a version.")
        return response, etag

    async def _is_gone(self) -> bool:
        """Tell whether there is no such calendar, so that a missing event says nothing."""
        headers = {"Depth": "0", "Content-Type": "application/xml; charset=utf-8"}
        make = partial(self._request, "PROPFIND", self._at(""), headers, KIND_QUERY)
        request, response = await self._read_signed(
            lambda: replace(make(), is_query=True), FIND_S, lambda url: False
        )
        return not raise_for_read(response, request.shown, self.name)

    async def _look(self, own: str, timeout_s: float) -> tuple[IcsEvent, str] | None:
        found = await self._fetch(own, timeout_s)
        if found is None:
            return None
        event = await self._parse("ics.one", found[0].body, IcsEvents, own)
        if len(event.events) != 1:
            raise Transient(f"{own}: {event.problem or 'it holds no event'}.")
        return event.events[0], found[1]

    async def _put(self, call: Call, own: str, text: str, headers: Mapping[str, str]) -> bool:
        """Write an event; False if the version that is there is not the one that was named."""
        head = {"Content-Type": ICS, **headers}
        make = partial(self._request, "PUT", self._event(own), head, text.encode())
        request, response = await self._change_signed(make, SEND_S)
        if response.status == NO_MATCH:
            return False
        alone = await is_alone(call, "PUT", response, has_key=True)
        raise_for_change(response, request.shown, self.name, is_alone=alone)
        if response.status not in (201, 204):
            raise UnknownOutcome(f"{request.shown}: the server answered {response.status}.")
        return True


class CalendarFeed(_Reading):
    """A calendar behind an address; `***` in its path stands for the secret part of it."""

    name = "ics"

    def __init__(
        self,
        url: str,
        *,
        secret: str = "token",
        timezone: str = "UTC",
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "ics",
    ) -> None:
        self.name = name
        self.timezone = check_zone(timezone)
        self._secret = secret
        self._is_secret = HIDDEN in url
        super().__init__(url, allow=allow, ca=None if ca is None else Path(ca))
        self._secret_names = (secret,) if self._is_secret else ()

    @read
    async def events(self, start: str, end: str) -> Page[CalendarEvent]:
        """List the events between two times, recurring ones each time they come.

        Returns a page of {id, occurrence, title, start, end, all_day, location, description,
        status}.
        """
        question = self._question(start, end)
        make = partial(self._request, "GET", self.base, {"Accept": "text/calendar, */*;q=0.5"})
        request, response = await self._read_signed(make, READ_S, self._may_ask)
        if not raise_for_read(response, request.shown, self.name):
            raise Refused(f"{request.shown}: there is no such calendar.")
        found = await self._parse("ics", ask(question, response.body), IcsEvents, request.shown)
        if found.problem is not None and not found.events:
            raise Transient(f"{request.shown}: {found.problem}.")
        items = [_item(each, each.uid) for each in found.events]
        return Page(items, has_more=False, problem=found.problem)

    def _credentials(self) -> Credentials | None:
        if not self._is_secret:
            return None
        return Credentials(self.base.origin, path=self.secret(self._secret))


def _item(each: IcsEvent, own: str) -> CalendarEvent:
    return {
        "id": own,
        "occurrence": f"{own} {each.start}" if each.recurs else own,
        "title": each.title,
        "start": each.start,
        "end": each.end,
        "all_day": each.all_day,
        "location": each.location,
        "description": each.description,
        "status": each.status,
    }


def _stored(each: IcsEvent) -> StoredEvent:
    last = unquote(urlsplit(each.href).path.rpartition("/")[2])
    return {**_item(each, last.removesuffix(".ics") or each.uid), "etag": each.etag}


def _id_of(key: str) -> str:
    """Return the id of the event that a call makes (law 1)."""
    return f"duly-{sha256(key.encode()).hexdigest()[:40]}"


def _version(etag: str) -> str:
    if not ETAG.fullmatch(etag):
        raise Refused("etag: give the etag that get or events returned.")
    return etag
