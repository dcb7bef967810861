"""Corners: hosts that die at the worst moment, decisions that come late, clocks that were wrong."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from duly.errors import Stale
from duly.rules import lifecycle
from duly.rules.lifecycle import Counts, Run
from duly.rules.word import Act, Answer, Failure, Progress, Verdict, Waits
from duly.store import Store, queries, statements, upkeep
from duly.store.check import INVARIANTS
from duly.store.record import Action, Commit, Recorded, Stop
from duly.store.sqlite import default_schema
from tests.store.memory import Memory, MemoryBackend
from tests.store.scene import (
    CONNECTOR,
    EMITTING,
    FILE,
    IN_FLIGHT,
    INPUTS,
    LATER,
    POLL,
    PREPARED,
    TELL,
    TOPICS,
    UNKNOWN,
    UNSIGNED,
    UNTOLD,
    WORKFLOW,
    Scene,
    Then,
    at,
    deployed,
    deployment,
    publication,
    reach,
)

LONG_AFTER = 10**12
DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS


@pytest.fixture
def memory() -> Memory:
    """A database that lives as long as the test."""
    return Memory()


@pytest.fixture
def store(memory: Memory) -> Store:
    """The verbs over it."""
    return Store(MemoryBackend(memory))


async def pause(scene: Scene) -> None:
    """Let a person pause the workflow."""
    await scene.store.set_paused(WORKFLOW, is_paused=True, action=scene.action(), now=scene.tick())


async def deploy(scene: Scene, number: str, replaces: str, poll: str | None) -> None:
    """Deploy a version in which the producer has this schedule."""
    handlers = (replace(POLL, schedule=poll), FILE, TELL)
    newer = deployment(number, replaces, handlers=handlers)
    await scene.store.deploy(newer, successor_id="x", action=scene.action(), now=scene.tick())


# -- Hosts that die ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize("way", [(), (Answer.UNKNOWN, Then.RESEND)], ids=["first", "again"])
async def test_a_call_that_was_out_when_its_host_died_is_found_again(
    way: tuple[Answer | Then, ...], is_paused: bool, store: Store
) -> None:
    """R7, L3, F7: by asking what is due alone, also in a workflow that is paused."""
    scene = await at(store, IN_FLIGHT)
    await scene.go(*way)
    if is_paused:
        await pause(scene)
    assert [run.run_id for run in (await store.due(LONG_AFTER)).runs] == [scene.run_id]


# -- Decisions that come late --------------------------------------------------------------------


async def test_the_commit_of_an_old_run_leaves_the_time_of_a_new_schedule(store: Store) -> None:
    """W9, S2: a deploy made it due; what the old schedule says is of no interest any more."""
    scene = await deployed(store)
    await deploy(scene, "2.0", "1.0", None)
    await scene.start("poll")
    await deploy(scene, "3.0", "2.0", '{"interval":"5m"}')
    await scene.commit(Commit(next_run_at=None))
    assert [each.name for each in (await store.due(scene.now)).producers] == ["poll"]


async def test_no_backoff_ends_while_paused(store: Store) -> None:
    """F7: the pause is newer than the decision to follow."""
    scene = await at(store, LATER)
    await pause(scene)
    with pytest.raises(Stale, match="paused"):
        await scene.go(Then.FOLLOW)


async def test_no_wait_for_a_connection_ends_while_paused(store: Store) -> None:
    """F7, F4: the run goes on when the workflow is resumed."""
    scene = await at(store, reach(Failure.AUTH))
    await store.reconnect(CONNECTOR, action=scene.action(), now=scene.tick())
    after = lifecycle.act(scene.run, Act.RECONNECT).run
    await pause(scene)
    with pytest.raises(Stale, match="paused"):
        await store.move_run(scene.fence, scene.run_id, scene.run, after, now=scene.tick())
    assert (await store.due(scene.now)).runs == ()
    await store.set_paused(WORKFLOW, is_paused=False, action=scene.action(), now=scene.tick())
    assert [run.run_id for run in (await store.due(scene.now)).runs] == [scene.run_id]


async def test_a_decision_for_another_wait_is_stale(store: Store) -> None:
    """R8, F4: it was decided for a connection; by now the run waits for a grant."""
    scene = await at(store, UNSIGNED)
    old, sent = scene.run, lifecycle.act(scene.run, Act.RECONNECT).run
    await scene.go(Act.RECONNECT, Answer.PERMISSION)
    assert scene.run.waits is Waits.GRANT
    with pytest.raises(Stale):
        await store.send_again(scene.fence, scene.run_id, old, sent, now=scene.tick())


async def test_a_verdict_older_than_the_last_send_settles_nothing(store: Store) -> None:
    """L6, R8: "not there" was asked about the first send, and a second one has left since."""
    scene = await at(store, UNKNOWN)
    asked: Run = scene.run
    await scene.go(Then.RESEND, Answer.UNKNOWN)
    late = lifecycle.judge(asked, Verdict.NOT_APPLIED)
    stop = Stop(Counts(transient=1), due_at=scene.now)
    with pytest.raises(Stale):
        await store.record(
            scene.fence, scene.run_id, asked, late, Recorded(1), stop=stop, now=scene.tick()
        )


async def test_skipping_a_reserved_event_drops_what_came_beside_it(
    memory: Memory, store: Store
) -> None:
    """T5, U3: it ends with the content the run was shown; what came meanwhile is counted."""
    scene = await at(store, PREPARED)
    await scene.publish("mail", "mail:1", "second")
    action = scene.action()
    await store.skip_event(
        WORKFLOW, "mail", "mail:1", successor_id="x", action=action, now=scene.tick()
    )
    (skipped,) = await store.get_by_ids(WORKFLOW, "mail", ("mail:1",))
    assert (skipped.status, skipped.title) == ("skipped", "mail:1, first")
    dropped = memory.connection.execute("select sum(dropped) from event").get
    assert dropped == 1


async def test_other_content_for_an_event_that_is_over_is_counted_on_it(
    memory: Memory, store: Store
) -> None:
    """T5: the same content is not, nor content that retention left nothing to compare with."""
    scene = await at(store, PREPARED)
    action = scene.action()
    await store.skip_event(
        WORKFLOW, "mail", "mail:1", successor_id="x", action=action, now=scene.tick()
    )
    counted = []
    for content in ("first", "other", "first", "third"):
        came = publication("mail", "mail:1", content)
        said, _ = await store.publish(WORKFLOW, came, action=scene.action(), now=scene.tick())
        dropped = memory.connection.execute("select sum(dropped) from event").get
        counted.append((str(said), dropped))
    assert counted == [("frozen", 0), ("dropped", 1), ("frozen", 1), ("dropped", 2)]
    memory.connection.execute("update payload set digest = '' where title = 'mail:1, first'")
    said, _ = await store.publish(WORKFLOW, came, action=scene.action(), now=scene.tick())
    assert said == "frozen"
    assert memory.connection.execute("select sum(dropped) from event").get == 2


async def test_content_from_outside_on_a_derived_event_goes_back_to_itself_too(
    store: Store,
) -> None:
    """T9: a producer's event is its own root, whatever was there before it."""
    scene = await at(store, EMITTING)
    await scene.commit(Commit((publication("row", "row:1"),)))
    await scene.start("poll")
    second = publication("row", "row:1", "second")
    await scene.commit(Commit((second,), next_run_at=scene.now + 1))
    (row,) = await store.get_by_ids(WORKFLOW, "row", ("row:1",))
    causes = await store.list_causes(WORKFLOW, row.seq)
    assert causes == (*((each.topic, each.message_id) for each in INPUTS), ("row", "row:1"))


