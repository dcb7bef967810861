"""Lock this process for good, against a script that breaks out of its interpreter.

Law 1: the lock is put on from inside, by the worker itself, before it takes any work, and nothing
       takes it off again; it survives exec (X1).
Law 2: a layer counts only when it was tried from inside and held. What was not proven is missing,
       and a worker with a missing layer refuses to work.
Law 3: a layer that fails does not stop the others: an incomplete lock is still a lock.

The layers, in the order they are put on; only Linux has them all:

    descriptors   every descriptor but the channel is closed
    limits        no core dumps, no growing files, few descriptors, bounded memory and CPU time
    privileges    no capabilities, no new privileges, not traceable; ends with its parent
    files         Landlock: no file, folder or device, but what the profile names
    system calls  seccomp: an allow-list; no sockets, no processes, no signals to others

Before the layers the process becomes a user of its own, where a root host started it (`user`).

The process that spawns a worker empties its environment. On other systems the interpreter, which
offers no files, sockets or processes, is the only wall; a host says so and asks for consent.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import select
import signal
import socket
import stat
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from duly.cell.syscall import (
    AUDIT_ARCH,
    BASE,
    CLONE,
    CLONE3,
    EXEC,
    GUARDED,
    GUARDED_NUMBERS,
    LANDLOCK,
    X32_BIT,
)
from duly.cell.user import become_own_user


class Layer(StrEnum):
    """What a lock consists of."""

    DESCRIPTORS = "descriptors"
    LIMITS = "limits"
    PRIVILEGES = "privileges"
    FILES = "files"
    SYSTEM_CALLS = "system calls"


@dataclass(frozen=True, slots=True)
class LockReport:
    """Which layers held, and which are missing and why."""

    held: tuple[str, ...]
    missing: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Tell whether nothing is missing."""
        return not self.missing


@dataclass(frozen=True, slots=True)
class Profile:
    """How tight a lock is.

    An interpreter in this process needs no file at all. To become another program the process
    names that program and the files its loader reads: `executes` may be executed, `reads` be read.
    `threads` holds only where the process has a user of its own: the kernel counts threads per
    user, and does not count those of root.
    """

    memory_bytes: int
    cpu_s: int | None = None
    executes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    threads: int | None = None

    @property
    def is_for_exec(self) -> bool:
        """Tell whether another program follows."""
        return bool(self.executes)


DESCRIPTORS_MAX: Final = 64
DESCRIPTORS_PROBED: Final = 4096
DESCRIPTORS_WITHOUT_LIMIT: Final = 65_536

PR_SET_PDEATHSIG: Final = 1
PR_GET_PDEATHSIG: Final = 2
PR_GET_DUMPABLE: Final = 3
PR_SET_DUMPABLE: Final = 4
PR_GET_SECCOMP: Final = 21
PR_SET_SECCOMP: Final = 22
PR_SET_NO_NEW_PRIVS: Final = 38
PR_GET_NO_NEW_PRIVS: Final = 39
SECCOMP_MODE_FILTER: Final = 2
CAPABILITY_VERSION: Final = 0x20080522
CAPABILITY_BYTES: Final = 24

LANDLOCK_VERSION_FLAG: Final = 1
LANDLOCK_PATH_BENEATH: Final = 1
# How many rights over files each version of Landlock knows; the last row holds for all newer.
LANDLOCK_FILE_RIGHTS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
FILE_EXECUTE, FILE_READ, FOLDER_READ = 1, 4, 8
LANDLOCK_NETWORK_FROM: Final = 4
LANDLOCK_SCOPES_FROM: Final = 6

REFUSED: Final = frozenset({errno.EPERM, errno.EACCES})


