"""Whose files may be used: every owner, group and mode."""

from __future__ import annotations

from itertools import product

import pytest

from duly.rules.trust import Distrust, Owned, User, judge

ME = User(1000, own_group=1000)


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (Owned(1000, 1000, 0o644), None),
        (Owned(0, 0, 0o755), None),
        (Owned(1000, 1000, 0o664), None),  # a group of one's own
        (Owned(0, 0, 0o775), None),
        (Owned(1001, 1000, 0o600), Distrust.STRANGER),
        (Owned(1001, 1001, 0o666), Distrust.STRANGER),
        (Owned(1000, 1000, 0o646), Distrust.WORLD),
        (Owned(0, 0, 0o1777), Distrust.WORLD),  # as /tmp is
        (Owned(1000, 100, 0o664), Distrust.GROUP),
        (Owned(0, 100, 0o775), Distrust.GROUP),
    ],
)
def test_owner_and_mode_decide(thing: Owned, expected: Distrust | None) -> None:
    """K14: this user's or root's, and not to be written by others."""
    assert judge(thing, ME) is expected


def test_a_group_that_is_not_the_user_s_own_is_never_trusted() -> None:
    """K14: also not the user's first group, where it has other members."""
    assert judge(Owned(1000, 1000, 0o664), User(1000, own_group=None)) is Distrust.GROUP


def test_whatever_is_trusted_can_be_written_by_this_user_and_root_alone() -> None:
    """K14: over every combination of owner, group and mode."""
    for uid, gid, mode in product((0, 1000, 1001), (0, 100, 1000), range(0o1000)):
        if judge(Owned(uid, gid, mode), ME) is None:
            assert uid in (0, 1000)
            assert not mode & 0o002
            assert not mode & 0o020 or gid in (0, 1000)