async def test_other_content_gives_an_input_no_cause(store: Store) -> None:
    """T9: it stays its own root, whatever other events of the workflow go back to."""
    scene = await at(store, EMITTING)
    await scene.commit(Commit((publication("row", "row:1"),)))
    for words in ("first", "second"):
        await scene.start("poll")
        commit = Commit((publication("row", "row:2", words),), next_run_at=scene.now + 1)
        await scene.commit(commit)
    (row,) = await store.get_by_ids(WORKFLOW, "row", ("row:2",))
    assert await store.list_causes(WORKFLOW, row.seq) == ()


async def test_an_heir_of_a_removed_handler_keeps_its_own_version(store: Store) -> None:
    """R5, W9: its `next` must know the results it is given."""
    scene = await at(store, UNTOLD)
    without = (replace(TOPICS[0], consumer=None), replace(TOPICS[1], consumer=None), *TOPICS[2:])
    newer = deployment("2.0", "1.0", handlers=(POLL, TELL), topics=without)
    await store.deploy(newer, successor_id="heir", action=scene.action(), now=scene.tick())
    assert (await store.get_run("heir")).version == "1.0"


async def test_a_redeploy_makes_a_tried_consumer_due_though_nothing_is_pending(
    store: Store,
) -> None:
    """S3: no run prepared by the active version has committed yet."""
    scene = await deployed(store)
    for topic, message_id in (("mail", "mail:1"), ("letter", "letter:1"), ("mail", "mail:2")):
        action = scene.action()
        await store.skip_event(
            WORKFLOW, topic, message_id, successor_id="x", action=action, now=scene.tick()
        )
    await scene.start()
    await scene.prepare(())
    await scene.commit()
    assert "file" not in [each.name for each in (await store.due(scene.now)).consumers]
    await deploy(scene, "2.0", "1.0", POLL.schedule)
    assert "file" in [each.name for each in (await store.due(scene.now)).consumers]


