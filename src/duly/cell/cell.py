"""One locked process that answers questions; it is killed when one costs too much (K7).

Law 1: a question is answered within its limits, or the process is killed and `CellOverrun` names
       the limit. No caller waits for a process without limit.
Law 2: every byte from the process is hostile: the length is checked before it is read, and the
       caller checks the shape.
Law 3: a process takes work only when every layer of its lock was proven from inside, or the user
       accepted less (X1).
Law 4: the caller is a thread; nothing here knows an event loop.

Both sides speak in frames: four bytes of length, then so many bytes. The process speaks first, and
then once for each question.
"""

from __future__ import annotations

import select
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from duly.cell.process import Stat
from duly.env import machine_ms
from duly.errors import ConfigError, DulyError, short

LENGTH: Final = struct.Struct("<I")
START_S: Final = 60.0
LOOK_S: Final = 0.25  # how often the CPU time of a process that takes longer is read
RECEIVE_BYTES: Final = 64 * 1024
READY_BYTES_MAX: Final = 64 * 1024
ENVIRONMENT: Final = {"TZ": "UTC0"}

Checked: TypeAlias = Callable[[], None]  # raises Overrun when a question has cost too much


class CellOverrun(DulyError):
    """The process was killed because one question cost too much."""


class CellStarved(CellOverrun):
    """The process was killed because one question lasted too long without computing too much."""


class CellClosed(DulyError):
    """The process is gone."""


@dataclass(frozen=True, slots=True)
class CellBounds:
    """What one question may cost."""

    cpu_s: float
    wall_s: float
    answer_bytes: int


class CellReady(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first message of a process: which layers of its lock held."""

    held: tuple[str, ...]
    missing: tuple[str, ...] = ()


class Cell:
    """One process; it belongs to one thread at a time."""

    def __init__(self, program: str, needed: tuple[str, ...]) -> None:
        ours, theirs = socket.socketpair()
        try:
            # The process inherits its end of the channel and nothing else.
            self._process = subprocess.Popen(
                command(program, needed, theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                env=ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._channel = ours
        self._stat = Stat(self._process.pid)
        self.is_closed = False

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Tell whether the process still runs and has sent nothing unasked."""
        if self.is_closed:
            return False
        said = select.poll()  # not `select`, which knows no descriptor above 1023
        said.register(self._channel, select.POLLIN)
        return not said.poll(0) and self._process.poll() is None

    def ask(self, question: bytes, bounds: CellBounds) -> bytes:
        """Ask, and return the answer; after Overrun or Closed is raised the process is gone."""
        begun_ms, before_s = machine_ms(), self._stat.cpu_s() or 0.0

        def check() -> None:
            lasted_s = (machine_ms() - begun_ms) / 1000
            used_s = self._stat.cpu_s()
            computed_s = lasted_s if used_s is None else used_s - before_s
            if computed_s > bounds.cpu_s:
                raise CellOverrun(f"it took more than {bounds.cpu_s:g} s to compute")
            if lasted_s > bounds.wall_s:
                raise CellStarved(f"it took more than {bounds.wall_s:g} s")

        try:
            self._send(LENGTH.pack(len(question)) + question, bounds, check)
            return self._receive(bounds, check)
        except BaseException:
            self.close()
            raise

    def kill(self) -> None:
        """End the process; a thread that waits for its answer finds it gone."""
        self._process.kill()

    def close(self) -> None:
        """End the process, wait until it is gone and close its descriptors; may be called twice."""
        self._process.kill()
        self._process.wait()
        self.abandon()

    def __del__(self) -> None:
        # A connector that was never in a host is never closed.
        if not getattr(self, "is_closed", True):
            self.close()

    def abandon(self) -> None:
        """Close this end, so that the process sees that its owner is gone."""
        self.is_closed = True
        self._channel.close()
        self._stat.close()

    def ready(self, *, is_unlocked: bool = False) -> None:
        """Wait for the first message, and refuse a process whose lock is incomplete (law 3)."""
        bounds = CellBounds(START_S, START_S, READY_BYTES_MAX)
        begun_ms = machine_ms()

        def check() -> None:
            if machine_ms() - begun_ms > START_S * 1000:
                raise CellClosed(f"A process said nothing for {START_S:g} s.")

        try:
            ready = msgspec.json.decode(self._receive(bounds, check), type=CellReady)
        except msgspec.MsgspecError:
            raise CellClosed("A process did not say whether it is locked.") from None
        if ready.missing and not is_unlocked:
            missing = [short(each) for each in ready.missing[:20]]
            raise ConfigError(code="not_locked", facts={"task": "read", "missing": missing})

    def _send(self, frame: bytes, bounds: CellBounds, check: Checked) -> None:
        left = memoryview(frame)
        self._channel.settimeout(min(bounds.cpu_s, bounds.wall_s))
        while left:
            try:
                left = left[self._channel.send(left) :]
            except TimeoutError:
                check()
                self._channel.settimeout(LOOK_S)
            except OSError as error:
                raise CellClosed(f"A process is gone: {error}.") from None

    def _receive(self, bounds: CellBounds, check: Checked) -> bytes:
        # CPU time is never more than wall time, so the first check comes when that is used up.
        self._channel.settimeout(min(bounds.cpu_s, bounds.wall_s))
        (length,) = LENGTH.unpack(self._receive_exactly(LENGTH.size, check))
        if length > bounds.answer_bytes:
            raise CellOverrun(f"it came to more than {bounds.answer_bytes} bytes")
        return self._receive_exactly(length, check)

    def _receive_exactly(self, size: int, check: Checked) -> bytes:
        body = bytearray()
        while len(body) < size:
            try:
                piece = self._channel.recv(min(RECEIVE_BYTES, size - len(body)))
            except TimeoutError:
                check()
                self._channel.settimeout(LOOK_S)
                continue
            except OSError as error:
                raise CellClosed(f"A process is gone: {error}.") from None
            if not piece:
                check()  # The kernel may have ended the process because of its limits.
                raise CellClosed("A process is gone: it closed its channel.")
            body += piece
        return bytes(body)


def command(program: str, needed: tuple[str, ...], channel: int) -> list[str]:
    """Write the command of a process: no site, no user's settings, only the packages it needs.

    `program` is "module:function"; the function is called with the number of the channel.
    """
    module, _, function = program.partition(":")
    text = (
        "import sys; sys.path[:0] = sys.argv[2:];"
        f" from {module} import {function}; {function}(int(sys.argv[1]))"
    )
    places = dict.fromkeys(_place(name) for name in needed)
    return [sys.executable, "-I", "-S", "-c", text, str(channel), *places]


def _place(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ConfigError(code="module_not_installed", subject=module)
    origin = Path(spec.origin)
    return str(origin.parents[1] if origin.stem == "__init__" else origin.parent)
