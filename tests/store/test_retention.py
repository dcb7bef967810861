"""Retention: what goes, what stays for good, what is never touched, wherever it is cut (H5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duly.errors import NotFound
from duly.rules import retention
from duly.rules.event import EventStatus, Republish, parse_publication
from duly.rules.ledger import idempotency_key
from duly.rules.retention import REMOVED, ChainRun, Tidied
from duly.rules.schedule import DAY_MS
from duly.rules.word import MutationStatus, Progress
from duly.store import queries
from duly.store.record import Reserve
from duly.store.upkeep import Section, TidyTurn
from tests.store.attic import (
    BEFORE,
    NOW,
    WHOLE,
    attic,
    file_mails,
    give_up,
    poll,
    tell_row,
    tidy,
)
from tests.store.exam import STATEMENTS_MAX, World, same
from tests.store.interruption import Interrupted
from tests.store.memory import Memory
from tests.store.scene import (
    PATHS,
    REFUSED,
    WORKFLOW,
    Scene,
    at,
    deployed,
    key_of,
    opened,
    publication,
    publishing,
)
from tests.store.test_plans import fill, offences, plan


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened(tmp_path) as world:
        yield world


async def titles(world: World) -> dict[str, str]:
    return {each.message_id: each.title for each in await world.store.list_events(WORKFLOW)}


async def removed(world: World) -> set[str]:
    return {name for name, title in (await titles(world)).items() if title == REMOVED}


# -- What goes, and what stays --------------------------------------------------------------------


async def test_finished_history_goes_and_names_and_states_stay(world: World) -> None:
    """H5: payloads, titles, runs, logs go; topic, message id and status of every event stay."""
    await attic(world)
    before = {each.message_id: each.status for each in await world.store.list_events(WORKFLOW)}
    assert await tidy(world.store) == WHOLE
    events = await world.store.list_events(WORKFLOW)
    assert {each.message_id: each.status for each in events} == before
    assert await removed(world) == {"mail:1", "letter:1", "mail:2", "row:1"}
    assert [each.body for each in events] == ["null"] * 4 + ['{"text":"first"}']
    dump = world.dump()
    assert len(dump["payload"]) == 2
    (run,) = await world.store.list_runs()
    assert (run.id, run.status, run.outcome, run.prepared, run.logs, run.result) == (
        "run_01",
        "committed",
        "applied",
        None,
        None,
        None,
    )
    assert "first" not in repr([dump[table] for table in ("run", "mutation", "reservation")])


async def test_what_was_read_goes_with_its_chain(world: World) -> None:
    """H5: whether the chain's runs stay as skeletons or not."""
    await attic(world)
    for run_id in ("run_01", "run_02"):
        world.connection.execute(
            "insert into recording (workflow_id, chain, step, reads) values (?, ?, 'next', '[]')",
            (WORKFLOW, run_id),
        )
    assert await tidy(world.store) == WHOLE
    assert world.dump()["recording"] == []


async def test_what_a_topic_nobody_consumes_holds_stays_whole(world: World) -> None:
    """H5, W9: a consumer that is deployed tomorrow is given what is pending there."""
    await attic(world)
    await tidy(world.store)
    assert (await titles(world))["told:1"] == "told:1, first"


async def test_a_late_republish_of_a_removed_event_is_frozen(world: World) -> None:
    """T5, H5: with other content and with the same; not one row changes."""
    await attic(world)
    await tidy(world.store)
    before = world.dump()
    for topic, message_id in (("mail", "mail:1"), ("mail", "mail:2"), ("letter", "letter:1")):
        for text in ("first", "another"):
            new = publication(topic, message_id, text)
            answer, _ = await world.store.publish(WORKFLOW, new, action=publishing(0), now=NOW)
            assert answer is Republish.FROZEN
    same(before, world.dump(), "the republish")


