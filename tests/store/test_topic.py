"""Events in the store: one by message id, reserved all or none, traced to the roots, counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duly.errors import Invalid, Stale
from duly.fact import Reason
from duly.rules import lifecycle
from duly.rules.event import Republish
from duly.rules.lifecycle import Counts
from duly.rules.prepared import Judgement
from duly.rules.reason import keep
from duly.rules.word import Act, Failure, Progress
from duly.store.record import Commit, EventRow, HandlerRow, JournalEvent, Pinned, Reserve, Stop
from tests.store.exam import World
from tests.store.scene import (
    EMITTING,
    HOST,
    INPUTS,
    NO_CALL,
    PREPARED,
    PREPARING,
    WORKFLOW,
    Scene,
    Then,
    at,
    deployed,
    deployment,
    publication,
    publishing,
    reach,
    statuses,
)
from tests.store.scene import opened as opened_world

FIRST = INPUTS[0]
REJECTED = reach(Progress.PREPARE_DONE, Progress.BEGIN_MUTATE, Progress.ASK_APPROVAL, Act.REJECT)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened_world(tmp_path) as world:
        yield world


async def republish(scene: Scene, text: str, message_id: str = "mail:1") -> Republish:
    """Publish an event of the mail topic once more and answer what that did."""
    new = publication("mail", message_id, text)
    action = publishing(scene.tick())
    word, _ = await scene.store.publish(WORKFLOW, new, action=action, now=scene.now)
    return word


async def event(scene: Scene, message_id: str = "mail:1", topic: str = "mail") -> EventRow:
    """Read one event."""
    (found,) = await scene.store.get_by_ids(WORKFLOW, topic, (message_id,))
    return found


async def handler(scene: Scene, name: str = "file") -> HandlerRow:
    """Read one handler."""
    rows = await scene.store.list_handlers(WORKFLOW)
    return next(row for row in rows if row.name == name)


async def counter(scene: Scene) -> int:
    """Read the workflow's counter."""
    return (await scene.store.get_workflow(WORKFLOW)).counter


def dropped(world: World) -> list[int]:
    """Read how many contents each event dropped, oldest event first."""
    return [int(row[8]) for row in sorted(world.dump()["event"], key=lambda row: row[1])]


def contents(world: World) -> set[int]:
    """Read which contents are kept."""
    return {int(row[1]) for row in world.dump()["payload"]}


# -- T5: publishing again -----------------------------------------------------------------------


async def test_other_content_on_a_pending_event_keeps_its_place(world: World) -> None:
    """T5, T6: same number, new content, and the order of the topic stays."""
    scene = await deployed(world.store)
    before = await event(scene)
    assert await republish(scene, "second") is Republish.REPLACED
    after = await event(scene)
    assert (after.seq, after.created_at) == (before.seq, before.created_at)
    assert (after.title, after.content) == ("mail:1, second", await counter(scene))
    seen = await scene.store.peek(WORKFLOW, "mail", limit=9, bytes_max=9**9)
    assert [each.message_id for each in seen] == ["mail:1", "mail:2"]


async def test_identical_content_changes_nothing_and_wakes_nobody(world: World) -> None:
    """T5, S3: it takes no number."""
    scene = await deployed(world.store)
    before = world.dump()
    assert await republish(scene, "first") is Republish.SAME
    assert world.dump() == before


async def test_other_content_on_a_reserved_event_waits_beside_it(world: World) -> None:
    """T5, C6: what the run was shown stays what it was."""
    scene = await at(world.store, PREPARED)
    changed = (await handler(scene)).changed
    assert await republish(scene, "second") is Republish.BESIDE
    assert (await event(scene)).title == "mail:1, first"
    assert (await handler(scene)).changed == changed
    assert await republish(scene, "second") is Republish.SAME
    assert dropped(world) == [0, 0, 0]


