"""What a run keeps of itself as JSON text: its error, its log, and the title it claims.

Law: each has one type that writes it and one function that reads it; no other code knows the keys.
A reader takes what another program may have spoiled: a person must still see what is there (L11).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from duly.errors import Invalid
from duly.rules.value import Json, decode, encode

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
    if kept is None:
        return KeptError(message=text)
    return KeptError(
        failure=kept.get("class", ""),
        status=kept.get("status", ""),
        message=kept.get("message", ""),
        line=kept.get("line"),
        tool=kept.get("tool"),
        args=kept.get("args"),
        code=kept.get("code"),
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
    """Read a stored log."""
    if text is None:
        return KeptLog()
    kept = cast("dict[str, Any]", decode(text))
    lines = (LogLine(each["at"], each["from"], each["text"]) for each in kept["lines"])
    return KeptLog(tuple(lines), kept["dropped"])


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
