"""Which call made which row of a CSV file: kept beside the file, since people own its columns.

Law 1: the new file is written as a draft. Then the line that names its key and its row is synced to
       the disk. Only then the draft is moved to its place. So

           no line                     it did not happen
           a line and its draft        it did not happen, and no process will move the draft later
           a line alone                it happened, even if a person changed the file since

Law 2: lines are only added, under the lock of the folder. A line whose draft was never moved is
       revoked by another line before the next one is written.
Law 3: a line belongs to the draft of its own number, which no other draft ever had: neither a name
       nor an inode that is used again can pass for it.

A line is JSON: `["key", row]`, or `["key"]` to revoke the line before it. A line that is not
complete was cut by a crash before its draft could be moved; it does not count, and is overwritten.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from duly.connectors.folder import OWN, read_file
from duly.errors import Refused

FOLDER: Final = (OWN, "tables")
KEYS_BYTES_MAX: Final = 32 * 1024 * 1024
APPEND: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class Keys:
    """The lines of one table, as they were read."""

    table: str
    rows: dict[str, int] = field(default_factory=dict)
    lines: int = 0
    bytes: int = 0
    last: str | None = None  # the key of the last line, unless that one revokes another

    @classmethod
    def read(cls, own: int, table: str) -> Keys:
        """Read the lines of a table; a missing file has none."""
        made = cls(table)
        found = read_file(own, f"{table}.keys", KEYS_BYTES_MAX)
        if found is None:
            return made
        if len(found[0]) > KEYS_BYTES_MAX:
            raise Refused(
                f"{table}.csv has had more rows than can be recorded. Begin another table."
            )
        for line in found[0].splitlines(keepends=True):
            try:
                key, *row = json.loads(line)
            except ValueError:
                break
            if not line.endswith(b"\n"):
                break
            made._take(str(key), int(row[0]) if row else None, len(line))
        return made

    @property
    def draft(self) -> str:
        """The name of the next draft."""
        return f"{self.table}.{self.lines}.new"

    def number_of(self, own: int, key: str) -> int | None:
        """Return the row that a key made, or None (law 1)."""
        if key == self.last and _exists(own, self._last_draft):
            return None
        return self.rows.get(key)

    def note(self, own: int, key: str, row: int) -> None:
        """Sync to the disk which row a key is about to make; its draft is there already."""
        self._add(own, [key, row])
        self._take(key, row, 0)

    def settle(self, own: int) -> None:
        """Revoke the last line if its draft was never moved (law 2)."""
        if self.last is not None and _exists(own, self._last_draft):
            left, key = self._last_draft, self.last
            self._add(own, [key])
            self._take(key, None, 0)
            os.unlink(left, dir_fd=own)

    @property
    def _last_draft(self) -> str:
        return f"{self.table}.{self.lines - 1}.new"

    def _take(self, key: str, row: int | None, size: int) -> None:
        self.lines += 1
        self.bytes += size
        if row is None:
            self.rows.pop(key, None)
            self.last = None
        else:
            self.rows[key] = row
            self.last = key

    def _add(self, own: int, line: list[str | int]) -> None:
        data = json.dumps(line).encode() + b"\n"
        file = os.open(f"{self.table}.keys", APPEND, 0o666, dir_fd=own)
        try:
            os.ftruncate(file, self.bytes)
            left, at = memoryview(data), self.bytes
            while left:
                count = os.pwrite(file, left, at)
                left, at = left[count:], at + count
            os.fsync(file)
        finally:
            os.close(file)
        os.fsync(own)
        self.bytes += len(data)


def _exists(here: int, name: str) -> bool:
    with suppress(FileNotFoundError):
        os.stat(name, dir_fd=here, follow_symlinks=False)
        return True
    return False
