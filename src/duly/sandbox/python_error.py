"""What went wrong inside the interpreter, in words and lines of the script (X3).

Law: a limit is named; a line is the script's own; no frame, path or word of the host is told.
"""

from __future__ import annotations

from typing import Final

from duly.config import MIB, Limits
from duly.errors import ScriptError
from duly.sandbox.python_launcher import THREADS_MAX
from duly.sandbox.python_wire import Raised
from duly.sandbox.watch import Limit, ScriptWatch

SOURCE_FEED: Final = "<python-input-2>"  # the names, the prelude, then the script
RECURSION_MAX: Final = 500
QUESTIONS_MAX: Final = 100_000
TOO_MANY_QUESTIONS: Final = ("RuntimeError", "more questions than a script may ask its host")
MESSAGE_CHARS: Final = 2000
FROZEN: Final = "FrozenInstanceError: "


def explain(raised: Raised, limits: Limits, watch: ScriptWatch) -> ScriptError:
    """Say what ended a script, with the line of its own text."""
    line, column = place(raised)
    words = _limit(raised, limits, watch) or raised.words
    if words.startswith(FROZEN):
        words += ". Neither ctx nor a frozen dataclass can be changed."
    return ScriptError(words[:MESSAGE_CHARS], line=line, column=column)


def memory(limits: Limits) -> str:
    """Say that a script used too much memory."""
    most = limits.step_memory_bytes / MIB
    return f"It used more than {most:g} MiB of memory. Keep less at once."


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


def place(raised: Raised) -> tuple[int | None, int | None]:
    """Find the innermost line of the script's own text."""
    own = [(line, column) for name, line, column in raised.places if name == SOURCE_FEED]
    return own[-1] if own else (None, None)


def _limit(raised: Raised, limits: Limits, watch: ScriptWatch) -> str | None:
    """Name the limit that was exceeded, if one was; a script can raise the same by itself."""
    kind, message = raised.kind, raised.message
    if kind == "TimeoutError" and "time limit exceeded" in message and watch.has_lasted:
        return wall_time(watch.wall_s)
    if kind == "MemoryError" and "memory limit exceeded" in message:
        return memory(limits)
    if kind == "RecursionError" and "maximum recursion depth exceeded" in message:
        return f"It called itself more than {RECURSION_MAX} times deep (recursion). Use a loop."
    if (kind, message) == TOO_MANY_QUESTIONS:
        return (
            f"It asked more than {QUESTIONS_MAX} times for the time, for chance or to sleep."
            " Ask once and keep the answer; to wait, return wake_at."
        )
    return None
