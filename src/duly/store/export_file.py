"""The file of an export: written as a draft that gets its name at the end, read with limits (H5).

Law 1: a file is whole and on the disk under its name, or it is not there; nothing is overwritten.
Law 2: reading believes nothing: a line that is too long, a file that was cut or changed, and
       anything but a regular file are refused. Nothing of what it says is repeated to the caller.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from duly.errors import Invalid, RequestRefused, StoreUnavailable, short
from duly.rules.export import (
    FILE_BYTES_MAX,
    FORMAT,
    LINE_BYTES_MAX,
    LINES_MAX,
    AnyLine,
    EndLine,
    ExportLine,
    HeadLine,
    read_line,
    write_line,
)
from duly.store.backup import DRAFT, give_name, refuse_taken, take_back
from duly.store.carrying import NumberedLine
from duly.store.disk import create


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that is on the disk: how large it is, and of how many lines."""

    size_bytes: int
    lines: int


def write_export(target: Path, read: Callable[[Callable[[ExportLine], None]], None]) -> WrittenFile:
    """Write what `read` hands over, line by line, to a file that is not there yet."""
    refuse_taken(target)
    draft = target.with_name(target.name + DRAFT)
    try:
        draft.unlink(missing_ok=True)  # of a host that died while it wrote
        create(draft)
        with draft.open("wb") as file:
            lines = _write(file, read)
        return WrittenFile(give_name(draft, target), lines)
    except OSError as error:
        facts = {"cause": str(error.strerror or error)}
        raise StoreUnavailable(code="unwritable", subject=str(draft), facts=facts) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _write(file: BinaryIO, read: Callable[[Callable[[ExportLine], None]], None]) -> int:
    hashed, lines, size_bytes = sha256(), 0, 0

    def put(line: ExportLine) -> None:
        nonlocal lines, size_bytes
        raw = write_line(line)
        lines += 1
        size_bytes += len(raw)
        if lines > LINES_MAX or size_bytes > FILE_BYTES_MAX or len(raw) > LINE_BYTES_MAX:
            raise RequestRefused(code="export_too_large", facts={"lines": LINES_MAX})
        hashed.update(raw)
        file.write(raw)

    read(put)
    file.write(write_line(EndLine(lines, hashed.hexdigest())))
    return lines


def check_target(target: Path) -> None:
    """Refuse a name under which no file can be written, before anything is done for it."""
    refuse_taken(target)


def drop_export(target: Path) -> None:
    """Remove a file that was written and must not stay."""
    take_back(target)


class ExportFile:
    """A file that is read from its first line each time; `digest` is known at the end.

    With a digest it must be the file that has it: another one may have taken its place.
    """

    def __init__(self, path: Path, digest: str | None = None) -> None:
        self._path = path
        self.digest = digest

    def __iter__(self) -> Iterator[NumberedLine]:
        """Read line by line; the last line is checked and not returned."""
        try:
            with _open(self._path) as file:
                yield from self._read(file)
        except OSError as error:
            facts = {"cause": str(error.strerror or error)}
            subject = str(self._path)
            raise Invalid(code="unreadable", path="path", subject=subject, facts=facts) from error

    def _read(self, file: BinaryIO) -> Iterator[NumberedLine]:
        path, hashed = self._path, sha256()
        for number, raw in enumerate(_lines(file, path), 1):
            line = _line(raw, number, path)
            if isinstance(line, EndLine):
                if file.read(1):
                    raise _wrong(path, number + 1, "> end")
                is_same = (line.lines, line.sha256) == (number - 1, hashed.hexdigest())
                if not is_same or self.digest not in (None, line.sha256):
                    raise RequestRefused(code="export_changed", subject=str(path))
                self.digest = line.sha256
                return
            if number == 1:
                _check_head(line, path)
            hashed.update(raw)
            yield NumberedLine(number, line)
        raise RequestRefused(code="export_cut", subject=str(path))


@contextlib.contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    # A pipe, or another thing that only looks like a file, would hold its reader for good.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise RequestRefused(code="not_a_file", subject=str(path))
        if found.st_size > FILE_BYTES_MAX:
            raise RequestRefused(code="export_too_large", facts={"lines": LINES_MAX})
        yield file


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    for number in range(1, LINES_MAX + 2):
        raw = file.readline(LINE_BYTES_MAX + 1)
        if not raw:
            return
        if not raw.endswith(b"\n"):
            if len(raw) > LINE_BYTES_MAX:
                raise _wrong(path, number, f"> {LINE_BYTES_MAX}")
            raise RequestRefused(code="export_cut", subject=str(path))
        yield raw
    raise RequestRefused(code="export_too_large", facts={"lines": LINES_MAX})


def _line(raw: bytes, number: int, path: Path) -> AnyLine:
    try:
        return read_line(raw)
    except (ValueError, RecursionError) as error:
        raise _wrong(path, number, short(error)) from None


def _check_head(line: ExportLine, path: Path) -> None:
    if not isinstance(line, HeadLine):
        raise _wrong(path, 1, "duly_export")
    if line.format > FORMAT:
        facts = {"found": line.format, "known": FORMAT}
        raise RequestRefused(code="export_newer", subject=str(path), facts=facts)


def _wrong(path: Path, number: int, cause: str) -> RequestRefused:
    facts = {"line": number, "cause": cause}
    return RequestRefused(code="export_unreadable", subject=str(path), facts=facts)
