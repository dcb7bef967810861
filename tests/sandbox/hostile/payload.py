"""Native payloads: what code could try that broke out of its interpreter and is the worker itself.

Each is a function that gets the places of the canaries and reaches one of them, or raises; what it
answers is what it found. It runs in the worker after the lock was put on, so whatever it needs is
imported before. It must work where no lock is: `test_native` proves that.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.sandbox.hostile.attack import Aim

Places = dict[str, str]
Payload = Callable[[Places], str]

SYSCALL: Final = {
    "x86_64": {
        "openat2": 437, "clone": 56, "process_vm_readv": 310, "ptrace": 101, "tgkill": 234,
        "pidfd_open": 434, "pidfd_send_signal": 424, "pidfd_getfd": 438, "shmget": 29, "shmat": 30,
        "io_uring_setup": 425, "rt_sigqueueinfo": 129, "sendmmsg": 307, "execveat": 322,
        "name_to_handle_at": 303, "link": 86, "symlink": 88, "userfaultfd": 323, "bpf": 321,
        "perf_event_open": 298, "add_key": 248, "unshare": 272, "memfd_create": 319, "setns": 308,
    },
}  # fmt: skip
OUTSIDE: dict[str, tuple[Aim, str, Payload]] = {}
INSIDE: dict[str, tuple[str, str, Payload]] = {}


@dataclass(frozen=True, slots=True)
class Wire:
    """The worker's channel, for who wants to speak on it."""

    number: int


CHANNEL: list[Wire] = []


def aims(aim: Aim, why: str) -> Callable[[Payload], Payload]:
    """Enter a payload that reaches outside where it is not stopped."""

    def enter(payload: Payload) -> Payload:
        OUTSIDE[payload.__name__] = (aim, why, payload)
        return payload

    return enter


def ends(says: str, why: str) -> Callable[[Payload], Payload]:
    """Enter a payload that reaches nobody, and says how its worker ends."""

    def enter(payload: Payload) -> Payload:
        INSIDE[payload.__name__] = (says, why, payload)
        return payload

    return enter


def attempt(payload: Payload, places: Places) -> str:
    """Try it: `refused` if the kernel said no, else what it answered or failed with."""
    try:
        return f"did: {payload(places)}"
    except OSError as error:
        known = errno.errorcode.get(error.errno or 0, "?")
        is_refusal = error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EBADF)
        return f"{'refused' if is_refusal else 'failed'}: {known}"
    except Exception as error:
        return f"failed: {type(error).__name__} {str(error)[:100]}"


def call(name: str, *args: object) -> int:
    """Make a system call by its number, past everything the C library would do."""
    libc = ctypes.CDLL(None, use_errno=True)
    # As wide as a register: of an int that is passed on the stack only the lower half is written.
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in args]
    answer = int(libc.syscall(SYSCALL[os.uname().machine][name], *wide))
    if answer < 0:
        raise OSError(ctypes.get_errno(), name)
    return answer


def shell(places: Places) -> list[str]:
    return ["/bin/sh", "-c", f"echo reached > {places['MADE']}"]


# -- Files --------------------------------------------------------------------------------------


@aims(Aim.FILE, "the kernel opens whatever the user may read")
def reads_a_file(places: Places) -> str:
    return os.read(os.open(places["FILE"], os.O_RDONLY), 100).decode()


@aims(Aim.FILE, "the same by a newer call that a list of old names forgets")
def reads_a_file_by_openat2(places: Places) -> str:
    how = struct.pack("<QQQ", os.O_RDONLY, 0, 0)
    place = places["FILE"].encode()
    return os.read(call("openat2", -100, place, how, len(how)), 100).decode()


@aims(Aim.FILE, "writing needs no reading")
def writes_a_file(places: Places) -> str:
    return str(os.write(os.open(places["MADE"], os.O_WRONLY | os.O_CREAT), b"reached"))


@aims(Aim.FILE, "a new folder is no file, but a trace")
def makes_a_folder(places: Places) -> str:
    Path(places["MADE"]).mkdir()
    return "made"


