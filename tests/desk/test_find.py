"""`find` and `sql`: what a person looks for by a text, or by a SELECT of their own (U6, H1)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

import duly
from duly.desk.record import Hit
from duly.errors import Invalid, NotFound, RequestRefused
from duly.rules.value import Json
from duly.store import find as store_find
from duly.store import inquiry
from duly.testing import Stage
from tests.engine.stand import IN, NAME, TOOL, Play, flow, opened


async def filled(stage: Stage) -> Play:
    """Open a host that has worked on three events."""
    play = await opened(stage)
    await play.deploy(flow())
    for message_id, title in (("a-1", "Invoice of Ada"), ("a-2", "Bill"), ("b-1", "invoice two")):
        await play.host.publish(NAME, IN, message_id=message_id, title=title, payload=1)
    await play.drain()
    return play


# -- find ---------------------------------------------------------------------------------------


async def test_find_knows_message_ids_by_their_beginning(duly_world: Stage) -> None:
    """U6: exactly, in upper and lower case as they are, in every topic."""
    play = await filled(duly_world)
    found = await play.host.find("a-")
    assert {(each.topic, each.message_id) for each in found.hits} >= {(IN, "a-1"), (IN, "a-2")}
    assert all(each.message_id.startswith("a-") for each in found.hits)
    assert (await play.host.find("A-")).hits == ()
    assert (await play.host.find("-1")).hits == ()


async def test_find_looks_titles_through_newest_first(duly_world: Stage) -> None:
    """U6: whatever the case, in the middle of a title too."""
    play = await filled(duly_world)
    found = await play.host.find("INVOICE", workflow=NAME)
    assert [each.message_id for each in found.hits] == ["b-1", "a-1"]
    assert (found.after, found.looked > 2) == (None, True)
    assert [each.title for each in (await play.host.find("of ad")).hits] == ["Invoice of Ada"]


async def test_find_goes_on_where_a_page_ended(duly_world: Stage) -> None:
    """U6: a page costs the same whatever the history; pages together show each hit once."""
    play = await filled(duly_world)
    for text in ("a-", "invoice", "i"):
        whole = (await play.host.find(text)).hits
        one_by_one: list[Hit] = []
        after = None
        while True:
            page = await play.host.find(text, limit=1, after=after)
            one_by_one += page.hits
            after = page.after
            if after is None:
                break
        assert tuple(one_by_one) == whole


async def test_find_stops_after_so_many_titles(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: what it has not looked at it says, and the next page looks there."""
    play = await filled(duly_world)
    monkeypatch.setattr(store_find, "LOOKED_MAX", 1)
    monkeypatch.setattr(store_find, "LOOKED_PER_STATEMENT", 1)
    page = await play.host.find("invoice of")
    assert (page.hits, page.looked) == ((), 1)
    while not page.hits:
        assert page.after is not None
        page = await play.host.find("invoice of", after=page.after)
    assert page.hits[0].message_id == "a-1"


async def test_find_does_not_find_what_is_not_shown(duly_world: Stage) -> None:
    """A5: a secret cannot be guessed letter by letter."""
    play = await filled(duly_world)
    await play.host.set_secret("sheet", "token", "of Ada")
    assert (await play.host.find("of ad")).hits == ()


async def test_find_refuses_what_it_cannot_look_for(duly_world: Stage) -> None:
    """U6: an empty text, an unknown workflow, a place that no page ended at."""
    play = await filled(duly_world)
    for text in ("", "  ", "x" * 501, "\ud800"):
        with pytest.raises(Invalid, match="text must be a text of 1 to"):
            await play.host.find(text)
    with pytest.raises(NotFound):
        await play.host.find("a", workflow="nothing")
    for after in ("", "title|w", "id|w", "title|w|x", "other|w|1", "title|w|" + "9" * 30):
        with pytest.raises(Invalid, match="must be where the page before ended"):
            await play.host.find("a", after=after)


# -- sql ----------------------------------------------------------------------------------------


