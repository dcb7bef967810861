"""The worker: one process, one JavaScript context at a time, locked before its first word.

Law 1: it takes work only when every layer of its lock was proven from inside, or when its host
       was told to accept less (X1).
Law 2: a script runs only between a request and its answer. Until the next request nothing of it
       runs, so a script that was dropped makes no further step (C3).
Law 3: CPU time and memory are bounded here first, by name; the host's watchdog stands behind.
Law 4: a script that was refused memory has ended, even if it caught the error: the interpreter
       refuses at twice its limit, so the most this process held tells that it went past (X2).

The next contexts are made while the host does not wait: they are as fresh as if made later.
"""

from __future__ import annotations

import gc
import os
import re
import resource
import select
from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final, NamedTuple

import _quickjs  # type: ignore[import-not-found]  # its package would start a thread
import msgspec

from duly import errors
from duly.cell import lock
from duly.sandbox import wire, worker_channel
from duly.sandbox.javascript_code import (
    EVAL_SCRIPT,
    STACK_BYTES,
    Compiler,
    HeldValue,
    find_compiler,
)

# Room for the interpreter, its text and the copies that are sent; a script has its own limit.
ADDRESS_SPACE_BYTES: Final = 1024 * 1024 * 1024
# A script's text begins below every line of ours, so a frame tells by its line whose it is.
SCRIPT_LINE: Final = 1_000
ABOVE: Final = "\n" * SCRIPT_LINE
LATE: Final = "= LATE_PARTS;"
FRESH_CONTEXTS: Final = 2
# A script that asked is answered at once or after a while; in between nothing else is begun.
PATIENCE_MS: Final = 2
JOBS_BETWEEN_LOOKS: Final = 64
TAKE_S: Final = 1.0
STATUS_BYTES: Final = 4096
FAULTS_BETWEEN_LOOKS: Final = 2  # a page is 2 MiB at most
PEAK: Final = re.compile(rb"VmHWM:\s+(\d+) kB")
EXPLAINED: Final = re.compile(r"(?:(\w+): )?(.*?)\n((?:    at .*\n?)*)", re.DOTALL)

OUT_OF_MEMORY: Final = ("InternalError", "out of memory", "")
INTERRUPTED: Final = ("InternalError", "interrupted", "")


class ContextText(NamedTuple):
    """What stands in every context: the bridge, and the parts of it that many steps do without."""

    prelude: str
    late: str

    def whole(self) -> str:
        """Put the late parts into their place."""
        before, mark, after = self.prelude.partition(LATE)
        assert mark, "the prelude has a place for its late parts"
        return f"{before}= {self.late};{after}"


def read_text() -> ContextText:
    """Read what stands in every context."""
    here = files("duly.sandbox")
    return ContextText(*((here / name).read_text("utf-8") for name in ("prelude.js", "late.js")))


class Prelude:
    """What every context begins with, compiled where that is possible."""

    def __init__(self, text: ContextText, compiler: Compiler | None) -> None:
        self._text = text.whole()
        self.compiler = compiler
        encoded = self._text.encode()
        self._code = None if compiler is None else compiler.compile(encoded, EVAL_SCRIPT)

    def enter(self, context: Any) -> tuple[Any, HeldValue | None]:
        """Run it in a context; return its function, as the binding and as the library has it."""
        if self.compiler is None or self._code is None:
            return context.eval(self._text), None
        return self.compiler.evaluate(context, self._code)


class Broken(Exception):
    """The script broke, outside of what its own code could see."""

    def __init__(self, name: str, message: str, stack: str) -> None:
        super().__init__(message)
        self.fault = wire.Fault(name=name, message=message, stack=stack)


