"""A connection that is lent again changes nothing, and no dead host reaches it."""

from __future__ import annotations

import apsw
import pytest

from verification.disk import Kind, MemoryDisk, Operation
from verification.lent import LendingDisk
from verification.suite import SUITES


def _made() -> tuple[LendingDisk, apsw.Connection]:
    disk = LendingDisk()
    connection = disk.connect()
    connection.pragma("journal_mode", "wal")
    connection.execute("create table note (text text)")
    connection.execute("insert into note values ('first')")
    connection.wal_checkpoint()
    return disk, connection


@pytest.mark.parametrize("kind", SUITES)
def test_scenarios_are_the_same_on_new_connections(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same scenarios leave the same traces when no connection is lent again."""
    suite = SUITES[kind]
    seeds = (21, 45)
    lent = [suite.run(suite.from_seed(seed)).hash for seed in seeds]
    monkeypatch.setattr("verification.lent.IDLE_MAX", 0)
    monkeypatch.setattr("verification.lent._idle", {})
    monkeypatch.setattr(LendingDisk, "connect", MemoryDisk.connect)
    monkeypatch.setattr(LendingDisk, "drop", MemoryDisk.drop)
    assert [suite.run(suite.from_seed(seed)).hash for seed in seeds] == lent


def test_a_connection_finds_the_next_disk() -> None:
    """What is read is on the disk it is lent to, also what is in its log alone."""
    disk, lent = _made()
    other, writing = _made()
    writing.execute("insert into note values ('in the log')")
    left = other.next_process()
    disk.drop()
    assert left.connect() is lent
    assert lent.execute("select text from note").fetchall() == [("first",), ("in the log",)]
    left.drop()
    other.drop()


def test_a_cursor_of_a_dead_host_is_closed() -> None:
    """What a dead host still does reaches no other disk."""
    disk, connection = _made()
    left = disk.next_process()
    cursor = connection.cursor()
    disk.drop()
    assert left.connect() is connection
    with pytest.raises(apsw.CursorClosedError):
        cursor.execute("insert into note values ('late')")
    left.drop()


def test_a_connection_of_a_failed_disk_is_not_lent() -> None:
    """In doubt it is closed."""
    disk, connection = _made()
    disk.fail(Operation.WRITE, 0, Kind.IOERR, lasting=False)
    with pytest.raises(apsw.Error):
        connection.execute("insert into note values ('lost')")
    left = disk.next_process()
    disk.drop()
    assert left.connect() is not connection
    left.drop()
