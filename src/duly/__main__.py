"""The entry point of the command line: `duly`, or `python -m duly`.

Law: nothing is imported here but the group; each command imports what it needs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

# What Python has on Linux and macOS alone, and Duly needs.
POSIX: Final = frozenset({"fcntl", "pwd", "grp", "resource", "termios", "pty", "tty"})
NOT_HERE: Final = "Duly runs on Linux and macOS; on Windows, run it in WSL."


def main() -> None:
    """Call the command line and leave with its exit code."""
    # A stream that the caller closed must not raise.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    try:
        _call()
    except ModuleNotFoundError as error:
        if error.name not in POSIX:
            raise
        sys.exit(NOT_HERE)


def _call() -> None:
    from duly.faces.cli import duly

    # A terminal that cannot show a character is shown another one, and not an error.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    duly(prog_name="duly")


if __name__ == "__main__":
    main()
