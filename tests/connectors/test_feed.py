"""Feeds: every entry is returned once, and what a stranger wrote is read in a locked process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.connectors import Feed
from duly.connectors.feed_text import (
    ENTRIES_MAX,
    SUMMARY_CHARS_MAX,
    TITLE_CHARS_MAX,
    FeedText,
    read_entry,
    read_feed,
)
from duly.connectors.reader import BOUNDS, Readers
from duly.errors import ConfigError, Refused, Transient
from tests.connectors import shop as double
from tests.connectors.shop import Ask, Shop, packed, raw, status

pytestmark = pytest.mark.anyio

RSS = """<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"
     xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel><title>News</title>
<item><title>Tea &amp;amp; milk</title><link>/tea</link><guid isPermaLink="false">tea-1</guid>
<dc:creator>Ada</dc:creator><pubDate>Mon, 05 Jan 2026 10:00:00 +0100</pubDate>
<description>Short.</description><content:encoded>&lt;p&gt;One&lt;/p&gt;&lt;p&gt;two&lt;/p&gt;</content:encoded></item>
<item><title>No id</title><link>https://example.com/b</link></item>
<item><description>Neither id nor link</description></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><entry>
<id>urn:uuid:1</id><title type="html">Tea</title><link rel="self" href="/self"/><link href="/tea"/>
<author><name>Ada</name><email>ada@example.com</email></author><updated>2026-01-06T00:00:00Z</updated>
<published>2026-01-05T10:00:00+01:00</published>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>One</p><p>two</p></div></content>
</entry></feed>"""
RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
 xmlns:dc="http://purl.org/dc/elements/1.1/"><channel/><item rdf:about="https://example.com/1">
<title>Tea</title><link>https://example.com/tea</link><dc:date>2026-01-05</dc:date></item></rdf:RDF>"""
JSON = """{"version": "https://jsonfeed.org/version/1.1", "title": "News", "items": [
{"id": 7, "url": "https://example.com/tea", "title": "Tea", "authors": [{"name": "Ada"}],
"date_published": "2026-01-05T10:00:00+01:00", "content_html": "<p>One</p>"}, {"id": ""}]}"""
LAUGHS = """<!DOCTYPE rss [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>
<rss><item><guid>&b;</guid></item></rss>"""


def rss(*ids: str) -> str:
    items = "".join(f"<item><guid>{each}</guid></item>" for each in ids)
    return f"<rss><channel>{items}</channel></rss>"


# -- What a feed says -----------------------------------------------------------------------------


def test_rss_is_read() -> None:
    tea, second, third = read_feed(RSS.encode()).entries
    assert (tea.id, tea.title, tea.link, tea.author) == ("tea-1", "Tea & milk", "/tea", "Ada")
    assert (tea.published_at, tea.text) == ("2026-01-05T09:00:00Z", "One two")
    assert (second.id, second.published_at) == ("https://example.com/b", None)
    assert third.id.startswith("sha256-")
    assert third.id == read_feed(RSS.encode()).entries[2].id


@pytest.mark.parametrize(
    ("text", "entry_id", "at", "words"),
    [
        (ATOM, "urn:uuid:1", "2026-01-05T09:00:00Z", "One two"),
        (RDF, "https://example.com/1", "2026-01-05T00:00:00Z", ""),
        (JSON, "7", "2026-01-05T09:00:00Z", "One"),
    ],
    ids=("atom", "rdf", "json"),
)
def test_the_other_kinds_are_read(text: str, entry_id: str, at: str, words: str) -> None:
    entry = read_feed(text.encode()).entries[0]
    assert (entry.id, entry.title, entry.published_at) == (entry_id, "Tea", at)
    assert entry.text == words
    assert entry.link in ("/tea", "https://example.com/tea")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_a_feed_may_be_written_in_another_encoding(encoding: str) -> None:
    name = encoding.removesuffix("-sig")
    text = f'<?xml version="1.0" encoding="{name}"?><rss><item><title>Zoë</title></item></rss>'
    assert read_feed(text.encode(encoding)).entries[0].title == "Zoë"


