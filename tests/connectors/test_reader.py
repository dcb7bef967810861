"""Strangers' bytes are read in a locked process; a bomb costs one message, never the connector."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from duly.cell import cell as cell_module
from duly.cell.cell import Cell, CellBounds
from duly.connectors import Mailbox
from duly.connectors import reader as module
from duly.connectors.mail import Mail, read_id, read_mail
from duly.connectors.reader import (
    BOUNDS,
    NEEDED,
    PROGRAM,
    STARVED_KEPT,
    STARVED_MAX,
    Readers,
    ReadingConnector,
    Unreadable,
)
from duly.errors import ConfigError, NotSent
from duly.testing import Stage

pytestmark = pytest.mark.anyio

GOOD = b"Message-ID: <good@example.com>\nFrom: ada@example.com\nSubject: Good\n\nText.\n"
FD_SETSIZE = 1024  # of the C library
SOON = replace(BOUNDS, cpu_s=0.2)


def nested(levels: int, body: bytes) -> bytes:
    """A mail in a mail in a mail; every line of the body is compared with every boundary."""
    parts = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (level, level)
        for level in range(levels)
    )
    head = b"Message-ID: <bomb@example.com>\nFrom: eve@example.com\nSubject: Bomb\n"
    return head + parts + b"Content-Type: text/plain\n\n" + body


BOMB = nested(90, b"--x\n" * 2_000_000)


@pytest.fixture
def readers() -> Iterator[Readers]:
    made = Readers()
    yield made
    made.close()


@pytest.fixture
def box(tmp_path: Path, readers: Readers, monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    monkeypatch.setattr(ReadingConnector, "_readers", readers)
    return Mailbox(tmp_path)


async def test_a_bomb_costs_one_message_and_never_the_connector(
    box: Mailbox, readers: Readers, tmp_path: Path
) -> None:
    """K7: it is given with a problem and the id that the search gave it; the others are read."""
    readers.bounds = SOON
    for name in ("a", "c"):
        (tmp_path / f"{name}.eml").write_bytes(BOMB)
    (tmp_path / "b.eml").write_bytes(GOOD)
    found = {each["file"]: each for each in (await box.search()).items}
    assert found.keys() == {"a.eml", "b.eml", "c.eml"}
    for name in ("a.eml", "c.eml"):
        whole: Any = await box.read(found[name]["id"])
        assert whole["id"] == found[name]["id"]
        assert whole["problem"] == (
            "It cannot be read as a mail: it took more than 0.2 s to compute."
        )
    good: Any = await box.read(found["b.eml"]["id"])
    assert (good["subject"], good["text"], good["problem"]) == ("Good", "Text.\n", None)


async def test_a_search_gives_what_bombs_it(
    box: Mailbox, readers: Readers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7, K11: nothing is lost in silence, whatever the query, and it is given once."""
    readers.bounds = replace(BOUNDS, answer_bytes=400)
    (tmp_path / "a.eml").write_bytes(GOOD + b"x" * 1000)
    page = await box.search("from:nobody")
    (item,) = page.items
    assert item["problem"] == "It cannot be read as a mail: it came to more than 400 bytes."
    assert (await box.search("from:nobody", page.names["last_cursor"])).items == []
    readers.bounds = BOUNDS
    whole = await box.read(item["id"])  # the same id all the time
    assert whole is not None
    assert whole["subject"] == "Good"


def test_one_process_reads_one_mail_after_another(readers: Readers) -> None:
    """K7: what a mail costs on top of its reading is two short writes."""
    pids = {(readers.read("mail", GOOD, Mail), readers.pids)[1] for _ in range(20)}
    assert len(pids) == 1
    (pid,) = readers.pids
    assert readers.read("mail", GOOD, Mail) == read_mail(GOOD)
    assert readers.read("mail.id", GOOD, str) == read_id(GOOD) == "<good@example.com>"
    os.kill(pid, signal.SIGKILL)  # as the kernel does with a process that has too much
    assert readers.read("mail", GOOD, Mail) == read_mail(GOOD)
    assert readers.pids != (pid,)


@pytest.mark.parametrize(
    ("limit", "data", "says"),
    [
        (CellBounds(0.2, 10, 2**20), BOMB[: 4 * 2**20], "it took more than 0.2 s to compute"),
        (CellBounds(10, 10, 20), GOOD, "it came to more than 20 bytes"),
    ],
    ids=["cpu", "bytes"],
)
def test_every_limit_ends_the_process_and_is_named(
    readers: Readers, limit: CellBounds, data: bytes, says: str
) -> None:
    """K7: CPU time and bytes; the next mail is read as ever."""
    readers.bounds = limit
    with pytest.raises(Unreadable, match=f"^{says}$"):
        readers.read("mail", data, Mail)
    assert readers.pids == ()
    readers.bounds = BOUNDS
    assert readers.read("mail", GOOD, Mail).subject == "Good"


