"""Workers: started when a script needs one, watched while it runs, ended with the pool.

Law 1: one script owns one worker from its beginning to its end; what a worker did for another is
       wiped before, and a worker that was left in the middle of a turn is ended instead (C1, C3).
Law 2: a turn has an end. A worker that computes or lasts too long is ended from outside (watch),
       and the limit it broke is named; one that dies by itself is lost, which is a temporary
       failure (X2, F1).
Law 3: no process outlives the pool, even if its callers were cancelled. Nothing is started before
       the first script, no signal handler is installed, and only the pool's own processes are
       waited for. A forked child leaves the workers to its parent (H1).
Law 4: workers come by need. A script begins with a place, of which there are as many as scripts
       may run at once (slot); workflows take turns for them. A script that has waited for a result
       for a while gives its place up and keeps its worker, so a slow call keeps no other
       script from beginning. Past `workers_max` a script waits to begin (X2).
Law 5: a worker whose lock is incomplete takes no work, unless the host was told to accept (X1).
Law 6: the event loop waits for no process: to be gone takes one as long as the machine likes, so
       that is waited for in a thread. To start one takes the loop 3 ms, which no thread can spare
       it: the kernel stops the whole interpreter meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from duly import fork
from duly.cell.process import Stat
from duly.env import Env
from duly.errors import ConfigError, DulyError, short
from duly.sandbox import wire
from duly.sandbox.reaper import IDLE_S, Reaper
from duly.sandbox.slot import RUNNING_MAX, ScriptPlace, Slots
from duly.sandbox.watch import GRACE_S, Limit, ScriptWatch

R = TypeVar("R")

WORKERS_MAX: Final = 64
START_S: Final = 60.0
THREADS_MAX: Final = 4
# While a script waits for a place, the pool looks so often at those that have one.
LOOK_S: Final = 0.005
# Starting a process blocks its thread until it is there; many at once would stop the host (X2).
STARTING_MAX: Final = 2

# The clock of every script is UTC, in every zone of the host; a worker gets no other variable.
ENVIRONMENT: Final = {"TZ": "UTC0"}
PROGRAM: Final = (
    "import sys; sys.path[:0] = sys.argv[2:];"
    " from duly.sandbox.javascript_worker import serve; serve(int(sys.argv[1]))"
)

DROP: Final = wire.pack(wire.Drop())
WORD: Final = "word:"  # what begins so is no place of a package

BROKEN: Final = {
    Limit.CPU: "The script computed longer than {0.cpu_s:g} s.",
    Limit.WALL: "The script ran longer than {0.wall_s:g} s.",
}

log = logging.getLogger("duly.sandbox")


class Overrun(DulyError):
    """A worker was ended because its script broke a limit."""

    def __init__(self, message: str, limit: Limit) -> None:
        super().__init__(message)
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Program:
    """What a worker runs: a text, the packages it needs, and further words for it."""

    text: str
    needs: tuple[str, ...]
    words: tuple[str, ...] = ()


class Worker:
    """One process, its channel, and what it has cost so far."""

    def __init__(self, env: Env, program: Program | None = None) -> None:
        ours, theirs = socket.socketpair()
        try:
            # The worker inherits its end of the channel and nothing else.
            self._process = subprocess.Popen(
                command(theirs.fileno(), program),
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
        self._channel = self._open(ours)
        self._stat = Stat(self._process.pid)
        self._cpu_before_s = 0.0
        self._watch: ScriptWatch | None = None
        self.is_clean = True
        self.idle_since_ms = 0
        self.place = ScriptPlace("", is_held=False)

    def _open(self, end: socket.socket) -> wire.Channel:
        return wire.Channel(end, asyncio.get_running_loop())

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def ready(self) -> wire.Ready:
        """Wait for the worker's first words."""
        said = await self._channel.receive(START_S)
        if said is None:
            raise wire.Closed(f"A worker said nothing for {START_S:g} s.")
        return wire.unpack(said, wire.Ready)

    def begin(self, workflow: str) -> None:
        """Begin to count for a new script of this workflow, which takes a place."""
        self._cpu_before_s = self._stat.cpu_s() or 0.0
        self._watch = None
        self.place = ScriptPlace(workflow)

    async def ask(
        self, request: wire.Request | wire.Study, *, cpu_s: float, wall_s: float
    ) -> bytes:
        """Let the script run until it stands still; raise Overrun, Closed or Violation.

        The limits are for the whole script; time between two turns does not count (X2). Until the
        caller has checked the answer the worker is not clean.
        """
        self.is_clean = False
        self._watch = self._watch or ScriptWatch(cpu_s, wall_s)
        try:
            return await self._exchange(wire.pack(request), self._watch)
        except Overrun:
            self.kill()
            raise

    async def _exchange(self, body: bytes, watch: ScriptWatch) -> bytes:
        asked_ms = self._env.monotonic_ms()
        wait_s = watch.begin_turn()
        await self._say(body, wait_s)
        while True:
            answer = await self._answer(wait_s)
            waited_ms = self._env.monotonic_ms() - asked_ms
            is_awake = watch.add(waited_ms / 1000)
            if answer is not None:
                return answer
            if is_awake and (broken := watch.judge(self._computed_s())) is not None:
                raise Overrun(BROKEN[broken].format(watch), broken)
            asked_ms, wait_s = asked_ms + waited_ms, watch.wait_again()

    def _computed_s(self) -> float | None:
        used_s = self._stat.cpu_s()
        return None if used_s is None else used_s - self._cpu_before_s

    async def _say(self, body: bytes, wait_s: float) -> None:
        if rest := self._channel.send_now(body):
            try:
                async with asyncio.timeout(wait_s):
                    await self._channel.send_rest(rest)
            except TimeoutError:
                raise wire.Closed("A worker does not listen.") from None

    async def _answer(self, wait_s: float) -> bytes | None:
        return await self._channel.receive(wait_s)

    async def wipe(self) -> None:
        """Let the worker forget its script; it answers nothing."""
        await self._say(DROP, GRACE_S)

    @property
    def is_alive(self) -> bool:
        """Tell whether the process is still there."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Tell the process to end; a task that waits for its answer reads the end of the channel.

        Our descriptors stay until `release`, since the event loop may still be looking at them.
        """
        self._process.kill()

    def release(self) -> None:
        """Tell the process to end and give its descriptors back."""
        self.kill()
        self._channel.close()
        self._stat.close()

    def wait(self) -> None:
        """Wait, in a thread, until the process is gone."""
        self._process.wait()

    def abandon(self) -> None:
        """Close this end in a forked child, so that a worker sees when the parent is gone."""
        self._channel.abandon()
        self._stat.close()


