"""A script that is data, run without an interpreter or a process: for tests and scenarios.

Law: it keeps the contract of `base` under the same suite as the two languages, and nothing about
it depends on the machine.

The text of a source is a `Scripted` as JSON, so the store keeps it like any other version and a
host that starts again reads it from there. Names are spelled as on the host's side of the border.
A step is a list of moves over named values: its arguments (`state`, `prepared`, `result`),
what the module set, and what calls were answered. The module's moves are run at load, where a
call is refused (W5), and again in every fresh context (C1).

    Scripted(
        declaration={"name": "mail", "topics": ["mail", "done"], "consumers": {"file": {…}}},
        steps={"file": {Step.PREPARE: (
            Call("peek", ("mail",), {"limit": 1}, into="pending"),
            When("pending",
                 (Return({"reservations": [{"topic": "mail", "ids": ref("pending.*.id")}]}),),
                 (Return({"reservations": []}),)),
        )}},
    ).source()
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

import msgspec

from duly.config import Limits
from duly.env import Env
from duly.errors import DulyError, IllegalTransition, Invalid, ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.declaration import parse as parse_declaration
from duly.rules.source import Language, Source, check_source
from duly.rules.value import DEFAULT_LIMITS, Json, decode
from duly.sandbox.base import (
    MISSING,
    Asked,
    Broke,
    Loaded,
    Missing,
    Result,
    Returned,
    Turn,
    World,
)
from verification.moves import Context, Ended, Lost, Move, Value

# What a step's arguments are called, in their order.
ARGUMENTS: Final[Mapping[Step, tuple[str, ...]]] = {
    Step.PRODUCE: ("state",),
    Step.PREPARE: ("state",),
    Step.MUTATE: ("prepared",),
    Step.NEXT: ("prepared", "result", "state"),
}
BYTE_OF_ERROR: Final = re.compile(r"\(byte (\d+)\)")


class Scripted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workflow that is data: its raw declaration, and the moves of every step."""

    declaration: dict[str, Value]
    steps: dict[str, dict[Step, tuple[Move, ...]]] = msgspec.field(default_factory=dict)
    module: tuple[Move, ...] = ()

    def source(self, name: str = "source") -> Source:
        """Write it as the text a host deploys; the language is a label here."""
        return Source(Language.PYTHON, msgspec.json.encode(self).decode(), name)


def read(source: Source) -> Scripted:
    """Read the text back, or say in which line and column it stops making sense."""
    try:
        return msgspec.json.decode(source.text, type=Scripted)
    except msgspec.DecodeError as error:
        found = BYTE_OF_ERROR.search(str(error))
        before = source.text.encode()[: int(found[1])] if found else b""
        line = before.count(b"\n") + 1
        column = len(before) - (before.rfind(b"\n") + 1) + 1
        raise ScriptError(f"{source.name}: {error}", line=line, column=column) from None


class ScriptedScript:
    """One step of a scripted workflow."""

    def __init__(
        self,
        env: Env,
        sandbox: ScriptedSandbox,
        context: Context,
        moves: tuple[Move, ...],
    ) -> None:
        self._env = env
        self._sandbox = sandbox
        self._context = context
        self._moves = context.run(moves)
        self._end: Returned | Broke | None = None
        self._is_started = False
        self.is_lost = False

    async def __aenter__(self) -> Self:
        """Take a place; here there is always one."""
        self._sandbox.enter(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drop the script where it stands; there is nothing in it that could run on."""
        self._sandbox.running.discard(self)

    async def start(self) -> Turn:
        """Run until it asks, returns or breaks."""
        if self._is_started:
            raise IllegalTransition("The script was started before.")
        self._is_started = True
        return await self._turn()

    async def answer(self, call_id: int, value: Result) -> Turn:
        """Give one call its result and go on."""
        self._context.hear(call_id, value)
        return await self._turn()

    def waiting_outside(self) -> AbstractContextManager[None]:
        """Mark the time in which a call is outside; a scripted step needs no place meanwhile."""
        return nullcontext()

    async def _turn(self) -> Turn:
        # Others may run between any two turns, as they do while a worker is busy.
        await self._env.sleep(0)
        if self.is_lost:
            return Broke(ScriptError("The worker was lost.", code="worker_lost"), is_lost=True)
        if self not in self._sandbox.running:
            raise IllegalTransition("A script runs only between entering and leaving it.")
        if self._end is None:
            self._end = self._advance()
        context = self._context
        calls, logs = context.take()
        # An end, good or bad, waits until every call made before it was answered (C8). Only a
        # worker that is lost takes them along.
        is_lost = isinstance(self._end, Broke) and self._end.is_lost
        if context.waiting and not is_lost:
            return Asked(calls, logs)
        if self._end is None:
            self._end = Broke(ScriptError(code="script_stalled"))
        return replace(self._end, logs=logs)

    def _advance(self) -> Returned | Broke | None:
        """Run on to the next wait; return the end, if this was it."""
        try:
            next(self._moves)
        except StopIteration:
            return Returned(MISSING)
        except Ended as end:
            return self._returned(end.value)
        except Lost:
            return Broke(ScriptError("The worker was lost.", code="worker_lost"), is_lost=True)
        except ScriptError as error:
            return Broke(error)
        return None

    def _returned(self, value: Json) -> Returned | Broke:
        try:
            return Returned(decode(self._context.copy_out(value, "result")))
        except ScriptError as error:
            return Broke(error)


class ScriptedSandbox:
    """Runs scripts that are data; `env` gives the moments in which others may run."""

    def __init__(self, env: Env, limits: Limits = DEFAULT_LIMITS) -> None:
        self._env = env
        self._limits = limits
        self.running: set[ScriptedScript] = set()
        self._is_closed = False

    async def load(self, source: Source, catalog: Catalog) -> Loaded:
        """Read the text, run its module with no tools, and read what it declares (W6)."""
        await self._env.sleep(0)
        try:
            check_source(source, self._limits)
        except Invalid as error:
            raise ScriptError(str(error)) from None
        scripted = read(source)
        context = self._fresh(scripted, World(now_ms=0, frozen=True, seed=0))
        if context.calls:
            call = context.calls[0]
            raise ScriptError(
                f"{call.path} is called while the source is loaded. Call it inside a step (W5).",
                line=call.line,
            )
        return Loaded(source, parse_declaration(scripted.declaration, self._limits))

    def open(
        self,
        loaded: Loaded,
        handler: str,
        step: Step,
        args: tuple[Json | Missing, ...],
        world: World,
    ) -> ScriptedScript:
        """Make a fresh context for one step."""
        scripted = read(loaded.source)
        context = self._fresh(scripted, world)
        for name, value in zip(ARGUMENTS[step], args, strict=True):
            if value is not MISSING:
                context.named[name] = decode(context.copy_out(value, name))
        return ScriptedScript(self._env, self, context, scripted.steps[handler][step])

    async def close(self) -> None:
        """Drop every script that still runs; its caller finds its worker lost."""
        self._is_closed = True
        for script in self.running:
            script.is_lost = True
        self.running.clear()

    def enter(self, script: ScriptedScript) -> None:
        """Take a script in, unless the sandbox is closed."""
        if self._is_closed:
            raise DulyError(code="sandbox_closed")
        self.running.add(script)

    def _fresh(self, scripted: Scripted, world: World) -> Context:
        context = Context(world, self._limits)
        with suppress(Ended):
            next(context.run(scripted.module), None)
        context.elapsed_ms = 0
        return context
