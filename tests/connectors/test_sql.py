"""The `sql` connector on both databases: reads that cannot change, changes made exactly once."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.base import Applied, Call, NotApplied, Page, Unsure
from duly.connectors.sql import Sql
from duly.connectors.sql_base import CLOCK_MARGIN_MS
from duly.errors import (
    AuthNeeded,
    ConfigError,
    NotSent,
    PermissionDenied,
    Refused,
    UnknownOutcome,
)
from duly.rules.failure import RECORD_LOST
from duly.testing import ExamFailed, examine, look_at_disk
from tests.connectors.books import (
    OPERATIONS,
    Books,
    FileBooks,
    ServerBooks,
    age,
    call,
    count_of,
    user_of,
    with_one,
)
from tests.postgres.proxy import Cut, Proxy

# -- Reads ----------------------------------------------------------------------------------------


async def test_a_read_returns_rows_and_says_when_there_are_more(books: Books) -> None:
    """K6: a read is limited by rows."""
    for number in range(5):
        books.run(f"insert into invoice (id, customer, total) values ({number}, 'Ada', 0.5)")
    sql: Any = books.make(with_one(**{**OPERATIONS["list_of"], "rows_max": 3}))
    assert await sql.list_of(customer="Ada") == Page(
        [{"id": each, "customer": "Ada", "total": 0.5} for each in range(5)], has_more=False
    )
    cut = await sql.extra(customer="Ada")
    assert ([each["id"] for each in cut.items], cut.names) == ([0, 1, 2], {"has_more": True})
    assert await sql.one(id=3) == {"id": 3, "customer": "Ada"}
    assert await sql.one(id=9) is None


async def test_a_value_is_a_value_whatever_is_in_it(books: Books) -> None:
    """K5, K12: nothing in an argument becomes part of the statement."""
    sql: Any = books.make()
    evil = "'; delete from invoice; --"
    await sql.add(call(id=1, customer=evil, total=None), id=1)
    assert (await sql.list_of(customer=evil)).items == [{"id": 1, "customer": evil, "total": None}]


@pytest.mark.parametrize(
    "statement",
    [
        "with gone as (delete from invoice returning id) select id from gone",
        "select id from invoice where id = (select max(id) from invoice) for update",
        "with x as (select 1) insert into invoice (id, customer) select 7, 'x' from x returning id",
    ],
)
async def test_the_database_keeps_a_read_from_changing(books: Books, statement: str) -> None:
    """K5: a statement that changes is refused, whatever the settings call it."""
    sql: Any = books.make(with_one(sql=statement, kind="read"))
    books.run("insert into invoice (id, customer) values (1, 'Ada')")
    with pytest.raises((Refused, PermissionDenied)):
        await sql.extra()
    assert books.run("select id from invoice") == [(1,)]


async def test_a_read_ends_in_its_time(books: Books) -> None:
    """K6: a statement that would run for hours is ended by the database."""
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n)"
    endless = f"{numbers} select count(*) as c from n"
    sql: Any = books.make(with_one(sql=endless, kind="read", timeout_s=0.2))
    with pytest.raises(NotSent):
        await sql.extra()


async def test_one_read_carries_a_limit_of_bytes(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K6: rows that are too large for one result are left for the next, one that is too large is
    refused."""
    monkeypatch.setattr("duly.connectors.sql_base.READ_BYTES_MAX", 200)
    for number, text in enumerate(("x" * 100, "x" * 120, "x" * 300)):
        books.run(f"insert into invoice (id, customer) values ({number}, '{text}')")
    sql: Any = books.make(with_one(sql="select id, customer from invoice order by id"))
    cut = await sql.extra()
    assert ([each["id"] for each in cut.items], cut.names) == ([0], {"has_more": True})
    sql = books.make(with_one(sql="select customer from invoice where id = 2"))
    with pytest.raises(Refused, match="One row is larger"):
        await sql.extra()


