"""A send that hangs in its thread while the call is sent again."""

from __future__ import annotations

import asyncio

from duly.connectors.base import Applied, Call, Connector, NotApplied, mutation
from duly.errors import UnknownOutcome
from duly.testing import Stage
from tests.engine.stand import CONSUMER, consumer, flow, opened
from verification import moves


class Hanging(Connector):
    """Its first send takes 500 s whoever cancels it; the next five are uncertain."""

    name = "slow"

    def __init__(self) -> None:
        self.sends = 0
        self.fresh_at: float | None = None

    @mutation(lag_s=5, timeout_s=5, idempotent=True, key_lifetime_s=3600)
    async def change(self, call: Call, text: str) -> str:
        self.sends += 1
        now = asyncio.get_running_loop().time
        if self.sends == 1:
            while now() < 500:
                try:
                    await asyncio.sleep(1)
                except asyncio.CancelledError:
                    continue
        elif self.sends <= 6:
            raise UnknownOutcome("?")
        else:
            self.fresh_at = now()
        return "done"

    @change.reconcile
    async def change_happened(self, call: Call) -> Applied | NotApplied:
        return NotApplied()


async def test_no_absence_is_believed_while_an_older_send_is_out(duly_world: Stage) -> None:
    """L6: a send has ended when its thread returned, also if a later one ended before it."""
    slow = Hanging()
    play = await opened(duly_world, connectors=(slow,))
    change = moves.Call("slow.change", (), {"text": "t"})
    await play.deploy(flow({CONSUMER: consumer(mutate=(change,))}))
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(2000)
    assert slow.fresh_at is None  # was 327; the send that hung answered at last, and was heard
    assert [each.status for each in await play.rows()] == ["applied"]
