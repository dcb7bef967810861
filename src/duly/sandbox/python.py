"""Python scripts, in Monty: an interpreter without ambient authority, in locked processes.

Law 1: a script is read once and dumped; every step is a fresh copy of that image (C1). A script
       that looked at the clock or the dice while it was loaded has no image: it is loaded again
       for every step, so that no moment of the deploy stays in it.
Law 2: a call is made when it is called: the interpreter stops there, the host writes it down and
       lets the script go on until it waits. What it says after a call is held back until that
       call is answered, so leaving the script leaves nothing of it (C8).
Law 3: a step that is left while it runs is killed with its process (C3); so is one that lasts or
       computes longer than it may; its interpreter is not believed (watch, X2).

The turns run in threads of our own, since the interpreter's own event loop ends a program that
closes it with SIGABRT one time in three.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from signal import SIGKILL
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from pydantic_monty import (
    ExternalModule,
    MontyCrashedError,
    MontyError,
    MontyTypingError,
    ResourceLimits,
)

from duly.cell.process import Stat
from duly.config import Limits
from duly.env import Env
from duly.errors import DulyError, IllegalTransition, Invalid, NotDeployed, ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.declaration import parse
from duly.rules.source import Source, check_source
from duly.rules.value import Json
from duly.sandbox import python_error
from duly.sandbox.base import (
    MISSING,
    TEXT_AT_ONCE_CHARS,
    Broke,
    Loaded,
    Missing,
    Result,
    Returned,
    Turn,
    World,
)
from duly.sandbox.border import WRAPPING_DEPTH
from duly.sandbox.python_launcher import THREADS_MAX
from duly.sandbox.python_pool import Processes
from duly.sandbox.python_seat import Seat
from duly.sandbox.python_text import (
    PRELUDE,
    FedScript,
    TypeQuestion,
    context_text,
    decode_reading,
    print_text,
    read,
)
from duly.sandbox.python_world import ScriptClock
from duly.sandbox.reaper import IDLE_S
from duly.sandbox.slot import RUNNING_MAX, Slots
from duly.sandbox.study import STUDY_CPU_S, Studies, too_long
from duly.sandbox.study_problem import decode_problem
from duly.sandbox.watch import Limit, ScriptWatch

WORKERS_MAX: Final = 64
KILL_AGAIN_S: Final = 0.05
THREADS_LOOK_S: Final = 0.5
# A script that makes a larger image while it loads is loaded again for every step: the host keeps
# the images of hundreds of versions.
IMAGE_BYTES_MAX: Final = 1024 * 1024
REFUSE: Final = "python refuse"  # the functions that read a text apart
READ: Final = "python text"
START: Final = "await _duly_step(_duly_given[0], _duly_given[1], _duly_given[2])"


class Image(msgspec.Struct, frozen=True):
    """What is kept of a loaded script: the line of each call, and a dump, or the texts instead."""

    lines: dict[str, int]
    dump: bytes = b""
    texts: tuple[str, ...] = ()


class PythonSandbox:
    """Where Python scripts run.

    `names` is the text of the authoring names, `refuse` raises for what the interpreter lacks:
    the room of the scripts' authors knows both.
    """

    def __init__(
        self,
        env: Env,
        limits: Limits,
        *,
        names: str,
        refuse: Callable[[str], None],
        is_unlocked: bool = False,
        workers_max: int = WORKERS_MAX,
        running: Slots | None = None,
        idle_s: float = IDLE_S,
        studies: Studies | None = None,
    ) -> None:
        self._studies = studies
        self.env = env
        self.limits = limits
        self._names = names
        self._refuse = refuse
        # A thread per process, so that leaving one script never waits for another that runs; one
        # more to read a source, and one to give processes up.
        self._threads = ThreadPoolExecutor(workers_max + 2, thread_name_prefix="duly-python")
        self.workers = Slots(workers_max)
        self.running = running or Slots(RUNNING_MAX)
        self.processes = Processes(
            workers_max=workers_max,
            wall_s=limits.step_wall_s,
            is_unlocked=is_unlocked,
            in_thread=self.in_thread,
            idle_s=idle_s,
        )
        self._reading = asyncio.Lock()
        self._open: set[PythonScript] = set()
        self._is_closed = False

    async def load(self, source: Source, catalog: Catalog) -> Loaded:
        """Run the source with no tools, read what it declares and keep its image (W6)."""
        try:
            check_source(source, self.limits)
        except Invalid as error:
            raise ScriptError(str(error)) from None
        reading = await self._read_text(source.text)
        context = context_text(catalog, reading, self.limits.json_depth + WRAPPING_DEPTH)
        texts = (self._names, PRELUDE + print_text(self.limits) + context, reading.text)
        world = World(self.env.now_ms(), frozen=False, seed=0)
        cpu_s, wall_s = self.limits.load_s, self.limits.load_wall_s
        first = Image({}, texts=texts)
        script = PythonScript(self, source.text, first, None, world, cpu_s, wall_s)
        async with script:
            raw, dump, is_dated = await script.read_declaration()
        if len(raw) != 1:
            facts = {"count": len(raw)}
            raise NotDeployed(code="not_one_workflow", subject=source.name, facts=facts)
        declaration = parse(raw[0], self.limits)
        if not is_dated:
            # A dump brings the limits it was made under, and a step has others than a load (X2).
            wall_s = self.limits.step_wall_s
            again = PythonScript(self, source.text, first, None, world, cpu_s, wall_s)
            async with again:
                _, dump, _ = await again.read_declaration()
        lines = dict(reading.lines)
        is_kept = not is_dated and len(dump) <= IMAGE_BYTES_MAX
        image = Image(lines, dump=dump) if is_kept else Image(lines, texts=texts)
        return Loaded(source, declaration, msgspec.msgpack.encode(image))

    def open(
        self,
        loaded: Loaded,
        handler: str,
        step: Step,
        args: tuple[Json | Missing, ...],
        world: World,
    ) -> PythonScript:
        """Make a fresh context for one step."""
        assert loaded.image is not None, "a Python source is opened from what load answered"
        image = msgspec.msgpack.decode(loaded.image, type=Image)
        given = [None if value is MISSING else value for value in args]
        text = msgspec.json.encode(given).decode()
        call = (handler, str(step), text)
        cpu_s, wall_s = self.limits.step_cpu_s, self.limits.step_wall_s
        return PythonScript(self, loaded.source.text, image, call, world, cpu_s, wall_s)

    async def close(self) -> None:
        """Leave every script and end every worker."""
        self._is_closed = True
        for script in tuple(self._open):
            await script.leave()
        await self.processes.close()
        self._threads.shutdown(wait=True)

    def enter(self, script: PythonScript) -> None:
        """Take a script in."""
        self._check_open()
        self.processes.enter()
        self._open.add(script)

    def forget(self, script: PythonScript) -> None:
        """Let a script go."""
        self.processes.leave()
        self._open.discard(script)

    def in_thread(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run a function that waits for a worker."""
        return asyncio.get_running_loop().run_in_executor(self._threads, function)

    def _check_open(self) -> None:
        if self._is_closed:
            raise DulyError(code="sandbox_closed")

    async def _read_text(self, text: str) -> FedScript:
        """Read a text apart where there is a way (W6), else here; a long one in a thread."""
        self._check_open()
        if self._studies is not None:
            wrong = decode_problem(await self._studies.ask(REFUSE, text.encode()))
            if wrong is not None:
                raise wrong
            return decode_reading(await self._studies.ask(READ, text.encode()))
        if len(text) <= TEXT_AT_ONCE_CHARS:
            return self._read(text)
        async with self._reading:
            self._check_open()
            reading: FedScript = await self.in_thread(lambda: self._read(text))
            return reading

    async def type_check(self, question: TypeQuestion) -> str | None:
        """Ask the type checker, in a locked process; None if it cannot read the text (X2)."""
        world = World(self.env.now_ms(), frozen=True, seed=0)
        wall_s = self.limits.load_wall_s
        script = PythonScript(self, question.text, Image({}), None, world, STUDY_CPU_S, wall_s)
        async with script:
            return await script.type_check(question)

    def _read(self, text: str) -> FedScript:
        self._refuse(text)
        return read(text)


