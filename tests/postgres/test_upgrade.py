"""Hosts of two versions on one server: which of them changes the schema, and which one stops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from duly.env import Loop
from duly.errors import StoreError, StoreNewer
from duly.rules.lease import LeaseTimes
from duly.store import Store, postgres
from duly.store.base import Durability
from duly.store.migrate import SCHEMA_VERSION
from duly.store.postgres import bring_up, open_postgres
from duly.store.record import Action
from duly.store.server import look_at_server
from duly.store.sqlite import Schema, default_schema
from tests.postgres.server import address
from tests.postgres.stand import KEY, Outside, deploy, opened, until
from tests.postgres.world import Place

STORE = Path(__file__).parents[1] / "store"
OLD = default_schema()
STEP = "alter table host add column note text;\nalter table host add column size integer;"
NEW = replace(OLD, version=SCHEMA_VERSION + 1, migrations={SCHEMA_VERSION: STEP})
STEPS_FROM = 5  # the first version of the schema that a server had
SHAPE = """
    select 'column', table_name || '.' || column_name, concat_ws(
        ' ', data_type, collation_name, is_nullable, column_default)
    from information_schema.columns where table_schema = 'public'
    union all
    select 'constraint', conrelid::regclass::text, pg_get_constraintdef(oid)
    from pg_constraint where connamespace = 'public'::regnamespace
    union all
    select 'index', indexname, indexdef from pg_indexes where schemaname = 'public'
    union all
    select 'view', viewname, definition from pg_views where schemaname = 'public'
    order by 1, 2, 3
"""
COLUMNS = """
    select column_name, data_type, collation_name from information_schema.columns
    where table_name = 'host' and column_name in ('note', 'size') order by column_name
"""


async def test_a_newer_host_changes_the_schema_when_no_older_one_is_here(place: Place) -> None:
    """H4, H11: an older host that comes back, or was open meanwhile, writes nothing more."""
    name = place.make(place._empty)
    url, env = address(place.folder, name), Loop()
    older = await open_postgres(url, env, schema=OLD)
    await Store(older).join("host_1", now=0, lease_ms=60_000)
    with pytest.raises(StoreError) as refused:
        bring_up(url, NEW)
    assert (refused.value.code, refused.value.facts["hosts"]) == ("server_schema_older", 1)
    await Store(older).leave("host_1")
    bring_up(url, NEW)
    bring_up(url, NEW)  # the second one finds it done
    with psycopg.connect(url) as server:
        found = server.execute(COLUMNS).fetchall()
    assert found == [("note", "text", "C"), ("size", "bigint", None)]

    with pytest.raises(StoreNewer):
        bring_up(url, OLD)
    await Store(older).join("host_2", now=0, lease_ms=60_000)  # it was open all the time
    older.write_as(lambda: "host_2", LeaseTimes(60_000))
    older.beside.on_enter = older.check_version
    with pytest.raises(StoreNewer):
        await older.transact(lambda tx: tx.run("leave_all"), Durability.BARRIER)
    await older.close()
    env.close()


ADDS = replace(NEW, additive=frozenset({SCHEMA_VERSION}))
DROPS = replace(
    ADDS,
    version=SCHEMA_VERSION + 2,
    migrations={**ADDS.migrations, SCHEMA_VERSION + 1: "alter table host drop column note;"},
)


async def test_hosts_of_two_versions_work_side_by_side_while_the_schema_only_adds(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H11: the newer one adds while the older one works; a change that does not add is refused."""
    monkeypatch.setenv("DULY_KEY", KEY)
    url, outside = address(place.folder, place.make(place._empty)), Outside()
    async with opened(url, outside) as older, older.running():
        await deploy(older)
        await older.publish("notes", "note", title="a", message_id="a")
        await until(lambda: outside.posts == ["a"], "a run on the older schema")
        monkeypatch.setattr(postgres, "default_schema", lambda: ADDS)
        async with opened(url, outside) as newer, newer.running():
            await deploy(newer, "more")
            for host in (older, newer):
                for name in ("notes", "more"):
                    text = f"{name} {host is newer}"
                    await host.publish(name, "note", title=text, message_id=text)
            await until(lambda: len(outside.posts) == 5, "runs of both workflows, of both hosts")
            with pytest.raises(StoreError) as refused:
                bring_up(url, DROPS)
            assert refused.value.code == "server_schema_older"
            assert len(await older.hosts()) == 2
    assert len(set(outside.posts)) == 5
    bring_up(url, OLD)  # an older host that starts now works as well
    bring_up(url, DROPS)
    for schema in (OLD, ADDS):
        with pytest.raises(StoreNewer):
            bring_up(url, schema)


def shape_of(url: str) -> list[tuple[object, ...]]:
    """Every column, constraint, index and view; a column that was added later stands last."""
    with psycopg.connect(url) as server:
        return server.execute(SHAPE).fetchall()


def test_a_server_of_an_older_version_becomes_what_a_new_one_is(place: Place) -> None:
    """H4, H1: the same columns, constraints, indexes and views as in a database that is new."""
    for first in range(STEPS_FROM, SCHEMA_VERSION):
        text = (STORE / f"schema_{first}.sql").read_text(encoding="utf-8")
        old, new = (address(place.folder, place.make("template0")) for _ in range(2))
        bring_up(old, Schema(text, {}, version=first))
        assert shape_of(old)
        bring_up(old, OLD)
        bring_up(new, OLD)
        assert shape_of(old) == shape_of(new)


def test_a_change_of_the_schema_that_fails_leaves_the_server_as_it_was(place: Place) -> None:
    """H4: every step in one transaction; a host of the version before works as ever."""
    url = address(place.folder, place.make(place._empty))
    before = shape_of(url)
    broken = {SCHEMA_VERSION: STEP, SCHEMA_VERSION + 1: "alter table host drop column nothing;"}
    with pytest.raises(psycopg.errors.UndefinedColumn):
        bring_up(url, replace(OLD, version=SCHEMA_VERSION + 2, migrations=broken))
    assert shape_of(url) == before
    bring_up(url, OLD)
    bring_up(url, NEW)
    assert shape_of(url) != before


async def test_what_a_host_of_the_schema_before_left_is_not_taken_for_lost(place: Place) -> None:
    """H10, H11: it wrote no timeline, so its eviction says nothing of a promotion."""
    name = place.make(place._empty)
    url, env = address(place.folder, name), Loop()
    store = Store(await open_postgres(url, env))
    await store.join("host_1", now=0, lease_ms=0)
    with psycopg.connect(url) as server:
        server.execute("update host set timeline = null")
        server.execute(
            "insert into workflow (id, name, counter, holder, epoch, created_at)"
            " values ('w', 'w', 0, 'host_1', 1, 0)"
        )
        ((until,),) = server.execute("select lease_until from host").fetchall()
    action = Action("action_1", "duly", "pause", "a standby was promoted")
    assert await store.evict("host_1", until, action=action, now=0)
    with psycopg.connect(url) as server:
        assert server.execute("select paused, blind_since from workflow").fetchall() == [(0, None)]
    await store.backend.close()
    env.close()


def test_doctor_looks_at_a_store_of_the_schema_before(place: Place) -> None:
    """H7, H11: it does not know of machines yet, and that is no error of the server."""
    name = place.make(place._empty)
    url = address(place.folder, name)
    bring_up(url, OLD)
    with psycopg.connect(url) as server:
        server.execute("alter table workflow rename column machine to unknown")
        server.execute("update store set version = version - 1")
    assert look_at_server(url).homeless == ()
