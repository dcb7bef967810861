"""A mailbox on disk: every mail is met once, keeps its id, and none is so broken that it fails."""

from __future__ import annotations

import email.message
import errno
import itertools
import os
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import duly
from duly.connectors import Mailbox
from duly.connectors import mailbox as module
from duly.connectors.folder import read_file
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
from duly.connectors.mailbox import QUERY_CHARS_MAX
from duly.errors import ConfigError
from duly.testing import Stage

pytestmark = pytest.mark.anyio

SIMPLE = b"""\
Message-ID: <1@example.com>
From: Ada Lovelace <ada@example.com>
To: me@example.com
Subject: Invoice December
Date: Mon, 5 Jan 2026 10:00:00 +0100

Dear me,
please pay.
"""


def mail(subject: str = "Hello", sender: str = "ada@example.com") -> bytes:
    return f"Message-ID: <{subject}>\nFrom: {sender}\nSubject: {subject}\n\nText.\n".encode()


def put(folder: Path, name: str, data: bytes = SIMPLE) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


@pytest.fixture
def maildir(tmp_path: Path) -> Path:
    for name in ("cur", "new", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path


async def look(box: Mailbox, after: str | None = None, query: str = "") -> tuple[list[str], str]:
    page = await box.search(query, after)
    return [each["id"] for each in page.items], page.names["last_cursor"]


# -- What is found --------------------------------------------------------------------------------


async def test_a_mail_is_found_and_read(tmp_path: Path) -> None:
    put(tmp_path, "one.eml")
    put(tmp_path, "notes.txt")
    put(tmp_path, ".draft.eml")
    box = Mailbox(tmp_path)
    page = await box.search()
    item = {
        "id": "one.eml",
        "message_id": "<1@example.com>",
        "from": "Ada Lovelace <ada@example.com>",
        "subject": "Invoice December",
        "date": "2026-01-05T09:00:00Z",
        "snippet": "Dear me, please pay.",
        "problem": None,
    }
    assert page.items == [item]
    more = {"to": "me@example.com", "text": "Dear me,\nplease pay.\n", "attachments": []}
    assert await box.read("one.eml") == {**item, **more}
    for name in ("two.eml", "notes.txt", "../one.eml", ""):
        assert await box.read(name) is None


async def test_a_mail_that_arrives_with_an_old_date_is_found(tmp_path: Path) -> None:
    box = Mailbox(tmp_path)
    put(tmp_path, "b.eml")
    found, after = await look(box)
    os.utime(put(tmp_path, "a.eml"), (1, 1))
    assert (found, (await look(box, after))[0]) == (["b.eml"], ["a.eml"])


async def test_a_mail_keeps_its_id_when_it_is_read_and_flagged(maildir: Path) -> None:
    """A Maildir's name before its flags stays; what was met may be met again, and is the same."""
    box = Mailbox(maildir)
    file = put(maildir / "new", "1.M2P3.host")
    put(maildir / "tmp", "9.unfinished")
    found, after = await look(box)
    assert found == ["1.M2P3.host"]
    before = await box.read("1.M2P3.host")
    file = file.rename(maildir / "cur" / "1.M2P3.host:2,S")
    file.rename(maildir / "cur" / "1.M2P3.host:2,FS")
    assert set((await look(box, after))[0]) <= {"1.M2P3.host"}
    assert await box.read("1.M2P3.host") == before


async def test_a_mail_that_is_moved_before_the_first_look_is_not_missed(maildir: Path) -> None:
    box = Mailbox(maildir)
    put(maildir / "new", "1.a")
    _, after = await look(box)
    put(maildir / "new", "0.b").rename(maildir / "cur" / "0.b:2,S")
    assert (await look(box, after))[0] == ["0.b"]


async def test_a_mail_that_goes_while_it_is_looked_at_is_met_where_it_went(
    maildir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Mailbox(maildir)
    put(maildir / "new", "1.a")
    with monkeypatch.context() as patch:
        patch.setattr(Mailbox, "_open", lambda *args: None)
        found, after = await look(box)
    assert found == []
    assert (await look(box, after))[0] == ["1.a"]


async def test_mails_come_in_pages_and_each_once(tmp_path: Path) -> None:
    for number in range(250):
        put(tmp_path, f"{number}.eml", mail(str(number)))
    box, after, names = Mailbox(tmp_path), None, []
    for size in (100, 100, 50, 0):
        found, after = await look(box, after)
        assert len(found) == size
        names += found
    assert len(set(names)) == 250


async def test_a_search_opens_so_many_mails_and_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOKED_AT_MAX", 3)
    for number in range(5):
        put(tmp_path, f"{number}.eml", mail("yes" if number == 4 else "no"))
    page = await Mailbox(tmp_path).search("yes")
    assert (page.items, page.names["has_more"]) == ([], True)
    page = await Mailbox(tmp_path).search("yes", page.names["last_cursor"])
    assert ([each["id"] for each in page.items], page.names["has_more"]) == (["4.eml"], False)


async def test_a_search_that_takes_long_stops_and_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1: or one whose time is up would begin again at the same mail, for ever."""
    for number in range(3):
        put(tmp_path, f"{number}.eml")
    ticks = itertools.count(0, module.LOOKED_MS_MAX + 1)
    monkeypatch.setattr(Mailbox, "monotonic_ms", lambda box: next(ticks))
    box, after, names = Mailbox(tmp_path), None, []
    for _ in range(3):
        found, after = await look(box, after)
        assert len(found) == 1
        names += found
    assert len(set(names)) == 3


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.ESTALE, errno.ENOENT])
async def test_a_mail_that_the_machine_could_not_open_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """F1: not by a query either, which a mail without words never meets."""
    put(tmp_path, "1.eml")
    box = Mailbox(tmp_path)

    def fail(*args: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(module, "read_file", fail)
        with pytest.raises(duly.NotSent):
            await box.search("from:ada")
    assert (await look(box, query="from:ada"))[0] == ["1.eml"]


async def test_a_mail_that_is_moved_while_it_is_read_is_read_where_it_went(
    maildir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1: it is never taken for one that does not exist."""
    new = put(maildir / "new", "1.a")
    box = Mailbox(maildir)

    def read_late(here: int, name: str, limit_bytes: int) -> Any:
        if new.exists():
            new.rename(maildir / "cur" / "1.a:2,S")
        return read_file(here, name, limit_bytes)

    with monkeypatch.context() as patch:
        patch.setattr(module, "read_file", read_late)
        found = await box.read("1.a")
        assert found is not None
        assert found["subject"] == "Invoice December"
        patch.setattr(module, "read_file", lambda *args: None)
        with pytest.raises(duly.NotSent, match="moved all the time"):
            await box.read("1.a")
    assert await box.read("2.a") is None


async def test_a_maildir_whose_disk_is_mounted_late_is_found(tmp_path: Path) -> None:
    box = Mailbox(tmp_path)
    assert (await look(box))[0] == []
    for name in ("cur", "new", "tmp"):
        (tmp_path / name).mkdir()
    put(tmp_path / "new", "1.a")
    assert (await look(box))[0] == ["1.a"]


def test_a_folder_that_is_not_there_is_refused_when_the_connector_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mailbox: there is no folder"):
        Mailbox(tmp_path / "missing")


async def test_a_folder_that_went_away_is_tried_later(maildir: Path) -> None:
    """F1: a disk that is not mounted, most likely."""
    box = Mailbox(maildir)
    (maildir / "new").rmdir()
    with pytest.raises(duly.NotSent, match="new: the folder is not there"):
        await box.search()


# -- What is asked for ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["a", "b"]),
        ("invoice", ["a"]),
        ("INVOICE december", ["a"]),
        ("from:ada", ["a"]),
        ("From:bob", ["b"]),
        ("from:invoice", []),
        ('subject:"Invoice Dec"', ["a"]),
        ('"december invoice"', []),
        ("pay", ["a"]),
        ("from:bob invoice", []),
    ],
)
async def test_the_terms_of_a_query_must_all_be_met(
    tmp_path: Path, query: str, found: list[str]
) -> None:
    put(tmp_path, "a.eml")
    put(tmp_path, "b.eml", mail("Greetings", "bob@example.com"))
    assert (await look(Mailbox(tmp_path), query=query))[0] == [f"{each}.eml" for each in found]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("to:me", 'The query has "to:", which nobody knows. Use words, from:, subject: and newer'),
        ("newer_than:1y", "newer_than:1y is no age"),
        ("newer_than:d", "no age"),
        ("x" * (QUERY_CHARS_MAX + 1), "at most 500 characters"),
    ],
)
async def test_a_query_nobody_understands_is_refused(tmp_path: Path, query: str, said: str) -> None:
    """F1: the script's own fault."""
    with pytest.raises(duly.Refused, match=said):
        await Mailbox(tmp_path).search(query)
    assert (await look(Mailbox(tmp_path), query="x" * QUERY_CHARS_MAX))[0] == []


