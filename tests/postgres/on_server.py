"""Runs tests that were written for a SQLite file on a PostgreSQL server.

    python -m tests.postgres.on_server             everything, with two processes
    python -m tests.postgres.on_server 3/40        every 40th test, beginning with the third
    python -m tests.postgres.on_server named       what is of SQLite alone: all of it must fail
    python -m pytest -p tests.postgres.on_server tests/desk/test_why.py

A test takes part if it asks for `duly_world` (hosts in virtual time) or for `url` (hosts in real
time, `tests/desk/stores.py`), or opens a scene of the store (`tests.desk.stand.reception`). Others
open no host, one whose process is killed (`tests/postgres` does that on a server), or one whose
engine stands still, so that no lease is renewed (`tests/desk/test_deploy.py`).

Law 1  In virtual time a host is the only one: the host before it is dead when the next one opens,
       as the lock of a file would say.
Law 2  In virtual time the clock of the server is the virtual one, so a lease lasts as long as
       virtual time says.
Law 3  A host that has crashed has no connections: what a test left open is closed at its end.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from duly.env import Env
from duly.fleet import Fleet
from duly.rules.lease import LeaseTimes
from duly.store.bell import Bell
from duly.store.postgres import PostgresBackend
from duly.store.postgres_session import ServerSession
from duly.testing.env import VirtualEnv
from duly.testing.stage import Stage
from tests.desk import stand, stores
from tests.postgres.server import address, start, stop, superuser
from tests.postgres.world import Peephole, Place, PostgresWorld
from tests.store.exam import World

SUITES: Final = ("tests/engine", "tests/desk", "tests/bus", "tests/examples", "tests/testing")
PART: Final = "TEST_ON_SERVER"
NAMED: Final = "named"
PROCESSES: Final = "2"
STORES: Final = frozenset({"duly_world", "url"})  # what a test asks for a store
SCENE: Final = "reception"  # what a test calls for one
# Tests of what only a file has, or does otherwise. By the beginning of their name.
_LAG = "on a server the lag begins a `timeout_s` after the takeover: a stopped host may still send"
_KEY = "a server has its key in DULY_KEY alone, and no older schema without seals"
_FILE = "what Duly does with a file itself, a server does with its own tools"
_TYPES = "a column of a server takes values of its type alone"
_RECOVER = "the host of a file recovers the bus at its start; one of a fleet takes subscribers (H8)"
_CLOCK = "on a server a deferred event is counted by the wall clock, not by that of the boot"
_SYNC = "a host of a fleet makes events durable by a write of its own, not by the file's sync (B4)"
_LOOKS = "a host of a fleet looks at times, since a notification may be lost (S9, H9)"
_ANY = "any host of a fleet takes an answer: another one may have the tool (H7)"
_DRAWN = "the host of a file draws its key, so the same seed gives other ids and delays"
_DESK, _ENGINE, _BUS = "tests/desk/test_", "tests/engine/test_", "tests/bus/test_"
_SEAL = f"{_ENGINE}end_seal.py::test_"
_TOLD = f"{_DESK}why.py::test_what_a_person_is_told_is_what_was_read_and_agreed[consumer "
OF_SQLITE: Final = {
    f"{_DESK}alerts.py::test_a_backup_that_fails": _FILE,
    f"{_DESK}approval.py::test_a_refused_approval_says_why_and_sends_nothing[without a conn": _ANY,
    f"{_DESK}backups.py::test_a_copy_is": _FILE,
    f"{_DESK}backups.py::test_the_copy_just_made": _FILE,
    f"{_DESK}backups.py::test_older_copies": _FILE,
    f"{_DESK}backups.py::test_what_a_host_did_not_write": _FILE,
    f"{_DESK}canary.py::test_a_backup_without_the_key": _FILE,
    f"{_DESK}canary.py::test_a_canary_is_found_nowhere": _FILE,
    f"{_DESK}forgetting.py::test_backups_and_states": _FILE,
    f"{_DESK}forgetting.py::test_the_log_of_a_store_that_is_read": "a server erases its own log",
    f"{_DESK}proposal.py::test_in_a_restored_store": _FILE,
    f"{_DESK}restored.py::test_a_call_that_was_about_to_be_sent_again_in_a_backup": _FILE,
    f"{_DESK}restored.py::test_what_a_backup_shows_half_way": _FILE,
    f"{_DESK}restored.py::test_the_moment_of_a_backup": _FILE,
    f"{_DESK}restored.py::test_a_webhook_that_was_closed": _FILE,
    f"{_DESK}restored.py::test_an_allowance_that_was_revoked": _FILE,
    f"{_DESK}restored.py::test_an_agent_does_not_resume": _FILE,
    f"{_DESK}slip.py::test_a_restored_store": _FILE,
    f"{_DESK}upkeep.py::test_a_backup": _FILE,
    f"{_DESK}upkeep.py::test_a_call_in_flight_in_a_backup": _FILE,
    f"{_DESK}upkeep.py::test_a_restored_store": _FILE,
    f"{_DESK}upkeep.py::test_an_approved_call_of_a_backup": _FILE,
    f"{_DESK}secret.py::test_a_key_in_the_environment_leaves_no_file": _KEY,
    f"{_DESK}secret.py::test_a_key_that_cannot_be_right": _KEY,
    f"{_DESK}secret.py::test_a_lost_key_closes": _KEY,
    f"{_DESK}secret.py::test_the_key_is_made_on_first_use": _KEY,
    f"{_DESK}secret.py::test_the_right_key_brought_back": _KEY,
    f"{_DESK}statements.py::test_the_statements_of": "it counts statements of SQLite",
    f"{_TOLD}mutating failed:internal failed]": _DRAWN,
    f"{_TOLD}mutating paused:transient failed]": _DRAWN,
    f"{_TOLD}emitting paused:transient applied applied]": _DRAWN,
    f"{_TOLD}emitting paused:transient rejected skipped]": _DRAWN,
    f"{_TOLD}emitting paused:transient skipped skipped]": _DRAWN,
    f"{_BUS}restored.py": _FILE,
    f"{_BUS}question.py::test_the_views_have_the_columns": "it reads the file itself",
    f"{_BUS}dispatch.py::test_an_unreadable_row": "it damages the file itself",
    f"{_BUS}dispatch.py::test_a_row_that_becomes": "it damages the file itself",
    f"{_BUS}dispatch.py::test_nobody_is_called_for_an_event_that_is_not": _SYNC,
    f"{_BUS}dispatch.py::test_a_backlog_nobody_listens_to": (
        "a server closes events on one connection while another begins the call, so it closes a"
        " few more than one batch"
    ),
    f"{_BUS}clock.py::test_a_clock_that_is_set": _CLOCK,
    f"{_BUS}clock.py::test_a_clock_years_ahead": _CLOCK,
    f"{_BUS}clock.py::test_a_restart_in_the_same_boot": _CLOCK,
    f"{_BUS}clock.py::test_another_boot": _CLOCK,
    f"{_BUS}batch.py::test_an_overdue_backlog_is_promoted_in_batches": _RECOVER,
    f"{_BUS}batch.py::test_a_host_that_dies_between_two_batches": _RECOVER,
    f"{_BUS}batch.py::test_a_start_that_the_store_interrupts": _RECOVER,
    f"{_BUS}trouble.py::test_a_host_that_serves_goes_on_when_the_fault_is_over[r": _RECOVER,
    f"{_BUS}trouble.py::test_a_host_that_serves_goes_on_when_the_fault_is_over[s": _SYNC,
    f"{_BUS}recover.py::test_a_start_says_how_many_events": _RECOVER,
    f"{_BUS}recover.py::test_a_crash_anywhere_repeats_only_what_was_in_hand[rec": _RECOVER,
    f"{_ENGINE}bell.py": "the bell is still in these tests",
    f"{_ENGINE}blobs.py::test_a_blob_that_is_damaged": "it damages a row in SQLite's words",
    f"{_ENGINE}stop.py::test_a_second_host_on_the_file_is_refused": _FILE,
    f"{_ENGINE}stop.py::test_a_host_that_is_closed_leaves": "it reads the file itself",
    f"{_ENGINE}stop.py::test_a_run_let_go_before_its_send": (
        "the first renewal of a host that serves looks again before its back-off is over"
    ),
    f"{_ENGINE}unreachable.py::test_changes_that_fail_and_did_not_happen_need_no_person[AMB": (
        _DRAWN
    ),
    f"{_ENGINE}store_outage.py::test_serving_ends_with": "it breaks the file's own writer",
    f"{_ENGINE}scheduling.py::test_a_day_of_a_thousand_idle_workflows": _LOOKS,
    f"{_ENGINE}kept_terms.py::test_the_lag_holds_without_the_connector": _LAG,
    f"{_ENGINE}kept_terms.py::test_to_try_again_needs": _ANY,
    f"{_ENGINE}kept_terms.py::test_of_a_row_that_kept_nothing": _FILE,
    f"{_ENGINE}people.py::test_it_did_not_happen": _LAG,
    f"{_ENGINE}resend.py::test_a_persons_no_keeps_the_key": _LAG,
    f"{_ENGINE}left_behind.py::test_stopping_the_host_ends_the_send": _LAG,
    f"{_ENGINE}ledger_seal.py::test_a_changed_row_is_not_sealed_anew": _KEY,
    f"{_ENGINE}ledger_seal.py::test_the_key_is_made_with_the_first_change": _KEY,
    f"{_ENGINE}ledger_seal.py::test_a_row_under_a_lost_key_is_not_sent": _KEY,
    f"{_ENGINE}ledger_seal.py::test_rotating_the_key_seals_open_rows_anew": _KEY,
    f"{_ENGINE}ledger_seal.py::test_rows_of_an_older_schema_are_sealed": _KEY,
    f"{_ENGINE}ledger_seal.py::test_a_wrong_key_is_refused_before_rows": _KEY,
    f"{_ENGINE}busy_while_repairing.py": _FILE,
    f"{_ENGINE}claims_together.py::test_a_host_whose_row_is_gone_joins_once": (
        "the host of a file joins again; a host of a fleet comes back as another (H6)"
    ),
    f"{_SEAL}verify_names_a_row_that_was_changed_after_its_end[a promise that is no": _TYPES,
    f"{_SEAL}verify_names_a_row_that_was_changed_after_its_end[a seal that is no": _TYPES,
    f"{_SEAL}a_check_says_which_records_it_cannot_see[update event": (
        "a server refuses a row that its checks do not allow"
    ),
    f"{_SEAL}every_column_is_sealed": "it asks SQLite for the columns",
    f"{_SEAL}another_key_seals_ended_rows": _KEY,
    f"{_SEAL}a_rotation_does_not_seal": _KEY,
    f"{_SEAL}a_key_is_needed_until": _KEY,
    f"{_SEAL}without_its_key": _KEY,
    f"{_ENGINE}ledger.py::test_a_crash_at_the_send_never_leaves_a_call_unwritten[after": _LAG,
    f"{_ENGINE}ledger.py::test_it_did_not_happen_is_believed_only_after_the_lag": _LAG,
    f"{_ENGINE}ledger.py::test_the_lag_begins_when_this_host_took_the_row_over": _LAG,
    "tests/testing/test_stage.py::test_an_idle_host_wakes_nobody": _LOOKS,
    "tests/bus/test_recover.py::test_an_idle_bus_does_nothing": _LOOKS,
    f"{_SEAL}a_key_that_is_lost_while_it_is_replaced": _KEY,
    "tests/desk/test_forgetting.py::test_a_file_that_is_written_while_an_input_is_forgotten_is_"
    "written_again[backup]": _FILE,
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what opens no store, what is of SQLite alone, and what is not in this part.

    Of what is of SQLite alone every test must fail: one that passes is named for nothing.
    """
    part = os.environ.get(PART, "0/1")
    able = [each for each in items if _has_store(each)]
    if part == NAMED:
        chosen = [each for each in able if _reason_of(each)]
    else:
        first, _, step = part.partition("/")
        able = [each for each in able if not _reason_of(each)]
        chosen = able[int(first) % int(step) :: int(step)]
    kept = set(map(id, chosen))
    config.hook.pytest_deselected(items=[each for each in items if id(each) not in kept])
    items[:] = [each for each in items if id(each) in kept]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the results round where every test must fail.

    What such a test leaves behind, as a send that never ends, is part of its failure.
    """
    report = yield
    if os.environ.get(PART) == NAMED and report.when != "setup":
        is_wrong = report.passed and report.when == "call"
        report.longrepr = "it passes on a server" if is_wrong else None
        report.outcome = "failed" if is_wrong else "passed"
    return report


def _has_store(item: pytest.Item) -> bool:
    """Tell whether a test opens a store that can lie on a server."""
    asked = STORES.intersection(getattr(item, "fixturenames", ()))
    return bool(asked) or SCENE in item.obj.__code__.co_names  # type: ignore[attr-defined]


def _reason_of(item: pytest.Item) -> str | None:
    """Say why a test is of SQLite alone."""
    return next((why for name, why in OF_SQLITE.items() if item.nodeid.startswith(name)), None)


LONG = LeaseTimes(10**9)  # so that virtual days are not spent on renewals


# What a test says to SQLite in its own words, as a server takes it.
_SAID: Final = {
    "pragma foreign_keys = off": "set session_replication_role = replica",
    "pragma ignore_check_constraints = on": "select 1",  # a server does not know this
}


class _Rows(Peephole):
    """Rows behind the store's back, in the manner of a connection to SQLite."""

    def execute(self, text: str, given: Any = None) -> Any:
        """Run a statement; one that returns no rows has none."""
        text = _SAID.get(text, text)
        done = super().execute(text, given)
        return done if done.description is not None else _NONE


