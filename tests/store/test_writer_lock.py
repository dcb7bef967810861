"""The writer's lock is given back, whatever happens between taking it and the first statement."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from duly.errors import StoreLost
from tests.store.notebook import write
from tests.store.test_writer import READ, RIDER, scene


def test_an_interrupt_right_after_the_lock_is_taken_does_not_keep_it() -> None:
    """Law 1: a store that was interrupted is lost or works; it does not hang for ever."""

    async def story() -> None:
        async with scene() as stage:
            clock = stage.env.monotonic_ms

            def interrupted() -> int:
                object.__setattr__(stage.env, "monotonic_ms", clock)
                raise KeyboardInterrupt

            object.__setattr__(stage.env, "monotonic_ms", interrupted)
            with pytest.raises(KeyboardInterrupt):
                await stage.backend.transact(write("a"), RIDER)
            lock = stage.backend._writer._lock
            is_free = lock.acquire(blocking=False)
            lock.release()  # in any case, else this test would hang at its end
            assert is_free
            with suppress(StoreLost):  # it may be lost; what matters is that no caller hangs
                await stage.backend.transact(write("b"), READ)

    asyncio.run(story())