async def test_the_ledger_still_counts_what_it_forgot(world: World) -> None:
    """L7, A1, H5: inputs, key, state, refusal and send time stay; arguments and result go."""
    scene = await at(world.store, REFUSED)
    await world.store.abandon_run(scene.run_id, action=scene.action(), now=scene.tick())
    for topic, message_id in (("mail", "mail:1"), ("letter", "letter:1"), ("mail", "mail:2")):
        await world.store.skip_event(
            WORKFLOW, topic, message_id, successor_id="x", action=scene.action(), now=scene.tick()
        )
    row = await world.store.get_mutation(scene.mutation_id)
    counted = await world.store.count_sent(WORKFLOW, (row.tool,), since=0, besides="")
    assert (await tidy(world.store)).mutations == 1
    left = await world.store.get_mutation(scene.mutation_id)
    assert (left.title, left.args, left.result, left.error) == (
        REMOVED,
        retention.REMOVED_ARGS,
        None,
        None,
    )
    for name in ("inputs", "key", "hash", "status", "refused", "sent_at", "attempt", "run_id"):
        assert getattr(left, name) == getattr(row, name)
    assert await key_of(world.store) == idempotency_key("inputs", 1)
    assert await world.store.count_sent(WORKFLOW, (row.tool,), since=0, besides="") == counted


async def test_what_is_left_can_still_be_read(world: World) -> None:
    """H5, T9: inputs and causes are named as before; a run that is gone is not found."""
    await attic(world)
    await tidy(world.store)
    inputs = await world.store.list_inputs("run_01")
    assert [(each.message_id, each.title, each.body) for each in inputs] == [
        ("mail:1", REMOVED, "null"),
        ("letter:1", REMOVED, "null"),
    ]
    assert await world.store.list_causes(WORKFLOW, 6) == (
        ("mail", "mail:1"),
        ("letter", "letter:1"),
    )
    assert await world.store.list_effects(WORKFLOW, 2) == (("row", "row:1"), ("told", "told:1"))
    assert len(await world.store.list_mutations()) == 1
    with pytest.raises(NotFound):
        await world.store.get_run("run_02")
    known = await world.store.get_by_ids(WORKFLOW, "mail", ("mail:1",))
    assert [(each.status, each.title) for each in known] == [(EventStatus.CONSUMED, REMOVED)]


async def test_the_words_in_its_place_pass_for_a_title() -> None:
    """T3, H5: whatever shows a title can show them."""
    raw = {"message_id": "1", "title": REMOVED, "payload": None}
    assert parse_publication("mail", raw).title == REMOVED


async def test_the_bus_keeps_what_a_person_or_a_subscriber_waits_for(world: World) -> None:
    """H5, B5: delivered and fired goes; a dead letter, an open event and one to come stay."""
    await attic(world)
    await tidy(world.store)
    assert sorted(each.id for each in await world.store.list_journal()) == [1, 3]
    assert [each.status for each in await world.store.list_deliveries()] == ["done", "dead"]
    dump = world.dump()
    assert [row[7] for row in dump["deferred"]] == ["scheduled"]


# -- What is never touched ------------------------------------------------------------------------


async def test_an_input_stays_while_what_it_led_to_is_work(world: World) -> None:
    """H5, U2: and so does the run that worked on it; once that is done they go."""
    scene = await deployed(world.store)
    await file_mails(scene)
    before = world.dump()
    assert await tidy(world.store) == Tidied()
    before["upkeep"] = world.dump()["upkeep"]
    same(before, world.dump(), "retention")
    await tell_row(scene)
    assert await tidy(world.store) == Tidied(events=3, runs=2, mutations=1)


async def test_an_input_stays_while_what_it_led_to_is_left_behind(world: World) -> None:
    """H5, W9: a topic a newer version dropped still waits for a person."""
    scene = await deployed(world.store)
    await file_mails(scene)
    world.connection.execute(queries.load("queries")["orphan_topics"], {"workflow_id": WORKFLOW})
    assert (await tidy(world.store)).events == 0


async def test_pending_events_stay_however_old(world: World) -> None:
    """H5: nothing open is touched."""
    await deployed(world.store)
    before = world.dump()
    assert await tidy(world.store) == Tidied()
    before["upkeep"] = world.dump()["upkeep"]
    same(before, world.dump(), "retention")