async def test_what_a_script_cannot_hold_becomes_text_or_is_refused(books: Books) -> None:
    """T8: no number is rounded and no bytes are given on."""
    big = "select 9007199254740993 as big, 1.5 as half, null as none"
    found = (await books.make(with_one(sql=big)).extra()).items  # type: ignore[attr-defined]
    assert found[0]["big"] == "9007199254740993"
    assert (float(found[0]["half"]), found[0]["none"]) == (1.5, None)
    twice = with_one(sql="select 1 as a, 2 as a")
    with pytest.raises(Refused, match="Two columns are called 'a'"):
        await books.make(twice).extra()  # type: ignore[attr-defined]


async def test_bytes_are_refused(tmp_path: Path) -> None:
    """T8: a blob is no JSON."""
    sql: Any = FileBooks(tmp_path).make(with_one(sql="select x'00ff' as raw"))
    with pytest.raises(Refused, match="raw holds bytes"):
        await sql.extra()


# -- Changes --------------------------------------------------------------------------------------


async def test_a_key_makes_its_change_once(books: Books) -> None:
    """L7: sent again, also with the table changed since, it returns what it returned."""
    sql: Any = books.make()
    assert await sql.add(call(), **call().args) == {"count": 1, "rows": [{"id": 1}]}
    assert await sql.add(call(attempt=2), **call().args) == {"count": 1, "rows": [{"id": 1}]}
    assert await sql.add_happened(call()) == Applied({"count": 1, "rows": [{"id": 1}]})
    assert books.run("select count(*) from invoice") == [(1,)]
    books.run("delete from invoice")  # a person removed the row: it was made all the same
    assert isinstance(await sql.add_happened(call()), Applied)


async def test_reconcile_knows_for_certain(books: Books) -> None:
    """L5: a call that was not made is denied, beside one that was."""
    sql: Any = books.make()
    await sql.add(call("other"), **call().args)
    age(books)
    assert await sql.add_happened(call("k1")) == NotApplied()


async def test_a_refused_statement_changes_nothing_and_records_nothing(books: Books) -> None:
    """L4: an error before the commit is definite, and the key stays free."""
    sql: Any = books.make()
    await sql.add(call("first"), **call().args)
    with pytest.raises(Refused):
        await sql.add(call("second"), **call().args)  # the same id again
    assert await sql.add_happened(call("second")) == NotApplied()


async def test_a_change_of_another_number_of_rows_is_taken_back(books: Books) -> None:
    """L4: `expect` refuses before the commit."""
    sql: Any = books.make()
    with pytest.raises(Refused, match="changed 0 rows, not 1"):
        await sql.pay(call(tool="books.pay", id=8), id=8)
    await sql.add(call("made"), **call().args)
    assert (await sql.pay(call("paid", tool="books.pay", id=1), id=1))["count"] == 1


