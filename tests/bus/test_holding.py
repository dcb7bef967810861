"""What the bus of a fleet knows to be on the disk (B4, H10)."""

from __future__ import annotations

from duly.bus.holding import Holding
from duly.store.base import Durability
from duly.testing import Stage
from tests.bus.stand import say, store_of


async def test_the_bus_of_a_fleet_does_not_trust_a_number_that_a_look_found(
    duly_world: Stage,
) -> None:
    """B4, H10: a server that died since has lost that event, and gives its number to another."""
    host = await duly_world.host()
    event_id = await say(host, text="kept")
    store, asked = store_of(host), []
    transact = store.backend.transact

    async def watched(body: object, durability: Durability) -> object:
        asked.append(durability)
        return await transact(body, durability)  # type: ignore[arg-type]

    store.backend.transact = watched  # type: ignore[method-assign,assignment]
    shared = Holding(duly_world.env, store, lambda: "host_1")
    assert await shared.sync(event_id + 5) == event_id
    assert asked == [Durability.BARRIER]
    alone = Holding(duly_world.env, store, None)
    assert await alone.sync(event_id + 5) == event_id + 5
