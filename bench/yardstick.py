"""The yardstick: what SQLite itself can do here, one transaction after the other, each synced.

Law: the yardstick is as fast as SQLite can be without giving up durability. It uses prepared
statements, a write-ahead log and `synchronous=full`, no queue, no event loop and as little schema
as the work needs. Duly's figures are ratios to it, measured on the same disk in the same minute.

`publish` is one durable insert. `run4` is the consumer's run in four transactions: prepare,
in_flight, applied, commit. Payloads have 1 KiB.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import apsw

from bench.measure import Slice, Stopwatch, events_needed

PAYLOAD_BYTES = 1024
PAYLOAD = '{"text":"' + "x" * (PAYLOAD_BYTES - 11) + '"}'
TITLE = 'Email from alice@example.com: "Invoice December"'
PREPARED = '{"from":"alice@example.com","subject":"Invoice December","amount":12}'
ARGUMENTS = '{"spreadsheet_id":"S1","values":["alice@example.com","Invoice December"]}'
RESULT = '{"row_id":123}'
STATE = '{"cursor":"abc"}'
PEEK = 10
STATEMENT_CACHE_MAX = 64
CACHE_KIB = 64 * 1024

SCHEMA = """
create table event (
  seq integer primary key, topic integer not null, message_id text not null, title text not null,
  status text not null, reserved_by integer, created_by integer, created_at integer not null,
  body text not null);
create unique index event_one_message on event (topic, message_id);
create index event_pending on event (topic, seq) where status = 'pending';
create table run (
  id integer primary key, handler integer not null, phase text not null, prepared text,
  result text, created_at integer not null, updated_at integer not null);
create index run_open on run (handler) where phase <> 'committed';
create table mutation (
  run_id integer primary key, status text not null, tool text not null, args text not null,
  result text, updated_at integer not null);
create table handler (id integer primary key, state text);
insert into handler (id) values (1);
"""
PUBLISH = (
    "insert into event (topic, message_id, title, status, created_by, created_at, body) "
    "values (?, ?, ?, 'pending', ?, ?, ?) on conflict (topic, message_id) do nothing"
)
LOOK = "select state from handler where id = 1"
PEEKED = (
    "select seq, message_id, title, body from event "
    "where topic = ? and status = 'pending' order by seq limit ?"
)
START = (
    "insert into run (handler, phase, prepared, created_at, updated_at) "
    "values (1, 'prepared', ?, ?, ?)"
)
RESERVE = (
    "update event set status = 'reserved', reserved_by = ? where seq = ? and status = 'pending'"
)
MOVE = "update run set phase = ?, result = ?, updated_at = ? where id = ?"
SEND = (
    "insert into mutation (run_id, status, tool, args, updated_at) values (?, 'in_flight', ?, ?, ?)"
)
RECORD = "update mutation set status = 'applied', result = ?, updated_at = ? where run_id = ?"
CONSUME = "update event set status = 'consumed', reserved_by = null where seq = ?"
KEEP = "update handler set state = ? where id = 1"

INBOX, OUTBOX, OUTSIDE = 1, 2, 3


class Yardstick:
    """A SQLite file of its own, written to in the plainest durable way."""

    def __init__(self, folder: Path) -> None:
        self._connection = apsw.Connection(
            str(folder / "yardstick.db"), statementcachesize=STATEMENT_CACHE_MAX
        )
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", "full")
        self._connection.pragma("cache_size", -CACHE_KIB)
        self._execute = self._connection.cursor().execute
        self._execute(SCHEMA)
        self._message = 0
        self._pending = 0
        self._commits = 0

    def publish(self, seconds: float) -> Slice:
        """Publish for a while, one durable insert after the other."""
        return self._repeat(self._publish_once, seconds)

    def run4(self, seconds: float) -> Slice:
        """Run the consumer for a while, four durable transactions each time."""
        self._top_up(events_needed(seconds))
        return self._repeat(self._run_once, seconds)

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def _repeat(self, work: Callable[[], None], seconds: float) -> Slice:
        watch = Stopwatch(seconds, lambda: self._commits)
        count = 0
        while not count or watch.is_running():
            work()
            count += 1
        return watch.stop(count)

    def _top_up(self, pending: int) -> None:
        self._execute("begin immediate")
        for _ in range(pending - self._pending):
            self._insert(INBOX, None)
        self._commit()
        self._pending = max(pending, self._pending)

    def _publish_once(self) -> None:
        self._execute("begin immediate")
        self._insert(OUTSIDE, None)
        self._commit()

    def _run_once(self) -> None:
        execute = self._execute
        execute("begin immediate")
        execute(LOOK).fetchall()
        (seq, *_), *_ = execute(PEEKED, (INBOX, PEEK)).fetchall()
        execute(START, (PREPARED, _now_ms(), _now_ms()))
        run_id = self._connection.last_insert_rowid()
        execute(RESERVE, (run_id, seq))
        self._commit()
        execute("begin immediate")
        execute(SEND, (run_id, "sheets.append_row", ARGUMENTS, _now_ms()))
        execute(MOVE, ("mutating", None, _now_ms(), run_id))
        self._commit()
        execute("begin immediate")
        execute(RECORD, (RESULT, _now_ms(), run_id))
        execute(MOVE, ("mutated", RESULT, _now_ms(), run_id))
        self._commit()
        execute("begin immediate")
        execute(CONSUME, (seq,))
        self._insert(OUTBOX, run_id)
        execute(KEEP, (STATE,))
        execute(MOVE, ("committed", RESULT, _now_ms(), run_id))
        self._commit()
        self._pending -= 1

    def _insert(self, topic: int, run_id: int | None) -> None:
        self._message += 1
        message_id = f"mail-{self._message}"
        self._execute(PUBLISH, (topic, message_id, TITLE, run_id, _now_ms(), PAYLOAD))

    def _commit(self) -> None:
        self._execute("commit")
        self._commits += 1


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
