"""A host that stands still."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace

import pytest

from duly.sandbox.base import Returned
from duly.sandbox.wire import Channel, frame
from tests.sandbox.test_pool import LIMITS, standing

PATIENCE_S = 120


async def test_bytes_that_come_with_the_end_of_a_wait_are_not_lost() -> None:
    """X2: the loop reads the socket and fires the timer in one round; the bytes stay."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours, asyncio.get_running_loop())
        receiving = asyncio.ensure_future(channel.receive(PATIENCE_S))
        await asyncio.sleep(0)
        theirs.send(frame(b"hello"))
        asyncio.get_running_loop().call_later(0, receiving.cancel)
        with pytest.raises(asyncio.CancelledError):
            await receiving
        assert await channel.receive(PATIENCE_S) == b"hello"


@pytest.mark.parametrize("wall_s", [0.1, 20.0])
async def test_a_host_that_stood_still_does_not_blame_the_script(wall_s: float) -> None:
    """X2: it was suspended, or computed itself; the answer that came meanwhile counts."""
    limits = replace(LIMITS, step_cpu_s=0.1, step_wall_s=wall_s)
    async with standing() as stand, await stand.script("return 1", limits) as script:
        running = asyncio.ensure_future(script.start())
        await asyncio.sleep(0)
        time.sleep(2.5)  # noqa: ASYNC251  # longer than any wait the watchdog has begun
        assert await running == Returned(1)
