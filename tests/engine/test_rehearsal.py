"""Rehearsed steps: the code of real runs, and no way to change anything; what real runs record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import pytest

import duly
from duly.config import Limits, Policy, WorkflowPolicy
from duly.connectors.blob import MemoryBlobs
from duly.engine import live as lives
from duly.engine import rehearsal
from duly.engine.live import Notes, Reads
from duly.engine.rehearsal import Attempt, MemoryTopics, ReadOnlyOutside, Rehearsal
from duly.errors import Invalid, NotFound
from duly.rules.event import EventStatus, Publication, parse_publication
from duly.rules.prepared import Prepared, Reservation
from duly.rules.redaction import Redactor
from duly.rules.value import decode
from duly.rules.word import Failure, Kind
from duly.store.people import GrantRow
from duly.store.recording import Past
from duly.testing import Fault, Stage
from tests.engine.stand import (
    APPEND,
    CONSUMER,
    IN,
    NAME,
    NOTHING,
    PEEK_ONE,
    PREPARE,
    PRODUCER,
    RESERVE,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
    statements,
)
from verification.moves import Call, Return, Throw, When

FIND = Call("sheet.find", (), {"query": "q"})
READING = (PEEK_ONE, FIND, When("pending", (Return(RESERVE),), (Return(NOTHING),)))
CANARY = "canary-Zx81!"


async def past(play: Play) -> tuple[Past, ...]:
    return await play.store.list_past(await play.workflow_id(), limit=20)


async def recorded(play: Play) -> list[Any]:
    """What the reads of the newest run that ended were asked and answered."""
    return [decode(each) for each in (await past(play))[0].reads]


FOUND = {"tool": "sheet.find", "args": {"query": "q"}, "answer": ["found"]}


# -- What a real run records --------------------------------------------------------------------


async def test_what_prepare_read_is_kept_with_full_arguments(duly_world: Stage) -> None:
    """F3, R1: the answers too, and not cut as the calls of a run are."""
    play = await opened(duly_world)
    query = "q" * 2 * lives.CALL_ARGS_CHARS
    find = Call("sheet.find", (), {"query": query})
    prepare = (PEEK_ONE, find, FIND, When("pending", (Return(RESERVE),), (Return(NOTHING),)))
    await play.deploy(flow({CONSUMER: consumer(prepare)}))
    await play.publish("a")
    await play.drain()
    asked = {"tool": "sheet.find", "args": {"query": query}, "answer": ["found"]}
    assert await recorded(play) == [{"reads": [asked, FOUND], "dropped": 0}]


async def test_recording_costs_no_transaction_of_its_own(duly_world: Stage) -> None:
    """S9, H3: what was read is written with what came of it, and nothing where nothing was."""
    play = await opened(duly_world)
    seen = []
    for name, prepare in (("without", PREPARE), ("with", READING)):
        await play.deploy(flow({CONSUMER: consumer(prepare)}, name=name))
        await play.publish("a", name=name)
        await play.drain()
        kinds = statements(play)
        await play.publish("b", name=name)
        await play.drain()
        seen.append(sorted(each for each in kinds if each != "read"))
        first, second = await play.store.list_past(await play.workflow_id(name))
        assert len(first.reads) == len(second.reads) == (1 if name == "with" else 0)
    assert seen[0] == seen[1]


async def test_a_run_that_took_nothing_records_nothing(duly_world: Stage) -> None:
    """F3: nobody will ask what it would have changed."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(READING)}))
    await play.drain()
    assert duly_world.calls.count("sheet.find") == 1
    here = {"workflow_id": await play.workflow_id(), "chain": (await play.run()).id}
    assert await play.desk.ask(lambda tx: tx.all("list_recordings", **here)) == []


