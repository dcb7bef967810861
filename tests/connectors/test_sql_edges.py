"""The `sql` connector at its edges: percent signs, many rows, servers and files that change."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.base import Applied, Call, NotApplied, Unsure
from duly.connectors.sql_base import STATEMENTS
from duly.connectors.sql_postgres import ServerPlace
from duly.errors import Refused
from tests.connectors.books import NOW, Books, ServerBooks, age, call, user_of, with_one


async def test_a_percent_sign_is_written_as_it_stands(books: Books) -> None:
    """Law 1 of `sql_text.py`: also in a statement without arguments."""
    books.run("insert into invoice (id, customer) values (1, 'Ada')")
    sql: Any = books.make(with_one(sql="update invoice set customer = '100%' where customer > '%'"))
    await sql.extra(call(tool="books.extra", x=1))
    assert books.run("select customer from invoice") == [("100%",)]
    sql = books.make(with_one(sql="select '5%' as part, 7 % 4 as rest"))
    assert (await sql.extra()).items == [{"part": "5%", "rest": 3}]


async def test_a_change_returns_all_of_its_rows_or_is_refused(books: Books) -> None:
    """L9: some rows would be taken for all; the count is right up to the last row."""
    books.run(
        "insert into invoice (id, customer)"
        " with recursive n(i) as (select 1 union all select i + 1 from n where i < 1001)"
        " select i, 'x' from n"
    )
    sql: Any = books.make(with_one(sql="update invoice set total = 1 returning id", expect=1000))
    with pytest.raises(Refused, match="more than 1,000 rows"):
        await sql.extra(call("k1", tool="books.extra", x=1))
    sql = books.make(with_one(sql="update invoice set total = 1 returning id"))
    with pytest.raises(Refused, match="more than 1,000 rows"):
        await sql.extra(call("k2", tool="books.extra", x=1))
    assert books.run("select count(*) from invoice where total = 1") == [(0,)]
    books.run("delete from invoice where id = 1001")
    made = await sql.extra(call("k3", tool="books.extra", x=1))
    assert (made["count"], len(made["rows"])) == (1000, 1000)


async def test_two_first_calls_make_one_record_and_both_are_done(books: Books) -> None:
    """L4: a call is not refused because another one makes the table of calls at the same time."""
    sql: Any = books.make()
    calls = [call(f"k{number}", id=number, customer="Ada", total=1) for number in range(4)]
    made = await asyncio.gather(*(sql.add(each, **each.args) for each in calls))
    assert [each["count"] for each in made] == [1, 1, 1, 1]
    # Of each its record, and that it came to this table; and since when the table is kept.
    assert books.run("select count(*) from duly_calls") == [(9,)]


@pytest.mark.parametrize("place", ["database", "user", "password"])
def test_a_zero_does_not_cut_the_address_and_the_tls_off(place: str) -> None:
    """K3: libpq reads up to a zero, and would have asked another resolver, without TLS."""
    given: dict[str, Any] = {"database": "books", "user": "ada", "password": "x", place: "a\0b"}
    addresses = (ip_address("192.0.2.1"),)
    with pytest.raises(Refused, match="has a zero"):
        ServerPlace("db.example", 5432, **given, addresses=addresses).conninfo()


def later(key: str, **args: Any) -> Call:
    """Spell a call that was first sent an hour after the others."""
    return Call("books.add", args, key, "flow", 1, NOW + timedelta(hours=1))


async def test_a_table_that_an_administrator_made_is_used(books: Books) -> None:
    """The pages say so: an account that may make no tables finds one, with nothing in it."""
    books.run(STATEMENTS["create_calls"])
    if isinstance(books, ServerBooks):
        books.run(f'grant select, insert, update on duly_calls to "{books.user}"')
        books.run(f'revoke create on schema "{books.user}" from "{books.user}"')
    sql: Any = books.make()
    await sql.add(call(), **call().args)
    assert isinstance(await sql.add_happened(call()), Applied)
    age(books)
    assert await sql.add_happened(call("k2")) == NotApplied()


async def test_a_table_that_was_emptied_denies_no_earlier_call(books: Books) -> None:
    """L5: the record begins anew with the next call, and knows nothing of those before."""
    sql: Any = books.make()
    await sql.add(call(), **call().args)
    books.run("delete from duly_calls")
    assert isinstance(await sql.add_happened(call()), Unsure)
    fresh = later("k2", id=2, customer="Bob", total=1)
    await sql.add(fresh, **fresh.args)
    assert isinstance(await sql.add_happened(call()), Unsure)
    assert isinstance(await sql.add_happened(later("k3", id=3)), Unsure)
    age(books)
    assert await sql.add_happened(later("k3", id=3)) == NotApplied()


@pytest.mark.parametrize(("level", "used"), [("off", "on"), ("local", "local")])
async def test_a_commit_that_is_answered_is_on_the_disk(
    server_folder: Path, tmp_path: Path, level: str, used: str
) -> None:
    """L9: else a crash of the server would lose a change that was called made, and its record."""
    server_books = ServerBooks(server_folder, user_of(tmp_path))
    server_books.run(f'alter role "{server_books.user}" set synchronous_commit = {level}')
    statement = (
        "insert into invoice (id, customer, total)"
        " values (7, current_setting('synchronous_commit'), 1) returning customer"
    )
    sql: Any = server_books.make({"note": {"sql": statement}})
    made = await sql.note(call(tool="books.note"))
    assert made["rows"] == [{"customer": used}]


async def test_no_function_of_a_statement_takes_its_commit_off_the_disk(
    server_folder: Path, tmp_path: Path
) -> None:
    """L9: the level at the commit counts, and a statement or a trigger could have lowered it."""
    books = ServerBooks(server_folder, user_of(tmp_path))
    note = "update invoice set customer = current_setting('synchronous_commit') where id = new.id"
    books.run(
        "create function note() returns trigger language plpgsql security definer set search_path"
        f" from current as $$ begin {note}; return null; end $$"
    )
    books.run(
        "create constraint trigger noted after insert on invoice deferrable initially deferred"
        " for each row execute function note()"
    )
    statement = (
        "insert into invoice (id, customer) values (7, '')"
        " returning set_config('synchronous_commit', 'off', true) as level"
    )
    sql: Any = books.make({"note": {"sql": statement}})
    assert (await sql.note(call(tool="books.note")))["rows"] == [{"level": "off"}]
    assert books.run("select customer from invoice") == [("on",)]
