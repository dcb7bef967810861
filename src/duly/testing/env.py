"""The `Env` of a test: virtual time, ids that count, dice that are known beforehand.

Law 1: two runs of one test see the same times, ids and dice.
Law 2: work that blocks in the product runs here at once, after one moment in which other tasks run.
Law 3: another thread gets the machine's real clock: a worker of the sandbox is watched in real
       time, while the time of the test stands still.

    env = VirtualEnv(loop)
    await env.sleep(3600)           # an hour, at once
    env.jump(-60_000)               # the wall clock was set back by a minute
    env.reboot()                    # another boot of the machine, whose clock begins at nought
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from typing import Any, Final, TypeVar

from duly.env import ID_TIME_DIGITS, Boot, Loop
from duly.sandbox.base import Sandbox
from duly.store import Store
from duly.testing.crash import Crash, CrashingStore
from duly.testing.loop import VirtualLoop
from duly.testing.sandbox import Outstanding

R = TypeVar("R")

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
ID_COUNT_DIGITS: Final = 16


class VirtualEnv(Loop):
    """What a host gets instead of the real world.

    `wakes` and `blocking_calls` count, so that a test can prove that an idle host does nothing.
    A host passes its sandbox through `wrap_sandbox`.
    """

    def __init__(self, loop: VirtualLoop, *, start: datetime = START, seed: int = 0) -> None:
        super().__init__()
        self._loop = loop
        self._thread = threading.get_ident()
        self._start_ms = round(start.timestamp() * 1000)
        self._seed = seed
        self._ids = count(1)
        self._throws = count()
        self._boots = 1
        self._booted_ms = 0
        self.blocking_calls = 0
        self.sandboxes: list[Outstanding] = []
        self.stores: list[CrashingStore] = []
        self.crashed = asyncio.Event()

    @property
    def wakes(self) -> int:
        """How often time moved because of a timer."""
        return self._loop.jumps

    def now_ms(self) -> int:
        """Return the virtual wall clock."""
        return self._start_ms + self._loop.elapsed_ms

    def now(self) -> datetime:
        """Return the virtual wall clock, as people read it."""
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def monotonic_ms(self) -> int:
        """Return the virtual time since the loop was made; to another thread, the machine's."""
        if threading.get_ident() != self._thread:
            return super().monotonic_ms()
        return self._loop.elapsed_ms

    def boot(self) -> Boot:
        """Return the virtual boot: only `reboot` makes another."""
        return Boot(f"boot-{self._boots}", self._loop.elapsed_ms - self._booted_ms)

    def reboot(self) -> None:
        """Begin another boot of the machine; ending the hosts is for the test to do."""
        self._boots += 1
        self._booted_ms = self._loop.elapsed_ms

    async def sleep(self, seconds: float) -> None:
        """Sleep in virtual time; in another thread, in the machine's."""
        if threading.get_ident() != self._thread:
            await super().sleep(seconds)
        else:
            await self._loop.sleep(seconds)

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock forward or back; no task wakes, and durations stay what they are."""
        self._start_ms += milliseconds

    def new_id(self, kind: str) -> str:
        """Make an id out of the kind, the virtual time and a counter."""
        number = next(self._ids)
        return f"{kind}_{self.now_ms():0{ID_TIME_DIGITS}x}{number:0{ID_COUNT_DIGITS}x}"

    def random_bytes(self, count: int) -> bytes:
        """Throw dice that fall the same way in every run of this seed."""
        made = b""
        while len(made) < count:
            made += sha256(f"{self._seed}:{next(self._throws)}".encode()).digest()
        return made[:count]

    async def call_blocking(self, function: Callable[[], R]) -> R:
        """Run the function here and now, after others had their turn."""
        if threading.get_ident() != self._thread:
            return await super().call_blocking(function)
        self.blocking_calls += 1
        await self.sleep(0)
        return function()

    async def call_leasing(self, function: Callable[[], R]) -> R:
        """Run it as any function that blocks."""
        return await self.call_blocking(function)

    async def compute(self, function: Callable[[], R]) -> R:
        """Run the function here and now, after others had their turn."""
        if threading.get_ident() != self._thread:
            return await super().compute(function)
        await self.sleep(0)
        return function()

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task; a planned crash of it is not reported."""
        task = super().spawn(coroutine, name)
        task.add_done_callback(_look_away)
        return task

    def wrap_sandbox(self, sandbox: Sandbox) -> Sandbox:
        """Let time stand still while a script computes."""
        wrapped = Outstanding(sandbox, self._loop)
        self.sandboxes.append(wrapped)
        return wrapped

    def watch_store(self, store: Store) -> None:
        """Let a test say at which verb of this store the host crashes."""
        self.stores.append(CrashingStore(store, on_crash=self.crash))

    def crash(self) -> None:
        """Let nothing that was opened through this env write any more."""
        for store in self.stores:
            store.kill()
        self.crashed.set()

    async def kill(self) -> None:
        """End what was opened through this env, as the end of a process does.

        What was committed stays, the lock of the file is free again, no worker is left.
        """
        self.crash()
        while tasks := tuple(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for sandbox in self.sandboxes:
            await sandbox.close()
        for store in self.stores:
            await store.close()
        self.sandboxes.clear()
        self.stores.clear()
        self.crashed.clear()


def _look_away(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and isinstance(task.exception(), Crash):
        return
