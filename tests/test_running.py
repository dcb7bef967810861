"""A host that stops serving inside `running()` says so to the code inside."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from duly.errors import StoreLost
from duly.host import Host

pytestmark = pytest.mark.anyio

PATIENCE_S = 60.0


class LosingHost(Host):
    """A host whose store is lost when a test says so."""

    async def serve(self) -> None:
        self.lost = asyncio.Event()
        await self.lost.wait()
        raise StoreLost("the disk is gone")


@pytest.fixture
def host(tmp_path: Path) -> LosingHost:
    return LosingHost(f"sqlite:///{tmp_path}/duly.db")


async def lose(host: LosingHost) -> None:
    while not hasattr(host, "lost"):  # noqa: ASYNC110  # it is there after a step or two
        await asyncio.sleep(0)
    host.lost.set()


async def wait_inside(host: LosingHost, seen: list[str], error: Exception | None = None) -> None:
    async with host.running():
        await lose(host)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            if error is not None:
                raise error from None
            raise


async def leave_at_once(host: LosingHost, steps: int) -> None:
    async with host.running():
        await lose(host)
        for _ in range(steps):
            await asyncio.sleep(0)


async def test_what_is_inside_is_cancelled_and_hears_why(host: LosingHost) -> None:
    """H3: a program does not go on as if its host still worked."""
    seen: list[str] = []
    async with host, asyncio.timeout(PATIENCE_S):
        with pytest.raises(StoreLost, match="the disk is gone"):
            await wait_inside(host, seen)
        await asyncio.sleep(0)  # Nothing of that is left over.
        task = asyncio.current_task()
        assert task is not None
        assert (seen, task.cancelling()) == (["cancelled"], 0)


@pytest.mark.parametrize("steps", range(6))
async def test_who_is_just_leaving_is_not_cancelled_later(host: LosingHost, steps: int) -> None:
    """H3: the cancellation that came too late is taken back, at whatever step it came."""
    async with host:
        with suppress(StoreLost):
            await leave_at_once(host, steps)
        for _ in range(3):
            await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_an_error_of_what_is_inside_comes_first(host: LosingHost) -> None:
    """H3: and says that the host had stopped."""
    async with host:
        with pytest.raises(ValueError, match="mine") as raised:
            await wait_inside(host, [], ValueError("mine"))
        assert "the disk is gone" in raised.value.__notes__[0]
        await asyncio.sleep(0)


async def test_a_cancellation_from_elsewhere_stays_one(host: LosingHost) -> None:
    """H3: a caller that cancels what is inside is not told of an error instead."""

    async def inside() -> None:
        async with host.running():
            await asyncio.Event().wait()

    async with host:
        task: asyncio.Task[Any] = asyncio.ensure_future(inside())
        await lose(host)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
