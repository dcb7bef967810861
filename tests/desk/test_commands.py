"""Every command: what it does, whom it tells, what it writes down, and how it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from duly.config import Limits, Policy
from duly.errors import DulyError, Invalid, NotFound, RequestRefused
from duly.rules.event import EventStatus, Republish
from duly.rules.lifecycle import Run
from duly.rules.value import Json
from duly.rules.word import Failure, MutationStatus, Status
from tests.desk.stand import Reception, reception
from tests.store import scene
from tests.store.scene import NAME, WORKFLOW

ANNA = "anna"

Command = Callable[[Reception], Awaitable[object]]


async def status_of(desk: Reception, message_id: str) -> EventStatus:
    events = await desk.events(NAME)
    return next(each.status for each in events if each.message_id == message_id)


# -- Pause and resume ---------------------------------------------------------------------------


async def test_a_pause_drops_a_run_whose_call_has_not_begun(tmp_path: Path) -> None:
    """F7, A6: the run ends abandoned, the engine is told, and who paused is written down."""
    async with reception(tmp_path, scene.PREPARED) as desk:
        await desk.pause(NAME, by=ANNA)
        assert (await desk.run(desk.scene.run_id)).status is Status.ABANDONED
        assert (await desk.workflow(NAME)).paused
        assert desk.engine.dropped == [desk.scene.run_id]
        assert desk.engine.woken == [WORKFLOW]
        assert desk.noted == [(ANNA, "pause", WORKFLOW, None)]


async def test_a_pause_leaves_a_run_that_has_a_call_out(tmp_path: Path) -> None:
    """F7: what has left is followed to its end."""
    async with reception(tmp_path, scene.IN_FLIGHT) as desk:
        await desk.pause(NAME, by=ANNA)
        assert (await desk.run(desk.scene.run_id)).status is Status.ACTIVE
        assert desk.engine.dropped == []


async def test_resuming_lets_runs_start_again(tmp_path: Path) -> None:
    """F7, A6: the wish is gone and the engine looks."""
    async with reception(tmp_path) as desk:
        await desk.pause(NAME, by=ANNA)
        await desk.resume(NAME, by="ben")
        assert not (await desk.workflow(NAME)).paused
        assert desk.engine.woken == [WORKFLOW, WORKFLOW]
        assert desk.noted[1] == ("ben", "resume", WORKFLOW, None)


# -- Run now ------------------------------------------------------------------------------------


async def test_run_now_makes_every_producer_due(tmp_path: Path) -> None:
    """S7, A6: the answer says how many there are."""
    async with reception(tmp_path) as desk:
        assert await desk.run_now(NAME, by=ANNA) == 1
        (poll,) = [each for each in await desk.world.store.list_handlers(WORKFLOW) if each.schedule]
        assert poll.next_run_at == desk.parts.env.now_ms()
        assert desk.engine.woken == [WORKFLOW]
        assert desk.noted == [(ANNA, "run_now", WORKFLOW, None)]


async def test_run_now_may_name_one_producer(tmp_path: Path) -> None:
    """W2, S7, A6: only that one is due; who, when and which is recorded."""
    async with reception(tmp_path) as desk:
        assert await desk.run_now(NAME, "poll", by=ANNA) == 1
        assert desk.noted == [(ANNA, "run_now", WORKFLOW, "poll")]
        with pytest.raises(NotFound, match='Did you mean "poll"'):
            await desk.run_now(NAME, "pol")
        with pytest.raises(NotFound, match="has no producer"):
            await desk.run_now(NAME, "file")  # a consumer


# -- Publish ------------------------------------------------------------------------------------


async def test_a_publish_that_was_kept_is_found_among_the_actions(tmp_path: Path) -> None:
    """A6: a caller who did not hear the answer looks there, and does not publish it again."""
    async with reception(tmp_path, scene.PREPARED) as desk:
        for message_id in ("mail:1", "mail:1", "mail:9", "mail:9"):
            await desk.publish(NAME, "mail", message_id=message_id, title="Pay", by="ada")
        assert desk.noted == [
            ("ada", "publish", WORKFLOW, "mail/mail:1"),
            ("ada", "publish", WORKFLOW, "mail/mail:9"),
        ]
        told = [(each.by, each.target, each.detail) for each in await desk.actions(limit=2)]
        assert told == [("ada", "mail/mail:9", "new"), ("ada", "mail/mail:1", "beside")]


async def test_publishing_the_same_message_twice_is_one_event(tmp_path: Path) -> None:
    """T5, T10: the answer says what became of each, and nobody waits for a poll."""
    async with reception(tmp_path) as desk:

        async def publish(title: str) -> Republish:
            payload: Json = {"from": "alice"}
            return await desk.publish(
                NAME, "mail", message_id="m1", title=title, payload=payload, by=ANNA
            )

        answers = [await publish(title) for title in ("Mail 1", "Mail 1", "Mail one")]
        assert answers == [Republish.NEW, Republish.SAME, Republish.REPLACED]
        event = (await desk.events(NAME, topic="mail"))[-1]
        assert (event.message_id, event.title, event.created_by) == ("m1", "Mail one", ANNA)
        assert event.payload == {"from": "alice"}
        assert desk.engine.woken == [WORKFLOW] * 3


async def test_an_event_without_an_id_is_named_by_its_content(tmp_path: Path) -> None:
    """T3: a missing message id is derived, an integer becomes digits, no payload is null."""
    async with reception(tmp_path) as desk:
        await desk.publish(NAME, "mail", title="One", payload=[1])
        await desk.publish(NAME, "mail", title="One", payload=[1])
        await desk.publish(NAME, "mail", title="Two", message_id=7)
        derived, seven = (await desk.events(NAME, topic="mail"))[-2:]
        assert derived.message_id.startswith("content:")
        assert (seven.message_id, seven.payload) == ("7", None)


async def test_a_skipped_event_does_not_change_any_more(tmp_path: Path) -> None:
    """T4, T5: what is final stays what it is."""
    async with reception(tmp_path) as desk:
        await desk.skip(NAME, "mail", "mail:1")
        assert (
            await desk.publish(NAME, "mail", message_id="mail:1", title="Other")
        ) is Republish.DROPPED


# -- Skip ---------------------------------------------------------------------------------------


async def test_a_pending_event_is_skipped_once(tmp_path: Path) -> None:
    """U3, A6: the second time changes nothing, and says so."""
    async with reception(tmp_path) as desk:
        assert await desk.skip(NAME, "mail", "mail:1", by=ANNA)
        assert not await desk.skip(NAME, "mail", "mail:1", by=ANNA)
        assert await status_of(desk, "mail:1") is EventStatus.SKIPPED
        assert desk.engine.dropped == []
        assert desk.noted == [(ANNA, "skip", WORKFLOW, "mail/mail:1")]


async def test_skipping_a_reserved_event_ends_its_run(tmp_path: Path) -> None:
    """U3: the run is dropped, its other event is free."""
    async with reception(tmp_path, scene.MUTATING) as desk:
        assert await desk.skip(NAME, "mail", "mail:1")
        assert desk.engine.dropped == [desk.scene.run_id]
        assert await status_of(desk, "letter:1") is EventStatus.PENDING


async def test_skipping_the_poison_lets_the_failed_run_be_followed(tmp_path: Path) -> None:
    """U3, R7: no host has taken the successor up, so it does not look like a crashed one."""
    async with reception(tmp_path, scene.reach(Failure.LOGIC)) as desk:
        assert await desk.skip(NAME, "mail", "mail:1")
        (successor,) = await desk.runs(NAME, status=Status.ACTIVE)
        assert successor.retry_of == desk.scene.run_id
        assert desk.untaken == {successor.id}


# -- Retry and abandon --------------------------------------------------------------------------


async def test_a_retry_answers_the_run_that_follows(tmp_path: Path) -> None:
    """R9, A6: the successor is there at once."""
    async with reception(tmp_path, scene.FAILED) as desk:
        successor = await desk.run(await desk.retry(desk.scene.run_id, by=ANNA))
        assert (successor.retry_of, successor.status) == (desk.scene.run_id, Status.ACTIVE)
        assert desk.untaken == {successor.id}
        assert desk.engine.woken == [WORKFLOW]
        assert desk.noted == [(ANNA, "retry", WORKFLOW, desk.scene.run_id)]


async def test_an_abandoned_run_is_dropped_and_its_events_are_free(tmp_path: Path) -> None:
    """R9, A6: nothing follows it."""
    async with reception(tmp_path, scene.MUTATING) as desk:
        await desk.abandon(desk.scene.run_id, by=ANNA)
        assert (await desk.run(desk.scene.run_id)).status is Status.ABANDONED
        assert await status_of(desk, "mail:1") is EventStatus.PENDING
        assert desk.engine.dropped == [desk.scene.run_id]
        assert desk.noted == [(ANNA, "abandon", WORKFLOW, desk.scene.run_id)]


async def test_of_two_retries_at_once_one_is_refused(tmp_path: Path) -> None:
    """R9: a caller who comes too late is told so, and nothing was stored twice."""
    async with reception(tmp_path, scene.FAILED) as desk:
        answers = await asyncio.gather(
            desk.retry(desk.scene.run_id), desk.retry(desk.scene.run_id), return_exceptions=True
        )
        assert [type(each) for each in answers] == [str, RequestRefused]
        assert desk.untaken == {answers[0]}
        assert len(desk.noted) == 1


# -- Settle -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "row", "status"),
    [
        ("try_again", MutationStatus.NEEDS_RECONCILE, Status.PAUSED_RECONCILIATION),
        ("did_not_happen", MutationStatus.FAILED, Status.PAUSED_TRANSIENT),
        ("happened", MutationStatus.APPLIED, Status.ACTIVE),
        ("skip", MutationStatus.SKIPPED, Status.ACTIVE),
    ],
)
async def test_each_answer_settles_an_indeterminate_mutation(
    tmp_path: Path, answer: str, row: MutationStatus, status: Status
) -> None:
    """L10, A6: the row and its run move, and the answer is written down."""
    async with reception(tmp_path, scene.INDETERMINATE) as desk:
        await desk.settle(desk.scene.mutation_id, answer, by=ANNA)
        assert (await desk.mutation(desk.scene.mutation_id)).status is row
        assert (await desk.run(desk.scene.run_id)).status is status
        assert desk.engine.woken == [WORKFLOW]
        assert desk.noted == [(ANNA, "settle", WORKFLOW, desk.scene.mutation_id)]
        assert desk.world.dump()["action"][-1][-1] == answer


async def test_what_happened_has_a_result(tmp_path: Path) -> None:
    """L10: the result a person gives is the mutation's result."""
    async with reception(tmp_path, scene.INDETERMINATE) as desk:
        await desk.settle(desk.scene.mutation_id, "happened", {"row": 7})
        assert (await desk.mutation(desk.scene.mutation_id)).result == {"row": 7}


