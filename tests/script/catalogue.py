"""The tools the drafts may use: a few services, each with reads and mutations."""

from __future__ import annotations

from duly.rules.catalog import Catalog, JsonType, Parameter, Tool, ToolKind

TYPES = {
    "s": frozenset({JsonType.STRING}),
    "i": frozenset({JsonType.INTEGER}),
    "l": frozenset({JsonType.LIST}),
    "o": frozenset({JsonType.OBJECT}),
    "n": frozenset({JsonType.STRING, JsonType.NULL}),
}
TOOLS = {
    "gmail.search": ("read", "query?:s after?:n"),
    "gmail.get": ("read_by_id", "id:s"),
    "gmail.send": ("mutation", "to:s subject:s body:s"),
    "gmail.archive": ("mutation", "id:s"),
    "sheets.search": ("read", "spreadsheet_id:s query?:s"),
    "sheets.get_row": ("read_by_id", "spreadsheet_id:s row_id:s"),
    "sheets.append_row": ("mutation", "spreadsheet_id:s values:l"),
    "sheets.update_row": ("mutation", "spreadsheet_id:s row_id:s values:l"),
    "slack.list_messages": ("read", "channel:s after?:n"),
    "slack.post_message": ("mutation", "channel:s text:s thread?:s"),
    "calendar.list_events": ("read", "after?:s before?:s"),
    "calendar.create_event": ("mutation", "title:s start:s end:s attendees?:l"),
    "github.list_issues": ("read", "repo:s state?:s since?:n"),
    "github.get_issue": ("read_by_id", "repo:s number:i"),
    "github.create_issue": ("mutation", "repo:s title:s body?:s labels?:l"),
    "github.add_comment": ("mutation", "repo:s number:i body:s"),
    "notion.query_database": ("read", "database_id:s filter?:o"),
    "notion.create_page": ("mutation", "database_id:s properties:o"),
    "table.insert": ("mutation", "table:s row:o"),
    "big_table.insert": ("mutation", "table:s row:o"),
    "books.unpaid_orders": ("read", "after_id:i"),
    "clock.next": ("read", "at:s timezone:s"),
}


def _parameter(text: str) -> Parameter:
    name, _, kind = text.partition(":")
    return Parameter(name.rstrip("?"), not name.endswith("?"), TYPES[kind])


CATALOG = Catalog(
    tuple(
        Tool(
            name,
            ToolKind(kind),
            f"{name.partition('.')[0]}.{'read' if kind != 'mutation' else 'write'}",
            parameters=tuple(_parameter(each) for each in takes.split()),
        )
        for name, (kind, takes) in TOOLS.items()
    )
)
