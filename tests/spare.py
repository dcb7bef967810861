"""Workers that a test left clean serve the next test of the process.

Law 1: a host gives a clean worker to its next script, whichever workflow that is of (X2). This
       shelf gives it to the next host as well. A worker is kept only if its own host would have
       used it again: it stands still, was told to forget its script, and owes no word.
Law 2: the tests of the sandbox, and those that count or look for processes, start workers of their
       own. So does every run under a break or a mutant.

Why: to start one costs 0.05 to 0.2 s of processor time, more than most tests that need one
(docs/decisions/621-workers-outlive-a-test.md).
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

from duly.cell.process import Stat
from duly.env import Env
from duly.sandbox import pool, wire
from duly.sandbox.pool import Pool, Program, Worker
from duly.sandbox.python_process import PythonWorker
from duly.sandbox.slot import ScriptPlace
from tests.breaks import BREAK_VARIABLE
from tests.warm import INSIDE

OWN: Final = (
    *("tests/sandbox/", "tests/fire/", "tests/lockless/", "tests/test_host"),
    "tests/desk/test_trial.py::test_a_trial_shows_every_change_and_makes_none",
    "tests/engine/test_study.py",
)
KEPT_MAX: Final = 3  # of each kind
USES_MAX: Final = 100

Kind = tuple[str, ...]


@dataclass(slots=True)
class Spare:
    """A process, our end of its channel, its first words, and how often it served."""

    process: subprocess.Popen[bytes]
    end: socket.socket
    ready: bytes
    uses: int = 1

    def drop(self) -> None:
        """End it."""
        self.process.kill()
        self.end.close()
        self.process.wait()


class Shelf:
    """The workers that wait for the next test."""

    def __init__(self) -> None:
        self.is_open = False
        self._spares: dict[Kind, list[Spare]] = defaultdict(list)
        self._begin, self._ready, self._close = Worker.__init__, Worker.ready, Pool.close

    def install(self) -> None:
        """Stand between pools and their workers."""
        if BREAK_VARIABLE in os.environ or INSIDE in os.environ:
            return
        shelf = self

        def begin(worker: Worker, env: Env, program: Program | None = None) -> None:
            kind = (type(worker).__name__, *pool.command(0, program))
            spare = shelf.take(kind)
            if spare is None:
                shelf._begin(worker, env, program)
            else:
                adopt(worker, env, spare)
            vars(worker).update(kind=kind, spare=spare)

        async def ready(worker: Worker) -> wire.Ready:
            told = await shelf._ready(worker)
            vars(worker)["told"] = wire.pack(told)
            if vars(worker)["spare"] is not None and isinstance(worker, PythonWorker):
                await worker.wipe()
            return told

        async def close(closed: Pool) -> None:
            for worker in [*closed._idle] if shelf.is_open else []:
                if shelf.keep(worker):
                    closed._idle.remove(worker)
                    closed._all.discard(worker)
            await shelf._close(closed)

        changed: Any = (Worker, Pool)
        changed[0].__init__, changed[0].ready, changed[1].close = begin, ready, close

    def take(self, kind: Kind) -> Spare | None:
        """Return a worker of this kind that is alive, if the test may have one."""
        spares = self._spares[kind] if self.is_open else []
        while spares:
            spare = spares.pop()
            if spare.process.poll() is None:
                return spare
            spare.drop()
        return None

    def keep(self, worker: Worker) -> bool:
        """Keep an idle worker for the next test; return False where its pool must end it."""
        own, channel = vars(worker), worker._channel
        spares = self._spares[own["kind"]]
        # No worker but that of Python says a word when it was told to forget.
        owes = isinstance(worker, PythonWorker) and channel._is_owed
        is_quiet = not (owes or channel._buffer or channel._body or channel._trouble)
        spare: Spare = own["spare"] or Spare(worker._process, channel._end, own.get("told", b""))
        if not is_quiet or not worker.is_alive or len(spares) >= KEPT_MAX or spare.uses > USES_MAX:
            return False
        if isinstance(worker, PythonWorker):
            worker._wiping()  # the next host says it first
        channel._loop.remove_reader(channel._end)
        if channel._alarm is not None:
            channel._alarm.cancel()
        worker._stat.close()
        spare.uses += 1
        spares.append(spare)
        return True

    def empty(self) -> None:
        """End every worker that waits."""
        for spares in self._spares.values():
            while spares:
                spares.pop().drop()


def adopt(worker: Worker, env: Env, spare: Spare) -> None:
    """Make a worker over a process that is there; it is told to forget once more."""
    worker._process, worker._env = spare.process, env
    worker._channel = worker._open(spare.end)
    worker._channel._body, worker._channel._is_owed = spare.ready, False
    worker._stat = Stat(spare.process.pid)
    worker._cpu_before_s, worker._watch = 0.0, None
    worker.is_clean, worker.idle_since_ms = True, 0
    worker.place = ScriptPlace("", is_held=False)


SHELF: Final = Shelf()
