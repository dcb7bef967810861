"""Workers: started when a script needs one, watched while it runs, ended with the pool.

Law 1: one script owns one worker from its beginning to its end; what a worker did for another is
       wiped before, and a worker that was left in the middle of a turn is ended instead (C1, C3).
Law 2: a turn has an end. A worker that computes or lasts too long is ended from outside, and the
       limit it broke is named; one that dies by itself is lost, which is nobody's fault (X2, F1).
Law 3: no process outlives the pool, whatever was cancelled; nothing is started before the first
       script, no signal handler is installed, and nobody else's processes are waited for.
Law 4: whoever waits for an answer holds no slot to run; workflows take turns (slot). Past
       `workers_max` a script waits to begin, and whoever asked for it waits with it.
Law 5: a worker whose lock is incomplete takes no work, unless the host was told to accept (X1).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from duly.env import Env
from duly.errors import ConfigError, DulyError
from duly.sandbox import wire
from duly.sandbox.slot import Slots

WORKERS_MAX: Final = 64
START_S: Final = 60.0
GRACE_S: Final = 1.0
CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")
STAT_BYTES: Final = 4096
WORKERS_WARM: Final = 2
RUNNING_MAX: Final = 2 * (os.cpu_count() or 1)
IDLE_S: Final = 60.0
# Whoever starts a process stands still until it is there; many at once would stop the host (X2).
STARTING_MAX: Final = 2

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
        self._stat = _open_stat(self._process.pid)
        self._cpu_before_s = 0.0
        self._wall_ms = 0
        self.is_clean = True
        self.idle_since_ms = 0

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

    async def ask(self, request: wire.Request, *, cpu_s: float, wall_s: float) -> bytes:
        """Let the script run until it stands still; raise Overrun, Closed or Violation.

        The limits are for the whole script; time between two turns does not count (X2). Until
        somebody has believed the answer the worker is not clean.
        """
        self.is_clean = False
        try:
            return await self._exchange(wire.pack(request), cpu_s, wall_s)
        except Overrun:
            self.kill()
            raise

    async def _exchange(self, body: bytes, cpu_s: float, wall_s: float) -> bytes:
        asked_ms = self._env.monotonic_ms()
        wait_s = max(0.0, min(cpu_s, wall_s - self._wall_ms / 1000)) + GRACE_S
        if rest := self._channel.send_now(body):
            try:
                async with asyncio.timeout(wait_s):
                    await self._channel.send_rest(rest)
            except TimeoutError:
                raise wire.Closed("A worker does not listen.") from None
        while True:
            answer = await self._answer(wait_s)
            waited_ms = self._env.monotonic_ms() - asked_ms
            most_ms = int((wait_s + GRACE_S) * 1000)
            self._wall_ms += min(waited_ms, most_ms)
            if answer is not None:
                return answer
            # A host that stood still blames nobody: first it reads what came meanwhile (X2).
            if waited_ms <= most_ms:
                self._check(self._wall_ms / 1000, cpu_s, wall_s)
            asked_ms, wait_s = asked_ms + waited_ms, GRACE_S

    async def _answer(self, wait_s: float) -> bytes | None:
        try:
            async with asyncio.timeout(wait_s):
                return await self._channel.receive()
        except TimeoutError:
            return None

    def _check(self, spent_s: float, cpu_s: float, wall_s: float) -> None:
        if spent_s > wall_s:
            raise Overrun(f"The script ran longer than {wall_s:g} s.")
        used_s = self._cpu_s()
        computed_s = spent_s if used_s is None else used_s - self._cpu_before_s
        if computed_s > cpu_s:
            raise Overrun(f"The script computed longer than {cpu_s:g} s.")

    async def wipe(self) -> None:
        """Let the worker forget its script; it answers nothing."""
        try:
            async with asyncio.timeout(GRACE_S):
                await self._channel.send(wire.pack(wire.Drop()))
        except TimeoutError:
            raise wire.Closed("A worker does not listen.") from None

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
        """Kill the process and give its descriptors back."""
        self.kill()
        self._channel.close()
        if self._stat is not None:
            os.close(self._stat)
            self._stat = None

    def _cpu_s(self) -> float | None:
        """Ask the kernel how long the process has computed; None where the kernel does not say."""
        if self._stat is None:
            return None
        try:
            told = os.pread(self._stat, STAT_BYTES, 0)
        except OSError:
            return None
        # The name of the program, in brackets, may hold anything; the numbers follow it.
        numbers = told.rpartition(b")")[2].split()
        return (int(numbers[11]) + int(numbers[12])) / CLOCK_TICKS


def _open_stat(pid: int) -> int | None:
    """Open what the kernel tells of a process; None where it tells nothing."""
    try:
        return os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


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
    """At most so many workers; idle ones are kept, the longest idle first.

    A worker makes its next context when it was given back, so two take turns even where one would
    do: a script that follows another at once finds a context that is ready.
    """

    def __init__(
        self,
        env: Env,
        *,
        workers_max: int = WORKERS_MAX,
        workers_warm: int = WORKERS_WARM,
        running_max: int = RUNNING_MAX,
        idle_s: float = IDLE_S,
        unlocked: Literal["no", "i-accept"] = "no",
    ) -> None:
        self.running = Slots(running_max)
        self._env = env
        self._unlocked = unlocked
        self._slots = Slots(workers_max)
        self._idle_s = idle_s
        self._starting = asyncio.Semaphore(STARTING_MAX)
        self._reaping: asyncio.TimerHandle | None = None
        self._warm = min(workers_warm, workers_max)
        self._idle: deque[Worker] = deque()
        self._all: set[Worker] = set()
        self._is_closed = False
        self._has_warned = False

    async def take(self, workflow: str = "") -> Worker:
        """Answer a worker nobody else has; wait while all are taken."""
        await self._slots.take(workflow)
        try:
            worker = self._idle_worker() or await self._start_in_turn()
        except BaseException:
            self._slots.give_back()
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
        except (wire.Closed, wire.Violation):
            pass  # it died, or spoke, while it stood still; the next script gets another
        finally:
            self._slots.give_back()
            if is_wiped and not self._is_closed:
                worker.idle_since_ms = self._env.monotonic_ms()
                self._idle.append(worker)
                self._reap_later()
            else:
                self._end(worker)

    async def close(self) -> None:
        """End every worker; a script that still has one finds it lost."""
        self._is_closed = True
        if self._reaping is not None:
            self._reaping.cancel()
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
        while self._idle and len(self._all) >= self._warm:
            worker = self._idle.popleft()
            if worker.is_alive:
                return worker
            self._end(worker)
        return None

    def _reap_later(self) -> None:
        if self._reaping is None:
            loop = asyncio.get_running_loop()
            self._reaping = loop.call_later(self._idle_s, self._reap)

    def _reap(self) -> None:
        """End who was idle for long: a host that has nothing to run keeps no processes (S9)."""
        self._reaping = None
        oldest_ms = self._env.monotonic_ms() - self._idle_s * 1000
        while self._idle and self._idle[0].idle_since_ms <= oldest_ms:
            self._end(self._idle.popleft())
        if self._idle:
            self._reap_later()

    async def _start_in_turn(self) -> Worker:
        async with self._starting:
            # Somebody may have given one back meanwhile.
            return self._idle_worker() or await self._start()

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