@aims(Aim.FILE, "a second name for a file is made without opening it")
def links_a_file(places: Places) -> str:
    os.link(places["FILE"], places["MADE"])
    return "made"


@aims(Aim.FILE, "a name that points elsewhere leads others astray")
def plants_a_symbolic_link(places: Places) -> str:
    Path(places["MADE"]).symlink_to("/etc/passwd")
    return "made"


@aims(Aim.FILE, "a file can be emptied by its name alone")
def renames_a_file(places: Places) -> str:
    Path(places["SPARE"]).rename(places["MADE"])
    return "made"


@aims(Aim.FILE, "the current folder is a way round an absolute path")
def lists_a_folder(places: Places) -> str:
    return "reached" if places["FILE"] in map(str, Path(places["FILE"]).parent.iterdir()) else ""


# -- The network --------------------------------------------------------------------------------


@aims(Aim.TCP, "a connection carries out what the script knows")
def connects(places: Places) -> str:
    with socket.create_connection(("127.0.0.1", int(places["PORT"])), 5) as out:
        out.sendall(b"reached")
    return "sent"


@aims(Aim.UDP, "a datagram needs no connection")
def sends_a_datagram(places: Places) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        return str(out.sendto(b"reached", ("127.0.0.1", int(places["UDP"]))))


@aims(Aim.UDP, "a question for a name carries words out, and is often let through")
def asks_for_a_name(places: Places) -> str:
    question = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\x07reached\x04test\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        return str(out.sendto(question, ("127.0.0.1", int(places["UDP"]))))


@aims(Aim.UNIX, "services of the machine listen on paths")
def connects_to_a_path(places: Places) -> str:
    with socket.socket(socket.AF_UNIX) as out:
        out.connect(places["UNIX"])
        out.sendall(b"reached")
    return "sent"


@aims(Aim.UNIX, "an abstract name is in no folder, so no right over files covers it")
def connects_to_an_abstract_name(places: Places) -> str:
    with socket.socket(socket.AF_UNIX) as out:
        out.connect("\0" + places["ABSTRACT"])
        out.sendall(b"reached")
    return "sent"


@aims(Aim.TCP, "who listens lets others in")
def listens(places: Places) -> str:
    with socket.socket() as inside:
        inside.bind(("127.0.0.1", 0))
        inside.listen()
        with socket.create_connection(inside.getsockname(), 5):
            inside.accept()[0].close()
            return "reached"


# -- Processes ----------------------------------------------------------------------------------


def _wait(child: int) -> str:
    return str(os.waitpid(child, 0)[1])


@aims(Aim.CHILD, "a child has no limits of its own yet")
def forks(places: Places) -> str:
    child = os.fork()
    if child == 0:
        try:
            os.close(os.open(places["MADE"], os.O_WRONLY | os.O_CREAT))
        finally:
            os._exit(0)
    return _wait(child)