async def test_of_two_answers_at_once_one_wins(tmp_path: Path) -> None:
    """L10: the second is refused."""
    async with reception(tmp_path, scene.INDETERMINATE) as desk:
        answers = await asyncio.gather(
            desk.settle(desk.scene.mutation_id, "skip"),
            desk.settle(desk.scene.mutation_id, "happened"),
            return_exceptions=True,
        )
        assert [type(each) for each in answers] == [type(None), RequestRefused]
        assert (await desk.mutation(desk.scene.mutation_id)).status is MutationStatus.SKIPPED


async def test_an_answer_about_fewer_sends_than_there_were_settles_nothing(tmp_path: Path) -> None:
    """G11, L10: a person who saw one send says nothing about a second one."""
    async with reception(tmp_path, scene.INDETERMINATE) as desk:
        mutation = desk.scene.mutation_id
        seen = (await desk.mutation(mutation)).attempt
        with pytest.raises(RequestRefused) as refused:
            await desk.settle(mutation, "did_not_happen", seen=seen - 1)
        assert refused.value.code == "sent_since"
        assert (await desk.mutation(mutation)).status is MutationStatus.INDETERMINATE
        offered = [each.args for each in (await desk.why(mutation)).offers if each.verb == "settle"]
        assert {each["seen"] for each in offered} == {seen}
        await desk.settle(mutation, "happened", seen=seen)


