"""Ten first drafts, written from the page and the tool list alone: what `check` says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.rules.source import SUFFIXES, Source
from duly.script.check import check
from tests.script.catalogue import CATALOG

HERE = Path(__file__).parent
DRAFTS = sorted(HERE.glob("task_*"))
PASSED = 8  # of ten as they were written; two run at deploy what they name by the day (W2)


def test_there_are_five_drafts_in_each_language() -> None:
    """W1: both languages are taught by the one page."""
    assert sorted(Path(draft.stem).suffix for draft in DRAFTS) == [".js"] * 5 + [".py"] * 5


def test_as_many_first_drafts_pass_as_we_say() -> None:
    """W5: the goal is eight of ten."""
    clean = [draft.name for draft in DRAFTS if not _findings(draft)]
    assert len(clean) == PASSED, clean


@pytest.mark.parametrize("draft", DRAFTS, ids=[draft.name for draft in DRAFTS])
def test_a_draft_names_the_tools_of_its_task(draft: Path) -> None:
    """W5: a draft that calls nothing would pass as well, and prove nothing."""
    assert "ctx." in draft.read_text(encoding="utf-8")


def _findings(draft: Path) -> tuple[str, ...]:
    source = Source(
        SUFFIXES[Path(draft.stem).suffix], draft.read_text(encoding="utf-8"), draft.name
    )
    return tuple(str(finding) for finding in check(source, CATALOG))
