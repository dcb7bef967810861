"""Lock this process, prove it, and become the interpreter of Python scripts.

Law: the interpreter never runs in a process that is not locked; which layer is missing is said by
the exit status, from `UNLOCKED` on, and nothing runs (X1). The lock survives exec. A host that was
told to accept less gets as much of a lock as there is.

A pool starts its workers by one path and passes no further words of ours, so `write_launcher`
makes a little program with the words already in it.
"""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Final

RUNTIME: Final = "pydantic-monty-runtime"
UNLOCKED: Final = 97
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


def write_launcher(folder: Path, *, is_unlocked: bool = False) -> Path:
    """Write the program that starts one worker, locked as far as this machine can."""
    root = Path(__file__).resolve().parents[2]
    accepted = ACCEPTED if is_unlocked else "no"
    words = [sys.executable, "-I", "-B", __file__, str(root), accepted, str(find_binary())]
    path = folder / "monty"
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    path.chmod(0o700)
    return path


def main(root: str, accepted: str, binary: str, *words: str) -> None:
    """Lock this process and become the interpreter."""
    sys.path.insert(0, root)
    # Found only now, by the path that was given.
    from duly.cell.lock import Layer, Profile, lock

    # What a dying worker prints is dropped: it could carry a script's words (A5).
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    executes, reads = needed_files(binary)
    profile = Profile(ADDRESS_SPACE_BYTES, executes=executes, reads=reads, threads=THREADS_MAX)
    report = lock((0, 1, 2), profile)
    if not report.is_complete and accepted != ACCEPTED:
        missing = report.missing[0].partition(" (")[0]
        # What was tried and not refused, and is no layer itself, is for the last one to refuse.
        layer = Layer(missing) if missing in tuple(Layer) else Layer.SYSTEM_CALLS
        os._exit(UNLOCKED + tuple(Layer).index(layer))
    os.execve(binary, ["monty", *words], {})


if __name__ == "__main__":
    main(*sys.argv[1:])
