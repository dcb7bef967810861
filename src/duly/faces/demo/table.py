"""The demo's table: it writes a row for real and, where the demo asked for it, never returns.

Law 1  Demo and table speak by files, which a kill leaves behind: `hold.json` says after which row
       to stop, and `held.json` appears when that row is on the disk.
Law 2  It promises nothing about a call that is sent twice. So after a crash the host has to ask
       what happened, as with most of the outside (L5).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

import msgspec

from duly.connectors.base import Call, Verdict, mutation
from duly.connectors.row import Value
from duly.connectors.table import Inserted, Table

HOLD: Final = "hold.json"
HELD: Final = "held.json"
TIMEOUT_S: Final = 3600  # the host must not give the call up before it is killed


@dataclass(frozen=True, slots=True)
class Hold:
    """The row after which the table stops; once it has, also the mail and the key of the call."""

    table: str
    row: int
    mail: str = ""
    key: str = ""

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read it, if it is there."""
        return msgspec.json.decode(path.read_bytes(), type=cls) if path.exists() else None

    def write(self, path: Path) -> None:
        """Write it so that a reader finds all of it or nothing."""
        draft = path.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(self))
        draft.replace(path)


class HeldTable(Table):
    """A folder of CSV files that can be asked to stop after a row."""

    def __init__(self, path: str | Path, *, hold: str | Path, name: str = "table") -> None:
        super().__init__(path, name=name, key_column=True)
        self.hold = Path(hold)

    @mutation(
        risk="low",
        noun="row",
        lag_s=1,
        timeout_s=TIMEOUT_S,
        key_in="field",
        asked="exactly",
        proof="itself",
    )
    async def insert(self, call: Call, table: str, row: dict[str, Value]) -> Inserted:
        """Add one row to a table."""
        inserted = await self.write(call, table, row)
        hold = await self.in_thread(Hold.read, self.hold / HOLD)
        if hold is not None and (hold.table, hold.row) == (table, inserted["row"]):
            held = replace(hold, mail=str(row["mail"]), key=call.key)
            await self.in_thread(held.write, self.hold / HELD)
            await asyncio.Event().wait()
        return inserted

    @insert.reconcile
    async def insert_happened(self, call: Call) -> Verdict:
        """Look for the row that carries the key of this call."""
        return await Table.insert_happened(self, call)

    async def write(self, call: Call, table: str, row: dict[str, Value]) -> Inserted:
        """Write the row to the disk."""
        return await Table.insert.function(self, call, table, row)
