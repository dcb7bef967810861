"""What led to what, read by the store: bounds of every count, and what an input is."""

from __future__ import annotations

import pytest

from duly.errors import Invalid
from duly.rules.schedule import HOUR_MS
from duly.store import people, trace
from duly.store.survey import HOUR_COUNT_MAX, PendingRow, ProcessedRow, Survey
from duly.store.trace import COUNT_MAX
from tests.store.memory import Memory

FLOW = "flow"


@pytest.fixture(scope="module")
def busy() -> Memory:
    """A workflow in which one more than can be counted waits, was consumed, and was sent."""
    memory = Memory()
    memory.connection.execute("begin")
    memory.workflow(FLOW, counter=9000)
    for number in range(COUNT_MAX + 1):
        memory.event(FLOW, 1 + number, created_at=number)
        memory.event(FLOW, 3000 + number, status="consumed", finished_at=100 + number)
        run_id = f"run {number:04}"
        memory.run(FLOW, run_id, phase="committed", status="committed", open=0)
        memory.mutation(FLOW, run_id, f"mutation {number:04}", status="applied", sent_at=number)
    memory.connection.execute("commit")
    return memory


def look(memory: Memory, *names: str) -> Survey:
    """Look at a few workflows."""
    return Survey(memory.transaction, people.list_by_ids(memory.transaction, names or (FLOW,)))


def test_nobody_counts_further_than_the_bound(busy: Memory) -> None:
    """U1: one past it stands for any more."""
    more = COUNT_MAX + 1
    seen = look(busy)
    assert seen.pending(FLOW, before=0) == (PendingRow("mail", more, 0),)
    assert seen.pending(FLOW, before=5000) == (PendingRow("mail", more, more),)
    assert seen.applied(FLOW, since=0) == (("a.b", more),)
    assert seen.processed(FLOW, since=0) == (ProcessedRow("mail", 0, more, more),)
    busy.event(FLOW, 8000)
    busy.event(FLOW, 8001, status="consumed", finished_at=5000)
    seen = look(busy)
    assert seen.pending(FLOW, before=5000) == (PendingRow("mail", more, more),)
    assert seen.processed(FLOW, since=0)[0].count == more


def test_what_is_counted_lies_on_its_side_of_the_moment(busy: Memory) -> None:
    """U1, U4: at the moment itself it is not old yet, and still counts as lately."""
    seen = look(busy)
    assert seen.pending(FLOW, before=10)[0].old == 10
    assert seen.applied(FLOW, since=COUNT_MAX) == (("a.b", 1),)
    assert seen.applied(FLOW, since=COUNT_MAX + 1) == ()


def test_a_busy_hour_hides_no_other_hour_of_the_day() -> None:
    """U1: what is too much to be counted whole is counted by the hour, none of them to its end."""
    memory = Memory()
    memory.connection.execute("begin")
    seq = 0
    for name, ends in {
        FLOW: {0: 3, 1: 1, 5 * HOUR_MS: HOUR_COUNT_MAX + 1, 23 * HOUR_MS: COUNT_MAX},
        "quiet": {HOUR_MS - 1: HOUR_COUNT_MAX + 1, 24 * HOUR_MS: 2},
        "ahead": {HOUR_MS: COUNT_MAX, 90 * HOUR_MS: 4},  # it consumed before the clock went back
        "idle": {},
    }.items():
        memory.workflow(name, counter=9000)
        for at, count in ends.items():
            for _ in range(count):
                seq += 1
                memory.event(name, seq, status="consumed", finished_at=7 + at)
    memory.connection.execute("commit")
    seen = look(memory, FLOW, "quiet", "ahead", "idle")
    most = HOUR_COUNT_MAX
    assert seen.hours(FLOW, since=7) == (4, *[0] * 4, most, *[0] * 17, most)
    assert seen.hours("quiet", since=7) == (most + 1, *[0] * 22, 2)
    assert seen.hours("ahead", since=7) == (0, most, *[0] * 21, 4)
    assert seen.hours("idle", since=7) == ()


