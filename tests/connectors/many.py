"""The stand of the tests of one call: a connector that does what it is given, and the hooks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pytest

import duly
from duly.connectors import attach as hooks
from duly.connectors.registry import Registry
from duly.connectors.watch import Watch
from tests.connectors.sheets import make_call

PATIENCE_S: Final = 240.0


@pytest.fixture
async def attached() -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    hooks.attach(loop)
    yield
    hooks.detach(loop)


class Many(duly.Connector):
    """Does what a test gives it, as a read, a mutation and a question."""

    name = "many"

    def __init__(self, act: Callable[[Many, duly.Call | None], Any]) -> None:
        self.act = act
        self.free = threading.Event()
        self.begun = threading.Event()

    def block(self) -> str:
        self.begun.set()
        assert self.free.wait(PATIENCE_S)
        return "done"

    @duly.read(timeout_s=0.01)
    async def look(self) -> Any:
        return await self.act(self, None)

    @duly.mutation(lag_s=1, timeout_s=PATIENCE_S)
    async def change(self, call: duly.Call) -> Any:
        return await self.act(self, call)

    @change.reconcile
    async def change_happened(self, call: duly.Call) -> Any:
        return await self.act(self, call)

    @duly.mutation(lag_s=1, timeout_s=PATIENCE_S, idempotent=True, key_lifetime_s=60)
    async def put(self, call: duly.Call) -> Any:
        return await self.act(self, call)


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not fact():  # noqa: ASYNC110  # a fact of threads, no event of this loop
            await asyncio.sleep(0.002)


def sending(many: Many, tool: str = "many.change") -> Watch:
    registry = Registry([many])
    return registry.send(registry.catalog.find(tool), make_call(tool))
