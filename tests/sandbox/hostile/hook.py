"""The test-only way to be a worker: real worker programs in which a payload runs as the process.

JavaScript: the real worker serves, and a script with the mark `native: <payload>` does not run but
lets that payload run in its place, behind the worker's own lock. Python: the real launcher locks
itself, and where it would become the interpreter it tries every payload and tells what came of it.
`is_locked` is false where a test shows that an attack is real: then no layer is put on.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
from typing import Any, Final

from duly.cell import lock
from duly.sandbox import javascript_worker, python_launcher, wire
from tests.sandbox.hostile import payload

MARK: Final = re.compile(r"native: (\w+)")


def _unlock() -> None:
    lock.lock = lambda channels, profile: lock.LockReport(("nothing",))


def serve(channel: int, *, is_locked: bool, places: payload.Places) -> None:
    """Be a worker of JavaScript."""
    if not is_locked:
        _unlock()
    payload.CHANNEL.append(payload.Wire(channel))
    known = payload.OUTSIDE | payload.INSIDE
    real = javascript_worker.Interpreter.begin

    def begin(interpreter: Any, request: wire.Begin) -> bytes:
        found = MARK.search(request.text)
        if found is None or request.entry == wire.NOTHING:
            return real(interpreter, request)
        said = payload.attempt(known[found[1]][2], places)
        return wire.pack(wire.Turn(end=wire.End(value=said)))

    javascript_worker.Interpreter.begin = begin  # type: ignore[method-assign,assignment]
    javascript_worker.serve(channel)


def launch(*, is_locked: bool, places: payload.Places) -> None:
    """Be a launcher of Python's interpreter, up to the moment it would become it."""
    if not is_locked:
        _unlock()

    def become(_program: str, _words: list[str], environment: dict[str, str]) -> None:
        if is_locked:
            assert environment == {}
            ctypes.CDLL(None).clearenv()
        said = {
            name: payload.attempt(each[2], {**places, "MADE": f"{places['MADE']}-{name}"})
            for name, each in payload.OUTSIDE.items()
            if name != "becomes_another_program"
        }
        os.write(1, json.dumps(said).encode())
        os._exit(0)

    os.execve = become  # type: ignore[assignment]
    python_launcher.main(1, "no", str(python_launcher.find_binary()))
