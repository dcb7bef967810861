"""What was raised, in words that may be kept and logged: no secret, and nothing unseen (A5, G9).

Law 1  The text of an error that is not ours never reaches a log as it is, nor does its traceback,
       which repeats it. Both go through here first, so that every handler of a log gets them clean.
Law 2  An error that a caller gets has no secret in its message, its subject, its facts or its
       offer: a caller may have put one into any argument, and an error repeats what was given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from traceback import format_exception
from typing import Any, Final

from duly import errors
from duly.errors import DulyError
from duly.rules.redaction import Redactor, redact, redact_text
from duly.rules.shown import cut, visible

TRACE_CHARS: Final = 20_000
UNSAID: Final = "(no message)"
# What stands behind a word that was cut: the end of its quotes, or the mark of the cut.
CUT_MARKS: Final = re.compile(r"(['\"\]…])")


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


def mask(error: DulyError, secrets: Redactor) -> None:
    """Take every secret out of an error, before a caller gets it (A5)."""
    if not secrets.known().needles:
        return
    is_rendered = str(error) == errors.render(error)
    for name, each in vars(error).items():
        if name != "code":
            setattr(error, name, _masked(each, secrets))
    # A fact may have been cut within a secret, which cannot be seen in the middle of a sentence.
    message = errors.render(error) if is_rendered else redact_text(str(error), secrets)
    error.args = (message,)


def _masked(value: Any, secrets: Redactor) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        pieces = CUT_MARKS.split(redact_text(value, secrets))
        return "".join(redact_text(each, secrets, is_cut=True) for each in pieces)
    if isinstance(value, Mapping):
        masked = {str(key): _masked(each, secrets) for key, each in value.items()}
        return {_masked(key, secrets): each for key, each in masked.items()}
    if isinstance(value, list | tuple):
        return type(value)(_masked(each, secrets) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        shown = {each.name: _masked(getattr(value, each.name), secrets) for each in fields(value)}
        return replace(value, **shown)
    return redact(value, secrets) if isinstance(value, int | float) else value
