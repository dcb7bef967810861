"""Python scripts, in Monty: an interpreter without ambient authority, in locked processes.

Law 1: a script is read once and dumped; every step is a fresh copy of that image (C1). A script
       that looked at the clock or the dice while it was loaded has no image: it is loaded again
       for every step, so that no moment of the deploy stays in it.
Law 2: a call is made when it is called: the interpreter stops there, the host writes it down and
       lets the script go on until it waits. What it says after a call is held back until that
       call is answered, so leaving the script leaves nothing of it (C8).
Law 3: a step that is left while it runs is killed with its process (C3); so is one that lasts or
       computes longer than it may; its interpreter is not believed (watch, X2).

The host speaks with the interpreter's process from the event loop (python_process); the processes
are started, kept and ended by the same pool as JavaScript's workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import Final, Self

import msgspec

from duly.config import Limits
from duly.env import Env
from duly.errors import IllegalTransition, Invalid, NotDeployed, ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.declaration import parse
from duly.rules.source import Source, check_source
from duly.rules.value import Json
from duly.sandbox import python_error, python_wire, wire
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
from duly.sandbox.pool import Overrun, Pool, Worker
from duly.sandbox.python_process import PythonWorker, Serve
from duly.sandbox.python_seat import MORE, Seat, TypeSeat
from duly.sandbox.python_text import (
    DECLARE,
    PRELUDE,
    FedScript,
    TypeQuestion,
    context_text,
    decode_reading,
    print_text,
    read,
    split_names,
)
from duly.sandbox.python_wire import Kind
from duly.sandbox.python_world import ScriptClock
from duly.sandbox.reaper import IDLE_S
from duly.sandbox.slot import Slots
from duly.sandbox.study import STUDY_CPU_S, Studies, too_long
from duly.sandbox.study_problem import decode_problem
from duly.sandbox.watch import Limit, ScriptWatch

WORKERS_MAX: Final = 64
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


_IMAGE: Final = msgspec.msgpack.Decoder(Image)


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
        self._names, declaring = split_names(names)
        self._declare = declaring + DECLARE
        self._refuse = refuse
        self.pool = Pool(
            env,
            workers_max=workers_max,
            running=running,
            idle_s=idle_s,
            unlocked="i-accept" if is_unlocked else "no",
            worker=partial(PythonWorker, is_unlocked=is_unlocked),
        )
        self._reading = asyncio.Lock()

    async def load(self, source: Source, catalog: Catalog) -> Loaded:
        """Run the source with no tools, read what it declares and keep its image (W6)."""
        try:
            check_source(source, self.limits)
        except Invalid as error:
            raise ScriptError(str(error)) from None
        reading = await self._read_text(source.text)
        context = context_text(catalog, reading, self.limits.json_depth + WRAPPING_DEPTH)
        prelude = PRELUDE + print_text(self.limits, reading.text) + context
        texts = (self._names, prelude, reading.text)
        world = World(self.env.now_ms(), frozen=False, seed=0)
        cpu_s, wall_s = self.limits.load_s, self.limits.load_wall_s
        first = Image({}, texts=texts)
        async with PythonScript(self, source.text, first, world, cpu_s, wall_s) as script:
            raw, dump = await script.read_declaration(self._declare)
        if len(raw) != 1:
            facts = {"count": len(raw)}
            raise NotDeployed(code="not_one_workflow", subject=source.name, facts=facts)
        declaration = parse(raw[0], self.limits)
        lines = dict(reading.lines)
        is_kept = 0 < len(dump) <= IMAGE_BYTES_MAX
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
        image = _IMAGE.decode(loaded.image)
        given = [None if value is MISSING else value for value in args]
        call = (handler, str(step), msgspec.json.encode(given).decode())
        cpu_s, wall_s = self.limits.step_cpu_s, self.limits.step_wall_s
        return PythonScript(self, loaded.source.text, image, world, cpu_s, wall_s, call)

    async def close(self) -> None:
        """End every worker; a script that still has one finds it lost."""
        await self.pool.close()

    async def _read_text(self, text: str) -> FedScript:
        """Read a text apart where there is a way (W6), else here; a long one in a thread."""
        self.pool.check_open()
        if self._studies is not None:
            wrong = decode_problem(await self._studies.ask(REFUSE, text.encode()))
            if wrong is not None:
                raise wrong
            return decode_reading(await self._studies.ask(READ, text.encode()))
        if len(text) <= TEXT_AT_ONCE_CHARS:
            return self._read(text)
        async with self._reading:
            return await self.pool.apart(partial(self._read, text))

    async def type_check(self, question: TypeQuestion) -> str | None:
        """Ask the type checker, in a locked process; None if it cannot read the text (X2)."""
        world = World(self.env.now_ms(), frozen=True, seed=0)
        wall_s = self.limits.load_wall_s
        script = PythonScript(self, question.text, Image({}), world, STUDY_CPU_S, wall_s)
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
        world: World,
        cpu_s: float,
        wall_s: float,
        call: tuple[str, str, str] | None = None,
    ) -> None:
        self._pool = sandbox.pool
        self._limits = sandbox.limits
        self._workflow = workflow
        self._image = image
        self._call = call
        self._watch = ScriptWatch(cpu_s, wall_s)
        self._clock = ScriptClock(world, sandbox.env, wall_s)
        self._seat = Seat(self._clock, image.lines, sandbox.limits)
        self._worker: PythonWorker | None = None
        self._broken: Limit | None = None
        self._is_started = False
        self._is_left = False

    async def __aenter__(self) -> Self:
        """Wait for a place to run in."""
        if self._worker is not None or self._is_left:
            raise IllegalTransition("A script is entered once.")
        self._worker = _interpreter(await self._pool.take(self._workflow))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drop the context for good; a caller that is cancelled here has left it too (C3)."""
        self._is_left = True
        worker, self._worker = self._worker, None
        if worker is not None:
            await self._pool.give_back(worker)

    async def start(self) -> Turn:
        """Call the step and run until it asks, returns or breaks."""
        if self._is_started:
            raise IllegalTransition("The script was started before.")
        self._is_started = True
        return await self._turn(self._begin)

    async def answer(self, call_id: int, value: Result) -> Turn:
        """Give one call its result and go on."""
        if self._is_left:
            return Broke(ScriptError(code="step_left", is_lost=True), is_lost=True)
        request = self._seat.answer(call_id, value)
        if request == MORE:
            return self._seat.turn()
        return await self._turn(partial(self._say, request))

    def waiting_outside(self) -> AbstractContextManager[None]:
        """Mark the time in which a call is outside: another script may have the place (X2)."""
        return nullcontext() if self._worker is None else self._worker.place.waiting_outside()

    async def type_check(self, question: TypeQuestion) -> str | None:
        """Let the type checker read a text; nothing of it runs."""
        seat = TypeSeat(question)
        turn = await self._turn(
            lambda: self._converse(
                (self._configure(question.stubs), python_wire.feed(question.text)), seat.serve
            )
        )
        if seat.is_done:
            return seat.found
        assert isinstance(turn, Broke), turn
        if self._broken is not None:
            wall_s = self._watch.wall_s
            raise ScriptError(too_long(self._broken, wall_s, self._watch.cpu_s))
        raise ScriptError(code="reader_died", is_lost=True) if turn.is_lost else turn.error

    async def read_declaration(self, declare: str) -> tuple[list[Json], bytes]:
        """Load the texts; return what they declare, and an image unless they saw the clock."""
        turn = await self._turn(partial(self._declare, declare))
        if isinstance(turn, Broke):
            raise turn.error
        assert isinstance(turn, Returned) and isinstance(turn.value, list), turn
        return turn.value, self._seat.dump

    async def _turn(self, drive: Callable[[], Awaitable[None]]) -> Turn:
        worker = self._worker
        if worker is None and not self._is_left:
            raise IllegalTransition("A script runs only between entering and leaving it.")
        try:
            if worker is None:
                raise ScriptError(code="step_left", is_lost=True)
            await self._pool.turn(worker, drive)
            if self._seat.raised is not None:
                raise python_error.explain(self._seat.raised, self._limits, self._watch)
        except Overrun as error:
            self._broken = error.limit
            words = python_error.overrun(error.limit, self._watch)
            self._seat.end = Broke(ScriptError(words))
        except ScriptError as error:
            self._seat.end = Broke(error, is_lost=error.is_lost)
        return self._seat.turn()

    async def _say(self, *requests: bytes) -> None:
        """Let the script run until it stands still; all requests but the last are given."""
        self._clock.begin_turn()
        try:
            await self._converse(requests, self._seat.serve)
        finally:
            self._clock.end_turn()

    async def _converse(self, requests: tuple[bytes, ...], serve: Serve) -> None:
        worker = self._worker
        if worker is None:  # it was left while it waited for its turn
            raise ScriptError(code="step_left", is_lost=True)
        try:
            await worker.converse(requests, serve, self._pool.apart, self._watch)
        except (wire.Closed, wire.Violation) as error:
            is_over = isinstance(error, wire.Closed)
            if is_over and await self._pool.apart(worker.has_used_up_its_memory):
                raise ScriptError(python_error.memory(self._limits)) from None
            facts = {"cause": str(error)}
            raise ScriptError(code="worker_lost", facts=facts, is_lost=True) from None

    def _configure(self, stubs: str | None = None) -> bytes:
        # The interpreter counts wall time: on a busy machine a script that computes little lasts
        # long. The host reads how long the process has computed, and how long a load lasts: an
        # image keeps the limits it was made under, so they are those of a step (X2).
        return python_wire.configure(
            wall_s=max(self._limits.step_wall_s, self._watch.wall_s),
            memory_bytes=self._limits.step_memory_bytes,
            recursion=python_error.RECURSION_MAX,
            stubs=stubs,
        )

    async def _begin(self) -> None:
        assert self._call is not None
        start = python_wire.feed(START, {"_duly_given": self._call})
        if not self._image.texts:
            self._seat.is_called = True
            await self._say(python_wire.load(self._image.dump), start)
        elif await self._load():
            self._seat.is_called = True
            await self._say(start)

    async def _declare(self, declare: str) -> None:
        if not await self._load():
            return
        if not self._clock.is_asked:
            self._seat.is_dumping = True
            await self._say(python_wire.DUMP)
            self._seat.is_dumping = False
        if self._seat.raised is None:
            await self._say(python_wire.feed(declare))
        if self._seat.stands is Kind.RETURNED:
            self._seat.finish()

    async def _load(self) -> bool:
        """Feed the texts one after the other; tell whether the last came to its end."""
        first, *others = map(python_wire.feed, self._image.texts)
        await self._say(self._configure(), first)
        for text in others:
            if self._seat.stands is Kind.RETURNED:
                await self._say(text)
        return self._seat.stands is Kind.RETURNED


def _interpreter(worker: Worker) -> PythonWorker:
    assert isinstance(worker, PythonWorker)
    return worker
