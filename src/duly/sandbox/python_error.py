"""What went wrong inside the interpreter, in words and lines of the script (X3).

Law: a limit is named; a line is the script's own; no frame, path or word of the host is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic_monty import Frame, MontyCrashedError, MontyError, MontyRuntimeError, MontySyntaxError

from duly.cell.lock import Layer, unknown_machine
from duly.config import MIB, Limits
from duly.errors import ConfigError, ScriptError
from duly.sandbox.python_launcher import THREADS_MAX, UNLOCKED
from duly.sandbox.watch import Limit, ScriptWatch

SOURCE_FEED: Final = "<python-input-2>"  # the names, the prelude, then the script
RECURSION_MAX: Final = 500
SUSPENSIONS_MAX: Final = 100_000
MESSAGE_CHARS: Final = 2000
FROZEN: Final = "FrozenInstanceError: "
# What the interpreter says of its limit, and what its pool says where the process itself met it.
MEMORY_WORDS: Final = ("memory limit exceeded", "exceeded its memory limit")


def explain(
    error: MontyError, limits: Limits, watch: ScriptWatch, computed_s: float | None
) -> ScriptError:
    """Return a script's error; it is lost if the worker died without a limit (F1)."""
    limit = _limit(error, limits, watch, computed_s)
    if isinstance(error, MontyCrashedError):
        missing = (error.exit_status or 0) - UNLOCKED
        if 0 <= missing < len(Layer):
            layer = tuple(Layer)[missing]
            unknown = unknown_machine() if layer is Layer.SYSTEM_CALLS else ""
            lacks = {"missing": [str(layer)], "cause": unknown or None}
            raise ConfigError(code="not_locked", facts={"task": "run", **lacks})
        if limit is None:
            return ScriptError(code="worker_lost", is_lost=True)
        return ScriptError(limit)
    if isinstance(error, MontyRuntimeError | MontySyntaxError):
        line, column = place(error.traceback())
        words = limit or error.display("type-msg")
        if words.startswith(FROZEN):
            words += ". Neither ctx nor a frozen dataclass can be changed."
        return ScriptError(words[:MESSAGE_CHARS], line=line, column=column)
    return ScriptError(str(error)[:MESSAGE_CHARS])


def wall_time(wall_s: float) -> str:
    """Say that a script took too long, waiting included."""
    return f"It ran longer than {wall_s:g} s of wall time. Do less in one step."


def cpu_time(cpu_s: float) -> str:
    """Say that a script computed for too long."""
    return f"It ran longer than {cpu_s:g} s of CPU time. Do less in one step."


def overrun(limit: Limit, watch: ScriptWatch) -> str:
    """Say what the host's own watch has seen."""
    if limit is Limit.THREADS:
        return f"Its process had more than {THREADS_MAX} threads; the interpreter needs two."
    return wall_time(watch.wall_s) if limit is Limit.WALL else cpu_time(watch.cpu_s)


def place(frames: Sequence[Frame]) -> tuple[int | None, int | None]:
    """Find the innermost line of the script's own text."""
    own = [frame for frame in frames if frame.filename == SOURCE_FEED]
    return (own[-1].line, own[-1].column) if own else (None, None)


def _limit(
    error: MontyError, limits: Limits, watch: ScriptWatch, computed_s: float | None
) -> str | None:
    """Name the limit that was exceeded, if one was; a script can raise the same by itself."""
    if isinstance(error, MontyCrashedError):
        return overrun(watch.judge(computed_s) or Limit.WALL, watch) if error.timed_out else None
    raised, words = error.exception(), str(error)
    if isinstance(raised, TimeoutError) and "time limit exceeded" in words and watch.has_lasted:
        return wall_time(watch.wall_s)
    if isinstance(raised, MemoryError) and any(each in words for each in MEMORY_WORDS):
        most = limits.step_memory_bytes / MIB
        return f"It used more than {most:g} MiB of memory. Keep less at once."
    if isinstance(raised, RecursionError) and "maximum recursion depth exceeded" in words:
        return f"It called itself more than {RECURSION_MAX} times deep (recursion). Use a loop."
    if isinstance(raised, RuntimeError) and "suspension" in words:
        return (
            f"It asked more than {SUSPENSIONS_MAX} times for the time, for chance or to sleep."
            " Ask once and keep the answer; to wait, return wake_at."
        )
    return None