class PythonScript:
    """One step in one worker, from its first line to its end."""

    def __init__(
        self,
        sandbox: PythonSandbox,
        workflow: str,
        image: Image,
        call: tuple[str, str, str] | None,
        world: World,
        cpu_s: float,
        wall_s: float,
    ) -> None:
        self._sandbox = sandbox
        self._workflow = workflow
        self._image = image
        self._call = call
        self._watch = ScriptWatch(cpu_s, wall_s)
        self._clock = ScriptClock(world, sandbox.env, wall_s)
        self._seat = Seat(self._clock, image.lines, sandbox.limits)
        self._session: Any = None
        self._pid: int | None = None
        self._stat: Stat | None = None
        self._cpu_before_s = 0.0
        self._since_ms = 0
        self._looking: asyncio.TimerHandle | None = None
        self._counting: asyncio.TimerHandle | None = None
        self._broken: Limit | None = None
        self._dump = b""
        self._busy: asyncio.Future[Any] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._is_entered = False
        self._is_started = False
        self._is_left = False

    async def __aenter__(self) -> Self:
        """Wait for a place to run in."""
        await self._sandbox.workers.take(self._workflow)
        try:
            self._sandbox.enter(self)
        except BaseException:
            self._sandbox.workers.give_back()
            raise
        self._is_entered = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drop the context for good."""
        await self.leave()

    async def start(self) -> Turn:
        """Call the step and run until it asks, returns or breaks."""
        if self._is_started:
            raise IllegalTransition("The script was started before.")
        self._is_started = True
        return await self._turn(self._begin)

    async def answer(self, call_id: int, value: Result) -> Turn:
        """Give one call its result and go on."""
        return await self._turn(lambda: self._seat.answer(call_id, value))

    def waiting_outside(self) -> AbstractContextManager[None]:
        """Mark the time in which a call is outside; every script has a process of its own here."""
        return nullcontext()

    async def leave(self) -> None:
        """Kill what runs, give the worker back; twice is once.

        A caller that is cancelled here leaves all the same: another task ends the worker (C3).
        """
        self._is_left = True
        if not self._is_entered:
            return
        if self._leaving is None:
            self._seat.is_left = True
            self._leaving = asyncio.get_running_loop().create_task(self._drop())
        await asyncio.shield(self._leaving)

    async def _drop(self) -> None:
        try:
            while self._busy is not None and not self._busy.done():
                self._kill()
                await asyncio.wait([self._busy], timeout=KILL_AGAIN_S)
            if self._session is not None:
                session, self._session = self._session, None
                with suppress(MontyError):
                    # A script that came to its end takes no time to leave; another one may.
                    if isinstance(self._seat.end, Returned):
                        session.__exit__(None, None, None)
                    else:
                        await self._sandbox.in_thread(lambda: session.__exit__(None, None, None))
        finally:
            if self._stat is not None:
                self._stat.close()
            self._sandbox.forget(self)
            self._sandbox.workers.give_back()

    async def type_check(self, question: TypeQuestion) -> str | None:
        """Let the type checker read a text; nothing of it runs."""
        said: list[str | None] = []
        turn = await self._turn(lambda: said.append(self._ask_types(question)))
        if said:
            return said[0]
        assert isinstance(turn, Broke), turn
        if self._broken is not None:
            wall_s = self._watch.wall_s
            raise ScriptError(too_long(self._broken, wall_s, self._watch.cpu_s))
        raise ScriptError(code="reader_died", is_lost=True) if turn.is_lost else turn.error

    def _ask_types(self, question: TypeQuestion) -> str | None:
        self._take_worker(
            type_check=True,
            type_check_stubs=question.stubs,
            type_check_format="json",
            external_modules={"duly": ExternalModule({}, stubs=question.module)},
        )
        try:
            self._session.feed_run(question.text)
        except MontyTypingError as error:
            return error.display()
        except MontyCrashedError:
            raise
        except MontyError:
            return None
        raise AssertionError("The first line is refused, so the text cannot have run.")

    async def read_declaration(self) -> tuple[list[Json], bytes, bool]:
        """Load the texts, and answer what they declare, their dump, and if they saw the clock."""
        turn = await self._turn(self._declare)
        if isinstance(turn, Broke):
            raise turn.error
        assert isinstance(turn, Returned) and isinstance(turn.value, list), turn
        return turn.value, self._dump, self._clock.is_asked

    async def _turn(self, function: Callable[[], None]) -> Turn:
        if self._is_left:
            return Broke(ScriptError(code="step_left", is_lost=True), is_lost=True)
        if not self._is_entered:
            raise IllegalTransition("A script runs only between entering and leaving it.")
        try:
            async with self._sandbox.running.held(self._workflow):
                # A sandbox that closes takes the worker from under its script, also from one that
                # waits for its turn: a temporary failure (F1).
                if self._is_left:
                    raise ScriptError(code="step_left", is_lost=True)
                await self._run_watched(function)
        except MontyError as error:
            broken = python_error.explain(
                error, self._sandbox.limits, self._watch, self._computed_s()
            )
            self._seat.end = Broke(broken, is_lost=broken.is_lost)
        except ScriptError as error:
            self._seat.end = Broke(error, is_lost=error.is_lost)
        return self._seat.turn()

    def _run(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run in a thread; a caller that is cancelled leaves, and leaving ends the thread."""
        self._busy = self._sandbox.in_thread(function)
        self._busy.add_done_callback(lambda busy: busy.cancelled() or busy.exception())
        return self._busy

    async def _run_watched(self, function: Callable[[], None]) -> None:
        """Run in a thread, and end the process of a script that goes on for too long (X2)."""
        loop = asyncio.get_running_loop()
        self._since_ms = self._sandbox.env.monotonic_ms()
        self._looking = loop.call_later(self._watch.begin_turn(), self._look)
        self._counting = loop.call_later(THREADS_LOOK_S, self._count_threads)
        try:
            await asyncio.shield(self._run(function))
        except MontyError:
            if self._broken is None:
                raise
        finally:
            self._looking.cancel()
            self._counting.cancel()
            self._count()
        if self._broken is not None:
            raise ScriptError(python_error.overrun(self._broken, self._watch))

    def _look(self) -> None:
        """Judge a script that still runs; one whose worker is being started has no time yet."""
        if self._pid is not None and self._count():
            self._broken = self._watch.judge(self._computed_s())
        if self._broken is not None:
            self._kill()
            return
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(self._watch.wait_again(), self._look)

    def _count_threads(self) -> None:
        """End a process with more threads than the interpreter has: it runs something else."""
        if self._stat is not None and (self._stat.threads() or 0) > THREADS_MAX:
            self._broken = Limit.THREADS
            self._kill()
            return
        loop = asyncio.get_running_loop()
        self._counting = loop.call_later(THREADS_LOOK_S, self._count_threads)

    def _count(self) -> bool:
        """Count the time since the last look; tell whether the host was awake."""
        from_ms, self._since_ms = self._since_ms, self._sandbox.env.monotonic_ms()
        return self._watch.add((self._since_ms - from_ms) / 1000)

    def _kill(self) -> None:
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, SIGKILL)

    def _computed_s(self) -> float | None:
        used_s = None if self._stat is None else self._stat.cpu_s()
        return None if used_s is None else used_s - self._cpu_before_s

    def _take_worker(self, **options: Any) -> None:
        limits: ResourceLimits = {
            # The interpreter counts wall time: on a busy machine a script that computes little
            # lasts long. The host reads how long the process has computed (_look).
            "max_feed_duration_secs": self._watch.wall_s,
            "max_memory": self._sandbox.limits.step_memory_bytes,
            "max_recursion_depth": python_error.RECURSION_MAX,
            "max_suspensions": python_error.SUSPENSIONS_MAX,
        }
        try:
            self._session = self._sandbox.processes.take(limits, **options)
        except MontyCrashedError as error:
            if error.timed_out:  # nothing of the script ran yet, so it broke no limit (F1)
                raise ScriptError(code="worker_late", is_lost=True) from None
            raise
        self._stat = Stat(self._session.worker_pid)
        self._cpu_before_s = self._stat.cpu_s() or 0.0
        self._since_ms = self._sandbox.env.monotonic_ms()
        # Its time begins now: the watch looks at a script only when its pid is set.
        self._pid = self._session.worker_pid

    def _load(self) -> None:
        self._take_worker()
        if self._image.texts:
            for text in self._image.texts:
                self._seat.drive(partial(self._feed, text))
        else:
            self._session.load_session(self._image.dump)

    def _begin(self) -> None:
        self._load()
        self._seat.is_called = True
        self._seat.drive(lambda: self._feed(START, {"_duly_given": self._call}))

    def _declare(self) -> None:
        self._load()
        self._seat.drive(lambda: self._feed("_duly_declare()"))
        self._seat.finish()
        if not self._clock.is_asked:
            self._dump = self._session.dump()

    def _feed(self, text: str, inputs: dict[str, Any] | None = None) -> Any:
        return self._session.feed_start(text, inputs=inputs, print_callback=self._seat.hear)
