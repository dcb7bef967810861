"""What belongs to the project itself, and no connector with a folder ever serves (K13).

Law 1: the store and all that lies beside it under its name (log, lock, key, socket, copies), the
       settings and the sources are neither listed nor read nor written, by any path.
Law 2: a path is judged by what the file system says of it, never by its spelling: a folder by
       its device and inode, a file by these as well (a hard link is the same file), and a name
       that does not exist yet by the folder it would be in, without regard to capitals.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Final

from duly.errors import Refused
from duly.rules.source import SUFFIXES

SOURCES_MAX: Final = 10_000  # files of the sources that a hard link is compared with
# What Python would import from the folder of a project, and what is deployed from there.
CODE: Final = (*SUFFIXES, ".pyc", ".pyi", ".so", ".pth")
STORE_HEAD: Final = b"SQLite format 3\0"
STORE_MARK: Final = slice(68, 72)  # where the head of a database says whose file it is

Id = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Private:
    """What is private, by its paths; `mark` is what every store has in its head."""

    files: tuple[Path, ...] = ()
    stores: tuple[Path, ...] = ()  # and every name beside them that begins with theirs
    folders: tuple[Path, ...] = ()
    code: tuple[Path, ...] = ()  # folders in which only the code is private
    mark: int | None = None

    def add(self, other: Private) -> Private:
        """Return what is private to either."""
        return Private(
            (*self.files, *other.files),
            (*self.stores, *other.stores),
            (*self.folders, *other.folders),
            (*self.code, *other.code),
            self.mark if other.mark is None else other.mark,
        )

    def is_within(self, path: Path) -> bool:
        """Tell whether a folder is private as a whole, or lies in one that is."""
        inside = {_id_of(each) for each in (path, *path.parents)}
        return any(_id_of(each) in inside for each in self.folders if each.exists())

    def look(self, here: int) -> Shut:
        """Find what is private in an open folder."""
        at = _id(os.fstat(here))
        named = (*self.files, *self.folders)
        names = {_plain(each.name) for each in named if _id_of(each.parent) == at}
        begins = {_plain(each.name) for each in self.stores if _id_of(each.parent) == at}
        endings = CODE if any(_id_of(each) == at for each in self.code) else ()
        beside = (path for each in self.stores for path in each.parent.glob(f"{each.name}*"))
        ids = {_id_of(each) for each in (*named, *beside)} - {None}
        return Shut(self, frozenset(names), tuple(begins), endings, frozenset(ids))

    def source_ids(self) -> frozenset[Id | None]:
        """Find the sources, for a file that has several names."""
        inside = (islice(each.rglob("*"), SOURCES_MAX) for each in self.folders)
        beside = (islice(each.iterdir(), SOURCES_MAX) for each in self.code if each.is_dir())
        code = (each for each in chain.from_iterable(beside) if _is_code(each.name))
        return frozenset(map(_id_of, chain(chain.from_iterable(inside), code))) - {None}


@dataclass(slots=True)
class Shut:
    """What is private in one folder, as it is now."""

    private: Private
    names: frozenset[str]
    begins: tuple[str, ...]
    endings: tuple[str, ...]
    ids: frozenset[Id | None]
    sources: frozenset[Id | None] | None = None

    def hides(self, name: str, status: os.stat_result | None) -> bool:
        """Tell whether a name, or the file or folder that has it, is private."""
        plain = _plain(name)
        if plain in self.names or plain.startswith(self.begins) or plain.endswith(self.endings):
            return True
        return status is not None and (_id(status) in self.ids or self._is_source(status))

    def _is_source(self, status: os.stat_result) -> bool:
        """Tell whether it is a source under a second name; a file with one name is none."""
        if stat.S_ISDIR(status.st_mode) or status.st_nlink < 2:
            return False
        if self.sources is None:
            self.sources = self.private.source_ids()
        return _id(status) in self.sources

    def check(self, here: int, name: str, what: str) -> None:
        """Refuse a private name of an open folder, also one that is not there yet."""
        try:
            status = os.stat(name, dir_fd=here, follow_symlinks=False)
        except FileNotFoundError:
            status = None
        if self.hides(name, status):
            raise refusal(what)


def refusal(what: str) -> Refused:
    """Say that something is the project's own."""
    return Refused(
        f"{what[:100]!r} belongs to this project: its store, key, settings or sources. No connector"
        " serves them. Choose another file."
    )


def is_store(head: bytes, mark: int | None) -> bool:
    """Tell by the first bytes of a file whether it is a store, or a copy of one."""
    return head.startswith(STORE_HEAD) and int.from_bytes(head[STORE_MARK]) == mark


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _is_code(name: str) -> bool:
    return _plain(name).endswith(CODE)


def _id(status: os.stat_result) -> Id:
    return status.st_dev, status.st_ino


def _id_of(path: Path) -> Id | None:
    try:
        return _id(path.stat())
    except OSError:
        return None
