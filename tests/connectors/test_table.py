"""Rows in tables, whatever keeps them: each once, also through a host that crashes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors import Table
from duly.connectors.folder import Folder
from duly.connectors.row import PAGE_MAX
from duly.connectors.table import COLUMNS_MAX, VALUE_CHARS_MAX
from duly.errors import ConfigError
from duly.testing import Stage
from tests.connectors.rows import (
    Make,
    call,
    csv_table,
    database,
    insert,
    mounted,
    sql_table,
    values,
)
from tests.connectors.sheets import SENT_AT

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[mounted(csv_table), mounted(sql_table)], ids=["csv", "sql"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    return lambda **options: request.param(tmp_path, **options)


# -- What both kinds do ---------------------------------------------------------------------------


async def test_rows_are_inserted_read_and_found(make: Make) -> None:
    rows = make()
    assert (await rows.rows("people")).items == []
    assert await rows.find("people", 1) is None
    assert await insert(rows, "k1", name="Ada", note=None) == {"row": 1, "table": "people"}
    assert await insert(rows, "k2", name='"B", c\r\n ') == {"row": 2, "table": "people"}
    (first, second) = await values(rows)
    assert (first["name"], second["name"]) == ("Ada", '"B", c\r\n ')
    assert set(first) == {"name", "note"}  # and no key of ours (R1)
    assert await rows.find("people", "2") == {"row": 2, "values": second}
    assert await rows.find("people", 3) is None
    assert await rows.find("people", "x") is None


async def test_a_key_makes_one_row_however_often_it_is_sent(make: Make) -> None:
    """L7: a second send finds the row of the first, and equal rows of two keys are two."""
    rows = make()
    assert await rows.insert_happened(call()) == duly.NotApplied()
    first = await insert(rows)
    assert await insert(rows) == first
    assert await insert(rows, "k2") == {"row": 2, "table": "people"}
    assert await rows.insert_happened(call()) == duly.Applied(first)
    assert await rows.insert_happened(call("k3")) == duly.NotApplied()
    assert len(await values(rows)) == 2


@pytest.mark.parametrize("make_bare", [csv_table, sql_table])
async def test_a_table_whose_disk_is_not_mounted_neither_denies_a_call_nor_takes_it_again(
    tmp_path: Path, make_bare: Make
) -> None:
    """L5, L7: the row is on the disk that is away, and would be made a second time beside it."""
    rows = make_bare(tmp_path)
    again = replace(call(), attempt=2)
    assert isinstance(await rows.insert_happened(call()), duly.Unsure)
    with pytest.raises(duly.NotSent, match="Is its disk mounted"):
        await rows.insert(again, **again.args)  # type: ignore[arg-type]
    assert Folder(tmp_path).is_bare()
    assert await insert(rows) == {"row": 1, "table": "people"}  # the first send of a new table


async def test_rows_come_in_pages_with_a_cursor(make: Make, monkeypatch: Any) -> None:
    monkeypatch.setattr("duly.connectors.folder.os.fsync", lambda file: None)
    rows = make()
    for number in range(PAGE_MAX + 1):
        await insert(rows, f"k{number}", number=number, even=number % 2 == 0)
    page = await rows.rows("people")
    assert (len(page.items), page.names) == (PAGE_MAX, {"last_cursor": 100, "has_more": True})
    page = await rows.rows("people", after=100)
    assert [each["row"] for each in page.items] == [101]
    assert page.names == {"last_cursor": 101, "has_more": False}
    page = await rows.rows("people", after=101)
    assert (page.items, page.names["last_cursor"]) == ([], 101)
    odd = await rows.rows("people", where={"even": False})
    assert [each["row"] for each in odd.items[:2]] == [2, 4]
    with pytest.raises(duly.Refused, match=r"people has no column 'odd'\. It has number, even"):
        await rows.rows("people", where={"odd": True})


async def test_a_page_of_long_rows_is_cut_to_what_an_answer_can_carry(
    make: Make, monkeypatch: Any
) -> None:
    """N: or nobody could ever read past them; a row that is longer comes alone."""
    monkeypatch.setattr("duly.connectors.table.PAGE_BYTES_MAX", 70)
    rows = make()
    for number, length in enumerate((20, 20, 40, 200), 1):
        await insert(rows, f"k{number}", name="x" * length)
    after, sizes = None, []
    while True:
        page = await rows.rows("people", after)
        sizes.append(len(page.items))
        after = page.names["last_cursor"]
        if not page.names["has_more"]:
            break
    assert sizes == [2, 1, 1]


async def test_a_row_that_comes_after_others_were_taken_away_is_not_missed(
    make: Make, tmp_path: Path
) -> None:
    """F1: it has the number of one that was read before."""
    rows = make()
    for number in range(3):
        await insert(rows, f"k{number}", name=str(number))
    page = await rows.rows("people")
    file = tmp_path / "people.csv"
    if file.exists():
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:-2]))
    else:
        database(tmp_path, "delete from people where rowid > 1", "delete from sqlite_sequence")
    page = await rows.rows("people", page.names["last_cursor"])
    assert (page.items, page.names["last_cursor"]) == ([], 1)
    await insert(rows, "new", name="new")
    page = await rows.rows("people", page.names["last_cursor"])
    assert [each["values"]["name"] for each in page.items] == ["new"]
    assert (await rows.rows("nothing", 7)).names["last_cursor"] == 0


async def test_a_unique_value_is_refused_the_second_time_and_its_row_named(make: Make) -> None:
    """L4: another call's row is in the way; nothing was done."""
    rows = make(key={"people": "mail"})
    await insert(rows, "k1", mail="a@x", name="Ada")
    with pytest.raises(duly.Refused, match="people has mail 'a@x' already, in row 1"):
        await insert(rows, "k2", mail="a@x", name="Other")
    with pytest.raises(duly.Refused, match="the row has no mail"):
        await insert(rows, "k2", name="Other")
    assert await insert(rows, "k1", mail="a@x", name="Ada") == {"row": 1, "table": "people"}
    assert await rows.insert_happened(call("k2")) == duly.NotApplied()
    found = await rows.find("people", "a@x")
    assert found == {"row": 1, "values": {"mail": "a@x", "name": "Ada"}}
    assert len(await values(rows)) == 1
    assert await insert(rows, "k3", mail="b@x", name="Bob") == {"row": 2, "table": "people"}


