"""Long walks through the store: whatever people, the outside and the host do, in any order.

Law: after every verb the store is sound, and when everybody has left, every event that a consumer
is there for ends, without an endless loop and without anybody being asked to look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from duly.errors import IllegalTransition, NotFound, RequestRefused, Stale
from duly.rules.lifecycle import FINAL, UNKNOWN
from duly.rules.word import Act, Answer, Kind, Phase, Progress, Status, Verdict
from duly.rules.word import MutationStatus as Row
from duly.store import Store
from duly.store.record import Commit, Reserve
from tests.store.memory import Memory, MemoryBackend
from tests.store.scene import (
    WORDS,
    WORKFLOW,
    Scene,
    Word,
    decide,
    deployed,
    deployment,
    publication,
)

WALKS = 100
STEPS_MAX = 80
TURNS_MAX = 40
TOPICS_OF = {"file": ("mail", "letter"), "tell": ("row",)}
MEANT = (IllegalTransition, NotFound, RequestRefused, Stale)
# What the open run was shown, and who has it now.
PINNED = (
    "select r.id, v.seq, e.reserved_by from run r join reservation v on v.run_id = r.id"
    " join event e on e.workflow_id = r.workflow_id and e.seq = v.seq where r.open = 1"
)
Choose = Callable[[int], int]


@dataclass
class Walker(Scene):
    """A scene that goes on after its run has ended, with whichever run is open then."""

    choose: Choose = lambda count: 0
    row_id: str = ""
    version: int = 1

    @property
    def mutation_id(self) -> str:
        """The id of the row the open run holds or would make."""
        return self.row_id

    async def look(self) -> bool:
        """Find the open run, as a host that has just started would."""
        runs = [run for run in await self.store.list_runs(WORKFLOW, limit=1000) if run.open]
        assert len(runs) <= 1, runs
        if not runs:
            return False
        (run,) = runs
        self.run_id, self.run, self.counts, self.handler = (
            run.id,
            run.state,
            run.counts,
            run.handler,
        )
        rows = await self.store.list_mutations(WORKFLOW, limit=1000)
        held = [row.id for row in rows if row.held_by == run.id]
        self.row_id = held[0] if held else f"mutation of {run.id}"
        return True

    def pick(self, options: list[Any]) -> Any:
        """Take one of several."""
        return options[self.choose(len(options))]

    async def reserve(self, *, most: int) -> None:
        """Prepare with some of what is pending."""
        offered = [
            Reserve(event.topic, event.message_id, event.content)
            for topic in TOPICS_OF[self.handler]
            for event in await self.store.peek(WORKFLOW, topic, limit=most, bytes_max=9**9)
        ]
        await self.prepare(tuple(offered))


async def publish(walker: Walker) -> None:
    topic = walker.pick(["mail", "letter"])
    await walker.publish(topic, f"{topic}:{walker.choose(4)}", walker.pick(["first", "second"]))


async def skip(walker: Walker) -> None:
    event = walker.pick(list(await walker.store.list_events(WORKFLOW)))
    await walker.store.skip_event(
        WORKFLOW,
        event.topic,
        event.message_id,
        successor_id=walker.new_id("run"),
        action=walker.action(),
        now=walker.tick(),
    )


async def wish(walker: Walker) -> None:
    is_paused = walker.choose(4) == 0  # a pause stops nearly everything, so it is rare
    action, now = walker.action(), walker.tick()
    await walker.store.set_paused(WORKFLOW, is_paused=is_paused, action=action, now=now)


async def deploy(walker: Walker) -> None:
    old, new = f"{walker.version}.0", f"{walker.version + 1}.0"
    successor_id, action = walker.new_id("run"), walker.action()
    newer = deployment(new, old)
    await walker.store.deploy(newer, successor_id=successor_id, action=action, now=walker.tick())
    walker.version += 1


async def abandon(walker: Walker) -> None:
    await walker.store.abandon_run(walker.run_id, action=walker.action(), now=walker.tick())


async def retry(walker: Walker) -> None:
    successor_id, action = walker.new_id("run"), walker.action()
    await walker.store.retry_run(walker.run_id, successor_id, action=action, now=walker.tick())


async def start(walker: Walker) -> None:
    due = await walker.store.due(walker.now)
    names = [each.name for each in (*due.consumers, *due.producers)]
    if names:
        await walker.start(walker.pick(names))


async def commit(walker: Walker) -> None:
    topic = walker.pick(["row", "mail", "told"])
    new = publication(topic, f"{topic}:{walker.choose(4)}", walker.pick(["first", "second"]))
    next_run_at = walker.now + 300_000 if walker.run.kind is Kind.PRODUCER else None
    await walker.commit(Commit((new,), next_run_at=next_run_at))


def enabled(walker: Walker) -> list[Word]:
    """List the words the rules allow for the open run."""
    words: list[Word] = []
    for word in WORDS:
        try:
            decide(walker.run, word)
        except (IllegalTransition, RequestRefused):
            continue
        words.append(word)
    return words


async def go_on(walker: Walker) -> None:
    words = enabled(walker)
    steps = [word for word in words if isinstance(word, Progress | Answer)]
    if not words:
        return
    # Something goes wrong at every third word: a walk that fails at once does not get far.
    word = walker.pick(steps if steps and walker.choose(3) else words)
    if word is Progress.PREPARE_DONE:
        await walker.reserve(most=walker.choose(3) + 1)
    else:
        await walker.go(word)


Doing = Callable[[Walker], Awaitable[None]]
IDLE: list[Doing] = [*[start] * 4, publish, publish, skip, wish, deploy]
BUSY: list[Doing] = [*[go_on] * 12, commit, commit, publish, skip, wish, deploy, abandon, retry]


async def step(walker: Walker) -> None:
    """Do one thing; what the rules refuse is refused, and anything else is a bug."""
    act = walker.pick(BUSY if await walker.look() else IDLE)
    try:
        await act(walker)
    except MEANT:
        return


def check(ask: Callable[[str], Any]) -> None:
    """See that the store is sound, whatever was done to it."""
    open_runs = {run_id for (run_id,) in ask("select id from run where open = 1")}
    assert len(open_runs) <= 1
    for seq, run_id in ask("select seq, reserved_by from event where status = 'reserved'"):
        assert run_id in open_runs, f"event {seq} is reserved by {run_id}, which is over (R6)"
    for run_id, seq, holder in ask(PINNED):
        assert run_id == holder, f"event {seq}, pinned by {run_id}, belongs to {holder} (R6)"
    for row_id, status, run_id, due_at in ask("select id, status, held_by, due_at from mutation"):
        assert status in FINAL or run_id in open_runs, f"{row_id}, {status}, is left (L8)"
        assert (status == Row.NEEDS_RECONCILE) == (due_at is not None), f"{row_id}, {status} (L5)"
    for name, changed, seen in ask("select name, changed, seen from handler"):
        ((counter,),) = ask("select counter from workflow")
        assert max(changed, seen) <= counter, f"{name} is ahead of the counter (S3)"
    lost = ask("select seq from event where content not in (select content from payload)")
    assert lost.fetchall() == [], "an event has no content (T5)"


async def end_open_run(walker: Walker) -> None:
    """Bring the open run to an end, as a person would in the end."""
    if walker.run.row in UNKNOWN:
        way: dict[tuple[Status, Row], Word] = {
            (Status.ACTIVE, Row.IN_FLIGHT): Answer.APPLIED,
            (Status.PAUSED_RECONCILIATION, Row.IN_FLIGHT): Answer.APPLIED,
            (Status.PAUSED_RECONCILIATION, Row.NEEDS_RECONCILE): Verdict.APPLIED,
            (Status.PAUSED_RECONCILIATION, Row.INDETERMINATE): Act.SKIP,
        }
        assert walker.run.row is not None
        await walker.go(way[walker.run.status, walker.run.row])
    elif walker.run.status is Status.ACTIVE and walker.run.phase is Phase.EMITTING:
        await walker.commit()
    else:
        await abandon(walker)


async def come_to_rest(walker: Walker) -> None:
    """Resume, and let the host do what it finds due until there is nothing left."""
    action, now = walker.action(), walker.tick()
    await walker.store.set_paused(WORKFLOW, is_paused=False, action=action, now=now)
    for _ in range(TURNS_MAX):
        walker.now += 60_000
        if await walker.look():
            await end_open_run(walker)
            continue
        consumers = (await walker.store.due(walker.now)).consumers
        if not consumers:
            return
        await walker.start(consumers[0].name)
        await walker.reserve(most=1)
        await walker.commit()
    raise AssertionError("the consumers find something due for ever (S3)")


async def walk(choose: Choose) -> None:
    memory = Memory()
    await walk_over(choose, Store(MemoryBackend(memory)), memory.connection.execute)


async def walk_over(choose: Choose, store: Store, ask: Callable[[str], Any]) -> None:
    """Walk over a store, wherever it is kept, and check its rows after each step."""
    scene = await deployed(store)
    walker = Walker(store, scene.fence, scene.now, choose=choose)
    for _ in range(STEPS_MAX):
        await step(walker)
        check(ask)
    await come_to_rest(walker)
    check(ask)
    stranded = [
        event.message_id
        for event in await store.list_events(WORKFLOW, limit=1000)
        if event.status in ("pending", "reserved") and event.topic != "told"
    ]
    assert stranded == []
    await store.close()


@pytest.mark.parametrize("seed", range(WALKS))
def test_no_walk_strands_an_event_or_leaves_the_store_unsound(seed: int) -> None:
    """S3, L1, R9: any order of acts, answers, failures, crashes and deploys."""
    asyncio.run(walk(Random(seed).randrange))
