"""A stage for the store's tests: one workflow deployed, and a run of it in any open state.

Law: a scene is made by verbs alone, so whatever it shows the product can reach. `PATHS` is found by
walking the rules: every open state a run can be in, and the shortest way there. A way is a tuple of
words: a step, a failure, an answer, a verdict, an act, or one of `Then`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from duly.errors import IllegalTransition, RequestRefused
from duly.rules import chain, lifecycle
from duly.rules.event import Publication, parse_publication
from duly.rules.ledger import idempotency_key
from duly.rules.lifecycle import Change, Counts, Run
from duly.rules.turn import Choice, HandlerOutlook, Work
from duly.rules.word import Act, Answer, Failure, Kind, Phase, Progress, Status, Verdict, Waits
from duly.rules.word import MutationStatus as Row
from duly.store import Store
from duly.store.base import Durability, Fence
from duly.store.ledger import find_key
from duly.store.record import (
    Action,
    Call,
    Commit,
    HandlerSpec,
    Origin,
    Pinned,
    Recorded,
    Reserve,
    Stop,
    TopicSpec,
    VersionSpec,
)
from duly.store.turn import Choose
from duly.store.workflow import Deployment
from tests.store.exam import Arrange, World

WORKFLOW = "workflow_1"
NAME = "mail"
HOST = "host_1"
NOON = 1_000_000
CAPABILITY = "sheets.append"
CONNECTOR = "gmail"
WAITS_ON = {Waits.APPROVAL: None, Waits.CONNECTION: CONNECTOR, Waits.GRANT: CAPABILITY}
INTERVAL = '{"interval":"5m"}'

POLL = HandlerSpec("poll", Kind.PRODUCER, 0, INTERVAL)
FILE = HandlerSpec("file", Kind.CONSUMER, 1)
TELL = HandlerSpec("tell", Kind.CONSUMER, 2)
HANDLERS = (POLL, FILE, TELL)
TOPICS = (
    TopicSpec("mail", "file", ingress=True),
    TopicSpec("letter", "file", ingress=True),
    TopicSpec("row", "tell"),
    TopicSpec("told"),
)
INPUTS = (Reserve("mail", "mail:1"), Reserve("letter", "letter:1"))
KEY = idempotency_key("inputs", 0)  # of the call, as long as it is not refused


class Then(StrEnum):
    """What else can become of a run."""

    RESEND = "resend"
    DIE = "die"
    FOLLOW = "follow"


Word = Progress | Failure | Answer | Verdict | Act | Then
Way = tuple[Word, ...]

# Ends, and what only a run that reserved nothing does, are not on the way to an open state.
WORDS: Final[Way] = (
    *(word for word in Progress if word not in (Progress.COMMIT, Progress.NOTHING_RESERVED)),
    *Failure,
    *Answer,
    *Verdict,
    Act.APPROVE,
    Act.REJECT,
    Act.RECONNECT,
    Act.GRANT,
    Act.TRY_AGAIN,
    Act.DID_NOT_HAPPEN,
    Act.HAPPENED,
    Act.SKIP,
    *Then,
)
# What is between a phase and the commit of a run that makes no call.
STEPS_LEFT: Final[Mapping[Phase, tuple[Progress, ...]]] = {
    Phase.PREPARED: (Progress.NOTHING_RESERVED,),
    Phase.MUTATING: (Progress.NO_CALL, Progress.BEGIN_NEXT),
    Phase.MUTATED: (Progress.BEGIN_NEXT,),
}
LAST_CRASH: Final = Counts(crash=lifecycle.CRASHES_MAX)


def decide(run: Run, word: Word) -> Change:
    """Ask the rules what a word makes of a run."""
    match word:
        case Progress():
            return Change(lifecycle.advance(run, word))
        case Failure():
            return Change(lifecycle.fail(run, word))
        case Answer():
            return Change(lifecycle.answer(run, word))
        case Verdict():
            return Change(lifecycle.judge(run, word))
        case Act():
            return lifecycle.act(run, word)
        case Then.RESEND:
            return Change(lifecycle.resend(run))
        case Then.DIE:
            return lifecycle.crash(run, LAST_CRASH)
        case Then.FOLLOW:
            return lifecycle.succeed(run)


def find_paths(start: Run) -> dict[Run, Way]:
    """Walk the rules from a new run to every open state, by the shortest way to each."""
    paths: dict[Run, Way] = {start: ()}
    waiting = deque([start])
    while waiting:
        run = waiting.popleft()
        for word in WORDS:
            try:
                change = decide(run, word)
            except (IllegalTransition, RequestRefused):
                continue
            reached = change.successor or change.run
            if reached not in paths:
                paths[reached] = (*paths[run], word)
                waiting.append(reached)
    return paths


PATHS: Final[Mapping[Run, Way]] = {
    **find_paths(lifecycle.PRODUCER_START),
    **find_paths(lifecycle.CONSUMER_START),
}


def reach(*words: Word) -> Run:
    """Answer the state a consumer's run is in after these words."""
    run = lifecycle.CONSUMER_START
    for word in words:
        change = decide(run, word)
        run = change.successor or change.run
    return run


