"""Workflows that use files of one machine stay there (H7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import duly
from duly.config import FleetSettings
from duly.connectors.sql import Sql
from duly.rules.standing import Code
from duly.store.server import look_at_server
from tests.postgres.stand import KEY, Outside, database, deploy, opened, until
from tests.postgres.world import Place


class Local(Outside):
    """An outside that only its own machine can reach."""

    local = True


@pytest.fixture
def url(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("DULY_KEY", KEY)
    with database(place) as made:
        yield made


def on(machine: str) -> FleetSettings:
    return FleetSettings(lease_s=2, machine=machine)


def machine_of(url: str) -> str | None:
    with psycopg.connect(url, autocommit=True) as server:
        ((found,),) = server.execute("select machine from workflow").fetchall()
        return None if found is None else str(found)


async def test_a_workflow_with_a_local_connector_stays_on_its_machine(url: str) -> None:
    """H7: hosts elsewhere leave it alone, doctor names it, and a host that comes back goes on."""
    here, there = Local(label="here"), Local(label="there")
    async with opened(url, here, fleet=on("attic")) as one:
        await deploy(one)
        await one.publish("notes", "note", title="a", message_id="a")
        await one.drain()
        assert (here.posts, machine_of(url)) == (["a"], "attic")
        # What was unbound while this host holds it is bound again before its next send.
        await one.revoke("notes", "outside.post")
        assert machine_of(url) is None
        await one.grant("notes", "outside.post")
        await one.publish("notes", "note", title="again", message_id="again")
        await one.drain()
    assert (here.posts, machine_of(url)) == (["a", "again"], "attic")
    async with opened(url, there, fleet=on("cellar")) as two:
        await two.publish("notes", "note", title="b", message_id="b")
        await two.drain()
        assert there.posts == []
        assert look_at_server(url).homeless == (("notes", "attic"),)
        reason = (await two.why("notes")).reason
        assert (reason.code, reason.facts["machine"]) == (Code.WAITS_FOR_MACHINE, "attic")
        async with opened(url, here, fleet=on("attic")) as one, one.running():
            await until(lambda: here.posts[2:] == ["b"], "the note, on the machine it belongs to")
            await until(lambda: look_at_server(url).homeless == (), "a host that serves there")
        assert there.posts == []
        # A person who takes the capability back lets it go; the next use binds it again.
        await two.revoke("notes", "outside.post")
        assert machine_of(url) is None
        await two.grant("notes", "outside.post")
        await two.publish("notes", "note", title="c", message_id="c")
        await two.drain()
    assert (there.posts, machine_of(url)) == (["c"], "cellar")


async def test_a_workflow_that_uses_nothing_local_runs_anywhere(url: str) -> None:
    """H7: and is bound to no machine."""
    outside = Outside()
    for machine, text in (("attic", "a"), ("cellar", "b")):
        async with opened(url, outside, fleet=on(machine)) as host:
            if text == "a":
                await deploy(host)
            await host.publish("notes", "note", title=text, message_id=text)
            await host.drain()
    assert (outside.posts, machine_of(url)) == (["a", "b"], None)


def test_connectors_with_a_folder_are_local() -> None:
    """H7: their files lie on one machine."""
    from duly.connectors.files import Files
    from duly.connectors.mailbox import Mailbox
    from duly.connectors.table import Table

    assert all(each.local for each in (Files, Mailbox, Table))
    assert not duly.Connector.local


def test_a_database_is_local_if_it_is_a_file_or_behind_a_socket(tmp_path: Path) -> None:
    """H7: a server is reached from every machine, so its workflows may run on any."""
    told: dict[str, Any] = {"operations": {"one": {"sql": "select 1 as one"}}}
    assert Sql(f"sqlite:///{tmp_path}/books.db", **told).local
    assert Sql("postgresql://ada@/books", socket=str(tmp_path), **told).local
    assert not Sql("postgresql://ada@db.example.com/books", **told).local