@aims(Aim.CHILD, "the call below fork, with flags of its own")
def clones(places: Places) -> str:
    child = call("clone", signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        try:
            os.close(os.open(places["MADE"], os.O_WRONLY | os.O_CREAT))
        finally:
            os._exit(0)
    return _wait(child)


@aims(Aim.CHILD, "a program is started without a fork of one's own")
def spawns(places: Places) -> str:
    return _wait(os.posix_spawn("/bin/sh", shell(places), {}))


@aims(Aim.CHILD, "a program that was never a file is run out of memory")
def runs_a_program_from_memory(places: Places) -> str:
    number = call("memfd_create", b"x", 0)
    os.write(number, f"#!/bin/sh\necho reached > {places['MADE']}\n".encode())
    return _wait(os.posix_spawn(f"/proc/self/fd/{number}", ["x"], {}))


@aims(Aim.PROCESS, "a signal ends or stops a process of the same user")
def sends_a_signal(places: Places) -> str:
    os.kill(int(places["VICTIM"]), signal.SIGUSR1)
    return "sent"


@aims(Aim.PROCESS, "a thread is addressed by another call than a process")
def sends_a_signal_to_a_thread(places: Places) -> str:
    victim = int(places["VICTIM"])
    return str(call("tgkill", victim, victim, int(signal.SIGUSR1)))


@aims(Aim.PROCESS, "a descriptor of a process is a newer way to signal it")
def sends_a_signal_by_descriptor(places: Places) -> str:
    number = call("pidfd_open", int(places["VICTIM"]), 0)
    return str(call("pidfd_send_signal", number, int(signal.SIGUSR1), None, 0))


@aims(Aim.PROCESS, "limits of another process can be lowered until it fails")
def lowers_a_limit(places: Places) -> str:
    most = resource.prlimit(int(places["VICTIM"]), resource.RLIMIT_NOFILE)[1]
    return str(resource.prlimit(int(places["VICTIM"]), resource.RLIMIT_NOFILE, (50, most)))


@aims(Aim.PROCESS, "a process that never gets its turn is as good as stopped")
def slows_another_down(places: Places) -> str:
    os.setpriority(os.PRIO_PROCESS, int(places["VICTIM"]), 19)
    return str(os.getpriority(os.PRIO_PROCESS, int(places["VICTIM"])))


# -- What others hold ---------------------------------------------------------------------------


@aims(Aim.MEMORY, "memory of the same user's processes can be read without stopping them")
def reads_memory(places: Places) -> str:
    found = ctypes.create_string_buffer(7)
    here = struct.pack("<QQ", ctypes.addressof(found), 7)
    there = struct.pack("<QQ", int(places["ADDRESS"]), 7)
    call("process_vm_readv", int(places["VICTIM"]), here, 1, there, 1, 0)
    return found.raw.decode()


@aims(Aim.MEMORY, "the same through a file")
def reads_memory_as_a_file(places: Places) -> str:
    number = os.open(f"/proc/{places['VICTIM']}/mem", os.O_RDONLY)
    return os.pread(number, 7, int(places["ADDRESS"])).decode()


@aims(Aim.MEMORY, "a debugger may do everything")
def traces(places: Places) -> str:
    victim = int(places["VICTIM"])
    call("ptrace", 16, victim, 0, 0)
    os.waitpid(victim, 0x40000000)
    word = ctypes.c_long()
    call("ptrace", 2, victim, ctypes.c_void_p(int(places["ADDRESS"])), ctypes.byref(word))
    call("ptrace", 17, victim, 0, 0)
    return bytes(word)[:7].decode()


@aims(Aim.MEMORY, "shared memory is no file and has no path")
def attaches_shared_memory(places: Places) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    number = call("shmget", int(places["SHARED"]), 0, 0)
    place = libc.shmat(number, None, 0o10000)
    if place in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "shmat")
    return ctypes.string_at(place, 7).decode()


@aims(Aim.ENVIRONMENT, "secrets are handed to programs there")
def reads_its_environment(places: Places) -> str:
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    found = libc.getenv(places["VARIABLE"].encode())
    if found is None:
        raise PermissionError(errno.EPERM, "there is none")
    return str(found.decode())


@aims(Aim.ENVIRONMENT, "another's environment is a file")
def reads_another_s_environment(places: Places) -> str:
    number = os.open(f"/proc/{places['VICTIM']}/environ", os.O_RDONLY)
    return "reached" if b"reached" in os.read(number, 100_000) else "nothing"


@aims(Aim.DESCRIPTOR, "a descriptor that was inherited by mistake is open already")
def uses_an_inherited_descriptor(places: Places) -> str:
    return os.pread(int(places["INHERITED"]), 7, 0).decode()


@aims(Aim.DESCRIPTOR, "descriptors of another process are files")
def opens_another_s_descriptor(places: Places) -> str:
    number = os.open(f"/proc/{places['VICTIM']}/fd/{places['HELD']}", os.O_RDONLY)
    return os.pread(number, 7, 0).decode()


