"""Canaries: what lies outside and must not be reached, and who notices when it is.

One victim, a process of the same user, holds a word in its memory, its environment and a
descriptor, and counts the signals it gets. Listeners count who came. `MADE` is a file that is not
there until it is made.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORD = "reached"
VARIABLE = "DULY_CANARY"
SHARED_KEY_MAX = 0x7FFFFFFF
SECOND_S = 5.0

# It prints where its word is and which descriptor it holds, then one line for every signal.
VICTIM = """
import ctypes, os, signal, sys
word = ctypes.create_string_buffer(b"reached")
ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)  # anybody may trace it
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"signal\\n"))
signal.signal(signal.SIGUSR2, lambda *_: os.write(1, b"asked\\n"))
held = os.open(sys.argv[1], os.O_RDONLY)
print(ctypes.addressof(word), held, flush=True)
while True:
    signal.pause()
"""


@dataclass(slots=True)
class Canaries:
    """Where everything is."""

    folder: Path
    places: dict[str, str]
    tcp: socket.socket
    udp: socket.socket
    unix: tuple[socket.socket, ...]
    victim: subprocess.Popen[bytes]
    inherited: int
    seen: list[str] = field(default_factory=list)

    @property
    def made(self) -> Path:
        """What is not there until it is made."""
        return Path(self.places["MADE"])

    def alarms(self) -> set[str]:
        """Answer which canaries were reached since the last time, and set them up again."""
        found: set[str] = set()
        for name, listener in (("tcp", self.tcp), *(("unix", each) for each in self.unix)):
            while (came := _accept(listener)) is not None:
                came.close()
                found.add(name)
        while _receive(self.udp):
            found.add("udp")
        if os.path.lexists(self.made):
            found.add("made")
            shutil.rmtree(self.made) if self.made.is_dir() else self.made.unlink()
        Path(self.places["SPARE"]).write_text(WORD)
        return found | self._victim_s()

    def _victim_s(self) -> set[str]:
        found: set[str] = set()
        assert self.victim.stdout is not None
        pid = self.victim.pid
        # What came before the question is told before the answer, however slow the machine is.
        os.kill(pid, signal.SIGUSR2)
        said = b""
        while b"asked" not in said:
            said += os.read(self.victim.stdout.fileno(), 1000)
        if b"signal" in said:
            found.add("signal")
        here = resource.getrlimit(resource.RLIMIT_NOFILE)
        if resource.prlimit(pid, resource.RLIMIT_NOFILE, here) != here:
            found.add("limit")
        if os.getpriority(os.PRIO_PROCESS, pid) != os.getpriority(os.PRIO_PROCESS, 0):
            found.add("priority")
        return found


def _accept(listener: socket.socket) -> socket.socket | None:
    try:
        return listener.accept()[0]
    except BlockingIOError:
        return None


def _receive(listener: socket.socket) -> bytes:
    try:
        return listener.recv(1000)
    except BlockingIOError:
        return b""


@contextmanager
def canaries(folder: Path) -> Iterator[Canaries]:
    """Set everything up, and take it away again."""
    file, spare = folder / "secret", folder / "spare"
    file.write_text(WORD)
    spare.write_text(WORD)
    inherited = os.open(file, os.O_RDONLY)
    with (
        _listening(socket.AF_INET, ("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        _listening(socket.AF_UNIX, str(folder / "s")) as unix,
        _listening(socket.AF_UNIX, f"\0duly-{os.getpid()}") as abstract,
        _shared() as key,
        subprocess.Popen(
            [sys.executable, "-c", VICTIM, str(file)],
            stdout=subprocess.PIPE,
            env={VARIABLE: WORD},
        ) as victim,
    ):
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        assert victim.stdout is not None
        address, held = victim.stdout.readline().decode().split()
        places = {
            "FILE": str(file), "SPARE": str(spare), "MADE": str(folder / "made"),
            "PORT": str(tcp.getsockname()[1]), "UDP": str(udp.getsockname()[1]),
            "UNIX": str(folder / "s"), "ABSTRACT": f"duly-{os.getpid()}", "VARIABLE": VARIABLE,
            "VICTIM": str(victim.pid), "ADDRESS": address, "HELD": held, "SHARED": str(key),
            "INHERITED": str(inherited),
        }  # fmt: skip
        try:
            yield Canaries(folder, places, tcp, udp, (unix, abstract), victim, inherited)
        finally:
            victim.kill()
            os.close(inherited)


@contextmanager
def _listening(family: int, place: Any) -> Iterator[socket.socket]:
    with socket.socket(family) as listener:
        listener.bind(place)
        listener.listen(100)
        listener.setblocking(False)
        yield listener


@contextmanager
def _shared() -> Iterator[int]:
    """Keep the word in shared memory, and answer its key."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    key = (os.getpid() << 8 | 0x5A) & SHARED_KEY_MAX
    number = libc.shmget(key, 4096, 0o1600)
    assert number >= 0, ctypes.get_errno()
    try:
        place = libc.shmat(number, None, 0)
        ctypes.memmove(place, WORD.encode(), len(WORD))
        yield key
    finally:
        libc.shmctl(number, 0, None)