@pytest.mark.parametrize("moment", [{"record": "after"}, {"commit_run": "before"}])
async def test_a_crash_loses_no_more_than_the_run(duly_world: Stage, moment: Any) -> None:
    """R5, F3: an heir goes on with what its predecessor prepared, recording and all."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(READING)}))
    await play.publish("a")
    await play.crash_during(**moment)
    await play.drain()
    assert [each.status for each in await play.runs()] == ["crashed", "committed"]
    assert await recorded(play) == [{"reads": [FOUND], "dropped": 0}]


async def test_an_approved_run_still_knows_what_it_read(duly_world: Stage) -> None:
    """A4, F3: also what mutate read, days later and in another process."""
    policy = Policy(
        approvals={"*": "always"}, workflows={NAME: WorkflowPolicy(mutate_reads="by_id")}
    )
    play = await opened(duly_world, policy=policy, connectors=(Archive(),))
    get = Call("archive.get", (), {"number": "7"})
    await play.deploy(flow({CONSUMER: consumer(READING, (get, APPEND))}))
    await play.publish("a")
    await play.drain()
    await play.restart(connectors=(Archive(),))
    row = await play.row()
    await play.host.approve(row.id, row.hash)
    await play.drain()
    got = {"tool": "archive.get", "args": {"number": "7"}, "answer": "document 7"}
    assert await recorded(play) == [
        {"reads": [FOUND], "dropped": 0},
        {"reads": [got], "dropped": 0},
    ]


async def test_a_second_attempt_leaves_no_trace_of_the_first(duly_world: Stage) -> None:
    """F2, F3: what counts is what the run that ended was told."""
    play = await opened(duly_world)
    plan(duly_world, Fault.NOT_SENT)
    twice = (FIND, *READING)
    await play.deploy(flow({CONSUMER: consumer(twice)}))
    await play.publish("a")
    await play.drain()
    assert await past(play) == ()
    await play.deploy(flow({CONSUMER: consumer(READING)}))
    await play.pass_by(60)
    assert (await play.run()).status == "committed"
    assert await recorded(play) == [{"reads": [FOUND], "dropped": 0}]


class Archive(duly.Connector):
    """A connector with a read by id, and one that lets a secret slip."""

    name = "archive"

    @duly.read(by_id=True)
    async def get(self, number: str) -> str:
        return f"document {number}"

    @duly.read
    async def slip(self, text: str) -> dict[str, Any]:
        token = self.secret("token")
        return {token: [f"Bearer {token}"]}


async def test_a_secret_never_reaches_a_recording(duly_world: Stage) -> None:
    """A5: neither what a connector answered, nor what a script wrote into its arguments."""
    play = await opened(duly_world, connectors=(Archive(),))
    await play.host.set_secret("archive", "token", CANARY)
    slip = Call("archive.slip", (), {"text": f"with {CANARY}"})
    prepare = (PEEK_ONE, slip, When("pending", (Return(RESERVE),), (Return(NOTHING),)))
    await play.deploy(flow({CONSUMER: consumer(prepare)}))
    await play.publish("a")
    await play.drain()
    (kept,) = (await past(play))[0].reads
    assert CANARY not in kept
    assert "[redacted]" in kept


@pytest.mark.parametrize(("over", "kept", "dropped"), [(0, 2, 0), (1, 0, 2)])
def test_what_a_step_read_is_kept_up_to_a_limit(over: int, kept: int, dropped: int) -> None:
    """N, F3: one byte past it nothing is kept, and all of it counted."""
    answer = '"é"'
    size_bytes = 2 * (len('{"a":1}') + len(answer.encode()))
    reads = Reads(limit_bytes=size_bytes - over)
    for _ in range(2):
        reads.keep(1, "a.b", {"a": 1}, answer)
    text = reads.text(Redactor())
    assert text is not None
    found: Any = decode(text)
    assert (len(found["reads"]), found["dropped"]) == (kept, dropped)


def test_nothing_read_is_nothing_written() -> None:
    """F3: no row, no byte."""
    assert Reads().text(Redactor()) is None


# -- Rehearsing ---------------------------------------------------------------------------------


def event(message_id: str, text: str = "first", topic: str = IN) -> Publication:
    return parse_publication(
        topic, {"message_id": message_id, "title": f"Event {message_id}", "payload": text}
    )


async def rehearse(
    play: Play, handler: str = CONSUMER, kind: Kind = Kind.CONSUMER, result: str | None = None
) -> tuple[Attempt, Rehearsal]:
    """Rehearse one run of the deployed workflow over one event."""
    parts = play.desk.parts
    row = await play.store.find_workflow(NAME)
    assert row is not None
    version = await play.store.get_version(row.id, str(row.active_version))
    source = duly.Source("python", version.source)
    loaded = await parts.sandbox.load(source, parts.outside.catalog)
    grants = await play.store.list_grants(row.id)
    glass = ReadOnlyOutside(parts.outside.catalog, parts.outside.read)
    stage = Rehearsal(parts.env, MemoryTopics(grants), parts.sandbox, glass, parts.policy)
    stage.store.publish(event("a"), play.now)
    live = rehearsal.take_up(
        loaded,
        handler,
        kind,
        Notes(parts.policy.limits, parts.outside.secrets),
        workflow_id=row.id,
        run_id="run_none",
        state_text=None,
    )
    if kind is Kind.PRODUCER:
        return await rehearsal.produce(stage, live), stage
    return await rehearsal.consume(stage, live, lambda _: result), stage


async def test_a_rehearsed_mutation_is_kept_and_sent_by_nobody(duly_world: Stage) -> None:
    """C8, A1: checked as a real one, with its arguments; the world has seen nothing."""
    play = await opened(duly_world)
    await play.deploy(flow())
    attempt, _ = await rehearse(play)
    assert attempt.wanted is not None
    assert (attempt.wanted.tool.name, attempt.wanted.args) == (TOOL, {"text": "first"})
    assert (attempt.is_told, [each.message_id for each in attempt.inputs]) == (False, ["a"])
    assert (duly_world.count(), play.sends(), await play.rows(), await play.runs()) == (
        0,
        0,
        [],
        [],
    )


def test_nothing_a_rehearsal_holds_can_change_anything() -> None:
    """L2, C8: no part of it has a verb of the store that writes, or a way to send."""
    assert {each.name for each in fields(Rehearsal)} == {
        "env",
        "store",
        "sandbox",
        "outside",
        "policy",
        "blobs",  # in memory
        "models",  # to ask, which is a read (M3)
    }
    for kind, verbs in (
        (ReadOnlyOutside, {"read"}),
        (MemoryTopics, BENCH),
        (MemoryBlobs, {"keep", "open", "put"}),
    ):
        named = {name for name, value in vars(kind).items() if callable(value)}
        assert {name for name in named if not name.startswith("_")} == verbs
    assert not {"change", "reconcile", "send", "commit_run", "prepare_run"} & BENCH


BENCH = {
    "peek",
    "get_by_ids",
    "list_grants",
    "count_sent",
    "count_first",
    "has_asked_model",
    "pending",
    "publish",
    "reserve",
    "consume",
}


async def test_next_is_rehearsed_with_a_given_result(duly_world: Stage) -> None:
    """C10, C11: what it publishes is told, with the result it was given."""
    play = await opened(duly_world)
    await play.deploy(flow())
    attempt, stage = await rehearse(play, result='{"row":7}')
    (told,) = attempt.told.publications
    assert decode(told.payload_text) == {"status": "applied", "result": {"row": 7}}
    assert (attempt.is_told, attempt.failed) == (True, None)
    stage.store.consume(attempt.inputs)
    assert stage.store.events[IN, "a"].status == EventStatus.CONSUMED


@pytest.mark.parametrize(
    ("said", "failure", "message"),
    [
        (consumer((Throw("no", line=3),)), Failure.LOGIC, "no"),
        (consumer((publish("x"),)), Failure.LOGIC, "the step prepare may not publish"),
        (consumer((Call(TOOL),)), Failure.LOGIC, "prepare may not change anything outside"),
        (consumer(mutate=(Call(TOOL, (), {"no": 1}),)), Failure.LOGIC, "no such argument"),
        (consumer((Return({"reservation": []}),)), Failure.LOGIC, "reservation is not known"),
        (
            consumer((Return({"reservations": [{"topic": IN, "ids": ["b"]}]}),)),
            Failure.LOGIC,
            "event b of topic in cannot be reserved",
        ),
        (
            consumer((Call("peek", (IN,), {"after": "b"}), Return(NOTHING))),
            Failure.LOGIC,
            "no event b",
        ),
        (consumer((Call("peek", ("out",)),)), Failure.LOGIC, "does not subscribe"),
    ],
)
async def test_a_rehearsed_step_fails_as_a_real_one(
    duly_world: Stage, said: Any, failure: Failure, message: str
) -> None:
    """C2, C5, F1: the sentence a run would have kept."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: said}))
    attempt, _ = await rehearse(play)
    assert attempt.failed is not None
    assert attempt.failed.failure is failure
    assert message in str(attempt.failed)
    await play.publish("a", payload="first")
    await play.drain()
    assert (await play.error())["message"] == str(attempt.failed)
    assert play.sends() == 0


