"""The tour of the house names files and functions that are there (U6)."""

from __future__ import annotations

import re

from tests import house

PAGE = (house.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PLACE = re.compile(r"`([a-z_/]+\.py)(?:: (?:[A-Z]\w+\.)?(\w+))?`(?:, `(\w+)`)?")


def test_every_file_and_function_of_the_tour_exists() -> None:
    named = PLACE.findall(PAGE)
    assert len(named) > 30
    for path, *names in named:
        text = (house.SOURCE / path).read_text(encoding="utf-8")
        for name in filter(None, names):
            assert re.search(rf"\b(def|class) {name}\b|^    {name}: ", text, re.M), (
                path,
                name,
            )
