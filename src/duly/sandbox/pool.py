"""Workers: started when a script needs one, watched while it runs, ended with the pool.

Law 1: one script owns one worker from its beginning to its end; what a worker did for another is
       wiped before, and a worker that was left in the middle of a turn is ended instead (C1, C3).
Law 2: a turn has an end. A worker that computes or lasts too long is ended from outside, and the
       limit it broke is named; one that dies by itself is lost, which is nobody's fault (X2, F1).
Law 3: no process outlives the pool, whatever was cancelled; nothing is started before the first
       script, no signal handler is installed, and nobody else's processes are waited for.
Law 4: a worker whose lock is incomplete takes no work, unless the host was told to accept (X1).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from duly.env import Env
from duly.errors import ConfigError, DulyError
from duly.sandbox import wire

WORKERS_MAX: Final = 64
START_S: Final = 60.0
GRACE_S: Final = 1.0
CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")

# The clock of every script is UTC, whatever the host's zone is; nothing else is told.
ENVIRONMENT: Final = {"TZ": "UTC0"}
PROGRAM: Final = (
    "import sys; sys.path[:0] = sys.argv[2:];"
    " from duly.sandbox.javascript_worker import serve; serve(int(sys.argv[1]))"
)

log = logging.getLogger("duly.sandbox")


class Overrun(DulyError):
    """A worker was ended because its script broke a limit."""


class Worker:
    """One process, its channel, and what it has cost so far."""

    def __init__(self, env: Env) -> None:
        ours, theirs = socket.socketpair()
        try:
            # The worker inherits its end of the channel and nothing else.
            self._process = subprocess.Popen(
                command(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                env=ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._env = env
        self._channel = wire.Channel(ours, asyncio.get_running_loop())
        self._cpu_before_s = 0.0
        self._wall_ms = 0
        self.is_clean = True

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def ready(self) -> wire.Ready:
        """Wait for the worker's first words."""
        try:
            async with asyncio.timeout(START_S):
                return wire.unpack(await self._channel.receive(), wire.Ready)
        except TimeoutError:
            raise wire.Closed(f"A worker said nothing for {START_S:g} s.") from None

    def begin(self) -> None:
        """Begin to count for a new script."""
        self._cpu_before_s = self._cpu_s() or 0.0
        self._wall_ms = 0

    async def ask(self, request: wire.Request, *, cpu_s: float, wall_s: float) -> wire.Turn:
        """Let the script run until it stands still; raise Overrun, Closed or Violation.

        The limits are for the whole script; time between two turns does not count (X2).
        """
        self.is_clean = False
        started_ms = self._env.monotonic_ms() - self._wall_ms
        try:
            body = await self._exchange(wire.pack(request), started_ms, cpu_s, wall_s)
        except Overrun:
            self.kill()
            raise
        self._wall_ms = self._env.monotonic_ms() - started_ms
        turn = wire.unpack(body, wire.Turn)
        self.is_clean = True
        return turn

    async def _exchange(self, body: bytes, started_ms: int, cpu_s: float, wall_s: float) -> bytes:
        wait_s = max(0.0, min(cpu_s, wall_s - self._wall_ms / 1000)) + GRACE_S
        try:
            async with asyncio.timeout(wait_s):
                await self._channel.send(body)
        except TimeoutError:
            raise wire.Closed("A worker does not listen.") from None
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    return await self._channel.receive()
            except TimeoutError:
                self._check((self._env.monotonic_ms() - started_ms) / 1000, cpu_s, wall_s)
                wait_s = GRACE_S

    def _check(self, spent_s: float, cpu_s: float, wall_s: float) -> None:
        if spent_s > wall_s:
            raise Overrun(f"The script ran longer than {wall_s:g} s.")
        used_s = self._cpu_s()
        computed_s = spent_s if used_s is None else used_s - self._cpu_before_s
        if computed_s > cpu_s:
            raise Overrun(f"The script computed longer than {cpu_s:g} s.")

    async def wipe(self) -> None:
        """Let the worker forget its script; it answers nothing."""
        await self._channel.send(wire.pack(wire.Drop()))

    @property
    def is_alive(self) -> bool:
        """Tell whether the process is still there."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process and wait until it is gone, which takes no time.

        Whoever waits for its answer reads the end of the channel; our descriptor stays until
        `release`, since the event loop may still be looking at it.
        """
        self._process.kill()
        self._process.wait()

    def release(self) -> None:
        """Kill the process and give its descriptor back."""
        self.kill()
        self._channel.close()

    def _cpu_s(self) -> float | None:
        """Ask the kernel how long the process has computed; None where the kernel does not say."""
        try:
            told = Path(f"/proc/{self._process.pid}/stat").read_text("ascii")
        except OSError:
            return None
        # The name of the program, in brackets, may hold anything; the numbers follow it.
        numbers = told.rpartition(")")[2].split()
        return (int(numbers[11]) + int(numbers[12])) / CLOCK_TICKS