def wish(*message_ids: str) -> Prepared:
    return Prepared((Reservation(IN, message_ids),))


async def test_the_bench_gives_all_or_nothing() -> None:
    """C5: an event that was taken before cannot be taken again, nor what is asked for with it."""
    bench = MemoryTopics()
    for each in "ab":
        bench.publish(event(each), 0)
    assert ids(bench.reserve(wish("a"), {})) == ["a"]
    with pytest.raises(Invalid, match="event a of topic in cannot be reserved: it is reserved"):
        bench.reserve(wish("b", "a"), {})
    assert ids(bench.pending(IN)) == ["b"]


async def test_a_rehearsed_producer_only_tells(duly_world: Stage) -> None:
    """P3: events and state, kept by nobody."""
    play = await opened(duly_world)
    await play.deploy(flow({}, {PRODUCER: producer(publish("x"), Return({"n": 1}))}, topics=(IN,)))
    attempt, _ = await rehearse(play, PRODUCER, Kind.PRODUCER)
    assert [each.message_id for each in attempt.told.publications] == ["x"]
    assert attempt.told.state_text == '{"n":1}'
    assert await play.events() == []


# -- The bench ----------------------------------------------------------------------------------


def ids(rows: Iterable[Any]) -> list[str]:
    return [each.message_id for each in rows]


