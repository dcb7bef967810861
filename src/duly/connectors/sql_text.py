"""Reads one statement of SQL as it stands in the settings: its first word, its arguments, its end.

Law 1: a value never becomes part of a statement. An argument is written `:name` and is bound.
Law 2: there is one statement, and what cannot be read for certain is refused: comments, dollar
       quotes, backslashes in texts, quotes in brackets where these stand around names, other marks
       of arguments. So no second one can hide (K5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from duly.errors import Invalid

STATEMENT_CHARS_MAX: Final = 20_000
READS: Final = frozenset({"select", "values", "with"})
WRITES: Final = frozenset({"insert", "update", "delete", "merge", "replace", "with"})
OWN: Final = "duly_calls"  # the table of what was done, which no statement touches

# For SQLite brackets stand around a name: a quote in one begins no text there.
BRACKETED: Final = re.compile(r"\[[^\]]*['\"\[]")

TOKEN: Final = re.compile(
    r"""
      (?P<text>'(?:[^'\\]|'')*')
    | (?P<quoted>"(?:[^"\\]|"")*")
    | (?P<cast>::)
    | :(?P<argument>[a-z][a-z0-9_]*)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>[0-9]+(?:\.[0-9]+)?)
    | (?P<end>;)
    | (?P<comment>--|/\*)
    | (?P<other>[-+*/<>=~!@^&|%(),.\[\]\s])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class SqlText:
    """One statement; `parts` are its pieces, those that are arguments by their name alone."""

    first: str
    arguments: frozenset[str]
    parts: tuple[tuple[bool, str], ...]

    @property
    def named(self) -> str:
        """The statement with its arguments as `:name`, for SQLite."""
        return "".join(f":{part}" if is_argument else part for is_argument, part in self.parts)

    @property
    def formatted(self) -> str:
        """The statement with its arguments as `%(name)s`, for psycopg."""
        return "".join(
            f"%({part})s" if is_argument else part.replace("%", "%%")
            for is_argument, part in self.parts
        )


def read_statement(text: str, path: str, *, has_bracketed_names: bool = False) -> SqlText:
    """Read a statement, or raise Invalid with what is wrong with it."""
    if has_bracketed_names and BRACKETED.search(text):
        raise Invalid("It has a quote between brackets. Write the name between quotes.", path=path)
    if len(text) > STATEMENT_CHARS_MAX:
        raise Invalid(f"It has more than {STATEMENT_CHARS_MAX:,} characters.", path=path)
    parts: list[tuple[bool, str]] = []
    words: list[str] = []
    place, is_over = 0, False
    while place < len(text):
        found = TOKEN.match(text, place)
        if found is None:
            raise Invalid(_strange(text[place]), path=path)
        kind, piece, place = str(found.lastgroup), found[0], found.end()
        if kind == "comment":
            raise Invalid(f"It has a comment ({piece}). Write it beside the statement.", path=path)
        if is_over and not piece.isspace():
            raise Invalid("It goes on after a semicolon. Write one statement.", path=path)
        if kind == "end":
            is_over = True
            continue
        if kind in ("word", "quoted"):
            words.append(piece.strip('"').lower())
        parts.append((kind == "argument", found[kind] if kind == "argument" else piece))
    if OWN in words:
        raise Invalid(f"The table {OWN} belongs to the host. Choose another.", path=path)
    if not words:
        raise Invalid("It is empty. Write a statement.", path=path)
    names = frozenset(part for is_argument, part in parts if is_argument)
    return SqlText(words[0], names, tuple(parts))


def _strange(character: str) -> str:
    advice = {
        "?": "Write an argument as :name.",
        "$": "Write an argument as :name, and a text between single quotes.",
        "'": "A text in it does not end, or has a backslash. Pass the text as an argument.",
        '"': "A name in it does not end, or has a backslash.",
        ":": "Write an argument as :name, in lower-case letters.",
    }
    return f"It has {character!r}, which cannot be read. {advice.get(character, '')}".rstrip()