PREPARING: Final = reach()
PREPARED: Final = reach(Progress.PREPARE_DONE)
MUTATING: Final = reach(Progress.PREPARE_DONE, Progress.BEGIN_MUTATE)
NO_CALL: Final = reach(*PATHS[MUTATING], Progress.NO_CALL)
PROPOSED: Final = reach(*PATHS[MUTATING], Progress.ASK_APPROVAL)
REJECTED: Final = reach(*PATHS[PROPOSED], Act.REJECT)
IN_FLIGHT: Final = reach(*PATHS[MUTATING], Progress.SEND)
APPLIED: Final = reach(*PATHS[IN_FLIGHT], Answer.APPLIED)
EMITTING: Final = reach(*PATHS[APPLIED], Progress.BEGIN_NEXT)
REFUSED: Final = reach(*PATHS[IN_FLIGHT], Answer.REFUSED)
NOT_SENT: Final = reach(*PATHS[IN_FLIGHT], Answer.NOT_SENT)
UNSIGNED: Final = reach(*PATHS[IN_FLIGHT], Answer.AUTH)
UNKNOWN: Final = reach(*PATHS[IN_FLIGHT], Answer.UNKNOWN)
INDETERMINATE: Final = reach(*PATHS[IN_FLIGHT], Verdict.GIVEN_UP)
FAILED: Final = reach(*PATHS[MUTATING], Failure.LOGIC)
LATER: Final = reach(*PATHS[MUTATING], Failure.TRANSIENT)
UNTOLD: Final = reach(*PATHS[EMITTING], Failure.LOGIC)


def title_of(run: Run) -> str:
    """Name a state for a test's id."""
    words = (run.kind, run.phase, run.status, run.row, run.outcome, run.waits)
    return " ".join(str(word) for word in words if word)


def starting(handler: str) -> Choose:
    """Choose to start this handler, whatever is due."""
    outlook = HandlerOutlook(handler, Kind.CONSUMER, 0, None, None, 0, 0, 0, 0, None)
    return lambda _: Choice(Work.START, outlook)


async def key_of(store: Store, inputs: str = "inputs") -> str:
    """Return the key that a call for these inputs would be sent with."""
    key = await store.backend.transact(lambda tx: find_key(tx, inputs, 0), Durability.READ)
    return key.text


def publication(topic: str, message_id: str, text: str = "first") -> Publication:
    """Make an event; another text is another content."""
    raw = {"message_id": message_id, "title": f"{message_id}, {text}", "payload": {"text": text}}
    return parse_publication(topic, raw)


def version(number: str, origin: Origin = Origin.DEPLOY) -> VersionSpec:
    """Make a version to deploy."""
    return VersionSpec(number, "python", f"source {number}", "hash", "{}", "[]", "me", origin)


def deployment(
    number: str = "1.0",
    replaces: str | None = None,
    *,
    handlers: tuple[HandlerSpec, ...] = HANDLERS,
    topics: tuple[TopicSpec, ...] = TOPICS,
    origin: Origin = Origin.DEPLOY,
    workflow_id: str = WORKFLOW,
    name: str = NAME,
) -> Deployment:
    """Make a deployment of the stage's workflow."""
    return Deployment(workflow_id, name, replaces, version(number, origin), handlers, topics)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[World]:
    """Open a world in a folder and close it in the end."""
    world = await World(folder / "world").open()
    try:
        yield world
    finally:
        await world.close()