# -- Refusals -----------------------------------------------------------------------------------

MUTATION = "mutation_1"
RUN = "run_01"
LONG = "x" * 501
SMALL = Policy(limits=Limits(payload_bytes=10, result_bytes=10))


REFUSALS: list[tuple[str, Run | None, Command, type[DulyError], str]] = [
    ("F6", scene.LATER, lambda d: d.run_now(NAME), RequestRefused, "still works on"),
    ("W1", None, lambda d: d.pause("mial"), NotFound, 'Did you mean "mail"?'),
    ("W1", None, lambda d: d.resume("Mail"), NotFound, 'Did you mean "mail"?'),
    ("W1", None, lambda d: d.run_now(""), NotFound, "Known: mail."),
    ("W4", None, lambda d: d.publish(NAME, "mails", title="x"), NotFound, 'Did you mean "mail"?'),
    ("W4", None, lambda d: d.skip(NAME, "lettre", "m"), NotFound, 'Did you mean "letter"?'),
    ("T10", None, lambda d: d.publish(NAME, "row", title="x"), Invalid, "takes nothing from"),
    ("T3", None, lambda d: d.publish(NAME, "mail", title=" "), Invalid, "blank"),
    ("T3", None, lambda d: d.publish(NAME, "mail", title=LONG), Invalid, "longer than 500"),
    ("T3", None, lambda d: d.publish(NAME, "mail", title="a\nb"), Invalid, "control character"),
    (
        "T3",
        None,
        lambda d: d.publish(NAME, "mail", title="x", message_id=LONG),
        Invalid,
        "1 to 500",
    ),
    (
        "T8",
        None,
        lambda d: d.publish(NAME, "mail", title="x", payload=float("nan")),
        Invalid,
        "publish.payload",
    ),
    (
        "N",
        None,
        lambda d: d.publish(NAME, "mail", title="x", payload="123456789"),
        Invalid,
        "longer than 10 bytes",
    ),
    ("T2", None, lambda d: d.skip(NAME, "mail", "none"), NotFound, "no event none"),
    ("T3", None, lambda d: d.skip(NAME, "mail", ""), Invalid, "message_id"),
    ("U3", scene.IN_FLIGHT, lambda d: d.skip(NAME, "mail", "mail:1"), RequestRefused, "Settle it"),
    ("U3", scene.APPLIED, lambda d: d.skip(NAME, "mail", "mail:1"), RequestRefused, "applied"),
    ("R9", scene.UNKNOWN, lambda d: d.retry(RUN), RequestRefused, "Settle it first"),
    ("R9", scene.PREPARED, lambda d: d.retry(RUN), RequestRefused, "the run is active"),
    ("R9", scene.UNKNOWN, lambda d: d.abandon(RUN), RequestRefused, "Settle it first"),
    ("R1", None, lambda d: d.retry("run_none"), NotFound, "There is no run run_none"),
    ("R1", None, lambda d: d.abandon("run_none"), NotFound, "There is no run run_none"),
    ("L1", None, lambda d: d.settle("none", "skip"), NotFound, "There is no mutation none"),
    (
        "L10",
        scene.UNKNOWN,
        lambda d: d.settle(MUTATION, "happened"),
        RequestRefused,
        "needs_reconcile",
    ),
    ("L10", scene.INDETERMINATE, lambda d: d.settle(MUTATION, "yes"), Invalid, "try_again, did_"),
    ("L10", scene.INDETERMINATE, lambda d: d.settle(MUTATION, "retry"), Invalid, "Use one of"),
    (
        "L10",
        scene.INDETERMINATE,
        lambda d: d.settle(MUTATION, "skip", 1),
        Invalid,
        "A result belongs only to",
    ),
    (
        "N",
        scene.INDETERMINATE,
        lambda d: d.settle(MUTATION, "happened", "123456789"),
        Invalid,
        "longer than 10 bytes",
    ),
    ("A6", None, lambda d: d.pause(NAME, by=""), Invalid, "by must be"),
    ("A6", None, lambda d: d.pause(NAME, by="x" * 101), Invalid, "1 to 100"),
    ("A6", None, lambda d: d.pause(NAME, by="a\nb"), Invalid, "printable"),
    ("A6", None, lambda d: d.publish(NAME, "mail", title="x", by=" "), Invalid, "by must be"),
]


