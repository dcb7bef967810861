"""docs/lifecycle.md says what the tables say."""

from __future__ import annotations

from tests.rules.lifecycle_page import PAGE, render
from tests.rules.walk import OPEN


def test_the_page_is_what_the_tables_say() -> None:
    """R8, R9: a changed table changes the page; run `make docs`."""
    assert PAGE.read_text(encoding="utf-8") == render()


def test_the_page_names_every_open_state_with_an_exit() -> None:
    """R9: one line each, and none of them without a way out."""
    lines = [line for line in render().splitlines() if line.startswith("| `")]
    exits = [line for line in lines if line.count("|") == 8]
    assert len(exits) == len(OPEN)
    for line in exits:
        by_host, by_person = (cell.strip() for cell in line.split("|")[6:8])
        assert by_host or by_person, line
