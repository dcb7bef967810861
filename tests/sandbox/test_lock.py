"""The lock, put on in processes of their own: every layer holds, and a missing one is noticed."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from duly.cell import lock, syscall
from duly.cell.lock import ALLOW, KILL, REFUSE, UNKNOWN, Instruction

MIB = 1024 * 1024
SOURCE = str(Path(lock.__file__).parents[2])
LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
LIBRARIES = ("/etc/ld.so.cache", "/lib", "/lib64", "/usr/lib")
CAT = str(Path("/bin/cat").resolve())

# Opens a descriptor it should not keep, breaks what it is told to, locks, and reports.
PROGRAM = """
import json, os, socket, sys
from duly.cell import lock
os.open("/", os.O_RDONLY)
channel = int(sys.argv[1])
{broken}
report = lock.lock((channel,), lock.Profile(memory_bytes=512 * 1024 * 1024, cpu_s=60))
os.write(channel, json.dumps([report.held, report.missing]).encode())
"""


def locked(broken: str = "") -> tuple[list[str], list[str]]:
    """Lock a process of its own, and answer what it reports."""
    read, write = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(broken=broken), str(write)],
        pass_fds=(write,),
        env={"PYTHONPATH": SOURCE},
        stderr=subprocess.DEVNULL,
    ):
        os.close(write)
        with os.fdopen(read) as told:
            held, missing = json.loads(told.read())
    return held, missing


def test_every_layer_holds_when_it_is_tried_from_inside() -> None:
    """X1: descriptors, limits, privileges, files, network, processes and signals are tried."""
    held, missing = locked()
    assert missing == []
    assert set(held) == {
        "descriptors",
        "limits",
        "privileges",
        "files",
        "reading a file",
        "writing a file",
        "a socket",
        "a connection",
        "another process",
        "another program",
        "a signal to the parent",
        "the parent's limits",
        "the parent's memory",
    }


@pytest.mark.parametrize(
    ("step", "noticed"),
    [
        ("_close_all_but", {"descriptors"}),
        ("_limit", {"limits"}),
        ("_give_up_privileges", {"privileges"}),
        ("_restrict_files", {"files"}),
        ("_filter_system_calls", {"a socket", "another process"}),
    ],
)
def test_a_layer_that_was_not_put_on_is_missed(step: str, noticed: set[str]) -> None:
    """X1: a layer counts only when it was proven, not when it was asked for."""
    _, missing = locked(f"lock.{step} = lambda *_: None")
    assert noticed <= set(missing)


def test_without_any_wall_every_way_out_is_missed() -> None:
    """X1: an empty room is no lock: only the kernel's refusal counts."""
    open_door = "lock._restrict_files = lock._filter_system_calls = lambda *_: None"
    # Of another user's processes the kernel refuses some without any lock.
    _, missing = locked(f"{open_door}; lock.become_own_user = lambda _: False")
    assert set(missing) >= {
        "files",
        "reading a file",
        "writing a file",
        "a socket",
        "a connection",
        "another process",
        "another program",
        "a signal to the parent",
    }


def test_a_layer_that_fails_is_named_and_does_not_stop_the_others() -> None:
    """X1: an incomplete lock says which layer, and why."""
    fails = "def fails(*_): raise OSError(38, 'no such thing')\nlock._restrict_files = fails"
    held, missing = locked(fails)
    assert missing == ["files (OSError)", "files"]
    assert "a socket" in held


def test_a_locked_process_has_no_capabilities_and_is_not_traceable() -> None:
    """X1: not even a root's worker keeps a privilege."""
    script = (
        "import os, sys\nfrom duly.cell import lock\nlock._give_up_privileges()\n"
        "sys.stdout.write(open('/proc/self/status').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=True,
    )
    told = dict(line.split(":\t") for line in done.stdout.splitlines() if ":\t" in line)
    assert [told[name] for name in ("CapPrm", "CapEff", "NoNewPrivs")] == ["0" * 16] * 2 + ["1"]