async def test_a_release_brings_the_content_that_waited(world: World) -> None:
    """T5: it takes effect when the event is free; the pinned copy stays readable."""
    scene = await at(world.store, PREPARED)
    await republish(scene, "second")
    await scene.store.abandon_run(scene.run_id, action=scene.action(), now=scene.tick())
    found = await event(scene)
    assert (found.title, found.status, found.attempts) == ("mail:1, second", "pending", 1)
    shown = await scene.store.list_inputs(scene.run_id)
    assert shown[0].title == "mail:1, first"
    assert dropped(world) == [0, 0, 0]


async def test_a_content_that_came_too_late_is_dropped_and_counted(world: World) -> None:
    """T5: the event was consumed with the content its run was shown."""
    scene = await at(world.store, EMITTING)
    await republish(scene, "second")
    await scene.commit()
    found = await event(scene)
    assert (found.title, found.status) == ("mail:1, first", "consumed")
    assert dropped(world) == [1, 0, 0]


async def test_of_two_contents_beside_an_event_the_newer_counts(world: World) -> None:
    """T5: the older was shown to nobody, so it is dropped, counted and gone."""
    scene = await at(world.store, PREPARED)
    await republish(scene, "second")
    second = await counter(scene)
    assert await republish(scene, "first") is Republish.BESIDE
    assert second not in contents(world)
    assert dropped(world) == [1, 0, 0]
    await scene.store.abandon_run(scene.run_id, action=scene.action(), now=scene.tick())
    assert (await event(scene)).title == "mail:1, first"


@pytest.mark.parametrize("end", ["consumed", "skipped"])
async def test_a_finished_event_never_changes(end: str, world: World) -> None:
    """T5, T4: not by other content, and not by the same."""
    scene = await at(world.store, EMITTING if end == "consumed" else REJECTED)
    await scene.commit()
    finished = await event(scene)
    assert finished.status == end
    assert await republish(scene, "second") is Republish.DROPPED
    assert await event(scene) == finished
    before = world.dump()
    assert await republish(scene, "first") is Republish.FROZEN
    assert world.dump() == before


async def test_a_content_some_run_was_shown_is_kept_when_it_is_replaced(world: World) -> None:
    """C6: history is readable though the event went on."""
    scene = await at(world.store, PREPARED)
    await scene.store.abandon_run(scene.run_id, action=scene.action(), now=scene.tick())
    assert await republish(scene, "second") is Republish.REPLACED
    assert [each.title for each in await scene.store.list_inputs(scene.run_id)] == [
        "mail:1, first",
        "letter:1, first",
    ]


async def test_the_same_topic_and_id_in_two_workflows_are_two_events(world: World) -> None:
    """T1: nothing one workflow does touches the other's."""
    scene = await deployed(world.store)
    other = deployment(workflow_id="workflow_2", name="other")
    await world.store.deploy(other, successor_id="none", action=scene.action(), now=scene.tick())
    new = publication("mail", "mail:1", "theirs")
    told = await world.store.publish("workflow_2", new, action=publishing(0), now=1)
    assert told[0] is Republish.NEW
    assert (await event(scene)).title == "mail:1, first"


# -- C5: all or nothing -------------------------------------------------------------------------


async def prepare(scene: Scene, *reserves: Reserve) -> Judgement:
    """Ask for these events."""
    pinned = Pinned("{}", scene.now, "seed")
    return await scene.store.prepare_run(
        scene.fence, scene.run_id, PREPARING, PREPARED, pinned, reserves, now=scene.tick()
    )


async def skip(scene: Scene, message_id: str = "mail:1") -> None:
    """Skip an event of the mail topic, as a person."""
    action, now = scene.action("skip"), scene.tick()
    await scene.store.skip_event(
        WORKFLOW, "mail", message_id, successor_id="run_skip", action=action, now=now
    )


async def test_an_event_that_changed_under_prepare_lets_it_run_again(world: World) -> None:
    """C5: skipped or replaced since it was offered is no failure, and nothing is reserved."""
    scene = await at(world.store, PREPARING)
    offered = [
        Reserve("mail", f"mail:{n}", (await event(scene, f"mail:{n}")).content) for n in (1, 2)
    ]
    await republish(scene, "second", "mail:2")
    await skip(scene)
    before = world.dump()
    assert await prepare(scene, offered[0], *INPUTS[1:]) is Judgement.AGAIN
    assert await prepare(scene, offered[1], *INPUTS[1:]) is Judgement.AGAIN
    assert world.dump() == before


