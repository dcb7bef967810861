"""The isolation exam on the server: some pairs with every commit (`tests/postgres/pairs.py`)."""

from __future__ import annotations

from tests.breaks import tenth_of_commit
from tests.postgres.pairs import Isolation, examine, pairs
from tests.postgres.world import Place

STEP = 400  # every so many pairs; `python -m tests.postgres.pairs` tries all
# What once was wrong, or nearly: these are tried every time.
KEPT = (
    ("claim", "claim"),
    ("claim", "evict"),
    ("renew", "evict"),
    ("hold_subscribers", "hold_subscribers"),
    ("subscribe", "subscribe"),
    ("promote_due", "promote_due"),
    ("begin_delivery", "begin_delivery"),
    ("finish_delivery", "begin_delivery"),
    ("start_run", "set_paused"),
    ("send", "abandon_run"),
)


async def test_two_verbs_at_once_are_like_one_after_the_other(place: Place) -> None:
    """H1, H2, R8: every interleaving of two verbs equals a serial order, or refuses one."""
    every = pairs()
    chosen = every[tenth_of_commit() :: STEP]
    for first, second in KEPT:
        kept = (each for each in every if (each.first.verb, each.second.verb) == (first, second))
        chosen.append(next(kept))
    isolation = Isolation(place)
    try:
        assert await examine(isolation, chosen) == []
        assert isolation.waited, "no verb ever waited for another: nothing was tried"
    finally:
        await isolation.close()
