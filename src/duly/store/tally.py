"""What a host has done since it opened, counted as its verbs are committed.

Law 1: a count changes nothing and is kept in memory only; no decision reads it. A host that starts
       again counts from zero, as a monitor expects of a counter.
Law 2: a move is counted once its transaction is committed. A body that is run again notes its moves
       again, and those of the attempt before are forgotten.
Law 3: what is counted has few names: statuses, tools, models. The tools that are remembered by run
       are bounded; the oldest is forgotten first.
Law 4: `in_flight` counts sends, not rows that reach this status: a row gets there by an approval,
       too, and stays there while its call is sent once more.

A verb runs in one thread from its beginning to its end. The parts of verbs note their moves in a
list of that thread, so no transaction and no verb carries one more argument.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from duly.rules.word import MutationStatus

R = TypeVar("R")

TOOLS_MAX: Final = 10_000  # runs whose tool is remembered: each workflow has one open run at most
UNKNOWN_TOOL: Final = "unknown"  # the tool of a row that this host never read
LABELS_MAX: Final = 5_000  # counts of different names; beyond them nothing new is counted

Key = tuple[str, ...]
Move = tuple[str, tuple[str, ...], float]

RUNS_STARTED: Final = "runs_started"
RUNS: Final = "runs"
MUTATIONS: Final = "mutations"
DELIVERIES: Final = "deliveries"
QUESTIONS: Final = "model_questions"
TOKENS: Final = "model_tokens"
SYNCS: Final = "store_syncs"
SYNC_SECONDS: Final = "store_sync_seconds"
_SEEN: Final = "seen"
_PASSED: Final = "passed"


class _Noting(threading.local):
    moves: list[Move] | None = None


_noting: Final = _Noting()


def note(name: str, *labels: str, by: float = 1) -> None:
    """Note a move of the verb that runs in this thread, if it is counted."""
    if _noting.moves is not None:
        _noting.moves.append((name, labels, by))


def note_row(held_by: str, status: str, tool: str | None = None) -> None:
    """Note that the ledger row which a run holds has moved (L1).

    A row is in flight from a person's yes on, before it is sent: its send is noted instead (law 4).
    """
    if tool is not None:
        note(_SEEN, held_by, tool)
    if status != MutationStatus.IN_FLIGHT:
        note(MUTATIONS, held_by, status)


def note_send(held_by: str) -> None:
    """Note that the call of a row is written down as sent: the first time, or once more (L2)."""
    note(MUTATIONS, held_by, MutationStatus.IN_FLIGHT)


def note_tool(held_by: str, tool: str) -> None:
    """Note which tool the row of a run calls; its later moves are counted under that name."""
    note(_SEEN, held_by, tool)


def note_delivery(old: str, new: str) -> None:
    """Note what became of a delivery of the bus, if that is news (B4)."""
    if new != old:
        note(DELIVERIES, new)


def note_heir(run_id: str, successor_id: str) -> None:
    """Note that a successor holds the row of a run from now on (R5)."""
    note(_PASSED, run_id, successor_id)


class Tally:
    """The counts of one host."""

    def __init__(self) -> None:
        self._counts: Counter[Key] = Counter()
        self._tools: dict[str, str] = {}
        self._lock = threading.Lock()  # a sync is counted in the thread of the writer

    def noted(self, body: Callable[[], R], moves: list[Move]) -> R:
        """Run a body of a transaction and put what it moves into a list."""
        moves.clear()
        _noting.moves = moves
        try:
            return body()
        finally:
            _noting.moves = None

    def add(self, moves: Iterable[Move]) -> None:
        """Count moves whose transaction is committed."""
        for name, labels, by in moves:
            if name == _SEEN:
                self._remember(*labels)
            elif name == _PASSED:
                run_id, successor_id = labels
                if (tool := self._tools.pop(run_id, None)) is not None:
                    self._remember(successor_id, tool)
            elif name == MUTATIONS:
                held_by, status = labels
                self.count(name, self._tools.get(held_by, UNKNOWN_TOOL), status, by=by)
            else:
                self.count(name, *labels, by=by)

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to one count; a label too many is not counted."""
        key = (name, *labels)
        with self._lock:
            if key in self._counts or len(self._counts) < LABELS_MAX:
                self._counts[key] += by  # type: ignore[assignment]  # seconds are counted too

    def read(self, name: str) -> dict[Key, float]:
        """Return the counts of one name by their labels, in the order of the labels."""
        with self._lock:
            found = {key[1:]: float(value) for key, value in self._counts.items() if key[0] == name}
        return dict(sorted(found.items()))

    def _remember(self, held_by: str, tool: str) -> None:
        self._tools.pop(held_by, None)
        self._tools[held_by] = tool
        if len(self._tools) > TOOLS_MAX:
            del self._tools[next(iter(self._tools))]
