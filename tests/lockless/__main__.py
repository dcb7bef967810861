"""Runs the tests as on a machine whose kernel has no lock, and where a person accepted that.

    python -m tests.lockless                      # all but what is about the lock itself
    python -m tests.lockless tests/engine -n 2    # these

Law 1: it is the kernel that refuses. A filter, which every process of the run inherits, says "not
       implemented" to Landlock, seccomp, capabilities and prctl, as macOS has none of them.
Law 2: `sandbox.unlocked` is "i-accept" where nothing is said; nothing else of the product is other.
Law 3: what is left out is named in `ABOUT_THE_LOCK`, with its reason.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from pathlib import Path
from typing import Final

from duly.cell import lock
from duly.cell.syscall import LANDLOCK

HERE: Final = Path(__file__).parent
# prctl, seccomp, capget, capset
MISSING: Final = {"x86_64": (157, 317, 125, 126), "aarch64": (167, 277, 90, 91)}
ABOUT_THE_LOCK: Final = (
    "tests/sandbox/hostile",  # the corpus tries both by itself
    "tests/sandbox/test_lock.py",
    "tests/sandbox/test_lock_reach.py",
    "tests/sandbox/test_own_user.py",  # the system gives a process a user only with capabilities
    "tests/sandbox/test_endurance.py",  # counts what only a locked process gives back
    "tests/sandbox/test_group_signal.py",
    "tests/sandbox/test_pool.py::test_a_worker_knows_nothing_of_its_host",
    "tests/sandbox/test_pool.py::test_a_worker_with_an_incomplete_lock_takes_no_work",
    "tests/sandbox/test_python.py::test_without_a_lock_no_script_runs",
    "tests/sandbox/test_threads.py::test_a_worker_of_a_root_host_is_a_user_of_its_own",
    # Programs of their own, which accept nothing or must say nothing of the lock.
    "tests/sandbox/test_pool.py::test_the_program_s_own_exit_status_is_kept",
    "tests/sandbox/test_python.py::test_a_program_keeps_its_exit_status_and_leaves_no_process",
    "tests/sandbox/test_python_fork.py::test_the_workers_of_a_host_outlive_its_forked_children",
    "tests/connectors/test_reader.py::test_the_process_is_locked_before_it_reads",
)


def take_the_lock_away() -> None:
    """Let the kernel have no lock, for this process and all that it starts."""
    says = 0x00050000 | errno.ENOSYS
    program = [(lock.LOAD, 0, 0, lock.AT_NUMBER)]
    for number in (*LANDLOCK, *MISSING[platform.machine()]):
        program += [(lock.EQUAL, 0, 1, number), (lock.ANSWER, 0, 0, says)]
    program += [(lock.ANSWER, 0, 0, lock.ALLOW)]
    text = b"".join(struct.pack("<HBBI", *each) for each in program)
    buffer = ctypes.create_string_buffer(text, len(text))
    whole = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in (
        (lock.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (lock.PR_SET_SECCOMP, lock.SECCOMP_MODE_FILTER, whole, 0, 0),
    ):
        if libc.prctl(*words):
            raise OSError(ctypes.get_errno(), "this kernel takes no filter")


def main(words: list[str]) -> None:
    """Become pytest, without the lock."""
    take_the_lock_away()
    assert not lock.is_lockable().is_complete
    there = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *([there] if there else [])])
    left_out = [f"--deselect={each}" for each in ABOUT_THE_LOCK]
    pytest = ("-m", "pytest", "-p", "tests.lockless.plugin", *left_out, *words)
    os.execv(sys.executable, (sys.executable, *pytest))


if __name__ == "__main__":
    main(sys.argv[1:])
