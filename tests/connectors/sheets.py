"""A connector as its author writes it, and a spreadsheet service for it to talk to.

The type checker of the house reads this file, so what is taught here is what type-checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import duly

SENT_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Service:
    """The outside: rows, and the key of the call that added each."""

    rows: list[tuple[str, list[str]]] = field(default_factory=list)


class Sheets(duly.Connector):
    name = "sheets"

    def __init__(self, service: Service | None = None) -> None:
        self.service = service or Service()

    @duly.read
    async def search(self, query: str = "") -> duly.Page:
        found = [values for _, values in self.service.rows if query in "".join(values)]
        return duly.Page(found, last_cursor=len(found))

    @duly.read(by_id=True, capability="sheets.look", noun="row", timeout_s=5)
    async def get_row(self, row_id: int) -> list[str]:
        return self.service.rows[row_id][1]

    @duly.mutation(capability="sheets.append", risk="low", noun="row", lag_s=5)
    async def append_row(
        self, call: duly.Call, spreadsheet_id: str, values: list[str], note: str | None = None
    ) -> dict[str, Any]:
        self.service.rows.append((call.key, values))
        return {"row_id": len(self.service.rows) - 1}

    @append_row.reconcile
    async def append_row_happened(
        self, call: duly.Call
    ) -> duly.Applied | duly.NotApplied | duly.Unsure:
        for row_id, (key, _) in enumerate(self.service.rows):
            if key == call.key:
                return duly.Applied({"row_id": row_id})
        return duly.NotApplied()

    @duly.mutation
    async def clear(self, call: duly.Call) -> None:
        self.service.rows.clear()


def make_call(tool: str = "sheets.append_row", **args: Any) -> duly.Call:
    return duly.Call(tool, args, key="key-1", workflow="w1", attempt=1, sent_at=SENT_AT)


async def what_the_author_may_write(sheets: Sheets) -> tuple[list[str], dict[str, Any]]:
    """Call the methods as any other; a wrong call is a type error, or the ignore would be one."""
    sheets.name = "other"
    await sheets.search(query=1)  # type: ignore[arg-type]
    await sheets.append_row(spreadsheet_id="S1", values=[])  # type: ignore[call-arg]
    row = await sheets.get_row(0)
    added = await sheets.append_row(make_call(), "S1", values=row)
    return row, added


class Loud(Sheets):
    name = "loud"

    async def append_row(
        self, call: duly.Call, spreadsheet_id: str, values: list[str], note: str | None = None
    ) -> dict[str, Any]:
        return await super().append_row(call, spreadsheet_id, [each.upper() for each in values])
