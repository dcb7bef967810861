"""Real processes with many lanes, killed at any moment, some of them stopped before (B3–B7)."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw

from tests.bus.crash.life import EVENTS, SUBSCRIBERS, TOPICS
from tests.house import ROOT

LIVES = 4
ATTEMPTS = 3


def read_rows(folder: Path) -> list[tuple[int, str, str, int]]:
    """Read every delivery from a copy: a reader that leaves moves the log, and that is seen."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for path in folder.glob("duly.db*"):
        if not path.name.endswith(("-shm", ".lock")):
            shutil.copyfile(path, copy / path.name)
    connection = apsw.Connection(str(copy / "duly.db"))
    found = connection.execute("select event_id, subscriber_id, status, attempts from delivery")
    rows = [(row[0], row[1], row[2], row[3]) for row in found]
    connection.close()
    return rows


def read_log(folder: Path, since: int = 0) -> list[list[str]]:
    """Return what the handlers wrote down, line by line."""
    log = folder / "log"
    return [line.split() for line in (log.read_text() if log.exists() else "").splitlines()[since:]]


def live(folder: Path) -> subprocess.Popen[bytes]:
    """Begin a life on a folder."""
    command = [sys.executable, "-m", "tests.bus.crash.life", str(folder)]
    return subprocess.Popen(command, cwd=ROOT)


def live_and_die(folder: Path, dice: random.Random) -> None:
    """Let a life work for a moment, and kill it."""
    since = len(read_log(folder))
    with live(folder) as life:
        while life.poll() is None and not any("ready" in line for line in read_log(folder, since)):
            time.sleep(0.005)
        time.sleep(dice.random() * 0.06)
        if dice.random() < 0.3:
            life.send_signal(signal.SIGSTOP)
            time.sleep(0.05)
        life.send_signal(signal.SIGKILL)


def test_lanes_outlive_every_kill(tmp_path: Path) -> None:
    """B4: what was recorded is not repeated; B6: each subscriber in order."""
    dice = random.Random(1)
    recorded: set[tuple[int, str]] = set()
    for _ in range(LIVES):
        since = len(read_log(tmp_path))
        live_and_die(tmp_path, dice)
        lines = read_log(tmp_path, since)
        begun = {(int(words[3]), words[2]) for words in lines if words[1] == "begin"}
        assert not begun & recorded, "a recorded success was called again"
        rows = read_rows(tmp_path)
        recorded = {(event, name) for event, name, status, _ in rows if status == "done"}
    with live(tmp_path) as last:
        assert last.wait(60) == 0
    rows = read_rows(tmp_path)
    assert len(rows) == EVENTS * SUBSCRIBERS
    # One that ran alone at so many deaths may be dead (B5); no other may.
    assert all(status == "done" or attempts >= ATTEMPTS for *_, status, attempts in rows), rows
    ends: dict[str, list[int]] = {}
    for words in read_log(tmp_path):
        if words[1] == "end":
            ends.setdefault(words[2], []).append(int(words[3]))
    assert len(ends) == TOPICS * SUBSCRIBERS
    for name, ids in ends.items():
        assert ids == sorted(ids), name