def test_a_busy_machine_makes_no_mail_unreadable(readers: Readers) -> None:
    """K7, K11: what lasted long and computed little is read again, but not for ever."""
    data = BOMB[: 4 * 2**20]
    readers.bounds = CellBounds(1000, 0.2, 2**20)
    for _ in range(STARVED_MAX - 1):
        with pytest.raises(NotSent, match=r"too busy to read it: it took more than 0\.2 s"):
            readers.read("mail", data, Mail)
        assert readers.pids == ()
    with pytest.raises(Unreadable, match=r"^it took more than 0\.2 s$"):
        readers.read("mail", data, Mail)
    readers.bounds = BOUNDS
    assert readers.read("mail", GOOD, Mail).subject == "Good"


def test_how_often_bytes_lasted_long_is_kept_for_a_few(readers: Readers) -> None:
    """K6: one more than is kept, and the first is as new."""
    first = b"0"
    assert not readers._is_at_fault(first)
    for number in range(STARVED_KEPT):
        assert not readers._is_at_fault(b"%d" % (number + 1))
    assert [readers._is_at_fault(first) for _ in range(STARVED_MAX)] == [False, False, True]


def begin_with(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Let the processes begin with a line of their own."""
    real = cell_module.command

    def command(program: str, needed: tuple[str, ...], channel: int) -> list[str]:
        words = real(program, needed, channel)
        return [*words[:4], words[4].replace("; main(", f"; {line}; main("), *words[5:]]

    monkeypatch.setattr(cell_module, "command", command)


def test_what_breaks_a_reader_is_an_answer_and_the_process_goes_on(readers: Readers) -> None:
    """K7: also an answer of another shape than the one that was asked for."""
    with pytest.raises(Unreadable, match=r"^it breaks the reader \(KeyError\)$"):
        readers.read("no.such.reader", GOOD, Mail)
    (pid,) = readers.pids
    with pytest.raises(Unreadable, match="made no sense of it"):
        readers.read("mail.id", GOOD, Mail)
    assert readers.pids == (pid,)


def test_memory_is_bounded(readers: Readers, monkeypatch: pytest.MonkeyPatch) -> None:
    """K7: what does not fit is not read, and this process never holds it."""
    begin_with(monkeypatch, "import duly.connectors.reader as r; r.MEMORY_BYTES = 80 * 2**20")
    assert readers.read("mail", b"From: a@b\n\n" + b"x" * 10 * 2**20, Mail).problem == (
        "It cannot be read as a mail: MemoryError."
    )


def test_the_process_is_locked_before_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """X1, K7: one with an incomplete lock reads nothing, unless that was accepted."""
    begin_with(
        monkeypatch, "from duly.cell import lock; lock._filter_system_calls = lambda profile: None"
    )
    made = Readers()
    with pytest.raises(ConfigError, match=r"missing: .*a socket.*sandbox\.unlocked"):
        made.read("mail", GOOD, Mail)
    assert made.pids == ()
    made.is_unlocked = True
    assert made.read("mail", GOOD, Mail).subject == "Good"
    made.close()


def test_a_process_that_nobody_closes_ends_with_its_owner() -> None:
    cell = Cell(PROGRAM, NEEDED)
    pid = cell.pid
    os.kill(pid, 0)
    del cell
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_program_with_many_open_files_reads_as_ever(readers: Readers) -> None:
    """K7: the number of a channel may be larger than `select` can count."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2 * FD_SETSIZE), before[1]))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(FD_SETSIZE)]
    try:
        for _ in range(2):
            assert readers.read("mail", GOOD, Mail).subject == "Good"
        assert len(readers.pids) == 1
    finally:
        for each in taken:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_closing_ends_a_process_that_is_just_being_started(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7: nobody who closes sees it yet, and it must not be left behind."""
    started: list[Cell] = []

    class Slow(Cell):
        def __init__(self, program: str, needed: tuple[str, ...]) -> None:
            super().__init__(program, needed)
            started.append(self)
            readers.close()  # as another thread does at this moment

    monkeypatch.setattr(module, "Cell", Slow)
    with pytest.raises(NotSent):
        readers.read("mail", GOOD, Mail)
    assert readers.pids == ()
    assert [each.is_closed for each in started] == [True]


def test_closing_ends_a_process_whose_answer_has_just_come(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7: it was killed, but may not be dead yet when it is given back."""
    ask = Cell.ask

    def answer(self: Cell, question: bytes, bounds: CellBounds) -> bytes:
        given = ask(self, question, bounds)
        readers.close()  # as another thread does at this moment
        return given

    monkeypatch.setattr(Cell, "ask", answer)
    assert readers.read("mail", GOOD, Mail).subject == "Good"
    assert readers.pids == ()


async def test_a_host_that_is_closed_leaves_no_process_that_reads(
    duly_world: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7: and a connector that is used again starts another."""
    monkeypatch.setattr(ReadingConnector, "_readers", None)
    (tmp_path / "mails").mkdir()
    (tmp_path / "mails" / "a.eml").write_bytes(GOOD)
    box = Mailbox(tmp_path / "mails")
    host = await duly_world.host(connectors=[box])
    await box.search()
    (pid,) = box.readers.pids
    await host.close()
    assert box.readers.pids == ()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_readers_are_those_that_are_listed() -> None:
    """K7: nothing else runs in there."""
    assert set(module.READERS) == {"mail", "mail.id", "feed", "feed.entry", "s3.list", "mail.part"}