@pytest.mark.parametrize("run", [run for run in PATHS if run.kind == "consumer"], ids=str)
async def test_nothing_of_an_open_run_is_touched(run: object, tmp_path: Path) -> None:
    """H5: whatever it waits for; and what its chain was shown stays even if the event ended."""
    async with opened(tmp_path) as world:
        scene = await at(world.store, run)  # type: ignore[arg-type]
        before = world.dump()
        assert await tidy(world.store) == Tidied()
        before["upkeep"] = world.dump()["upkeep"]
        same(before, world.dump(), f"retention beside {scene.run}")


async def test_what_ended_before_the_open_chain_began_goes(world: World) -> None:
    """H5: an open run keeps its own time, not all of history."""
    scene = await deployed(world.store)
    await file_mails(scene)
    await tell_row(scene)
    await scene.start()
    await scene.prepare((Reserve("mail", "mail:2"),))
    assert await tidy(world.store) == Tidied(events=3, runs=2, mutations=1)
    assert (await world.store.get_run(scene.run_id)).prepared is not None
    assert (await titles(world))["mail:2"] == "mail:2, first"


async def test_the_beginning_of_an_open_chain_is_kept_whole(world: World) -> None:
    """H5: also if the event it was shown has been skipped meanwhile, and the clock was set."""
    scene = await deployed(world.store)
    await scene.start()
    await scene.prepare((Reserve("mail", "mail:2"),))
    await scene.go(Progress.BEGIN_MUTATE)
    first = scene.run_id
    await scene.store.abandon_run(first, action=scene.action(), now=scene.tick())
    await skip(scene, "mail:2")
    # As if the clock had stood a year ahead when the abandoned run began a chain that is open.
    world.connection.execute(
        "update run set open = 1, status = 'crashed', created_at = :later where id = :id",
        {"later": NOW + 365 * DAY_MS, "id": first},
    )
    assert (await tidy(world.store)).events == 0


async def skip(scene: Scene, message_id: str) -> None:
    await scene.store.skip_event(
        WORKFLOW,
        "mail",
        message_id,
        successor_id="run_none",
        action=scene.action("skip"),
        now=scene.tick(),
    )


@pytest.mark.parametrize(("later_ms", "count"), [(0, 0), (1, 1)])
async def test_what_is_as_old_as_the_limit_stays_and_one_past_goes(
    world: World, later_ms: int, count: int
) -> None:
    """H5: events and runs by the moment they ended."""
    scene = await deployed(world.store)
    await skip(scene, "mail:2")
    ended = scene.now
    await poll(scene)
    assert (await tidy(world.store, before=ended + later_ms)).events == count
    assert (await tidy(world.store, before=scene.now + later_ms)).runs == count


# -- Turns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 200])
async def test_short_turns_come_to_the_same_end(limit: int, tmp_path: Path) -> None:
    """H5: however few rows one looks at."""
    async with opened(tmp_path / "whole") as whole, opened(tmp_path / "short") as short:
        await attic(whole)
        await attic(short)
        await tidy(whole.store)
        assert await tidy(short.store, limit=limit) == WHOLE
        same(whole.dump(), short.dump(), f"turns of {limit}")


async def test_a_turn_looks_at_no_more_than_its_limit(world: World) -> None:
    """H5: so that nobody waits long for it."""
    await attic(world)
    turned = await world.store.tidy(
        TidyTurn(Section.EVENTS, WORKFLOW), before=BEFORE, now=NOW, limit=1
    )
    assert (turned.tidied, turned.next) == (Tidied(events=1), TidyTurn(Section.EVENTS, WORKFLOW, 2))


async def test_young_history_is_not_gone_through(world: World) -> None:
    """S9, H5: behind the first turn of young rows there are only younger ones."""
    await attic(world)
    turn: TidyTurn | None = TidyTurn()
    turns = []
    while turn is not None:
        turns.append(turn.place)
        turn = (await world.store.tidy(turn, before=1, now=NOW, limit=1)).next
    assert turns == ["workflows", "events", "runs", "workflows", "journal", "deferred"]


async def test_retention_killed_at_any_statement_is_finished_by_the_next(tmp_path: Path) -> None:
    """H5: a second round ends where an uninterrupted one does, and a third finds nothing."""
    async with opened(tmp_path) as world:
        await attic(world)
        whole = await world.crash()
        await tidy(whole.store)
        for statements in range(1, STATEMENTS_MAX):
            heir = await world.crash()
            interruption = heir.interrupt_after(statements)
            try:
                await tidy(heir.store)
            except Interrupted:
                heir.go_on()
                await tidy(heir.store)
                same(whole.dump(), heir.dump(), f"the round cut after statement {statements}")
                assert await tidy(heir.store) == Tidied()
                continue
            assert not interruption.happened
            assert statements > 40
            return
        raise AssertionError(f"a round runs more than {STATEMENTS_MAX} statements")


