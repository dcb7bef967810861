"""Lists as files: what came into a workflow and what it did, as CSV or JSON (G16).

Law 1  A file is offered as an attachment, so that a browser keeps it and does not show it.
Law 2  In CSV a text from outside is text: what cannot be seen is spelled out (G9), and nothing in
       it is computed by a spreadsheet program.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from duly.api.page import PAGE_ROWS_MAX
from duly.api.paging import next_page
from duly.api.registry import VERBS, Scope
from duly.api.text import guard_parts, visible
from duly.faces.web.body import JSON
from duly.faces.web.guard import Endpoint, Entry, visit_of
from duly.faces.web.query import read_query

EXPORT_ROWS_MAX: Final = 10_000
CSV: Final = "text/csv; charset=utf-8"
BYTE_ORDER_MARK: Final = "\ufeff"  # without it some spreadsheet programs read another alphabet

Rows = Sequence[Mapping[str, Any]]
Columns = Mapping[str, Callable[[Mapping[str, Any]], str]]


def _outputs_of(row: Mapping[str, Any]) -> str:
    return "; ".join(f"{each['status']} {_tool_of(each) or each['id']}" for each in row["outputs"])


def _tool_of(row: Mapping[str, Any]) -> str:
    return str(row["observed"]["tool"]) if row["observed"] else ""


COLUMNS: Final[Mapping[str, Columns]] = {
    "inputs": {
        "created_at": lambda row: row["created_at"],
        "status": lambda row: row["status"],
        "topic": lambda row: row["topic"],
        "message_id": lambda row: row["message_id"],
        "title": lambda row: row["title"],
        "outputs": _outputs_of,
    },
    "outputs": {
        "at": lambda row: row["at"],
        "status": lambda row: row["status"],
        "observed": _tool_of,
        "claimed": lambda row: row["claimed"] or "",
        "inputs": lambda row: "; ".join(row["inputs"]),
        "id": lambda row: row["id"],
    },
}


def list_entries() -> Iterator[Entry]:
    """Make an entry for each list and each form."""
    forms: dict[str, tuple[str, Callable[[Rows, Columns], bytes]]] = {
        "csv": (CSV, write_csv),
        "json": (JSON, lambda rows, _: msgspec.json.encode(rows)),
    }
    for what, columns in COLUMNS.items():
        for form, (kind, make) in forms.items():
            endpoint = _endpoint(what, form, kind, columns, make)
            yield Entry(f"/w/{{name}}/{what}.{form}", endpoint, {"GET": Scope.READ})


def _endpoint(
    what: str, form: str, kind: str, columns: Columns, make: Callable[[Rows, Columns], bytes]
) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        headers = {"Content-Disposition": f'attachment; filename="{what}.{form}"'}
        rows = await _collect(request, what)
        # Ten thousand rows take their time, and no other client waits for them (G10).
        made = await asyncio.to_thread(make, rows, columns)
        return Response(made, headers=headers, media_type=kind)

    return endpoint


async def _collect(request: Request, what: str) -> list[Mapping[str, Any]]:
    """Ask for the newest rows, page by page; the query narrows them as on the page."""
    session, verb = visit_of(request).session, VERBS[what]
    known = [each.name for each in verb.parameters if each.name in ("status", "before")]
    args: dict[str, Any] | None = {
        "workflow": request.path_params["name"],
        "limit": PAGE_ROWS_MAX,
        **read_query(request, verb, known),
    }
    rows: list[Mapping[str, Any]] = []
    while args is not None and len(rows) < EXPORT_ROWS_MAX:
        answer: Any = await session.call(what, **args)
        rows += answer
        args = next_page(verb, args, answer)
    return rows[:EXPORT_ROWS_MAX]


def write_csv(rows: Rows, columns: Columns) -> bytes:
    """Write rows as CSV (law 2)."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    for row in rows:
        writer.writerow(guard_parts(visible(column(row))) for column in columns.values())
    return (BYTE_ORDER_MARK + out.getvalue()).encode()