def cpu_s() -> float:
    """Return how long this process has been computing."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class PeakMemory:
    """What this process has held at most since it was made, in bytes, as the kernel counts it.

    The interpreter tells what it holds now, not what it held before the script let go of it. The
    kernel is asked again only when it had to find new pages, since a peak needs some.
    """

    def __init__(self) -> None:
        # Opened before the lock; where there is no such file nothing is known (not on Linux).
        try:
            self.descriptor: int | None = os.open("/proc/self/status", os.O_RDONLY)
        except OSError:
            self.descriptor = None
        self._first_bytes = 0
        self._grown_bytes = 0
        self._faults = 0

    def begin(self) -> None:
        """Count from here."""
        self._first_bytes = self._peak_bytes()

    @property
    def grown_bytes(self) -> int:
        """How much more was held at most."""
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        if faults - self._faults > FAULTS_BETWEEN_LOOKS:
            self._faults = faults
            self._grown_bytes = self._peak_bytes() - self._first_bytes
        return self._grown_bytes

    def _peak_bytes(self) -> int:
        if self.descriptor is None:
            return 0
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        found = PEAK.search(os.read(self.descriptor, STATUS_BYTES))
        return int(found[1]) * 1024 if found else 0


class Interpreter:
    """One fresh context and the way into its prelude."""

    def __init__(self, prelude: Prelude, memory: PeakMemory) -> None:
        self._context = _quickjs.Context()
        self._context.set_max_stack_size(STACK_BYTES)
        self._compiler = prelude.compiler
        self._enter, self._held = prelude.enter(self._context)
        self._memory = memory
        self._memory_bytes = 0
        self._limit_s = 0.0
        self._spent_s = 0.0
        self._since_s = 0.0

    def begin(self, request: wire.Begin) -> bytes:
        """Load the text and run the step, or read the declaration."""
        self._limit_s = request.bounds.cpu_s
        self._memory_bytes = request.bounds.memory_bytes
        self._context.set_memory_limit(self._memory_bytes * 2)
        return self._turn(lambda: self._begin(request))

    def answer(self, request: wire.Answer) -> bytes:
        """Give a call its result and go on."""
        value = bytes(request.value).decode()
        names = bytes(request.names).decode()
        return self._turn(lambda: self._run("answer", request.call, value, names))

    def _begin(self, request: wire.Begin) -> None:
        settings = {"limits": request.bounds, "world": request.world}
        self._enter("begin", msgspec.json.encode(settings).decode())
        self._look()
        if not self._load(request.text):
            self._enter(self._context.module(ABOVE + request.text))
        self._run("watch")
        if request.entry == wire.NOTHING:
            self._run("declare")
        else:
            self._run("start", bytes(request.entry).decode())

    def _load(self, text: str) -> bool:
        """Load the text as bytecode; False if it must be read by the binding."""
        if self._compiler is None or self._held is None:
            return False
        ends_at_s = self._since_s + self._limit_s
        memory_bytes = self._memory_bytes * 2
        return self._compiler.load(
            self._held, text, ABOVE.encode(), memory_bytes=memory_bytes, ends_at_s=ends_at_s
        )

    def _turn(self, run: Callable[[], None]) -> bytes:
        self._since_s = cpu_s() - self._spent_s
        try:
            try:
                run()
            except (Broken, _quickjs.JSException, MemoryError, UnicodeError) as error:
                fault = _explain(error)
                self._context.set_time_limit(TAKE_S)
                self._enter("fail", fault.name, fault.message, fault.stack)
            self._context.set_time_limit(TAKE_S)
            # Between one limit and two there is room for what is copied in and out of a context.
            if self._memory.grown_bytes > self._memory_bytes * 3 // 2:
                self._enter("exceed", *OUT_OF_MEMORY)
            body: bytes = self._enter("take").encode()
        except (_quickjs.JSException, MemoryError, UnicodeError) as error:
            # Not even the prelude has room left; then the script has nothing to say but this.
            body = wire.pack(wire.Turn(end=wire.End(error=_explain(error))))
        self._spent_s = cpu_s() - self._since_s
        # The peak of a process never falls, and the next script must not be blamed for it: such a
        # worker takes no other script.
        return wire.worn(body) if self._memory.grown_bytes > self._memory_bytes else body

    def _run(self, way: str, *args: object) -> None:
        """Enter the context, then run what became ready, until nothing is."""
        self._look()
        self._enter(way, *args)
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
    most = wire.WORDS_MAX
    return wire.Fault(name=name[:most], message=message[:most], stack=stack[:most])


def serve(channel: int) -> None:
    """Serve requests until the channel ends."""
    memory = PeakMemory()
    # What is loaded late is loaded now: the lock lets nothing in. The words of a script's error are
    # the interpreter's own, so no sentence is among it.
    errors.speak_in_codes()
    prelude = Prelude(read_text(), find_compiler(cpu_s))
    fresh = [Interpreter(prelude, memory)]
    wire.pack(wire.Turn())
    kept = (channel,) if memory.descriptor is None else (channel, memory.descriptor)
    report = lock.lock(kept, lock.Profile(memory_bytes=ADDRESS_SPACE_BYTES))
    worker_channel.write(channel, wire.pack(wire.Ready(held=report.held, missing=report.missing)))
    gc.freeze()  # what is here now stays, and need not be looked at after every script
    memory.begin()
    requests = select.poll()
    requests.register(channel, select.POLLIN)
    running: Interpreter | None = None
    while True:
        while len(fresh) < FRESH_CONTEXTS and not requests.poll(PATIENCE_MS if running else 0):
            fresh.append(Interpreter(prelude, memory))
        body = worker_channel.read(channel)
        if body is None:
            return
        request = wire.unpack_request(body)
        if isinstance(request, wire.Begin):
            running = fresh.pop() if fresh else Interpreter(prelude, memory)
            worker_channel.write(channel, running.begin(request))
        elif isinstance(request, wire.Answer):
            assert running is not None, "a call is answered before the script was begun"
            worker_channel.write(channel, running.answer(request))
        else:
            running = None
