"""Files below one folder: watched, read as text, written whole.

Law 1: a file is written whole or not at all, and no path leaves the folder.
Law 2: a write leaves a receipt under its key. The text waits in `.duly/<key>.out`, the receipt is
       laid beside it, and only then the text is moved to its place. So

           no receipt                  it did not happen
           a receipt and the text      it did not happen, and no process will move the text later
           a receipt alone             it happened, even if a person changed the file since

Law 3: reconcile says "it happened" only when that outlives a power cut: it syncs both folders to
       the disk first.

Receipts stay for 400 days, counted between receipts, not by a clock. About a call that is older
than the newest receipt that was cleaned away, reconcile is unsure (L5).
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, suppress
from fnmatch import fnmatchcase
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from typing import Final, TypedDict, cast

from duly.connectors.arrival import PAGE_MAX, Arrival, Cursor
from duly.connectors.base import (
    Applied,
    Call,
    NotApplied,
    Page,
    Unsure,
    Verdict,
    mutation,
    read,
)
from duly.connectors.blob import BLOB_BYTES_MAX
from duly.connectors.clock import iso
from duly.connectors.folder import (
    OWN,
    Folder,
    Foldered,
    definite,
    list_files,
    move_file,
    open_ended,
    pass_tick,
    read_file,
    split_path,
    status_of,
    write_file,
)
from duly.connectors.need import Need
from duly.connectors.private import is_store, refusal
from duly.errors import Refused, UnknownOutcome
from duly.rules.blob import Blob

TEXT_BYTES_MAX: Final = 1024 * 1024
MARK_BYTES_MAX: Final = 1024
HEAD_BYTES: Final = 100  # the header of a database, which says whose file it is
PAGE_BYTES: Final = 512  # the smallest page of a database
RECEIPT_DAYS: Final = 400
CLEAN_EVERY: Final = 1000  # how many writes of a connector lie between two looks for old receipts
CLEANED: Final = "cleaned"  # remembers the time of the newest receipt that was cleaned away
DAY_NS: Final = 86_400 * 1_000_000_000

KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)


class FileItem(TypedDict):
    """A file as a search returns it."""

    path: str
    size: int
    modified_at: str


class FileText(FileItem):
    """A file as it is read; if it is no text, `problem` says why."""

    text: str | None
    problem: str | None


class Written(TypedDict):
    """The result of a write."""

    path: str
    bytes: int


class Files(Foldered):
    """The files below one folder."""

    name = "files"
    needs = (Need("path", "the folder", "inbox"),)

    def __init__(self, path: str | Path, *, name: str = "files") -> None:
        self.name = name
        self._folder = Folder.at(path, name)
        self._writes = 0
        # Made now, so that its absence later means a disk that is not mounted. It is not made in
        # an empty folder, which may be the mount point of such a disk: its receipts would seem
        # never to have been there (L5). A read-only folder has none, and needs none.
        with suppress(OSError):
            if not self._folder.is_bare():
                with self._folder.open([OWN], create=True):
                    pass

    @read
    async def search(self, pattern: str = "*", after: str | None = None) -> Page[FileItem]:
        """List the files of one folder in the order in which they came or last changed.

        `modified_at` is a time in UTC: `2026-05-01T09:00:00.000Z`.
        Returns a page of {path, size, modified_at}.
        """
        return await self.in_thread(self._search, pattern, after)

    @read(by_id=True)
    async def get(self, path: str) -> Blob | None:
        """Read a file as a blob; nothing if there is no such file.

        Returns {blob, name, type, size}.
        """
        data = await self.in_thread(self._get, path)
        if data is None:
            return None
        name = path.rpartition("/")[2]
        return await self.keep_blob(data, name=name, type=guess_type(name)[0] or "")

    @read(by_id=True)
    async def read(self, path: str) -> FileText | None:
        """Read a file as text.

        Returns {path, text, size, modified_at, problem}, or nothing if there is no such file.
        Of a file that is no text, or too big, text is nothing and problem says why.
        """
        return await self.in_thread(self._read, path)

    @mutation(
        risk="medium",
        noun="file",
        lag_s=5,
        key_in="metadata",
        asked="exactly",
        proof="itself",
        labels={"path": "File", "text": "Text"},
        editable=("text",),
    )
    async def write(self, call: Call, path: str, text: str) -> Written:
        """Write a whole file, in place of what was there.

        Returns {path, bytes}.
        """
        data = text.encode()
        if len(data) > TEXT_BYTES_MAX:
            raise Refused(f"{path}: {len(data)} bytes; at most {TEXT_BYTES_MAX} are written.")
        return await self.in_thread(self._write, call.key, path, data)

    @write.reconcile
    async def write_happened(self, call: Call) -> Verdict:
        """Look for the receipt of this very call."""
        data = str(call.args["text"]).encode()
        size, digest = len(data), sha256(data).hexdigest()
        return await self.in_thread(self._write_happened, call, size, digest)

    @mutation(
        risk="medium",
        noun="file",
        lag_s=5,
        key_in="metadata",
        asked="exactly",
        proof="itself",
        labels={"path": "File", "file": "Content"},
    )
    async def put(self, call: Call, path: str, file: Blob) -> Written:
        """Write a blob as a file, in place of what was there.

        Returns {path, bytes}.
        """
        return await self.in_thread(self._write, call.key, path, await self.open_blob(file))

    @put.reconcile
    async def put_happened(self, call: Call) -> Verdict:
        """Look for the receipt of this very call."""
        file = cast(Blob, call.args["file"])
        return await self.in_thread(self._write_happened, call, file["size"], file["blob"])

    # -- Reading ----------------------------------------------------------------------------------

    def _search(self, pattern: str, after: str | None) -> Page[FileItem]:
        cursor = Cursor.read(after)
        *folders, wanted = split_path(pattern)
        where = "/".join(folders)
        with definite(where or self.name), self._folder.open(folders) as here:
            is_private = self._folder.hides(here)
            found = {
                Arrival(status.st_ctime_ns, name, status.st_ino): status
                for name, status in list_files(here, where or self.name)
                # A name that begins with a dot is hidden, and often an editor's own file.
                if fnmatchcase(name, wanted) and name.startswith(".") <= wanted.startswith(".")
                if not is_private(name, status)
            }
        sight = cursor.compare(found)
        unseen = sight.unseen
        given = unseen[:PAGE_MAX]
        if given:
            pass_tick()  # Otherwise a file could be replaced after this and still look the same.
        items: list[FileItem] = [
            {
                "path": "/".join([*folders, each.name]),
                "size": found[each].st_size,
                "modified_at": iso(found[each].st_mtime_ns // 1_000_000),
            }
            for each in given
        ]
        last_cursor = sight.move(given).write()
        return Page(items, last_cursor=last_cursor, has_more=len(unseen) > len(given))

    def _read(self, path: str) -> FileText | None:
        *folders, name = split_path(path)
        with definite(path):
            try:
                with self._folder.open(folders) as here:
                    self._folder.check(here, name, path)
                    found = read_file(here, name, TEXT_BYTES_MAX)
            except FileNotFoundError:
                found = None
        if found is None:
            return None
        data, status = found
        text, problem = _as_text(data, status.st_size)
        return {
            "path": path,
            "text": text,
            "size": status.st_size if text is None else len(data),
            "modified_at": iso(status.st_mtime_ns // 1_000_000),
            "problem": problem,
        }

    def _get(self, path: str) -> bytes | None:
        *folders, name = split_path(path)
        with definite(path):
            try:
                with self._folder.open(folders) as here:
                    self._folder.check(here, name, path)
                    found = read_file(here, name, BLOB_BYTES_MAX)
            except FileNotFoundError:
                found = None
        return None if found is None else found[0]

    # -- Writing ----------------------------------------------------------------------------------

    def _write(self, key: str, path: str, data: bytes) -> Written:
        *folders, name = split_path(path)
        slip, proof = _slip(key), _mark(path, sha256(data).hexdigest())
        result: Written = {"path": path, "bytes": len(data)}
        with ExitStack() as stack:
            with definite(path):
                own = stack.enter_context(self._folder.open([OWN], create=True))
                target = stack.enter_context(self._folder.open(folders, create=True))
                self._folder.check(target, name, path)
                old = status_of(target, name)
                self._check_copy(target, name, path, old)
                mark = _placed(own, slip)
                if mark is None:
                    _lay_out(own, slip, data, proof, old)
            if mark is None:
                move_file(f"{slip}.out", own, name, target, path)
            elif mark != proof:
                raise UnknownOutcome(f"{path}: this key has written something else before.")
            with open_ended(path):
                os.fsync(target)
                os.fsync(own)
            self._clean_now_and_then(own)
        return result

    def _check_copy(self, here: int, name: str, path: str, old: os.stat_result | None) -> None:
        """Refuse to write over a copy of a store, wherever it lies (K13)."""
        # A database is a whole number of pages; any other file is not looked into.
        if old is not None and old.st_size and old.st_size % PAGE_BYTES == 0:
            found = read_file(here, name, HEAD_BYTES)
            if found is not None and is_store(found[0], self._folder.private.mark):
                raise refusal(path)

    def _write_happened(self, call: Call, size: int, digest: str) -> Verdict:
        path = str(call.args["path"])
        folders = path.split("/")[:-1]
        with definite(path):
            try:
                with self._folder.open([OWN]) as own:
                    mark = _placed(own, _slip(call.key))
                    cleaned_ns = _cleaned_ns(own)
                    os.fsync(own)
            except FileNotFoundError:
                return Unsure(f"{OWN} is gone from {self.name}. Is its disk mounted?")
            # A person may have removed the file since, and its folder too.
            with suppress(FileNotFoundError), self._folder.open(folders) as target:
                os.fsync(target)
        if mark is None:
            if call.sent_at.timestamp() * 1e9 <= cleaned_ns + DAY_NS:
                return Unsure("receipts as old as this one were cleaned away")
            return NotApplied()
        if mark != _mark(path, digest):
            return Unsure("this key has written something else")
        return Applied({"path": path, "bytes": size})

    def _clean_now_and_then(self, own: int) -> None:
        self._writes += 1
        if self._writes % CLEAN_EVERY == 1:
            with suppress(OSError):  # The file is written; cleaning up can wait.
                _clean(own)


def _as_text(data: bytes, size: int) -> tuple[str | None, str | None]:
    """Read a text, or say why it is none; it is no error, since no script can catch one (C3)."""
    if len(data) > TEXT_BYTES_MAX:
        return None, f"It has {size} bytes; at most {TEXT_BYTES_MAX} are read."
    if b"\0" in data:
        return None, "It is no text: it has a zero byte in it."
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, "It is no UTF-8 text."


def _slip(key: str) -> str:
    """Return the file name for a key: the key itself, or its digest if it makes a bad name."""
    return key if KEY.fullmatch(key) else sha256(key.encode()).hexdigest()


def _mark(path: str, digest: str) -> bytes:
    return sha256(path.encode() + b"\0" + digest.encode()).hexdigest().encode()


def _placed(own: int, slip: str) -> bytes | None:
    """Return the content of the receipt if the text was moved to its place, else None (Law 2)."""
    found = read_file(own, slip, MARK_BYTES_MAX)
    if found is None or _exists(own, f"{slip}.out"):
        return None
    return found[0]


def _exists(here: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _lay_out(own: int, slip: str, data: bytes, mark: bytes, old: os.stat_result | None) -> None:
    """Put the text and then its receipt into our folder, each on the disk before the next.

    A receipt of an earlier try may be there; then its text is too, or it would have been moved.
    """
    write_file(own, f"{slip}.out", data, old)
    os.fsync(own)
    write_file(own, slip, mark)
    os.fsync(own)


def _cleaned_ns(own: int) -> int:
    found = read_file(own, CLEANED, MARK_BYTES_MAX)
    return int(found[0]) if found is not None and found[0].isdigit() else 0


def _clean(own: int) -> None:
    """Remove receipts much older than the newest, after noting that they may be gone."""
    with os.scandir(own) as entries:
        found = {each.name: each.stat().st_mtime_ns for each in entries if each.is_file()}
    newest_ns = max(found.values(), default=0)
    old = {name for name, at_ns in found.items() if newest_ns - at_ns > RECEIPT_DAYS * DAY_NS}
    old.discard(CLEANED)
    receipts = {name for name in old if not name.endswith(".out")}
    if receipts:
        write_file(own, f"{CLEANED}.out", str(max(found[name] for name in receipts)).encode())
        os.replace(f"{CLEANED}.out", CLEANED, src_dir_fd=own, dst_dir_fd=own)
        os.fsync(own)
    for name in receipts:
        os.unlink(name, dir_fd=own)
    os.fsync(own)
    # A receipt that outlived its text would say that the text was moved (Law 2).
    for name in old - receipts:
        if name.removesuffix(".out") not in found.keys() - receipts:
            os.unlink(name, dir_fd=own)