def lock(channels: Collection[int], profile: Profile) -> LockReport:
    """Lock this process but for its channels, and return what held when it was tried."""
    _warm_up()
    _ignore_signals()
    if not become_own_user((*profile.executes, *profile.reads)):
        profile = replace(profile, threads=None)
    failures = _put_on(
        {
            Layer.DESCRIPTORS: lambda: _close_all_but(channels),
            Layer.LIMITS: lambda: _limit(profile),
            Layer.PRIVILEGES: _give_up_privileges,
            Layer.FILES: lambda: _restrict_files(profile),
        }
    )
    # The last layer also refuses what the layers below it refuse, so those are tried before it.
    below = _try_out(
        {
            Layer.LIMITS: lambda: _is_limited(profile),
            Layer.PRIVILEGES: _has_no_privileges,
            Layer.FILES: _refuses_files,
        }
    )
    failures |= _put_on({Layer.SYSTEM_CALLS: lambda: _filter_system_calls(profile)})
    above = self_test(channels, profile)
    failed = tuple(f"{name} ({why})" for name, why in failures.items())
    return LockReport((*below.held, *above.held), (*failed, *below.missing, *above.missing))


def self_test(channels: Collection[int], profile: Profile) -> LockReport:
    """Try from inside what a locked process must not be able to do (X1)."""
    probes: dict[str, Callable[[], bool]] = {
        Layer.DESCRIPTORS: lambda: _has_no_other_descriptor(channels),
        "reading a file": lambda: _is_refused(lambda: os.open("/", os.O_RDONLY)),
        "writing a file": lambda: _is_refused(lambda: os.open("/dev/null", os.O_WRONLY)),
        "a socket": lambda: _is_refused(socket.socket),
        "a connection": lambda: _is_refused(_connect),
        "another process": lambda: _is_refused(_fork),
        # The path does not exist: a lock refuses it all the same, and without a lock the failed
        # exec leaves this process as it is.
        "another program": lambda: profile.is_for_exec or _is_refused(lambda: _execute("/no/such")),
        "a signal to the parent": lambda: _is_refused(lambda: os.kill(os.getppid(), 0)),
        "the parent's limits": lambda: _is_refused(
            lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CORE)
        ),
        "the parent's memory": lambda: _is_refused(
            lambda: os.open(f"/proc/{os.getppid()}/environ", os.O_RDONLY)
        ),
    }
    return _try_out(probes)


def is_lockable() -> LockReport:
    """Tell, without locking anything, whether this machine has what a lock needs."""
    probes = {
        "Linux": lambda: platform.system() == "Linux",
        "a known processor": lambda: platform.machine() in AUDIT_ARCH,
        "Landlock": lambda: _landlock_version() >= 1,
        "seccomp": lambda: _libc().prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0,
    }
    return _try_out(probes)


def unknown_machine() -> str:
    """Say that there is no list of system calls for this processor; empty if there is one."""
    machine = platform.machine()
    if machine in AUDIT_ARCH:
        return ""
    return f"no list of system calls for a {machine or 'nameless'} processor"


def _put_on(layers: dict[Layer, Callable[[], None]]) -> dict[str, str]:
    failures: dict[str, str] = {}
    for name, put_on in layers.items():
        try:
            put_on()
        except (OSError, KeyError, AttributeError, ValueError) as error:
            unknown = unknown_machine() if name is Layer.SYSTEM_CALLS else ""
            failures[name] = unknown or type(error).__name__
    return failures


def _try_out(probes: Mapping[str, Callable[[], bool]]) -> LockReport:
    held: list[str] = []
    missing: list[str] = []
    for name, probe in probes.items():
        try:
            is_held = probe()
        except (OSError, AttributeError, ValueError) as error:
            is_held, name = False, f"{name} ({type(error).__name__})"
        (held if is_held else missing).append(str(name))
    return LockReport(tuple(held), tuple(missing))


# -- Putting the layers on ----------------------------------------------------------------------


def _warm_up() -> None:
    """Import what Python imports late; after this the process may read no file."""
    "x".encode("idna")
    platform.machine()


def _ignore_signals() -> None:
    """Ignore the signals of a terminal or a supervisor; the host ends its workers when it stops.

    Ignored signals stay so after exec. Only a kill, and the end of the channel, end a worker.
    """
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)


