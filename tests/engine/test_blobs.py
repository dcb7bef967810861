"""Blobs: bytes reach tools and never scripts; a handle is worth what its workflow was given."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from duly.config import Limits, Policy
from duly.connectors.base import Applied, Call, Connector, NotApplied, Verdict, mutation, read
from duly.connectors.registry import Registry
from duly.errors import Invalid
from duly.rules.blob import Blob
from duly.rules.schedule import DAY_MS
from duly.rules.value import decode
from duly.rules.word import MutationStatus as Row
from duly.rules.word import Status
from duly.testing import Stage
from tests.engine.stand import (
    CONSUMER,
    IN,
    NOTHING,
    PEEK_ONE,
    Play,
    consumer,
    flow,
    opened,
    producer,
    publish,
)
from verification.moves import Call as ScriptCall
from verification.moves import Let, Return, When, ref

DAY_S = DAY_MS / 1000
PDF = b"%PDF " + bytes(range(256)) * 2000  # two parts


class Desk(Connector):
    """Gives files away and takes them."""

    name = "desk"

    def __init__(self, data: bytes = PDF) -> None:
        self.data = data
        self.taken: dict[str, bytes] = {}

    @read
    async def get(self, count: int = 1) -> list[Blob]:
        """Give files."""
        return [
            await self.keep_blob(self.data + bytes(each), name=f"{each}/a.pdf", type="text/x;q=1")
            for each in range(count)
        ]

    @read
    async def size(self, file: Blob) -> int:
        """Measure a file."""
        return len(await self.open_blob(file))

    @mutation(lag_s=5)
    async def put(self, call: Call, file: Blob, more: list[Blob] | None = None) -> None:
        """Take files."""
        for place, each in enumerate([file, *(more or [])]):
            self.taken[f"{call.key}{place}"] = await self.open_blob(each)

    @put.reconcile
    async def put_happened(self, call: Call) -> Verdict:
        """Look whether they are there."""
        return Applied() if f"{call.key}0" in self.taken else NotApplied()


GET = ScriptCall("desk.get", (), {}, into="files")
FETCH = producer(GET, publish("mail:1", payload={"file": ref("files.0")}))
PUT = ScriptCall("desk.put", (), {"file": ref("prepared.data.file")})
RESERVE = {
    "reservations": [{"topic": IN, "ids": ref("pending.*.id")}],
    "data": {"file": ref("pending.0.payload.file")},
}
PREPARE = (PEEK_ONE, When("pending", (Return(RESERVE),), (Return(NOTHING),)))


async def played(stage: Stage, desk: Desk, script: Any, **options: Any) -> Play:
    play = await opened(stage, connectors=(desk,), **options)
    await play.deploy(script)
    return play


def blobs(play: Play) -> list[tuple[Any, ...]]:
    found = play.store.backend.connection.execute("select digest, size, status from blob")  # type: ignore[attr-defined]
    return list(found)


def whole(name: str = "flow") -> Any:
    return flow({CONSUMER: consumer(PREPARE, (PUT,), None)}, {"fetch": FETCH}, name=name)


async def fetched(stage: Stage, desk: Desk, **options: Any) -> Play:
    """Let a producer publish a file that a consumer passes on."""
    play = await played(stage, desk, whole(), **options)
    await play.host.run_now("flow", "fetch")
    await play.drain()
    return play


async def test_bytes_travel_by_their_handle(duly_world: Stage) -> None:
    """K15: a script passes a handle from one tool to another; its bytes are in no JSON."""
    desk = Desk()
    play = await fetched(duly_world, desk)
    assert list(desk.taken.values()) == [PDF]
    digest = sha256(PDF).hexdigest()
    handle = {"blob": digest, "name": "0_a.pdf", "type": "text/x", "size": len(PDF)}
    (event,) = await play.events()
    assert decode(event.body) == {"file": handle}
    row = await play.row()
    assert (row.status, decode(row.args)) == (Row.APPLIED, {"file": handle})
    assert blobs(play) == [(digest, len(PDF), "kept")]
    assert (await play.host.verify()).problems == ()


async def _use(stage: Stage, handle: Any, *, policy: Policy | None = None) -> Play:
    """Let a second workflow use a handle that was not given to it."""
    play = await fetched(stage, Desk(), **({"policy": policy} if policy else {}))
    ask = ScriptCall("desk.size", (), {"file": handle}, into="size")
    await play.deploy(flow({}, {"steal": producer(ask)}, name="other"))
    await play.host.run_now("other", "steal")
    await play.drain()
    return play


OWN = {"blob": sha256(PDF).hexdigest(), "name": "a", "type": "text/x", "size": len(PDF)}


@pytest.mark.parametrize(
    "handle",
    [OWN, {**OWN, "blob": "0" * 64}],
    ids=["of another workflow", "made up"],
)
async def test_a_handle_that_was_not_given_names_nothing(duly_world: Stage, handle: Any) -> None:
    """K15: another workflow's blob and one that never was are refused in the same words."""
    play = await _use(duly_world, handle)
    run = await play.run("other")
    assert run.status == Status.FAILED_LOGIC
    assert "desk.size.file names no blob of this workflow." in str(run.error)