async def test_a_change_that_returns_too_many_rows_is_taken_back(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K6, L4: one row past the limit is refused before the commit, and none is left out."""
    monkeypatch.setattr("duly.connectors.sql_base.RETURNED_ROWS_MAX", 3)
    for number in range(4):
        books.run(f"insert into invoice (id, customer, total) values ({number}, 'Ada', 0.5)")
    statement = "update invoice set total = 0 where id < :most returning id"
    sql: Any = books.make(with_one(sql=statement, arguments={"most": "integer"}))
    done = await sql.extra(call("three", tool="books.extra", most=3), most=3)
    assert (done["count"], len(done["rows"])) == (3, 3)
    with pytest.raises(Refused, match="more than 3 rows"):
        await sql.extra(call("four", tool="books.extra", most=4), most=4)
    assert books.run("select count(*) from invoice where total = 0") == [(3,)]


async def test_without_its_table_of_calls_no_call_is_denied_or_sent_again(books: Books) -> None:
    """L5: when the record was dropped, a person decides; a new call begins a new record."""
    sql: Any = books.make()
    await sql.add(call(), **call().args)
    books.run("drop table duly_calls")
    assert isinstance(await sql.add_happened(call()), Unsure)
    with pytest.raises(Refused, match="no record says") as lost:
        await sql.add(call(attempt=2), **call().args)
    assert lost.value.code == RECORD_LOST
    fresh = call("k2", id=2, customer="Bob", total=1)
    object.__setattr__(fresh, "sent_at", fresh.sent_at.replace(year=2027))
    object.__setattr__(fresh, "first_sent_at", fresh.sent_at)
    await sql.add(fresh, **fresh.args)
    # The new record began after the old call: what it does not know it does not deny.
    assert isinstance(await sql.add_happened(call()), Unsure)
    with pytest.raises(Refused, match="no record says"):
        await sql.add(call(attempt=2), **call().args)
    assert books.run("select id from invoice order by id") == [(1,), (2,)]


async def test_a_host_whose_clock_is_behind_begins_no_record_that_denies_an_earlier_call(
    books: Books,
) -> None:
    """L5: the new table is dated by the clock of the database, not by that of the call."""
    sql: Any = books.make()
    await sql.add(call(), **call().args)
    books.run("drop table duly_calls")
    behind = at("k2", call().sent_at - timedelta(hours=1), 2)
    await sql.add(behind, **behind.args)
    assert isinstance(await sql.add_happened(call()), Unsure)
    with pytest.raises(Refused, match="no record says"):
        await sql.add(call(attempt=2), **call().args)
    assert books.run("select id from invoice order by id") == [(1,), (2,)]


async def test_the_clock_of_a_host_is_believed_with_a_margin(books: Books) -> None:
    """L5: beside a server a call may seem to be later than the table, by a clock that is ahead."""
    sql: Any = books.make()
    await sql.add(call(), **call().args)
    ((began_ms,),) = books.run("select sent_ms from duly_calls where key = ''")
    margin_ms = CLOCK_MARGIN_MS if isinstance(books, ServerBooks) else 0

    def after(key: str, ms: int) -> Call:
        return at(key, datetime.fromtimestamp((began_ms + ms) / 1000, UTC), 2)

    assert isinstance(await sql.add_happened(after("k2", margin_ms - 1)), Unsure)
    assert await sql.add_happened(after("k3", margin_ms)) == NotApplied()


async def test_a_first_send_that_came_to_the_table_is_known_for_certain(books: Books) -> None:
    """L5: its record began before the change, so an absence is certain, whatever the clocks say."""
    sql: Any = books.make()
    first = call(tool="books.pay", id=7)
    with pytest.raises(Refused, match="changed 0 rows"):
        await sql.pay(first, id=7)
    assert await sql.pay_happened(first) == NotApplied()
    books.run("drop table duly_calls")  # and with it the mark that it came
    assert isinstance(await sql.pay_happened(first), Unsure)
    await sql.add(at("k2", first.sent_at, 2), id=2, customer="Bob", total=1)
    assert isinstance(await sql.pay_happened(first), Unsure)


def at(key: str, sent_at: datetime, number: int) -> Call:
    """Spell a call that a host sent first at this time, by its own clock."""
    args: dict[str, Any] = {"id": number, "customer": "Bob", "total": 1}
    return Call("books.add", args, key, "flow", 1, sent_at, sent_at)


@pytest.mark.parametrize(
    "statement",
    [
        "insert into duly_calls (key, tool, sent_ms) values ('x', 'y', 1)",
        "select result from DULY_CALLS",
        'select result from "duly_calls"',
    ],
)
def test_no_statement_touches_the_record(books: Books, statement: str) -> None:
    """L7: what proves a change belongs to the host."""
    with pytest.raises(ConfigError, match="belongs to the host"):
        books.make(with_one(sql=statement))


async def test_a_view_of_the_record_is_no_way_round(tmp_path: Path) -> None:
    """L7: SQLite is asked about every table that a statement touches."""
    books = FileBooks(tmp_path)
    sql: Any = books.make(with_one(sql="delete from hidden where key <> ''"))
    await sql.add(call(), **call().args)
    books.run("create view hidden as select * from duly_calls")
    books.run(
        "create trigger t instead of delete on hidden begin delete from duly_calls"
        " where key = old.key; end"
    )
    with pytest.raises(PermissionDenied):
        await sql.extra(call("k9", tool="books.extra", x=1))
    assert isinstance(await sql.add_happened(call()), Applied)


# -- The exam -------------------------------------------------------------------------------------


@pytest.fixture
def _few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try some of the lines; `TEST_EXAM=all` tries every one."""
    if os.environ.get("TEST_EXAM") != "all":
        monkeypatch.setattr("duly.testing.exam.POINTS_MAX", 25)
        monkeypatch.setattr("duly.testing.exam.STOPS_MAX", 2)


@pytest.mark.usefixtures("_few_points")
def test_a_change_in_a_file_passes_the_exam(tmp_path: Path) -> None:
    """L4, L5, L7: killed and failing at every line, a change is made once and known for certain."""

    def make(folder: Path) -> Sql:
        return _begun(FileBooks(folder))

    report = examine(
        make,
        "add",
        {"id": 1, "customer": "Ada", "total": 1.0},
        other_args={"id": 2, "customer": "Bob", "total": 1.0},
        effects=count_of(FileBooks),
        folder=tmp_path / "exam",
        modules=["duly.connectors.sql_sqlite"],
        look=look_at_disk,
    )
    assert (report.applied > 2, report.not_applied > 10, report.unsure) == (True, True, 0)


@pytest.mark.usefixtures("_few_points")
def test_a_change_on_a_server_passes_the_exam(tmp_path: Path, server_folder: Path) -> None:
    """L4, L5, L7: the same on PostgreSQL; a transaction that was cut off is waited for."""

    def at(folder: Path) -> ServerBooks:
        user = user_of(folder)
        is_new = not (folder / "made").exists()
        (folder / "made").touch()
        return ServerBooks(server_folder, user, is_new=is_new)

    report = examine(
        lambda folder: _begun(at(folder)),
        "add",
        {"id": 1, "customer": "Ada", "total": 1.0},
        other_args={"id": 2, "customer": "Bob", "total": 1.0},
        effects=count_of(at),
        folder=tmp_path / "exam",
        modules=["duly.connectors.sql_postgres"],
        look=lambda folder: at(folder).run("select * from invoice"),
    )
    assert (report.applied > 2, report.not_applied > 10, report.unsure) == (True, True, 0)


def _begun(books: Books) -> Sql:
    """Make a connector of a database in which calls were recorded before."""
    (found,) = books.run(_HAS_CALLS[type(books)])[0]
    if not found:
        books.run(
            "create table duly_calls"
            " (key text primary key, tool text not null, result text, sent_ms bigint not null)"
        )
        books.run("insert into duly_calls values ('', '', null, 0)")
        if isinstance(books, ServerBooks):
            books.run(f'alter table duly_calls owner to "{books.user}"')
    return books.make()


_HAS_CALLS: dict[type, str] = {
    FileBooks: "select count(*) from pragma_table_info('duly_calls')",
    ServerBooks: "select count(*) from pg_class where oid = to_regclass('duly_calls')",
}


def test_a_record_beside_the_transaction_fails_the_exam(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L7: a connector that records the key after its commit is found out."""
    import duly.connectors.sql_sqlite as module

    monkeypatch.setattr("duly.testing.exam.POINTS_MAX", 6)
    monkeypatch.setattr("duly.testing.exam.STOPS_MAX", 1)
    monkeypatch.setattr(module, "_insert", lambda database, key, tool, sent_ms: None)
    with pytest.raises(ExamFailed):
        examine(
            lambda folder: _begun(FileBooks(folder)),
            "add",
            {"id": 1, "customer": "Ada", "total": 1.0},
            other_args={"id": 2, "customer": "Bob", "total": 1.0},
            effects=count_of(FileBooks),
            folder=tmp_path / "exam",
            look=look_at_disk,
        )


# -- The network ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("cut", "is_made"), [(Cut.NOT_SENT, False), (Cut.UNHEARD, True)])
async def test_a_commit_that_was_cut_off_is_unknown_and_then_known(
    tmp_path: Path, server_folder: Path, cut: Cut, is_made: bool
) -> None:
    """L4, L5: after the commit was sent nothing is certain until the record is read."""
    books = ServerBooks(server_folder, user_of(tmp_path))
    proxy = Proxy(server_folder)
    sql: Any = _allowed(books, proxy.port)
    await sql.add(call("before", id=5, customer="Eve", total=1), id=5)
    age(books)
    proxy.cut = cut
    with pytest.raises(UnknownOutcome):
        await sql.add(call(), **call().args)
    assert proxy.cuts == 1
    verdict = await sql.add_happened(call())
    assert isinstance(verdict, Applied if is_made else NotApplied)
    assert (await sql.add(call(attempt=2), **call().args))["count"] == 1
    assert books.run("select count(*) from invoice where id = 1") == [(1,)]
    proxy.close()


def _allowed(books: ServerBooks, port: int) -> Sql:
    return books.make(port=port, allow=["127.0.0.1"], tls="off")


async def test_a_server_that_is_not_there_was_sent_nothing(tmp_path: Path) -> None:
    """L4: failing to connect is definite."""
    sql: Any = Sql(
        "postgresql://ada@127.0.0.1:1/books", operations=OPERATIONS, allow=["127.0.0.1"], tls="off"
    )
    with pytest.raises(NotSent, match="no connection"):
        await sql.add(call(), **call().args)


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "localhost"])
async def test_an_address_that_is_not_public_is_refused(host: str) -> None:
    """K3: a database on a private network must be named in the settings."""
    sql: Any = Sql(f"postgresql://ada@{host}/books", operations=OPERATIONS)
    with pytest.raises(PermissionDenied, match="not public"):
        await sql.one(id=1)


async def test_the_environment_says_nothing(
    tmp_path: Path, server_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K3: neither host, user nor options of libpq come from variables."""
    books = ServerBooks(server_folder, user_of(tmp_path))
    for name, value in {
        "PGHOST": "192.0.2.1",
        "PGHOSTADDR": "192.0.2.1",
        "PGUSER": "nobody",
        "PGOPTIONS": "-c statement_timeout=1",
        "PGDATESTYLE": "German",
        "PGSSLMODE": "require",
    }.items():
        monkeypatch.setenv(name, value)
    sql: Any = books.make(with_one(sql="select current_user as who, date '2026-01-02' as day"))
    assert (await sql.extra()).items == [{"who": books.user, "day": "2026-01-02"}]


async def test_a_server_without_tls_gets_nothing_unless_it_is_allowed(
    tmp_path: Path, server_folder: Path
) -> None:
    """K3: TLS is verified; without it nothing is said to the server."""
    books = ServerBooks(server_folder, user_of(tmp_path))
    proxy = Proxy(server_folder)
    sql: Any = books.make(port=proxy.port, allow=["127.0.0.1"])
    with pytest.raises(NotSent, match="no connection"):
        await sql.one(id=1)
    proxy.close()


async def test_a_wrong_or_missing_password_is_asked_for(
    tmp_path: Path, server_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F4: it is not retried; with the right one the same call is made."""
    books = ServerBooks(server_folder, user_of(tmp_path))
    given = {"password": "wrong"}
    sql: Any = books.make(secret="password")
    monkeypatch.setattr(sql, "secret", given.__getitem__)
    rules = server_folder / "data" / "pg_hba.conf"
    rules.write_text(f'local all "{books.user}" scram-sha-256\n{rules.read_text()}')
    books.run("select pg_reload_conf()")
    books.run(f"alter role \"{books.user}\" password 'right'")
    for password, said in (("wrong", "does not take this password"), ("", "wants a password")):
        given["password"] = password
        with pytest.raises(AuthNeeded, match=said):
            await sql.one(id=1)
        with pytest.raises(AuthNeeded, match=said):
            await sql.add(call(), id=1, customer="Ada", total=2.5)
    given["password"] = "right"
    assert await sql.one(id=1) is None