async def test_a_column_nobody_knows_is_refused_and_a_missing_one_is_empty(make: Make) -> None:
    rows = make()
    await insert(rows, "k1", name="Ada", age=36)
    with pytest.raises(duly.Refused, match=r"people has no column 'nmae'\. It has name, age"):
        await insert(rows, "k2", nmae="Bob")
    await insert(rows, "k2", age=7)
    assert (await values(rows))[1]["name"] in (None, "")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, "the row is empty"),
        ({"a": [1]}, "row.a is a list. Give a text, a number"),
        ({"": 1}, "no name for a column"),
        ({"a\n": 1}, "no name for a column"),
        ({" a": 1}, "cannot be called ' a'"),
        ({"duly_key": "x"}, "cannot be called 'duly_key'"),
        ({"ROWID": "x"}, "cannot be called 'ROWID'"),
        ({"a": 1, "A": 2}, "differ in capitals alone"),
        ({"a": "x" * (VALUE_CHARS_MAX + 1)}, "too long"),
        ({"a": "x\0"}, "has a zero in it"),
        ({f"c{number}": 1 for number in range(COLUMNS_MAX + 1)}, "101 columns; at most 100"),
    ],
)
async def test_a_row_that_does_not_fit_is_refused(make: Make, row: Any, said: str) -> None:
    """F1: before anything is written."""
    made = duly.Call("table.insert", {}, key="k", workflow="w", attempt=1, sent_at=SENT_AT)
    with pytest.raises(duly.Refused, match=said):
        await make().insert(made, "people", row)
    assert await values(make()) == []


