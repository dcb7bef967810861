"""The exam of blobs: written in parts, seen when whole, removed in turns (K15, H5)."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from duly.errors import IllegalTransition, Invalid, Stale
from duly.rules.blob import PART_BYTES, BlobStatus
from duly.rules.schedule import DAY_MS
from duly.store.blob import BlobPlace, OldBlob
from tests.store.exam import Again, Case, ReadCase, Refusal, Trial, World, exam
from tests.store.scene import NOON, PROPOSED, WORKFLOW, at, deployed
from tests.store.test_backup import problems_of

DATA = b"a" * PART_BYTES + b"end"
DIGEST = sha256(DATA).hexdigest()
ROOM = 2 * len(DATA)
LATER = NOON + 40 * DAY_MS


async def _claimed(world: World) -> None:
    world.fence = (await deployed(world.store)).fence


def _begin(data: bytes = DATA, room: int = ROOM, most: int = 2) -> Any:
    digest = sha256(data).hexdigest()

    async def call(world: World) -> bool:
        return await world.store.begin_blob(
            world.fence, digest, len(data), now=NOON, room_bytes=room, most=most
        )

    return call


async def _part(world: World, number: int = 0) -> None:
    body = DATA[number * PART_BYTES : (number + 1) * PART_BYTES]
    await world.store.keep_blob_part(WORKFLOW, DIGEST, number, body)


async def _begun(world: World) -> None:
    await _claimed(world)
    await _begin()(world)


async def _written(world: World) -> None:
    await _begun(world)
    await _part(world, 0)
    await _part(world, 1)


async def _finish(world: World) -> None:
    await world.store.finish_blob(WORKFLOW, DIGEST, now=NOON)


async def _kept(world: World) -> None:
    await _written(world)
    await _finish(world)


async def _left(world: World) -> None:
    await _kept(world)
    assert await world.store.leave_blob(WORKFLOW, DIGEST, used_at=NOON)


def _status(world: World) -> list[str]:
    return [row[3] for row in world.dump()["blob"]]


async def _is_begun(world: World, answer: Any) -> None:
    assert answer is False
    assert _status(world) == [BlobStatus.WRITING]
    assert await world.store.find_blob(WORKFLOW, DIGEST) is None


BEGIN = Case(
    verb="begin_blob",
    arrange=_claimed,
    call=_begin(),
    effect=_is_begun,
    again=Again.SAME,
    refusals=(
        Refusal("one byte too many", Invalid, call=_begin(room=len(DATA) - 1), match="more than"),
        Refusal(
            "one blob too many",
            Invalid,
            broken=_begin(b"other"),
            call=_begin(most=1),
            match="at most 1",
        ),
    ),
)


async def _is_there(world: World, answer: Any) -> None:
    assert answer is True
    assert _status(world) == [BlobStatus.KEPT]


BEGIN_AGAIN = Case(
    verb="begin_blob",
    arrange=_kept,
    call=_begin(room=0),
    effect=_is_there,
    again=Again.SAME,
    never_refuses="what is there already needs no room",
    says="of_known_bytes",
)


async def _has_a_part(world: World, answer: Any) -> None:
    assert [row[2:] for row in world.dump()["blob_part"]] == [(0, DATA[:PART_BYTES])]
    assert await world.store.get_blob_part(WORKFLOW, DIGEST, 0) is None


async def _oversized(world: World) -> None:
    await world.store.keep_blob_part(WORKFLOW, DIGEST, 0, b"x" * (PART_BYTES + 1))


PART = Case(
    verb="keep_blob_part",
    arrange=_begun,
    call=_part,
    effect=_has_a_part,
    again=Again.SAME,
    refusals=(
        Refusal(
            "a blob that was not begun",
            Stale,
            call=lambda world: world.store.keep_blob_part(WORKFLOW, "0" * 64, 0, b"x"),
        ),
        Refusal("a part that is one byte too large", IllegalTransition, call=_oversized),
    ),
)


async def _is_whole(world: World, answer: Any) -> None:
    assert await world.store.find_blob(WORKFLOW, DIGEST) == len(DATA)
    parts = [await world.store.get_blob_part(WORKFLOW, DIGEST, number) for number in range(3)]
    assert parts == [DATA[:PART_BYTES], b"end", None]


async def _torn(world: World) -> None:
    world.connection.execute("delete from blob_part where number = 1")


FINISH = Case(
    verb="finish_blob",
    arrange=_written,
    call=_finish,
    effect=_is_whole,
    again=Again.SAME,
    refusals=(Refusal("one without its last part", Stale, broken=_torn),),
)


def _use(digest: str = DIGEST, workflow_id: str = WORKFLOW) -> Any:
    return lambda world: world.store.use_blob(workflow_id, digest, now=LATER)


async def _is_used(world: World, answer: Any) -> None:
    assert answer == len(DATA)
    assert [row[-1] for row in world.dump()["blob"]] == [LATER]
    assert await _use("0" * 64)(world) is None
    assert await _use(DIGEST, "another workflow")(world) is None


USE = Case(
    verb="use_blob",
    arrange=_kept,
    call=_use(),
    effect=_is_used,
    again=Again.SAME,
    never_refuses="a blob that is not there is none",
)


async def _leaves(world: World, answer: Any) -> None:
    assert answer is True
    assert await world.store.find_blob(WORKFLOW, DIGEST) is None
    assert await world.store.get_blob_part(WORKFLOW, DIGEST, 0) is None


async def _was_used_meanwhile(world: World) -> None:
    assert not await world.store.leave_blob(WORKFLOW, DIGEST, used_at=NOON - 1)


LEAVE = Case(
    verb="leave_blob",
    arrange=_kept,
    call=lambda world: world.store.leave_blob(WORKFLOW, DIGEST, used_at=NOON),
    effect=_leaves,
    again=Again.NOTHING,
    never_refuses="a blob that was used meanwhile stays, and the answer says so",
)


async def _is_removed(world: World, answer: Any) -> None:
    assert answer is True
    assert world.dump()["blob_part"] == []
    assert [row[1:4] for row in world.dump()["blob"]] == [(DIGEST, len(DATA), "removed")]


async def _half(world: World) -> None:
    await _begun(world)
    await _part(world, 0)
    await world.store.leave_blob(WORKFLOW, DIGEST, used_at=NOON)


async def _is_gone(world: World, answer: Any) -> None:
    assert world.dump()["blob"] == []


DROP = Case(
    verb="drop_blob_parts",
    arrange=_left,
    call=lambda world: world.store.drop_blob_parts(),
    effect=_is_removed,
    again=Again.NOTHING,
    never_refuses="there may be nothing to remove",
)
DROP_HALF = Case(
    verb="drop_blob_parts",
    arrange=_half,
    call=lambda world: world.store.drop_blob_parts(),
    effect=_is_gone,
    again=Again.NOTHING,
    never_refuses="there may be nothing to remove",
    says="of_a_half_written_one",
)


async def _found(world: World, answer: Any) -> None:
    assert answer == len(DATA)


async def _not_found(world: World) -> None:
    assert await world.store.find_blob("another workflow", DIGEST) is None
    await world.store.leave_blob(WORKFLOW, DIGEST, used_at=NOON)
    assert await world.store.find_blob(WORKFLOW, DIGEST) is None


FIND = ReadCase(
    "find_blob",
    _kept,
    lambda world: world.store.find_blob(WORKFLOW, DIGEST),
    _found,
    edge=_not_found,
)


async def _is_the_end(world: World, answer: Any) -> None:
    assert answer == b"end"


async def _has_no_more(world: World) -> None:
    assert await world.store.get_blob_part(WORKFLOW, DIGEST, 2) is None
    assert await world.store.get_blob_part("another workflow", DIGEST, 0) is None


GET = ReadCase(
    "get_blob_part",
    _kept,
    lambda world: world.store.get_blob_part(WORKFLOW, DIGEST, 1),
    _is_the_end,
    edge=_has_no_more,
)


async def _is_noon(world: World, answer: Any) -> None:
    assert answer == NOON


async def _there_is_none(world: World) -> None:
    world.connection.execute("update blob set status = 'removed'")
    assert await world.store.oldest_blob() is None


OLDEST = ReadCase(
    "oldest_blob", _kept, lambda world: world.store.oldest_blob(), _is_noon, edge=_there_is_none
)


def _old(after: BlobPlace = BlobPlace(), kept: int = LATER, half: int = LATER) -> Any:  # noqa: B008
    return lambda world: world.store.old_blobs(after, kept_before=kept, half_before=half)


async def _one_is_old(world: World, answer: Any) -> None:
    assert answer == (OldBlob(WORKFLOW, DIGEST, NOON, is_named=False),)


async def _none_is_old(world: World) -> None:
    assert await _old(kept=NOON, half=NOON)(world) == ()
    assert await _old(kept=NOON)(world) == ()  # it is whole
    assert await _old(BlobPlace(NOON, WORKFLOW, DIGEST))(world) == ()


OLD = ReadCase("old_blobs", _kept, _old(), _one_is_old, edge=_none_is_old)

CASES = (BEGIN, BEGIN_AGAIN, PART, FINISH, USE, LEAVE, DROP, DROP_HALF, FIND, GET, OLDEST, OLD)


@pytest.mark.parametrize("trial", exam(*CASES))
async def test_blobs_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """K15, R8: each is one transaction, and a half-written blob is never seen."""
    await trial.sit(tmp_path)


NAMING = {
    "an event that waits": (
        "update payload set body = :body where content = (select content from event where"
        " status = 'pending' limit 1)"
    ),
    "an event that is reserved": (
        "update payload set body = :body where content = (select content from event where"
        " status = 'reserved' limit 1)"
    ),
    "the open run": "update run set prepared = :body where open = 1",
    "the state of a handler": "update handler set state = :body where name = 'poll'",
    "an open mutation": "update mutation set args = :body",
}


@pytest.mark.parametrize("what", NAMING)
async def test_what_something_open_names_is_not_old(what: str, tmp_path: Path) -> None:
    """K15, H5: an event, a run, a mutation or a state that speaks of a blob keeps it alive."""
    world = await World(tmp_path / "world").open()
    try:
        scene = await at(world.store, PROPOSED)
        world.fence = scene.fence
        await _begin()(world)
        await _part(world, 0)
        await _part(world, 1)
        await _finish(world)
        (before,) = await _old()(world)
        assert not before.is_named
        body = f'{{"file":{{"blob":"{DIGEST}"}}}}'
        world.connection.execute(NAMING[what], {"body": body})
        assert world.connection.changes() == 1
        (after,) = await _old()(world)
        assert after.is_named
    finally:
        await world.close()


async def test_a_removed_blob_can_be_written_again(tmp_path: Path) -> None:
    """K15: the parts that are still there are the same bytes."""
    world = await World(tmp_path / "world").open()
    try:
        await _left(world)
        assert await _begin()(world) is False
        assert not await world.store.drop_blob_parts()
        await _part(world, 0)
        await _part(world, 1)
        await _finish(world)
        await _is_whole(world, None)
    finally:
        await world.close()


async def test_a_torn_blob_is_a_problem_of_its_store(tmp_path: Path) -> None:
    """K15, H5: `verify` names a blob that can be seen and lacks a part."""
    world = await World(tmp_path / "world").open()
    try:
        await _kept(world)
        assert await problems_of(world) == ()
        await _torn(world)
        assert await problems_of(world) == (f"blob {WORKFLOW} {DIGEST} is not whole",)
    finally:
        await world.close()
