"""The pytest plugin that shares the tests out to the processes of `make test`.

Law 1: what `order.FIRST` names goes out first, each line to the process that is free next, so no
       process has two of them while another has none.
Law 2: the tests of a file go out in shares of `SHARE`, long ones one by one. A process that begins
       a file is given the rest of it, since what the file's tests stand on is made there. Only when
       every file has been begun do the others help, so all processes end together.
Law 3: every test goes out once. If a process dies, the test it was in failed, and the others of its
       shares go out again.
Law 4: the processes import the test files in a circle, each from a place of its own. So in a fresh
       clone each compiles its part and finds the other parts compiled.

Law 5: with TEST_SOME a commit leaves some of the cases that `pace.SHARES` names to other commits.

    python -m pytest -n 3 -p tests.spread
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from _pytest.outcomes import OutcomeException

from tests.breaks import number_of_commit
from tests.order import FIRST, rank
from tests.pace import is_some, left_out

SHARE: Final = 40
# A process begins a test when it knows the one after it.
AHEAD: Final = 2


class Process(Protocol):
    """What is asked of a process that runs tests."""

    @property
    def shutting_down(self) -> bool:
        """Whether it was told that nothing more comes."""

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        """Let it run these tests of the collection."""

    def shutdown(self) -> None:
        """Tell it that nothing more comes."""


def shares(names: Sequence[str]) -> list[deque[list[int]]]:
    """Divide tests into shares: a queue for each line of `order.FIRST`, then one for each file."""
    queues: dict[int | str, deque[list[int]]] = {place: deque() for place in range(len(FIRST))}
    for index, name in enumerate(names):
        place = rank(name)
        is_long = place < len(FIRST)
        queue = queues.setdefault(place if is_long else name.partition("::")[0], deque())
        if not queue or len(queue[-1]) == (1 if is_long else SHARE):
            queue.append([])
        queue[-1].append(index)
    return [queue for queue in queues.values() if queue]


class Spread:
    """Knows what waits and which process has what; xdist tells it what happens."""

    def __init__(self, processes: int) -> None:
        self._expected = processes
        self._collected: dict[Process, list[str]] = {}
        self._names: list[str] | None = None
        self._waiting: list[deque[list[int]]] = []
        self._begun: dict[Process, deque[list[int]]] = {}
        self._has: dict[Process, list[int]] = {}

    @property
    def nodes(self) -> list[Process]:
        """The processes that are there."""
        return list(self._has)

    @property
    def collection_is_completed(self) -> bool:
        """Whether every process has collected the tests."""
        return len(self._collected) >= self._expected

    @property
    def tests_finished(self) -> bool:
        """Whether there is nothing more to hand out; each process may have its last test left."""
        is_out = self.collection_is_completed and not any(self._waiting)
        return is_out and all(len(has) < AHEAD for has in self._has.values())

    @property
    def has_pending(self) -> bool:
        """Whether a test waits or runs."""
        return any(self._waiting) or any(self._has.values())

    def add_node(self, node: Process) -> None:
        """Take note of a process that has started."""
        self._has[node] = []

    def add_node_collection(self, node: Process, collection: Sequence[str]) -> None:
        """Take note of what a process has collected; all must have found the same."""
        others = self._names or next(iter(self._collected.values()), collection)
        assert list(others) == list(collection), (
            f"Two processes collected different tests: {set(others) ^ set(collection) or 'order'}"
        )
        self._collected[node] = list(collection)

    def schedule(self) -> None:
        """Begin, or give a process that came later its share."""
        if self._names is None:
            self._names = next(iter(self._collected.values()))
            self._waiting = shares(self._names)
        self._hand_out()

    def mark_test_complete(self, node: Process, item_index: int, duration: float = 0) -> None:
        """Take note of the end of a test."""
        self._has[node].remove(item_index)
        self._hand_out()

    def mark_test_pending(self, item: str) -> None:
        """Let a test go out once more."""
        assert self._names is not None
        self._waiting.insert(0, deque([[self._names.index(item)]]))
        self._hand_out()

    def remove_pending_tests_from_node(self, node: Process, indices: Sequence[int]) -> None:
        """Never called: nothing is taken back from a process."""
        raise NotImplementedError

    def remove_node(self, node: Process) -> str | None:
        """Let a process go; if it died, return the test it was in (law 3)."""
        has = self._has.pop(node)
        self._begun.pop(node, None)
        if not has:
            return None
        assert self._names is not None
        if has[1:]:
            self._waiting.insert(0, deque([has[1:]]))
        self._hand_out()
        return self._names[has[0]]

    def _hand_out(self) -> None:
        for node, has in self._has.items():
            while not node.shutting_down and len(has) < AHEAD:
                share = self._next(node)
                if not share:
                    node.shutdown()  # it runs its last test now, and waits for none after it
                    break
                has += share
                node.send_runtest_some(share)

    def _next(self, node: Process) -> list[int]:
        """Choose a share: of the file the process is in, of one not begun, of any (law 2)."""
        own = self._begun.get(node)
        if not own:
            self._waiting = [queue for queue in self._waiting if queue]
            taken = {id(queue) for queue in self._begun.values()}
            free = (queue for queue in self._waiting if id(queue) not in taken)
            own = next(free, max(self._waiting, key=len, default=None))
            if own is None:
                return []
            self._begun[node] = own
        return own.popleft()


def circle(files: Sequence[Path], process: int, processes: int) -> list[Path]:
    """Return the files in the order in which this one of the processes imports them (law 4)."""
    begin = len(files) * (process % processes) // processes
    return [*files[begin:], *files[:begin]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import what this process will collect."""
    given = getattr(session.config, "workerinput", None)
    if given is None:
        return
    root = session.config.rootpath
    places = [root / each.partition("::")[0] for each in session.config.args]
    # A conftest may say of other modules that their assertions are rewritten.
    first = sorted(file for place in places for file in place.rglob("conftest.py"))
    files = sorted(file for place in places for file in place.rglob("test_*.py"))
    number = int(given["workerid"].removeprefix("gw"))
    for file in [*first, *circle(files, number, given["workercount"])]:
        # What cannot be imported is reported by its collection.
        with suppress(Exception, OutcomeException):
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is left to other commits (law 5)."""
    if not is_some():
        return
    gone = left_out([each.nodeid for each in items], number_of_commit())
    config.hook.pytest_deselected(items=[each for each in items if each.nodeid in gone])
    items[:] = [each for each in items if each.nodeid not in gone]


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config) -> Any:
    """Let xdist ask this plugin who gets what."""
    return Spread(len(config.getoption("tx")))
