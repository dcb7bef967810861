"""How far a sheet was read: its rows have no ids, and a person deletes and inserts them (K11).

Law 1: a cursor says how many rows were read and seals what they were. If one of them is another
       now, the sheet is read anew: an inserted row may stand anywhere.
Law 2: the id of a row does not move with it: its key, or else what stands in it. Rows that are
       alike in everything are told apart by their order alone.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from duly.errors import Refused

CURSOR: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9a-f]{16}))?")
SEAL_CHARS: Final = 16


def read_cursor(after: str) -> tuple[int, str]:
    """Read how many rows were passed, and the seal of them; without one nothing is known."""
    found = CURSOR.fullmatch(after)
    if found is None:
        raise Refused(f"after is {after[:50]!r}, which is no cursor of rows.")
    return int(found[1]), found[2] or ""


def write_cursor(rows: Sequence[Sequence[Any]]) -> str | None:
    """Write the cursor behind these rows; there is none before the first."""
    return f"{len(rows)}.{seal_of(rows)}" if rows else None


def seal_of(rows: Sequence[Sequence[Any]]) -> str:
    """Return what changes when one of these rows does."""
    return _digest([_trim(each) for each in rows])


def is_empty(row: Sequence[Any]) -> bool:
    """Tell whether nothing stands in a row."""
    return not _trim(row)


def cut_empty(rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Leave out the empty rows at the end."""
    count = len(rows)
    while count and is_empty(rows[count - 1]):
        count -= 1
    return [*rows[:count]]


def ids_of(rows: Sequence[Sequence[Any]], key_at: int | None) -> list[str]:
    """Return an id for each row (law 2)."""
    seen: Counter[str] = Counter()
    found = []
    for each in rows:
        key = str(each[key_at]) if key_at is not None and key_at < len(each) else ""
        name = key or _digest(_trim(each))
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return found


def _trim(row: Sequence[Any]) -> list[Any]:
    count = len(row)
    while count and row[count - 1] in ("", None):
        count -= 1
    return [*row[:count]]


def _digest(value: Any) -> str:
    return sha256(json.dumps(value).encode()).hexdigest()[:SEAL_CHARS]
