"""A host with the code of a former commit beside one of this tree, on one server (H11).

It needs the history of the project, so it is a command and no test: a copy without history, as CI
or a source package may be, cannot run it. What a test can show without it, a schema of one version
less or more, is in `test_upgrade.py`.

    python -m tests.postgres.former                   commits of two kinds, see `FORMER`
    python -m tests.postgres.former NEIGHBOUR OLDER   or these

Law 1  If the newer schema only adds, both hosts work, each takes over from the other, and no note
       is posted twice.
Law 2  With an older schema the newer host does not start while the older one is at work; that one
       ends its run. When it has stopped, the newer one changes the schema and goes on. Then the
       older code does not start any more.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.house import ROOT
from tests.postgres.server import address, server
from tests.postgres.service import CONNECTOR, Counting
from tests.postgres.stand import FLOW, KEY
from tests.postgres.storm import outside, short_folder

# One whose schema lacks a step that only adds, and one whose schema must be brought up.
FORMER: Final = ("2ba6404d", "b41ac4d5")
PATIENCE_S: Final = 120.0
CALL_S: Final = 4.0
MEMBER: Final = """
import asyncio, sys
from duly.config import FleetSettings
from duly.host import Host
from duly.rules.source import Language, Source
from outside_count import Outside

URL, FLOW = sys.argv[1:]


async def main():
    loop = asyncio.get_running_loop()
    async with Host(URL, connectors=[Outside()], fleet=FleetSettings(lease_s=3)) as host:
        async with host.running():
            print("here", flush=True)
            while line := (await loop.run_in_executor(None, sys.stdin.readline)).split():
                if line[0] == "deploy":
                    await host.deploy(Source(Language.PYTHON, FLOW, "notes.py"))
                    await host.grant("notes", "outside.post")
                else:
                    await host.publish("notes", "note", title=line[1], message_id=line[1])
                print("done", flush=True)


asyncio.run(main())
"""


class Member:
    """A host in a process, with the code of a tree."""

    def __init__(self, base: Path, tree: Path, url: str) -> None:
        folder = base / f"member{time.monotonic_ns()}"
        folder.mkdir()
        (folder / "outside_count.py").write_text(CONNECTOR)
        (folder / "member.py").write_text(MEMBER)
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "member.py", url, FLOW.format(name="notes")],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, "DULY_KEY": KEY, "PYTHONPATH": str(tree / "src")},
            )

    def hear(self) -> str:
        """Wait for its next word; none if it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def tell(self, *words: str) -> None:
        """Let it do something, and wait until that is done."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{' '.join(words)}\n")
        self._process.stdin.flush()
        assert self.hear() == "done", self.said

    def close(self) -> None:
        """Stop it in order."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        """Kill it and its workers."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    @property
    def said(self) -> str:
        """What it has said."""
        return self._log.read_text(errors="replace")[-3000:]


def unpack(commit: str, place: Path) -> Path:
    """Write the source of a commit into a folder."""
    command = ["git", "archive", commit, "src"]
    packed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
        archive.extractall(place)
    return place


def until(asked: Callable[[], bool], what: str) -> None:
    """Wait until something is so."""
    ends_s = time.monotonic() + PATIENCE_S
    while not asked():
        assert time.monotonic() < ends_s, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.05)


@contextmanager
def come(base: Path, tree: Path, url: str) -> Iterator[Member]:
    """Start a host, and end it if it is still there."""
    member = Member(base, tree, url)
    try:
        yield member
    finally:
        member.kill()


def side_by_side(base: Path, former: Path, url: str, counting: Counting) -> None:
    """Show law 1."""
    with come(base, former, url) as old:
        assert old.hear() == "here", old.said
        old.tell("deploy")
        with come(base, ROOT, url) as new:
            assert new.hear() == "here", new.said
            for number in range(10):
                old.tell("publish", f"old{number}")
                new.tell("publish", f"new{number}")
            until(lambda: len(counting.posts) == 20, "the notes of both")
            counting.delay_s = CALL_S
            old.tell("publish", "while-the-old-one-dies")
            until(lambda: len(counting.posts) == 21, "a call that is out")
            old.kill()
            new.tell("publish", "after")
            until(lambda: len(counting.posts) == 22, "the newer one goes on")
            with come(base, former, url) as again:
                assert again.hear() == "here", again.said
                again.tell("publish", "while-the-new-one-dies")
                until(lambda: len(counting.posts) == 23, "a call that is out")
                new.kill()
                again.tell("publish", "at-last")
                until(lambda: len(counting.posts) == 24, "the older one goes on")
                time.sleep(CALL_S)
                again.close()


def one_after_the_other(base: Path, former: Path, url: str, counting: Counting) -> None:
    """Show law 2."""
    counting.delay_s = CALL_S
    with come(base, former, url) as old:
        assert old.hear() == "here", old.said
        old.tell("deploy")
        old.tell("publish", "while-the-new-one-starts")
        until(lambda: len(counting.posts) == 1, "a call that is out")
        with come(base, ROOT, url) as early:
            assert not early.hear()
            assert "server_schema_older" in early.said or "older Duly" in early.said, early.said
        counting.delay_s = 0
        old.tell("publish", "still-at-work")
        until(lambda: len(counting.posts) == 2, "the older one works on")
        old.close()
    with come(base, ROOT, url) as new:
        assert new.hear() == "here", new.said
        new.tell("publish", "on-the-new-schema")
        until(lambda: len(counting.posts) == 3, "the newer one goes on")
        with come(base, former, url) as late:
            assert not late.hear()
            assert "newer Duly" in late.said, late.said
        new.close()


def main(neighbour: str = FORMER[0], older: str = FORMER[1]) -> None:
    """Run both on a server each."""
    for commit, show in ((neighbour, side_by_side), (older, one_after_the_other)):
        with short_folder() as base, outside(base) as counting:
            tree = unpack(commit, base / "former")
            with server(base / "server"):
                show(base, tree, address(base / "server"), counting)
        twice = {note: count for note, count in counting.posts.items() if count > 1}
        assert not twice, f"posted more than once: {twice}"
        print(f"{show.__name__} with {commit}: {len(counting.posts)} notes, each posted once")


if __name__ == "__main__":
    main(*sys.argv[1:])
