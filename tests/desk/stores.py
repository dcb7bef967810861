"""Where the stores of a desk's test lie that no stage gave it: in files of the test's own.

`tests.postgres.on_server` puts databases of a server in their place.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from duly.testing import Stage

FILE = "duly.db"


@contextmanager
def store_in(folder: Path) -> Iterator[str]:
    """Return the address of an empty store."""
    yield f"sqlite:///{folder / FILE}"


def folder_of(stage: Stage) -> Path:
    """Return the folder of a test in virtual time, wherever its store lies."""
    return stage._folder


def another(stage: Stage) -> str:
    """Return the address of one more store, for a test in virtual time."""
    folder = Path(mkdtemp(dir=folder_of(stage)))
    return f"sqlite:///{folder / FILE}"


def dump(url: str) -> dict[str, list[Any]]:
    """Read everything that a store keeps, while a host has it open."""
    path = Path(url.removeprefix("sqlite:///"))
    # A copy: closing a second connection to a file takes its log away.
    with TemporaryDirectory() as folder:
        for each in path.parent.glob(f"{FILE}*"):
            copy(each, folder)
        with closing(sqlite3.connect(Path(folder) / FILE)) as database:
            names = database.execute("select name from sqlite_schema where type = 'table'")
            tables = [name for (name,) in names.fetchall()]
            rows = (database.execute(f'select * from "{each}"').fetchall() for each in tables)
            return dict(zip(tables, rows, strict=True))