WRONG: dict[str, Any] = {
    "a text": "x",
    "a field more": {**OWN, "path": "/etc/passwd"},
    "a field less": {each: OWN[each] for each in ("blob", "name", "size")},
    "a digest in capitals": {**OWN, "blob": "A" * 64},
    "a name that is a path": {**OWN, "name": "../a"},
    "a type of two lines": {**OWN, "type": "text/x\nx: y"},
    "a size that is none": {**OWN, "size": -1},
    "a size that is true": {**OWN, "size": True},
    "a digest that is a number": {**OWN, "blob": 1},
}


@pytest.mark.parametrize("what", WRONG)
async def test_what_is_no_handle_is_refused(duly_world: Stage, what: str) -> None:
    """K15: a handle has its four fields and no other."""
    play = await _use(duly_world, WRONG[what])
    run = await play.run("other")
    assert run.status == Status.FAILED_LOGIC
    assert "desk.size.file" in str(run.error)


async def test_a_handle_with_another_size_names_nothing(duly_world: Stage) -> None:
    """K15, L11: what a person is shown of a blob is what it is."""
    larger = {**OWN, "size": len(PDF) + 1}
    script = flow({}, {"fetch": producer(GET, ScriptCall("desk.size", (), {"file": larger}))})
    play = await played(duly_world, Desk(), script)
    await play.host.run_now("flow", "fetch")
    await play.drain()
    assert "names no blob" in str((await play.run()).error)


async def test_a_mutation_with_a_foreign_blob_is_never_written_down(duly_world: Stage) -> None:
    """K15, L2: it is refused before there is a row in the ledger."""
    stolen = ScriptCall("desk.put", (), {"file": OWN, "more": [OWN]})
    desk = Desk()
    play = await fetched(duly_world, desk)
    before = len(await play.rows())
    await play.deploy(flow({CONSUMER: consumer(mutate=(stolen,), then=None)}, name="other"))
    await play.publish("a", name="other")
    await play.drain()
    assert (len(await play.rows()), len(desk.taken)) == (before, 1)


LIMITS = {
    "a blob": (Limits(blob_bytes=len(PDF) - 1), "at most 512,004 bytes"),
    "a workflow": (Limits(blobs_bytes=len(PDF) - 1), "more than 512004 bytes"),
    "a run": (Limits(blobs_per_run=1), "A run gets at most 1 blobs"),
}


@pytest.mark.parametrize("what", LIMITS)
async def test_one_past_a_limit_is_refused(duly_world: Stage, what: str) -> None:
    """K15, N: one blob, all blobs of a workflow, and the blobs of a run."""
    limits, said = LIMITS[what]
    count = 2 if what == "a run" else 1
    get = ScriptCall("desk.get", (), {"count": count}, into="files")
    script = flow({}, {"fetch": producer(get)})
    play = await played(duly_world, Desk(), script, policy=Policy(limits=limits))
    await play.host.run_now("flow", "fetch")
    await play.drain()
    assert said in str((await play.run()).error)


