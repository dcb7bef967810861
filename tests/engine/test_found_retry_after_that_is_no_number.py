"""A connector that hands on a header as it came."""

from __future__ import annotations

from typing import Any, cast

from duly.connectors.base import Call, Connector, mutation
from duly.errors import NotSent
from duly.testing import Stage
from tests.engine.stand import CONSUMER, consumer, flow, opened
from verification import moves


class Header(Connector):
    """It passes on the text of a header."""

    name = "header"

    @mutation
    async def change(self, call: Call) -> None:
        raise NotSent("busy", retry_after_s=cast(Any, "5"))


async def test_a_retry_after_in_words_leaves_a_definite_no_definite(duly_world: Stage) -> None:
    """L4, F2: not sent is not sent."""
    play = await opened(duly_world, connectors=(Header(),))
    await play.deploy(flow({CONSUMER: consumer(mutate=(moves.Call("header.change"),))}))
    await play.publish("a")
    await play.drain()
    assert ((await play.row()).status, (await play.run()).status) == ("failed", "paused:transient")
