"""The worker: one process, one JavaScript context at a time, locked before its first word.

Law 1: it takes work only when every layer of its lock was proven from inside, or when its host
       was told to accept less (X1).
Law 2: a script runs only between a request and its answer. Until the next request nothing of it
       runs, so a script that was dropped makes no further step (C3).
Law 3: CPU time and memory are bounded here first, by name; the host's watchdog stands behind.

The next contexts are made while nobody waits: they are as fresh as if they were made later.
"""

from __future__ import annotations

import gc
import os
import re
import resource
import select
from collections.abc import Callable
from importlib.resources import files
from typing import Final

import _quickjs  # type: ignore[import-not-found]  # its package would start a thread
import msgspec

from duly.sandbox import lock, wire

STACK_BYTES: Final = 1024 * 1024  # enough to write a value a hundred levels deep (T8)
# Room for the interpreter, its text and the copies that are sent; a script has its own limit.
ADDRESS_SPACE_BYTES: Final = 1024 * 1024 * 1024
# The prelude stands below every line a script has, so a frame tells by its line whose it is.
PRELUDE_LINE: Final = 10_000
FRESH_CONTEXTS: Final = 4
JOBS_BETWEEN_LOOKS: Final = 64
TAKE_S: Final = 1.0
EXPLAINED: Final = re.compile(r"(?:(\w+): )?(.*?)\n((?:    at .*\n?)*)", re.DOTALL)

OUT_OF_MEMORY: Final = ("InternalError", "out of memory", "")
INTERRUPTED: Final = ("InternalError", "interrupted", "")


class Broken(Exception):
    """The script broke, outside of what its own code could see."""

    def __init__(self, name: str, message: str, stack: str) -> None:
        super().__init__(message)
        self.fault = wire.Fault(name=name, message=message, stack=stack)


def cpu_s() -> float:
    """Answer how long this process has been computing."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Interpreter:
    """One fresh context and the functions of its prelude."""

    def __init__(self, prelude: str) -> None:
        self._context = _quickjs.Context()
        self._context.set_max_stack_size(STACK_BYTES)
        # The binding reads no properties, so the functions pass through a global for a moment.
        self._context.set("duly", self._context.eval(prelude))
        names = ("begin", "watch", "declare", "start", "answer", "fail", "take")
        self._enter = {name: self._context.eval(f"duly.{name}") for name in names}
        self._context.eval("delete globalThis.duly")
        self._limit_s = 0.0
        self._spent_s = 0.0
        self._since_s = 0.0

    def begin(self, request: wire.Begin) -> bytes:
        """Load the text and run the step, or read the declaration."""
        self._limit_s = request.bounds.cpu_s
        self._context.set_memory_limit(request.bounds.memory_bytes)
        return self._turn(lambda: self._begin(request))

    def answer(self, request: wire.Answer) -> bytes:
        """Give a call its result and go on."""
        value = msgspec.json.encode(request.value).decode()
        names = "" if request.names is None else msgspec.json.encode(request.names).decode()
        return self._turn(lambda: self._run("answer", request.call, value, names))

    def _begin(self, request: wire.Begin) -> None:
        settings = {"limits": request.bounds, "world": request.world}
        self._enter["begin"](msgspec.json.encode(settings).decode())
        self._look()
        self._run("watch", self._context.module(request.text))
        if request.entry is None:
            self._run("declare")
        else:
            self._run("start", msgspec.json.encode(request.entry).decode())

    def _turn(self, run: Callable[[], None]) -> bytes:
        self._since_s = cpu_s() - self._spent_s
        try:
            try:
                run()
            except (Broken, _quickjs.JSException, MemoryError, UnicodeError) as error:
                fault = _explain(error)
                self._context.set_time_limit(TAKE_S)
                self._enter["fail"](fault.name, fault.message, fault.stack)
            self._context.set_time_limit(TAKE_S)
            body: bytes = self._enter["take"]().encode()
        except (_quickjs.JSException, MemoryError, UnicodeError) as error:
            # Not even the prelude has room left; then the script has nothing to say but this.
            body = wire.pack(wire.Turn(end=wire.End(error=_explain(error))))
        self._spent_s = cpu_s() - self._since_s
        return body

    def _run(self, name: str, *args: object) -> None:
        """Enter the context, then run what became ready, until nothing is."""
        self._look()
        self._enter[name](*args)
        count = 0
        while self._context.execute_pending_job():
            count += 1
            # The interpreter's own limit begins anew with every job (`for (;;) await null`).
            if count % JOBS_BETWEEN_LOOKS == 0:
                self._look()
        self._look()

    def _look(self) -> None:
        left_s = self._limit_s - (cpu_s() - self._since_s)
        if left_s <= 0:
            raise Broken(*INTERRUPTED)
        self._context.set_time_limit(left_s)


def _explain(error: BaseException) -> wire.Fault:
    if isinstance(error, Broken):
        return error.fault
    if isinstance(error, MemoryError):
        return Broken(*OUT_OF_MEMORY).fault
    if isinstance(error, UnicodeError):
        return Broken("", "The script broke with half a character in its message.", "").fault
    found = EXPLAINED.match(str(error) + "\n")
    name, message, stack = found.groups("") if found else ("", str(error), "")
    return wire.Fault(name=name, message=message[:4000], stack=stack[:4000])


def serve(channel: int) -> None:
    """Answer requests until the channel ends."""
    prelude = "\n" * PRELUDE_LINE + (files("duly.sandbox") / "prelude.js").read_text("utf-8")
    fresh = [Interpreter(prelude)]  # what is loaded late is loaded now: the lock lets nothing in
    wire.pack(wire.Turn())
    report = lock.lock((channel,), lock.Profile(memory_bytes=ADDRESS_SPACE_BYTES))
    _write(channel, wire.pack(wire.Ready(held=report.held, missing=report.missing)))
    gc.freeze()  # what is here now stays, and need not be looked at after every script
    requests = select.poll()
    requests.register(channel, select.POLLIN)
    running: Interpreter | None = None
    while True:
        while len(fresh) < FRESH_CONTEXTS and not requests.poll(0):
            fresh.append(Interpreter(prelude))
        body = _read(channel)
        if body is None:
            return
        request = wire.unpack_request(body)
        if isinstance(request, wire.Begin):
            running = fresh.pop() if fresh else Interpreter(prelude)
            _write(channel, running.begin(request))
        elif isinstance(request, wire.Answer):
            assert running is not None, "a call is answered before the script was begun"
            _write(channel, running.answer(request))
        else:
            running = None
            gc.collect()


def _read(channel: int) -> bytes | None:
    head = _read_exactly(channel, wire.LENGTH.size)
    return None if head is None else _read_exactly(channel, wire.LENGTH.unpack(head)[0])


def _read_exactly(channel: int, size: int) -> bytes | None:
    body = bytearray()
    while len(body) < size:
        piece = os.read(channel, size - len(body))
        if not piece:
            return None
        body += piece
    return bytes(body)


def _write(channel: int, body: bytes) -> None:
    left = memoryview(wire.frame(body))
    while left:
        left = left[os.write(channel, left) :]
