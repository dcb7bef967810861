"""What is due through the store is what the rules say is due, on the same facts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from duly.errors import RequestRefused
from duly.rules.schedule import Consumer, consumer_due_at, is_consumer_due, is_producer_due
from duly.rules.schedule import Producer as ProducerFacts
from duly.store.due import DUE_LIMIT_MAX, Due, DueHandler, DueReconcile, DueRun, due
from duly.store.record import Commit
from tests.store.memory import Memory
from tests.store.scene import NOON, UNKNOWN, WORKFLOW, at, deployed
from tests.store.scene import opened as opened_world

NOW = 1_000_000
PAST, FUTURE, LATER = NOW - 1, NOW + 1, NOW + 2
SEEN = 5


@dataclass(frozen=True, slots=True)
class Facts:
    """One consumer and its workflow, as the store may find them."""

    changed: int
    untried: int
    pending: int
    wake_at: int | None
    not_before: int
    orphaned: int
    paused: int
    is_busy: bool

    @property
    def consumer(self) -> Consumer:
        """The same facts as the rules want them."""
        oldest = SEEN + 1 if self.pending else None
        tried = not self.untried
        return Consumer(self.changed, SEEN, tried, oldest, self.wake_at, self.not_before)

    @property
    def is_free(self) -> bool:
        """Whether anything of this consumer may start at all (F6, F7, W9)."""
        return not (self.orphaned or self.paused or self.is_busy)


EVERY_CONSUMER = [
    Facts(*facts)
    for facts in product(
        (SEEN, SEEN + 1),
        (0, 1),
        (0, 1),
        (None, PAST, NOW, FUTURE),
        (0, NOW, LATER),
        (0, 1),
        (0, 1),
        (False, True),
    )
]


def put(memory: Memory, workflow_id: str, facts: Facts) -> None:
    """Put a consumer with these facts into the database."""
    memory.workflow(workflow_id, paused=facts.paused)
    memory.handler(
        workflow_id,
        changed=facts.changed,
        seen=SEEN,
        untried=facts.untried,
        wake_at=facts.wake_at,
        not_before=facts.not_before,
        orphaned=facts.orphaned,
    )
    if facts.pending:
        memory.event(workflow_id, SEEN + 1)
    if facts.is_busy:
        memory.run(workflow_id, f"run of {workflow_id}", status="failed:logic")


def test_a_consumer_is_due_exactly_when_the_rules_say_so() -> None:
    """S3, F6: every combination of its facts, each in a workflow of its own."""
    memory = Memory()
    expected = set()
    for number, facts in enumerate(EVERY_CONSUMER):
        put(memory, f"workflow {number}", facts)
        if facts.is_free and is_consumer_due(facts.consumer, NOW):
            oldest = facts.consumer.oldest_pending_seq
            expected.add(DueHandler(f"workflow {number}", "file", 0, oldest))
    found = due(memory.transaction, NOW)
    assert set(found.consumers) == expected
    assert len(found.consumers) == len(expected)
    assert 0 < len(expected) < len(EVERY_CONSUMER)


def test_a_host_wakes_up_in_time_for_every_consumer() -> None:
    """S9: if a consumer will be due at a time, the host looks again by then, and never at once."""
    memory = Memory()
    for facts in EVERY_CONSUMER:
        if not facts.is_free:
            continue
        due_at = consumer_due_at(facts.consumer, NOW)
        with memory.undone():
            put(memory, "workflow", facts)
            next_at = due(memory.transaction, NOW).next_at
        assert next_at is None or next_at > NOW, facts
        if due_at is not None and due_at > NOW:
            assert next_at is not None, facts
            assert next_at <= due_at, facts


@pytest.mark.parametrize("next_run_at", [None, PAST, NOW, FUTURE])
@pytest.mark.parametrize("is_free", [True, False])
@pytest.mark.parametrize("orphaned", [0, 1])
def test_a_producer_is_due_exactly_when_the_rules_say_so(
    next_run_at: int | None, is_free: bool, orphaned: int
) -> None:
    """S2, F6: its planned time has come, in a workflow that is free."""
    memory = Memory()
    memory.workflow("workflow")
    memory.handler("workflow", "poll", kind="producer", next_run_at=next_run_at, orphaned=orphaned)
    if not is_free:
        memory.run("workflow", "run", status="paused:transient")
    is_due = is_producer_due(ProducerFacts(next_run_at), NOW) and is_free and not orphaned
    expected = (DueHandler("workflow", "poll", 0, None, next_run_at),) if is_due else ()
    assert due(memory.transaction, NOW).producers == expected


@pytest.mark.parametrize("way", [{"untried": 1}, {"wake_at": PAST}, {"changed": SEEN + 1}])
def test_events_that_are_not_its_own_give_a_consumer_no_turn(way: dict[str, int]) -> None:
    """S3, S5, T1: those of another consumer, of a topic that is gone, of another workflow."""
    memory = Memory()
    for workflow in ("workflow", "other"):
        memory.workflow(workflow)
    memory.topic("workflow", "own", "sort")
    memory.insert("topic", workflow_id="workflow", name="gone", consumer="sort", orphaned=1)
    memory.handler("workflow", "sort", **{"seen": SEEN, "changed": SEEN, **way})
    memory.event("workflow", SEEN + 1, "own", status="skipped", finished_at=PAST)
    memory.event("workflow", SEEN + 2)
    memory.event("workflow", SEEN + 3, "gone")
    memory.topic("other", "own", "sort")
    memory.event("other", SEEN + 4, "own")
    expected = () if "changed" in way else (DueHandler("workflow", "sort", 0, None),)
    assert due(memory.transaction, NOW).consumers == expected


def test_a_producer_is_never_due_by_what_makes_a_consumer_due() -> None:
    """S2, S3: nothing but its planned time starts it."""
    memory = Memory()
    memory.workflow("workflow")
    consumers_own: dict[str, Any] = {
        "changed": SEEN + 1,
        "seen": SEEN,
        "untried": 1,
        "wake_at": PAST,
    }
    memory.handler("workflow", kind="producer", **consumers_own)
    memory.event("workflow", SEEN + 1)
    found = due(memory.transaction, NOW)
    assert (found.consumers, found.producers) == ((), ())


@pytest.mark.parametrize(("next_run_at", "suspects"), [(None, ()), (FUTURE, ("workflow",))])
def test_a_producer_without_a_next_time_is_not_suspect(
    next_run_at: int | None, suspects: tuple[str, ...]
) -> None:
    """S2: there is nothing a wrong clock could have planned."""
    memory = Memory()
    memory.workflow("workflow")
    memory.handler("workflow", kind="producer", next_run_at=next_run_at, planned_at=LATER)
    assert due(memory.transaction, NOW).suspects == suspects


@pytest.mark.parametrize("status", ["waiting", "running", "done", "dead", "discarded"])
def test_only_a_delivery_that_waits_is_due(status: str) -> None:
    """B5, S9: one that ended, or is being made, wakes nobody."""
    memory = Memory()
    event = {"topic": "t", "source": "s", "payload": "{}", "opened": 1, "created_at": 0}
    memory.insert("journal", id=1, **event)
    delivery = {"subscriber_id": "s", "topic": "t", "position": 0, "due_at": PAST, "updated_at": 0}
    memory.insert("delivery", event_id=1, status=status, **delivery)
    assert due(memory.transaction, NOW).deliveries == (status == "waiting")


def test_a_paused_workflow_has_nothing_due_but_what_only_asks() -> None:
    """F7, L5: a pause stops runs and backoffs; asking about an unknown call goes on."""
    memory = Memory()
    memory.workflow("workflow", paused=1)
    memory.handler("workflow", untried=1)
    memory.handler("workflow", "poll", kind="producer", next_run_at=PAST)
    memory.run("workflow", "run", phase="mutating", status="paused:reconciliation", due_at=PAST)
    memory.mutation("workflow", "run", "mutation", status="needs_reconcile", due_at=PAST)
    found = due(memory.transaction, NOW)
    assert found == Due(reconciles=(DueReconcile("workflow", "mutation", "run"),))


def test_the_oldest_pending_event_of_all_its_topics_gives_a_consumer_its_turn() -> None:
    """S5: reserved, finished and foreign events count for nothing."""
    memory = Memory()
    memory.workflow("workflow")
    memory.topic("workflow", "letter", "file")
    memory.topic("workflow", "row", "tell")
    memory.handler("workflow", changed=9)
    memory.event("workflow", 1, status="consumed", finished_at=1)
    memory.event("workflow", 2, status="reserved", reserved_by="run")
    memory.event("workflow", 3, "row")
    memory.event("workflow", 4, "letter", status="skipped", finished_at=1)
    memory.event("workflow", 6, "mail")
    memory.event("workflow", 5, "letter")
    (found,) = due(memory.transaction, NOW).consumers
    assert found.oldest_pending_seq == 5


@pytest.mark.parametrize("count", [DUE_LIMIT_MAX, DUE_LIMIT_MAX + 1])
def test_one_look_finds_at_most_a_thousand_of_a_kind(count: int) -> None:
    """S9: the rest is found by the next look; the oldest plan goes first."""
    memory = Memory()
    for number in range(count):
        memory.workflow(f"workflow {number}")
        memory.handler(f"workflow {number}", "poll", kind="producer", next_run_at=number)
    found = [each.next_run_at for each in due(memory.transaction, NOW).producers]
    assert found == list(range(DUE_LIMIT_MAX))


OPEN_RUNS = [
    ("active", None, True),
    ("active", FUTURE, True),
    ("paused:transient", PAST, True),
    ("paused:transient", NOW, True),
    ("paused:transient", FUTURE, False),
    ("failed:logic", None, False),
    ("crashed", None, False),
]


@pytest.mark.parametrize(("status", "due_at", "is_due"), OPEN_RUNS)
def test_an_open_run_moves_when_it_is_active_or_its_time_has_come(
    status: str, due_at: int | None, is_due: bool
) -> None:
    """F2, F6: a run that waits for a person waits without a time."""
    memory = Memory()
    memory.workflow("workflow")
    memory.run("workflow", "run", status=status, due_at=due_at)
    expected = (DueRun("workflow", "run", status),) if is_due else ()
    assert due(memory.transaction, NOW).runs == expected


def put_time(memory: Memory, kind: str, number: int, at_ms: int) -> None:
    """Put something that waits for a time, of one of the seven kinds."""
    name = f"{kind} {number}"
    if kind in ("deferred", "delivery"):
        memory.insert("journal", id=number, topic="t", source="s", payload="{}", created_at=0)
    if kind == "deferred":
        known = {"topic": "t", "source": "s", "payload": "{}", "created_at": 0}
        memory.insert("deferred", id=number, fire_at=at_ms, **known)
        return
    if kind == "delivery":
        known = {"subscriber_id": "s", "topic": "t", "position": 1, "updated_at": 0}
        memory.insert("delivery", event_id=number, due_at=at_ms, **known)
        return
    memory.workflow(name)
    match kind:
        case "next_run_at":
            memory.handler(name, "poll", kind="producer", next_run_at=at_ms)
        case "wake_at":
            memory.handler(name, wake_at=at_ms)
        case "not_before":
            memory.handler(name, changed=1, not_before=at_ms)
        case "run":
            memory.run(name, name, status="paused:transient", due_at=at_ms)
        case "mutation":
            memory.run(name, name, status="paused:reconciliation", phase="mutating")
            memory.mutation(name, name, name, status="needs_reconcile", due_at=at_ms)


TIMES = ("next_run_at", "wake_at", "not_before", "run", "mutation", "deferred", "delivery")


@pytest.mark.parametrize("kind", TIMES)
def test_the_next_time_of_each_kind_wakes_the_host(kind: str) -> None:
    """S9: the first that is still to come; what has come is due, and no reason to look again."""
    memory = Memory()
    for number, at_ms in enumerate((LATER + 1, PAST, FUTURE, NOW, LATER)):
        put_time(memory, kind, number, at_ms)
    assert due(memory.transaction, NOW).next_at == FUTURE
    assert due(memory.transaction, FUTURE).next_at == LATER
    assert due(memory.transaction, LATER + 1).next_at is None


async def test_run_now_makes_every_producer_due_and_starts_no_consumer(tmp_path: Path) -> None:
    """S7: refused while a run is open; else all producers, at once."""
    async with opened_world(tmp_path) as world:
        scene = await deployed(world.store)
        for name in ("poll", "file", "tell"):
            await scene.start(name)
            with pytest.raises(RequestRefused, match="still works on"):
                await world.store.run_now(WORKFLOW, action=scene.action(), now=scene.now)
            if name != "poll":
                await scene.prepare(())
            await scene.commit(Commit(next_run_at=scene.now + 300_000))
        before = await world.store.due(scene.now)
        assert (before.producers, before.consumers) == ((), ())
        assert await world.store.run_now(WORKFLOW, action=scene.action(), now=scene.now) == 1
        after = await world.store.due(scene.now)
        assert [each.name for each in after.producers] == ["poll"]
        assert after.consumers == ()


async def test_a_restart_changes_nothing_about_what_is_due(tmp_path: Path) -> None:
    """S8: what is due is read from the store, before a crash as after it."""
    async with opened_world(tmp_path) as world:
        scene = await deployed(world.store)
        before = await world.store.due(scene.now)
        assert [each.name for each in before.consumers] == ["file", "tell"]
        heir = await world.crash()
        assert await heir.store.due(scene.now) == before


async def test_an_unknown_mutation_is_asked_about_at_its_time(tmp_path: Path) -> None:
    """L5, L8: asking is due at the stored time, and nothing else of the workflow is."""
    async with opened_world(tmp_path) as world:
        scene = await at(world.store, UNKNOWN)
        due_at = (await world.store.get_mutation(scene.mutation_id)).due_at
        assert due_at is not None
        early = await world.store.due(due_at - 1)
        assert early == Due(next_at=due_at)
        found = await world.store.due(due_at)
        assert found == Due(
            reconciles=(DueReconcile(WORKFLOW, scene.mutation_id, scene.run_id),), next_at=None
        )
        assert due_at > NOON
