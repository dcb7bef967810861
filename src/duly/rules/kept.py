"""What a run keeps of itself as JSON text: its error, its log, its calls, the title it claims.

Law: each has one type that writes it and one function that reads it; no other code knows the keys.
A reader takes what another program may have spoiled: a person must still see what is there (L11).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from duly.errors import Invalid
from duly.rules.value import AT_MS_MAX, Json, decode, encode

ERROR_BYTES_MAX: Final = 2 * 1024 * 1024
LOGS_BYTES_MAX: Final = 4 * 1024 * 1024  # a run's log is cut long before it comes near this
DULY: Final = "duly"  # who said a line that is not the script's


@dataclass(frozen=True, slots=True)
class KeptError:
    """Why a run stopped: class of the failure (F1), words, place, and the code if it has one (R1).

    `args` are those of the call, as they were shown: a cut text, or a value.
    """

    failure: str = ""
    status: str = ""
    message: str = ""
    line: int | None = None
    tool: str | None = None
    args: Json = None
    code: str | None = None

    @property
    def text(self) -> str:
        """The error as it is stored."""
        kept: Json = {
            "class": self.failure,
            "code": self.code,
            "status": self.status,
            "message": self.message,
            "line": self.line,
            "tool": self.tool,
            "args": self.args,
        }
        return encode(kept, "error", limit_bytes=ERROR_BYTES_MAX)


def read_error(text: str | None) -> KeptError:
    """Read a stored error; a text that Duly did not write is the message."""
    if text is None:
        return KeptError()
    kept = _read_object(text)
    if kept is None or not isinstance(kept.get("message", ""), str):
        return KeptError(message=text)
    line = kept.get("line")
    return KeptError(
        failure=_word_in(kept, "class") or "",
        status=_word_in(kept, "status") or "",
        message=kept.get("message", ""),
        line=line if isinstance(line, int) else None,
        tool=_word_in(kept, "tool"),
        args=kept.get("args"),
        code=_word_in(kept, "code"),
    )


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a run's log; `source` is the step that said it, or `duly`."""

    at_ms: int
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class KeptLog:
    """What a run logged, and how many lines more there were (X4)."""

    lines: tuple[LogLine, ...] = ()
    dropped: int = 0

    @property
    def text(self) -> str | None:
        """The log as it is stored; nothing without a line."""
        if not self.lines:
            return None
        lines: list[Json] = [
            {"at": each.at_ms, "from": each.source, "text": each.text} for each in self.lines
        ]
        kept: Json = {"lines": lines, "dropped": self.dropped}
        return encode(kept, "logs", limit_bytes=LOGS_BYTES_MAX)


def read_log(text: str | None) -> KeptLog:
    """Read a stored log; a text that Duly did not write is its one line."""
    if text is None:
        return KeptLog()
    kept = _read_object(text) or {}
    given, dropped = kept.get("lines"), kept.get("dropped")
    given = given if isinstance(given, list) else []
    lines = tuple(line for line in map(_read_line, given) if line is not None)
    if not lines or len(lines) < len(given) or not isinstance(dropped, int):
        return KeptLog((LogLine(0, DULY, text),))
    return KeptLog(lines, dropped)


def _read_line(given: Json) -> LogLine | None:
    kept = given if isinstance(given, dict) else {}
    at_ms, source, text = kept.get("at"), kept.get("from"), kept.get("text")
    if type(at_ms) is not int or not isinstance(source, str) or not isinstance(text, str):
        return None
    if not 0 <= at_ms <= AT_MS_MAX:
        return None
    return LogLine(at_ms, source, text)


@dataclass(frozen=True, slots=True)
class KeptCall:
    """One call of a step, without secrets: its tool, its arguments as text, and how it ended."""

    tool: str
    args: str
    outcome: str
    duration_ms: int


def read_calls(text: str | None) -> tuple[KeptCall, ...]:
    """Read the stored calls of a run; what Duly did not write is left out."""
    try:
        kept = None if text is None else decode(text)
    except Invalid:
        return ()
    return tuple(filter(None, map(_read_call, kept if isinstance(kept, list) else ())))


def _read_call(given: Json) -> KeptCall | None:
    kept = given if isinstance(given, dict) else {}
    tool, outcome = _word_in(kept, "tool"), _word_in(kept, "outcome")
    duration_ms = kept.get("duration_ms")
    if tool is None or outcome is None or type(duration_ms) is not int:
        return None
    return KeptCall(tool, str(kept.get("args", "")), outcome, duration_ms)


def title_in(prepared: Json) -> str | None:
    """Find the title that a script claims in its prepare result: `ui.title` (L11)."""
    shown = prepared.get("ui") if isinstance(prepared, dict) else None
    title = shown.get("title") if isinstance(shown, dict) else None
    return title if isinstance(title, str) else None


def read_title(prepared_text: str | None) -> str | None:
    """Read the title that a script claims out of its stored prepare result."""
    return None if prepared_text is None else title_in(_read_object(prepared_text))


def _read_object(text: str) -> dict[str, Any] | None:
    try:
        kept = decode(text)
    except Invalid:
        return None
    return kept if isinstance(kept, dict) else None


def _word_in(kept: dict[str, Any], key: str) -> str | None:
    found = kept.get(key)
    return found if isinstance(found, str) else None
