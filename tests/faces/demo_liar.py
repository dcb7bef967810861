"""Tables that lie about the one call that was out when the host died; the demo must notice.

duly demo --table tests.faces.demo_liar:Denier
"""

from __future__ import annotations

from dataclasses import replace

from duly.connectors.base import Applied, Call, NotApplied, Verdict
from duly.connectors.row import Value
from duly.connectors.table import Inserted
from duly.faces.demo.table import HOLD, HeldTable, Hold


class Denier(HeldTable):
    """Says that nothing happened, though the row is there; sent again, the call is known to it."""

    async def insert_happened(self, call: Call) -> Verdict:
        return NotApplied()


class Doubler(Denier):
    """Says that nothing happened, and makes a second row when it is sent again."""

    async def write(self, call: Call, table: str, row: dict[str, Value]) -> Inserted:
        is_there = isinstance(await HeldTable.insert_happened(self, call), Applied)
        again = replace(call, key=f"{call.key}-again") if is_there else call
        return await super().write(again, table, row)


class Boaster(HeldTable):
    """Says that the row is there, though it never wrote it."""

    async def write(self, call: Call, table: str, row: dict[str, Value]) -> Inserted:
        asked = Hold.read(self.hold / HOLD)
        if asked is None or asked.table != table:
            return await super().write(call, table, row)
        page = await self.rows(table)
        if len(page.items) + 1 != asked.row:
            return await super().write(call, table, row)
        return {"table": table, "row": asked.row}

    async def insert_happened(self, call: Call) -> Verdict:
        return Applied({"table": call.args["table"], "row": 1})
