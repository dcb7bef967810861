"""A function for the process that reads sources: it never ends, or takes the process along."""

from __future__ import annotations

import os


def loop(body: bytes) -> bytes:
    """Compute for ever, unless there is nothing to read."""
    if body == b"die":
        os._exit(1)
    while body:
        pass
    return b""