def command(channel: int) -> list[str]:
    """Write the command of a worker: no site, no user's settings, only the packages it needs."""
    needed = ("duly", "_quickjs", "msgspec")
    places = dict.fromkeys(_place(name) for name in needed)
    return [sys.executable, "-I", "-S", "-c", PROGRAM, str(channel), *places]


def _place(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ConfigError(f"The module {module} is not installed; install duly with all it needs.")
    origin = Path(spec.origin)
    return str(origin.parents[1] if origin.stem == "__init__" else origin.parent)


class Pool:
    """At most so many workers; idle ones are kept, the last used first."""

    def __init__(
        self,
        env: Env,
        *,
        workers_max: int = WORKERS_MAX,
        unlocked: Literal["no", "i-accept"] = "no",
    ) -> None:
        self._env = env
        self._unlocked = unlocked
        self._slots = asyncio.Semaphore(workers_max)
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._is_closed = False
        self._has_warned = False

    async def take(self) -> Worker:
        """Answer a worker nobody else has; wait while all are taken."""
        await self._slots.acquire()
        try:
            worker = self._idle_worker() or await self._start()
        except BaseException:
            self._slots.release()
            raise
        worker.begin()
        return worker

    async def give_back(self, worker: Worker) -> None:
        """Take a worker back: wiped if it stands still, ended if it does not."""
        is_wiped = False
        try:
            if worker.is_clean and not self._is_closed:
                await worker.wipe()
                is_wiped = True
        except wire.Closed:
            pass  # it died while it stood still; the next script gets another
        finally:
            self._slots.release()
            if is_wiped and not self._is_closed:
                self._idle.append(worker)
            else:
                self._end(worker)

    async def close(self) -> None:
        """End every worker; a script that still has one finds it lost."""
        self._is_closed = True
        for worker in tuple(self._all):
            worker.kill()
        for worker in tuple(self._idle):
            self._end(worker)
        self._idle.clear()

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes there are."""
        return tuple(worker.pid for worker in self._all)

    def _idle_worker(self) -> Worker | None:
        if self._is_closed:
            raise DulyError("The sandbox is closed; scripts no longer run.")
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                return worker
            self._end(worker)
        return None

    async def _start(self) -> Worker:
        worker = Worker(self._env)
        self._all.add(worker)
        try:
            self._check_lock(await worker.ready())
        except (wire.Closed, wire.Violation) as error:
            self._end(worker)
            raise DulyError(f"A worker for scripts could not be started: {error}") from None
        except BaseException:
            self._end(worker)
            raise
        return worker

    def _check_lock(self, told: wire.Ready) -> None:
        if not told.missing:
            return
        missing = ", ".join(each[:100] for each in told.missing[:20])
        if self._unlocked != "i-accept":
            raise ConfigError(
                f"This machine cannot lock the processes scripts run in; missing: {missing}. Use a"
                ' machine that can, or set sandbox.unlocked = "i-accept" if you trust every script.'
            )
        if not self._has_warned:
            self._has_warned = True
            log.warning("Scripts run without a complete lock, as accepted; missing: %s", missing)

    def _end(self, worker: Worker) -> None:
        self._all.discard(worker)
        worker.release()
