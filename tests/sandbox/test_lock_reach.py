"""What a broken interpreter of Python scripts may ask of the kernel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from duly.cell import lock

SOURCE = str(Path(lock.__file__).parents[2])
# Locks itself as the launcher does, then does what native code inside it could do. On a kernel
# whose Landlock knows no scopes (before 6.12) nothing else stands in the way of the signal.
PAYLOAD = """
import ctypes, fcntl, json, os, resource, signal, sys
from duly.cell import lock
lock.LANDLOCK_SCOPES_FROM = 10 ** 6
{broken}
profile = lock.Profile(1 << 30, executes=("/bin/cat",), reads=("/usr/lib",))
report = lock.lock((0, 1, 2), profile)
refused = []

def attempt(name, *calls):
    try:
        for call in calls:
            call()
    except PermissionError:
        refused.append(name)

host = os.getppid()
read, write = os.pipe()
prctl = ctypes.CDLL(None, use_errno=True).prctl
attempt("limits", lambda: resource.prlimit(host, resource.RLIMIT_CORE, (0, 0)))
attempt("signals", lambda: fcntl.fcntl(read, fcntl.F_SETOWN, host))
attempt("any signal", lambda: fcntl.fcntl(read, fcntl.F_SETSIG, signal.SIGKILL))
if prctl(1, 0, 0, 0, 0) != 0:
    refused.append("outliving")
print(json.dumps([report.missing, refused]))
"""


def payload(broken: str = "") -> tuple[list[str], list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PAYLOAD.format(broken=broken)],
        env={"PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        check=True,
    )
    missing, refused = json.loads(done.stdout)
    return missing, refused


def test_a_locked_program_reaches_its_host_by_no_side_door() -> None:
    """X1: neither its limits, nor by a signal the kernel would send, nor by outliving it."""
    assert payload() == ([], ["limits", "signals", "any signal", "outliving"])


def test_a_worker_that_would_outlive_its_host_is_not_locked() -> None:
    """X1: the end with the parent is proven, not only asked for."""
    missing, _ = payload(
        "kept = lock._libc\n"
        "class Deaf:\n"
        "    def __getattr__(self, name):\n"
        "        real = getattr(kept(), name)\n"
        "        if name != 'prctl': return real\n"
        "        return lambda what, *rest: 0 if what == 1 else real(what, *rest)\n"
        "lock._libc = Deaf\n"
    )
    assert "privileges" in missing
