"""The steps of docs/postgresql.md that set up a standby are followed on real servers."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.house import ROOT
from tests.postgres import server

BLOCKS = re.compile(r"^```(?:sql primary|sh standby)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder with a short name, which the server's user may enter."""
    made = Path(tempfile.mkdtemp(prefix="duly-page-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def say(at: Path, text: str) -> None:
    """Say to a server what the page says, each statement by itself."""
    with psycopg.connect(server.superuser(at), autocommit=True) as connection:
        for statement in filter(None, map(str.strip, text.split(";"))):
            connection.execute(statement.encode())


def ask(at: Path, question: str) -> Any:
    """Ask a server for one value; none without a row."""
    with psycopg.connect(server.superuser(at), autocommit=True) as connection:
        row = connection.execute(question.encode()).fetchone()
        return row and row[0]


def test_a_standby_is_set_up_and_promoted_as_the_page_says(folder: Path) -> None:
    """H10: the page's own words, with folders in place of machines."""
    page = (ROOT / "docs/postgresql.md").read_text(encoding="utf-8")
    role, base, wait = BLOCKS.findall(page)
    primary, standby = folder / "db1", folder / "db2"
    server.start(primary, "fsync=on", "synchronous_commit=on")
    try:
        say(primary, role)
        program, *words = shlex.split(base)
        places = {"db1.internal": primary, "/var/lib/postgresql/data": standby / "data"}
        server.make_standby(primary, standby, program, *(places.get(each, each) for each in words))
        try:
            say(primary, wait)
            server.until(
                lambda: ask(primary, "select sync_state from pg_stat_replication") == "quorum",
                "a standby that is waited for",
            )
            server.kill(primary)
            (promote,) = re.findall(r"`(select pg_promote\(\));`", page)
            assert ask(standby, promote) is True
            assert ask(standby, "show synchronous_standby_names") == ""  # to be set again
        finally:
            server.stop(standby)
    finally:
        if (primary / "data/postmaster.pid").exists():
            server.stop(primary)