@dataclass
class Scene:
    """A deployed workflow, its fence, and the run a test is about, as the rules see it."""

    store: Store
    fence: Fence
    now: int = NOON
    run: Run = lifecycle.CONSUMER_START
    run_id: str = "run_00"
    handler: str = "file"
    counts: Counts = field(default_factory=Counts)
    made: int = 0
    due_at: int | None = None  # of its row, when the outside is to be asked

    def tick(self) -> int:
        """Let a millisecond pass."""
        self.now += 1
        return self.now

    def new_id(self, kind: str) -> str:
        """Make an id that sorts behind all earlier ones."""
        self.made += 1
        return f"{kind}_{self.made:02}"

    def action(self, verb: str = "act") -> Action:
        """Make the record of a person's act."""
        return Action(self.new_id("action"), "me", verb)

    @property
    def mutation_id(self) -> str:
        """The id of the one mutation of this stage."""
        return "mutation_1"

    def call(self, **changes: Any) -> Call:
        """Make the call of the run's mutation."""
        call = Call(self.mutation_id, CAPABILITY, '{"a":1}', "Add a row", "inputs", "shown")
        return replace(call, **changes)

    def stop(self, after: Run) -> Stop:
        """Make what a stopped run keeps, by what it waits for."""
        self.counts = chain.counted(self.counts, after)
        due_at = self.now + 10_000 if after.status is Status.PAUSED_TRANSIENT else None
        waits_on = WAITS_ON[after.waits] if after.waits else None
        return Stop(self.counts, f"stopped: {after.status}", due_at, waits_on)

    async def publish(self, topic: str, message_id: str, text: str = "first") -> None:
        """Write an event from outside."""
        new = publication(topic, message_id, text)
        action = publishing(self.tick())
        await self.store.publish(WORKFLOW, new, action=action, now=self.now)

    async def start(self, handler: str = "file") -> None:
        """Open a run of a handler."""
        self.run_id, self.handler = self.new_id("run"), handler
        kind = next(each.kind for each in HANDLERS if each.name == handler)
        self.run, self.counts = lifecycle.START[kind], Counts()
        await self.store.take_turn(self.fence, self.run_id, starting(handler), now=self.tick())

    async def prepare(self, reserves: tuple[Reserve, ...] = INPUTS) -> None:
        """Pin a prepare result with these events."""
        after = lifecycle.advance(self.run, Progress.PREPARE_DONE)
        pinned = Pinned('{"data":{}}', self.now, "seed", "2026-05-01T09:00:00Z")
        await self.store.prepare_run(
            self.fence, self.run_id, self.run, after, pinned, reserves, now=self.tick()
        )
        self.run = after

    async def follow(self, change: Change, counts: Counts) -> None:
        """Close the run and go on with its successor."""
        successor_id = self.new_id("run")
        await self.store.succeed_run(
            self.fence, self.run_id, self.run, change, successor_id, counts, now=self.tick()
        )
        assert change.successor is not None
        self.run_id, self.run, self.counts = successor_id, change.successor, counts

    async def go(self, *words: Word) -> Scene:
        """Take a way, each word by its verb."""
        for word in words:
            if word is Progress.PREPARE_DONE:
                await self.prepare()
                continue
            change = decide(self.run, word)
            if change.successor is not None:
                await self.follow(change, self.counts)
                continue
            await self._write(word, change.run)
            self.run = change.run
        return self

    async def commit(self, commit: Commit = Commit()) -> None:  # noqa: B008, it is frozen
        """End the run, with all the steps that are left decided at once."""
        before = self.run
        for step in STEPS_LEFT.get(before.phase, ()):
            before = lifecycle.advance(before, step)
        change = lifecycle.commit(before)
        is_producer = before.kind is Kind.PRODUCER
        verb = self.store.commit_producer if is_producer else self.store.commit_run
        await verb(self.fence, self.run_id, self.run, change, commit, now=self.tick())
        self.run = change.run

    async def _write(self, word: Word, after: Run) -> None:
        """Write a change of the same run by the verb the word belongs to."""
        here = (self.fence, self.run_id, self.run, after)
        now = self.tick()
        match word:
            case Progress.SEND:
                await self.store.send(*here, self.call(), now=now)
            case Progress.ASK_APPROVAL:
                await self.store.propose(*here, self.call(), now=now)
            case Progress():
                await self.store.move_run(*here, now=now)
            case Failure() | Then.DIE:
                await self.store.stop_run(*here, self.stop(after), now=now)
            case Answer() | Verdict():
                await self._record(after, is_refused=word in lifecycle.GROWS_GENERATION)
            case Then.RESEND:
                await self.store.send_again(*here, now=now)
            case Act.RECONNECT | Act.GRANT:
                await self._unblock(word, after)
            case Act():
                await self._decide(word, after)

    async def _record(self, after: Run, *, is_refused: bool) -> None:
        is_stopped = after.status is not Status.ACTIVE
        self.due_at = self.now + 5_000 if after.row is Row.NEEDS_RECONCILE else None
        recorded = Recorded(
            (await self.store.get_mutation(self.mutation_id)).attempt,
            result='{"id":7}' if after.row is Row.APPLIED else None,
            refused=is_refused,
            due_at=self.due_at,
        )
        await self.store.record(
            self.fence,
            self.run_id,
            self.run,
            after,
            recorded,
            stop=self.stop(after) if is_stopped else None,
            now=self.now,
        )

    async def _unblock(self, word: Word, after: Run) -> None:
        """Do what a person does, and then what the host makes of it (F4)."""
        if word is Act.GRANT:
            await self.store.grant(WORKFLOW, CAPABILITY, action=self.action(), now=self.now)
        else:
            await self.store.reconnect(CONNECTOR, action=self.action(), now=self.now)
        here = (self.fence, self.run_id, self.run, after)
        verb = self.store.send_again if after.row is Row.IN_FLIGHT else self.store.move_run
        await verb(*here, now=self.tick())

    async def _decide(self, word: Act, after: Run) -> None:
        action, now = self.action(word), self.now
        match word:
            case Act.APPROVE:
                await self.store.approve(
                    self.mutation_id, "shown", seal="sealed", action=action, now=now
                )
            case Act.REJECT:
                await self.store.reject(self.mutation_id, action=action, now=now)
            case _:
                is_stopped = after.status is Status.PAUSED_TRANSIENT
                await self.store.settle(
                    self.mutation_id,
                    word,
                    result='{"id":8}' if word is Act.HAPPENED else None,
                    stop=self.stop(after) if is_stopped else None,
                    due_at=now if word is Act.TRY_AGAIN else None,
                    action=action,
                    now=now,
                )


