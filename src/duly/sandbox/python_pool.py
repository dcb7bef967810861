"""The interpreter's own pool of processes, kept as large as it was needed lately.

Law 1: no process is there before the first script, and none stays that was not needed for a while.
       The interpreter's pool ends no single process, so a pool that holds too many is given up for
       a fresh one (S9). A script that still has a process of the old one keeps it to its end.
Law 2: the first script finds a spare beside its own process, so the second need not wait.
Law 3: a forked child leaves processes and launcher to its parent (H1).

Threads take processes out; who comes and goes is counted on the event loop.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pydantic_monty import Monty, OSPolicy, ResourceLimits

from duly import fork
from duly.sandbox.python_launcher import write_launcher
from duly.sandbox.reaper import IDLE_S, Reaper

WORKERS_WARM: Final = 2
# The pool's own watchdog comes after ours, which knows the name of the limit (X2).
BACKSTOP_S: Final = 5.0
POLICY: Final[OSPolicy] = {
    "datetime": "call_host",
    "random_start": "call_host",
    "sleep": "call_host",
}


class Processes:
    """At most so many processes; `in_thread` runs what waits for one."""

    def __init__(
        self,
        *,
        workers_max: int,
        wall_s: float,
        is_unlocked: bool,
        in_thread: Callable[[Callable[[], Any]], Any],
        idle_s: float = IDLE_S,
    ) -> None:
        self._workers_max = workers_max
        self._wall_s = wall_s
        self._is_unlocked = is_unlocked
        self._in_thread = in_thread
        self._reaper = Reaper(idle_s, self._reap)
        self._folder: Path | None = None
        self._remove_folder: weakref.finalize[..., Any] | None = None
        self._pool: Monty | None = None
        self._changing = threading.Lock()
        self._here = 0
        self._here_lately = 0  # at most, since the last look
        self._here_at_most = 0  # since this pool was made: so many processes it may hold
        self.pids: set[int] = set()
        fork.own(self)

    def abandon(self) -> None:
        """Leave everything to the parent, in a forked child."""
        if self._remove_folder is not None:
            self._remove_folder.detach()  # at its exit the child would remove the launcher

    def enter(self) -> None:
        """Count a script in."""
        self._here += 1
        self._here_lately = max(self._here_lately, self._here)
        self._here_at_most = max(self._here_at_most, self._here)
        self._reaper.come_later()

    def leave(self) -> None:
        """Count a script out."""
        self._here -= 1

    def take(self, limits: ResourceLimits, **options: Any) -> Any:
        """Take a process out, in a thread: a session in which one script runs."""
        checkout = self._current().checkout(limits=limits, os_policy=POLICY, **options)
        session: Any = checkout.__enter__()
        self.pids.add(session.worker_pid)
        return session

    async def close(self) -> None:
        """End every process; no script may be in one."""
        self._reaper.stay_away()
        if (pool := self._give_up()) is not None:
            await self._in_thread(lambda: pool.__exit__(None, None, None))
        if self._remove_folder is not None:
            self._remove_folder()

    def _current(self) -> Monty:
        with self._changing:
            if self._pool is None:
                if self._folder is None:
                    self._folder = Path(tempfile.mkdtemp(prefix="duly-"))
                    self._remove_folder = weakref.finalize(
                        self, shutil.rmtree, self._folder, ignore_errors=True
                    )
                self._pool = Monty(
                    binary_path=write_launcher(self._folder, is_unlocked=self._is_unlocked),
                    min_processes=min(WORKERS_WARM, self._workers_max),
                    max_processes=self._workers_max,
                    request_timeout=self._wall_s + BACKSTOP_S,
                    feed_duration_limit_grace=BACKSTOP_S,
                    turn_duration_limit_grace=BACKSTOP_S,
                )
                self._pool.__enter__()
            return self._pool

    def _give_up(self) -> Monty | None:
        with self._changing:
            pool, self._pool = self._pool, None
            self.pids.clear()
        return pool

    def _reap(self) -> bool:
        """Give up a pool that holds more than were needed lately; running scripts keep theirs."""
        lately, self._here_lately = self._here_lately, self._here
        if lately == 0 or self._here_at_most > max(lately, WORKERS_WARM):
            self._here_at_most = self._here
            if (pool := self._give_up()) is not None:
                self._in_thread(lambda: pool.__exit__(None, None, None))
        return lately > 0
