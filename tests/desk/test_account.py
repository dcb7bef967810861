"""Inputs and outputs: what came of what, across consumers and successors, page by page."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from duly.config import Policy
from duly.desk.record import Input, Output, Preview
from duly.errors import Invalid, NotFound
from duly.rules.account import OUTPUT_OF, OutputStatus
from duly.rules.count import Activity, Count
from duly.rules.standing import InputStatus
from duly.rules.word import MutationStatus
from duly.testing import Fault, Stage
from duly.words import say_activity
from tests.desk.golden import situation as golden
from tests.desk.situation import ASKED, indeterminate, run
from tests.desk.stand import Reception, reception
from tests.engine.stand import (
    CONSUMER,
    IN,
    NAME,
    OUT,
    PRODUCER,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
)
from tests.spoken import long, short
from tests.store import scene
from verification.moves import Call, Return, When, ref

MIDDLE = "middle"
DAY_S = 86_400
CALL = "the call sheet.append (claimed: “Add a row”)"


def take(topic: str) -> tuple[Any, ...]:
    """Prepare one event of a topic."""
    reserve = {
        "reservations": [{"topic": topic, "ids": ref("pending.*.id")}],
        "data": {"text": ref("pending.0.payload")},
        "ui": {"title": f"Add what came to {topic}"},
    }
    return (
        Call("peek", (topic,), {"limit": 1}, into="pending"),
        When("pending", (Return(reserve),), (Return({"reservations": []}),)),
    )


def tell(topic: str) -> tuple[Any, ...]:
    """Publish what became of it."""
    said = {
        "message_id": ref("prepared.reservations.0.ids.0"),
        "title": f"Told to {topic}",
        "payload": ref("prepared.data.text"),
    }
    return (When("prepared.reservations", (Call("publish", (topic,), said),)),)


def relay() -> Any:
    """Two consumers one after the other: in → middle → out, each with a change of its own."""
    return flow(
        {
            "first": consumer(take(IN), then=tell(MIDDLE)),
            "second": consumer(take(MIDDLE), then=tell(OUT), subscribe=(MIDDLE,)),
        },
        topics=(IN, MIDDLE, OUT),
    )


async def relayed(stage: Stage, *ids: str, policy: Policy | None = None) -> Play:
    play = await opened(stage, policy=policy)
    await play.deploy(relay())
    await play.publish(*ids)
    return play


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (Input, "topic message_id title status seq created_at stale reason outputs"),
        (Output, "id claimed observed status at inputs key known"),
    ],
)
def test_a_record_has_exactly_the_fields_that_were_promised(kind: type, names: str) -> None:
    assert [each.name for each in fields(kind)] == names.split()


# -- Inputs → outputs ----------------------------------------------------------------------------


async def test_an_input_is_followed_through_every_consumer(duly_world: Stage) -> None:
    """U2, T9: two changes and an event came of it, and each goes back to it."""
    play = await relayed(duly_world, "a")
    await play.drain()
    (shown,) = await play.host.inputs(NAME)
    assert (shown.topic, shown.message_id, shown.title) == (IN, "a", "Event")
    assert (shown.status, shown.stale) == (InputStatus.DONE, False)
    assert [(each.claimed, each.observed) for each in shown.outputs] == [
        ("Add what came to in", Preview(TOOL, {"text": "a"})),
        ("Add what came to middle", Preview(TOOL, {"text": "a"})),
        ("Told to out", None),
    ]
    assert all(each.inputs == ("Event",) for each in shown.outputs)
    assert all(each.status is OutputStatus.DONE for each in shown.outputs)
    assert short(play.host, shown) == (
        "The call sheet.append (claimed: “Add what came to in”) is done, and 2 more"
    )


async def test_an_input_is_pending_until_the_last_consumer_is_through(duly_world: Stage) -> None:
    """U2: the first change is done, the second waits, so the input does."""
    play = await relayed(duly_world, "a", policy=ASKED)
    await play.drain()
    for expected in (InputStatus.PENDING, InputStatus.PENDING):
        assert (await play.host.inputs(NAME))[0].status is expected
        (proposed,) = await play.host.approvals()
        await play.host.approve(proposed.mutation, proposed.hash)
        await play.drain()
    assert (await play.host.inputs(NAME))[0].status is InputStatus.DONE


async def test_of_several_things_the_sentence_speaks_of_the_one_that_waits(
    duly_world: Stage,
) -> None:
    """U2: what is done comes last."""
    play = await relayed(duly_world, "a", policy=ASKED)
    await play.drain()
    (proposed,) = await play.host.approvals()
    await play.host.approve(proposed.mutation, proposed.hash)
    await play.drain()
    (shown,) = await play.host.inputs(NAME)
    assert [each.status for each in shown.outputs] == ["done", "waiting"]
    assert "“Add what came to middle”) waits for you, and 1 more" in short(play.host, shown)


async def test_what_a_successor_did_is_traced_to_the_same_input(duly_world: Stage) -> None:
    """U2, T9, R5: a crash after the change, and a heir that publishes."""
    play = await relayed(duly_world, "a")
    await play.crash_during(commit_run="before")
    await play.drain()
    (shown,) = await play.host.inputs(NAME)
    assert [each.claimed for each in shown.outputs] == [
        "Add what came to in",
        "Add what came to middle",
        "Told to out",
    ]
    assert duly_world.count() == 2


async def test_a_retried_call_is_shown_once_for_its_input(duly_world: Stage) -> None:
    """U2: an attempt that was not done is an output of its own; the input shows what was."""
    play = await opened(duly_world)
    plan(duly_world, Fault.NOT_SENT)
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance(60)
    (shown,) = await play.host.inputs(NAME)
    changes = [each for each in shown.outputs if each.observed]
    assert [each.status for each in changes] == [OutputStatus.DONE]
    made = [each for each in await play.host.outputs(NAME) if each.observed]
    assert [each.status for each in made] == [OutputStatus.DONE, OutputStatus.NOT_DONE]
    assert [each.inputs for each in made] == [("Event",), ("Event",)]


async def skipped_by_anna(stage: Stage) -> Play:
    play, _ = await golden.resting(stage, golden.declining(), "a")
    await play.host.skip(NAME, IN, "a", by="anna")
    return play


@pytest.mark.parametrize(
    ("builder", "status", "sentence"),
    [
        (
            lambda stage: golden._named(run(stage, policy=ASKED)),
            "pending",
            "The call sheet.append (claimed: “Add a row”) waits for you",
        ),
        (
            lambda stage: golden._named(indeterminate(stage)),
            "pending",
            f"It is not known yet whether {CALL} happened",
        ),
        (
            lambda stage: golden._named(run(stage, None, Fault.REFUSE)),
            "pending",
            "The call sheet.append (claimed: “Add a row”) was not done",
        ),
        (
            golden.declined,
            "skipped",
            f"T{CALL[1:]} was rejected by anna and not sent, and 1 more",
        ),
        (
            golden.OTHERS["done without a change"],
            "done",
            "“What became of it” is done",
        ),
        (golden.OTHERS["the script left what waits"], "pending", "It is pending"),
        (
            golden.OTHERS["left behind with their topic"],
            "pending",
            "A newer version left it behind; you can skip it",
        ),
        (
            golden.OTHERS["left behind by their consumer"],
            "pending",
            "A newer version left it behind; you can skip it",
        ),
        (
            lambda stage: golden._named(skipped_by_anna(stage)),
            "skipped",
            "It was skipped by anna",
        ),
        (
            lambda stage: golden.resting(
                stage, flow({CONSUMER: consumer(mutate=None, then=None)}), "a"
            ),
            "done",
            "It was looked at and needed no change",
        ),
    ],
)
async def test_an_input_says_in_one_sentence_what_happened_because_of_it(
    duly_world: Stage, builder: golden.Builder, status: str, sentence: str
) -> None:
    """U2: by what came of it, or by what became of itself."""
    play, _ = await builder(duly_world)
    shown = (await play.host.inputs(NAME))[-1]
    assert (shown.status, short(play.host, shown)) == (status, sentence)


async def test_a_producer_s_events_are_inputs_and_what_next_publishes_is_none(
    duly_world: Stage,
) -> None:
    """T9, U2: only roots are listed."""
    play = await opened(duly_world)
    await play.deploy(flow(None, {PRODUCER: producer(publish("x"), publish("y"), every="1d")}))
    await play.drain()
    assert [each.message_id for each in await play.host.inputs(NAME)] == ["y", "x"]
    events = await play.host.events(NAME)
    assert {each.topic for each in events} == {IN, OUT}


async def test_an_input_that_was_replaced_is_still_an_input(duly_world: Stage) -> None:
    """T9: it goes back to itself as well."""
    play, _ = await golden.resting(duly_world, golden.declining(), "a")
    await play.host.publish(NAME, IN, title="Changed", message_id="a", payload="new")
    assert [each.title for each in await play.host.inputs(NAME)] == ["Changed"]


async def test_inputs_come_newest_first_in_pages_by_status(duly_world: Stage) -> None:
    """U2: a filter finds all of its kind, whatever the size of the page."""
    play = await opened(duly_world, policy=ASKED)
    await play.deploy(flow())
    await play.publish(*"abcdef")
    await play.drain()
    for _ in range(2):
        (proposed,) = await play.host.approvals()
        await play.host.reject(proposed.mutation)
        await play.drain()
    whole = await play.host.inputs(NAME)
    assert [each.message_id for each in whole] == [*"fedcba"]
    for status, ids in (("skipped", "ba"), ("pending", "fedc"), ("done", ""), (None, "fedcba")):
        for size in (1, 2, 4):
            seen: list[str] = []
            before: int | None = None
            while page := await play.host.inputs(NAME, status=status, limit=size, before=before):
                seen += [each.message_id for each in page]
                before = page[-1].seq
            assert seen == [*ids], (status, size)


# -- Outputs → inputs ----------------------------------------------------------------------------


async def test_outputs_are_changes_and_events_nobody_takes_up(duly_world: Stage) -> None:
    """U2, U4: newest first, each with the inputs behind it; what is work is no output."""
    play = await opened(duly_world)
    await play.deploy(relay())
    for each in "ab":
        await play.host.publish(NAME, IN, title=f"Mail {each}", message_id=each, payload=each)
        await play.drain()
        await duly_world.advance(60)
    shown = await play.host.outputs(NAME)
    assert [(each.claimed, each.inputs) for each in shown] == [
        ("Told to out", ("Mail b",)),
        ("Add what came to middle", ("Mail b",)),
        ("Add what came to in", ("Mail b",)),
        ("Told to out", ("Mail a",)),
        ("Add what came to middle", ("Mail a",)),
        ("Add what came to in", ("Mail a",)),
    ]
    assert shown[0].id == "out/b"
    assert shown[0].observed is None
    assert shown[1].id.startswith("mutation_")


@pytest.mark.parametrize("jump_ms", [0, -3_600_000])
async def test_pages_of_outputs_show_each_once_whatever_the_clock_did(
    duly_world: Stage, jump_ms: int
) -> None:
    """U2: the key says how far both kinds were read, so a clock set back hides nothing."""
    play = await relayed(duly_world, "a")
    await play.drain()
    duly_world.env.jump(jump_ms)
    await play.publish("b", "c")
    await play.drain()
    whole = await play.host.outputs(NAME)
    assert len(whole) == 9
    assert len({each.id for each in whole}) == 9
    for size in (1, 2, 4, 9):
        seen: list[Output] = []
        before: str | None = None
        while page := await play.host.outputs(NAME, limit=size, before=before):
            seen += page
            assert len(seen) <= len(whole)  # a page that repeats would go on for ever
            before = page[-1].key
        assert tuple(seen) == whole


async def test_an_output_of_several_inputs_names_them_all(duly_world: Stage) -> None:
    """U2, T9: in the order in which they came."""
    play, _ = await golden.many(duly_world)
    (shown,) = await play.host.outputs(NAME)
    assert shown.inputs == ("Event", "Event", "Event")
    assert [len(each.outputs) for each in await play.host.inputs(NAME)] == [1, 1, 1]


async def test_without_a_title_it_says_so(duly_world: Stage) -> None:
    """L11: and the call is there to be seen."""
    play, _ = await golden.OTHERS["no title given"](duly_world)
    (shown,) = await play.host.outputs(NAME)
    assert shown.claimed is None
    assert shown.observed == Preview(TOOL, {"text": "a"})


def test_every_word_of_the_ledger_has_a_word_for_people() -> None:
    """U2: and what nobody knows is never called done."""
    assert set(OUTPUT_OF) == set(MutationStatus)
    done = {row for row, status in OUTPUT_OF.items() if status is OutputStatus.DONE}
    assert done == {MutationStatus.APPLIED}


# -- Counts --------------------------------------------------------------------------------------


async def test_activity_counts_a_day_by_nouns(duly_world: Stage) -> None:
    """U1: inputs by their topic, changes by their tool; after a day it is forgotten."""
    play, _ = await golden.resting(duly_world, flow(), "a", "b", "c")
    shown = await play.host.workflow(NAME)
    assert say_activity(shown.activity) == "Processed 3 inputs → 3 changes added"
    assert shown.pending == ()
    assert shown.activity.hours == (*[0] * 23, 3)
    await duly_world.advance(DAY_S)
    later = (await play.host.workflow(NAME)).activity
    assert later == replace(shown.activity, hours=(3, *[0] * 23))
    await duly_world.advance(1)
    assert (await play.host.workflow(NAME)).activity == Activity()


async def test_activity_does_not_count_what_was_made_on_the_way(duly_world: Stage) -> None:
    """U1: one mail is one mail, through however many consumers it goes."""
    play = await relayed(duly_world, "a")
    await play.drain()
    counts = Activity((Count(1, "input"),), (Count(2, "change", "added"),), (*[0] * 23, 2))
    assert (await play.host.workflow(NAME)).activity == counts


async def test_what_waits_and_what_waits_too_long_is_counted(duly_world: Stage) -> None:
    """U1, U4: seven days are not too long, a moment more is."""
    play, _ = await golden.resting(duly_world, golden.declining(), "a", "b")
    await duly_world.advance(7 * DAY_S)
    shown = await play.host.workflow(NAME)
    assert (shown.pending, shown.stale, shown.orphaned) == ((Count(2, "input"),), 0, 0)
    assert not (await play.host.inputs(NAME))[0].stale
    await duly_world.advance(1)
    assert (await play.host.workflow(NAME)).stale == 2
    assert (await play.host.inputs(NAME))[0].stale


async def test_the_policy_says_what_is_too_long(duly_world: Stage) -> None:
    """U4: one day here."""
    play = await opened(duly_world, policy=Policy(stale_after_days=1))
    await play.deploy(golden.declining())
    await play.publish("a")
    await play.drain()
    await duly_world.advance(DAY_S + 1)
    assert (await play.host.workflow(NAME)).stale == 1
    (entry,) = await play.host.attention()
    assert long(play.host, entry).startswith("Pending for more than 1 days: 1 input")


async def test_what_nobody_takes_up_is_never_stale_and_never_waits(duly_world: Stage) -> None:
    """U4: events of terminal topics are outputs."""
    play, _ = await golden.resting(duly_world, flow(), "a")
    await duly_world.advance(30 * DAY_S)
    shown = await play.host.workflow(NAME)
    assert (shown.pending, shown.stale, shown.orphaned) == ((), 0, 0)
    assert await play.host.attention() == ()


@pytest.mark.parametrize("topics", [(OUT,), (IN, OUT)], ids=["topic gone", "consumer gone"])
async def test_what_a_newer_version_left_behind_is_counted_until_it_is_skipped(
    duly_world: Stage, topics: tuple[str, ...]
) -> None:
    """W9, U4: it is neither waiting nor an output, also where only its consumer went."""
    play, _ = await golden.left_behind(duly_world, *topics)
    shown = await play.host.workflow(NAME)
    assert (shown.pending, shown.stale, shown.orphaned) == ((), 0, 2)
    assert [each.claimed for each in await play.host.outputs(NAME)] == ["An event"]
    await play.host.skip(NAME, IN, "a")
    await play.host.skip(NAME, IN, "b")
    assert (await play.host.workflow(NAME)).orphaned == 0
    assert await play.host.attention() == ()


async def test_what_comes_to_a_topic_that_lost_its_consumer_is_an_output(
    duly_world: Stage,
) -> None:
    """W9, U4: only what was there before is left behind; a consumer that comes back takes all."""
    play, _ = await golden.left_behind(duly_world, IN, OUT)
    await play.publish("c")
    assert (await play.host.workflow(NAME)).orphaned == 2
    assert [each.id for each in await play.host.outputs(NAME)] == ["in/c", "out/x"]
    assert [each.message_id for each in await play.host.inputs(NAME)] == ["b", "a"]
    await play.deploy(flow())
    await play.drain()
    assert (await play.host.workflow(NAME)).orphaned == 0
    assert {each.status for each in await play.host.inputs(NAME)} == {InputStatus.DONE}


# -- Refusals ------------------------------------------------------------------------------------


async def test_a_question_that_makes_no_sense_is_answered_with_what_to_ask(tmp_path: Path) -> None:
    """N: known names and words, pages of one to a thousand, keys of entries."""
    asked: list[tuple[Any, type[Exception], str]] = [
        (lambda desk: desk.inputs("mial"), NotFound, 'Did you mean "mail"?'),
        (lambda desk: desk.outputs("mial"), NotFound, 'Did you mean "mail"?'),
        (lambda desk: desk.inputs("mail", status="ready"), Invalid, "pending, skipped, done"),
        (lambda desk: desk.inputs("mail", before="m"), Invalid, "number"),
        (lambda desk: desk.outputs("mail", before=3), Invalid, "id or name"),
        (lambda desk: desk.outputs("mail", before="nothing"), Invalid, "key of an output"),
        (lambda desk: desk.outputs("mail", before="x:y"), Invalid, "key of an output"),
        (lambda desk: desk.outputs("mail", before=f"{2**63}:"), Invalid, "key of an output"),
    ]
    for limit in (0, 1001):
        asked += [
            (lambda desk, limit=limit: desk.inputs("mail", limit=limit), Invalid, "1 to 1000"),
            (lambda desk, limit=limit: desk.outputs("mail", limit=limit), Invalid, "1 to 1000"),
        ]
    async with reception(tmp_path) as desk:
        for question, error, words in asked:
            with pytest.raises(error) as refused:
                await question(desk)
            assert words in str(refused.value)


async def test_a_page_may_have_a_thousand_entries(tmp_path: Path) -> None:
    """N: the limit itself is taken."""
    async with reception(tmp_path, scene.APPLIED) as desk:
        assert len(await desk.inputs("mail", limit=1000)) == 3
        assert len(await desk.outputs("mail", limit=1000)) == 1


async def shown_row(desk: Reception) -> Output:
    (shown,) = await desk.outputs("mail")
    return shown


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (scene.PROPOSED, "waiting"),
        (scene.IN_FLIGHT, "under_way"),
        (scene.UNKNOWN, "unknown"),
        (scene.INDETERMINATE, "unknown"),
        (scene.APPLIED, "done"),
        (scene.REFUSED, "not_done"),
        (scene.REJECTED, "rejected"),
    ],
)
async def test_an_output_says_how_far_it_is(tmp_path: Path, state: Any, status: str) -> None:
    """U2: in words a person understands."""
    async with reception(tmp_path, state) as desk:
        assert (await shown_row(desk)).status == status
