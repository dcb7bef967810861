"""The first random stories of lanes, and that they notice what they are told for (B3–B7)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from duly.bus.dispatcher import Dispatcher
from duly.bus.recorder import Recorder
from duly.rules.delivery import follow
from duly.store import delivery
from tests.bus.lane_story import tell

STORIES = range(1, 13)
FEW = range(1, 6)

_pairs = Recorder.pairs


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep the log of a store that fails on purpose out of the way."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("number", STORIES)
def test_a_store_that_fails_costs_no_delivery_and_repeats_none(number: int) -> None:
    """B3–B7: once, in order, one at a time, from the disk; attempts are those that were made."""
    assert tell(number) == []


def _follow_at_once(able: Any, ended: Any, durable_id: int) -> Any:
    return follow(able, ended, 2**62)


async def _forget_what_was_lost(self: Dispatcher) -> None:
    self._lost.clear()


def _pairs_at_rest(self: Recorder, at_work: Any = None) -> Any:
    return frozenset() if at_work is None else _pairs(self, at_work)


@pytest.mark.parametrize(
    ("place", "name", "instead", "says"),
    [
        (delivery, "follow", _follow_at_once, "not on the disk"),
        (Dispatcher, "_give_back", _forget_what_was_lost, "wanted"),
        (Recorder, "pairs", _pairs_at_rest, "wanted"),
    ],
)
def test_the_stories_see_what_is_taken_away(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, instead: Any, says: str
) -> None:
    """B4, B5: the check of the disk, the giving back, and what is kept from it."""
    monkeypatch.setattr(place, name, instead)
    found = next((wrong for number in FEW if (wrong := tell(number))), [])
    assert any(says in each for each in found)
