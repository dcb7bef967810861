"""docs/getting-started.md: every command it shows is run, in order, in the terminals it names."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from duly.faces.cli import COMMANDS
from tests.faces.real import Running, call, running, wait_for

PAGE = Path(__file__).parents[2] / "docs" / "getting-started.md"
BLOCK = re.compile(r"^```sh( first terminal)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands() -> Iterator[tuple[str, bool]]:
    for is_first, block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        for line in block.splitlines():
            yield line, bool(is_first)


class Reader:
    """Somebody who types what the page says, and looks whether it is true."""

    def __init__(self, folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._stack = stack
        self._monkeypatch = monkeypatch
        self._first: Running | None = None
        self.go_to(folder)

    def go_to(self, folder: Path) -> None:
        self.folder = folder
        self._monkeypatch.chdir(folder)

    def type(self, line: str, is_first: bool) -> None:
        words = shlex.split(line)
        if is_first:
            self.stop()
            self._first = self._stack.enter_context(running(self.folder, *words[1:]))
            wait_for((self.folder / "duly.db.socket").exists, "the socket", self._first)
            if words[1] == "dev":
                self._first.until("welcome.answer committed (applied)")
        elif words[0] == "cd":
            self.go_to(self.folder / words[1])
        elif words[0] == "duly":
            self.call(words[1:])
        else:
            self.shell(line, words)

    def call(self, words: list[str]) -> None:
        if "MUTATION" in words:
            wait_for(lambda: bool(self.approvals()), "the call that waits", self._first)
            words = [each.replace("MUTATION", self.approvals()[0]) for each in words] + ["--yes"]
        target = None
        if ">" in words:
            target = self.folder / words[-1]
            words = words[: words.index(">")]
        if words[0] == "run-now":  # it is refused while something runs (S7)
            wait_for(lambda: call(None, *words).exit_code == 0, "run-now", self._first)
            return
        done = call(None, *words)
        assert done.exit_code == 0, (words, done.output)
        if target is not None:
            target.write_text(done.stdout)
        if words[0] == "attention":
            wait_for(lambda: "approve" in call(None, "attention").stdout, "a question", self._first)

    def approvals(self) -> list[str]:
        return [each["mutation"] for each in json.loads(call(None, "approvals", "--json").stdout)]

    def shell(self, line: str, words: list[str]) -> None:
        if words[0] == "printf":
            self.stop()  # the page says so before
        if words[0] == "cat":
            wait_for((self.folder / words[1]).exists, words[1], self._first)
        subprocess.run(["/bin/sh", "-c", line], cwd=self.folder, check=True, capture_output=True)
        if words[0] == "sed":
            assert self._first is not None
            self._first.until("welcome 2.0 deployed by")

    def stop(self) -> None:
        if self._first is not None:
            self._first.tell(signal.SIGINT)
            assert self._first.end() == 0, self._first.said
            self._first = None


def test_every_command_of_the_page_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: from an empty folder to a letter that a person approved."""
    with ExitStack() as stack:
        reader = Reader(tmp_path, stack, monkeypatch)
        for line, is_first in commands():
            reader.type(line, is_first)
        reader.stop()
    letters = {each.name: each.read_text() for each in (reader.folder / "outbox").glob("*.txt")}
    assert letters == {
        "ada.txt": "Welcome, Ada!\n",
        "bob.txt": "Welcome, Bob!\n",
        "eve.txt": "Hello, Eve!\n",
    }
    assert "ctx.outbox.write(path: str, text: str)" in (reader.folder / "prompt.md").read_text()


def test_every_command_the_page_speaks_of_exists() -> None:
    """U6: also those in its sentences."""
    named = set(re.findall(r"`duly ([a-z-]+)", PAGE.read_text(encoding="utf-8")))
    named |= {line.split()[1] for line, _ in commands() if line.startswith("duly ")}
    assert "simulate" in named
    assert named <= {*COMMANDS}
