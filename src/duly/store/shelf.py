"""The folder of scheduled copies: which are there, which one is new, which go (H5).

Law 1: only regular files with a name that a host gives are looked at; every other file, and every
       link, is left alone. The folder itself must not be a link.
Law 2: a copy goes only after a newer one was made and checked, and the one just made stays: a copy
       that is dated later than it was written by a clock that was ahead, and goes first.
Law 3: a draft that a killed host left is removed before the next copy is begun.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import apsw

from duly.errors import RequestRefused, StoreDamaged
from duly.store.backup import DRAFT, check_copy
from duly.store.disk import sync_path

_NAME: Final = re.compile(r"duly-([0-9]{8}T[0-9]{6})Z\.db")
_TIME: Final = "%Y%m%dT%H%M%S"


def name_copy(at_ms: int) -> str:
    """Name the copy of a moment; names sort as their moments do."""
    return f"duly-{datetime.fromtimestamp(at_ms // 1000, UTC).strftime(_TIME)}Z.db"


def newest_copy(folder: Path) -> int | None:
    """Return the moment of the newest copy; nothing without one. The folder is made if need be."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    with _opened(folder) as handle:
        names = _list(handle, "")
    return _moment(names[-1]) if names else None


def clear_drafts(folder: Path) -> None:
    """Remove what hosts left that were killed while they copied."""
    with _opened(folder) as handle:
        for name in _list(handle, DRAFT):
            os.unlink(name, dir_fd=handle)


def check_whole(path: Path, seal_key: bytes | None) -> None:
    """Refuse a copy that is not whole: pages, references, invariants and seals."""
    try:
        found = check_copy(path, seal_key)
    except apsw.Error as error:
        raise StoreDamaged(
            code="database_damaged", subject=str(path), facts={"cause": str(error)}
        ) from error
    if found.texts:
        raise StoreDamaged(
            code="database_damaged", subject=str(path), facts={"cause": found.texts[0]}
        )


def drop_old(folder: Path, keep: int, made: str) -> tuple[str, ...]:
    """Remove the oldest copies beyond those that stay, `made` among them; return their names."""
    with _opened(folder) as handle:
        old = _oldest_first(_list(handle, ""), made)[:-keep]
        for name in old:
            os.unlink(name, dir_fd=handle)
    if old:
        sync_path(folder)
    return old


def _oldest_first(names: tuple[str, ...], made: str) -> tuple[str, ...]:
    """Put what is dated ahead of the copy just made before all others."""
    ahead = tuple(name for name in names if name > made)
    return ahead + tuple(name for name in names if name <= made)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """Hold the folder itself, so that no link that takes its place is followed."""
    if folder.is_symlink():
        raise RequestRefused(code="backup_folder_is_link", subject=str(folder))
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def _list(handle: int, suffix: str) -> tuple[str, ...]:
    """List the copies, or with a suffix the drafts, oldest first."""
    found = []
    for name in os.listdir(handle):
        is_ours = name.endswith(suffix) and _NAME.fullmatch(name.removesuffix(suffix))
        if is_ours and _moment(name.removesuffix(suffix)) is not None:
            is_file = stat.S_ISREG(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)
            found += [name] if is_file else []
    return tuple(sorted(found))


def _moment(name: str) -> int | None:
    found = _NAME.fullmatch(name)
    assert found is not None, name
    try:
        at = datetime.strptime(found[1], _TIME).replace(tzinfo=UTC)
    except ValueError:  # a month 13 was not written by a host
        return None
    return round(at.timestamp() * 1000)
