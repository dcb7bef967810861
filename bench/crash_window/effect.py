"""The outside of every program here: a file, one synced line per effect, and the killing.

It knows none of the programs, and runs in the environment of each. The folder, the place to die at,
whether the outside writes a key only once, and whether a program looks before it writes come in
through the environment.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

FOLDER = Path(os.environ.get("CRASH_WINDOW_FOLDER", "."))
PLACE = os.environ.get("CRASH_WINDOW_PLACE", "")
IS_KEYED = os.environ.get("CRASH_WINDOW_KEYED") == "1"
IS_LOOKED_UP = os.environ.get("CRASH_WINDOW_LOOKED_UP") == "1"
BOOK = FOLDER / "book.txt"
SAID = FOLDER / "said.txt"
MAIL = "m1"


def read_keys() -> list[str]:
    """List the key of every effect there is."""
    return BOOK.read_text(encoding="utf-8").split() if BOOK.exists() else []


def write(key: str) -> None:
    """Make the effect; die before or after it if that is the plan."""
    if PLACE == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    if not (IS_KEYED and key in read_keys()):
        with BOOK.open("a", encoding="utf-8") as file:
            file.write(f"{key}\n")
            file.flush()
            os.fsync(file.fileno())
    if PLACE == "after":
        os.kill(os.getpid(), signal.SIGKILL)


def look_and_write(key: str) -> None:
    """Make the effect as a careful program does: not if its look-up finds it there."""
    if not (IS_LOOKED_UP and key in read_keys()):
        write(key)


def say(words: str) -> None:
    """Leave for the table what the program itself says about the work."""
    SAID.write_text(words, encoding="utf-8")
