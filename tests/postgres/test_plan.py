"""How the server means to search a day: along its index, whatever else lies in the store (G13)."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from duly.store import queries
from duly.store.queries import parameters
from tests.postgres.server import address
from tests.postgres.world import Place

EVENTS = 20_000  # in a workflow that has most of them; ten on each day
DAY_MS = 86_400_000
FILL = f"""
    insert into workflow (id, name, created_at) values ('w_busy', 'busy', 0), ('w_calm', 'calm', 0);
    insert into topic (workflow_id, name, consumer) select id, 'in', 'c' from workflow;
    insert into payload (workflow_id, content, title, body, digest)
      select w, n, 'Mail ' || n, '{{}}', n::text
      from (values ('w_busy', {EVENTS}), ('w_calm', 20)) as each (w, most),
        generate_series(1, most) as n;
    insert into event (workflow_id, seq, topic, message_id, content, created_by, created_at)
      select workflow_id, content, 'in', content::text, content, 'me', content * {DAY_MS // 10}
      from payload;
"""
DAY = 1000
GIVEN: dict[str, dict[str, Any]] = {
    "list_titles_between": {
        "workflow_id": "w_busy",
        "first_at": DAY * DAY_MS,
        "before_at": (DAY + 1) * DAY_MS,
        "before": 0,
        "limit": 500,
    },
    "find_workflow_between": {
        "before": "\U0010ffff",
        "first_at": DAY * DAY_MS,
        "end_at": (DAY + 1) * DAY_MS,
    },
}


@pytest.mark.parametrize("analyzed", [False, True])
def test_a_day_is_read_along_its_index_on_the_server(analyzed: bool, place: Place) -> None:
    """G13, U6: with statistics and without; only rows of the day are touched."""
    name = place.make(place._empty)
    with psycopg.connect(address(place.folder, name), autocommit=True) as connection:
        connection.execute(FILL.encode())
        if analyzed:
            connection.execute("analyze")
        for statement, given in GIVEN.items():
            text = queries.load("views")[statement]
            for each in sorted(parameters(text), key=len, reverse=True):
                text = text.replace(f":{each}", f"%({each})s")
            asked = f"explain (analyze, format json) {text}"
            ((told,),) = connection.execute(asked.encode(), given).fetchall()
            nodes = list(_nodes((told if isinstance(told, list) else json.loads(told))[0]["Plan"]))
            used = [each for each in nodes if each.get("Index Name", "").startswith("event")]
            assert [each["Index Name"] for each in used] == ["event_by_time"], nodes
            read = [each for each in nodes if each.get("Relation Name") == "event"]
            assert all(each["Actual Rows"] <= 10 for each in (*used, *read)), nodes
            assert all("Seq" not in each["Node Type"] for each in read), nodes


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    below = [each for inner in plan.get("Plans", ()) for each in _nodes(inner)]
    return [plan, *below]
