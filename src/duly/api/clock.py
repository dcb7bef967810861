"""The clocks of this machine, for faces; nothing heavy is imported with them."""

from __future__ import annotations

from duly.env import Env as Env
from duly.env import Loop as Loop
from duly.env import machine_ms as machine_ms
from duly.env import unguessable as unguessable


def read_clocks() -> tuple[int, int]:
    """Return the wall clock and the monotonic clock, in milliseconds."""
    env = Loop()
    try:
        return env.now_ms(), env.monotonic_ms()
    finally:
        env.close()
