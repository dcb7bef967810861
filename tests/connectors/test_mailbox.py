"""A mailbox on disk: every mail is met once, keeps its id, and none is so broken that it fails."""

from __future__ import annotations

import errno
import itertools
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors import Mailbox
from duly.connectors import mailbox as module
from duly.connectors.arrival import PAGE_MAX
from duly.connectors.folder import read_file
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


def file_of(item: Any) -> str:
    """The name of the file a mail lies in, out of its id."""
    name, mark, digest = str(item["id"]).rpartition("#")
    assert (mark, len(digest), item["file"]) == ("#", 16, name)
    return name


async def look(box: Mailbox, after: str | None = None, query: str = "") -> tuple[list[str], str]:
    page = await box.search(query, after)
    return [file_of(each) for each in page.items], page.names["last_cursor"]


async def find(box: Mailbox, name: str) -> str:
    """The id of the mail in a file."""
    (found,) = {each["id"] for each in (await box.search()).items if file_of(each) == name}
    return str(found)


# -- What is found --------------------------------------------------------------------------------


async def test_a_mail_is_found_and_read(tmp_path: Path) -> None:
    put(tmp_path, "one.eml")
    put(tmp_path, "notes.txt")
    put(tmp_path, ".draft.eml")
    box = Mailbox(tmp_path)
    page = await box.search()
    item: dict[str, Any] = {
        "id": f"one.eml#{sha256(b'id:<1@example.com>').hexdigest()[:16]}",
        "file": "one.eml",
        "message_id": "<1@example.com>",
        "from": "Ada Lovelace <ada@example.com>",
        "subject": "Invoice December",
        "date": "2026-01-05T09:00:00Z",
        "snippet": "Dear me, please pay.",
        "problem": None,
    }
    assert page.items == [item]
    more = {"to": "me@example.com", "text": "Dear me,\nplease pay.\n", "attachments": []}
    assert await box.read(item["id"]) == {**item, **more}
    digest = item["id"].removeprefix("one.eml")
    others = ["two.eml", "notes.txt", "../one.eml", ""]
    for wrong in ["one.eml", "one.eml#", f"one.eml{digest[:-1]}x", *others]:
        assert await box.read(wrong) is None
    for wrong in [f"{each}{digest}" for each in others]:
        assert await box.read(wrong) is None


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
    id_ = await find(box, "1.M2P3.host")
    before = await box.read(id_)
    file = file.rename(maildir / "cur" / "1.M2P3.host:2,S")
    file.rename(maildir / "cur" / "1.M2P3.host:2,FS")
    assert set((await look(box, after))[0]) <= {"1.M2P3.host"}
    assert await find(box, "1.M2P3.host") == id_
    assert before is not None
    assert await box.read(id_) == before


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
    assert ([*map(file_of, page.items)], page.names["has_more"]) == (["4.eml"], False)


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
    id_ = await find(box, "1.a")

    def read_late(here: int, name: str, limit_bytes: int) -> Any:
        if new.exists():
            new.rename(maildir / "cur" / "1.a:2,S")
        return read_file(here, name, limit_bytes)

    with monkeypatch.context() as patch:
        patch.setattr(module, "read_file", read_late)
        found = await box.read(id_)
        assert found is not None
        assert found["subject"] == "Invoice December"
        patch.setattr(module, "read_file", lambda *args: None)
        with pytest.raises(duly.NotSent, match="moved all the time"):
            await box.read(id_)
    assert await box.read(f"2{id_[1:]}") is None


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


# -- Names that are used again --------------------------------------------------------------------


async def test_a_file_name_that_is_used_again_is_another_mail(tmp_path: Path) -> None:
    """K11: with another id, also where the new file looks like the old one to the last byte."""
    box, after, ids = Mailbox(tmp_path), None, []
    for number in range(10, 20):
        put(tmp_path, "latest.eml", mail(str(number)))
        page = await box.search("", after)
        after = page.names["last_cursor"]
        ids += [each["id"] for each in page.items]
    assert len(set(ids)) == len(ids) == 10
    assert await box.read(ids[0]) is None
    last = await box.read(ids[-1])
    assert last is not None
    assert last["subject"] == "19"


