"""docs/writing-workflows.md: `check` finds nothing wrong with what the page teaches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duly.rules.source import Language, Source
from duly.script.check import check
from tests.script.catalogue import CATALOG

PAGE = Path(__file__).parents[2] / "docs" / "writing-workflows.md"
BLOCK = re.compile(r"^```(python|js)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"python": Language.PYTHON, "js": Language.JAVASCRIPT}
SOURCES = [
    Source(LANGUAGES[language], text, f"example {number}")
    for number, (language, text) in enumerate(BLOCK.findall(PAGE.read_text(encoding="utf-8")), 1)
]


def test_the_page_has_examples_in_both_languages() -> None:
    """W1: two languages, the same semantics."""
    assert {source.language for source in SOURCES} == set(Language)
    assert len(SOURCES) >= 4


@pytest.mark.parametrize("source", SOURCES, ids=[source.name for source in SOURCES])
def test_check_finds_nothing_in_an_example_of_the_page(source: Source) -> None:
    """W5: what is taught is what passes."""
    assert [str(finding) for finding in check(source, CATALOG)] == []
