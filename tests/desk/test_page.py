"""Pages go on from a key that the caller gives by the name of an argument."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.errors import Invalid
from tests.desk.stand import reception


@pytest.mark.parametrize(
    ("question", "path"),
    [
        (lambda desk: desk.outputs("mail", before="x"), "before"),
        (lambda desk: desk.outputs("mail", before=3), "before"),
        (lambda desk: desk.actions(before=3), "before"),
        (lambda desk: desk.events("mail", after="x"), "after"),
        (lambda desk: desk.workflows(after=3), "after"),
        (lambda desk: desk.find("x", after=3), "after"),
        (lambda desk: desk.attention(after=3), "after"),
    ],
)
async def test_a_page_that_goes_on_from_no_entry_is_refused_by_the_argument(
    tmp_path: Path, question: Any, path: str
) -> None:
    """U6: the error names an argument that the question has."""
    async with reception(tmp_path) as desk:
        with pytest.raises(Invalid) as refused:
            await question(desk)
    assert (refused.value.path, refused.value.subject) == (path, path)
