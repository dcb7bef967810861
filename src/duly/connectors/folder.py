"""One folder and nothing outside it: how connectors open, list and write the files in there.

Law 1: no path leaves the folder. Every part of it is opened from the part before it and no
       symbolic link is followed, so a link that is swapped in meanwhile leads nowhere else.
Law 2: an error of the disk is classified here, once. `definite` wraps code that changes nothing
       visible yet, `open_ended` everything after that: a change that fails there may have happened,
       and is asked about (L4).
Law 3: what was written is on the disk before its name is (L2).
Law 4: what belongs to the project itself is not there for any connector (K13, `private.py`).
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from duly.connectors.base import Connector
from duly.connectors.private import Private
from duly.errors import (
    ConfigError,
    ConnectorError,
    NotSent,
    PermissionDenied,
    Refused,
    UnknownOutcome,
)

PATH_CHARS_MAX: Final = 1000
ENTRIES_MAX: Final = 100_000
TICK_S: Final = 0.02  # file systems note times in steps; Linux takes 10 ms at most for one
OWN: Final = ".duly"  # the one folder that belongs to the host, out of every script's reach

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC

# What an error means to the person who must act; the text of the others is clear enough.
ADVICE: Final = {
    errno.ENOSPC: "the disk is full. Make room on it",
    errno.EDQUOT: "this account's share of the disk is used up. Make room",
    errno.EACCES: "this account may not do that. Change the permissions of the file or its folder",
    errno.EPERM: "this account may not do that. Change the permissions of the file or its folder",
    errno.EROFS: "the disk can only be read. Mount it so that it can be written",
    errno.ENOENT: "the folder is not there. Make it, or mount its disk",
    errno.ELOOP: "it is a symbolic link, and none is followed. Name the file itself",
    errno.ENOTDIR: "a part of it is no folder, or a symbolic link. Name the folder itself",
    errno.EISDIR: "it is a folder. Name a file",
    errno.ENAMETOOLONG: "the name is too long. Give a shorter one",
    errno.EXDEV: "it lies on another disk. Make a connector for that folder",
    errno.EAGAIN: "another program holds the lock. Wait until it is done",
    errno.EMFILE: "this program has too many files open. Restart it if that stays so",
}
PERMISSION: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
SCRIPTS_FAULT: Final = frozenset(
    {errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EXDEV}
)

# The kernel returns these before it has moved anything.
REFUSES_A_MOVE: Final = (
    PERMISSION | SCRIPTS_FAULT | {errno.ENOENT, errno.ENOSPC, errno.EDQUOT, errno.ENOTEMPTY}
)


def classify(error: OSError, what: str) -> ConnectorError:
    """Say what an error of the disk means where it changed nothing (L4)."""
    number = error.errno or 0
    said = f"{what}: {ADVICE.get(number) or error.strerror or type(error).__name__}."
    if number in PERMISSION:
        return PermissionDenied(said)
    return Refused(said) if number in SCRIPTS_FAULT else NotSent(said)


@contextmanager
def definite(what: str) -> Iterator[None]:
    """Wrap code that changes nothing yet: an error means that it did not happen."""
    try:
        yield
    except OSError as error:
        raise classify(error, what) from error


@contextmanager
def open_ended(what: str) -> Iterator[None]:
    """Wrap code from the change on: an error means that the outcome is unknown."""
    try:
        yield
    except OSError as error:
        raise UnknownOutcome(f"{what}: {error.strerror or error}; it may be written.") from error


def split_path(path: str) -> tuple[str, ...]:
    """Take a path below the folder apart, or refuse it by what is wrong with it."""
    parts = tuple(path.split("/"))
    shown = repr(path[:100])
    if len(path) > PATH_CHARS_MAX:
        raise Refused(f"{shown}…: a path has at most {PATH_CHARS_MAX} characters.")
    if path.startswith("/"):
        raise Refused(f"{shown} is absolute. Give a path below the connector's folder.")
    # Every other character that a file name can have is allowed, so that what is found can be read.
    has_control = any(unicodedata.category(each) in ("Cc", "Cs") for each in path)
    if any(part in ("", ".", "..") for part in parts) or has_control:
        raise Refused(f"{shown} is no path below the folder. Write names with a / between them.")
    if any(part.casefold() == OWN for part in parts):
        raise Refused(f"{shown}: {OWN} belongs to the host. Choose another folder.")
    return parts


@dataclass(slots=True)
class Folder:
    """A folder that exists, by its real path; the host says what in it is private."""

    path: Path
    private: Private = field(default_factory=Private)

    @classmethod
    def at(cls, path: str | Path, owner: str) -> Folder:
        """Find the folder a connector was given, or say that there is none."""
        found = Path(path).expanduser()
        if not found.is_dir():
            raise ConfigError(f"{owner}: there is no folder {found}. Make it, or correct `path`.")
        return cls(found.resolve())

    def keep_private(self, private: Private, owner: str) -> None:
        """Serve nothing private any more; refuse if the folder itself is private."""
        if private.is_within(self.path):
            raise ConfigError(
                f"{owner}: {self.path} holds what belongs to this project: its sources. Give it"
                " another folder."
            )
        self.private = private

    def hides(self, here: int) -> Callable[[str, os.stat_result], bool]:
        """Return a function that tells whether a file of an open folder is private."""
        return self.private.look(here).hides

    def check(self, here: int, name: str, what: str) -> None:
        """Refuse a name of an open folder that is private (K13)."""
        self.private.look(here).check(here, name, what)

    @contextmanager
    def open(self, parts: Sequence[str] = (), *, create: bool = False) -> Iterator[int]:
        """Open a folder below this one, or this one; `create` makes what is missing."""
        here = os.open(self.path, FOLDER)
        try:
            for part in parts:
                self.check(here, part, "/".join(parts))
                if create:
                    _make(here, part)
                below = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=here)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)

    def is_bare(self) -> bool:
        """Tell whether it is empty, as a mount point is whose disk is not mounted."""
        return next(self.path.iterdir(), None) is None


def _make(here: int, part: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(part, dir_fd=here)
    # Otherwise the file could be on the disk without its folder. The process that made the folder
    # may have been killed before it synced the parent.
    os.fsync(here)


def list_files(here: int, what: str) -> list[tuple[str, os.stat_result]]:
    """List the regular files of an open folder, without names that are no text."""
    found: list[tuple[str, os.stat_result]] = []
    with os.scandir(here) as entries:
        for entry in entries:
            if len(found) >= ENTRIES_MAX:
                raise Refused(f"{what} holds more than {ENTRIES_MAX} files. Move old ones away.")
            with suppress(FileNotFoundError):  # It was removed while the folder was listed.
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and is_text(entry.name):
                    found.append((entry.name, status))
    return found


def pass_tick() -> None:
    """Wait until the file system's clock has moved on since a folder was listed.

    A file that is changed after this has another time than the listed one, so the next search finds
    it. A file that was changed before this is read as it is now. So nothing is missed (K11).
    """
    threading.Event().wait(TICK_S)


def is_text(name: str) -> bool:
    """Tell whether a name of the file system is text that JSON can carry."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def read_file(here: int, name: str, limit_bytes: int) -> tuple[bytes, os.stat_result] | None:
    """Read a regular file, at most one byte more than the limit; None if there is none."""
    try:
        file = os.open(name, READ, dir_fd=here)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "no file")
        data = b""
        while len(data) <= limit_bytes:
            more = os.read(file, limit_bytes + 1 - len(data))
            if not more:
                break
            data += more
        return data, status
    finally:
        os.close(file)


