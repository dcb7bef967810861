"""Whose files a person's commands may use (K14).

Law: settings name code that runs as the person who types a command. So a file is used only if no
other user could have written it: it and its folder belong to this user or to root, and neither the
world nor a group with other members may write there.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

ROOT: Final = 0


@dataclass(frozen=True, slots=True)
class User:
    """The user a command runs as; `own_group` has no other member, or is None."""

    uid: int
    own_group: int | None


@dataclass(frozen=True, slots=True)
class Owned:
    """To whom a file or a folder belongs, and what others may do with it."""

    uid: int
    gid: int
    mode: int


class Distrust(StrEnum):
    """Why a file is not used."""

    STRANGER = "stranger"
    WORLD = "world"
    GROUP = "group"


def judge(thing: Owned, user: User) -> Distrust | None:
    """Say why a file or folder could hold another user's words, or return None."""
    if thing.uid not in (user.uid, ROOT):
        return Distrust.STRANGER
    if thing.mode & stat.S_IWOTH:
        return Distrust.WORLD
    if thing.mode & stat.S_IWGRP and thing.gid not in (user.own_group, ROOT):
        return Distrust.GROUP
    return None
