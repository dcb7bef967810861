"""Deferred events: their moves, their order and their times (B2)."""

from __future__ import annotations

import pytest

from duly.errors import IllegalTransition
from duly.rules import deferral
from duly.rules.deferral import Deferred, DeferredMove, DeferredStatus

NOW = 1_700_000_000_000


def test_a_deferred_event_fires_once_or_is_cancelled_once() -> None:
    """B2: after either, neither happens again."""
    for move, end in zip(
        DeferredMove, (DeferredStatus.FIRED, DeferredStatus.CANCELLED), strict=True
    ):
        assert deferral.move_deferred(DeferredStatus.SCHEDULED, move) is end
        for second in DeferredMove:
            with pytest.raises(IllegalTransition):
                deferral.move_deferred(end, second)


def test_deferred_events_fire_in_the_order_of_their_time() -> None:
    """B2: overdue ones too; none before its time, none twice."""
    deferred = [
        Deferred(1, NOW),
        Deferred(2, NOW - 5),
        Deferred(3, NOW + 1),
        Deferred(4, NOW - 9, DeferredStatus.FIRED),
        Deferred(5, NOW - 9, DeferredStatus.CANCELLED),
        Deferred(6, NOW - 5),
    ]
    assert [each.id for each in deferral.promotable(reversed(deferred), NOW)] == [2, 6, 1]
