"""What time it is on this machine; nothing heavy is imported with it."""

from __future__ import annotations

from duly.env import Loop


def read_clocks() -> tuple[int, int]:
    """Return the wall clock and the monotonic clock, in milliseconds."""
    env = Loop()
    try:
        return env.now_ms(), env.monotonic_ms()
    finally:
        env.close()