def write_file(here: int, name: str, data: bytes, like: os.stat_result | None = None) -> None:
    """Write a file and wait until its bytes are on the disk; its name is not, yet (L2)."""
    file = os.open(name, WRITE, 0o666, dir_fd=here)
    try:
        if like is not None:
            _hand_over(file, like)
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]
        os.fsync(file)
    finally:
        os.close(file)


def _hand_over(file: int, like: os.stat_result) -> None:
    """Give a file the owner and mode of the file it replaces, as far as this account may."""
    for owner in ({"uid": like.st_uid, "gid": -1}, {"uid": -1, "gid": like.st_gid}):
        with suppress(PermissionError):
            os.fchown(file, **owner)
    os.fchmod(file, like.st_mode & 0o777)  # The set-user-id bit is not passed on to a new text.


def status_of(here: int, name: str) -> os.stat_result | None:
    """Return owner and mode of a file that is to be replaced.

    A link, a folder and a read-only file are refused.
    """
    try:
        status = os.stat(name, dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "a symbolic link")
    if not stat.S_ISREG(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "no file")
    if not status.st_mode & stat.S_IWUSR:
        # Replacing it by a rename needs no permission on the file, but its owner wants it kept.
        raise PermissionError(errno.EACCES, "read-only")
    return status


def move_file(name: str, source: int, new_name: str, target: int, what: str) -> None:
    """Move a file to its place, over what is there; only here does the outside change."""
    try:
        os.replace(name, new_name, src_dir_fd=source, dst_dir_fd=target)
    except OSError as error:
        if error.errno in REFUSES_A_MOVE:
            raise classify(error, what) from error
        raise UnknownOutcome(f"{what}: {error.strerror or error}; it may be written.") from error


class Foldered(Connector):
    """A connector with a folder, in which it serves nothing of the project's own (K13)."""

    local = True
    _folder: Folder

    def keep_private(self, private: Private) -> None:
        """Learn from the host what is private."""
        # A stand-in in a simulation has the tools of its connector and no folder.
        if (folder := getattr(self, "_folder", None)) is not None:
            folder.keep_private(private, self.name)


def keep_private(connectors: Iterable[Connector], private: Private) -> None:
    """Tell every connector with a folder what it never serves (K13)."""
    for each in connectors:
        if isinstance(each, Foldered):
            each.keep_private(private)


def find_folders(connectors: Iterable[Connector]) -> dict[str, str]:
    """Find the folder on this machine in which each connector has its files, of those that do."""
    folders = {each.name: getattr(each, "_folder", None) for each in connectors}
    return {name: str(it.path) for name, it in folders.items() if isinstance(it, Folder)}
