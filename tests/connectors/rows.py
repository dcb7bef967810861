"""Tables as a test makes them, of both kinds, and the calls it makes to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

import duly
from duly.connectors import Table
from duly.rules.value import Json
from tests.connectors.sheets import SENT_AT

Make = Callable[..., Table]


def csv_table(folder: Path, **options: Any) -> Table:
    return Table(folder, **options)


def sql_table(folder: Path, **options: Any) -> Table:
    return Table(url=f"sqlite:///{folder / 'rows.db'}", **options)


def mounted(make: Make) -> Make:
    """Make a table in a folder that is not empty, as that of a disk that is not there is."""

    def make_mounted(folder: Path, **options: Any) -> Table:
        (folder / "lost+found").mkdir(exist_ok=True)
        return make(folder, **options)

    return make_mounted


def call(key: str = "k1", table: str = "people", **row: Any) -> duly.Call:
    args: dict[str, Json] = {"table": table, "row": row or {"name": "Ada", "age": 36}}
    return duly.Call("table.insert", args, key=key, workflow="w", attempt=1, sent_at=SENT_AT)


async def insert(rows: Table, key: str = "k1", **row: Any) -> Any:
    made = call(key, **row)
    return await rows.insert(made, **made.args)  # type: ignore[arg-type]


async def values(rows: Table, table: str = "people") -> list[Any]:
    return [each["values"] for each in (await rows.rows(table)).items]


def database(folder: Path, *statements: str) -> list[Any]:
    connection = apsw.Connection(str(folder / "rows.db"))
    try:
        return [row for statement in statements for row in connection.execute(statement)]
    finally:
        connection.close()