def become_cat(
    *words: str, given: str = "", program: str = CAT
) -> subprocess.CompletedProcess[str]:
    """Lock a process for one program, and let it become that program."""
    loader = tuple(path for path in LOADERS if Path(path).exists())
    reads = tuple(path for path in LIBRARIES if Path(path).exists())
    script = (
        "import os, sys\nfrom duly.cell.lock import Profile, lock\n"
        f"profile = Profile(memory_bytes={1024 * MIB}, executes={(CAT, *loader)}, reads={reads})\n"
        "report = lock((0, 1, 2), profile)\n"
        "assert report.is_complete, report\n"
        f"os.execve({program!r}, ['cat', *sys.argv[1:]], {{}})"
    )
    return subprocess.run(
        [sys.executable, "-c", script, *words],
        env={"PYTHONPATH": SOURCE},
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_lock_survives_becoming_the_one_program_it_allows() -> None:
    """X1: that program runs under the same lock."""
    done = become_cat(given="hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello", "")


def test_the_allowed_program_can_read_no_other_file() -> None:
    """X1: only the loader's files can be read."""
    done = become_cat("/etc/passwd")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Permission denied" in done.stderr


def test_the_allowed_program_is_the_only_one() -> None:
    """X1: the lock for one program is no lock for two."""
    done = become_cat(program="/bin/ls")
    assert done.returncode == 1
    assert "PermissionError" in done.stderr


def test_this_machine_can_lock() -> None:
    """X1: a host learns without locking itself."""
    assert lock.is_lockable() == lock.LockReport(
        ("Linux", "a known processor", "Landlock", "seccomp")
    )
    assert lock.is_lockable().is_complete


def test_another_system_cannot_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """X1: and says so."""
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert lock.is_lockable().missing == ("Linux",)


# The filter of system calls, run by hand: what the kernel would answer.


def decide(
    program: list[Instruction], architecture: int, number: int, first: int = 0, second: int = 0
) -> int:
    """Run a filter as the kernel would."""
    memory = {0: number, 4: architecture, 16: first, 24: second}
    loaded = at = 0
    while True:
        what, yes, no, value = program[at]
        if what == lock.ANSWER:
            return value
        if what == lock.LOAD:
            loaded, at = memory[value], at + 1
            continue
        so = {
            lock.EQUAL: loaded == value,
            lock.AT_LEAST: loaded >= value,
            lock.HAS_BITS: bool(loaded & value),
        }[what]
        at += 1 + (yes if so else no)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("is_for_exec", [False, True])
def test_the_filter_allows_what_is_listed_and_nothing_else(machine: str, is_for_exec: bool) -> None:
    """X1: an allow-list, on both processors."""
    program = lock.system_call_filter(machine, is_for_exec=is_for_exec)
    architecture = syscall.AUDIT_ARCH[machine]
    listed = set(syscall.BASE[machine].values())
    if is_for_exec:
        listed |= set(syscall.EXEC[machine].values())
    special = {syscall.CLONE3, syscall.CLONE[machine]} if is_for_exec else set()
    special |= set(syscall.GUARDED_NUMBERS[machine].values()) if is_for_exec else set()
    for number in set(range(600)) - special:
        wanted = ALLOW if number in listed else REFUSE
        assert decide(program, architecture, number) == wanted, number


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_locked_program_may_start_threads_but_no_process(machine: str) -> None:
    """X1: clone is for threads; clone3, whose arguments no filter sees, does not exist."""
    program = lock.system_call_filter(machine, is_for_exec=True)
    architecture, clone = syscall.AUDIT_ARCH[machine], syscall.CLONE[machine]
    assert decide(program, architecture, clone, first=0x3D0F00) == ALLOW
    assert decide(program, architecture, clone, first=0x1200011) == REFUSE
    assert decide(program, architecture, syscall.CLONE3) == UNKNOWN


def test_a_foreign_calling_convention_is_fatal() -> None:
    """X1: the numbers of another convention mean other calls."""
    program = lock.system_call_filter("x86_64", is_for_exec=False)
    assert decide(program, syscall.AUDIT_ARCH["aarch64"], 0) == KILL
    assert decide(program, 0x40000003, 1) == KILL  # 32 bits
    assert decide(program, syscall.AUDIT_ARCH["x86_64"], syscall.X32_BIT | 1) == KILL


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_list_has_a_way_to_others(machine: str) -> None:
    """X1: no sockets, processes, signals or files in the lists themselves."""
    names = set(syscall.BASE[machine]) | set(syscall.EXEC[machine])
    assert not names & {"socket", "connect", "fork", "vfork", "kill", "tgkill", "ptrace", "mount"}
    assert not set(syscall.BASE[machine]) & {"open", "openat", "execve", "clone"}
