"""What a crowd of hostile scripts costs its host and its workers, on however busy a machine.

Law: what a test judges is processor time: of the loop's thread in one callback, and of a worker for
one script. Both say the same on a machine that is busy with something else. How long the loop did
not turn by the wall clock is told, never judged: see `python -m bench.sandbox_corpus`.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from duly.cell.process import Stat
from duly.sandbox.pool import Pool, Worker

BEAT_S = 0.005
BEATS_PER_LOOK = 10
NAME_CHARS = 200


@dataclass(slots=True)
class Meter:
    """The longest gap of the loop, its dearest callback, and what each script has computed."""

    gap_ms: float = 0.0
    callback_cpu_ms: float = 0.0
    callback: str = ""
    computed_s: dict[str, float] = field(default_factory=dict)
    _watched: dict[int, tuple[str, Stat, float]] = field(default_factory=dict)

    def begin(self, workflow: str, pid: int | None) -> None:
        """Count what this process computes from now on for this workflow."""
        if pid is not None:
            stat = Stat(pid)
            self._watched[pid] = (workflow, stat, stat.cpu_s() or 0.0)

    def look(self) -> None:
        """Look at every process; one that is gone keeps what was seen last."""
        for workflow, stat, before_s in tuple(self._watched.values()):
            if (used_s := stat.cpu_s()) is not None:
                most_s = self.computed_s.get(workflow, 0.0)
                self.computed_s[workflow] = max(most_s, used_s - before_s)

    def end(self, pid: int | None) -> None:
        """Look once more, and count no further."""
        self.look()
        if pid in self._watched:
            self._watched.pop(pid)[1].close()

    async def beat(self) -> None:
        """Turn with the loop, for ever."""
        while True:
            for _ in range(BEATS_PER_LOOK):
                from_s = time.monotonic()
                await asyncio.sleep(BEAT_S)
                self.gap_ms = max(self.gap_ms, (time.monotonic() - from_s - BEAT_S) * 1000)
            self.look()

    def add_callback(self, handle: asyncio.Handle, cpu_ms: float) -> None:
        """Keep the dearest."""
        if cpu_ms > self.callback_cpu_ms:
            self.callback_cpu_ms, self.callback = cpu_ms, repr(handle)[:NAME_CHARS]


def _hook_workers(patch: pytest.MonkeyPatch, meter: Meter) -> None:
    take, give_back = Pool.take, Pool.give_back

    async def taken(pool: Pool, workflow: str = "") -> Worker:
        worker = await take(pool, workflow)
        meter.begin(workflow, worker.pid)
        return worker

    async def given_back(pool: Pool, worker: Worker) -> None:
        meter.end(worker.pid)
        await give_back(pool, worker)

    patch.setattr(Pool, "take", taken)
    patch.setattr(Pool, "give_back", given_back)


def _hook_callbacks(patch: pytest.MonkeyPatch, meter: Meter) -> None:
    run = asyncio.Handle._run

    def run_metered(handle: asyncio.Handle) -> None:
        from_s = time.thread_time()
        run(handle)
        meter.add_callback(handle, (time.thread_time() - from_s) * 1000)

    patch.setattr(asyncio.Handle, "_run", run_metered)


@asynccontextmanager
async def metering() -> AsyncIterator[Meter]:
    """Measure all that happens meanwhile."""
    meter = Meter()
    # What thousands of tests before have left behind is not what a host walks through.
    gc.collect()
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        _hook_workers(patch, meter)
        _hook_callbacks(patch, meter)
        beating = asyncio.ensure_future(meter.beat())
        try:
            yield meter
        finally:
            beating.cancel()
            gc.unfreeze()