@pytest.mark.parametrize(
    ("run", "command", "error", "words"),
    [row[1:] for row in REFUSALS],
    ids=[f"{number} {row[0]} {row[4]}" for number, row in enumerate(REFUSALS)],
)
async def test_a_refused_command_says_why_and_stores_nothing(
    tmp_path: Path, run: Run | None, command: Command, error: type[DulyError], words: str
) -> None:
    """R9, U3, L10: not a row has changed, and the engine hears nothing."""
    async with reception(tmp_path, run, SMALL) as desk:
        before = desk.world.dump()
        with pytest.raises(error) as refused:
            await command(desk)
        assert words in str(refused.value)
        assert WORKFLOW not in str(refused.value)
        assert desk.world.dump() == before
        assert (desk.engine.woken, desk.engine.dropped) == ([], [])


async def test_run_now_is_refused_while_paused(tmp_path: Path) -> None:
    """S7: the wish of the person who paused holds."""
    async with reception(tmp_path) as desk:
        await desk.pause(NAME)
        with pytest.raises(RequestRefused, match="Resume it first"):
            await desk.run_now(NAME)


async def test_what_stands_at_a_limit_is_taken(tmp_path: Path) -> None:
    """T3, N: one less than what is refused."""
    async with reception(tmp_path, policy=SMALL) as desk:
        await desk.publish(
            NAME, "mail", title="x" * 500, message_id="y" * 500, payload="12345678", by="z" * 100
        )
        event = (await desk.events(NAME))[-1]
        assert (event.title, event.created_by) == ("x" * 500, "z" * 100)


