"""Reads what a connector raised, once, so that nothing else in the host meets the raw object (L13).

Law 1: for every exception `tame` returns one plain error of a type the rules know, with words and
       marks that can be read; reading them again raises nothing.
Law 2: what an error means is taken from its type, never from its words; a mark that cannot be read
       is not there (L4).
Law 3: `sys.exit()` of a connector is an error like any other. What a signal handler raises in the
       main thread, above all a person's Ctrl-C, is not the connector's and is passed on.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Mapping
from types import CodeType, TracebackType
from typing import Any, Final, cast

from duly import errors
from duly.rules.failure import FOR_OWNER

WORDS_CHARS_MAX: Final = 10_000
GAVE_UP: Final = "gave up half-way"


def words_of(thing: object) -> str:
    """Return `str(thing)` as a plain text; if that raises, a text that says so."""
    try:
        return _plain(str(thing)).strip()
    except BaseException as error:
        if is_of_a_signal(error):
            raise
        return f"{kind_of(thing)}, whose words cannot be read"


def words_at(thing: object, name: str) -> str:
    """Return an attribute as a plain text; if reading it raises, a text that says so."""
    try:
        value = getattr(thing, name)
    except BaseException as error:
        if is_of_a_signal(error):
            raise
        return f"{kind_of(thing)}, whose {name} cannot be read"
    return words_of(value)


def tame(error: BaseException) -> Exception:
    """Make a plain error out of what was raised."""
    made = _made(error)
    return made.with_traceback(_trace_of(error))


def _made(error: BaseException) -> Exception:
    for kind in type(error).__mro__:
        if kind in MADE:
            return MADE[kind](error)
    return RuntimeError(words_of(error) or kind_of(error))


def _exited(error: BaseException) -> Exception:
    code = words_of(error)
    return RuntimeError(f"it called sys.exit({code})")


def _owners(error: BaseException) -> str:
    """Return the code by which the owner of a connection is meant; another code is not there."""
    code = _mark(error, "code", str)
    return code if code in FOR_OWNER else ""


def _transient(error: BaseException) -> Exception:
    outcome = _mark(error, "outcome", str)
    known = outcome if outcome in ("refused", "not_sent") else None
    return errors.Transient(
        words_of(error),
        retry_after_s=_mark(error, "retry_after_s", int, float),
        outcome=cast("errors.Outcome | None", known),
    )


# The message is the author's own; an error without one gets the first line of its type's docstring.
MADE: Final[Mapping[type[BaseException], Callable[[BaseException], Exception]]] = {
    errors.NotSent: lambda error: errors.NotSent(
        words_of(error), retry_after_s=_mark(error, "retry_after_s", int, float)
    ),
    errors.Refused: lambda error: errors.Refused(
        words_of(error),
        remembered=_mark(error, "remembered", bool) is True,
        code=_owners(error),
    ),
    errors.AuthNeeded: lambda error: errors.AuthNeeded(
        words_of(error),
        connect=_mark(error, "connect", str),
        secret=_mark(error, "secret", str),
    ),
    errors.PermissionDenied: lambda error: errors.PermissionDenied(words_of(error)),
    errors.Transient: _transient,
    errors.UnknownOutcome: lambda error: errors.UnknownOutcome(words_of(error)),
    errors.Invalid: lambda error: errors.Invalid(
        words_of(error), path=_mark(error, "path", str) or ""
    ),
    TimeoutError: lambda error: TimeoutError(words_of(error)),
    ConnectionError: lambda error: ConnectionError(words_of(error) or kind_of(error)),
    asyncio.CancelledError: lambda error: RuntimeError(GAVE_UP),
    SystemExit: _exited,
    KeyboardInterrupt: lambda error: RuntimeError("it raised KeyboardInterrupt"),
}


def is_of_a_signal(error: BaseException) -> bool:
    """Tell an exception that a signal handler raised here from one that the code raised itself."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler and type(error) is KeyboardInterrupt:
        return True  # it raises out of any line, and leaves no frame of its own
    codes = {_code_of(signal.getsignal(each)) for each in signal.valid_signals()} - {None}
    trace = _trace_of(error)
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler: object) -> CodeType | None:
    """Find the code of a signal's handler: a function, a method, or a partial of one."""
    handler = getattr(handler, "func", handler)
    handler = getattr(handler, "__func__", handler)
    code = getattr(handler, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _mark(error: BaseException, name: str, *kinds: type) -> Any:
    """Read a mark of an error; one that cannot be read, or is of another kind, is not there."""
    try:
        value = getattr(error, name)
    except BaseException as raised:
        if is_of_a_signal(raised):
            raise
        return None
    return value if type(value) in kinds else None


def _trace_of(error: BaseException) -> TracebackType | None:
    # The class of an error may define `__traceback__` itself, so Python's own is read.
    found = BaseException.__dict__["__traceback__"].__get__(error)
    return cast("TracebackType | None", found)


def _plain(text: str) -> str:
    """Copy a text, which may be of a subclass of str, and cut it."""
    return str.__getitem__(text, slice(WORDS_CHARS_MAX))


def kind_of(thing: object) -> str:
    """Name the type of something."""
    return _plain(type.__dict__["__name__"].__get__(type(thing)))
