"""How a connector behaves when it is told to stop: the part of its exam that needs no kill.

Law 1: a call that was told to stop, wherever it stood, ends soon, and so does a question: the host
       waits for neither without limit (L13).
Law 2: what a call hands to threads and tasks is seen to its end: nothing is changed after it (L6).
       A request that was on its way may arrive after the end of its call: the outside is slow
       then, and the connector at fault only if a thread or a process of its own is still there.
Law 3: what it raises is an Exception whose words can be read (L13).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from duly.connectors.attach import attach, detach
from duly.connectors.raised import kind_of
from duly.connectors.watch import Watch
from duly.env import Loop, machine_ms

STOPS_MAX: Final = 12  # so many moments of one call are tried
END_LIMIT_S: Final = 5.0  # how long a call may take to end after it was told to
LINGER_S: Final = 0.05  # how long the outside is looked at after the end, for what was not seen
POOLS: Final = ("asyncio_", "duly")  # threads that the host sees, and that wait for their next work

UNSEEN: Final = (
    "it went on where the host cannot see it: the outside was changed after the call had ended."
    " Hand work to self.in_thread, asyncio.to_thread or a task, not to a thread of your own"
)


async def stop_call(
    make: Callable[[], Coroutine[Any, Any, Any]], step: int, effects: Callable[[], int]
) -> tuple[list[str], bool]:
    """Tell a call to stop at one of its steps; return what was wrong, and whether it got there."""
    loop = asyncio.get_running_loop()
    attach(loop)
    others = _at_work()
    try:
        watch = Watch("exam", clock=machine_ms)
        watch.begin(make())
        is_reached = await _until_step(watch, step)
        watch.stop()
        if not await watch.settled(END_LIMIT_S):
            at_work = " and ".join(sorted(set(watch.parts)))
            return [
                f"told to stop, it went on for {END_LIMIT_S:g} s and more ({at_work})"
            ], is_reached
        is_left, seen = bool(_at_work() - others), effects()
        await Loop().sleep(LINGER_S)
        return [UNSEEN] if is_left and effects() != seen else [], is_reached
    finally:
        detach(loop)


def _at_work() -> set[int]:
    """Name the threads that no host sees, and the processes, that were started here."""
    found = {
        each.native_id or 0 for each in threading.enumerate() if not each.name.startswith(POOLS)
    }
    for each in Path("/proc/self/task").glob("*/children"):  # Linux alone
        with suppress(OSError):
            found |= {int(child) for child in each.read_text().split()}
    return found


async def _until_step(watch: Watch, step: int) -> bool:
    """Wait until a call has taken so many steps, or has ended."""
    env = Loop()
    while watch.pace.step < step:
        if watch.reply is not None:
            return False
        await env.sleep(0)
    return True


def strange(error: BaseException) -> str | None:
    """Say what is wrong with an error besides what it means, if anything is."""
    if not issubclass(type(error), Exception):
        return f"it raised {kind_of(error)}, which is no Exception: a host only knows it as unknown"
    try:
        str(error)
    except BaseException as trouble:
        return f"it raised {kind_of(error)}, whose words raise {kind_of(trouble)}"
    return None
