"""A host on a PostgreSQL server: it opens, works, and shares work with others."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import duly
from duly.api.build import build_host
from duly.api.project import find_project
from duly.config import FleetSettings
from duly.errors import (
    AuthNeeded,
    ConfigError,
    Fenced,
    Invalid,
    RequestRefused,
    StoreError,
    StoreNewer,
    StoreOlder,
    StoreUnavailable,
)
from duly.host import Host
from duly.rules.standing import Code
from duly.rules.word import MutationStatus
from duly.store import inquiry
from duly.store.postgres_session import ServerSession
from tests.postgres.server import ROLE, address
from tests.postgres.stand import KEY, Outside, database, deploy, opened, until
from tests.postgres.world import Place


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_KEY", KEY)


@pytest.fixture
def url(place: Place) -> Iterator[str]:
    with database(place) as made:
        yield made


# -- Opening --------------------------------------------------------------------------------------


async def test_the_first_host_makes_the_schema_and_two_at_once_make_one(place: Place) -> None:
    """H1, H4: an empty database is enough."""
    name = f"fresh_{place._name}"
    place._admin.execute(f"create database {name} owner {ROLE}")
    url = address(place.folder, name)
    async with opened(url) as one, opened(url) as two:
        assert await one.workflows() == await two.workflows() == ()
    place._admin.execute(f"drop database {name} with (force)")


async def test_a_store_of_a_newer_schema_or_of_another_program_is_refused(
    place: Place, url: str
) -> None:
    """H4: and nothing is changed."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update store set version = version + 1")
        with pytest.raises(StoreNewer, match="written by a newer Duly"):
            await Host(url).open()
        connection.execute("update store set version = version - 1")
    name = f"other_{place._name}"
    place._admin.execute(f"create database {name} owner {ROLE}")
    other = address(place.folder, name)
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("create table theirs (id integer)")
    with pytest.raises(StoreError, match="tables of another program"):
        await Host(other).open()
    place._admin.execute(f"drop database {name} with (force)")


async def test_a_secret_set_on_one_host_reaches_the_other(url: str) -> None:
    """H12: within a renewal, and one that is dropped is gone there."""
    async with opened(url, Outside()) as one, opened(url, Outside()) as two:
        vault = two._desk().vault
        assert vault is not None
        await one.set_secret("outside", "token", "s3cret-value")
        await until(lambda: ("outside", "token") in vault._open, "the secret")
        assert vault._hand_out("outside", "token") == "s3cret-value"
        await one.set_secret("outside", "token", "an0ther-value")
        await until(lambda: vault._open.get(("outside", "token")) == "an0ther-value", "the new one")
        await one.drop_secret("outside", "token")
        await until(lambda: ("outside", "token") not in vault._open, "its end")


class Locked(Outside):
    """An outside that takes one token alone."""

    @duly.mutation(lag_s=0.1, timeout_s=2, noun="post")
    async def post(self, call: duly.Call, text: str) -> dict[str, Any]:
        """Post a note."""
        if self.secret("token") != "an0ther-value":
            raise AuthNeeded("It takes another token.", connect="outside")
        self.posts.append(text)
        return {}


async def test_a_run_that_waits_goes_on_with_the_secret_of_another_host(url: str) -> None:
    """H12, F4: the host that holds it uses what was set elsewhere, and asks for no second one."""
    outside = Locked()
    # Neither reads secrets by itself while the test lasts: what counts is that it is not needed.
    far = FleetSettings(lease_s=600)
    async with opened(url, outside, fleet=far) as two:
        await two.set_secret("outside", "token", "s3cret-value")
        await deploy(two)
        await two.publish("notes", "note", payload={}, title="first", message_id="note:1")
        await two.drain()
        assert (await two.workflow("notes")).reason is not None
        assert outside.posts == []
        async with opened(url, Locked(), fleet=far) as one:
            await one.set_secret("outside", "token", "an0ther-value")
        await two.drain()
    assert outside.posts == ["first"]


async def test_a_server_that_is_not_there_is_said_without_its_password() -> None:
    """H3, A5: the sentence names what to check, and no secret."""
    url = "postgresql://me:hunter22@127.0.0.1:1/duly"
    with pytest.raises(StoreUnavailable) as raised:
        await Host(url).open()
    assert raised.value.code == "server_unreachable"
    assert "hunter22" not in str(raised.value)
    assert Host(url).place == "postgresql://me@127.0.0.1:1/duly"


