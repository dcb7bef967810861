"""The command line on a PostgreSQL server: the same commands, and what is said of the server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, repeat
from pathlib import Path
from typing import cast

import psycopg
import pytest
from psycopg import errors

from duly.api.server import HOST_CONNECTIONS
from duly.errors import IllegalTransition, StoreUnavailable
from duly.faces.cli.finding import State
from duly.faces.cli.server import _connections, _standby, _timeouts
from duly.rules.pooler import Pooler
from duly.store.postgres import explain
from duly.store.server import ServerFacts, find_pooler, look_at_server
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


FACTS = ServerFacts(17, True, True, "", 100, 10, standbys=0, clock_ms=0)


def test_doctor_judges_poolers_connections_and_timeouts() -> None:
    """H10, H9: each is a warning with what to do; a server without them has none."""
    assert [*_connections(FACTS), *_timeouts(FACTS)] == []
    states = {Pooler.BY_TRANSACTION: State.WARN, Pooler.FORGETFUL: State.BAD}
    for each, state in states.items():
        (pooled,) = _connections(replace(FACTS, pooler=each))
        assert (pooled.what, pooled.state) == ("pooler", state)
    full = 100 - HOST_CONNECTIONS
    assert [*_connections(replace(FACTS, connections=full))] == []
    (few,) = _connections(replace(FACTS, connections=full + 1))
    assert (few.what, few.state) == ("connections", State.WARN)
    (limited,) = _timeouts(replace(FACTS, timeouts=(("lock_timeout", 2500),)))
    assert (limited.what, limited.state) == ("timeout", State.WARN)
    assert "lock_timeout is 2.5 s" in limited.sentence


def test_the_timeouts_of_a_user_are_seen(place: Place) -> None:
    """H10: as the server itself has them; without a pooler, sessions share nothing."""
    url = f"{address(place.folder)}&options=-c%20lock_timeout%3D2s"
    facts = look_at_server(url)
    assert (facts.timeouts, facts.pooler) == ((("lock_timeout", 2000),), Pooler.NONE)
    assert look_at_server(address(place.folder)).timeouts == ()


class Pooled:
    """A session through a pooler: a process of the server for each statement, or one for all."""

    def __init__(self, processes: Iterator[int], names: set[int] | None) -> None:
        self.processes, self.names = processes, names
        self.is_prepared = False

    def execute(self, _text: str, *, prepare: bool) -> Pooled:
        self.process = next(self.processes)
        if prepare and self.names is not None and not self.is_prepared:
            if self.process in self.names:  # the statement of another session has its name
                raise errors.DuplicatePreparedStatement
            self.names.add(self.process)
            self.is_prepared = True
        return self

    def fetchall(self) -> list[tuple[int]]:
        return [(self.process,)]


def test_a_pooler_is_known_by_the_processes_that_sessions_share() -> None:
    """H10: by the session it is as good as none, and each mode by the transaction is another."""

    def judge(first: Iterator[int], second: Iterator[int], names: set[int] | None = None) -> Pooler:
        of_sessions = Pooled(first, names), Pooled(second, names)
        return find_pooler(*cast("tuple[psycopg.Connection, psycopg.Connection]", of_sessions))

    assert judge(repeat(7), repeat(8)) is Pooler.NONE
    assert judge(repeat(7), repeat(7)) is Pooler.BY_TRANSACTION  # an idle pool
    assert judge(cycle((7, 9)), repeat(8)) is Pooler.BY_TRANSACTION  # a busy one
    assert judge(repeat(7), repeat(7), set()) is Pooler.FORGETFUL


def test_statements_that_a_pooler_mixes_up_are_no_bug_of_ours() -> None:
    """H3: the error names the pooler and what to do; a host goes on when it is set right."""
    for each in (errors.DuplicatePreparedStatement, errors.InvalidSqlStatementName):
        explained = explain(each("prepared statement"))
        assert isinstance(explained, StoreUnavailable)
        assert explained.code == "server_pooled"
    assert isinstance(explain(errors.SyntaxError("at")), IllegalTransition)
