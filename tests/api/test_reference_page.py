"""docs/reference.md says of every verb of a host what it takes, and of most what they return."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import Final, get_args, get_origin

import pytest

from duly.api.registry import BUS, VERBS, Verb
from tests import house

PAGE: Final = (house.ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
NAMES: Final = sorted(name for name in VERBS if not name.startswith(BUS))
# What these return is explained in a section or a page of its own.
ELSEWHERE: Final = {"certificate", "rollback", "tools", "try_", "what_if"}


def find_row(name: str) -> tuple[str, set[str]]:
    """Find the row of a verb: its text, and the words of the call."""
    for row in PAGE.splitlines():
        if row.startswith("|") and (call := re.search(rf"`{name}\(([^`]*)\)`", row)):
            return row, words(call[1])
    return "", set()


def words(text: str) -> set[str]:
    """List the words of a text."""
    return set(re.findall(r"\w+", text))


def list_fields(verb: Verb) -> set[str]:
    """List the fields of the record that a verb returns, or several of."""
    kind = get_args(verb.returns)[0] if get_origin(verb.returns) is tuple else verb.returns
    return {each.name for each in fields(kind)} if is_dataclass(kind) else set()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_a_row_for_every_verb(name: str) -> None:
    """U6: with its arguments and the fields of its answer."""
    row, given = find_row(name)
    assert row
    assert {each.name for each in VERBS[name].parameters} - given == set()
    if name not in ELSEWHERE:
        assert list_fields(VERBS[name]) - words(row) == set()


def test_the_page_is_read_by_its_rows() -> None:
    """U6: a verb that no row names has none."""
    assert find_row("brew") == ("", set())
    assert list_fields(VERBS["logs"]) == {"at", "source", "text"}