def test_a_document_type_is_refused_before_it_declares_anything() -> None:
    """K7: no entity, of this document or of another."""
    for text in (LAUGHS, '<!DOCTYPE rss SYSTEM "file:///etc/passwd"><rss/>'):
        found = read_feed(text.encode())
        assert (found.entries, found.is_lasting) == ((), True)
        assert "document type" in str(found.problem)


@pytest.mark.parametrize(
    ("text", "said", "is_lasting"),
    [
        ("<html/>", "neither RSS nor Atom", True),
        ('{"items": []}', "neither RSS nor Atom", True),
        ("<rss>" + "<a>" * 101, "deeper than 100", True),
        ("<rss><item>", "malformed", False),
        ("", "malformed", False),
        ('{"version"', "malformed", False),
        ("<rss>&nbsp;</rss>", "malformed", False),
    ],
)
def test_what_is_no_feed_is_told(text: str, said: str, is_lasting: bool) -> None:
    found = read_feed(text.encode())
    assert said in str(found.problem)
    assert found.is_lasting is is_lasting


def test_of_very_many_entries_the_newest_are_read() -> None:
    """K6: also where the oldest stands first."""
    items = "".join(
        f"<item><guid>{each}</guid><pubDate>{2000 + each}-01-01</pubDate></item>"
        for each in range(ENTRIES_MAX + 5)
    )
    found = read_feed(f"<rss>{items}</rss>".encode())
    ids = {each.id for each in found.entries}
    assert (len(ids), found.left_out) == (ENTRIES_MAX, 5)
    assert str(ENTRIES_MAX + 4) in ids


def test_what_is_long_is_cut_and_one_entry_is_read_whole() -> None:
    words = "word " * 1000
    item = f"<item><guid>{'x' * 201}</guid><title>{words}</title><description>{words}</description>"
    data = f"<rss>{item}</item></rss>".encode()
    entry = read_feed(data).entries[0]
    assert (len(entry.title), len(entry.text)) == (TITLE_CHARS_MAX, SUMMARY_CHARS_MAX)
    whole = read_entry(entry.id.encode() + b"\0" + data).entries[0]
    assert (whole.id, whole.text) == (entry.id, words.strip())


@given(data=st.binary(max_size=200))
def test_no_bytes_make_reading_fail(data: bytes) -> None:
    """K7: what is returned can be a title."""
    for text in (data, b"<rss><item><title>" + data + b"</title></item></rss>", b"{" + data):
        for entry in read_feed(text).entries:
            assert entry.title.isprintable()
            assert entry.id


# -- The connector --------------------------------------------------------------------------------


class Press(Shop):
    """Serves one document, with its version."""

    document = rss("1")
    etag: str | None = '"v1"'

    def do(self, ask: Ask) -> tuple[int, Any, str]:
        if self.etag is not None and ask.headers.get("if-none-match") == self.etag:
            return 304, "", ""
        return 200, self.document, f"ETag: {self.etag}\r\n" if self.etag else ""


@pytest.fixture
def press(tmp_path: Path) -> Iterator[Press]:
    with Press(tmp_path) as made:
        yield made


def connect(press: Press, **more: Any) -> Feed:
    return Feed(f"{press.url}/news/feed?kind=rss", allow=["127.0.0.1"], **more)


async def look(feed: Feed, after: str | None = None) -> tuple[list[str], str, bool]:
    page = await feed.items(after)
    ids = [each["id"] for each in page.items]
    return ids, page.names["last_cursor"], page.names["has_more"]


async def test_every_entry_is_returned_once(press: Press) -> None:
    """K11: the oldest first, by ids alone; one that comes back was not forgotten."""
    feed = connect(press)
    press.document = rss("2", "1")
    ids, after, _ = await look(feed)
    assert ids == ["1", "2"]
    press.document, press.etag = rss("3", "0", "2"), '"v2"'
    ids, after, _ = await look(feed, after)
    assert ids == ["0", "3"]
    press.document, press.etag = rss("3", "1"), '"v3"'
    assert (await look(feed, after))[0] == []


