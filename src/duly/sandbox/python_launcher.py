"""Lock this process, prove it, say so, and become the interpreter of Python scripts.

Law: the interpreter never runs in a process that is not locked: which layers held is said in the
first frame, and without all of them this process ends (X1). The lock survives exec. A host that was
told to accept less gets as much of a lock as there is.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from duly.cell import lock

LENGTH_BYTES: Final = 4  # a frame begins with its length, as in `wire`
RUNTIME: Final = "pydantic-monty-runtime"
ACCEPTED: Final = "i-accept"
# The interpreter counts the memory of a script itself; this holds it when its counting fails.
ADDRESS_SPACE_BYTES: Final = 1024 * 1024 * 1024
# The interpreter has two. Where its process is no user of its own the host counts them (watch).
THREADS_MAX: Final = 16
# What the kernel runs to start a program that has shared libraries, and where these are.
LOADERS: Final = (
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
)
LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")


def find_binary() -> Path:
    """Find the interpreter that its own package installed, and no other of that name."""
    # Only the host asks, and each worker would pay for these.
    import sysconfig
    from importlib.metadata import PackageNotFoundError, files

    try:
        installed = files(RUNTIME) or []
    except PackageNotFoundError:
        installed = []
    for each in installed:
        if each.stem == "monty" and each.parent.name.lower() in ("bin", "scripts"):
            path = Path(str(each.locate())).resolve()
            if path.is_file():
                return path
    scripts = Path(sysconfig.get_path("scripts")) / "monty"
    if scripts.is_file():
        return scripts.resolve()
    raise FileNotFoundError(
        f"The interpreter for Python scripts is missing. Install {RUNTIME} again."
    )


def needed_files(binary: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what the interpreter's process executes, and what it reads."""
    loaders = (str(path) for path in map(Path, LOADERS) if path.is_file())
    libraries = (str(path) for path in map(Path, LIBRARIES) if path.is_dir())
    return (binary, *loaders), tuple(libraries)


def main(channel: int, accepted: str, binary: str) -> None:
    """Lock this process and become the interpreter, which speaks through this one channel."""
    # What a dying worker prints is dropped: it could carry a script's words (A5).
    silence = os.open(os.devnull, os.O_WRONLY)
    for theirs, ours in ((channel, 0), (channel, 1), (silence, 2)):
        os.dup2(theirs, ours)
    executes, reads = needed_files(binary)
    profile = lock.Profile(ADDRESS_SPACE_BYTES, executes=executes, reads=reads, threads=THREADS_MAX)
    report = lock.lock((0, 1, 2), profile)
    said = json.dumps({"held": report.held, "missing": report.missing}).encode()
    os.write(1, len(said).to_bytes(LENGTH_BYTES, "little") + said)
    if report.is_complete or accepted == ACCEPTED:
        os.execve(binary, ["monty", "subprocess"], {})
