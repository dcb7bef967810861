"""What a mail says: read as plain text, cut where it is too long, and never a failure."""

from __future__ import annotations

import email.message
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.connectors.mail import (
    ATTACHMENTS_MAX,
    HEADER_CHARS_MAX,
    PARTS_MAX,
    RAW_HEADER_CHARS_MAX,
    SNIPPET_CHARS_MAX,
    TEXT_CHARS_MAX,
    plain,
    read_mail,
)

SIMPLE = b"Message-ID: <1@example.com>\nFrom: ada@example.com\nSubject: Invoice\n\nPlease pay.\n"


@pytest.mark.parametrize(
    ("raw", "subject"),
    [
        (b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?= aus =?iso-8859-1?b?S/ZsbgA=?=", "Grüße aus Köln"),
        ("Subject: Grüße".encode(), "Grüße"),
        (b"Subject: =?no-such-charset?q?Gr=FC=DFe?=", "Grüße"),
        (b"Subject: =?utf-8?b?x?=", "=?utf-8?b?x?="),
        (b"Subject: two\n lines\x07 and a bell", "two lines and a bell"),
        (b"Subject:", ""),
        (b"X-Other: x", ""),
        (b"Subject: " + b"x" * HEADER_CHARS_MAX, "x" * HEADER_CHARS_MAX),
        (b"Subject: " + b"x" * (HEADER_CHARS_MAX + 1), "x" * (HEADER_CHARS_MAX - 1) + "…"),
    ],
)
def test_a_header_is_read_as_plain_text(raw: bytes, subject: str) -> None:
    """T3: what becomes a title is one line, printable, and short."""
    assert read_mail(raw + b"\n\nText\n").subject == subject


@pytest.mark.parametrize(
    ("date", "read"),
    [
        ("Mon, 5 Jan 2026 10:00:00 +0100", "2026-01-05T09:00:00Z"),
        ("5 Jan 2026 10:00:00", "2026-01-05T10:00:00Z"),
        ("yesterday", None),
        ("Mon, 99 Foo 2026 10:00:00 +9999", None),
        ("Fri, 31 Dec 9999 23:59:59 -1400", None),
    ],
)
def test_a_date_is_read_or_none(date: str, read: str | None) -> None:
    assert read_mail(f"Date: {date}\n\n".encode()).date == read


def test_the_text_is_plain_before_html_and_attachments_are_named() -> None:
    made = EmailMessage()
    made["From"], made["Subject"] = "ada@example.com", "With things"
    made.set_content("Plain words.")
    made.add_alternative("<p>HTML words</p>", subtype="html")
    made.add_attachment(b"x", maintype="application", subtype="pdf", filename="a b.pdf")
    made.add_attachment("note", filename="ü.txt")
    found = read_mail(bytes(made))
    assert (found.text, found.attachments) == ("Plain words.\n", ("a b.pdf", "ü.txt"))


def test_html_alone_is_read_for_its_words() -> None:
    page = b"<html><head><title>T</title><style>p{}</style><body><p>One &amp; two<br>three</p>"
    raw = b"From: a\nContent-Type: text/html; charset=utf-8\n\n" + page
    assert read_mail(raw).text == "One & two\nthree"
    assert read_mail(raw + b"<p>Ask R&D").text == "One & two\nthree\nAsk R&D"


def test_what_is_too_long_is_cut() -> None:
    """N: a mail fits into a payload."""
    most = read_mail(b"From: a\n\n" + b"x" * TEXT_CHARS_MAX)
    more = read_mail(b"From: a\n\n" + b"x" * (TEXT_CHARS_MAX + 1))
    assert (len(most.text), most.problem) == (TEXT_CHARS_MAX, None)
    assert (len(more.text), more.problem is None) == (TEXT_CHARS_MAX, False)
    assert len(more.snippet) == SNIPPET_CHARS_MAX
    made = EmailMessage()
    for number in range(ATTACHMENTS_MAX + 1):
        made.add_attachment("x", filename=f"{number}.txt")
    assert len(read_mail(bytes(made)).attachments) == ATTACHMENTS_MAX


def test_what_is_no_mail_is_named_as_that() -> None:
    for raw in (b"", b"\0\0\0", b"no header here"):
        assert "may be no mail at all" in str(read_mail(raw).problem)


def test_a_mail_that_breaks_the_parser_is_named_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(message: object) -> Any:
        raise RecursionError

    monkeypatch.setattr("duly.connectors.mail._contents", explode)
    assert read_mail(SIMPLE).problem == "It cannot be read as a mail: RecursionError."


@pytest.mark.parametrize("name", [b"Content-Type: text/plain", b"Content-Disposition: attachment"])
def test_a_header_costs_no_more_than_its_first_characters(
    name: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1: a stranger's header of a mebibyte would hold a search for an hour."""
    longest: list[int] = []
    split = email.message._parseparam  # type: ignore[attr-defined]

    def watch(text: str) -> Any:
        longest.append(len(text))
        return split(text)

    monkeypatch.setattr(email.message, "_parseparam", watch)
    found = read_mail(b"From: ada\n" + name + b'; a="' + b";" * 2**20 + b"\n\nText.")
    assert found.sender == "ada"
    assert 0 < max(longest) <= RAW_HEADER_CHARS_MAX + 1


def test_of_very_many_parts_the_first_are_read() -> None:
    head = b"From: a\nContent-Type: multipart/mixed; boundary=x\n\n"
    part = b"--x\nContent-Disposition: attachment\n\n"
    text = b"--x\n\nText.\n"
    assert read_mail(head + part * (PARTS_MAX - 2) + text).text.strip() == "Text."
    assert read_mail(head + part * (PARTS_MAX - 1) + text).text == ""


@given(raw=st.binary(max_size=300))
def test_no_bytes_make_reading_fail(raw: bytes) -> None:
    """T3: and what becomes a title is always printable and short enough."""
    for data in (raw, b"Subject: " + raw, b"From: =?" + raw, b"Content-Type: " + raw + b"\n\nx"):
        found = read_mail(data)
        title = f'Email from {found.sender}: "{found.subject}"'
        assert title.isprintable()
        assert len(title) <= 500
        (found.text + found.snippet).encode()


def test_a_text_is_cut_where_it_was_told() -> None:
    assert plain("a" * 10, 10) == "a" * 10
    assert plain("a" * 11, 10) == "a" * 9 + "…"