async def test_as_much_as_a_limit_is_taken(duly_world: Stage) -> None:
    """K15, N: the limit itself is fine."""
    limits = Limits(blob_bytes=len(PDF), blobs_bytes=len(PDF), blobs_per_run=1)
    desk = Desk()
    await fetched(duly_world, desk, policy=Policy(limits=limits))
    assert len(desk.taken) == 1


@pytest.mark.parametrize("verb", ["begin_blob", "keep_blob_part", "finish_blob"])
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_crash_while_a_blob_is_written(duly_world: Stage, verb: str, moment: str) -> None:
    """K15, R7: nothing sees a part of one; the next run writes it, and it is passed on once."""
    desk = Desk()
    play = await played(duly_world, desk, whole())
    await play.host.run_now("flow", "fetch")
    await play.crash_during(**{verb: moment})
    await play.drain()
    await play.pass_by(60)
    assert list(desk.taken.values()) == [PDF]
    assert [row[2] for row in blobs(play)] == ["kept"]


async def test_a_blob_that_nothing_uses_is_removed_after_its_days(duly_world: Stage) -> None:
    """K15, H5: then its digest and size are left, and the row of the ledger says what was sent."""
    play = await fetched(duly_world, Desk())
    digest = sha256(PDF).hexdigest()
    await play.pass_by(29.5 * DAY_S)
    assert blobs(play) == [(digest, len(PDF), "kept")]
    await play.pass_by(2 * DAY_S)
    assert blobs(play) == [(digest, len(PDF), "removed")]
    connection = play.store.backend.connection  # type: ignore[attr-defined]
    assert list(connection.execute("select count(*) from blob_part")) == [(0,)]
    assert digest in (await play.row()).args


async def test_a_call_that_waits_for_a_person_keeps_its_blob(duly_world: Stage) -> None:
    """K15, A4: approved after half a year, exactly the bytes that were proposed are sent."""
    desk = Desk()
    play = await fetched(duly_world, desk, policy=Policy(approvals={"*": "always"}))
    await play.pass_by(180 * DAY_S)
    assert ([row[2] for row in blobs(play)], desk.taken) == (["kept"], {})
    (waiting,) = await play.host.approvals()
    await play.host.approve(waiting.mutation, waiting.hash)
    await play.drain()
    assert list(desk.taken.values()) == [PDF]
    await play.pass_by(40 * DAY_S)
    assert [row[2] for row in blobs(play)] == ["removed"]


async def test_a_state_that_names_a_blob_keeps_it(duly_world: Stage) -> None:
    """K15: what a handler remembers can still be used."""
    script = flow(
        {}, {"fetch": producer(GET, Let("state", {"file": ref("files.0")}), Return(ref("state")))}
    )
    play = await played(duly_world, Desk(), script)
    await play.host.run_now("flow", "fetch")
    await play.drain()
    await play.pass_by(100 * DAY_S)
    assert [row[2] for row in blobs(play)] == ["kept"]


async def test_a_blob_that_is_damaged_in_the_store_is_not_used(duly_world: Stage) -> None:
    """K15: the bytes have the digest they are asked for."""
    desk = Desk()
    play = await fetched(duly_world, desk, policy=Policy(approvals={"*": "always"}))
    play.tamper("update blob_part set body = zeroblob(length(body)) where number = 1")
    (waiting,) = await play.host.approvals()
    await play.host.approve(waiting.mutation, waiting.hash)
    await play.drain()
    assert (desk.taken, (await play.row()).status) == ({}, Row.FAILED)


def test_a_person_cannot_write_a_blob() -> None:
    """K15, A3: a parameter that is a blob cannot be editable."""

    class Wrong(Connector):
        name = "wrong"

        @mutation(editable=("file",))
        async def put(self, call: Call, file: Blob) -> None:
            """Take a file."""

    with pytest.raises(Invalid, match="cannot write the blob"):
        Registry([Wrong()])