async def test_a_mistake_of_the_script_outweighs_a_change(world: World) -> None:
    """C5: an unknown id beside a replaced one is still a logic failure."""
    scene = await at(world.store, PREPARING)
    offered = Reserve("mail", "mail:1", (await event(scene)).content)
    await republish(scene, "second")
    before = world.dump()
    with pytest.raises(Invalid, match=r"mail:9 of topic mail cannot be reserved"):
        await prepare(scene, offered, Reserve("mail", "mail:9"))
    assert world.dump() == before


@pytest.mark.parametrize("is_offered", [True, False])
async def test_a_consumed_event_cannot_be_reserved(is_offered: bool, world: World) -> None:
    """C5: whether it was offered or not; the other events stay free."""
    scene = await at(world.store, EMITTING)
    await scene.commit()
    await scene.start()
    offered = (await event(scene)).content if is_offered else None
    before = world.dump()
    with pytest.raises(Invalid, match="mail:1 of topic mail cannot be reserved: it is consumed"):
        await prepare(scene, Reserve("mail", "mail:2"), Reserve("mail", "mail:1", offered))
    assert world.dump() == before


async def test_a_skipped_event_that_was_never_offered_is_a_mistake(world: World) -> None:
    """C5: nobody took it away under this prepare."""
    scene = await at(world.store, PREPARING)
    await skip(scene)
    with pytest.raises(Invalid, match="mail:1 of topic mail cannot be reserved: it is skipped"):
        await prepare(scene, FIRST)


# -- C11, T9: the commit ------------------------------------------------------------------------


async def test_a_declined_mutation_ends_its_events_skipped(world: World) -> None:
    """C11, A4: rejected by a person, so they are not consumed."""
    scene = await at(world.store, REJECTED)
    await scene.commit()
    assert await statuses(world.store) == {
        "mail:1": "skipped",
        "letter:1": "skipped",
        "mail:2": "pending",
    }
    assert (await event(scene)).finished_by == scene.run_id


async def test_a_run_without_a_call_consumes_its_events(world: World) -> None:
    """C9, C11: outcome none."""
    scene = await at(world.store, NO_CALL)
    await scene.commit()
    assert (await statuses(world.store))["mail:1"] == "consumed"


async def test_no_state_returned_keeps_the_old_one(world: World) -> None:
    """P2, C10: a commit without a state leaves what was there; null is a state."""
    scene = await at(world.store, EMITTING)
    await scene.commit(Commit(state='{"n":1}'))
    for given, kept in ((None, '{"n":1}'), ("null", "null"), (None, "null")):
        await scene.start()
        await scene.prepare(())
        await scene.commit(Commit(state=given))
        assert (await handler(scene)).state == kept


async def test_a_producer_that_returns_nothing_keeps_its_state(world: World) -> None:
    """P2: a commit without a state leaves the cursor where it was; null is a state."""
    scene = await deployed(world.store)
    first = '{"cursor":1}'
    for given, kept in ((first, first), (None, first), ("null", "null")):
        await scene.start("poll")
        await scene.commit(Commit(state=given))
        assert (await handler(scene, "poll")).state == kept


async def test_causes_go_back_to_the_inputs_through_two_consumers(world: World) -> None:
    """T9: the union of the roots, also when a successor publishes."""
    scene = await at(world.store, EMITTING)
    await scene.go(Failure.TRANSIENT)
    await scene.go(Then.FOLLOW)
    await scene.commit(Commit((publication("row", "row:1"),)))
    await scene.start("tell")
    await scene.prepare((Reserve("row", "row:1"),))
    await scene.commit(Commit((publication("told", "told:1"),)))
    roots = (("mail", "mail:1"), ("letter", "letter:1"))
    told = await event(scene, "told:1", "told")
    assert await scene.store.list_causes(WORKFLOW, told.seq) == roots
    first = await event(scene)
    assert await scene.store.list_effects(WORKFLOW, first.seq) == (
        ("row", "row:1"),
        ("told", "told:1"),
    )


