"""A worker that reads nothing cannot keep a script from leaving."""

from __future__ import annotations

import asyncio
import os
import signal

from tests.sandbox.test_pool import is_gone, standing


async def test_a_worker_that_does_not_listen_is_ended_when_it_is_given_back() -> None:
    """X2: its channel is full, so not even the word to forget fits in; nobody waits for it."""
    async with standing(workers_max=1) as stand:
        worker = await stand.pool.take()
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            while True:
                worker._channel._end.send(bytes(4096))
        except BlockingIOError:
            pass
        async with asyncio.timeout(120):
            await stand.pool.give_back(worker)
        assert is_gone(worker.pid)
        assert stand.pool.pids == ()
