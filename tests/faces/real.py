"""Real processes of the command line, for tests; each is ended by its own number alone.

Law: nothing here waits for a while: it waits for a line, a file or an end, and gives up loudly.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from click.testing import CliRunner, Result

from duly.faces.cli import duly
from duly.faces.cli.init import create

PATIENCE_S: Final = 240.0

# A connector of the project's own: it says that it was called, and answers when it may.
SLOW: Final = """
import asyncio
from pathlib import Path

import duly

HERE = Path(__file__).parent


class Slow(duly.Connector):
    name = "slow"

    @duly.mutation(lag_s=1, noun="post")
    async def post(self, call: duly.Call, text: str) -> dict:
        (HERE / "called").write_text(text)
        while not (HERE / "go").exists():
            await asyncio.sleep(0.02)
        with (HERE / "posts").open("a") as file:
            file.write(text + "\\n")
        return {}

    @post.reconcile
    async def post_happened(self, call: duly.Call):
        return duly.Unsure("nobody counts here")
"""

FLOW: Final = """
from duly import workflow

flow = workflow("posts", topics={"note.came": {"ingress": True}})


@flow.consumer("note.came")
class post:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("note.came", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "note.came", "ids": [pending[0]["message_id"]]}],
            "data": {"text": pending[0]["title"]},
            "ui": {"title": f"Post {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.slow.post(text=prepared["data"]["text"])
"""


def make_project(folder: Path) -> Path:
    """Make the project of `duly init`."""
    create(folder)
    return folder


def make_slow_project(folder: Path) -> Path:
    """Make a project whose one change waits until a person lets it."""
    (folder / "workflows").mkdir(parents=True)
    (folder / "duly.toml").write_text('[connectors.slow]\nuse = "outside_slow:Slow"\n')
    (folder / "outside_slow.py").write_text(SLOW)
    (folder / "workflows" / "posts.py").write_text(FLOW)
    return folder


def call(folder: Path | None, *words: str, given: str | None = None) -> Result:
    """Call the command line in this process."""
    project = [] if folder is None else ["--project", str(folder)]
    return CliRunner().invoke(duly, [*project, *words], prog_name="duly", input=given)


class Running:
    """One `duly …` in a process of its own, and what it has said on stderr so far."""

    def __init__(self, folder: Path, *words: str, tty: int | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "duly", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if tty is None else tty,
            start_new_session=True,  # so that what it leaves behind can be found
            env={**os.environ, "PYTHONUNBUFFERED": "1", "TERM": "xterm"},
        )
        self._said = bytearray()
        self._reading: threading.Thread | None = None
        if tty is None:
            self._reading = threading.Thread(target=self._read, daemon=True)
            self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        while data := os.read(self.process.stderr.fileno(), 65536):
            self._said += data

    @property
    def said(self) -> str:
        return bytes(self._said).decode()

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def until(self, words: str) -> None:
        """Wait until it has said this."""
        wait_for(lambda: words in self.said or self.process.poll() is not None, words, self)
        assert words in self.said, self.said

    def end(self) -> int:
        """Wait for its end; nothing of its session may be left."""
        status = self.process.wait(PATIENCE_S)
        if self._reading is not None:
            self._reading.join(PATIENCE_S)
        wait_for(lambda: not members(self.process.pid), "the end of its workers", self)
        return status

    def close(self) -> None:
        """End it, whatever the test has become."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                if self._reading is not None:
                    self._reading.join(PATIENCE_S)
                stream.close()


@contextmanager
def running(folder: Path, *words: str, tty: int | None = None) -> Iterator[Running]:
    """Run a command in a process of its own for as long as this lasts."""
    made = Running(folder, *words, tty=tty)
    try:
        yield made
    finally:
        made.close()


def wait_for(is_there: Callable[[], bool], what: str, who: Running | None = None) -> None:
    """Look until it is there, or say what never came."""
    ends_s = time.monotonic() + PATIENCE_S
    while not is_there():
        told = "" if who is None else who.said
        assert time.monotonic() < ends_s, f"{what} never came. {told}"
        time.sleep(0.02)


def members(session: int) -> list[int]:
    """List the processes of a session that still live."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found