async def test_an_event_of_a_run_that_reserved_nothing_is_its_own_root(world: World) -> None:
    """T9: it has no causes, and what follows from it goes back to it."""
    scene = await at(world.store, PREPARING)
    await scene.prepare(())
    await scene.commit(Commit((publication("row", "row:1"),)))
    row = await event(scene, "row:1", "row")
    assert await scene.store.list_causes(WORKFLOW, row.seq) == ()
    await scene.start("tell")
    await scene.prepare((Reserve("row", "row:1"),))
    await scene.commit(Commit((publication("told", "told:1"),)))
    told = await event(scene, "told:1", "told")
    assert await scene.store.list_causes(WORKFLOW, told.seq) == (("row", "row:1"),)


async def test_an_input_that_a_run_replaces_goes_back_to_itself_as_well(world: World) -> None:
    """T9: nobody forgets that it came from outside; its roots are then its own and the run's."""
    scene = await at(world.store, EMITTING)
    await scene.commit(Commit((publication("mail", "mail:2", "from the run"),)))
    replaced = await event(scene, "mail:2")
    causes = await scene.store.list_causes(WORKFLOW, replaced.seq)
    assert causes == (("mail", "mail:1"), ("letter", "letter:1"), ("mail", "mail:2"))


async def test_a_run_of_another_workflow_is_not_moved_by_this_one_s_fence(world: World) -> None:
    """H2, R8: the right to write to one workflow is no right to write to another."""
    scene = await at(world.store, PREPARED)
    other = deployment(workflow_id="workflow_2", name="other")
    await scene.store.deploy(other, successor_id="none", action=scene.action(), now=scene.tick())
    fence = await scene.store.claim(HOST, "workflow_2")
    after = lifecycle.advance(scene.run, Progress.BEGIN_MUTATE)
    before = world.dump()
    with pytest.raises(Stale):
        await scene.store.move_run(fence, scene.run_id, scene.run, after, now=scene.tick())
    assert world.dump() == before


async def test_an_event_keeps_what_only_the_host_knows_of_it(world: World) -> None:
    """T2: its number, its content, who made it, who holds it, who finished it, how often."""
    scene = await at(world.store, PREPARED)
    held = await event(scene)
    assert (held.created_by, held.reserved_by, held.attempts) == ("api", scene.run_id, 1)
    assert held.finished_by is None
    await scene.commit()
    over = await event(scene)
    assert (over.seq, over.content, over.reserved_by) == (held.seq, held.content, None)
    assert (over.finished_by, over.finished_at) == (scene.run_id, scene.now)


async def test_a_producer_that_stops_leaves_no_event_no_state_and_no_time(world: World) -> None:
    """P3: what it published was buffered, and comes with its commit or not at all."""
    scene = await deployed(world.store)
    await scene.start("poll")
    before, events = await handler(scene, "poll"), await scene.store.list_events(WORKFLOW)
    await scene.go(Failure.LOGIC)
    assert await handler(scene, "poll") == before
    assert await scene.store.list_events(WORKFLOW) == events


async def test_a_person_is_told_in_the_transaction_that_stops_the_run(world: World) -> None:
    """F8: the sentence stands on the run, and the bus has it, or neither."""
    scene = await at(world.store, PREPARING)
    after = lifecycle.fail(scene.run, Failure.INTERNAL)
    told = JournalEvent("workflow.needs_attention", "duly", '{"sentence":"It broke."}')
    stop = Stop(Counts(), escalated=Reason("script_failed"))
    await scene.store.stop_run(
        scene.fence, scene.run_id, scene.run, after, stop, now=scene.tick(), announce=(told,)
    )
    assert (await scene.store.get_run(scene.run_id)).escalated == keep(Reason("script_failed"))
    assert [each.topic for each in await scene.store.list_journal()] == [told.topic]
    with pytest.raises(Stale):
        await scene.store.stop_run(
            scene.fence, scene.run_id, scene.run, after, stop, now=scene.tick(), announce=(told,)
        )
    assert len(await scene.store.list_journal()) == 1
