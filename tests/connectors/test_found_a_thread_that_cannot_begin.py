"""A part of a call that was never begun is no part that is at work."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.connectors.many import Many, attached, sending

__all__ = ["attached"]

pytestmark = pytest.mark.anyio


async def in_a_pool_that_is_shut(many: Many, _: Any) -> Any:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    return await asyncio.get_running_loop().run_in_executor(pool, many.block)


async def in_a_thread_of_its_own(many: Many, _: Any) -> Any:
    return await many.in_thread(many.block)


async def in_a_thread_of_the_loop(many: Many, _: Any) -> Any:
    return await asyncio.to_thread(many.block)


@pytest.mark.parametrize(
    "act", [in_a_pool_that_is_shut, in_a_thread_of_its_own, in_a_thread_of_the_loop]
)
async def test_a_job_that_no_thread_takes_is_not_at_work(
    attached: None, act: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L6, L13: where no thread can be had the call has ended, and nothing of it is done later."""

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    many = Many(act)
    many.free.set()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        watch = sending(many)
        reply = await watch.answered(30)
    assert reply is not None
    assert isinstance(reply.error, RuntimeError)
    assert (watch.is_out, watch.parts) == (False, ())
    await many.in_thread(lambda: None)  # a thread that works off what stood in the row
    await asyncio.to_thread(lambda: None)
    assert not many.begun.is_set()
