"""What this machine has: its clock, the lock of scripts, and the store's version."""

from __future__ import annotations

import os
from datetime import datetime
from enum import StrEnum

from duly.api.clock import read_clocks as read_clocks
from duly.cell.lock import is_lockable
from duly.cell.user import stays_root
from duly.rules.schedule import moment
from duly.sandbox.python_launcher import find_binary, needed_files
from duly.store.migrate import SCHEMA_VERSION as SCHEMA_VERSION


def now() -> datetime:
    """Return the time of the wall clock."""
    return moment(read_clocks()[0])


def list_missing_locks() -> tuple[str, ...]:
    """Name what this machine lacks to lock a script in; nothing where it can."""
    return tuple(is_lockable().missing)


class StaysRoot(StrEnum):
    """Which locked processes of a root host stay root."""

    NONE = "none"
    PYTHON = "python"  # the workers of Python scripts: no other user can reach the interpreter
    EVERY = "every"  # this machine gives a process no other user


def find_root() -> StaysRoot | None:
    """Tell which locked processes stay root; None where the host is not root itself (X1)."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return None
    if stays_root():
        return StaysRoot.EVERY
    executes, reads = needed_files(str(find_binary()))
    return StaysRoot.PYTHON if stays_root((*executes, *reads)) else StaysRoot.NONE
