"""The moves a scripted step is made of, and how they are carried out.

Law: the same moves, world and answers give the same calls, logs and end. A move that a script in
a language would make by running on is made at once; a pause is a wait for the host, nothing else.

Values are JSON in which `ref("pending.0.payload")`, `NOW` and `RANDOM` stand for what they point
at. Time passes only by `Pass`; chance is a hash of the world's seed and the number of the throw.
"""

from __future__ import annotations

from collections.abc import Generator
from hashlib import sha256
from typing import Any, Final, TypeAlias

import msgspec

from duly.config import Limits
from duly.errors import IllegalTransition, Invalid, ScriptError
from duly.rules.value import Json, decode, encode
from duly.sandbox import border
from duly.sandbox.base import Log, Result, ScriptCall, World

Value: TypeAlias = Any  # JSON with the marks of `ref`, NOW and RANDOM in it
NOW: Final[Json] = {"$now": True}
RANDOM: Final[Json] = {"$random": True}
RANDOM_BITS: Final = 53


def ref(path: str) -> Json:
    """Point at a value: `pending.0.payload`, or every `pending.*.id`."""
    return {"$ref": path}


class Call(msgspec.Struct, frozen=True, tag="call", omit_defaults=True):
    """Call a tool, `publish`, `peek` or `get_by_ids`; wait for the answer unless told not to."""

    path: str
    args: tuple[Value, ...] = ()
    kwargs: dict[str, Value] = msgspec.field(default_factory=dict)
    into: str = ""
    waits: bool = True
    line: int | None = None


class Wait(msgspec.Struct, frozen=True, tag="wait"):
    """Wait until every call made so far is answered."""


class Never(msgspec.Struct, frozen=True, tag="never"):
    """Wait for something that never comes."""


class Say(msgspec.Struct, frozen=True, tag="say"):
    """Write a line to the log; what is no text is written as JSON."""

    value: Value


class Let(msgspec.Struct, frozen=True, tag="let"):
    """Give a name a value; a dotted name changes a part of what is there, for all who hold it."""

    path: str
    value: Value


class When(msgspec.Struct, frozen=True, tag="when", omit_defaults=True):
    """Go one way if the value at the path is there and not empty, zero, null or false."""

    path: str
    then: tuple[Move, ...]
    otherwise: tuple[Move, ...] = ()


class Each(msgspec.Struct, frozen=True, tag="each"):
    """Run the moves once for every item of a list, which is called `name` meanwhile."""

    path: str
    name: str
    moves: tuple[Move, ...]


class Pass(msgspec.Struct, frozen=True, tag="pass"):
    """Take so many milliseconds."""

    elapsed_ms: int


class Return(msgspec.Struct, frozen=True, tag="return"):
    """End the step with a value."""

    value: Value


class Throw(msgspec.Struct, frozen=True, tag="throw", omit_defaults=True):
    """End the step with an error."""

    message: str
    line: int | None = None


class Exceed(msgspec.Struct, frozen=True, tag="exceed"):
    """Go past a limit, as a loop or a flood of memory would."""

    limit: str


class Lose(msgspec.Struct, frozen=True, tag="lose"):
    """Take the worker along: a temporary failure (F1)."""


Move: TypeAlias = (
    Call | Wait | Never | Say | Let | When | Each | Pass | Return | Throw | Exceed | Lose
)


class Ended(Exception):
    """The step returned."""

    def __init__(self, value: Json) -> None:
        self.value = value


class Lost(Exception):
    """The worker is gone."""


