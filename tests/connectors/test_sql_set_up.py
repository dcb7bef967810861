"""The set-up of an `sql` connection: it is tried without a change, and its owner is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.base import Applied, Unsure
from duly.connectors.raised import tame
from duly.connectors.set_up import SetUpFault
from duly.connectors.sql import Sql
from duly.connectors.sql_base import CREATE
from duly.errors import NotSent, Refused
from duly.rules.failure import RECORD_LOST, WRONG_SET_UP
from tests.connectors.books import (
    OPERATIONS,
    Books,
    FileBooks,
    ServerBooks,
    call,
    user_of,
    with_one,
)
from tests.connectors.test_sql_edges import later

HAS_CALLS = {
    FileBooks: "select count(*) from sqlite_master where name = 'duly_calls'",
    ServerBooks: "select count(*) from pg_class where oid = to_regclass('duly_calls')",
}
COLUMNS = "tool text not null, result text, sent_ms bigint not null"
# Tables that a person made by hand, and that keep no record.
UNFIT = {
    "its key is not unique": f"create table duly_calls (key text, {COLUMNS})",
    "only a part of its keys is unique": f"create table duly_calls (key text, {COLUMNS});"
    " create unique index parts on duly_calls (key) where tool = 'x'",
    "its key is unique with another column": f"create table duly_calls (key text, {COLUMNS},"
    " primary key (key, tool))",
    "a column is missing": "create table duly_calls (key text primary key, tool text not null)",
    "it wants one more": f"create table duly_calls (key text primary key, {COLUMNS},"
    " x text not null)",
}


def has_calls(books: Books) -> bool:
    return books.run(HAS_CALLS[type(books)]) == [(1,)]


def own(books: Books, statements: str) -> None:
    """Make a table as a person would by hand, and let the account use it."""
    for each in statements.split(";"):
        books.run(each)
    if isinstance(books, ServerBooks):
        books.run(f'grant select, insert, update on duly_calls to "{books.user}"')


# -- The table of records -------------------------------------------------------------------------


async def test_a_change_that_is_refused_leaves_the_record_for_the_next(books: Books) -> None:
    """L5, L7: the record began before the first change, so the same call can be made again."""
    sql: Any = books.make(with_one(sql="insert into nowhere (id) values (1)"))
    with pytest.raises(Refused):
        await sql.extra(call(tool="books.extra", x=1))
    assert has_calls(books)
    books.run("create table nowhere (id integer)")
    if isinstance(books, ServerBooks):
        books.run(f'alter table nowhere owner to "{books.user}"')
    await sql.extra(call(attempt=2, tool="books.extra", x=1))
    assert books.run("select count(*) from nowhere") == [(1,)]


async def test_a_first_call_is_refused_for_good_where_no_record_can_begin(books: Books) -> None:
    """L4, F4: no wait heals it, so it is the owner who is told; the next call has another key."""
    own(books, UNFIT["its key is not unique"])
    sql: Any = books.make()
    with pytest.raises(Refused, match="not as Duly needs it") as refused:
        await sql.add(call(), **call().args)
    assert refused.value.code == WRONG_SET_UP
    assert CREATE in str(refused.value)
    assert books.run("select count(*) from invoice") == [(0,)]
    books.run("alter table duly_calls rename to not_ours")
    await sql.add(later("k2", **call().args), **call().args)
    assert isinstance(await sql.add_happened(later("k2")), Applied)


@pytest.mark.parametrize("table", UNFIT.values(), ids=UNFIT)
async def test_a_table_made_by_hand_that_keeps_no_record_is_refused(
    books: Books, table: str
) -> None:
    """L7: with keys that are not unique a call would be made twice."""
    own(books, table)
    sql: Any = books.make()
    (fault,) = await sql._check()
    assert fault.tool == ""
    assert CREATE in fault.message
    for attempt in (1, 2):
        with pytest.raises(Refused):
            await sql.add(call(attempt=attempt), **call().args)
    assert books.run("select count(*) from invoice") == [(0,)]


KEPT_OUT = {
    FileBooks: "create trigger no before {what} on duly_calls when new.key = 'k1'"
    " begin select raise(ignore); end",
    ServerBooks: "create function no() returns trigger language plpgsql as 'begin"
    " if new.key = ''k1'' then return null; end if; return new; end';"
    " create trigger no before {what} on duly_calls for each row execute function no()",
}


@pytest.mark.parametrize("what", ["insert", "update"])
async def test_no_change_is_made_whose_record_a_trigger_keeps_out(books: Books, what: str) -> None:
    """L5, L7: else its absence would be certain, and it would be made again."""
    own(books, CREATE)
    for each in (
        [KEPT_OUT[FileBooks]] if isinstance(books, FileBooks) else KEPT_OUT[ServerBooks].split("';")
    ):
        is_function = each.startswith("create function")
        books.run(each.format(what=what) + ("'" if is_function else ""))
    sql: Any = books.make()
    with pytest.raises(Refused) as refused:
        await sql.add(call(), **call().args)
    assert refused.value.code == WRONG_SET_UP
    assert books.run("select count(*) from invoice") == [(0,)]


async def test_a_check_tries_a_record_as_large_as_that_of_a_call(
    tmp_path: Path, server_folder: Path
) -> None:
    """K10: a table that takes only short keys, short results or small numbers is found."""
    columns = "key text primary key", "result text", "sent_ms bigint"
    narrow = "key varchar(20) primary key", "result varchar(20)", "sent_ms integer"
    books = ServerBooks(server_folder, user_of(tmp_path))
    for wide, small in zip(columns, narrow, strict=True):
        own(books, CREATE.replace(wide, small))
        (fault,) = await books.make()._check()
        assert "not as Duly needs it" in fault.message, small
        books.run("drop table duly_calls")


async def test_first_calls_at_once_are_all_made_also_where_a_role_is_stricter(
    tmp_path: Path, server_folder: Path
) -> None:
    """L4: the one that waited sees the table that the other has made."""
    books = ServerBooks(server_folder, user_of(tmp_path))
    books.run(f'alter role "{books.user}" set default_transaction_isolation = serializable')
    sql: Any = books.make()
    calls = [call(f"k{each}", id=each, customer="Ada", total=1) for each in range(12)]
    found = await asyncio.gather(
        *(sql.add(each, **each.args) for each in calls), return_exceptions=True
    )
    assert not [each for each in found if isinstance(each, Refused)]


async def test_an_account_that_may_make_no_table_is_told_how_it_is_made(
    tmp_path: Path, server_folder: Path
) -> None:
    """L4, F4: before the first call by a check, and by the first call; a later one is made."""
    books = ServerBooks(server_folder, user_of(tmp_path))
    books.run(f'revoke create on schema "{books.user}" from "{books.user}"')
    sql: Any = books.make()
    (fault,) = await sql._check()
    assert "cannot be made" in fault.message
    assert fault.message.rstrip(".").endswith(CREATE)
    with pytest.raises(Refused, match="cannot be made") as refused:
        await sql.add(call(), **call().args)
    assert refused.value.code == WRONG_SET_UP
    own(books, CREATE)
    assert await sql._check() == ()
    await sql.add(later("k2", **call().args), **call().args)
    assert books.run("select count(*) from invoice") == [(1,)]


async def test_a_call_that_was_sent_before_its_record_began_waits_for_a_person(
    books: Books,
) -> None:
    """L5: a table that is missing after a restore is not taken for "never made"."""
    sql: Any = books.make()
    assert isinstance(await sql.add_happened(call()), Unsure)
    with pytest.raises(Refused) as refused:
        await sql.add(call(attempt=2), **call().args)
    assert refused.value.code == RECORD_LOST
    assert not has_calls(books)
    await sql.add(later("k2", **call().args), **call().args)
    with pytest.raises(Refused) as refused:
        await sql.add(call(attempt=3), **call().args)
    assert refused.value.code == RECORD_LOST
    assert books.run("select count(*) from invoice") == [(1,)]


async def test_a_file_that_does_not_exist_is_for_its_owner(tmp_path: Path) -> None:
    """F4: no wait makes it; a folder that is empty may be a disk that is not mounted."""
    (tmp_path / "beside.txt").touch()
    sql: Any = Sql(f"sqlite:///{tmp_path / 'none.db'}", operations=OPERATIONS, name="books")
    for ask in (sql.list_of(customer="Ada"), sql.add(call(), **call().args)):
        with pytest.raises(Refused, match="there is no such file") as refused:
            await ask
        assert refused.value.code == WRONG_SET_UP
    (fault,) = await sql._check()
    assert "there is no such file" in fault.message
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "beside.txt").unlink()
    with pytest.raises(NotSent):
        await sql.list_of(customer="Ada")


@pytest.mark.parametrize(
    ("given", "kept"),
    [(WRONG_SET_UP, WRONG_SET_UP), (RECORD_LOST, RECORD_LOST), ("not_sent", "refused")],
)
def test_of_the_codes_of_a_connector_only_those_for_its_owner_are_kept(
    given: str, kept: str
) -> None:
    """L4, L13: another code could say of a call what its type does not."""
    tamed = tame(Refused("No.", code=given))
    assert isinstance(tamed, Refused)
    assert (tamed.code, str(tamed)) == (kept, "No.")


# -- The check ------------------------------------------------------------------------------------


async def test_a_check_of_a_good_set_up_finds_nothing_and_changes_nothing(books: Books) -> None:
    """K10: every statement is planned, none is run, and no table is made."""
    books.run("insert into invoice (id, customer, total) values (7, 'Ada', 1)")
    sql: Any = books.make(with_one(sql="delete from invoice"))
    assert await sql._check() == ()
    assert not has_calls(books)
    assert books.run("select id from invoice") == [(7,)]
    await sql.add(call(), **call().args)
    before = books.run("select * from duly_calls order by key")
    assert await sql._check() == ()
    assert books.run("select * from duly_calls order by key") == before


async def test_a_check_names_each_statement_that_does_not_work(books: Books) -> None:
    """K10: a missing table and a missing column are found before the first call."""
    wrong = {
        **with_one(sql="update nowhere set a = 1"),
        "other": {"sql": "select nothing from invoice"},
    }
    faults: tuple[SetUpFault, ...] = await books.make(wrong)._check()
    assert [each.tool for each in faults] == ["extra", "other"]
    assert "nowhere" in faults[0].message
    assert "nothing" in faults[1].message


async def test_a_check_plans_a_statement_with_arguments_of_every_kind(books: Books) -> None:
    """K10: a sum of two numbers, a limit and a text are no fault."""
    kinds = {"a": "integer", "b": "number?", "c": "string", "d": "boolean", "e": "list?"}
    statement = (
        "select id from invoice where :a + :a > 0 and total < :b and customer = :c"
        " and (1 = 1) = :d and customer <> :e limit :a"
    )
    sql = books.make(with_one(sql=statement, arguments=kinds))
    assert await sql._check() == ()


async def test_a_check_of_a_connection_that_only_reads_asks_for_no_record(books: Books) -> None:
    """K10: what is never written is not needed."""
    own(books, UNFIT["its key is not unique"])
    sql = books.make({"one": OPERATIONS["one"]})
    assert await sql._check() == ()


async def test_a_server_that_is_not_there_is_a_fault_of_the_whole_connection() -> None:
    """K10: one sentence, and not one for each statement."""
    sql = Sql(
        "postgresql://ada@127.0.0.1:1/books", operations=OPERATIONS, allow=["127.0.0.1"], tls="off"
    )
    (fault,) = await sql._check()
    assert (fault.tool, "no connection" in fault.message) == ("", True)
