"""What this machine has: its clock, the lock of scripts, and the store's version."""

from __future__ import annotations

from datetime import datetime

from duly.cell.lock import is_lockable
from duly.env import Loop
from duly.rules.schedule import moment
from duly.store.migrate import SCHEMA_VERSION as SCHEMA_VERSION


def read_clocks() -> tuple[int, int]:
    """Return the wall clock and the monotonic clock, in milliseconds."""
    env = Loop()
    try:
        return env.now_ms(), env.monotonic_ms()
    finally:
        env.close()


def now() -> datetime:
    """Return the time of the wall clock."""
    return moment(read_clocks()[0])


def list_missing_locks() -> tuple[str, ...]:
    """Name what this machine lacks to lock a script in; nothing where it can."""
    return tuple(is_lockable().missing)
