"""The smallest schema that can show a torn transaction: numbered lines, and how many there are.

Law: a line and its number are written by two statements of one transaction, so the count and the
lines agree, and the lines are the history of all commits in their order.
"""

from __future__ import annotations

from collections.abc import Callable

from duly.store.base import Transaction
from duly.store.queries import parse
from duly.store.sqlite import Schema

SCHEMA_TEXT = """
create table line (
  number integer primary key,
  label text not null unique,
  body text not null
) strict;
create table total (id integer primary key check (id = 1), lines integer not null) strict;
insert into total values (1, 0);
"""

STATEMENTS = parse("""
-- count_line
-- The number of a line is the number of lines before it, plus one.
update total set lines = lines + 1 where id = 1 returning lines;

-- add_line
-- The label is unique, so that a transaction that is run twice is found out.
insert into line (number, label, body) values (:number, :label, :body);

-- read_labels
-- The history, in commit order.
select label from line order by number;

-- read_total
-- What the lines must add up to.
select lines from total where id = 1;
""")

SCHEMA = Schema(SCHEMA_TEXT, STATEMENTS, version=1)


class ChangedItsMind(Exception):
    """Raised by a body that has written and then fails."""


def write(label: str, size_bytes: int = 10) -> Callable[[Transaction], int]:
    """Make a body that writes one line and answers its number."""

    def body(transaction: Transaction) -> int:
        row = transaction.one("count_line")
        assert row is not None
        number: int = row[0]
        transaction.run("add_line", number=number, label=label, body="x" * size_bytes)
        return number

    return body


def write_and_fail(label: str, size_bytes: int = 10) -> Callable[[Transaction], int]:
    """Make a body that writes one line and raises."""

    def body(transaction: Transaction) -> int:
        write(label, size_bytes)(transaction)
        raise ChangedItsMind(label)

    return body


def read(transaction: Transaction) -> list[str]:
    """Answer the labels in commit order, after seeing that no transaction is torn."""
    labels = [str(row[0]) for row in transaction.all("read_labels")]
    assert transaction.one("read_total") == (len(labels),), labels
    return labels