class _None(list[Any]):
    def fetchall(self) -> list[Any]:
        return []


_NONE: Final = _None()


class Below:
    """The server below every test of this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = Place(folder, str(os.getpid()))
        self._sessions: dict[str, list[ServerSession]] = {}
        self._rows: dict[str, _Rows] = {}

    def make(self) -> str:
        """Make a store; return its address."""
        return address(self.folder, self.place.make())

    def dialled(self, url: str, session: ServerSession) -> None:
        """Remember what a host opened; the address of its lease has a time limit of its own."""
        self._sessions.setdefault(_name(url), []).append(session)

    def look(self, url: str) -> _Rows:
        """Let a test look at and change rows behind the store's back."""
        if url not in self._rows:
            self._rows[url] = _Rows(superuser(self.folder, _name(url)))
        return self._rows[url]

    def leave(self, url: str) -> None:
        """Close what a test left open, and give its database to the next one (law 3)."""
        for session in self._sessions.pop(_name(url), ()):
            session.close()
        if url in self._rows:
            self._rows.pop(url).close()
        self.place.give_back(_name(url))

    @contextmanager
    def store_in(self, _: Path) -> Iterator[str]:
        """Return the address of an empty store, for a test that opens its hosts itself."""
        url = self.make()
        yield url
        self.leave(url)

    def another(self, stage: Stage) -> str:
        """Return the address of one more store of a stage."""
        made = self.make()
        stage.below.append(made)  # type: ignore[attr-defined]
        return made

    def dump(self, url: str) -> dict[str, list[Any]]:
        """Read everything that a store keeps."""
        rows = self.look(url)
        return {
            table: sorted(rows.execute(f'select * from "{table}"').fetchall(), key=repr)
            for table in rows.tables()
            if table not in _OF_HOSTS
        }

    @asynccontextmanager
    async def opened(self, _: Path) -> AsyncIterator[World]:
        """Open a world of the store's exam."""
        world = await PostgresWorld(self.place).open()
        yield world
        await world.close()


