"""Reads a feed: RSS 0.9 to 2.0, Atom or JSON Feed, as plain text.

Law 1: a feed is written by strangers. A host runs this in a locked process (`reader.py`, K7).
Law 2: XML with a document type is refused before a single entity of it is declared, and nothing is
       loaded from elsewhere. Depth, entries and lengths have limits.
Law 3: an entry has the id its feed gives it, else its link, else a digest of its words. So the same
       entry has the same id in every look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any, Final
from xml.etree.ElementTree import Element
from xml.parsers import expat

import msgspec

from duly.connectors.mail import TEXT_CHARS_MAX, plain, spoken
from duly.connectors.xml_text import DEPTH_MAX as DEPTH_MAX
from duly.connectors.xml_text import XmlRefused, local_name, read_tree

ENTRIES_MAX: Final = 300
ID_CHARS_MAX: Final = 200
LINK_CHARS_MAX: Final = 1000
TITLE_CHARS_MAX: Final = 200
SUMMARY_CHARS_MAX: Final = 500
RAW_CHARS_MAX: Final = 4000  # of the words of an entry in a list, before markup is taken out
SEPARATOR: Final = b"\0"  # between the id that is sought and the feed
BOM: Final = b"\xef\xbb\xbf"
ENTRIES: Final = frozenset({"item", "entry"})
WARM: Final = b"<rss><channel><item><guid>1</guid><pubDate>%b</pubDate></item></channel></rss>"


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An entry of a feed; what is missing is empty, a time None."""

    id: str
    title: str = ""
    link: str = ""
    author: str = ""
    published_at: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class FeedText:
    """A feed, or what is wrong with it; `is_lasting`: the next look would find the same."""

    entries: tuple[FeedEntry, ...] = ()
    left_out: int = 0
    problem: str | None = None
    is_lasting: bool = False


class _NoFeed(Exception):
    """It is refused as a feed."""


@dataclass(frozen=True, slots=True)
class _Raw:
    """An entry as it stands; its words are taken out when it is wanted."""

    own_id: str = ""
    link: str = ""
    title: str = ""
    author: str = ""
    time: str = ""
    text: str = ""

    @property
    def id(self) -> str:
        found = self.own_id.strip() or self.link.strip()
        if found and found.isprintable() and len(found) <= ID_CHARS_MAX:
            return found
        words = found or f"{self.title}\0{self.time}\0{self.text}"
        return f"sha256-{sha256(words.encode()).hexdigest()[:32]}"

    def entry(self, raw_chars: int, text_chars: int) -> FeedEntry:
        words = spoken(self.text[:raw_chars]) if "<" in self.text or "&" in self.text else self.text
        whole = text_chars > SUMMARY_CHARS_MAX
        return FeedEntry(
            id=self.id,
            title=plain(spoken(self.title[:RAW_CHARS_MAX]), TITLE_CHARS_MAX),
            link=plain(self.link, LINK_CHARS_MAX),
            author=plain(self.author, TITLE_CHARS_MAX),
            published_at=_moment(self.time),
            text=words[:text_chars] if whole else plain(words, text_chars),
        )


def read_feed(data: bytes) -> FeedText:
    """Read the entries of a feed, the newest where there are very many."""

    def gather(found: list[_Raw]) -> FeedText:
        kept = found
        if len(found) > ENTRIES_MAX:
            # Most feeds list the newest first. Where times are given they decide.
            kept = sorted(found, key=lambda each: _moment(each.time) or "", reverse=True)
        entries = (each.entry(RAW_CHARS_MAX, SUMMARY_CHARS_MAX) for each in kept[:ENTRIES_MAX])
        return FeedText(tuple(entries), left_out=max(0, len(found) - ENTRIES_MAX))

    return _read(data, gather)


def read_entry(data: bytes) -> FeedText:
    """Read one entry with all its words; the id that is sought stands before the feed."""
    wanted, _, feed = data.partition(SEPARATOR)
    sought = wanted.decode()

    def gather(found: list[_Raw]) -> FeedText:
        fitting = (each for each in found if each.id == sought)
        entries = (each.entry(TEXT_CHARS_MAX * 10, TEXT_CHARS_MAX) for each in fitting)
        return FeedText(tuple(entries)[:1])

    return _read(feed, gather)


