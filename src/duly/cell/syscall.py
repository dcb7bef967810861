"""The numbers of system calls a locked worker may make, per processor.

Law: what is not listed here is refused. `BASE` is what CPython and an interpreter inside it need
once everything is imported; `EXEC` is what a program needs besides to be started and to run
threads. Neither reaches another process, a socket, or a call that sets the clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

AUDIT_ARCH: Final = MappingProxyType({"x86_64": 0xC000003E, "aarch64": 0xC00000B7})
X32_BIT: Final = 0x40000000

# The same on every processor: landlock_create_ruleset, landlock_add_rule, landlock_restrict_self.
LANDLOCK: Final = (444, 445, 446)
CLONE3: Final = 435
CLONE: Final = MappingProxyType({"x86_64": 56, "aarch64": 220})

BASE: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "x86_64": {
            "read": 0,
            "write": 1,
            "close": 3,
            "poll": 7,
            "lseek": 8,
            "mmap": 9,
            "mprotect": 10,
            "munmap": 11,
            "brk": 12,
            "rt_sigaction": 13,
            "rt_sigprocmask": 14,
            "rt_sigreturn": 15,
            "readv": 19,
            "writev": 20,
            "sched_yield": 24,
            "mremap": 25,
            "madvise": 28,
            "getpid": 39,
            "exit": 60,
            "gettimeofday": 96,
            "getrusage": 98,
            "getppid": 110,
            "sigaltstack": 131,
            "gettid": 186,
            "futex": 202,
            "restart_syscall": 219,
            "clock_gettime": 228,
            "clock_nanosleep": 230,
            "exit_group": 231,
            "getrandom": 318,
            "rseq": 334,
        },
        "aarch64": {
            "close": 57,
            "lseek": 62,
            "read": 63,
            "write": 64,
            "readv": 65,
            "writev": 66,
            "ppoll": 73,
            "exit": 93,
            "exit_group": 94,
            "futex": 98,
            "clock_gettime": 113,
            "clock_nanosleep": 115,
            "sched_yield": 124,
            "restart_syscall": 128,
            "sigaltstack": 132,
            "rt_sigaction": 134,
            "rt_sigprocmask": 135,
            "rt_sigreturn": 139,
            "getrusage": 165,
            "gettimeofday": 169,
            "getpid": 172,
            "getppid": 173,
            "gettid": 178,
            "brk": 214,
            "munmap": 215,
            "mremap": 216,
            "mmap": 222,
            "mprotect": 226,
            "madvise": 233,
            "getrandom": 278,
            "rseq": 293,
        },
    }
)

# Opening files is left to Landlock here: the loader must read the program and its libraries.
EXEC: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "x86_64": {
            "fstat": 5,
            "pread64": 17,
            "access": 21,
            "getsockopt": 55,
            "execve": 59,
            "readlink": 89,
            "getuid": 102,
            "getgid": 104,
            "geteuid": 107,
            "getegid": 108,
            "arch_prctl": 158,
            "sched_getaffinity": 204,
            "set_tid_address": 218,
            "epoll_wait": 232,
            "epoll_ctl": 233,
            "openat": 257,
            "newfstatat": 262,
            "ppoll": 271,
            "set_robust_list": 273,
            "epoll_pwait": 281,
            "eventfd2": 290,
            "epoll_create1": 291,
            "pipe2": 293,
            "statx": 332,
        },
        "aarch64": {
            "eventfd2": 19,
            "epoll_create1": 20,
            "epoll_ctl": 21,
            "epoll_pwait": 22,
            "faccessat": 48,
            "openat": 56,
            "pipe2": 59,
            "pread64": 67,
            "readlinkat": 78,
            "newfstatat": 79,
            "fstat": 80,
            "set_tid_address": 96,
            "set_robust_list": 99,
            "sched_getaffinity": 123,
            "getuid": 174,
            "geteuid": 175,
            "getgid": 176,
            "getegid": 177,
            "getsockopt": 209,
            "execve": 221,
            "statx": 291,
        },
    }
)

# Calls that a program needs for itself, and that reach other processes with other arguments:
# prlimit64 sets the limits of any process, fcntl and ioctl let the kernel send signals, prctl
# undoes the end with the parent. Name: which argument decides, and which values are harmless.
GUARDED: Final[Mapping[str, tuple[int, tuple[int, ...]]]] = MappingProxyType(
    {
        "prlimit64": (0, (0,)),  # of this process
        "prctl": (0, (15,)),  # PR_SET_NAME
        "fcntl": (1, (0, 1, 2, 3, 4, 1030)),  # F_DUPFD, F_GETFD … F_SETFL, F_DUPFD_CLOEXEC
        "ioctl": (1, (0x5401, 0x5421, 0x5451)),  # TCGETS, FIONBIO, FIOCLEX
    }
)
GUARDED_NUMBERS: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "x86_64": {"ioctl": 16, "fcntl": 72, "prctl": 157, "prlimit64": 302},
        "aarch64": {"fcntl": 25, "ioctl": 29, "prctl": 167, "prlimit64": 261},
    }
)