def test_what_a_topic_without_a_consumer_holds_is_work_up_to_a_number() -> None:
    """W9, U4: what came later is an output; each workflow is counted apart."""
    memory = Memory()
    for name in (FLOW, "other", "left out"):
        memory.workflow(name)
    for topic, until in (("old", 2), ("out", 0)):
        memory.insert("topic", workflow_id=FLOW, name=topic, worked_until=until)
    for seq in (1, 2, 3):
        memory.event(FLOW, seq, topic="old")
    memory.event(FLOW, 4, topic="out")
    memory.event("other", 1, created_at=9)
    memory.event("left out", 1)
    seen = look(memory, FLOW, "other")
    counted = (PendingRow("mail", 0, 0), PendingRow("old", 2, 2))
    assert seen.pending(FLOW, before=5) == counted
    assert [each.seq for each in seen.oldest(FLOW, before=5)["old"]] == [1, 2]
    assert seen.pending("other", before=5) == (PendingRow("mail", 1, 0),)
    assert seen.oldest("other", before=5) == {}
    assert seen.pending("left out", before=5) == ()


def test_tools_of_several_workflows_are_counted_apart() -> None:
    """U1: each tool of each workflow, also where one has none."""
    memory = Memory()
    for name in (FLOW, "other", "idle"):
        memory.workflow(name)
    sent = [(FLOW, "a.b"), (FLOW, "a.c"), (FLOW, "a.c"), ("other", "b.a"), ("other", "")]
    for number, (name, tool) in enumerate(sent):
        run_id = f"run {number}"
        memory.run(name, run_id, phase="committed", status="committed", open=0)
        done = {"status": "applied", "sent_at": 5} if tool else {"status": "failed"}
        memory.mutation(name, run_id, f"mutation {number}", tool=tool or "z", **done)
    seen = look(memory, FLOW, "other", "idle")
    assert seen.applied(FLOW, since=0) == (("a.b", 1), ("a.c", 2))
    assert seen.applied("other", since=0) == (("b.a", 1),)
    assert seen.applied("idle", since=0) == ()


def test_what_a_run_made_is_no_input_unless_the_outside_spoke_of_it_too() -> None:
    """T9, U2: an event is an input if it goes back to itself."""
    memory = Memory()
    memory.workflow(FLOW)
    memory.topic(FLOW, "out", None)
    for seq in (1, 2, 3):
        memory.event(FLOW, seq)
    memory.event(FLOW, 4, topic="out")
    memory.insert("cause", workflow_id=FLOW, root=1, seq=2)
    memory.insert("cause", workflow_id=FLOW, root=1, seq=3)
    memory.insert("cause", workflow_id=FLOW, root=3, seq=3)
    found = trace.list_workflow_inputs(memory.transaction, FLOW)
    assert [each.seq for each in found] == [3, 1]
    caused = trace.list_caused(memory.transaction, FLOW, [1, 3])
    assert {root: [each.seq for each in rows] for root, rows in caused.items()} == {1: [2, 3]}
    assert trace.list_roots(memory.transaction, FLOW, [1, 3]) == {3: ("Event 1",)}


def test_an_act_is_found_by_what_it_was_done_to() -> None:
    """A6, U7: the last one of its kind, in its own workflow."""
    memory = Memory()
    memory.workflow(FLOW)
    memory.workflow("other")
    done = {"verb": "skip", "target": "mail/1"}
    for number, (by, workflow_id) in enumerate((("a", FLOW), ("b", FLOW), ("c", "other"))):
        here = {"id": f"action {number}", "at": number, "by": by, "workflow_id": workflow_id}
        memory.insert("action", **here, **done)
    tx = memory.transaction
    found = people.find_target_action(tx, FLOW, "mail/1", "skip")
    assert found is not None
    assert found.by == "b"
    assert people.find_target_action(tx, FLOW, "mail/1", "retry") is None
    earlier = people.find_last_action(tx, FLOW, "skip", at=0)
    assert earlier is not None
    assert earlier.by == "a"


@pytest.mark.parametrize("limit", [0, 1001])
def test_a_page_has_its_limits(limit: int) -> None:
    """N: one to a thousand rows."""
    memory = Memory()
    memory.workflow(FLOW)
    with pytest.raises(Invalid):
        trace.list_workflow_inputs(memory.transaction, FLOW, limit=limit)
    assert trace.list_workflow_inputs(memory.transaction, FLOW, limit=1000) == ()
