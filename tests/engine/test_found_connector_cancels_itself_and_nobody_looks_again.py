"""A connector whose own inside was cancelled, or that raises what is no Exception."""

from __future__ import annotations

import asyncio

import pytest

from duly.connectors.base import Applied, Call, Connector, Verdict, mutation, read
from duly.testing import Stage
from tests.engine.stand import CONSUMER, PREPARE, consumer, flow, opened
from verification import moves


class Odd(BaseException):
    """Nothing anybody catches."""


class Cutting(Connector):
    """Every tool raises once."""

    name = "cut"

    def __init__(self, error: BaseException, where: str) -> None:
        self.errors = {where: error}

    def once(self, where: str) -> None:
        if (error := self.errors.pop(where, None)) is not None:
            raise error

    @read
    async def look(self) -> str:
        self.once("look")
        return "seen"

    @mutation(lag_s=1)
    async def change(self, call: Call) -> str:
        self.once("change")
        raise RuntimeError("?")

    @change.reconcile
    async def change_happened(self, call: Call) -> Verdict:
        self.once("change_happened")
        return Applied()


@pytest.mark.parametrize("where", ["look", "change", "change_happened"])
@pytest.mark.parametrize("error", [asyncio.CancelledError(), Odd()], ids=["cancelled", "odd"])
async def test_a_run_whose_connector_gave_up_is_not_left_lying(
    duly_world: Stage, where: str, error: BaseException
) -> None:
    """R7, L5, F1: the run fails, is asked about or is recovered; it never stays active for ever."""
    play = await opened(duly_world, connectors=(Cutting(error, where),))
    prepare = (moves.Call("cut.look"), *PREPARE)
    await play.deploy(flow({CONSUMER: consumer(prepare, (moves.Call("cut.change"),))}))
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(3600)
        assert (await play.run()).status in ("committed", "failed:internal")
