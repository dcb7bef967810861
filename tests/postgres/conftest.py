"""One server for a test run: the first process that needs it starts it, the last one stops it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duly.env import Loop
from duly.store import Store
from duly.store.postgres import PostgresBackend, open_postgres
from tests.postgres.proxy import Proxy, proxied
from tests.postgres.server import start, stop
from tests.postgres.world import HOST, LEASE_MS, TIMES, Place


@contextmanager
def _alone(path: Path) -> Iterator[list[str]]:
    """Hold a file alone: its lines are the server's folder and the processes that use it."""
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        lines = file.read().split()
        yield lines
        file.truncate(0)
        file.write("\n".join(lines))


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of a server that runs."""
    base = tmp_path_factory.getbasetemp()
    users = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "postgres"
    own = str(os.getpid())
    with _alone(users) as lines:
        if not lines:
            # Short, for the name of a socket is; and open, for the server has a user of its own.
            folder = Path(tempfile.mkdtemp(prefix="duly-pg-"))
            folder.chmod(0o755)
            start(folder)
            lines.append(str(folder))
        lines.append(own)
        folder = Path(lines[0])
    yield folder
    with _alone(users) as lines:
        lines.remove(own)
        if len(lines) == 1:
            stop(folder)
            shutil.rmtree(folder)
            lines.clear()


@pytest.fixture(scope="session")
def place(server_folder: Path) -> Iterator[Place]:
    """Return where this process makes its databases."""
    made = Place(server_folder, str(os.getpid()))
    yield made
    made.close()


@pytest.fixture
def proxy(place: Place) -> Iterator[Proxy]:
    with proxied(place.folder) as made:
        yield made


@pytest.fixture
async def env() -> AsyncIterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.fixture
async def backend(place: Place, proxy: Proxy, env: Loop) -> AsyncIterator[PostgresBackend]:
    """A backend of a host that is here, over a line that can be cut."""
    name = place.make()
    opened = await open_postgres(proxy.address(name), env)
    await Store(opened).join(HOST, now=0, lease_ms=LEASE_MS)
    opened.write_as(lambda: HOST, TIMES)
    yield opened
    await opened.close()
    place.give_back(name)