async def test_sql_reads_every_documented_view(duly_world: Stage) -> None:
    """H1, B14: while the host runs; workflows go by their names, times are Unix seconds."""
    play = await filled(duly_world)
    for view in inquiry.VIEWS:
        assert (await play.host.sql(f"select * from {view}")).columns
    found = await play.host.sql("select workflow, tool, status, sends from mutations")
    assert found.columns == ("workflow", "tool", "status", "sends")
    assert found.rows == ((NAME, TOOL, "applied", 1),) * 3
    assert (await play.host.sql("select count(*) from inputs")).rows == ((3,),)
    counted = "select kind, count(*) from outputs group by kind order by kind"
    assert (await play.host.sql(counted)).rows == (("change", 3), ("event", 3))


REFUSED = {
    "a table": "select * from mutation",
    "a secret": "select sealed from secret",
    "a table beside a view": "select * from runs, run",
    "a table in a subquery": "select (select content from event) from runs",
    "a table named as a view": "with runs as (select sealed from secret) select * from runs",
    "a column named as a view": "with runs as (select seed from run) select * from runs",
    "a table as a view": "select * from (select sealed from secret) as mutations",
    "the schema": "select * from sqlite_schema",
    "a write": "update workflow set paused = 1",
    "a delete": "delete from event",
    "a table of its own": "create temp table x (a)",
    "a pragma": "pragma journal_mode",
    "a pragma as a function": "select * from pragma_table_info('run')",
    "another file": "attach '/tmp/other.db' as other",
    "a transaction": "commit",
    "a checkpoint": "pragma wal_checkpoint",
    "a large value": "select zeroblob(100)",
    "a view without its cover": "select args from main.mutations",
    "a table of a view": "with mutations as (select args from mutation) select * from mutations",
    "a plan": "explain query plan select * from mutations",
    "a program": "explain select * from mutations",
    "how many secrets": "select count(*) from secret",
    "a function that takes long": "select json_patch('{}', '{}')",
    "a wide row": "select " + ", ".join(["1"] * 101),
    "many calls": "select " + " + ".join(["abs(1)"] * 101),
    "many patterns": "select " + " + ".join(["1 like 2"] * 21),
    "a long pattern": f"select '' like '{'a' * 201}'",
    "a character that is none": "select '\ud800'",
    "an end within": "select 1\0",
    "a text that is none": "select cast(x'ff' as text)",
}


@pytest.mark.parametrize("what", REFUSED)
async def test_sql_reads_nothing_but_the_views(duly_world: Stage, what: str) -> None:
    """H1: read-only, views only; the refusal names them."""
    play = await filled(duly_world)
    with pytest.raises((RequestRefused, Invalid)):
        await play.host.sql(REFUSED[what])
    assert (await play.host.sql("select count(*) from workflows")).rows == ((1,),)


async def test_sql_returns_no_number_that_differs_between_languages(duly_world: Stage) -> None:
    """U6: one of more than 53 bits crosses as its digits."""
    play = await filled(duly_world)
    found = await play.host.sql(f"select {2**63 - 1}, {-(2**53)}, {2**53 - 1}, {1 - 2**53}")
    assert found.rows == ((str(2**63 - 1), str(-(2**53)), 2**53 - 1, 1 - 2**53),)


async def test_sql_takes_one_statement(duly_world: Stage) -> None:
    """H1: the second is not run; text that is no SQL is named."""
    play = await filled(duly_world)
    with pytest.raises(Invalid, match="must hold one statement"):
        await play.host.sql("select 1; select 2")
    for empty in ("", "  ", "-- nothing"):
        with pytest.raises(Invalid, match="must hold one statement"):
            await play.host.sql(empty)
    with pytest.raises(Invalid, match="syntax error"):
        await play.host.sql("selec 1")
    with pytest.raises(Invalid, match="longer than"):
        await play.host.sql("select " + "1," * 20_000 + "1")


