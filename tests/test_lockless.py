"""Everything but the lock works where the kernel has none, as on macOS, and is said plainly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.house import ROOT

# A share; `python -m tests.lockless` runs all that is not about the lock.
SHARE = ("tests/sandbox/test_contract.py",)
PATIENCE_S = 600
PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.lockless.__main__ import take_the_lock_away
take_the_lock_away()
from duly.__main__ import main
main()
"""


def duly(folder: Path, *words: str, status: int = 0) -> str:
    command = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_scripts_of_both_languages_keep_their_contract_without_the_lock() -> None:
    """X1, X2: interpreter, limits and border are what is left, and hold."""
    command = [sys.executable, "-m", "tests.lockless", "-p", "no:cacheprovider", *SHARE]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed in" in done.stdout


def test_a_host_runs_without_the_lock_only_if_a_person_accepted_that(tmp_path: Path) -> None:
    """X1: before, it is refused with what is missing; then mails become rows."""
    duly(tmp_path, "init", "--template", "mail-to-table", "mails")
    folder = tmp_path / "mails"
    told = {each["what"]: each for each in json.loads(duly(folder, "doctor", "--json", status=1))}
    assert told["system"]["state"] == "warn"
    assert "Linux without Landlock, seccomp: everything" in told["system"]["sentence"]
    assert told["sandbox"]["state"] == "bad"
    assert "Landlock" in told["sandbox"]["advice"]
    with (folder / "duly.toml").open("a") as file:
        file.write('\n[sandbox]\nunlocked = "i-accept"\n')
    told = {each["what"]: each for each in json.loads(duly(folder, "doctor", "--json"))}
    assert "but not locked in" in told["sandbox"]["sentence"]
    duly(folder, "deploy", "--grant")
    duly(folder, "drain")
    assert len((folder / "table/mails.csv").read_text().splitlines()) == 4