def warm_up() -> None:
    """Import what the readers import late: a locked process can import nothing."""
    for time in (b"Mon, 5 Jan 2026 10:00:00 +0100", b"2026-01-05T10:00:00Z"):
        read_feed(WARM % time)
    read_feed(b'{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1"}]}')


def _read(data: bytes, gather: Callable[[list[_Raw]], FeedText]) -> FeedText:
    body = data.removeprefix(BOM).lstrip()
    try:
        found = _from_json(body) if body.startswith(b"{") else _from_xml(body)
        once = {each.id: each for each in reversed(found)}
        return gather([each for each in found if once[each.id] is each])
    except (_NoFeed, XmlRefused) as error:
        return FeedText(problem=str(error), is_lasting=True)
    except (expat.ExpatError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        return FeedText(problem=f"it is malformed ({plain(str(error), TITLE_CHARS_MAX)})")


# -- XML ------------------------------------------------------------------------------------------


def _from_xml(data: bytes) -> list[_Raw]:
    root = read_tree(data)
    if local_name(root) not in ("rss", "RDF", "feed"):
        raise _NoFeed("it is neither RSS nor Atom nor JSON Feed")
    return [_entry_of(each) for each in root.iter() if local_name(each) in ENTRIES]


def _entry_of(element: Element) -> _Raw:
    parts = list(element)
    about = next((value for name, value in element.attrib.items() if _last(name) == "about"), "")
    return _Raw(
        own_id=_first(parts, "guid", "id") or about,
        link=_link(parts),
        title=_first(parts, "title"),
        author=_author(parts),
        time=_first(parts, "published", "pubDate", "date", "updated"),
        text=_first(parts, "encoded", "content", "description", "summary"),
    )


def _first(parts: Iterable[Element], *names: str) -> str:
    """Return the words of the first child that has some, by the order of the names."""
    found = list(parts)
    for name in names:
        for each in found:
            if local_name(each) == name and (text := _words(each)):
                return text
    return ""


def _words(element: Element) -> str:
    # Atom may hold elements of XHTML: a space keeps their words apart.
    return (" " if len(element) else "").join(element.itertext()).strip()


def _link(parts: Iterable[Element]) -> str:
    for each in parts:
        if local_name(each) == "link" and each.get("rel", "alternate") == "alternate":
            return (each.get("href") or _words(each)).strip()
    return ""


def _author(parts: Iterable[Element]) -> str:
    for each in parts:
        if local_name(each) in ("author", "creator"):
            return _first(each, "name") or _words(each)
    return ""


def _last(name: str) -> str:
    return name.rpartition(" ")[2]


# -- JSON -----------------------------------------------------------------------------------------


def _from_json(data: bytes) -> list[_Raw]:
    feed = msgspec.json.decode(data)
    if "jsonfeed.org" not in str(feed.get("version", "")) or not isinstance(
        feed.get("items"), list
    ):
        raise _NoFeed("it is neither RSS nor Atom nor JSON Feed")
    return [_item_of(each) for each in feed["items"] if isinstance(each, dict)]


def _item_of(item: dict[str, Any]) -> _Raw:
    def text(*names: str) -> str:
        found = (item.get(name) for name in names)
        return next((str(each) for each in found if isinstance(each, str | int) and each != ""), "")

    return _Raw(
        own_id=text("id"),
        link=text("url", "external_url"),
        title=text("title"),
        author=next(_names(item), ""),
        time=text("date_published", "date_modified"),
        text=text("content_text", "content_html", "summary"),
    )


def _names(item: dict[str, Any]) -> Iterator[str]:
    authors = item.get("authors")
    for each in [*(authors if isinstance(authors, list) else []), item.get("author")]:
        if isinstance(each, dict) and isinstance(each.get("name"), str):
            yield each["name"]


def _moment(text: str) -> str | None:
    """Read a time of RSS (RFC 822) or of the others (RFC 3339)."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = read(text[:100].strip())
            found = found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
        return found.isoformat(timespec="seconds").replace("+00:00", "Z")
    return None