async def test_sql_is_limited_in_rows_and_bytes(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1: what was left out is said."""
    play = await filled(duly_world)
    found = await play.host.sql("select 1 from mutations", limit=2)
    assert (len(found.rows), found.is_cut) == (2, True)
    assert not (await play.host.sql("select 1 from mutations", limit=3)).is_cut
    for limit in (0, 1001, True):
        with pytest.raises(Invalid, match="limit"):
            await play.host.sql("select 1", limit=limit)
    monkeypatch.setattr(inquiry, "BYTES_MAX", 10)
    assert (await play.host.sql("select id from mutations")).is_cut


async def test_sql_shows_no_secret(duly_world: Stage) -> None:
    """A5: what a secret is taken out of everywhere, it is taken out of here."""
    play = await filled(duly_world)
    await play.host.set_secret("sheet", "token", "of Ada")
    found = await play.host.sql("select title, x'00ff' from inputs where message_id = 'a-1'")
    ((title, digits),) = found.rows
    assert ("of Ada" in str(title), digits) == (False, "00ff")


SECRET = "sesame-open-42"
PARTS = {
    "a piece": "select substr(title, 9, 6) from inputs",
    "letters": "select unicode(substr(title, 9, 1)), unicode(substr(title, 10, 1)) from inputs",
    "another case": "select upper(title) from inputs",
    "a guess": "select count(*) from inputs where title like '%sesame-%'",
    "a glob": "select count(*) from inputs where title glob '*sesame*'",
    "a place": "select instr(title, 'sesame') from inputs",
    "an order": "select 1 from inputs where title > 'Invoice s' and title < 'Invoice t'",
    "a key": "select json_extract(payload, '$.key') is not null from inputs",
    "a part of JSON": "select substr(payload ->> '$.password', 1, 7) from inputs",
}


@pytest.mark.parametrize("what", PARTS)
async def test_sql_gives_no_part_of_a_secret_away(duly_world: Stage, what: str) -> None:
    """A5: it is taken out before the statement sees the text, not only out of what is shown."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.set_secret("sheet", "token", SECRET)
    shown = []
    for title in (f"Invoice {SECRET}", "Invoice [redacted]"):
        payload: Json = {"password": title.removeprefix("Invoice ")}
        await play.host.publish(NAME, IN, message_id=title[-3:], title=title, payload=payload)
        where = f"inputs where message_id = '{title[-3:]}'"
        query = PARTS[what].replace("inputs where", f"{where} and").replace("inputs", where)
        shown.append((await play.host.sql(query.replace(f"{where} where", f"{where} and"))).rows)
    assert shown[0] == shown[1]


async def test_sql_counts_the_rows_of_a_part_and_shows_what_is_no_number(duly_world: Stage) -> None:
    """H1: a name that a person gives is no table; infinity has no form in JSON."""
    play = await filled(duly_world)
    named = "with n (x) as (select id from mutations union select 'one') select count(*) from n"
    assert (await play.host.sql(named)).rows == ((4,),)
    assert (await play.host.sql("select 9e999, -9e999")).rows == (("inf", "-inf"),)
    placed = "select instr('abc', 'c'), instr('abc', 'x'), instr(null, 'c'), instr(x'0102', x'02')"
    assert (await play.host.sql(placed)).rows == ((3, 0, None, 2),)


async def test_sql_is_limited_in_time_within_a_row_too(duly_world: Stage) -> None:
    """H1: SQLite looks at no clock within a row, so a row costs little."""
    play = await filled(duly_world)
    long, part = "printf('%01000000d', 0)", "printf('%0300000d', 1)"
    begun_s = time.monotonic()
    assert (await play.host.sql(f"select instr({long}, {part})")).rows == ((0,),)
    assert time.monotonic() - begun_s < 5


async def test_sql_is_limited_in_time_and_holds_up_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1: a SELECT that never ends is ended, and acts go on meanwhile."""
    monkeypatch.setattr(inquiry, "INQUIRY_MS_MAX", 1500)
    counting = "with recursive n (x) as (select 1 union all select x + 1 from n)"
    endless = f"{counting} select max(x) from n"
    async with duly.Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        asked = asyncio.ensure_future(host.sql(endless))
        await asyncio.sleep(0.2)
        begun_s, acts = time.monotonic(), 0
        while not asked.done() and acts < 5:
            await host.bus.emit("a.topic", {"number": acts}, source="test")
            assert await host.workflows() == ()
            acts += 1
        assert (acts, asked.done()) == (5, False), time.monotonic() - begun_s
        with pytest.raises(RequestRefused, match=r"longer than 1\.5 s"):
            await asked
        assert (await host.sql("select count(*) from event_journal")).rows == ((5,),)
