"""The exam of taking subscribers over from hosts of a fleet that are gone (H8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.store.exam import NOW, Again, Case, Trial, World, exam
from tests.store.post import A_MINUTE, BOTH, FIRST, SECOND, delivered, emitted


async def _of_a_host_that_is_gone(world: World) -> None:
    """Let a host of a fleet be in the middle of a delivery when it is evicted."""
    await world.store.join("host_2", now=NOW, lease_ms=A_MINUTE)
    await world.store.join("host_3", now=NOW, lease_ms=A_MINUTE)
    await world.store.join("gone", now=NOW, lease_ms=A_MINUTE)
    await emitted(world)
    await world.store.hold_subscribers("gone", [FIRST], now=NOW)
    await world.store.hold_subscribers("host_3", [SECOND], now=NOW)
    await world.store.begin_delivery(1, BOTH, now=NOW, host="gone")
    await world.store.leave("gone")


async def _it_is_taken_over(world: World, answer: Any) -> None:
    # Another host holds the second one, and what is not subscribed is not held.
    assert answer == (FIRST,)
    found = world.connection.execute("select subscriber_id, holder from subscription order by 1")
    assert found.fetchall() == sorted([(FIRST, "host_2"), (SECOND, "host_3")])
    # What the gone host was telling the first is due again; it ran alone, so that is counted.
    assert await delivered(world) == [(1, FIRST, "waiting", 1), (1, SECOND, "waiting", 0)]


HOLD = Case(
    verb="hold_subscribers",
    arrange=_of_a_host_that_is_gone,
    call=lambda world: world.store.hold_subscribers(
        "host_2", {FIRST, SECOND, "a:stranger:x"}, now=NOW
    ),
    effect=_it_is_taken_over,
    never_refuses="a host gets what is free, and hears what that is",
    again=Again.SAME,
)


async def _of_a_host_that_is_gone_and_its_subscription_too(world: World) -> None:
    """Let the handler end its own subscription before its host goes."""
    await _of_a_host_that_is_gone(world)
    await world.store.unsubscribe(FIRST, now=NOW)


async def _it_is_closed(world: World, answer: Any) -> None:
    assert answer == ()
    assert await delivered(world) == [(1, FIRST, "discarded", 1), (1, SECOND, "waiting", 0)]


HOLD_OF_ENDED = Case(
    verb="hold_subscribers",
    says="when a handler ended its own subscription on a host that is gone",
    arrange=_of_a_host_that_is_gone_and_its_subscription_too,
    call=lambda world: world.store.hold_subscribers("host_2", (), now=NOW),
    effect=_it_is_closed,
    again=Again.SAME,
)


@pytest.mark.parametrize("trial", exam(HOLD, HOLD_OF_ENDED))
async def test_taking_subscribers_over_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """H8: a subscriber has one host, and only what a gone host was telling is given back."""
    await trial.sit(tmp_path)