async def test_age_is_measured_by_the_host_s_clock(duly_world: Stage, tmp_path: Path) -> None:
    """It is virtual in a test, and so is what is newer than a day."""
    (tmp_path / "mails").mkdir()
    box = Mailbox(tmp_path / "mails")
    now_s = duly_world.env.now_ms() / 1000
    for name, age_s in (("day", 86_400), ("older", 86_401)):
        os.utime(put(tmp_path / "mails", f"{name}.eml"), (now_s - age_s, now_s - age_s))
    text = """
from duly import workflow

flow = workflow("reader", topics=["mail"])


@flow.producer(every="1d")
async def poll(ctx, state):
    page = await ctx.mailbox.search(query="newer_than:1d", after=(state or {}).get("cursor"))
    for mail in page["items"]:
        await ctx.publish("mail", message_id=mail["id"], title=mail["subject"], payload=mail)
    return {"cursor": page["last_cursor"]}
"""
    host = await duly_world.host(connectors=[box])
    await host.deploy(duly.Source("python", text), by="me", grant=True)
    await host.drain()
    assert [each.message_id for each in await host.events("reader")] == ["day.eml"]


# -- What strangers write -------------------------------------------------------------------------


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


async def test_no_mail_stops_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is broken, one that is enormous and one that cannot be opened are on the page."""
    nested = b"From: a\n" + b"Content-Type: multipart/mixed; boundary=x\n\n--x\n" * 3000
    put(tmp_path, "broken.eml", b"\xff\xfe\0")
    put(tmp_path, "nested.eml", nested)
    put(tmp_path, "large.eml", SIMPLE + b"x" * 300)
    put(tmp_path, "good.eml")
    put(tmp_path, "shut.eml")

    def read_unless_shut(here: int, name: str, limit_bytes: int) -> Any:
        if name == "shut.eml":
            raise PermissionError(13, "Permission denied")
        return read_file(here, name, limit_bytes)

    monkeypatch.setattr(module, "read_file", read_unless_shut)
    monkeypatch.setattr(module, "MAIL_BYTES_MAX", len(SIMPLE) + 100)
    items = {each["id"]: each for each in (await Mailbox(tmp_path).search()).items}
    assert len(items) == 5
    assert items["good.eml"]["problem"] is None
    assert items["large.eml"]["subject"] == "Invoice December"
    assert "bytes; only the first" in str(items["large.eml"]["problem"])
    assert items["shut.eml"]["problem"] == "It cannot be opened: Permission denied."
    # Whether it is from her, nobody can say; so it is not passed over in silence.
    assert "shut.eml" in (await look(Mailbox(tmp_path), query="from:nobody"))[0]


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
