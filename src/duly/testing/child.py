"""Runs a part of an exam in a process of its own, which may be killed.

Law: nothing of the connector runs in the process that examines; what comes out of a child is JSON
and is read as one type alone.
"""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from duly.connectors.raised import kind_of, words_of

R = TypeVar("R")

WELL, ILL = b"+", b"-"  # the first byte of what a child says


class ExamFailed(AssertionError):
    """The connector did not tell the truth, or made a change twice."""


def fresh(folder: Path, name: str) -> Path:
    """Make an empty folder for one point."""
    here = folder / name
    here.mkdir(parents=True)
    return here


def in_child(work: Callable[[], R], kind: type[R]) -> R | None:
    """Do something in a process of its own and return its result; None if it was killed.

    It comes as JSON and is read as `kind` alone: in there runs the connector that is examined.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # A child that only ever runs its own loop has no use for the threads of its parent.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _work_and_leave(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return None
    mark, body = said[:1], said[1:]
    if mark != WELL:
        told = body.decode(errors="replace") or "its process ended without a word"
        raise ExamFailed(f"The exam itself failed: {told}")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise ExamFailed(f"The exam itself failed: its process said {error}") from None


def _work_and_leave(work: Callable[[], object], writing: int) -> None:
    gc.disable()  # It would walk, and so copy, all that the child shares with its parent.
    try:
        said = WELL + msgspec.json.encode(work())
    except BaseException as error:
        said = ILL + f"{kind_of(error)}: {words_of(error)}".encode(errors="replace")
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(said)
    os._exit(0)
