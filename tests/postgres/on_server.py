"""Runs tests that were written for a SQLite file on a PostgreSQL server, in virtual time.

    python -m pytest -p tests.postgres.on_server tests/desk tests/engine

Law 1  A host of these tests is the only one at a time: the host before it is dead when the next one
       opens, as the lock of a file would say.
Law 2  The clock of the server is the virtual one, so a lease lasts as long as virtual time says.
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.env import Env
from duly.fleet import Fleet
from duly.rules.lease import LeaseTimes
from duly.store.bell import Bell
from duly.store.postgres import PostgresBackend
from duly.testing.stage import Stage
from tests.postgres.server import address, start, stop
from tests.postgres.world import Place

os.environ["DULY_KEY"] = base64.b64encode(bytes(32)).decode()


LONG = LeaseTimes(10**9)  # so that virtual days are not spent on renewals


@pytest.fixture(scope="session", autouse=True)
def on_server() -> Iterator[None]:
    """Let every stage lie on a server of this test process."""
    folder = Path(tempfile.mkdtemp(prefix="duly-on-"))
    folder.chmod(0o755)
    start(folder)
    place = Place(folder, str(os.getpid()))
    begin_stage, begin_fleet = Stage.__init__, Fleet.__init__

    def stage(self: Stage, runner: Any, own: Path) -> None:
        begin_stage(self, runner, own)
        self.url = address(folder, place.make())

    def fleet(
        self: Fleet, env: Env, url: str, backend: PostgresBackend, _: Any, *rest: Any
    ) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("delete from host")  # law 1
        begin_fleet(self, env, url, backend, LONG, *rest)
        self._plain.beside.clock = backend.beside.clock = env.now_ms  # law 2

    async def join(self: Fleet, engine: Any, dispatcher: Any) -> None:
        dispatcher._settings = replace(dispatcher._settings, poll_interval_s=10**6)
        await join_fleet(self, engine, dispatcher)

    join_fleet = Fleet.join
    patch = pytest.MonkeyPatch()
    patch.setattr(Stage, "__init__", stage)
    patch.setattr(Fleet, "__init__", fleet)
    patch.setattr(Fleet, "join", join)
    patch.setattr(Bell, "open", lambda bell: None)
    patch.setattr(Bell, "ring", lambda bell, what: None)
    yield
    patch.undo()
    place.close()
    stop(folder)
    shutil.rmtree(folder)
