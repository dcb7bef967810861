"""Reads the project's SQL: named statements out of `sql/*.sql`, ready to be bound.

Law: no SQL is written in Python. In a file every statement has a name of its own, and a reason:

    -- claim_workflow
    -- Take the lease if it is free or expired; the new epoch fences the old holder.
    update workflow set epoch = epoch + 1 where id = :id returning epoch;

A comment of one lower-case word is a name; the comment lines below it say why. Quoted text is left
alone: the colon in 'paused:approval' is no parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from operator import itemgetter
from typing import Any

from duly.errors import IllegalTransition

Bind = Callable[[dict[str, Any]], tuple[Any, ...]]

_NAME = re.compile(r"-- ([a-z][a-z0-9_]*)\s*")
PARAMETER = re.compile(
    r"""'(?:[^']|'')*' | "[^"]*" | --[^\n]* | /\*.*?\*/ | (?<![:\w]):([a-z_][a-z0-9_]*)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement: its text, its parameters in the order of their numbers, its binding."""

    name: str
    text: str
    parameters: tuple[str, ...]
    bind: Bind

    def refuse(self, given: Mapping[str, Any]) -> IllegalTransition:
        """Say which parameters are missing or unknown."""
        missing = sorted(set(self.parameters) - set(given))
        unknown = sorted(set(given) - set(self.parameters))
        return IllegalTransition(
            f"statement {self.name}: missing parameters {missing}, unknown parameters {unknown}"
        )


def load(*files: str) -> dict[str, str]:
    """Read the named files of `store/sql`; a name that occurs twice is refused."""
    statements: dict[str, str] = {}
    for file in files:
        for name, text in parse(read(file), file).items():
            if name in statements:
                raise IllegalTransition(f"{file}: statement {name} is already in another file")
            statements[name] = text
    return statements


def read(file: str) -> str:
    """Return the text of one file of `store/sql`, such as `schema`."""
    return (resources.files("duly.store") / "sql" / f"{file}.sql").read_text("utf-8")


def parse(text: str, file: str = "sql") -> dict[str, str]:
    """Split a text into its named statements, each without its reason."""
    return dict(_parse(text, file))


@cache  # the texts stay the same, and a host that opens would spend most of its time here
def _parse(text: str, file: str) -> Mapping[str, str]:
    statements: dict[str, str] = {}
    header, *sections = _sections(text)
    if _without_leading_comments(header):
        raise IllegalTransition(f"{file}: the text before the first name is not a comment")
    for title, *lines in sections:
        match = _NAME.fullmatch(title)
        assert match is not None, title
        name = match[1]
        if name in statements:
            raise IllegalTransition(f"{file}: statement {name} occurs twice")
        statement = _without_leading_comments(lines)
        if not statement:
            raise IllegalTransition(f"{file}: statement {name} is empty")
        if not lines[0].startswith("--"):
            raise IllegalTransition(f"{file}: statement {name} does not say why it is there")
        statements[name] = statement
    return statements


class ReadyStatements(dict[str, Statement]):
    """Statements by their names, each made ready when it is first asked for.

    A host runs a part of them, and most commands a few: an opening waits for none.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__()
        self._texts = texts

    def __missing__(self, name: str) -> Statement:
        statement = self[name] = _prepare(name, self._texts[name])
        return statement


def prepare(statements: Mapping[str, str]) -> ReadyStatements:
    """Number the parameters of a statement once, so that a call binds a tuple."""
    return ReadyStatements(statements)


@cache
def _prepare(name: str, text: str) -> Statement:
    names = parameters(text)
    return Statement(name, text, names, _bind(names))


def parameters(text: str) -> tuple[str, ...]:
    """Return the parameters of a statement in the order in which SQLite numbers them."""
    found = (match[1] for match in PARAMETER.finditer(text) if match[1])
    return tuple(dict.fromkeys(found))


def _sections(text: str) -> list[list[str]]:
    """Cut the lines before every line that is a name."""
    sections: list[list[str]] = [[]]
    for line in text.splitlines():
        if _NAME.fullmatch(line):
            sections.append([])
        sections[-1].append(line)
    return sections


def _without_leading_comments(lines: list[str]) -> str:
    start = 0
    while start < len(lines) and (not lines[start].strip() or lines[start].startswith("--")):
        start += 1
    return "\n".join(lines[start:]).strip().removesuffix(";").rstrip()


def _bind(names: tuple[str, ...]) -> Bind:
    """Make the function that puts parameters in order; a missing one is a KeyError."""
    if not names:
        return lambda given: ()
    if len(names) == 1:
        # An itemgetter of one name answers the bare value, not a tuple.
        only = names[0]
        return lambda given: (given[only],)
    return itemgetter(*names)
