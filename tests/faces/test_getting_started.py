"""docs/getting-started.md: what it shows is typed, in order, in the terminals it names.

Law: the reader waits for what the page says that a terminal will say, and for nothing else.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from duly.faces.cli import commands
from tests.faces.real import Running, call, running, wait_for
from tests.readme_page import path_to_duly

PAGE = Path(__file__).parents[2] / "docs" / "getting-started.md"
# What some commands must show for the page to be true.
SHOWN = {
    "doctor": "All is well." if os.geteuid() else "0 bad, 1 to look at",
    "diff": "Hello, ",
    "try": "Would write 1 file.",
    "simulate": "every change was made exactly once",
    "attention": "duly approve",
}
BLOCK = re.compile(r"^```(sh|text)( first terminal)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def lines() -> Iterator[tuple[str, bool, str]]:
    """Read what is typed (sh) and what is waited for (text), and whether in the first terminal."""
    for language, is_first, block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        for line in block.splitlines():
            yield language, bool(is_first), line


class Reader:
    """A person who types what the page says, waits for what it shows, and for nothing else."""

    def __init__(self, folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._stack = stack
        self._monkeypatch = monkeypatch
        self._first: Running | None = None
        self._read_up_to = 0
        self.go_to(folder)

    def go_to(self, folder: Path) -> None:
        self.folder = folder
        self._monkeypatch.chdir(folder)

    def type(self, line: str, is_first: bool) -> None:
        words = shlex.split(line)
        if is_first:
            self._first = self._stack.enter_context(running(self.folder, *words[1:], "--no-page"))
            self._read_up_to = 0
        elif words[0] == "cd":
            self.go_to(self.folder / words[1])
        elif words[0] == "duly":
            self.call(words[1:])
        else:
            self.shell(line, words)

    def read(self, line: str) -> None:
        """Wait until the first terminal says this, after what it was seen to say before."""
        first = self._first
        assert first is not None
        wait_for(lambda: line in first.said[self._read_up_to :], line, first)
        self._read_up_to = first.said.index(line, self._read_up_to) + len(line)

    def call(self, words: list[str]) -> None:
        if "MUTATION" in words:
            (waiting,) = json.loads(call(None, "approvals", "--json").stdout)
            words = [each.replace("MUTATION", waiting["mutation"]) for each in words]
            words.append("--yes")  # nobody is there to be asked
        target = None
        if ">" in words:
            target = self.folder / words[-1]
            words = words[: words.index(">")]
        if words[0] == "run-now":  # it is refused while the workflow looks by itself (S7)
            wait_for(lambda: call(None, *words).exit_code == 0, "run-now", self._first)
            return
        done = call(None, *words)
        assert done.exit_code == 0, (words, done.output)
        if target is not None:
            target.write_text(done.stdout)
        assert SHOWN.get(words[0], "") in done.stdout, (words, done.stdout)

    def shell(self, line: str, words: list[str]) -> None:
        if words[-1] == "duly.toml":
            self.stop()  # the page says so before
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self.folder,
            env=path_to_duly(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)

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
        for language, is_first, line in lines():
            if language == "text":
                reader.read(line)
            else:
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
    named |= {line.split()[1] for _, _, line in lines() if line.startswith("duly ")}
    assert "simulate" in named
    assert named <= {*commands()}
