"""JavaScript: the contract, kept by a worker of our own with quickjs-ng inside.

Law: see `base`. Everything a worker sends passes `wire`'s checks and is strict JSON before this
host uses it; names are translated by `border`; lines are the script's own (X3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Final, Self

import msgspec

from duly.config import Limits
from duly.errors import IllegalTransition, Invalid, NotDeployed, ScriptError
from duly.rules import declaration
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.source import Source, check_source
from duly.rules.value import Json, check_json
from duly.sandbox import border, wire
from duly.sandbox.base import (
    MISSING,
    OWN_PER_PUBLISH,
    TEXT_AT_ONCE_CHARS,
    Asked,
    Broke,
    Loaded,
    Log,
    Missing,
    Result,
    Returned,
    ScriptCall,
    Turn,
    World,
)
from duly.sandbox.javascript_text import check_text, is_suspect
from duly.sandbox.pool import Overrun, Pool, Worker
from duly.sandbox.study import Studies
from duly.sandbox.study_problem import decode_problem

DEFAULT_LIMITS: Final = Limits()
CHECK: Final = "javascript text"  # the function that reads a text apart
READ_AT_ONCE_BYTES: Final = 64 * 1024
SCRIPT_LINE: Final = 1_000  # what stands above this line is the prelude, not the script
LEFT_OUT_CHARS: Final = 60  # "… more lines were left out."
PLACE: Final = re.compile(r"<input>:(\d{1,9}):(\d{1,9})")
NO_TOOLS: Final = Catalog()
# A declaration is loaded at no time at all, so that it cannot depend on one (W7).
NO_WORLD: Final = World(now_ms=0, frozen=True, seed=0)

# What the interpreter calls a limit, and what we call it (X2).
LIMIT_WORDS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("InternalError", "interrupted"): "The script computed longer than {cpu_s:g} s.",
        ("InternalError", "out of memory"): "The script used more than {memory_mib:g} MiB.",
        ("InternalError", "string too long"): "The script used more than {memory_mib:g} MiB.",
        ("RangeError", "Maximum call stack size exceeded"): "The script calls itself too deeply.",
        ("", "The script threw null."): (
            "The script threw null; one that uses more than {memory_mib:g} MiB does so too."
        ),
        ("", "null"): (
            "The script threw null; one that uses more than {memory_mib:g} MiB does so too."
        ),
    }
)


class JavaScriptSandbox:
    """Runs JavaScript in the workers of a pool."""

    def __init__(
        self, pool: Pool, limits: Limits = DEFAULT_LIMITS, studies: Studies | None = None
    ) -> None:
        self._pool = pool
        self._limits = limits
        self._studies = studies

    async def load(self, source: Source, catalog: Catalog) -> Loaded:
        """Run the source with no tools and read what it declares (W6)."""
        try:
            check_source(source, self._limits)
        except Invalid as error:
            raise ScriptError(str(error)) from None
        await self._check(source.text)
        limits = self._limits
        cpu_s, wall_s = limits.load_s, limits.load_wall_s
        run = _Run(self._pool, source.text, limits, cpu_s, wall_s, limits.source_bytes)
        async with run:
            turn = await run.ask(run.begin(source.text, NO_WORLD, None))
        if isinstance(turn, Broke):
            raise turn.error
        declared = declaration.parse(
            border.from_javascript_declaration(_the_workflow(turn)), limits
        )
        return Loaded(source, declared, catalog=catalog)

    async def _check(self, text: str) -> None:
        """Refuse what the interpreter would not say the place of; read apart where there is a way.

        Without one, a long text is read in a thread, in which the host goes on (W6).
        """
        if self._studies is not None:
            if is_suspect(text):
                wrong = decode_problem(await self._studies.ask(CHECK, text.encode()))
                if wrong is not None:
                    raise wrong
        elif len(text) <= TEXT_AT_ONCE_CHARS:
            check_text(text)
        else:
            await self._pool.apart(partial(check_text, text))

    def open(
        self,
        loaded: Loaded,
        handler: str,
        step: Step,
        args: tuple[Json | Missing, ...],
        world: World,
    ) -> JavaScriptScript:
        """Make a fresh context for one step; it runs when it is entered."""
        return JavaScriptScript(self._pool, self._limits, loaded, handler, step, args, world)

    async def close(self) -> None:
        """End every worker; none is left behind."""
        await self._pool.close()


class _Run:
    """One context in one worker, from entering to leaving."""

    def __init__(
        self,
        pool: Pool,
        workflow: str,
        limits: Limits,
        cpu_s: float,
        wall_s: float,
        output_bytes: int,
    ) -> None:
        self._pool = pool
        self._workflow = workflow
        self._limits = limits
        self._output_bytes = output_bytes
        self._cpu_s = cpu_s
        self._wall_s = wall_s
        self._worker: Worker | None = None
        # The engine refuses one publish too many, and says so; this is only for the host's memory.
        self._own_calls = OWN_PER_PUBLISH * limits.publishes_per_run
        self._tally = wire.Tally(
            calls_max=limits.calls_per_step + 1 + self._own_calls,
            lines_max=limits.log_lines,
            line_chars_max=max(limits.log_line_chars, LEFT_OUT_CHARS),
        )

    async def __aenter__(self) -> Self:
        self._worker = await self._pool.take(self._workflow)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await self._pool.give_back(worker)

    def waiting_outside(self) -> AbstractContextManager[None]:
        """Mark the time in which a call of the script is outside the host."""
        assert self._worker is not None, "a script waits only between entering and leaving it"
        return self._worker.place.waiting_outside()

    def begin(self, text: str, world: World, entry: wire.Entry | None) -> wire.Begin:
        """Write the first request."""
        limits = self._limits
        return wire.Begin(
            text=text,
            world=wire.World(
                now_ms=world.now_ms, frozen=world.frozen, dice=border.dice(world.seed)
            ),
            bounds=wire.Bounds(
                cpu_s=self._cpu_s,
                memory_bytes=limits.step_memory_bytes,
                depth=limits.json_depth + border.WRAPPING_DEPTH,
                # One more is let through, for the host to say that it is one too many.
                calls=limits.calls_per_step + 1,
                own_calls=self._own_calls,
                output_chars=self._output_bytes,
                log_lines=limits.log_lines,
                log_chars=limits.log_line_chars,
            ),
            entry=wire.raw(entry),
        )

    def settle(self, call_id: int) -> None:
        """Note that a call is being answered."""
        if call_id not in self._tally.waiting:
            raise IllegalTransition(f"The call {call_id} was not made, or was answered before.")
        self._tally.settle(call_id)

    async def ask(self, request: wire.Request) -> wire.Turn | Broke:
        """Let the worker run, and believe nothing it says before it was checked."""
        worker = self._worker
        if worker is None:
            raise IllegalTransition("A script runs only between entering and leaving it.")
        try:
            body = await self._pool.turn(worker, partial(self._drive, worker, request))
            # Reading millions of small values takes seconds, in which the host stays awake (X2).
            is_small = len(body) <= READ_AT_ONCE_BYTES
            turn = (
                self._read(body) if is_small else await self._pool.apart(lambda: self._read(body))
            )
            self._tally.record(turn)
            worker.is_clean = not turn.is_worn
        except (Overrun, Invalid) as error:
            return Broke(ScriptError(str(error)))
        except ScriptError as error:
            return Broke(error, is_lost=error.is_lost)
        except (wire.Closed, wire.Violation) as error:
            lost = ScriptError(code="worker_lost", facts={"cause": str(error)}, is_lost=True)
            return Broke(lost, is_lost=True)
        end = turn.end
        if end is not None and (end.stalled or end.error is not None):
            return Broke(self._error(end), _logs(turn))
        return turn

    async def _drive(self, worker: Worker, request: wire.Request) -> bytes:
        if self._worker is not worker:  # it was left while it waited for its turn
            raise ScriptError(code="step_left", is_lost=True)
        return await worker.ask(request, cpu_s=self._cpu_s, wall_s=self._wall_s)

    def _read(self, body: bytes) -> wire.Turn:
        """Refuse what is not strict JSON (T8); the worker said so too, but it may be broken."""
        self._tally.count(body)
        turn = wire.unpack(body, wire.Turn)
        limit_bytes = wire.FRAME_BYTES_MAX
        depth = self._limits.json_depth + border.WRAPPING_DEPTH
        for call in turn.calls:
            for value in call.args:
                check_json(value, call.path, limit_bytes=limit_bytes, depth=depth)
        if turn.end is not None and turn.end.value is not msgspec.UNSET:
            check_json(turn.end.value, "result", limit_bytes=limit_bytes, depth=depth)
        return turn

    def _error(self, end: wire.End) -> ScriptError:
        fault = end.error
        if fault is None:
            return ScriptError(code="script_stalled")
        line, column = find_place(fault.stack)
        words = LIMIT_WORDS.get((fault.name, fault.message))
        if words is None:
            text = f"{fault.name}: {fault.message}" if fault.name else fault.message
        else:
            memory_mib = self._limits.step_memory_bytes / 1024 / 1024
            text = words.format(cpu_s=self._cpu_s, memory_mib=memory_mib)
        return ScriptError(text, line=line, column=column)


class JavaScriptScript(_Run):
    """One step of one handler in JavaScript."""

    def __init__(
        self,
        pool: Pool,
        limits: Limits,
        loaded: Loaded,
        handler: str,
        step: Step,
        args: tuple[Json | Missing, ...],
        world: World,
    ) -> None:
        output_bytes = limits.publish_bytes_per_run + limits.data_bytes + limits.state_bytes
        cpu_s, wall_s = limits.step_cpu_s, limits.step_wall_s
        super().__init__(
            pool,
            loaded.source.text,
            limits,
            cpu_s,
            wall_s,
            output_bytes,
        )
        self._is_started = False
        self._catalog = loaded.catalog or NO_TOOLS
        self._step = step
        given = tuple(wire.Argument() if arg is MISSING else wire.Argument(arg) for arg in args)
        self._first = self.begin(loaded.source.text, world, wire.Entry(handler, step, given))
        self._paths: dict[int, str] = {}
        self._tool_calls = 0
        self._over: Broke | None = None  # what the step ends with once its calls were answered

    async def start(self) -> Turn:
        """Call the step and run until it asks, returns or breaks."""
        if self._is_started:
            raise IllegalTransition("The script was started before.")
        self._is_started = True
        return self._turn(await self.ask(self._first))

    async def answer(self, call_id: int, value: Result) -> Turn:
        """Give one call its result and go on."""
        self.settle(call_id)
        path = self._paths.pop(call_id)
        if self._over is not None:
            return Asked(()) if self._paths else self._over
        shown, names = border.to_javascript(path, border.written(value))
        request = wire.Answer(call=call_id, value=shown, names=names)
        return self._turn(await self.ask(request))

    def _turn(self, turn: wire.Turn | Broke) -> Turn:
        if isinstance(turn, Broke):
            return turn
        if turn.end is None:
            return self._asked(turn)
        if turn.end.missing:
            return Returned(MISSING, _logs(turn))
        value = border.from_javascript_result(self._step, turn.end.value)
        return Returned(value, _logs(turn))

    def _asked(self, turn: wire.Turn) -> Turn:
        """Hand over the calls up to the limit; one too many is a throw, and comes after them."""
        most = self._limits.calls_per_step
        calls: list[ScriptCall] = []
        for each in turn.calls:
            call = self._call(each)
            if self._tool_calls > most:
                del self._paths[call.id]
                self._over = Broke(
                    ScriptError(
                        code="too_many_calls", facts={"limit": most, "unit": "calls of tools"}
                    )
                )
                break
            calls.append(call)
        if self._over is not None and not self._paths:
            return Broke(self._over.error, _logs(turn))
        return Asked(tuple(calls), _logs(turn))

    def _call(self, call: wire.Call) -> ScriptCall:
        path, args, kwargs = border.from_javascript_call(self._catalog, call.path, call.args)
        self._paths[call.id] = path
        self._tool_calls += path not in border.OWN_CALLS.values()
        return ScriptCall(call.id, path, args, MappingProxyType(kwargs), find_place(call.stack)[0])


def _the_workflow(turn: wire.Turn) -> Json:
    """Return what the source declared, if it declared exactly one workflow (W1)."""
    told = turn.end.value if turn.end is not None else None
    count = told.get("count") if isinstance(told, dict) else None
    if not isinstance(told, dict) or type(count) is not int:
        raise ScriptError(code="half_read")
    if count != 1:
        problem = declaration.Problem("W1", "workflow", "not_one_exported", {"count": count})
        raise NotDeployed(
            code="source_problems",
            facts={"count": 1, "problems": [str(problem)]},
            findings=(problem,),
        )
    workflow: Json = told.get("workflow")
    return workflow


def find_place(stack: str) -> tuple[int | None, int | None]:
    """Return line and column of the innermost frame that is the script's own."""
    for found in PLACE.finditer(stack):
        line, column = int(found[1]), int(found[2])
        if line > SCRIPT_LINE:
            return line - SCRIPT_LINE, column
    return None, None


def _logs(turn: wire.Turn) -> tuple[Log, ...]:
    return tuple(Log(each.after_ms, each.text, each.left_out) for each in turn.logs)
