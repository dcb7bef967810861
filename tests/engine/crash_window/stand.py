"""The parent of the processes: it starts them, sees how they end, and counts in the book.

Law: a process that was to die ended by SIGKILL, or the test is red; what happened is what stands
in the book, whatever the store says.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from signal import SIGKILL
from typing import IO, Any

from tests.breaks import ROOT
from tests.engine.crash_window.book import Line, read_book
from tests.engine.crash_window.process import BOOK, SEEN, Flow, Orders, Seen
from tests.engine.crash_window.script import INBOX, WRITTEN

NAME = "mail-to-row"
HOUR = ("pass", 3600)


class Nursery:
    """Where processes come from."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders: IO[str] = process.stdin
        self._ends: IO[str] = process.stdout

    def run(self, orders: Orders) -> int:
        """Run a process to its end, or its death; answer its exit status."""
        self._orders.write(json.dumps(asdict(orders)) + "\n")
        self._orders.flush()
        return int(self._ends.readline())


@contextmanager
def open_nursery() -> Iterator[Nursery]:
    """Start the process that starts the others, and end it."""
    command = [sys.executable, "-m", "tests.engine.crash_window.process"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        yield Nursery(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=120) == 0


@dataclass(frozen=True, slots=True)
class Death:
    """A place to die at, the how-manieth time it is reached; in virtual time if it must wait."""

    at: str
    nth: int = 1
    is_virtual: bool = False


class Window:
    """One store and one book, and the processes that came and went there."""

    def __init__(self, nursery: Nursery, folder: Path, day: int = 0) -> None:
        self._nursery = nursery
        self._day = day
        self.folder = folder
        self.seen = Seen()

    def die(self, death: Death, *flows: Flow, acts: tuple[tuple[Any, ...], ...] = (HOUR,)) -> None:
        """Start a host that dies where it is told; the first one brings the workflows."""
        assert self.live_or_die(death, *flows, acts=acts) == -SIGKILL, death

    def live_or_die(
        self, death: Death, *flows: Flow, acts: tuple[tuple[Any, ...], ...] = (HOUR,)
    ) -> int:
        """Start a host that dies if it gets there; answer its exit status."""
        orders = Orders(str(self.folder), death.at, death.nth, flows=flows)
        if death.is_virtual:
            self._day += 1
            orders = replace(orders, day=self._day, acts=acts)
        return self._nursery.run(orders)

    def live(self, *acts: tuple[Any, ...], flows: tuple[Flow, ...] = ()) -> Seen:
        """Start a host that lives for an hour of virtual time, or as long as the acts say."""
        self._day += 1
        orders = Orders(str(self.folder), day=self._day, flows=flows, acts=acts or (HOUR,))
        assert self._nursery.run(orders) == 0
        words = json.loads((self.folder / SEEN).read_text(encoding="utf-8"))
        self.seen = Seen(**words)
        return self.seen

    def copy(self, folder: Path) -> Window:
        """Take the same store and book somewhere else, so that they can go another way."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Window(self._nursery, folder, self._day)

    @property
    def lines(self) -> list[Line]:
        """Every effect there was."""
        return read_book(self.folder / BOOK)

    @property
    def rows(self) -> list[str]:
        """What was written, in order."""
        return [line.row for line in self.lines]

    def ledger(self, row: str) -> list[dict[str, Any]]:
        """The ledger rows that answer for one row of the book."""
        return [each for each in self.seen.mutations if each["args"] == {"row": row}]

    def check_whole(self, *mails: str, workflow: str = NAME) -> None:
        """Check that every mail became one row, once, and that nothing is left open."""
        mine = [line for line in self.lines if line.workflow == workflow]
        assert sorted(line.row for line in mine) == sorted(mails)
        assert len({line.key for line in mine}) == len(mails)
        events = self.seen.events[workflow]
        assert {name: each["status"] for name, each in events[INBOX].items()} == dict.fromkeys(
            mails, "consumed"
        )
        said = {name: each["payload"] for name, each in events[WRITTEN].items()}
        assert said == {f"row:{mail}": {"status": "applied"} for mail in mails}
        for line in mine:
            rows = self.ledger(line.row)
            assert {each["key"] for each in rows} == {line.key}
            assert [each["status"] for each in rows].count("applied") == 1
            assert {each["status"] for each in rows} <= {"applied", "failed"}
        self.check_nothing_left(workflow)

    def check_nothing_left(self, workflow: str = NAME) -> None:
        """Check that no run is open and no event reserved."""
        assert workflow not in self.seen.open_runs
        assert self.seen.strays == 0
        events = self.seen.events[workflow][INBOX].values()
        assert {each["status"] for each in events} <= {"consumed", "skipped"}