# -- Clocks that were wrong ----------------------------------------------------------------------


async def test_a_rest_set_by_a_clock_a_year_ahead_holds_nobody_back(store: Store) -> None:
    """S3, S4: thirty seconds are all a consumer rests, whatever the clock said then."""
    scene = await deployed(store)
    scene.now += YEAR_MS
    await scene.start()
    await scene.prepare(())
    await scene.commit(Commit((publication("told", "told:1"),)))
    scene.now -= YEAR_MS
    await scene.publish("mail", "mail:9")
    assert "file" in [each.name for each in (await store.due(scene.now)).consumers]


@pytest.mark.parametrize("run", [UNKNOWN, LATER], ids=["unknown", "backoff"])
async def test_a_wait_set_by_a_clock_a_year_ahead_is_over(run: Run, store: Store) -> None:
    """L5, F2: nobody is told to wait longer than a day."""
    before = await at(store, IN_FLIGHT if run == UNKNOWN else reach(*_WAY_TO_LATER))
    before.now += YEAR_MS
    await before.go(Answer.UNKNOWN if run == UNKNOWN else Failure.TRANSIENT)
    before.now -= YEAR_MS
    found = await store.due(before.now)
    assert found.reconciles or found.runs


_WAY_TO_LATER = (Progress.PREPARE_DONE, Progress.BEGIN_MUTATE)


# -- One of several -------------------------------------------------------------------------------


def test_a_publish_touches_the_consumer_of_its_topic_alone(memory: Memory) -> None:
    """S3: another consumer that was touched instead would leave the event lying."""
    memory.workflow("workflow")
    memory.handler("workflow", "file")
    memory.topic("workflow", "letter", "sort")
    memory.handler("workflow", "sort", position=1)
    statements.touch(memory.transaction, "workflow", ["letter"], 7)
    found = memory.connection.execute("select name, changed from handler order by name").fetchall()
    assert found == [("file", 0), ("sort", 7)]


