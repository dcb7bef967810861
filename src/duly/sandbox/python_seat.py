"""The host's side of one running Python script: its calls, its answers, its log, its end.

Law 1: calls are numbered in the order they were made; a turn hands over all that are new.
Law 2: an end is held back until every call was answered, awaited or not.
Law 3: what a script says after a call is held back until that call is answered (C8).

A seat does not know threads or processes: its caller lets it serve one event at a time, in their
order, and sends what `serve` returns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from duly.config import Limits
from duly.errors import IllegalTransition, Invalid, ScriptError
from duly.rules.value import Json, check_json
from duly.sandbox import python_error, python_wire
from duly.sandbox.base import (
    MISSING,
    OWN_PER_PUBLISH,
    Asked,
    Broke,
    Log,
    Result,
    Returned,
    ScriptCall,
    Turn,
)
from duly.sandbox.border import WRAPPING_DEPTH, to_python, written
from duly.sandbox.python_text import HOST, NO_CALLS, OWN_VERBS, TypeQuestion
from duly.sandbox.python_wire import Event, Kind, Other, Raised
from duly.sandbox.python_world import ScriptClock
from duly.sandbox.wire import VALUES_MAX, Violation, count_values

PRINTED: Final = 1  # the other stream brings the numbers of lines that `print` dropped
DROPPED_CHARS_MAX: Final = 1024 * 1024
DROPPED_DIGITS_MAX: Final = 12
QUESTIONS: Final = frozenset({Kind.CALLED, Kind.ASKED_SYSTEM, Kind.ASKED_NAME, Kind.WAITS})
MISUNDERSTOOD: Final = "protocol violation: "  # how no exception of a script begins
MORE: Final = b""  # nothing is sent: the turn goes on by itself


class Seat:
    """What the host knows of one script."""

    def __init__(self, clock: ScriptClock, lines: Mapping[str, int], limits: Limits) -> None:
        self.end: Returned | Broke | None = None
        self.raised: Raised | None = None
        self.output: str | Other | None = None
        self.stands: Kind | None = None  # with which event the last turn ended
        self.is_dumping = False
        self.dump = b""
        self.is_called = False
        self._clock = clock
        self._lines = lines
        self._limits = limits
        self._asked = 0  # for the time, for chance, for a name, for an answer
        self._blocked: frozenset[int] = frozenset()
        self._new: list[ScriptCall] = []
        self._waiting: dict[int, str] = {}
        self._made = {True: 0, False: 0}  # our own verbs, tools
        self._made_bytes = 0
        self._values = 0  # in what it asked and returned
        self._logs: list[Log] = []
        # By call: how many lines were kept, and how many were left out, before it.
        self._said_before: dict[int, tuple[int, int]] = {}
        self._lines_taken = 0
        self._said = ""  # of the line that has not ended yet
        self._left_out = 0
        self._left_out_told = 0

    # -- Turns ----------------------------------------------------------------------------------

    def turn(self) -> Turn:
        """Hand over what is new; the end comes when no call waits."""
        if self._waiting:
            calls, self._new = tuple(self._new), []
            heard, left_out = min(self._said_before[call] for call in self._waiting)
            return Asked(calls, self._take_logs(heard - self._lines_taken, left_out))
        self._end_line()
        if self.end is None:
            self.end = Broke(ScriptError(code="script_stalled"))
        logs = self._take_logs(None, self._left_out)
        if isinstance(self.end, Returned):
            return Returned(self.end.value, logs)
        return Broke(self.end.error, logs, self.end.is_lost)

    def answer(self, call_id: int, value: Result) -> bytes:
        """Give one call its result; return what lets the script go on, nothing if it cannot."""
        path = self._waiting.pop(call_id, None)
        if path is None:
            raise IllegalTransition(f"No call {call_id} waits for an answer.")
        if self.end is not None or call_id not in self._blocked:
            return MORE
        self._blocked = frozenset()
        return python_wire.keep(call_id, bytes(to_python(path, written(value))))

    def serve(self, event: Event) -> bytes | None:
        """Return what is sent next, or None if the script stands still."""
        try:
            reply = self._serve(event)
        except ScriptError as error:
            self.end = Broke(error, is_lost=error.is_lost)
            reply = None
        if reply is None:
            self.stands = event.kind
        return reply

    def finish(self) -> None:
        """Read what the script returned: nothing, or JSON text that was written inside."""
        if self.output is None:
            self.end = Returned(MISSING)
        else:
            self.end = Returned(self._read(self.output, "result"))

    # -- What the script asks -------------------------------------------------------------------

    def _serve(self, event: Event) -> bytes | None:
        if event.kind in QUESTIONS:
            self._asked += 1
            if self._asked > python_error.QUESTIONS_MAX:
                return python_wire.abort(*python_error.TOO_MANY_QUESTIONS)
        match event.kind:
            case Kind.PRINTED:
                for stream, text in python_wire.read_printed(event.body):
                    self.hear(stream, text)
                return MORE
            case Kind.CALLED:
                return self._hear_call(python_wire.read_call(event.body))
            case Kind.ASKED_SYSTEM:
                return self._ask_system(python_wire.read_system_call(event.body))
            case Kind.ASKED_NAME:
                return python_wire.NO_SUCH_NAME
            case Kind.WAITS:
                self._blocked = frozenset(python_wire.read_waiting(event.body))
            case Kind.RETURNED:
                self.output = python_wire.read_returned(event.body)
                if self.is_called:
                    self.finish()
            case Kind.RAISED:
                self.raised = python_wire.read_raised(event.body)
                if not self.raised.places and self.raised.message.startswith(MISUNDERSTOOD):
                    raise Violation("A worker did not understand what it was asked.")
            case Kind.DUMPED if self.is_dumping:
                self.dump = python_wire.read_dump(event.body)
            case _:
                raise Violation("A worker said what it was not asked for.")
        return None

    def _ask_system(self, call: python_wire.SystemCall) -> bytes:
        function = self._clock.find(call.name)
        if function is None:
            return python_wire.refuse(call.id)
        return python_wire.give(call.id, function(*call.args))

    def _hear_call(self, call: python_wire.Call) -> bytes:
        if call.name != HOST:
            return python_wire.refuse_function(call.id, call.name)
        if call.args is None or len(call.args) != 3:
            raise ScriptError(code="not_for_scripts", subject=HOST)
        kind, path, text = call.args
        line = None if path in NO_CALLS else self._lines.get(path.rpartition(".")[2])
        if kind != "call":
            raise ScriptError(text, line=line)
        if not self.is_called:
            raise ScriptError(code="called_while_loading", subject=path)
        if call.id in self._said_before:
            raise Violation(f"A worker numbered two calls {call.id}.")
        self._count(path, len(text), line)
        positional, named = self._read_arguments(path, text, line)
        self._end_line()
        self._waiting[call.id] = path
        kept = self._lines_taken + len(self._logs)
        self._said_before[call.id] = kept, self._left_out
        self._new.append(ScriptCall(call.id, path, positional, named, line))
        return python_wire.promise(call.id)

    def _count(self, path: str, size_bytes: int, line: int | None) -> None:
        """Bound what one script can pile up here; the engine counts what it lets through (N)."""
        is_own = path in OWN_VERBS
        what, most = "calls of tools", self._limits.calls_per_step
        if is_own:
            what, most = "publishes and looks", OWN_PER_PUBLISH * self._limits.publishes_per_run
        self._made[is_own] += 1
        self._made_bytes += size_bytes
        if self._made[is_own] > most:
            raise ScriptError(code="too_many_calls", facts={"limit": most, "unit": what}, line=line)
        if self._made_bytes > self._limits.step_memory_bytes:
            raise ScriptError(code="arguments_too_large", line=line)

    def _read_arguments(
        self, path: str, text: str, line: int | None
    ) -> tuple[tuple[Json, ...], dict[str, Json]]:
        read = self._parse(text, path)
        positional, named = read if isinstance(read, list) and len(read) == 2 else (None, None)
        if not isinstance(positional, list) or not isinstance(named, dict):
            raise ScriptError(code="not_for_scripts", subject=HOST, line=line)
        self._check(named, path, line)
        self._check(positional, path, line)
        return tuple(positional), named

    def _read(self, text: object, path: str) -> Json:
        if type(text) is not str:
            raise ScriptError(code="not_json_text", subject=path)
        value = self._parse(text, path)
        self._check(value, path, None)
        return value

    def _parse(self, text: str, path: str) -> Json:
        self._values += count_values(text.encode(errors="replace"))
        if self._values > VALUES_MAX:
            raise ScriptError(code="too_many_values", subject=path, facts={"limit": VALUES_MAX})
        try:
            value: Json = json.loads(text)
        except (ValueError, RecursionError):
            raise ScriptError(code="not_json_text", subject=path) from None
        return value

    def _check(self, value: Json, path: str, line: int | None) -> None:
        most, depth = self._limits.step_memory_bytes, self._limits.json_depth + WRAPPING_DEPTH
        try:
            check_json(value, path, limit_bytes=most, depth=depth)
        except Invalid as error:
            raise ScriptError(str(error), line=line) from None

    # -- What the script says -------------------------------------------------------------------

    def hear(self, stream: int, text: str) -> None:
        """Take what was printed; a line ends where the script ends it, or makes a call (X4)."""
        if stream != PRINTED:
            self._hear_dropped(text)
            return
        # A flood of lines is counted, never cut into pieces: that would cost the host its memory.
        room = max(0, self._limits.log_lines - self._lines_taken - len(self._logs))
        *lines, rest = (self._said + text).split("\n", room + 1)
        for line in lines:
            self._say(line)
        self._left_out += rest.count("\n")
        self._said = rest[rest.rfind("\n") + 1 :][: self._limits.log_line_chars]

    def _hear_dropped(self, text: str) -> None:
        """Count lines that `print` dropped in the worker: 3 for three, 3+ if a fourth has begun.

        A worker that was taken over may say anything here; it changes its own count only.
        """
        for each in text[:DROPPED_CHARS_MAX].split():
            number = each.removesuffix("+")
            if not number.isdecimal() or len(number) > DROPPED_DIGITS_MAX:
                continue
            self._left_out += int(number)
            begun = "" if int(number) else self._said
            self._said = (begun or "+") if number != each else begun

    def _say(self, line: str) -> None:
        if self._lines_taken + len(self._logs) >= self._limits.log_lines:
            self._left_out += 1
            return
        text = line[: self._limits.log_line_chars]
        self._logs.append(Log(self._clock.elapsed_ms(), text))

    def _end_line(self) -> None:
        if self._said:
            self._say(self._said)
            self._said = ""

    def _take_logs(self, count: int | None, left_out: int) -> tuple[Log, ...]:
        """Hand over lines, and how many were left out and not reported yet (R1)."""
        taken = tuple(self._logs[:count])
        self._logs = self._logs[len(taken) :]
        self._lines_taken += len(taken)
        more, self._left_out_told = left_out - self._left_out_told, left_out
        if not more:
            return taken
        said = f"{more} more lines were left out."
        return (*taken, Log(self._clock.elapsed_ms(), said, left_out=more))


class TypeSeat:
    """The host's side of one question for the type checker."""

    def __init__(self, question: TypeQuestion) -> None:
        self._modules = {"duly": question.module}
        self.is_done = False
        self.found: str | None = None  # its findings; None if it could not read the text

    def serve(self, event: Event) -> bytes | None:
        """Give it the stubs it asks for, and take its findings."""
        if event.kind is Kind.ASKED_SYSTEM:
            call = python_wire.read_system_call(event.body)
            modules = {name: text for name, text in self._modules.items() if name in call.args}
            return python_wire.give_stubs(call.id, modules)
        if event.kind is Kind.MISTYPED:
            self.found = python_wire.read_text(event.body)
        elif event.kind is not Kind.RAISED:
            raise Violation("The first line is refused, so the text cannot have run.")
        self.is_done = True
        return None
