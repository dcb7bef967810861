"""Following a list: only what is new or changed, until it is stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from duly.faces.cli import base
from tests.faces.cli_stand import call, make, running


def test_a_followed_list_prints_what_is_new_until_ctrl_c(tmp_path: Path) -> None:
    """U6: through a real process and a real host; what was there is told once."""
    folder = make(tmp_path / "a")
    rests = folder / "workflows" / "rests.js"
    words = [sys.executable, "-m", "duly", "--project", str(folder)]
    with running(folder):
        call(folder, "deploy", str(rests))
        publish(folder, "1")
        follower = subprocess.Popen(
            [*words, "events", "rests", "--follow", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A run of tests in the background ignores Ctrl-C, and so would its children.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        assert follower.stdout is not None
        try:
            first = json.loads(follower.stdout.readline())
            publish(folder, "2")
            second = json.loads(follower.stdout.readline())
        finally:
            follower.send_signal(signal.SIGINT)
            left, told = follower.communicate(timeout=120)
    assert (first["message_id"], second["message_id"]) == ("1", "2")
    assert (left, follower.returncode, "Traceback" in told) == ("", 130, False)


def publish(folder: Path, message_id: str) -> None:
    done = call(folder, "publish", "rests", "in", "--title", "Note", "--message-id", message_id)
    assert done.exit_code == 0, done.output


class Told:
    """A session that answers what it was told to."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers

    async def follow(self, verb: str, /, **args: Any) -> AsyncIterator[Any]:
        for each in self.answers:
            yield each


def followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, answers: list[Any], *words: str
) -> str:
    @asynccontextmanager
    async def session(face: base.Face) -> AsyncIterator[Told]:
        yield Told(answers)

    monkeypatch.setattr(base.Face, "session", session)
    return call(make(tmp_path / "a"), verb, "--follow", *words).stdout


def row(run_id: str, status: str) -> dict[str, Any]:
    return {"id": run_id, "status": status}


def test_of_a_list_only_new_and_changed_entries_are_printed_as_they_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: a list whose newest entry comes first is told from its oldest."""
    a, b, b2, c = row("a", "done"), row("b", "active"), row("b", "done"), row("c", "active")
    answers = [[b, a], [b, a], [b2, a], [c, b2, a], [b2, a], [b, a]]
    text = followed(tmp_path, monkeypatch, "runs", answers, "--json")
    assert [json.loads(line) for line in text.splitlines()] == [a, b, b2, c, b]


def test_one_thing_is_printed_again_when_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: and an empty list is no news."""
    a, b = row("a", "active"), row("a", "done")
    text = followed(tmp_path, monkeypatch, "run", [a, a, b], "a", "--json")
    assert [json.loads(line) for line in text.splitlines()] == [a, b]


def test_nothing_new_prints_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """U6: silence while nothing happens."""
    assert followed(tmp_path, monkeypatch, "logs", [[], []], "run_1") == ""