def test_after_a_restore_the_approved_call_of_every_workflow_is_in_doubt(memory: Memory) -> None:
    """H5, A4: each may have been sent since the copy was made."""
    for workflow in ("one", "two", "three"):
        memory.workflow(workflow)
        memory.run(workflow, f"run of {workflow}", phase="mutating")
        memory.mutation(workflow, f"run of {workflow}", workflow, status="in_flight", attempt=0)
    memory.transaction.run("put_upkeep", name=upkeep.COPIED, at=5)
    upkeep.note_restore(memory.transaction, action=Action("a", "me", "restore"), now=9)
    found = memory.connection.execute("select id, sent_at, attempt from mutation").fetchall()
    assert sorted(found) == [("one", 5, 1), ("three", 5, 1), ("two", 5, 1)]


def test_a_grant_wakes_no_run_that_is_over(memory: Memory) -> None:
    """F4, R1: a run that was followed keeps what it waited for, and is never written again."""
    memory.workflow("workflow")
    waiting = {"status": "paused:approval", "waits": "grant", "waits_on": "sheet.append"}
    memory.run("workflow", "over", open=0, **waiting)
    memory.run("workflow", "open", **waiting)
    named = {"workflow_id": "workflow", "capability": "sheet.append", "now": 9}
    assert memory.transaction.all("wake_granted_run", **named) == [("open",)]


def test_what_a_closed_run_was_shown_may_be_gone(memory: Memory) -> None:
    """H5: retention removes it; the open run beside it has all it needs."""
    memory.workflow("workflow")
    memory.event("workflow", 1)
    memory.run("workflow", "open")
    memory.run("workflow", "over", open=0, status="crashed")
    for run_id, content in (("open", 1), ("over", 99)):
        memory.insert("reservation", run_id=run_id, seq=1, content=content)
    assert memory.transaction.all("find_unpinned") == []


AS_IT_WAS = {"old_phase": "mutating", "old_status": "active", "old_row": "in_flight"}
AS_IT_IS = {"phase": "mutating", "status": "crashed"}
DECIDED = {"id": "run", "workflow_id": "workflow", "now": 9, **AS_IT_WAS, **AS_IT_IS}
OTHERWISE: list[dict[str, str | None]] = [
    {"id": "other"},
    {"workflow_id": "other"},
    {"old_phase": "prepared"},
    {"old_status": "crashed"},
    {"old_row": "applied"},
    {"old_row": None},
    {"old_waits": "grant"},
]
GUARDED = [name for name, text in queries.load("queries").items() if ":old_phase" in text]


@pytest.mark.parametrize("statement", GUARDED)
def test_a_run_is_written_only_as_it_was_decided_on(memory: Memory, statement: str) -> None:
    """R8: another run, workflow, phase, status, row or wish, or a run that is over: no row."""
    memory.workflow("workflow")
    memory.run("workflow", "run", phase="mutating", due_at=5)
    memory.mutation("workflow", "run", "mutation", status="in_flight")

    def changed(**otherwise: str | None) -> int:
        text = default_schema().statements[statement]
        named = dict.fromkeys(re.findall(r":(\w+)", text))
        counts = {name: 0 for name in named if name.endswith(("_count", "_ms", "_told"))}
        with memory.undone():
            memory.connection.execute(text, {**named, **counts, **DECIDED, **otherwise}).fetchall()
            return memory.connection.changes()

    assert changed() == 1
    for otherwise in OTHERWISE:
        assert changed(**otherwise) == 0, otherwise
    memory.connection.execute("update run set open = 0, status = 'crashed'")
    assert changed(old_status="crashed") == 0


def test_each_invariant_is_said_in_its_own_words() -> None:
    """H5: who reads a problem looks for it where it is."""
    words = {
        "find_open_runs": "more than one open run",
        "find_strays": "reserved by no open run",
        "find_unanswered": "no open run answers for it",
        "find_causeless": "names an event that is not there",
        "find_contentless": "has no content",
        "find_unpinned": "what it was shown is gone",
        "find_torn": "is not whole",
    }
    assert words.keys() == INVARIANTS.keys()
    assert [each for each, said in words.items() if said not in INVARIANTS[each]] == []