# A host of a fleet renews its lease and counts its writes, whatever a person asks.
_OF_HOSTS: Final = ("host", "slot")


def _name(url: str) -> str:
    return str(conninfo_to_dict(url)["dbname"])


@pytest.fixture(scope="session", autouse=True)
def on_server() -> Iterator[None]:
    """Let every stage lie on a server of this test process."""
    folder = Path(tempfile.mkdtemp(prefix="duly-on-"))
    folder.chmod(0o755)
    start(folder)
    below = Below(folder)
    patch = pytest.MonkeyPatch()
    patch.setenv("DULY_KEY", base64.b64encode(bytes(32)).decode())
    patch.setattr(stores, "store_in", below.store_in)
    patch.setattr(stores, "another", below.another)
    patch.setattr(stores, "dump", below.dump)
    patch.setattr(stand, "opened", below.opened)
    patch.setattr(PostgresBackend, "connection", _connection(below), raising=False)
    _put_below(patch, below)
    _let_time_be_virtual(patch)
    yield
    patch.undo()
    below.place.close()
    stop(folder)
    shutil.rmtree(folder)


def _connection(below: Below) -> Any:
    return property(lambda backend: below.look(backend._url))


def _put_below(patch: pytest.MonkeyPatch, below: Below) -> None:
    """Give every stage an address on the server, and know what its hosts open."""
    begin_stage, leave_stage, begin_session = Stage.__init__, Stage.close, ServerSession.__init__

    def stage(self: Stage, runner: Any, own: Path) -> None:
        begin_stage(self, runner, own)
        self.url = below.make()
        self.below = [self.url]  # type: ignore[attr-defined]

    def dial(self: ServerSession, url: str, *rest: Any) -> None:
        begin_session(self, url, *rest)
        below.dialled(url, self)

    async def leave(self: Stage) -> None:
        await leave_stage(self)
        for url in self.below:  # type: ignore[attr-defined]
            below.leave(url)

    patch.setattr(Stage, "__init__", stage)
    patch.setattr(Stage, "close", leave)
    patch.setattr(ServerSession, "__init__", dial)


