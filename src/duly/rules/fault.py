"""What was raised, in words that may be kept and logged: no secret, and nothing unseen (A5, G9).

Law: the text of an error that is not ours never reaches a log as it is, nor does its traceback,
which repeats it. Both go through here first, so that every handler of a log gets them clean.
"""

from __future__ import annotations

from traceback import format_exception
from typing import Final

from duly.rules.redaction import Redactor, redact_text
from duly.rules.shown import cut, visible

TRACE_CHARS: Final = 20_000
UNSAID: Final = "it cannot say why"


def describe(error: BaseException, secrets: Redactor) -> str:
    """Say what was raised, in words every store can keep; they are not cut."""
    try:
        said = redact_text(str(error), secrets)
    except BaseException:
        said = UNSAID
    words = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return words.encode("utf-8", "replace").decode().replace("\0", "?")


def trace(error: BaseException, secrets: Redactor) -> str:
    """Write down where something was raised, for a log; indented, so that no line forges one."""
    try:
        lines = "".join(format_exception(error)).rstrip("\n")
    except BaseException:
        lines = f"{type(error).__name__}: {UNSAID}"
    shown = cut(visible(redact_text(lines, secrets), is_block=True), TRACE_CHARS)
    return "\n".join(f"  {line}" for line in shown.split("\n"))
