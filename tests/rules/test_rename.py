"""What seems to have another name: only what has a history, and only for what has none."""

from __future__ import annotations

import pytest

from duly.rules.rename import Kept, Rename, Renamed, find_rename

HAD = Kept("poll", is_declared=True, has_history=True)


@pytest.mark.parametrize(
    ("kept", "declared", "new"),
    [
        ([HAD], ["fetch"], ("fetch",)),
        ([HAD], ["poll", "fetch"], ()),
        ([HAD], ["poll"], ()),
        ([HAD], [], ()),
        ([], ["fetch"], ()),
        ([Kept("poll", is_declared=True, has_history=False)], ["fetch"], ()),
        ([Kept("poll", is_declared=False, has_history=True)], ["fetch"], ("fetch",)),
        ([Kept("poll", True, True, is_worked=False)], ["fetch"], ()),
        # A name that goes on from its own history, and one that has none and was there before.
        ([HAD, Kept("fetch", is_declared=False, has_history=True)], ["fetch"], ()),
        ([HAD, Kept("fetch", is_declared=True, has_history=False)], ["fetch"], ()),
        ([HAD, Kept("fetch", is_declared=False, has_history=False)], ["fetch"], ("fetch",)),
    ],
)
def test_a_name_with_a_history_that_makes_way_for_one_without_is_a_rename(
    kept: list[Kept], declared: list[str], new: tuple[str, ...]
) -> None:
    """W9: dropping alone, or adding alone, is none."""
    found = find_rename(Renamed.PRODUCER, kept, declared)
    assert found == (Rename(Renamed.PRODUCER, ("poll",), new) if new else None)
