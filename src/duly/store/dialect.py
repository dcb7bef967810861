"""The project's SQL as PostgreSQL takes it: the same statements, numbered otherwise.

Law 1  A statement is written once, for both databases. `sql/postgres.sql` holds what cannot be.
Law 2  Text is compared by its bytes on both: every text column is collated "C".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from duly.store import queries
from duly.store.queries import PARAMETER, Statement

_INTEGER_COLUMN = re.compile(r"(?m)^(  [a-z_]+\s+)integer\b")  # SQLite's has 64 bits
_TEXT_COLUMN = re.compile(r"(?m)^(  [a-z_]+\s+)text\b")
_BYTES_COLUMN = re.compile(r"(?m)^(  [a-z_]+\s+)blob\b")
_NEW_INTEGER = re.compile(r"(?m)(\badd column [a-z_]+ )integer\b")
_NEW_TEXT = re.compile(r"(?m)(\badd column [a-z_]+ )text\b")
_LATE = " references allowance (id)"
_SECONDS = re.compile(r"(\(?)([a-z_.]+) / 1000\.0")


def number(statements: Mapping[str, str]) -> dict[str, Statement]:
    """Number the parameters of every statement as PostgreSQL does."""
    return {name: _numbered(name, text) for name, text in statements.items()}


@cache
def _numbered(name: str, text: str) -> Statement:
    known = queries.prepare({name: text})[name]
    places = {each: f"${place}" for place, each in enumerate(known.parameters, 1)}
    numbered = PARAMETER.sub(lambda found: places[found[1]] if found[1] else found[0], text)
    return Statement(name, numbered, known.parameters, known.bind)


def postgres_step(text: str) -> str:
    """Return a migration with the types of PostgreSQL."""
    wide = _INTEGER_COLUMN.sub(r"\1bigint", _BYTES_COLUMN.sub(r"\1bytea", text))
    collated = _TEXT_COLUMN.sub(r'\1text collate "C"', wide)
    return _NEW_TEXT.sub(r'\1text collate "C"', _NEW_INTEGER.sub(r"\1bigint", collated))


def postgres_schema(text: str) -> str:
    """Return the schema with text collated by bytes, and times of the views as SQLite has them."""
    wide = _INTEGER_COLUMN.sub(r"\1bigint", _BYTES_COLUMN.sub(r"\1bytea", text))
    collated = _TEXT_COLUMN.sub(r'\1text collate "C"', wide)
    # In an index an expression needs parentheses of its own.
    timed = _SECONDS.sub(r"\1(\2 / 1000.0::double precision)", collated)
    # Two tables refer to each other: the reference to the later one comes when both are there.
    assert timed.count(_LATE) == 1, timed.count(_LATE)
    own = queries.load("postgres")
    return f"{timed.replace(_LATE, '')};\n{own['refer_to_allowance']};\n{own['create_own']};"
