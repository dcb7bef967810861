"""The command line on a PostgreSQL server: the same commands, and what is said of the server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.api.server import HOST_CONNECTIONS
from duly.faces.cli.finding import State
from duly.faces.cli.server import _connections, _standby, _timeouts
from duly.store.server import ServerFacts, _is_pooled, look_at_server
from tests.faces.real import call, running, wait_for
from tests.postgres.server import address
from tests.postgres.service import CONNECTOR, Counting, serve
from tests.postgres.stand import FLOW, KEY, database
from tests.postgres.world import Place


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_KEY", KEY)


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[Counting]:
    made = Counting()
    outside = serve(made)
    (tmp_path / "port").write_text(str(outside.server_address[1]))
    yield made
    outside.shutdown()
    outside.server_close()


@pytest.fixture
def project(place: Place, tmp_path: Path, counting: Counting) -> Iterator[Path]:
    folder = tmp_path / "project"
    (folder / "workflows").mkdir(parents=True)
    (folder / "outside_count.py").write_text(CONNECTOR)
    (folder / "workflows" / "notes.py").write_text(FLOW.format(name="notes"))
    with database(place) as url:
        text = f'url = "{url}"\n[connectors.outside]\nuse = "outside_count:Outside"\n'
        (folder / "duly.toml").write_text(text)
        yield folder


def do(folder: Path, *words: str) -> str:
    """Call a command that succeeds; return what it said."""
    said = call(folder, *words)
    assert said.exit_code == 0, said.output
    return said.output


def test_the_commands_work_without_a_host_and_through_one(
    project: Path, counting: Counting
) -> None:
    """H1, H7: a command opens the store itself where no host runs, also beside other hosts."""
    do(project, "deploy", str(project / "workflows" / "notes.py"))
    do(project, "grant", "notes", "outside.post")
    do(project, "publish", "notes", "note", "--title", "first", "--message-id", "note:1")
    do(project, "drain")
    assert counting.posts == {"first": 1}
    with running(project, "serve") as host:
        host.until("Socket")
        assert "PostgreSQL" in host.said or "postgresql://" in host.said
        do(project, "publish", "notes", "note", "--title", "second", "--message-id", "note:2")
        (told,) = json.loads(do(project, "status", "--json"))["hosts"]
        assert told["name"].endswith(f":{host.process.pid}")
        wait_for(lambda: counting.posts["second"] == 1, "the second note", host)
        # The outside has counted it before the host has its answer.
        wait_for(lambda: "Nothing is pending" in do(project, "why", "notes"), "the answer", host)
        assert f":{host.process.pid}: holds 1 workflow" in do(project, "status")
        second = call(project, "serve")
        assert second.exit_code == 1
        assert "another host of this project listens there" in second.output
        elsewhere = project.parent / "elsewhere"  # as it looks from another machine
        shutil.copytree(project, elsewhere, ignore=shutil.ignore_patterns("*.socket"))
        said = do(elsewhere, "status")
        assert "Other hosts of this server serve it." in said
        assert f":{host.process.pid}: holds 1 workflow" in said
        host.process.terminate()
        assert host.end() == 0, host.said
    assert counting.posts == {"first": 1, "second": 1}


def test_doctor_judges_the_server(project: Path) -> None:
    """H10: what a server must have so that the promise holds."""
    found = json.loads(call(project, "doctor", "--json").output)
    server = {each["what"]: each for each in found}
    assert "PostgreSQL" in server["server"]["sentence"]
    # The server of these tests does not wait for its disk, and doctor says so.
    assert server["durability"]["state"] == "bad"
    assert "fsync" in server["durability"]["sentence"]


def test_a_server_that_is_gone_is_one_sentence(project: Path) -> None:
    """H3, U6: and what to do about it."""
    text = 'url = "postgresql://me:hunter22@127.0.0.1:1/duly"\n'
    (project / "duly.toml").write_text(text)
    said = call(project, "status")
    assert said.exit_code == 1
    assert "the server cannot be used now" in said.output
    assert "hunter22" not in said.output


def test_doctor_demands_that_the_server_waits_for_its_standby() -> None:
    """H10: one that is not waited for lacks what was confirmed, if it is promoted."""
    followed = replace(FACTS, standbys=1)
    waited_for = replace(followed, synchronous_standbys="db2")
    states = [_standby(each).state for each in (FACTS, followed, waited_for)]
    assert states == [State.OK, State.BAD, State.OK]


FACTS = ServerFacts(17, True, True, "", 100, 10, standbys=0, clock_ms=0, is_pooled=False)


def test_doctor_judges_poolers_connections_and_timeouts() -> None:
    """H10, H9: each is a warning with what to do; a server without them has none."""
    assert [*_connections(FACTS), *_timeouts(FACTS)] == []
    (pooled,) = _connections(replace(FACTS, is_pooled=True))
    assert (pooled.what, pooled.state) == ("pooler", State.WARN)
    full = 100 - HOST_CONNECTIONS
    assert [*_connections(replace(FACTS, connections=full))] == []
    (few,) = _connections(replace(FACTS, connections=full + 1))
    assert (few.what, few.state) == ("connections", State.WARN)
    (limited,) = _timeouts(replace(FACTS, timeouts=(("lock_timeout", 2500),)))
    assert (limited.what, limited.state) == ("timeout", State.WARN)
    assert "lock_timeout is 2.5 s" in limited.sentence


def test_the_timeouts_of_a_user_and_a_pooler_are_seen(place: Place) -> None:
    """H10: as the server itself has them; a session that forgets what was set is a pooled one."""
    url = f"{address(place.folder)}&options=-c%20lock_timeout%3D2s"
    facts = look_at_server(url)
    assert (facts.timeouts, facts.is_pooled) == ((("lock_timeout", 2000),), False)
    assert look_at_server(address(place.folder)).timeouts == ()

    class Forgets(psycopg.Connection[Any]):
        def execute(self, query: Any, *given: Any, **more: Any) -> Any:
            done = super().execute(query, *given, **more)
            super().execute("reset application_name")  # as a pooler does after a transaction
            return done

    with Forgets.connect(address(place.folder), autocommit=True) as connection:
        assert _is_pooled(connection)
