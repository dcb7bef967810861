"""The events' verbs sit their exam: publish, skip, peek, get by id."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.errors import Invalid, NotFound, RequestRefused
from duly.rules.event import Republish
from duly.rules.word import Act, Failure, Status
from duly.rules.word import MutationStatus as Row
from duly.store.event import Skipped
from duly.store.record import Action, EventRow
from tests.store.exam import Again, Call, Case, ReadCase, Refusal, Trial, World, exam
from tests.store.scene import (
    FAILED,
    PREPARING,
    PROPOSED,
    WORKFLOW,
    arranged,
    last_action,
    on,
    publication,
    publishing,
    reach,
    reached,
    statuses,
)

NEXT = "run_next"
MIB = 1024 * 1024


# -- publish ------------------------------------------------------------------------------------


def _publish(topic: str, message_id: str, text: str = "first", workflow: str = WORKFLOW) -> Call:
    async def call(world: World) -> tuple[Republish, int]:
        new = publication(topic, message_id, text)
        now = on(world).tick()
        return await world.store.publish(workflow, new, action=publishing(now), now=now)

    return call


async def _see_published(world: World, answer: tuple[Republish, int]) -> None:
    word, seq = answer
    (event,) = await world.store.get_by_ids(WORKFLOW, "mail", ("mail:9",))
    assert (word, event.seq, event.content) == (Republish.NEW, seq, seq)
    assert (event.status, event.created_by, event.created_at) == (
        "pending",
        "api",
        on(world).now + 1,
    )
    assert (event.title, event.body) == ("mail:9, first", '{"text":"first"}')
    workflow = await world.store.get_workflow(WORKFLOW)
    file = (await world.store.list_handlers(WORKFLOW))[1]
    assert workflow.counter == seq == file.changed
    noted = [row[2:] for row in world.dump()["action"] if row[1] == event.created_at]
    assert noted == [("api", "publish", WORKFLOW, "mail/mail:9", "new")]


async def _see_replaced(world: World, answer: tuple[Republish, int]) -> None:
    word, seq = answer
    (event,) = await world.store.get_by_ids(WORKFLOW, "mail", ("mail:1",))
    assert (word, event.seq, event.body) == (Republish.REPLACED, seq, '{"text":"second"}')
    assert event.content == (await world.store.get_workflow(WORKFLOW)).counter > seq
    assert (await world.store.list_handlers(WORKFLOW))[1].changed == event.content
    # Nobody was shown the first content, so it is gone.
    assert len(world.dump()["payload"]) == 3


CLOSED = Refusal("a topic without ingress", Invalid, call=_publish("row", "row:1"))
UNKNOWN_TOPIC = Refusal("a topic nobody declared", NotFound, call=_publish("post", "post:1"))
UNKNOWN_WORKFLOW = Refusal(
    "a workflow nobody knows", NotFound, call=_publish("mail", "mail:9", workflow="workflow_9")
)
PUBLISH = Case(
    "publish",
    arranged(),
    _publish("mail", "mail:9"),
    _see_published,
    Again.NOTHING,
    refusals=(CLOSED, UNKNOWN_TOPIC, UNKNOWN_WORKFLOW),
)
REPUBLISH = Case(
    "publish",
    arranged(),
    _publish("mail", "mail:1", "second"),
    _see_replaced,
    Again.NOTHING,
    says="over another content",
)


# -- skip_event ---------------------------------------------------------------------------------


def _skip(topic: str = "mail", message_id: str = "mail:1") -> Call:
    async def call(world: World) -> Skipped:
        scene = on(world)
        action = Action("action_skip", "me", "skip")
        return await scene.store.skip_event(
            WORKFLOW, topic, message_id, successor_id=NEXT, action=action, now=scene.tick()
        )

    return call


async def _see_skipped(world: World, answer: Skipped) -> None:
    assert answer == Skipped(True)
    assert await statuses(world.store) == {
        "mail:1": "skipped",
        "letter:1": "pending",
        "mail:2": "pending",
    }
    (event,) = await world.store.get_by_ids(WORKFLOW, "mail", ("mail:1",))
    assert (event.finished_at, event.finished_by) == (on(world).now + 1, None)
    file = (await world.store.list_handlers(WORKFLOW))[1]
    assert file.changed == (await world.store.get_workflow(WORKFLOW)).counter
    assert last_action(world) == ("me", "skip", WORKFLOW, "mail/mail:1")


async def _see_withdrawn(world: World, answer: Skipped) -> None:
    run_id = on(world).run_id
    run = await world.store.get_run(run_id)
    assert answer == Skipped(True, abandoned=run_id)
    assert (run.status, run.open, run.row) == (Status.ABANDONED, 0, Row.FAILED)
    assert (await statuses(world.store))["mail:1"] == "skipped"
    assert (await statuses(world.store))["letter:1"] == "pending"


async def _see_retried(world: World, answer: Skipped) -> None:
    run_id = on(world).run_id
    assert answer == Skipped(True, retried=run_id)
    old, new = await world.store.get_run(run_id), await world.store.get_run(NEXT)
    assert (old.open, new.open, new.retry_of, new.state) == (0, 1, run_id, PREPARING)
    assert (await statuses(world.store))["mail:1"] == "skipped"


MISSING = Refusal("an event nobody knows", NotFound, call=_skip("mail", "mail:9"))
SKIP = Case("skip_event", arranged(), _skip(), _see_skipped, Again.NOTHING, (MISSING,))
SKIP_RESERVED = Case(
    "skip_event",
    arranged(PROPOSED),
    _skip(),
    _see_withdrawn,
    Again.NOTHING,
    refusals=(
        Refusal(
            "an event whose call is out",
            RequestRefused,
            broken=reached(Act.APPROVE),
            match="Settle it first",
        ),
        Refusal("an event that was declined", RequestRefused, broken=reached(Act.REJECT)),
    ),
    says="that is reserved",
)
SKIP_POISON = Case(
    "skip_event",
    arranged(reach(Failure.LOGIC)),
    _skip(),
    _see_retried,
    Again.NOTHING,
    (MISSING,),
    says="that is poison",
)


# -- peek, get_by_ids ---------------------------------------------------------------------------


def _peek(limit: int = 10, after: str | None = None, bytes_max: int = MIB) -> Call:
    async def call(world: World) -> tuple[EventRow, ...]:
        return await world.store.peek(
            WORKFLOW, "mail", limit=limit, bytes_max=bytes_max, after=after
        )

    return call


def _ids(events: tuple[EventRow, ...]) -> list[str]:
    return [event.message_id for event in events]


async def _see_two(world: World, answer: tuple[EventRow, ...]) -> None:
    assert _ids(answer) == ["mail:1", "mail:2"]


async def _see_pages(world: World) -> None:
    assert _ids(await _peek(1)(world)) == ["mail:1"]
    assert _ids(await _peek(1, "mail:1")(world)) == ["mail:2"]
    assert _ids(await _peek(1, "mail:2")(world)) == []
    first = (await _peek()(world))[0]
    size = len(first.body.encode()) + len(first.title.encode())
    # One byte decides; and the first always fits, or it would be stuck in silence (T6).
    assert _ids(await _peek(bytes_max=2 * size)(world)) == ["mail:1", "mail:2"]
    assert _ids(await _peek(bytes_max=2 * size - 1)(world)) == ["mail:1"]
    assert _ids(await _peek(bytes_max=0)(world)) == ["mail:1"]


PEEK = ReadCase(
    "peek",
    arranged(),
    _peek(),
    _see_two,
    refusals=(Refusal("an unknown place", NotFound, call=_peek(after="mail:9")),),
    edge=_see_pages,
)


async def _get(world: World) -> tuple[EventRow, ...]:
    asked = ("mail:2", "mail:9", "mail:1", "mail:2")
    return await world.store.get_by_ids(WORKFLOW, "mail", asked)


async def _see_known(world: World, answer: tuple[EventRow, ...]) -> None:
    assert _ids(answer) == ["mail:2", "mail:1"]
    assert [event.status for event in answer] == ["pending", "reserved"]


async def _see_unknown_left_out(world: World) -> None:
    assert await world.store.get_by_ids(WORKFLOW, "mail", ()) == ()
    assert await world.store.get_by_ids(WORKFLOW, "letter", ("mail:1",)) == ()


async def _see_size(world: World) -> None:
    rows = await _get(world)
    size_bytes = sum(len(row.body.encode()) + len(row.title.encode()) for row in rows)
    asked = ("mail:2", "mail:1")
    assert await world.store.get_by_ids(WORKFLOW, "mail", asked, bytes_max=size_bytes) == rows
    with pytest.raises(Invalid, match="fewer"):
        await world.store.get_by_ids(WORKFLOW, "mail", asked, bytes_max=size_bytes - 1)


GET = ReadCase("get_by_ids", arranged(FAILED), _get, _see_known, edge=_see_unknown_left_out)
GET_WHOLE = ReadCase(
    "get_by_ids", arranged(FAILED), _get, _see_known, edge=_see_size, says="of a size"
)


@pytest.mark.parametrize(
    "trial", exam(PUBLISH, REPUBLISH, SKIP, SKIP_RESERVED, SKIP_POISON, PEEK, GET, GET_WHOLE)
)
async def test_the_verbs_of_events_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """T5, T6, U3: an event is one by its message id, in its order, and skipped for good."""
    await trial.sit(tmp_path)
