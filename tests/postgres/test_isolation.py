"""The isolation exam on the server: some pairs with every commit (`tests/postgres/pairs.py`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from duly.rules.delivery import Retry
from tests.breaks import tenth_of_commit
from tests.postgres.pairs import APART, Isolation, Pair, Seats, cases, examine, pairs
from tests.postgres.world import Place
from tests.store.exam import NOW, Again, Call, Case, World
from tests.store.post import BOTH, FIRST, MAIL, ONCE, SAID, SECOND, deferred, emitted

STEP = 400  # every so many pairs; `python -m tests.postgres.pairs` tries all
# These are tried every time.
KEPT = (
    ("claim", "claim"),
    ("claim", "evict"),
    ("renew", "evict"),
    ("subscribe", "subscribe"),
    ("begin_delivery", "begin_delivery"),
    ("begin_delivery", "unsubscribe"),
    ("drop_blob_parts", "begin_blob"),
    ("take_turn", "set_paused"),
    ("send", "abandon_run"),
    ("begin_delivery", "commit_run"),  # it needs the states of both
    # Two hosts that do the same at once: each of these once had an end that no serial order has.
    ("keep_proposal", "keep_proposal"),
    ("pair_account", "pair_account"),
    ("write_slip", "write_slip"),
    ("tell_day", "tell_day"),
    ("tell_begun", "tell_begun"),
    ("tidy", "tidy"),
    ("note_restore", "note_restore"),
    ("take_in", "take_in"),
    ("forget", "keep_late_answer"),  # what was erased came back
    ("reseal", "forget"),  # seals that another key made meanwhile were written over
)


@pytest.fixture
async def isolation(place: Place) -> AsyncIterator[Isolation]:
    made = Isolation(place)
    yield made
    await made.close()


async def test_two_verbs_at_once_are_like_one_after_the_other(isolation: Isolation) -> None:
    """H1, H2, R8: every interleaving of two verbs equals a serial order, or refuses one."""
    every = pairs()
    chosen = every[tenth_of_commit() :: STEP]
    for first, second in KEPT:
        kept = (each for each in every if (each.first.verb, each.second.verb) == (first, second))
        chosen.append(next(kept))
    seats = Seats()
    assert await examine(isolation, chosen, seats) == []
    assert isolation.waited, "no verb ever waited for another: nothing was tried"
    assert isolation.inside, "every statement was waited for: that is not what ships"
    assert seats.of_first
    assert seats.of_both


def test_what_is_left_out_is_a_pair() -> None:
    """R8: a case that was renamed is not left out under its old name."""
    names = {each.name for each in cases()}
    assert {each for pair in APART for each in pair} <= names


async def test_the_exam_sees_a_lock_that_is_missing(place: Place) -> None:
    """H1: two hosts that tell the same day, of which none waits for the other."""
    careless = Isolation(place, without="before_get_mark")
    (pair,) = (each for each in pairs() if each.first.verb == each.second.verb == "tell_day")
    assert "serial" in "".join(await examine(careless, [pair], Seats()))
    await careless.close()


# -- Two hosts, and a state that needs both verbs --------------------------------------------------


async def _two_hosts(world: World) -> None:
    await emitted(world)
    for host in ("host_2", "host_3"):
        await world.store.join(host, now=NOW, lease_ms=60_000)


async def _one_dead_one_running(world: World) -> None:
    await world.store.subscribe(FIRST, "mail", ONCE, now=NOW)
    await world.store.subscribe(SECOND, "mail", Retry(), now=NOW)
    await world.store.emit(MAIL, now=NOW)
    await world.store.begin_delivery(1, BOTH, now=NOW)
    await world.store.finish_delivery(1, FIRST, 1, error="it rained", now=NOW)
    await world.store.begin_delivery(1, BOTH, now=NOW)


def case(verb: str, arrange: Any, call: Call) -> Case:
    """Make a case that is asked nothing else."""

    async def effect(world: World, answer: Any) -> None:
        """See nothing."""

    return Case(verb, arrange, call, effect, Again.SAME)


def hold(host: str) -> Case:
    """Let a host take a subscriber."""
    return case(
        "hold_subscribers",
        _two_hosts,
        lambda world: world.store.hold_subscribers(host, {FIRST}, now=NOW),
    )


async def test_a_subscriber_is_taken_by_one_of_two_hosts(isolation: Isolation) -> None:
    """H8: never by both."""
    assert await examine(isolation, [Pair(hold("host_2"), hold("host_3"))], Seats()) == []


async def test_an_event_is_not_settled_while_a_dead_delivery_of_it_is_tried_again(
    isolation: Isolation,
) -> None:
    """B4, B5: what becomes of an event follows from all its records."""
    finish = case(
        "finish_delivery",
        _one_dead_one_running,
        lambda world: world.store.finish_delivery(1, SECOND, 1, now=NOW),
    )
    retry = case(
        "retry_delivery",
        _one_dead_one_running,
        lambda world: world.store.retry_delivery(1, FIRST, action=SAID, now=NOW),
    )
    assert await examine(isolation, [Pair(finish, retry)], Seats()) == []


async def test_two_hosts_that_promote_do_not_refuse_each_other(isolation: Isolation) -> None:
    """B2, H8: one waits, and finds nothing left to do."""
    promote = case(
        "promote_due",
        deferred,
        lambda world: world.store.promote_due(now=NOW + 5_000, limit=10),
    )
    assert await examine(isolation, [Pair(promote, promote)], Seats()) == []
    assert not isolation.stale