class Context:
    """One fresh context: what is named, what was called, what was said (C1)."""

    def __init__(self, world: World, limits: Limits) -> None:
        self.world = world
        self.limits = limits
        self.named: dict[str, Json] = {}
        self.elapsed_ms = 0
        self.throws = 0
        self.made = 0
        self.tool_calls = 0
        self.calls: list[ScriptCall] = []
        self.logs: list[Log] = []
        self.said_before = 0
        self.waiting: dict[int, Call] = {}

    def run(self, moves: tuple[Move, ...]) -> Generator[None, None, None]:
        """Run the moves; every pause is a wait for the host."""
        for move in moves:
            match move:
                case Call():
                    call_id = self.call(move)
                    while move.waits and call_id in self.waiting:
                        yield
                case Wait():
                    while self.waiting:
                        yield
                case Never():
                    while True:
                        yield
                case When():
                    yield from self.run(move.then if self.holds(move.path) else move.otherwise)
                case Each():
                    for item in self.items(move.path):
                        self.named[move.name] = item
                        yield from self.run(move.moves)
                case _:
                    self.do(move)

    def do(self, move: Say | Let | Pass | Return | Throw | Exceed | Lose) -> None:
        """Make a move that waits for no answer."""
        match move:
            case Say(value):
                said = self.evaluate(value)
                text = said if isinstance(said, str) else self.copy_out(said, "log")
                self.logs.append(Log(self.elapsed_ms, text[: self.limits.log_line_chars]))
            case Let(path, value):
                self.assign(path, self.evaluate(value))
            case Pass(elapsed_ms):
                self.elapsed_ms += elapsed_ms
            case Return(value):
                raise Ended(self.evaluate(value))
            case Throw(message, line):
                raise ScriptError(message, line=line)
            case Exceed(limit):
                raise ScriptError(f"The script went past its limit of {limit}. Do less in it.")
            case Lose():
                raise Lost

    def call(self, move: Call) -> int:
        """Make a call now, whether or not the script awaits it, with a copy of its arguments."""
        self.made += 1
        self.tool_calls += move.path not in border.OWN_CALLS.values()
        if self.tool_calls > self.limits.calls_per_step:
            most = self.limits.calls_per_step
            raise ScriptError(
                code="too_many_calls",
                facts={"limit": most, "unit": "calls of tools"},
                line=move.line,
            )
        given = self.evaluate([list(move.args), {**move.kwargs}])
        copied: Value = decode(self.copy_out(given, move.path))
        args, kwargs = copied
        self.waiting[self.made] = move
        if not self.calls:
            self.said_before = len(self.logs)
        self.calls.append(ScriptCall(self.made, move.path, tuple(args), kwargs, move.line))
        return self.made

    def take(self) -> tuple[tuple[ScriptCall, ...], tuple[Log, ...]]:
        """Hand over what is new.

        Lines logged after a call are kept for the next turn: a call may be the last thing the host
        sees of a script (C8).
        """
        count = self.said_before if self.calls else len(self.logs)
        calls, logs = tuple(self.calls), tuple(self.logs[:count])
        self.calls.clear()
        del self.logs[:count]
        return calls, logs

    def hear(self, call_id: int, value: Result) -> None:
        """Take the answer to a call."""
        if call_id not in self.waiting:
            raise IllegalTransition(f"No call {call_id} waits for an answer.")
        move = self.waiting.pop(call_id)
        if move.into:
            if not isinstance(value, msgspec.Raw):
                value = msgspec.Raw(self.copy_out(value, "answer"))
            answer = border.to_python(move.path, value)
            self.named[move.into] = decode(bytes(answer).decode())

    def copy_out(self, value: Json, path: str) -> str:
        """Write a value as the JSON that crosses the border, or break on what is none (T8, X3)."""
        limit_bytes = self.limits.result_bytes
        depth = self.limits.json_depth + border.WRAPPING_DEPTH
        try:
            return encode(value, path, limit_bytes=limit_bytes, depth=depth)
        except Invalid as error:
            raise ScriptError(str(error)) from None

    # -- values ---------------------------------------------------------------------------------

    def evaluate(self, value: Json) -> Json:
        """Put values in the place of what points at them."""
        if value == NOW:
            return self.world.now_ms + (0 if self.world.frozen else self.elapsed_ms)
        if value == RANDOM:
            return self.throw_dice()
        if isinstance(value, dict):
            if isinstance(path := value.get("$ref"), str):
                return self.look(path)
            return {name: self.evaluate(each) for name, each in value.items()}
        return [self.evaluate(each) for each in value] if isinstance(value, list) else value

    def throw_dice(self) -> float:
        """Result the next number from 0 to below 1 of this seed (C13)."""
        self.throws += 1
        thrown = sha256(f"{self.world.seed}:{self.throws}".encode()).digest()
        return (int.from_bytes(thrown[:8]) >> (64 - RANDOM_BITS)) / (1 << RANDOM_BITS)

    def look(self, path: str) -> Json:
        """Find a value, or break as a script that misspelt a name does."""
        return _walk(self.named, path.split("."), path)

    def holds(self, path: str) -> bool:
        """Tell whether there is something at the path."""
        try:
            return bool(self.look(path))
        except ScriptError:
            return False

    def items(self, path: str) -> list[Json]:
        """Find a list."""
        found = self.look(path)
        if not isinstance(found, list):
            raise ScriptError(f"{path} is no list.")
        return list(found)

    def assign(self, path: str, value: Json) -> None:
        """Put a value where the path points, in place."""
        *parts, last = path.split(".")
        holder = _walk(self.named, parts, path)
        if isinstance(holder, list) and last.isdigit() and int(last) < len(holder):
            holder[int(last)] = value
        elif isinstance(holder, dict):
            holder[last] = value
        else:
            raise ScriptError(f"There is no {path} to change.")


def _walk(value: Json, parts: list[str], path: str) -> Json:
    for place, part in enumerate(parts):
        if part == "*" and isinstance(value, list):
            return [_walk(each, parts[place + 1 :], path) for each in value]
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise ScriptError(f"There is no {path}.")
    return value