async def test_a_removed_workflow_grows_old_too(world: World) -> None:
    """H5, W10: its history is readable for as long as any."""
    scene = await deployed(world.store)
    await file_mails(scene)
    await tell_row(scene)
    await give_up(scene)
    await world.store.remove(WORKFLOW, action=scene.action("remove"), now=scene.tick())
    assert (await tidy(world.store)).events == 4


def test_a_removed_event_is_overwritten_and_not_only_forgotten(tmp_path: Path) -> None:
    """H5: nothing of it is left in the file."""

    async def story(*, is_tidied: bool) -> Path:
        async with opened(tmp_path / str(is_tidied)) as world:
            scene = await deployed(world.store)
            await scene.publish("mail", "mail:3", "needle" * 70)
            await skip(scene, "mail:3")
            if is_tidied:
                await tidy(world.store)
            return Path(world.connection.db_filename("main"))

    assert b"needleneedle" in asyncio.run(story(is_tidied=False)).read_bytes()
    assert b"needleneedle" not in asyncio.run(story(is_tidied=True)).read_bytes()


@pytest.mark.parametrize("statistics", [False, True], ids=["plain", "analyzed"])
def test_no_turn_reads_a_whole_table(statistics: bool) -> None:
    """S9, H5: what a turn costs grows with its own rows; only a check walks everything."""
    memory = Memory()
    fill(memory)
    if statistics:
        memory.connection.execute("analyze")
    text = queries.read("upkeep")
    for name, statement in queries.load("upkeep").items():
        reason = text.partition(f"-- {name}\n")[2].partition("\n")[0]
        derived = [line for line in plan(memory, statement) if not _is_derived(line)]
        assert offences(derived, reason) == [], name


def _is_derived(line: str) -> bool:
    """What a recursion has found so far is read, of course; how it was found has its own lines."""
    return line in {"SCAN c", "SCAN l", "SCAN chain", "SCAN line"} or "(subquery" in line


# -- The rules ------------------------------------------------------------------------------------


def chain_run(**changes: object) -> ChainRun:
    known = {"id": "r", "is_open": False, "updated_at": 1, "has_pinned": False, "mutation": None}
    return ChainRun(**{**known, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"is_open": True}, False),
        ({"updated_at": 5}, False),
        ({"has_pinned": True}, False),
        ({"mutation": MutationStatus.APPLIED}, True),
        ({"mutation": MutationStatus.SKIPPED}, True),
        ({"mutation": MutationStatus.PROPOSED}, False),
        ({"mutation": MutationStatus.IN_FLIGHT}, False),
        ({"mutation": MutationStatus.NEEDS_RECONCILE}, False),
        ({"mutation": MutationStatus.INDETERMINATE}, False),
    ],
)
def test_a_chain_is_over_when_all_of_it_is(changes: dict[str, object], expected: bool) -> None:
    """H5, L1: one run that is not keeps the others."""
    assert retention.is_over((chain_run(), chain_run(**changes)), 5) is expected


def test_the_final_states_are_those_no_act_leads_out_of() -> None:
    """L1, H5: applied, failed, rejected and skipped."""
    assert {str(word) for word in retention.FINAL} == {"applied", "failed", "rejected", "skipped"}


def test_retention_is_due_once_a_day_and_at_once_the_first_time() -> None:
    """H5: a time a clock left in the future is not waited for."""
    assert retention.next_tidy_at(None, 7) == 7
    assert retention.next_tidy_at(5, 7) == 5 + DAY_MS
    assert retention.next_tidy_at(8, 7) == 7
    assert retention.cutoff_ms(NOW, 3) == NOW - 3 * DAY_MS
    assert retention.horizon_ms(5, None) == 5
    assert retention.horizon_ms(5, 9) == 5
    assert retention.horizon_ms(9, 5) == 5
