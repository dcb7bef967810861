"""What is asked of the bus: a wrong argument is refused with its name and what to give (B14)."""

from __future__ import annotations

from typing import Any

import apsw
import pytest

from duly.errors import DulyError, Invalid
from duly.store.bus import LAST_ID
from duly.testing import Stage
from tests.bus.stand import listen, say

HUGE = 10**5000  # more digits than Python would write
HALF = "\ud800"
WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "limit as text": ("journal", {"limit": "x"}),
    "limit as a yes": ("journal", {"limit": True}),
    "a huge limit": ("deferred", {"limit": HUGE}),
    "before as text": ("journal", {"before": "1"}),
    "before past every id": ("journal", {"before": 2**70}),
    "before below every id": ("journal", {"before": -1}),
    "a fraction": ("journal", {"before": 1.5}),
    "topic as a number": ("journal", {"topic": 7}),
    "a topic nobody can have": ("journal", {"topic": "a b"}),
    "half a character": ("journal", {"correlation_id": HALF}),
    "correlation as a list": ("journal", {"correlation_id": []}),
    "status as a number": ("journal", {"status": 7}),
    "status as a list": ("deliveries", {"status": []}),
    "event_id as text": ("deliveries", {"event_id": "1"}),
    "a huge event_id": ("deliveries", {"event_id": HUGE}),
    "after as a number": ("deliveries", {"after": 1}),
    "after of one": ("deliveries", {"after": (1,)}),
    "after the wrong way round": ("deliveries", {"after": ("s", 1)}),
    "after with half a character": ("deliveries", {"after": (1, HALF)}),
    "no status": ("deferred", {"status": None}),
    "deferred after a number": ("deferred", {"after": 1}),
    "deferred_id as text": ("cancel", {"deferred_id": "1"}),
    "a huge deferred_id": ("cancel", {"deferred_id": HUGE}),
    "deferred_id as a yes": ("cancel", {"deferred_id": True}),
    "retry of text": ("retry", {"event_id": "1", "subscriber_id": "s"}),
    "retry of half a name": ("retry", {"event_id": 1, "subscriber_id": HALF}),
    "discard of nothing": ("discard", {"event_id": None, "subscriber_id": "s"}),
    "discard for a number": ("discard", {"event_id": 1, "subscriber_id": 7}),
    "unsubscribe a number": ("unsubscribe", {"subscriber_id": 7}),
    "unsubscribe a list": ("unsubscribe", {"subscriber_id": []}),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_wrong_argument_is_refused_by_its_name(duly_world: Stage, case: str) -> None:
    """B14, B5: never by an error of the language or of the database."""
    host = await duly_world.host()
    verb, given = WRONG[case]
    with pytest.raises(Invalid) as refusal:
        await getattr(host.bus, verb)(**given)
    name = refusal.value.path
    assert name in given
    assert name.split("_", maxsplit=1)[0] in str(refusal.value)


async def test_arguments_at_their_limits_are_taken(duly_world: Stage) -> None:
    """B14: the first and the last that can be, and a page's place as a list."""
    host = await duly_world.host()
    listen(host)
    await say(host)
    await host.drain()
    assert len(await host.bus.journal("mail", limit=1, before=LAST_ID)) == 1
    assert await host.bus.journal(limit=1000, before=0) == ()
    after: Any = [0, ""]
    assert len(await host.bus.deliveries(after=after)) == 1
    assert await host.bus.deliveries(after=(LAST_ID, "x" * 320)) == ()
    with pytest.raises(DulyError, match="no delivery"):
        await host.bus.retry(LAST_ID, "nobody")


VIEWS = {
    "event_journal": "id topic source payload correlation_id status created_at processed_at error",
    "deferred_events": "id topic source payload correlation_id fire_at status created_at fired_at",
}


@pytest.mark.parametrize("view", VIEWS)
async def test_the_views_have_the_columns_their_users_know(duly_world: Stage, view: str) -> None:
    """B14: by these names, in this order, and no other."""
    host = await duly_world.host()
    await host.close()
    connection = apsw.Connection(duly_world.url.removeprefix("sqlite:///"))
    found = connection.execute(f"select name from pragma_table_info('{view}')").fetchall()
    assert [name for (name,) in found] == VIEWS[view].split()
    connection.close()