async def deployed(store: Store) -> Scene:
    """Deploy the workflow, take its lease and publish three inputs."""
    action = Action("action_00", "me", "deploy")
    await store.deploy(deployment(), successor_id="run_none", action=action, now=NOON)
    await store.join(HOST, now=NOON)
    fence = await store.claim(HOST, WORKFLOW)
    scene = Scene(store, fence)
    for topic, message_id in (("mail", "mail:1"), ("letter", "letter:1"), ("mail", "mail:2")):
        await scene.publish(topic, message_id)
    return scene


async def at(store: Store, run: Run) -> Scene:
    """Deploy the workflow and bring a run of it into a state."""
    scene = await deployed(store)
    await scene.start("poll" if run.kind is Kind.PRODUCER else "file")
    await scene.go(*PATHS[run])
    assert scene.run == run, scene.run
    return scene


async def statuses(store: Store) -> dict[str, str]:
    """Read the status of every event by its message id."""
    return {each.message_id: each.status for each in await store.list_events(WORKFLOW)}


def journal(world: World) -> list[str]:
    """Read the topics that were announced on the bus (B10)."""
    return [str(row[1]) for row in world.dump()["journal"]]


def publishing(number: int, by: str = "api") -> Action:
    """Make the record of a publish; by its id it comes before other acts."""
    return Action(f"action_00_publish_{number}", by, "publish")


def last_action(world: World) -> tuple[object, ...]:
    """Read who did what, in which workflow, to what, the last time (A6)."""
    _, _, by, verb, workflow_id, target, _ = world.dump()["action"][-1]
    return by, verb, workflow_id, target


def arranged(run: Run | None = None) -> Arrange:
    """Arrange a world with the workflow deployed, and a run of it in a state if one is named."""

    async def arrange(world: World) -> None:
        scene = await (deployed(world.store) if run is None else at(world.store, run))
        world.fence, world.kept["scene"] = scene.fence, scene

    return arrange


def reached(*words: Word) -> Arrange:
    """Go on from the arranged state; the call is still decided on that one."""

    async def broken(world: World) -> None:
        await on(world).go(*words)

    return broken


async def pause(world: World) -> None:
    """Pause the workflow; a run that this drops ends."""
    scene = on(world)
    action = Action("action_pause", "me", "pause")
    await scene.store.set_paused(WORKFLOW, is_paused=True, action=action, now=scene.tick())


async def abandon(world: World) -> None:
    """End the run by a person's act."""
    scene = on(world)
    action = Action("action_abandon", "me", "abandon")
    await scene.store.abandon_run(scene.run_id, action=action, now=scene.tick())


def on(world: World) -> Scene:
    """Answer the scene as it was arranged, over the world's own store: a call can be repeated."""
    arranged: Scene = world.kept["scene"]
    return replace(arranged, store=world.store, fence=world.fence)
