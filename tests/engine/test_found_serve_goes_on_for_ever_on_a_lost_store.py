"""A failed sync, after which the store must be opened again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.errors import StoreUnavailable
from duly.testing import Stage
from tests.engine.stand import flow, opened


async def test_serving_ends_with_the_store_it_served(duly_world: Stage) -> None:
    """H3: whoever serves is told that this host can do nothing any more."""
    play = await opened(duly_world)
    await play.deploy(flow())
    serving = asyncio.ensure_future(play.host.serve())
    await duly_world.advance(1)
    backend: Any = play.store.backend
    writer = getattr(backend, "_writer", backend)
    writer._break(OSError("sync failed"), [])  # what a failed sync does (decision 010)
    play.desk.engine.wake()
    await duly_world.advance(60)
    assert serving.done()  # was pending for ever
    with pytest.raises(StoreUnavailable, match="Open it again"):
        await serving
