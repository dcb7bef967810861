"""A site with a feed on loopback: RSS 2.0, as https://www.rssboard.org/rss-specification says.

A reader that names the version it has is answered 304, as RFC 9110 describes it.
"""

from __future__ import annotations

from hashlib import sha256
from html import escape
from typing import Final

from duly.testing.doubles.base import ServiceAsk, ServiceDouble, ServiceReply, route

PATH: Final = "/feed.xml"


class FeedDouble(ServiceDouble):
    """One feed, which everyone may read."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[tuple[str, str]] = []  # title and text, the newest first

    def put(self, title: str, text: str) -> None:
        """Let the site publish an entry."""
        with self._door:
            self.entries.insert(0, (title, text))

    @route("GET", PATH, is_open=True)
    def feed(self, ask: ServiceAsk) -> ServiceReply:
        """Write the feed, unless the reader has this version."""
        items = "".join(
            f"<item><guid isPermaLink='false'>entry-{number}</guid><title>{escape(title)}</title>"
            f"<link>http://{ask.headers['host']}/{number}</link>"
            f"<description>{escape(text)}</description></item>"
            for number, (title, text) in zip(
                range(len(self.entries), 0, -1), self.entries, strict=True
            )
        )
        body = f"<rss version='2.0'><channel><title>News</title>{items}</channel></rss>".encode()
        etag = f'"{sha256(body).hexdigest()[:16]}"'
        if ask.headers.get("if-none-match") == etag:
            return ServiceReply(b"", 304, {"ETag": etag})
        kind = "application/rss+xml; charset=utf-8"
        return ServiceReply(body, headers={"ETag": etag, "Content-Type": kind})
