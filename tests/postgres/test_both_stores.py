"""Suites that were written for a SQLite file, on a server: some tests of them with every commit."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.breaks import number_of_commit
from tests.house import ROOT
from tests.postgres.on_server import OF_SQLITE, PART, SCENE, STORES, SUITES

# Every so many files, and of these every so many tests; `python -m tests.postgres.on_server` runs
# all of them. A file that is not chosen is not read: to collect all costs more than to run some.
FILES_STEP, TESTS_STEP = 12, 10


def _files() -> list[str]:
    """List the test files of the suites that open a store."""
    word = re.compile(rf"\b(?:{'|'.join((*STORES, SCENE))})\b")
    found = (path for suite in SUITES for path in sorted((ROOT / suite).rglob("test_*.py")))
    return [str(path.relative_to(ROOT)) for path in found if word.search(path.read_text())]


def test_the_same_suites_pass_on_a_server() -> None:
    """H1: a part of the tests of every suite, with PostgreSQL below."""
    tests, files = divmod(number_of_commit() % (FILES_STEP * TESTS_STEP), FILES_STEP)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.postgres.on_server"]
    done = subprocess.run(
        [*command, *_files()[files::FILES_STEP]],
        cwd=ROOT,
        env={**os.environ, PART: f"{tests}/{TESTS_STEP}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert re.search(r"[0-9]+ passed|\[100%\]", done.stdout), done.stdout


def test_what_is_named_as_of_sqlite_alone_exists() -> None:
    """H1: a test that was renamed is not left out under its old name."""
    texts: dict[str, str] = {}
    for name in OF_SQLITE:
        file, _, test = name.partition("::")
        text = texts.setdefault(file, (ROOT / file).read_text())
        assert f"async def {test.partition('[')[0]}" in text, name
