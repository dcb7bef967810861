"""Suites that were written for a SQLite file, on a server: some tests of them with every commit."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.breaks import tenth_of_commit
from tests.house import ROOT
from tests.postgres.on_server import PART

STEP = 10  # every so many tests of these; `python -m tests.postgres.on_server` runs every suite
FILES = (
    "tests/engine/test_consumer.py",
    "tests/engine/test_crashes.py",
    "tests/engine/test_handle.py",
    "tests/engine/test_kept_terms.py",
    "tests/engine/test_ledger.py",
    "tests/engine/test_ledger_seal.py",
    "tests/engine/test_left_behind.py",
    "tests/engine/test_log.py",
)


def test_the_same_suites_pass_on_a_server() -> None:
    """H1: a part of the engine's tests, with PostgreSQL below."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.postgres.on_server", *FILES],
        cwd=ROOT,
        env={**os.environ, PART: f"{tenth_of_commit()}/{STEP}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert re.search(r"[0-9]{2} passed|\[100%\]", done.stdout), done.stdout