async def test_an_orphaned_topic_takes_no_event_and_lets_its_own_be_skipped(
    tmp_path: Path,
) -> None:
    """W9, U3: what a newer version left behind can only be skipped."""
    async with reception(tmp_path) as desk:
        without = tuple(each for each in scene.TOPICS if each.name != "letter")
        newer = scene.deployment("2.0", "1.0", topics=without)
        action = desk.scene.action("deploy")
        await desk.world.store.deploy(newer, successor_id="none", action=action, now=scene.NOON)
        with pytest.raises(NotFound, match='no topic "letter"'):
            await desk.publish(NAME, "letter", title="x")
        assert await desk.skip(NAME, "letter", "letter:1")


async def test_a_command_that_was_begun_is_carried_out_though_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4: a commit the engine is not told of would leave the event lying there."""
    async with reception(tmp_path) as desk:
        begun, gate = asyncio.Event(), asyncio.Event()
        publish = desk.parts.store.publish

        async def slowly(*args: Any, **named: Any) -> object:
            begun.set()
            await gate.wait()
            return await publish(*args, **named)

        monkeypatch.setattr(desk.parts.store, "publish", slowly)
        publishing = asyncio.create_task(desk.publish(NAME, "mail", message_id="m", title="M"))
        await begun.wait()
        publishing.cancel()
        await asyncio.wait([publishing])
        assert publishing.cancelled()
        gate.set()
        await asyncio.gather(*desk.desk.acts)
        assert await status_of(desk, "m") is EventStatus.PENDING
        assert desk.engine.woken == [WORKFLOW]