async def test_two_mails_of_one_name_in_a_maildir_are_both_found_and_read(maildir: Path) -> None:
    """K11: a program that gives a name again does not hide the mail that has it."""
    put(maildir / "cur", "1.a:2,S", mail("old"))
    put(maildir / "new", "1.a", mail("new"))
    box = Mailbox(maildir)
    ids = {each["subject"]: each["id"] for each in (await box.search()).items}
    assert ids.keys() == {"old", "new"}
    for subject, id_ in ids.items():
        found = await box.read(id_)
        assert found is not None
        assert (found["subject"], found["id"]) == (subject, id_)


async def test_a_mail_without_an_id_of_its_own_goes_by_its_content(tmp_path: Path) -> None:
    """K11: searching reads only its beginning, and finds the same id as reading all of it."""
    head = b"From: ada@example.com\nSubject: Long\n\n"
    box, ids = Mailbox(tmp_path), []
    for body in (b"a", b"b", b"a" * module.HEAD_BYTES_MAX, b"a" * (module.HEAD_BYTES_MAX + 1)):
        put(tmp_path, "long.eml", head + body)
        ids.append(await find(box, "long.eml"))
        assert await box.read(ids[-1]) is not None
    assert len(set(ids)) == 4
    put(tmp_path, "long.eml", head + b"a")
    assert await find(box, "long.eml") == ids[0]


async def test_a_mail_that_could_not_be_opened_is_another_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K11: what was said of it then is no mail; its id still leads to it."""
    put(tmp_path, "shut.eml")
    box = Mailbox(tmp_path)

    def shut(here: int, name: str, limit_bytes: int) -> Any:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(module, "read_file", shut)
        before = await find(box, "shut.eml")
    after = await find(box, "shut.eml")
    assert before != after
    found = await box.read(before)
    assert found is not None
    assert (found["id"], found["subject"]) == (before, "Invoice December")


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
        ("to:me", 'The query has "to:", which is no term. Use words, from:, subject: and newer'),
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
    (event,) = await host.events("reader")
    assert event.message_id == await find(box, "day.eml")


async def test_an_age_is_asked_for_only_where_there_is_no_cursor(
    duly_world: Stage, tmp_path: Path
) -> None:
    """K11: Friday's mail is given on Monday, to a host that was off over the weekend."""
    (tmp_path / "mails").mkdir()
    box = Mailbox(tmp_path / "mails")
    host = await duly_world.host(connectors=[box])
    now_s = duly_world.env.now_ms() / 1000
    for number in range(150):
        name, is_old = f"{number}.eml", number % 2
        age_s = 2 * 86_400 if is_old else 60
        os.utime(put(tmp_path / "mails", name, mail(name)), (now_s - age_s, now_s - age_s))
    found, after = await look(box, None, "newer_than:1d")
    os.utime(put(tmp_path / "mails", "friday.eml"), (now_s - 3 * 86_400, now_s - 3 * 86_400))
    more, after = await look(box, after, "newer_than:1d")
    assert sorted(found) == sorted(f"{number}.eml" for number in range(0, 150, 2))
    assert (more, (await look(box, after, "newer_than:1d"))[0]) == (["friday.eml"], [])
    await host.close()


async def test_what_was_too_old_at_the_first_look_is_not_on_its_second_page(
    tmp_path: Path,
) -> None:
    """K11: the first look decides about every mail that lies there, not only about a page."""
    for number in range(PAGE_MAX + 20):
        put(tmp_path, f"{number:03}.eml", mail(str(number)))
    for number in range(PAGE_MAX + 20, PAGE_MAX + 40):
        os.utime(put(tmp_path, f"{number:03}.eml", mail(str(number))), (1, 1))
    box = Mailbox(tmp_path)
    first, after = await look(box, None, "newer_than:1d")
    second, after = await look(box, after, "newer_than:1d")
    assert (len(first), len(second)) == (PAGE_MAX, 20)
    assert max(first + second) == f"{PAGE_MAX + 19:03}.eml"
    assert (await look(box, after))[0] == []


# -- What strangers write -------------------------------------------------------------------------


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
    items = {file_of(each): each for each in (await Mailbox(tmp_path).search()).items}
    assert len(items) == 5
    assert items["good.eml"]["problem"] is None
    assert items["large.eml"]["subject"] == "Invoice December"
    assert "bytes; only the first" in str(items["large.eml"]["problem"])
    assert items["shut.eml"]["problem"] == "It cannot be opened: Permission denied."
    assert await Mailbox(tmp_path).read(items["shut.eml"]["id"]) is not None
    # Whether it is from her, the host cannot say; so it is not passed over in silence.
    assert "shut.eml" in (await look(Mailbox(tmp_path), query="from:nobody"))[0]
