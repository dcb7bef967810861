"""A reconcile method whose reason cannot be stored, or should not be."""

from __future__ import annotations

from duly.connectors.base import Call, Connector, Unsure, mutation
from duly.testing import Stage
from tests.engine.stand import CONSUMER, consumer, flow, opened
from verification import moves


class Vague(Connector):
    """Never sure, for a reason given."""

    name = "vague"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.asks = 0

    @mutation(lag_s=1)
    async def change(self, call: Call) -> str:
        raise RuntimeError("?")

    @change.reconcile
    async def change_happened(self, call: Call) -> Unsure:
        self.asks += 1
        return Unsure(self.reason)


async def test_a_reason_with_half_a_character_uses_up_its_attempt(duly_world: Stage) -> None:
    """L5: once inline and five times later, then a person is asked, whatever the words are."""
    vague = Vague("\ud800")
    play = await opened(duly_world, connectors=(vague,))
    await play.deploy(flow({CONSUMER: consumer(mutate=(moves.Call("vague.change"),))}))
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(86_400)
    assert ((await play.row()).status, vague.asks) == ("indeterminate", 6)  # was asked every 10 s


async def test_a_secret_in_a_reason_is_not_kept(duly_world: Stage) -> None:
    """A5: what reconcile says goes into the ledger without secrets."""
    vague = Vague("401 for hunter2")
    play = await opened(duly_world, connectors=(vague,))
    play.desk.parts.outside.bind(lambda connector, name: "hunter2")
    assert vague.secret("token") == "hunter2"
    await play.deploy(flow({CONSUMER: consumer(mutate=(moves.Call("vague.change"),))}))
    await play.publish("a")
    await play.drain()
    await play.pass_by(15)
    assert "hunter2" not in ((await play.row()).error or "")
