"""A feed of the web: RSS, Atom or JSON Feed. It is only read.

    [connectors.news]
    use = "feed"
    url = "https://example.com/feed.xml"

Law 1: a look returns every entry that no earlier look returned. The cursor knows them by their ids,
       never by a time or a place in the feed (K11).
Law 2: what the server says has not changed is not sent again (`ETag`). That is asked only where
       everything of that version of the feed was returned.
Law 3: a feed is written by strangers: it is read in a locked process (K7), as plain text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypedDict
from urllib.parse import urljoin

from duly.connectors.arrival import PAGE_MAX
from duly.connectors.auth_table import read_auth
from duly.connectors.base import Page, read
from duly.connectors.feed_text import LINK_CHARS_MAX, SEPARATOR, FeedEntry, FeedText
from duly.connectors.need import Need
from duly.connectors.reader import ReadingConnector, Unreadable
from duly.connectors.response import HttpResponse
from duly.connectors.rest import NOTHING, READ_S, Rest
from duly.connectors.status import raise_for_read
from duly.errors import ConfigError, Invalid, Refused, Transient
from duly.rules.url import read_url

NOT_MODIFIED: Final = 304
MARK_CHARS: Final = 12  # of what an entry is remembered by: 72 bits
KNOWN_MAX: Final = 1000
ETAG: Final = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,200}"')
CURSOR: Final = re.compile(r"([\w-]{12})\.([\w=-]*)\.((?:[\w-]{12}){0,1000})", re.ASCII)
ACCEPT: Final = "application/atom+xml, application/rss+xml, application/feed+json, */*;q=0.5"


class FeedItem(TypedDict):
    """An entry of a feed; `text` is the beginning of it."""

    id: str
    title: str
    link: str
    author: str
    published_at: str | None
    text: str


@dataclass(frozen=True, slots=True)
class FeedCursor:
    """What was returned: the version of the feed, if all of it was, and marks of its entries."""

    place: str
    etag: str = ""
    known: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str | None, place: str) -> FeedCursor:
        """Read a cursor; a version that another place gave is none."""
        if text is None:
            return cls(place)
        found = CURSOR.fullmatch(text)
        try:
            etag = base64.urlsafe_b64decode(found[2]).decode() if found else ""
        except ValueError:
            found = None
        if found is None or (etag and not ETAG.fullmatch(etag)):
            raise Refused(f"after is {text[:50]!r}, which is no cursor of a feed.")
        marks = found[3]
        known = (marks[at : at + MARK_CHARS] for at in range(0, len(marks), MARK_CHARS))
        return cls(place, etag if found[1] == place else "", tuple(known))

    def write(self) -> str:
        """Write it for the state of a workflow."""
        etag = base64.urlsafe_b64encode(self.etag.encode()).decode()
        return f"{self.place}.{etag}.{''.join(self.known)}"


class Feed(ReadingConnector, Rest):
    """One feed at `url`; `auth` and `headers` as for a web service."""

    name = "feed"
    needs = (Need("url", "the address of the feed", "https://example.com/feed.xml"),)

    def __init__(
        self,
        url: str,
        *,
        auth: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] = NOTHING,
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "feed",
    ) -> None:
        self.name = name
        try:
            self._target = read_url(url)
        except Invalid as error:
            raise ConfigError(str(error)) from None
        super().__init__(
            self._target.origin,
            auth=None if auth is None else read_auth(auth, allow),
            headers=headers,
            allow=allow,
            ca=None if ca is None else Path(ca),
        )

    @read
    async def items(self, after: str | None = None) -> Page[FeedItem]:
        """List the entries that were not returned before, the oldest first.

        Returns a page of {id, title, link, author, published_at, text}.
        """
        before = FeedCursor.read(after, _mark(str(self._target)))
        response = await self._ask(before.etag)
        if response is None:
            return Page([], last_cursor=before.write(), has_more=False, problem=None)
        feed = await self._parse("feed", response.body)
        known = frozenset(before.known)
        # Feeds list the newest first, so entries without a time are taken from the end.
        new = [each for each in feed.entries[::-1] if _mark(each.id) not in known]
        new.sort(key=lambda each: each.published_at or "")
        page, has_more = new[:PAGE_MAX], len(new) > PAGE_MAX
        waiting = {_mark(each.id) for each in new[PAGE_MAX:]}
        here = [mark for each in feed.entries if (mark := _mark(each.id)) not in waiting]
        # What is in the feed now is remembered first, then what was in it before.
        marks = tuple(dict.fromkeys([*here, *before.known]))[:KNOWN_MAX]
        etag = "" if has_more else (response.header("etag") or "").strip()
        cursor = FeedCursor(before.place, etag if ETAG.fullmatch(etag) else "", marks)
        said = f"{feed.left_out} entries more than are read were left out."
        return Page(
            [self._item(each) for each in page],
            last_cursor=cursor.write(),
            has_more=has_more,
            problem=said if feed.left_out else None,
        )

    @read(by_id=True)
    async def read(self, id: str) -> FeedItem | None:  # noqa: A002  # as every other connector
        """Read one entry with all its words; nothing if it is no longer in the feed.

        Returns {id, title, link, author, published_at, text}.
        """
        response = await self._ask("")
        assert response is not None, id
        feed = await self._parse("feed.entry", id.encode() + SEPARATOR + response.body)
        return self._item(feed.entries[0]) if feed.entries else None

    async def _ask(self, etag: str) -> HttpResponse | None:
        """Fetch the feed; None if it is still the version that was returned."""
        headers = {"Accept": ACCEPT} | ({"If-None-Match": etag} if etag else {})
        request, response = await self._read_signed(
            partial(self._request, "GET", self._target, headers),
            READ_S,
            lambda url: url.origin == self._target.origin,
        )
        if etag and response.status == NOT_MODIFIED:
            return None
        if not raise_for_read(response, request.shown, self.name):
            raise Refused(f"{request.shown}: there is nothing.")
        return response

    async def _parse(self, reader: str, data: bytes) -> FeedText:
        """Read a feed in the locked process."""
        what = f"The feed {self._target.shown} cannot be read"
        try:
            feed = await self.in_thread(self.readers.read, reader, data, FeedText)
        except Unreadable as error:
            raise Refused(f"{what}: {error}.") from None
        if feed.problem is not None and feed.is_lasting:
            raise Refused(f"{what}: {feed.problem}.")
        if feed.problem is not None:
            raise Transient(f"{what}: {feed.problem}.")
        return feed

    def _item(self, entry: FeedEntry) -> FeedItem:
        return {
            "id": entry.id,
            "title": entry.title,
            "link": _absolute(str(self._target), entry.link),
            "author": entry.author,
            "published_at": entry.published_at,
            "text": entry.text,
        }


def _mark(text: str) -> str:
    """Return what a text is remembered by."""
    return base64.urlsafe_b64encode(sha256(text.encode()).digest()[:9]).decode()


def _absolute(base: str, link: str) -> str:
    """Return a link that can be followed: to the web, in full; any other is left out."""
    try:
        found = urljoin(base, link) if link else ""
    except ValueError:
        return ""
    is_web = found.startswith(("http://", "https://")) and len(found) <= LINK_CHARS_MAX
    return found if is_web and " " not in found else ""
