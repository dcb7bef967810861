"""The demo's table: it writes a row for real and, where it was told to, never answers.

Law 1  What it is told and what it tells are files, so that a process that is killed has told all
       the same: `hold.json` says after which row of which table to fall silent, and `held.json`
       appears when that row is on the disk, before anybody could have heard of it.
Law 2  It promises nothing about a call that is sent twice. So after a crash there is one way left
       to learn what happened, which is the one that most of the outside has: to ask (L5).
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from duly.connectors.base import Call, Verdict, mutation
from duly.connectors.row import Value
from duly.connectors.table import Inserted, Table
from duly.rules.value import Json

HOLD: Final = "hold.json"
HELD: Final = "held.json"
TIMEOUT_S: Final = 3600  # the host shall be killed while it waits, not give up


@dataclass(frozen=True, slots=True)
class Hold:
    """After which row of which table nobody is answered."""

    table: str
    row: int


@dataclass(frozen=True, slots=True)
class Held:
    """A call that was not answered: its key, and the row that it was to make."""

    table: str
    row: int
    mail: str
    key: str


class Signal:
    """The two files by which the demo and its table speak."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ask(self, hold: Hold) -> None:
        """Ask the table to fall silent."""
        _write(self._folder / HOLD, asdict(hold))

    def asked(self) -> Hold | None:
        """Read after which row to fall silent."""
        found = _read(self._folder / HOLD)
        return None if found is None else Hold(**found)

    def tell(self, held: Held) -> None:
        """Tell that a row is written, and that nobody hears of it."""
        _write(self._folder / HELD, asdict(held))

    def told(self) -> Held | None:
        """Read which call is held."""
        found = _read(self._folder / HELD)
        return None if found is None else Held(**found)

    def clear(self) -> Self:
        """Ask for nothing any more."""
        for name in (HOLD, HELD):
            (self._folder / name).unlink(missing_ok=True)
        return self


class HeldTable(Table):
    """A folder of CSV files that can be told to fall silent after a row."""

    def __init__(self, path: str | Path, *, hold: str | Path, name: str = "table") -> None:
        super().__init__(path, name=name, key_column=True)
        self.signal = Signal(Path(hold))

    @mutation(risk="low", noun="row", lag_s=1, timeout_s=TIMEOUT_S)
    async def insert(self, call: Call, table: str, row: dict[str, Value]) -> Inserted:
        """Add one row to a table."""
        answer = await self.write(call, table, row)
        await self.hold(call, answer)
        return answer

    @insert.reconcile
    async def insert_happened(self, call: Call) -> Verdict:
        """Look for the row that carries the key of this call."""
        return await Table.insert_happened(self, call)

    async def write(self, call: Call, table: str, row: dict[str, Value]) -> Inserted:
        """Write the row to the disk."""
        return await Table.insert.function(self, call, table, row)

    async def hold(self, call: Call, answer: Inserted) -> None:
        """Wait for ever, if this is the row after which it was asked for."""
        asked = await self.in_thread(self.signal.asked)
        if asked is None or (asked.table, asked.row) != (answer["table"], answer["row"]):
            return
        row = call.args["row"]
        assert isinstance(row, dict)
        held = Held(asked.table, asked.row, str(row["mail"]), call.key)
        await self.in_thread(self.signal.tell, held)
        await asyncio.Event().wait()


def _write(path: Path, value: dict[str, Json]) -> None:
    # Whoever reads it finds all of it, or nothing.
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(value), encoding="utf-8")
    draft.replace(path)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found
