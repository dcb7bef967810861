"""The outside: a book whose lines are effects, each written and synced before anybody is told.

Law: what stands in the file happened. Neither the host nor its end can change that, and the parent
of the processes counts there and nowhere else.

The book has one tool of each kind: `asked` can be asked what happened, `silent` cannot, `keyed`
writes the same key once. `unsure` can be asked, and does not know until the book has been read;
`lost` writes, and its answer never arrives.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import duly

LAG_S = 60.0

# What a process does at a named place: nothing, unless it was planned to die there.
Reach = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Line:
    """One effect: the key of its call, the workflow it came from, what was written."""

    key: str
    workflow: str
    row: str


def read_book(path: Path) -> list[Line]:
    """Read every effect there is."""
    if not path.exists():
        return []
    return [Line(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


class Book(duly.Connector):
    """Writes lines; `reach` is told where a call has got to."""

    name = "book"

    def __init__(self, path: Path, reach: Reach) -> None:
        self._path = path
        self._reach = reach

    @duly.mutation(lag_s=LAG_S)
    async def asked(self, call: duly.Call, row: str) -> dict[str, int]:
        return await self._write(call, row)

    @asked.reconcile
    async def asked_happened(self, call: duly.Call) -> duly.Applied | duly.NotApplied:
        await self._reach("reconcile:before")
        return self._find(call)

    @duly.mutation(lag_s=LAG_S)
    async def silent(self, call: duly.Call, row: str) -> dict[str, int]:
        return await self._write(call, row)

    @duly.mutation(lag_s=LAG_S, idempotent=True, key_lifetime_s=math.inf)
    async def keyed(self, call: duly.Call, row: str) -> dict[str, int]:
        return await self._write(call, row, is_once=True)

    @duly.mutation(lag_s=LAG_S)
    async def unsure(self, call: duly.Call, row: str) -> dict[str, int]:
        return await self._write(call, row)

    @unsure.reconcile
    async def unsure_happened(
        self, call: duly.Call
    ) -> duly.Applied | duly.NotApplied | duly.Unsure:
        if not self._path.with_suffix(".known").exists():
            return duly.Unsure("the book is closed")
        return self._find(call)

    @duly.mutation(lag_s=LAG_S)
    async def lost(self, call: duly.Call, row: str) -> None:
        await self._write(call, row)
        raise duly.UnknownOutcome("the line went dead")

    @lost.reconcile
    async def lost_happened(self, call: duly.Call) -> duly.Applied | duly.NotApplied:
        await self._reach("reconcile:before")
        return self._find(call)

    async def _write(self, call: duly.Call, row: str, *, is_once: bool = False) -> dict[str, int]:
        await self._reach("resend:before" if call.attempt > 1 else "effect:before")
        if not (is_once and self._place_of(call) is not None):
            self._append(Line(call.key, call.workflow, row))
        await self._reach("resend:after" if call.attempt > 1 else "effect:after")
        return {"line": self._place_of(call) or 0}

    def _append(self, line: Line) -> None:
        words = {"key": line.key, "workflow": line.workflow, "row": line.row}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(words) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _place_of(self, call: duly.Call) -> int | None:
        keys = [line.key for line in read_book(self._path)]
        return keys.index(call.key) + 1 if call.key in keys else None

    def _find(self, call: duly.Call) -> duly.Applied | duly.NotApplied:
        place = self._place_of(call)
        return duly.NotApplied() if place is None else duly.Applied({"line": place})
