"""What a forked child has of its parent's host: nothing it can use, close or end (H1).

Law 1: a thing that belongs to one process is registered here while it is open. A forked child
       abandons it (`abandon`) and never frees it: closing a SQLite connection, at the end of the
       interpreter or by the garbage collector, would checkpoint and unlink the parent's log.
Law 2: of a host's event loop only the task that forked goes on in the child, as only the thread
       that forked does. Every other task ends there without another step: it would do a second
       time what the parent does. What the loop had planned is dropped, and it watches nothing,
       because the child shares its epoll set with the parent and would change what the parent sees.
Law 3: nothing of this costs anything before a process forks.

A child made by C code that calls fork behind Python's back is not seen here.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import selectors
import signal
import threading
from contextlib import suppress
from typing import Any, Final, Protocol
from weakref import WeakSet


class ParentOwned(Protocol):
    """What belongs to the process that made it."""

    def abandon(self) -> None:
        """Let go of it in a forked child: write nothing, end nothing, wait for nothing."""


# No fork happens while a thread holds this: what it opens is registered, or is not there yet.
HELD: Final = threading.RLock()

_owned: Final[WeakSet[ParentOwned]] = WeakSet()
_depth = 0


def own(thing: ParentOwned) -> None:
    """Register a thing that only this process may use."""
    _owned.add(thing)


def depth() -> int:
    """Return how many forks lie between the first process and this one."""
    return _depth


def _abandon_all() -> None:
    global _depth
    _depth += 1
    HELD.release()
    things = tuple(_owned)
    _owned.clear()
    for thing in things:
        leak(thing)
    for thing in things:
        thing.abandon()


def leak(thing: object) -> None:
    """Hold a thing beyond the end of the interpreter, and with it all that it refers to then."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def quiet(loop: asyncio.AbstractEventLoop) -> None:
    """End, in a forked child, every task but the one that forked, and all the loop would do."""
    if loop.is_closed():
        return
    inner: Any = loop
    leak(loop)
    if hasattr(inner, "_selector"):  # asyncio's own; another loop brings its own care
        leak(inner._selector)
        inner._selector = selectors.DefaultSelector()
        for handle in (*inner._ready, *inner._scheduled):
            handle.cancel()
    with suppress(ValueError):  # only the main thread may, and the child's is the one that forked
        # A signal to the child would be told to the parent's loop.
        signal.set_wakeup_fd(-1)
    for task in asyncio.all_tasks(loop):
        leak(task)
        if not getattr(task.get_coro(), "cr_running", False):
            _end(task)


def _end(task: Any) -> None:
    """Make a task done without another step of its coroutine."""
    waits_for = task._fut_waiter
    for future in (task, *(() if waits_for is None else (waits_for,))):
        for callback, _ in tuple(future._callbacks or ()):
            # Waking a task that is done would be an error in the loop's log.
            if isinstance(getattr(callback, "__self__", None), asyncio.Task):
                future.remove_done_callback(callback)
    with suppress(TypeError):  # a task factory's own kind of task stays asleep
        asyncio.Future.cancel(task)


os.register_at_fork(before=HELD.acquire, after_in_parent=HELD.release, after_in_child=_abandon_all)
