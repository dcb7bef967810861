"""Starts one MCP server and outlives it: a program of its own, beside the server (M8).

    python -I -S mcp_guard.py LIFELINE MEMORY_BYTES /absolute/path [argument …]

Law 1: the server ends when the lifeline does: a pipe whose other end the host holds. The kernel
       closes it when the host dies, by any signal.
Law 2: nothing that the server started stays behind: orphans come to this process, which ends them.
Law 3: the server is asked first (its input ends, then SIGTERM), and killed after that.

It imports nothing but Python's own modules, since it runs without any package.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
ASK_S: Final = 1.0  # for each of the two ways in which a server is asked to end
LOOK_S: Final = 0.02
ROUNDS_MAX: Final = 500  # of killing what is left; each takes as long as LOOK_S
NOT_STARTED: Final = 127


def main(lifeline: int, memory_bytes: int, command: list[str]) -> int:
    """Start the server, and return when nothing of it is left."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def limit() -> None:
        # If this process is killed, at least the server itself ends with it.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        for which, most in (
            (resource.RLIMIT_DATA, memory_bytes),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(which, (most, most))

    try:
        # This process has one thread, so that a function may run between fork and exec.
        server = subprocess.Popen(command, preexec_fn=limit, start_new_session=True)
    except (OSError, subprocess.SubprocessError) as error:
        os.write(2, f"{command[0]} cannot be started: {error}\n".encode())
        return NOT_STARTED
    for each in (0, 1, 2):  # the ends of the host's pipes belong to the server alone
        os.close(each)
    told = select.poll()
    told.register(lifeline, select.POLLIN)
    ended = os.pidfd_open(server.pid)
    told.register(ended, select.POLLIN)
    is_cut = lifeline in dict(told.poll())
    if is_cut:
        _ask(server)
    _end_all(server)
    return 0


def _ask(server: subprocess.Popen[bytes]) -> None:
    """Wait for a server whose input has ended, then tell it to end."""
    with suppress(subprocess.TimeoutExpired):
        server.wait(ASK_S)
        return
    with suppress(OSError):
        os.killpg(server.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        server.wait(ASK_S)


def _end_all(server: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the server and of all that it started (law 2)."""
    me = os.getpid()
    for _ in range(ROUNDS_MAX):
        if server.poll() is None:
            server.kill()
        for each in _children(me):
            with suppress(OSError):
                os.kill(each, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        select.select([], [], [], LOOK_S)


def _children(pid: int) -> list[int]:
    try:
        told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(each) for each in told.split()]


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