async def test_what_has_not_changed_is_not_sent_again(press: Press) -> None:
    """K11: asked only where everything of a version was returned, and of the place that said it."""
    feed = connect(press)
    _, after, _ = await look(feed)
    assert await look(feed, after) == ([], after, False)
    assert press.asks[-1].headers["if-none-match"] == '"v1"'
    other = Feed(f"{press.url}/other", allow=["127.0.0.1"])
    assert (await look(other, after))[0] == []
    assert "if-none-match" not in press.asks[-1].headers
    press.document, press.etag = rss(*map(str, range(150))), '"v2"'
    first, after, has_more = await look(feed, after)
    rest, after, is_over = await look(feed, after)
    assert (len(first), has_more, len(rest), is_over) == (100, True, 49, False)
    assert not {*first} & {*rest}
    press.next(status(304))  # to a question that was not asked
    with pytest.raises(Transient):
        await look(feed)


async def test_links_are_whole_and_lead_to_the_web(press: Press) -> None:
    press.document = "<rss>" + "".join(
        f"<item><guid>{each}</guid><link>{each}</link></item>"
        for each in ("/a#b", "javascript:alert(1)", "http://[", "https://example.com/ü")
    )
    press.document += "</rss>"
    links = {each["id"]: each["link"] for each in (await connect(press).items()).items}
    assert links == {
        "/a#b": f"{press.url}/a#b",
        "javascript:alert(1)": "",
        "http://[": "",
        "https://example.com/ü": "https://example.com/ü",
    }


async def test_one_entry_is_read_by_its_id(press: Press) -> None:
    press.document = RSS
    feed = connect(press)
    found = await feed.read("tea-1")
    assert found is not None
    assert (found["text"], found["link"]) == ("One\ntwo", f"{press.url}/tea")
    assert await feed.read("none") is None


async def test_a_bad_feed_costs_one_look(press: Press, monkeypatch: pytest.MonkeyPatch) -> None:
    """K6, K7: a bomb, a broken document and a large one; the next look is as ever."""
    feed = connect(press)
    many = b"<rss>" + b"<item><title>x</title></item>" * 200_000 + b"</rss>"
    press.next(raw(packed(many, "text/xml")))
    monkeypatch.setattr(feed.readers, "bounds", replace(BOUNDS, cpu_s=0.2))
    with pytest.raises(Refused, match=r"took more than 0\.2 s to compute"):
        await look(feed)
    press.next(raw(packed(b"<rss>", "text/xml")), raw(packed(LAUGHS.encode(), "text/xml")))
    with pytest.raises(Transient, match="malformed"):
        await look(feed)
    with pytest.raises(Refused, match="document type"):
        await look(feed)
    press.next(raw(packed(b" " * (9 * 2**20), "text/xml")), status(404), double.half)
    with pytest.raises(Refused, match="larger than"):
        await look(feed)
    with pytest.raises(Refused, match="there is nothing"):
        await look(feed)
    with pytest.raises(Transient):
        await look(feed)
    assert (await look(feed))[0] == ["1"]


async def test_a_feed_that_moved_elsewhere_is_not_followed(press: Press) -> None:
    press.next(status(301, "Location: https://example.org/feed\r\n"))
    with pytest.raises(Refused, match="redirects to"):
        await look(connect(press))


@pytest.mark.parametrize("after", ["", "x", "a.b.c", "é", f"{'a' * 12}.{'A' * 9}.", "a" * 5000])
async def test_a_cursor_that_was_made_up_is_refused(press: Press, after: str) -> None:
    with pytest.raises(Refused, match="no cursor of a feed"):
        await look(connect(press), after)
    assert press.asks == []


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError):
        Feed("file:///etc/passwd")


def test_the_locked_process_reads_what_this_one_reads() -> None:
    """K7: also in encodings of which nothing was loaded before the lock."""
    readers = Readers()
    try:
        for text in (RSS, ATOM, RDF, JSON, LAUGHS):
            assert readers.read("feed", text.encode(), FeedText) == read_feed(text.encode())
        data = '<?xml version="1.0" encoding="koi8-r"?><rss><item><title>Чай</title></item></rss>'
        assert readers.read("feed", data.encode("koi8-r"), FeedText).entries[0].title == "Чай"
    finally:
        readers.close()