@aims(Aim.DESCRIPTOR, "a descriptor of another process can be copied")
def copies_another_s_descriptor(places: Places) -> str:
    process = call("pidfd_open", int(places["VICTIM"]), 0)
    return os.pread(call("pidfd_getfd", process, int(places["HELD"]), 0), 7, 0).decode()


@aims(Aim.CHILD, "the process itself becomes another program")
def becomes_another_program(places: Places) -> str:
    os.execv("/bin/sh", shell(places))
    raise AssertionError


# -- Who stays inside: exhausts, or lies to its host ----------------------------------------------


def _say(body: bytes) -> None:
    os.write(CHANNEL[0].number, struct.pack("<I", len(body)) + body)


def _stay() -> str:
    while True:
        time.sleep(60)


@ends("computed longer", "code that is not interpreted looks at no clock")
def loops(places: Places) -> str:
    while True:
        pass


@ends("ran longer", "who sleeps uses no processor")
def sleeps(places: Places) -> str:
    return _stay()


@ends("failed|did not", "a map of memory asks no interpreter")
def takes_all_memory(places: Places) -> str:
    held = mmap.mmap(-1, 4 << 30)
    return f"took {len(held)}"


@ends("lost", "a worker that ends in the middle")
def exits(places: Places) -> str:
    os._exit(0)


@ends("lost", "a worker that breaks its channel")
def closes_its_channel(places: Places) -> str:
    os.close(CHANNEL[0].number)
    return _stay()


@ends("lost", "who speaks twice answers for the next script")
def answers_twice(places: Places) -> str:
    body = b'{"end":{"value":"forged"}}'
    os.write(CHANNEL[0].number, (struct.pack("<I", len(body)) + body) * 2)
    return _stay()


@ends("lost", "a call that was never made could be a mutation")
def forges_the_number_of_a_call(places: Places) -> str:
    _say(b'{"calls":[{"id":99,"path":"a.b","args":[],"stack":""}]}')
    return _stay()


@ends("lost", "a length is believed before the bytes are there")
def announces_four_gigabytes(places: Places) -> str:
    os.write(CHANNEL[0].number, b"\xff\xff\xff\xff")
    return _stay()


@ends("ran longer", "half a frame keeps its reader waiting")
def sends_half_a_frame(places: Places) -> str:
    os.write(CHANNEL[0].number, b"\x10\0\0\0{")
    return _stay()


@ends("lost", "a reader of JSON recurses")
def sends_a_frame_nested_without_end(places: Places) -> str:
    _say(b'{"end":{"value":' + b"[" * 400_000 + b"]" * 400_000 + b"}}")
    return _stay()


@ends("at most 500000 values", "two bytes on the way are eighty in the host")
def sends_a_million_values(places: Places) -> str:
    _say(b'{"end":{"value":[' + b"0," * 1_000_000 + b"0]}}")
    return _stay()


@ends("lost", "lines are kept by the host")
def sends_more_lines_than_there_are(places: Places) -> str:
    lines = b",".join([b'{"after_ms":1,"text":"x"}'] * 5000)
    _say(b'{"logs":[' + lines + b'],"end":{"missing":true}}')
    return _stay()


@ends("lost", "a time that no store can keep")
def sends_a_line_from_the_end_of_time(places: Places) -> str:
    _say(b'{"logs":[{"after_ms":9223372036854775807,"text":"x"}],"end":{"missing":true}}')
    return _stay()


@ends("lost", "an error is stored, shown and sent to people")
def sends_an_error_as_long_as_a_book(places: Places) -> str:
    _say(b'{"end":{"error":{"name":"","stack":"","message":"' + b"x" * 1_000_000 + b'"}}}')
    return _stay()


@ends("lost", "a step that ends and asks is two things")
def ends_and_asks(places: Places) -> str:
    _say(b'{"calls":[{"id":1,"path":"a.b","args":[],"stack":""}],"end":{"value":1,"missing":true}}')
    return _stay()