async def test_the_bench_keeps_the_order_and_replaces_by_message_id() -> None:
    """T5, T6: a republish keeps its place; what is the same wakes nobody; what ended stays."""
    bench = MemoryTopics()
    for each in (event("a"), event("b"), event("a", "second"), event("b")):
        bench.publish(each, 0)
    rows = await bench.peek("w", IN, limit=10, bytes_max=1000)
    assert [(each.message_id, each.body) for each in rows] == [("a", '"second"'), ("b", '"first"')]
    assert (bench.counter, bench.changed) == (3, {IN: 3})
    bench.consume(bench.reserve(wish("a"), {}))
    bench.publish(event("a", "third"), 0)
    assert ids(await bench.peek("w", IN, limit=10, bytes_max=1000)) == ["b"]
    known = await bench.get_by_ids("w", IN, ("a", "z"), bytes_max=1000)
    assert [each.status for each in known] == ["consumed"]
    with pytest.raises(Invalid, match="fewer"):
        await bench.get_by_ids("w", IN, ("a",), bytes_max=1)


async def test_the_bench_peeks_within_both_limits_and_after() -> None:
    """T6: as the store does, the first always fits."""
    bench = MemoryTopics()
    for each in "abc":
        bench.publish(event(each), 0)
    assert ids(await bench.peek("w", IN, limit=2, bytes_max=1000)) == ["a", "b"]
    assert ids(await bench.peek("w", IN, limit=9, bytes_max=1)) == ["a"]
    first = next(iter(bench.events.values()))
    one_bytes = len(first.body.encode()) + len(first.title.encode())
    for more, found in ((-1, ["a"]), (0, ["a", "b"])):
        assert ids(await bench.peek("w", IN, limit=9, bytes_max=2 * one_bytes + more)) == found
    assert ids(await bench.peek("w", IN, limit=9, bytes_max=1000, after="a")) == ["b", "c"]
    with pytest.raises(NotFound, match="no event z"):
        await bench.peek("w", IN, limit=9, bytes_max=1000, after="z")


async def test_the_bench_counts_what_was_sent_and_what_would_have_been() -> None:
    """A1: a limit of a grant is met in a trial as it would be in earnest."""

    async def sent(workflow_id: str, tools: Iterable[str], *, since: int, besides: str = "") -> int:
        return 4

    bench = MemoryTopics((GrantRow("a.b", 9, "{}", "me", 0),), count=sent)
    bench.wanted["a.b"] += 1
    assert await bench.count_sent("w", iter(["a.b", "a.c"]), since=0) == 5
    assert await MemoryTopics().count_sent("w", ["a.b"], since=0) == 0


async def test_a_limit_on_calls_holds_in_a_rehearsal(duly_world: Stage) -> None:
    """N: one past it is a logic failure, as in a real run."""
    play = await opened(duly_world, policy=Policy(limits=Limits(calls_per_step=1)))
    await play.deploy(flow({CONSUMER: consumer((FIND, *READING))}))
    attempt, _ = await rehearse(play)
    assert "at most 1 calls" in str(attempt.failed)
    await play.deploy(flow({CONSUMER: consumer(READING)}))
    attempt, _ = await rehearse(play)
    assert attempt.failed is None