def command(channel: int, program: Program | None = None) -> list[str]:
    """Write the command of a worker: no site, no user's settings, only the packages it needs."""
    program = program or Program(PROGRAM, ("duly", "_quickjs", "msgspec"))
    places = dict.fromkeys(_place(name) for name in program.needs)
    words = [f"{WORD}{each}" for each in program.words]
    return [sys.executable, "-I", "-S", "-c", program.text, str(channel), *places, *words]


def _place(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ConfigError(code="module_not_installed", subject=module)
    origin = Path(spec.origin)
    return str(origin.parents[1] if origin.stem == "__init__" else origin.parent)


class Pool:
    """At most so many workers; of the idle ones the next script gets the one used last."""

    def __init__(
        self,
        env: Env,
        *,
        workers_max: int = WORKERS_MAX,
        running: Slots | None = None,
        idle_s: float = IDLE_S,
        unlocked: Literal["no", "i-accept"] = "no",
        program: Program | None = None,
        worker: Callable[[Env], Worker] | None = None,
    ) -> None:
        self._make = worker or partial(Worker, program=program)
        self.running = running or Slots(RUNNING_MAX)
        self._env = env
        self._unlocked = unlocked
        self._places = Slots(min(RUNNING_MAX, workers_max))
        self._slots = Slots(workers_max)
        self._idle_ms = idle_s * 1000
        self._reaper = Reaper(idle_s, self._reap)
        self._looking: asyncio.TimerHandle | None = None
        self._starting = 0
        self.starts = 0  # processes since the pool was made
        self._moved = asyncio.Event()  # set for a moment: a worker is idle, or one fewer starts
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="duly-javascript")
        self._beside: set[Future[Any]] = set()  # what runs in threads
        self._idle: deque[Worker] = deque()  # the longest idle first
        self._all: set[Worker] = set()
        self._is_closed = False
        self._has_warned = False
        fork.own(self)

    def abandon(self) -> None:
        """Leave the workers to the parent, in a forked child: neither end nor hear them (H1)."""
        self._is_closed = True
        for worker in self._all:
            worker.abandon()

    async def take(self, workflow: str = "") -> Worker:
        """Return a worker that no other script has; wait for a place, and while all are taken."""
        if self._places.free == 0:
            self._look_later()
        await self._places.take(workflow)
        try:
            worker = await self._take_worker(workflow)
        except BaseException:
            self._places.give_back()
            raise
        worker.begin(workflow)
        return worker

    async def _take_worker(self, workflow: str) -> Worker:
        await self._slots.take(workflow)
        try:
            return await self._start_in_turn()
        except BaseException:
            self._slots.give_back()
            raise

    async def ask(
        self, worker: Worker, request: wire.Request | wire.Study, *, cpu_s: float, wall_s: float
    ) -> bytes:
        """Let the script of a worker run, in its turn, until it stands still (see `Worker.ask`)."""
        return await self.turn(worker, partial(worker.ask, request, cpu_s=cpu_s, wall_s=wall_s))

    async def turn(self, worker: Worker, drive: Callable[[], Awaitable[R]]) -> R:
        """Hold a slot to run for one turn: a script that waits for a result does not run (X2)."""
        place = worker.place
        place.is_still = False
        try:
            if not self.running.take_now():
                await self.running.take(place.workflow)
            try:
                return await drive()
            finally:
                self.running.give_back()
        finally:
            place.is_still, place.looks = True, 0

    def _look_later(self) -> None:
        """Look for a place in a while; no timer is set while no script waits for one (S9)."""
        if self._looking is None and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._looking = loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Take the places of the scripts that have waited for long."""
        self._looking = None
        for worker in self._all:
            if worker.place.look():
                self._free(worker.place)
        if self._places.is_wanted:
            self._look_later()

    def _free(self, place: ScriptPlace) -> None:
        """Let another script have the place; twice is once."""
        if place.is_held:
            place.is_held = False
            self._places.give_back()

    async def give_back(self, worker: Worker) -> None:
        """Take a worker back: wiped if it stands still, ended if it does not."""
        ending: Future[None] | None = None
        is_wiped = False
        try:
            if worker.is_clean and not self._is_closed:
                await worker.wipe()
                is_wiped = True
        except (wire.Closed, wire.Violation):
            pass  # it died, or spoke, while it stood still; the next script gets another
        finally:
            self._free(worker.place)
            self._slots.give_back()
            if is_wiped and not self._is_closed:
                worker.idle_since_ms = self._env.monotonic_ms()
                self._idle.append(worker)
                self._reaper.come_later()
                self._wake()
            else:
                ending = self._end(worker)
        if ending is not None:
            # A caller that is cancelled here waits no longer; a thread still sees the process end.
            await asyncio.shield(asyncio.wrap_future(ending))

    async def close(self) -> None:
        """End every worker; a script that has one finds it lost, one that waits does not get it."""
        self._is_closed = True
        self._places.close()
        self._slots.close()
        self._wake()
        self._reaper.stay_away()
        if self._looking is not None:
            self._looking.cancel()
        for worker in self._all:
            worker.kill()
            self._bury(worker)
        for worker in self._idle:
            self._end(worker)
        self._idle.clear()
        beside = [asyncio.wrap_future(each) for each in tuple(self._beside)]
        await asyncio.shield(asyncio.gather(*beside, return_exceptions=True))
        self._threads.shutdown()

    async def apart(self, function: Callable[[], R]) -> R:
        """Run in a thread what would hold the host up for too long (X2)."""
        if self._is_closed:
            return function()
        return await asyncio.wrap_future(self._submit(function))

    def _submit(self, function: Callable[[], R]) -> Future[R]:
        submitted = self._threads.submit(function)
        self._beside.add(submitted)
        submitted.add_done_callback(self._beside.discard)
        return submitted

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes there are."""
        return tuple(worker.pid for worker in self._all)

    def check_open(self) -> None:
        """Refuse what comes after the end."""
        if self._is_closed:
            raise DulyError(code="sandbox_closed")

    def _idle_worker(self) -> Worker | None:
        self.check_open()
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                return worker
            self._end(worker)
        return None

    def _reap(self) -> bool:
        """End the workers that were idle for long; tell whether idle ones are left."""
        oldest_ms = self._env.monotonic_ms() - self._idle_ms
        while self._idle and self._idle[0].idle_since_ms <= oldest_ms:
            self._end(self._idle.popleft())
        return bool(self._idle)

    async def _start_in_turn(self) -> Worker:
        """Return an idle worker as soon as there is one, or start one when few others start."""
        while (idle := self._idle_worker()) is None and self._starting >= STARTING_MAX:
            await self._moved.wait()
        if idle is not None:
            return idle
        self._starting += 1
        try:
            return await self._start()
        finally:
            self._starting -= 1
            self._wake()

    def _wake(self) -> None:
        """Wake the tasks that wait to start a worker, in their order."""
        self._moved.set()
        self._moved.clear()

    async def _start(self) -> Worker:
        worker = self._make(self._env)
        self.starts += 1
        self._all.add(worker)
        try:
            self._check_lock(await worker.ready())
        except (wire.Closed, wire.Violation) as error:
            self._end(worker)
            raise DulyError(code="no_worker", facts={"cause": str(error)}) from None
        except BaseException:
            self._end(worker)
            raise
        return worker

    def _check_lock(self, told: wire.Ready) -> None:
        if not told.missing:
            return
        missing = [short(each) for each in told.missing[:20]]
        if self._unlocked != "i-accept":
            raise ConfigError(code="not_locked", facts={"task": "run", "missing": missing})
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "Scripts run without a complete lock, as accepted; missing: %s", ", ".join(missing)
            )

    def _end(self, worker: Worker) -> Future[None] | None:
        """Let a worker go; return the future of its end, or None if it has ended."""
        self._all.discard(worker)
        worker.release()
        return self._bury(worker)

    def _bury(self, worker: Worker) -> Future[None] | None:
        if not worker.is_alive:
            return None
        return self._submit(worker.wait)
