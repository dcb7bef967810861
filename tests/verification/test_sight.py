"""What the oracles see is everything, although only a part of it is read again."""

from __future__ import annotations

from typing import Any

import apsw
import pytest

from duly.store import queries
from duly.store.transaction import NamedTransaction
from verification import sight
from verification.life import schema
from verification.sight import Part, Sight, read_afresh, tables_of
from verification.suite import SUITES

TEXTS = {
    "count_words": "select count(*) from word",
    "join_words": "select w.name, l.name from word w left join language l on l.id = w.language",
    "list_words": "select name from word",
    "put_word": "insert into word (name) values (:name)",
    "put_language": "insert into language (name) values (:name)",
    "list_spoken": "select name from spoken",
    "oracle_roots": schema().statements["oracle_roots"],
}
WORDS = Part("count_words", lambda rows: [row[0] for row in rows])
JOINED = Part("join_words", lambda rows: list(rows))


@pytest.mark.parametrize("kind", SUITES)
def test_what_is_kept_is_what_would_be_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 1: of every commit of some scenarios, with crashes, power cuts and disks that fail."""
    kept, read = 0, Sight.read

    def read_both(self: Sight, tx: Any, part: Part[Any]) -> Any:
        nonlocal kept
        known = self._kept.get(part)
        found = read(self, tx, part)
        kept += known is not None and known[1] is found
        assert found == read_afresh(tx, part)
        return found

    monkeypatch.setattr(Sight, "read", read_both)
    suite = SUITES[kind]
    for seed in (21, 40):
        suite.run(suite.from_seed(seed))
    assert kept > 100


def test_a_question_is_read_again_when_one_of_its_tables_was_written() -> None:
    """Law 1: also when what was written is taken back, and another question is not."""
    connection = apsw.Connection(":memory:")
    connection.execute(
        "create table language (id integer primary key, name text);"
        "create table word (id integer primary key, name text, language integer)"
    )
    tx = NamedTransaction(connection, queries.prepare(TEXTS))
    tx.closed_by = None
    seen = Sight(connection, TEXTS)
    first = seen.read(tx, WORDS), seen.read(tx, JOINED)
    tx.run("put_language", name="English")
    assert seen.read(tx, WORDS) is first[0]
    assert seen.read(tx, JOINED) is not first[1]
    connection.execute("begin")
    tx.run("put_word", name="oak")
    assert seen.read(tx, WORDS) == [1]
    connection.execute("rollback")
    assert seen.read(tx, WORDS) == [0]
    connection.execute("begin; savepoint job")
    tx.run("put_word", name="elm")
    assert seen.read(tx, WORDS) == [1]
    with pytest.raises(ZeroDivisionError):
        seen.read(tx, Part("list_words", lambda rows: [1 // 0]))
    connection.execute("rollback to job; commit")
    assert seen.read(tx, WORDS) == [0]


def test_the_tables_of_a_question_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 2: also where only an index is read."""
    monkeypatch.setattr(sight, "_known_tables", {})
    connection = apsw.Connection(":memory:")
    connection.execute(
        "create table language (id integer primary key, name text unique);"
        "create table word (id integer primary key, name text, language integer);"
        "create view spoken as select name from language order by name"
    )
    assert tables_of(connection, TEXTS, "join_words") == ("language", "word")
    assert tables_of(connection, TEXTS, "list_spoken") == ("language",)