def _close_all_but(channels: Collection[int]) -> None:
    after = 0
    for channel in sorted(channels):
        # The range must not be empty: CPython 3.11 takes 0 to 0 for all there are.
        if after < channel:
            os.closerange(after, channel)
        after = channel + 1
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    highest = DESCRIPTORS_WITHOUT_LIMIT if most == resource.RLIM_INFINITY else most
    os.closerange(after, max(after + 1, highest))


def _limits(profile: Profile) -> dict[int, int]:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: DESCRIPTORS_MAX,
        resource.RLIMIT_AS: profile.memory_bytes,
    }
    if profile.cpu_s is not None:
        limits[resource.RLIMIT_CPU] = profile.cpu_s
    if profile.threads is not None:
        limits[resource.RLIMIT_NPROC] = profile.threads
    return limits


def _limit(profile: Profile) -> None:
    for which, most in _limits(profile).items():
        resource.setrlimit(which, (most, most))


def _give_up_privileges() -> None:
    libc = _libc()
    header = struct.pack("<Ii", CAPABILITY_VERSION, 0)
    _must(libc.capset(header, bytes(CAPABILITY_BYTES)), "capabilities")
    _must(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    _must(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "not traceable")
    # The channel closes too when the host dies, but a script that computes does not read it.
    _must(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "end with the parent")


def _landlock_version() -> int:
    create, _, _ = LANDLOCK
    return int(_libc().syscall(create, None, 0, LANDLOCK_VERSION_FLAG))


def _restrict_files(profile: Profile) -> None:
    """Take away every right over files, and over TCP, abstract sockets and signals if known."""
    libc = _libc()
    create, add_rule, restrict_self = LANDLOCK
    version = _must(_landlock_version(), "Landlock")
    files = (1 << LANDLOCK_FILE_RIGHTS.get(version, max(LANDLOCK_FILE_RIGHTS.values()))) - 1
    rights = struct.pack("<Q", files)
    if version >= LANDLOCK_NETWORK_FROM:
        rights += struct.pack("<Q", 0b11)  # to bind, to connect
    if version >= LANDLOCK_SCOPES_FROM:
        rights += struct.pack("<Q", 0b11)  # abstract sockets, signals
    ruleset = _must(libc.syscall(create, rights, len(rights), 0), "Landlock")
    allowed = [(path, FILE_READ | FOLDER_READ) for path in profile.reads]
    allowed += [(path, FILE_READ | FILE_EXECUTE) for path in profile.executes]
    for path, access in allowed:
        place = os.open(path, os.O_PATH)
        is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
        rule = struct.pack("<Qi", access if is_folder else access & ~FOLDER_READ, place)
        _must(libc.syscall(add_rule, ruleset, LANDLOCK_PATH_BENEATH, rule, 0), path)
        os.close(place)
    _must(libc.syscall(restrict_self, ruleset, 0), "Landlock")
    os.close(ruleset)


def _filter_system_calls(profile: Profile) -> None:
    filters = system_call_filter(platform.machine(), is_for_exec=profile.is_for_exec)
    text = b"".join(struct.pack("<HBBI", *each) for each in filters)
    buffer = ctypes.create_string_buffer(text, len(text))

    class Program(ctypes.Structure):
        _fields_ = (("count", ctypes.c_ushort), ("filters", ctypes.c_void_p))

    program = Program(len(filters), ctypes.addressof(buffer))
    mode = SECCOMP_MODE_FILTER
    _must(_libc().prctl(PR_SET_SECCOMP, mode, ctypes.byref(program), 0, 0), "seccomp")


Instruction = tuple[int, int, int, int]

LOAD, EQUAL, AT_LEAST, HAS_BITS, ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06
AT_NUMBER, AT_ARCHITECTURE, AT_FIRST_ARGUMENT = 0, 4, 16
ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSE, UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
CLONE_THREAD: Final = 0x10000
ARGUMENT_BYTES: Final = 8


def system_call_filter(machine: str, *, is_for_exec: bool) -> list[Instruction]:
    """Write the program by which the kernel decides each system call.

    An instruction is (operation, jump if true, jump if false, operand). Every call that the list
    does not name is refused with an error, which a probe can see. A foreign calling convention ends
    the process, since the same number would mean another call.
    """
    program: list[Instruction] = [
        (LOAD, 0, 0, AT_ARCHITECTURE),
        (EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (ANSWER, 0, 0, KILL),
        (LOAD, 0, 0, AT_NUMBER),
    ]
    if machine == "x86_64":
        program += [(AT_LEAST, 0, 1, X32_BIT), (ANSWER, 0, 0, KILL)]
    names = {**BASE[machine], **(EXEC[machine] if is_for_exec else {})}
    for number in sorted(names.values()):
        program += [(EQUAL, 0, 1, number), (ANSWER, 0, 0, ALLOW)]
    if is_for_exec:
        # Threads are allowed, processes are not. The arguments of clone3 lie in memory, where no
        # filter can see them. So it is reported as missing, and the C library falls back to clone.
        program += [(EQUAL, 0, 1, CLONE3), (ANSWER, 0, 0, UNKNOWN)]
        program += [(EQUAL, 0, 4, CLONE[machine]), (LOAD, 0, 0, AT_FIRST_ARGUMENT)]
        program += [(HAS_BITS, 0, 1, CLONE_THREAD), (ANSWER, 0, 0, ALLOW), (ANSWER, 0, 0, REFUSE)]
        for name, number in GUARDED_NUMBERS[machine].items():
            program += _guard(number, *GUARDED[name])
    return [*program, (ANSWER, 0, 0, REFUSE)]


def _guard(number: int, argument: int, harmless: tuple[int, ...]) -> list[Instruction]:
    """Allow a call with these values of one argument only; it is an int, so its low half counts."""
    program: list[Instruction] = [(LOAD, 0, 0, AT_FIRST_ARGUMENT + ARGUMENT_BYTES * argument)]
    for value in harmless:
        program += [(EQUAL, 0, 1, value), (ANSWER, 0, 0, ALLOW)]
    program += [(ANSWER, 0, 0, REFUSE)]
    return [(EQUAL, 0, len(program), number), *program]


# -- Trying the layers out ----------------------------------------------------------------------


def _is_refused(attempt: Callable[[], object]) -> bool:
    """Tell whether the kernel refused; any other error may have another cause than the lock."""
    try:
        attempt()
    except OSError as error:
        return error.errno in REFUSED
    return False


def _refuses_files() -> bool:
    """Landlock says EACCES, and says it to root as well; seccomp, which is not yet on, EPERM."""
    try:
        os.close(os.open("/", os.O_RDONLY))
    except OSError as error:
        return error.errno == errno.EACCES
    return False


def _has_no_other_descriptor(channels: Collection[int]) -> bool:
    """Ask the kernel about many descriptors at once; it reports those that are closed."""
    for first in range(0, DESCRIPTORS_PROBED, DESCRIPTORS_MAX):
        asked = set(range(first, first + DESCRIPTORS_MAX)) - set(channels)
        poll = select.poll()
        for descriptor in asked:
            poll.register(descriptor, 0)
        if {each for each, events in poll.poll(0) if events & select.POLLNVAL} != asked:
            return False
    return True


def _is_limited(profile: Profile) -> bool:
    return all(
        resource.getrlimit(which) == (most, most) for which, most in _limits(profile).items()
    )


def _has_no_privileges() -> bool:
    libc = _libc()
    capabilities = ctypes.create_string_buffer(b"\xff" * CAPABILITY_BYTES, CAPABILITY_BYTES)
    _must(libc.capget(struct.pack("<Ii", CAPABILITY_VERSION, 0), capabilities), "capabilities")
    is_traceable = libc.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0
    can_gain = libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1
    ends_by = ctypes.c_int()
    _must(libc.prctl(PR_GET_PDEATHSIG, ctypes.byref(ends_by), 0, 0, 0), "end with the parent")
    outlives = ends_by.value != signal.SIGKILL
    return not (any(capabilities.raw) or is_traceable or can_gain or outlives)


def _connect() -> None:
    with socket.socket() as outside:
        outside.setblocking(False)
        outside.connect(("127.0.0.1", 9))


def _execute(program: str) -> None:
    os.execv(program, [program])


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _must(answer: int, what: str) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return answer