def test_without_psycopg_a_sentence_says_what_to_install() -> None:
    """H1: a host of a SQLite file needs no client for PostgreSQL."""
    program = (
        "import sys, asyncio; sys.modules['psycopg'] = None\n"
        "from duly.host import Host\n"
        "from duly.errors import ConfigError\n"
        "try: asyncio.run(Host('postgresql://localhost/x').open())\n"
        "except ConfigError as error: print(error)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert "its extra `postgres`" in said


# -- Working --------------------------------------------------------------------------------------


async def test_a_host_runs_a_workflow_to_its_end(url: str) -> None:
    """H1: deploy, publish, run, and every question about it."""
    outside = Outside()
    async with opened(url, outside) as host:
        await deploy(host)
        await host.publish("notes", "note", payload={}, title="first", message_id="note:1")
        await host.drain()
        assert outside.posts == ["first"]
        (row,) = await host.mutations()
        assert row.status is MutationStatus.APPLIED
        (flow,) = await host.workflows()
        assert flow.name == "notes"
        assert (await host.why("notes")) is not None
    async with opened(url, outside) as host:  # what it left is there
        await host.drain()
        assert outside.posts == ["first"]


async def test_the_bus_delivers(url: str) -> None:
    """B3: to a handler of the same host."""
    seen: list[int] = []

    async def handle(event: object) -> None:
        seen.append(event.id)  # type: ignore[attr-defined]

    async with opened(url) as host:
        host.bus.subscribe("tea", handle, subscriber_id="kitchen")
        ids = [await host.bus.emit("tea", {}, source="me") for _ in range(5)]
        await host.drain()
    assert seen == ids


HARD: dict[str, object] = {
    "text": "a\x00b é e\u0301 \u2028 \uffff \U0001f600 '\"\\%s $1 :now",
    "numbers": [2**53 - 1, -(2**53) + 1, 1, 1.0, -0.0, 0.1 + 0.2, 5e-324, 1.7976931348623157e308],
    "": {"": [[], {}, None, True, False]},
    "order": {"b": 1, "a": 2},
}


async def test_a_value_comes_back_from_a_server_and_from_a_file_as_it_was(
    url: str, tmp_path: Path
) -> None:
    """T8: NUL, both zeros, the largest and the smallest numbers, the order of keys."""
    for store in (url, f"sqlite:///{tmp_path}/duly.db"):
        heard: list[str] = []

        async def handle(event: object, heard: list[str] = heard) -> None:
            heard.append(json.dumps(event.payload))  # type: ignore[attr-defined]

        async with opened(store) as host:
            host.bus.subscribe("values", handle, subscriber_id="ear")
            await host.bus.emit("values", HARD, source="me")
            await host.drain()
        assert heard == [json.dumps(HARD)]


async def test_the_backup_of_a_server_is_left_to_its_administrator(url: str) -> None:
    """H5, H1: Duly makes none, and says so."""
    async with opened(url) as host:
        with pytest.raises(RequestRefused) as raised:
            await host.backup("/tmp/never.db")
        assert raised.value.code == "not_sqlite"


def test_a_planned_backup_of_a_server_is_refused_before_the_host_starts(tmp_path: Path) -> None:
    """H5: settings that ask for what will not be done are wrong."""
    (tmp_path / "duly.toml").write_text(
        f'url = "{address(tmp_path)}"\n[backup]\nevery = "1d"\n', encoding="utf-8"
    )
    with pytest.raises(ConfigError) as wrong:
        build_host(find_project(str(tmp_path), {}, tmp_path))
    assert (wrong.value.code, wrong.value.subject) == ("backup_on_server", "backup.every")


async def test_a_select_of_a_person_never_reaches_the_server(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1: what a server alone knows can be neither read nor called, and nothing is written."""
    async with opened(url, Outside()) as host:
        await deploy(host)
        await host.publish("notes", "note", payload={}, title="first", message_id="note:1")
        await host.drain()
        for query in (
            "select * from pg_catalog.pg_authid",
            "select sealed from secret",
            "select pg_read_file('/etc/passwd')",
            "select query_to_xml('select * from secret', true, true, '')",
            "select pg_sleep(1)",
            "select now()",
            "update workflows set name = 'x'",
        ):
            with pytest.raises((RequestRefused, Invalid)):
                await host.sql(query)
        joined = "select count(*) from runs r join mutations m on m.run = r.id where r.is_open = 0"
        ((count,),) = (await host.sql(joined)).rows
        assert count
        with psycopg.connect(url) as connection:
            connection.execute("alter view runs rename to runs_before")
            connection.execute("create view runs as select 'run' as id from pg_sleep(60)")
            connection.commit()
        monkeypatch.setattr(inquiry, "INQUIRY_MS_MAX", 100)
        with pytest.raises(RequestRefused) as raised:
            await host.sql("select count(*) from runs")
        assert raised.value.code == "took_too_long"
        with psycopg.connect(url) as connection:
            connection.execute("drop view runs")
            connection.execute("alter view runs_before rename to runs")


async def test_selects_of_people_hold_up_nothing_else(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1, law 3 of `inquiry.py`: runs and questions go on, however many SELECTs take their time."""
    plain, is_free = ServerSession.inquire, threading.Event()

    def inquire(self: ServerSession, *given: Any) -> Any:
        is_free.wait(60)  # only what hangs is ended by it
        return plain(self, *given)

    monkeypatch.setattr(ServerSession, "inquire", inquire)
    async with opened(url, outside := Outside()) as host:
        await deploy(host)
        asked = [asyncio.ensure_future(host.sql("select 1")) for _ in range(3)]
        try:
            async with asyncio.timeout(30):
                await host.publish("notes", "note", title="a", message_id="a")
                await host.drain()
        finally:
            is_free.set()
        assert (outside.posts, [each.done() for each in asked]) == (["a"], [False] * 3)
        assert [(await each).rows for each in asked] == [((1,),)] * 3


async def test_a_check_of_a_server_names_the_row_that_was_changed(url: str) -> None:
    """L15: the seals are compared in a transaction that only reads."""
    async with opened(url, Outside()) as host:
        await deploy(host)
        await host.publish("notes", "note", payload={}, title="first", message_id="note:1")
        await host.drain()
        assert (await host.verify()).ok
        with psycopg.connect(url) as connection:
            (row,) = connection.execute(
                "update mutation set result = '1' where id = (select min(id) from mutation)"
                " returning id"
            ).fetchall()
            connection.commit()
        verified = await host.verify()
    assert (verified.ok, [each.id for each in verified.changed]) == (False, [row[0]])


async def test_a_closed_host_leaves_no_row(url: str) -> None:
    """H2: what it held is free at once."""
    async with opened(url, Outside()) as host:
        await deploy(host)
        await host.drain()
    with psycopg.connect(url) as connection:
        assert connection.execute("select count(*) from host").fetchall() == [(0,)]
        assert connection.execute("select count(*) from slot").fetchall() == [(0,)]


async def test_a_server_that_lost_what_it_had_confirmed_pauses_everything(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """H10, H5: as after a restore; a person looks at what was sent since, and resumes."""
    outside = Outside()
    async with opened(url, outside) as host, host.running():
        await deploy(host)
        with psycopg.connect(url, autocommit=True) as server:
            server.execute("update slot set commit_seq = -1")
            server.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and usename = user and pid <> pg_backend_pid()"
            )

        async def paused() -> bool:
            return (await host.why("notes")).reason.code == Code.WRITES_LOST

        found = False
        while not found:  # as soon as one of its connections is asked to write
            try:
                await host.publish("notes", "note", title="late", message_id="late")
                found = await paused()  # another write of the host may have met it first
            except (StoreOlder, Fenced):
                found = True

        await until(paused, "the pause")
        assert "The server came back without changes that it had confirmed" in caplog.text

        async def is_told() -> bool:
            """Act when the host has come back as another; until then it refuses."""
            try:
                with suppress(RequestRefused):  # it was resumed before
                    await host.resume("notes")
                await host.publish("notes", "note", title="late", message_id="late")
            except StoreError:
                return False
            return True

        await until(is_told, "the host as another one")
        await until(lambda: outside.posts == ["late"], "work after the resume")


async def test_after_a_promotion_what_gone_hosts_held_is_paused_and_the_rest_is_not(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """H10: a live host compares its counters itself; a dead one cannot."""
    async with opened(url, Outside()) as one:
        await deploy(one, "left")
        await deploy(one, "held")
        await one.publish("left", "note", title="a", message_id="a")
        await one.drain()
    async with opened(url, Outside()) as live:
        await live.publish("held", "note", title="b", message_id="b")
        await live.drain()  # it holds this one now
        with psycopg.connect(url, autocommit=True) as server:
            server.execute("update workflow set holder = 'host_gone' where name = 'left'")
            server.execute("update upkeep set at = 0 where name = 'timeline'")

        async def codes() -> list[str]:
            return [str((await live.why(name)).reason.code) for name in ("left", "held")]

        async def is_paused() -> bool:
            return (await codes())[0] == Code.STANDBY_PROMOTED

        await until(is_paused, "the pause of what the gone host held")
        assert "A standby of the server was promoted." in caplog.text
        assert "backup" not in caplog.text
        assert (await codes())[1] != Code.STANDBY_PROMOTED


# -- Two hosts ------------------------------------------------------------------------------------


async def test_an_act_through_one_host_wakes_the_one_that_holds_the_workflow(url: str) -> None:
    """H7, H9: and only that one works on it."""
    outside = Outside(label="one")
    other = Outside(posts=outside.posts, by_host=outside.by_host, label="two")
    async with opened(url, outside) as one, opened(url, other) as two:
        await deploy(one)
        await one.publish("notes", "note", payload={}, title="first", message_id="note:1")
        async with one.running():
            await until(lambda: len(outside.posts) == 1, "the first note")
            async with two.running():
                for number in range(5):
                    await two.publish(
                        "notes", "note", payload={}, title=f"n{number}", message_id=f"n{number}"
                    )
                await until(lambda: len(outside.posts) == 6, "the other notes")
    assert sorted(outside.posts) == ["first", "n0", "n1", "n2", "n3", "n4"]
    assert outside.by_host == ["one"] * 6


async def test_a_host_that_is_alone_runs_what_was_just_deployed(url: str) -> None:
    """H7: its share does not wait for the next renewal; a drain would end without these."""
    outside = Outside()
    async with opened(url, outside, fleet=FleetSettings(lease_s=60)) as host:
        for name in ("one", "two", "three", "four"):
            await deploy(host, name)
            await host.publish(name, "note", title=name, message_id=name)
            await host.drain()
    assert outside.posts == ["one", "two", "three", "four"]


async def test_workflows_are_shared_when_a_second_host_comes(url: str) -> None:
    """H7: the first gives back what is more than its share, and the second takes it."""
    outside = Outside(label="one")
    other = Outside(posts=outside.posts, by_host=outside.by_host, label="two")
    names = [f"flow{number}" for number in range(6)]

    async def publish(host: Host, round_: int) -> None:
        for name in names:
            await host.publish(
                name, "note", payload={}, title=f"{name} {round_}", message_id=f"m{round_}"
            )

    async with opened(url, outside) as one:
        for name in names:
            await deploy(one, name)
        async with one.running():
            await publish(one, 1)
            await until(lambda: len(outside.posts) == 6, "all flows at one host")
            async with opened(url, other) as two, two.running():
                round_ = 1

                async def shared() -> bool:
                    nonlocal round_
                    round_ += 1
                    await publish(two, round_)
                    await asyncio.sleep(0.3)
                    return outside.by_host.count("two") > 0

                await until(shared, "work for the second host")
                await until(lambda: len(outside.posts) == 6 * round_, "every note")
    assert len(set(outside.posts)) == len(outside.posts)


async def test_what_another_host_holds_does_not_fill_the_list_of_what_is_due(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H7, S9: the list is cut, and the other host may stand still; this one finds its own work."""
    monkeypatch.setattr("duly.store.due.DUE_LIMIT_MAX", 1)
    monkeypatch.setattr("duly.engine.scheduler.DUE_LIMIT_MAX", 1)
    outside = Outside()
    long = FleetSettings(lease_s=60)
    async with opened(url, outside, fleet=long) as idle:
        for number in range(4):
            await deploy(idle, f"flow{number}")
        await idle.drain()  # it holds them all
        assert sum(each.workflows for each in await idle.hosts()) == 4
        with psycopg.connect(url, autocommit=True) as server:
            # The list is in the order of ids; the last one is free.
            server.execute(
                "update workflow set holder = null where id = (select max(id) from workflow)"
            )
            ((last,),) = server.execute("select name from workflow where holder is null").fetchall()
        for number in range(4):
            await idle.publish(f"flow{number}", "note", title=f"n{number}", message_id="n")
        async with opened(url, outside, fleet=long) as busy, busy.running():
            await until(lambda: outside.posts != [], "the work that is free")
        assert outside.posts == [f"n{last[-1]}"]