async def test_the_largest_row_is_taken(make: Make) -> None:
    row = {f"c{number}": "x" for number in range(COLUMNS_MAX)}
    rows = make()
    await insert(rows, **{**row, "c0": "x" * VALUE_CHARS_MAX})
    assert (await values(rows))[0]["c0"] == "x" * VALUE_CHARS_MAX


@pytest.mark.parametrize("table", ["", "1a", "a/b", "..", "a.b", 'a"b', "sqlite_x", "a" * 101])
async def test_a_name_that_is_none_for_a_table_is_refused(make: Make, table: str) -> None:
    """F1: no name leaves the folder, or the quotes."""
    rows, made = make(), call()
    for trying in (
        rows.rows(table),
        rows.find(table, 1),
        rows.insert(made, table, {"a": 1}),
    ):
        with pytest.raises(duly.Refused, match="no name for a table"):
            await trying


async def test_odd_names_of_columns_are_only_names(make: Make) -> None:
    row = {'x"; drop table people; --': "1", "{table}": "2", "a,b;c": "3", "é ü": "4"}
    rows = make()
    await insert(rows, **row)
    assert await values(rows) == [row]


async def test_many_writers_at_once_lose_nothing(make: Make) -> None:
    """Two connectors, as two hosts have them, and many calls of each."""
    first, second = make(), make()
    calls = [
        insert(first if number % 2 else second, f"k{number}", n=number) for number in range(24)
    ]
    made = await asyncio.gather(*calls)
    assert sorted(each["row"] for each in made) == list(range(1, 25))
    assert sorted(int(each["n"]) for each in await values(first)) == list(range(24))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give either a folder .path. or a database .url."),
        ({"path": ".", "url": "sqlite:///x.db"}, "give either"),
        ({"path": "missing"}, "rows: there is no folder missing"),
        ({"url": "postgresql://x"}, "no URL like sqlite:///rows.db"),
        ({"url": "sqlite:///"}, "no URL like"),
        ({"url": "sqlite:///missing/rows.db"}, "there is no folder missing"),
    ],
)
def test_a_table_that_could_not_work_is_refused_when_it_is_made(
    options: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=said):
        Table(**options, name="rows")


# -- In a host ------------------------------------------------------------------------------------

MAILS = """
from duly import workflow

flow = workflow("adder", topics={"person.met": {"ingress": True}})


@flow.consumer("person.met")
class add:
    async def prepare(self, ctx, state):
        met = await ctx.peek("person.met", limit=1)
        if not met:
            return {"reservations": []}
        return {
            "reservations": [{"topic": "person.met", "ids": [met[0]["message_id"]]}],
            "data": met[0]["title"],
            "ui": {"title": "Add a row"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.table.insert(table="people", row={"name": prepared["data"]})
"""


async def test_a_host_that_crashes_after_an_insert_adds_no_second_row(
    duly_world: Stage, make: Make
) -> None:
    """L3, L7: the next host sends the same key again, and the row is found."""
    host = await duly_world.host(connectors=[make()])
    await host.deploy(duly.Source("python", MAILS), by="me", grant=True)
    await host.publish("adder", "person.met", title="Ada", by="me")
    duly_world.crash_at(record="before")
    await duly_world.crash(host, host.drain())
    assert make()._rows.page("people", 0, {}) == [(1, {"name": "Ada"})]
    host = await duly_world.host(connectors=[make()])
    async with host.running():
        await duly_world.advance("10m")
    (mutation,) = await host.mutations("adder")
    assert (mutation.status, mutation.result) == ("applied", {"row": 1, "table": "people"})
    assert make()._rows.page("people", 0, {}) == [(1, {"name": "Ada"})]
