"""Watches over the piece of a proof: it stops and ends with the proof that began it.

Law 1  A piece is a session of its own, so no signal to the proof reaches it by itself.
Law 2  While the proof is stopped (`kill -STOP`), its piece is stopped; it goes on with the proof.
       What a test of the piece has stopped itself stays so: only that moment sends `SIGCONT`.
Law 3  When the proof has ended, however it ended, its piece is killed with all that it started in
       its session. So a proof that is begun again never works beside what the last one left.

The proof names the session in a line on the standard input of this process; `0` says that none is
left. The end of that input says that the proof is gone.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

LOOK_S: Final = 0.5
LINE_BYTES: Final = 4096


def watch(proof: int, pipe: int, look_s: float = LOOK_S) -> None:
    """Stop, continue and end the session that the proof names."""
    session, was_stopped = 0, False
    while True:
        ready, _, _ = select.select([pipe], [], [], look_s)
        if ready:
            told = os.read(pipe, LINE_BYTES).split()
            if not told:
                break
            session = int(told[-1])
        stands = is_stopped(proof)
        number = due(stands, was_stopped)
        if session and number is not None:
            _send(session, number)
        was_stopped = stands
    if session:
        _send(session, signal.SIGKILL)


def due(is_stopped: bool, was_stopped: bool) -> signal.Signals | None:
    """Say what a piece is sent at this look."""
    if is_stopped:
        return signal.SIGSTOP  # also what it has started since the last look
    return signal.SIGCONT if was_stopped else None


def is_stopped(process: int) -> bool:
    """Tell whether a process stands still because of a signal."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def _send(session: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, number)


class Minder:
    """What a proof knows of the process that watches over its pieces."""

    def __init__(self) -> None:
        words = [sys.executable, "-I", "-S", __file__, str(os.getpid())]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)

    def mind(self, session: int) -> None:
        """Watch over this session from now on; 0 is none."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{session}\n".encode())
        self._process.stdin.flush()

    def end(self) -> None:
        """Kill what is still named, and return when that is done."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.stdin.fileno())