def _let_time_be_virtual(patch: pytest.MonkeyPatch) -> None:
    """Let a host in virtual time be alone and wait for nothing; one in real time is as it is."""
    begin_fleet, join_fleet, open_bell, ring_bell = (
        *(Fleet.__init__, Fleet.join),
        *(Bell.open, Bell.ring),
    )

    def fleet(
        self: Fleet, env: Env, url: str, backend: PostgresBackend, times: Any, *rest: Any
    ) -> None:
        if not _is_virtual(env):
            begin_fleet(self, env, url, backend, times, *rest)
            return
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("delete from host")  # law 1
        begin_fleet(self, env, url, backend, LONG, *rest)
        for each in (self._plain, self._leasing, backend):
            each.beside.clock = env.now_ms  # law 2

    async def join(self: Fleet, engine: Any, dispatcher: Any) -> None:
        if _is_virtual(self._env):
            dispatcher._settings = replace(dispatcher._settings, poll_interval_s=10**6)
        await join_fleet(self, engine, dispatcher)

    def open_(self: Bell) -> None:
        if not _is_virtual(self._env):
            open_bell(self)

    def ring(self: Bell, what: str) -> None:
        if not _is_virtual(self._env):
            ring_bell(self, what)

    patch.setattr(Fleet, "__init__", fleet)
    patch.setattr(Fleet, "join", join)
    patch.setattr(Bell, "open", open_)
    patch.setattr(Bell, "ring", ring)


def _is_virtual(env: Env) -> bool:
    return isinstance(env, VirtualEnv)


def main(part: str = "0/1") -> int:
    """Run the suites on a server."""
    words = ("-m", "pytest", "-n", PROCESSES, "-p", "tests.postgres.on_server", *SUITES)
    env = {**os.environ, PART: part}
    return subprocess.run([sys.executable, *words], env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
