"""S3 as a small world, walked exhaustively: no event is stranded and no loop is busy.

One consumer, one topic, three events. Everything that can happen happens in every order: events
are published, replaced and skipped, versions deployed, runs crash and are abandoned. A script's
`prepare` is a fixed function of what it sees, so the world knows whether it would accept what is
pending. *Stranded*: nothing is due, nothing will be, and `prepare` would accept. *Busy*: a circle
of steps the host takes by itself.

The rule has few ingredients. Each is taken away once, and the walk must notice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import pytest

from duly.rules import schedule

EVENTS = 3
CONTENTS = (0, 1)

Sight = tuple[tuple[int, int], ...]  # (id, content) of every pending event, oldest first
Prepare = Callable[[Sight, int], frozenset[int]]


class Event(NamedTuple):
    status: str = "absent"  # then pending, reserved, gone
    seq: int = 0
    content: int = 0


class Run(NamedTuple):
    stage: str  # begun, looked, prepared, stopped
    counter: int
    version: int
    sight: Sight = ()
    holds: frozenset[int] = frozenset()


class State(NamedTuple):
    events: tuple[Event, ...] = (Event(),) * EVENTS
    changed: int = 0
    seen: int = 0
    version: int = 0
    committed: int | None = None
    held_back: bool = False
    run: Run | None = None
    acts_left: int = 0


ALL_ACTS = frozenset({"publish", "replace", "reserve", "release", "skip", "deploy"})


@dataclass(frozen=True)
class Rules:
    """The ingredients of S3; the tests take one away at a time."""

    numbered: frozenset[str] = ALL_ACTS
    seen_at: str = "commit"
    holds_back: bool = True
    first_commit_counts: bool = True


@dataclass
class World:
    """Every state that can be reached, and what is wrong with the worst of them."""

    prepare: Prepare
    rules: Rules = Rules()
    feeds_itself: bool = False
    stranded: State | None = None
    host_steps: dict[State, list[State]] = field(default_factory=dict)

    def walk(self, acts: int) -> World:
        start = State(acts_left=acts)
        found, waiting = {start}, deque([start])
        while waiting:
            state = waiting.popleft()
            if self.stranded is None and self.is_stranded(state):
                self.stranded = state
            by_host = [ranked(after) for after in self.host(state)]
            self.host_steps[state] = by_host
            for after in (*by_host, *(ranked(after) for after in self.outside(state))):
                if after not in found:
                    found.add(after)
                    waiting.append(after)
        return self

    @property
    def is_busy(self) -> bool:
        try:
            TopologicalSorter(self.host_steps).prepare()
        except CycleError:
            return True
        return False

    # -- what is due ------------------------------------------------------------------------

    def is_due(self, state: State) -> bool:
        pending = [event.seq for event in state.events if event.status == "pending"]
        consumer = schedule.Consumer(
            changed=state.changed,
            seen=state.seen,
            committed_by_active_version=state.committed == state.version
            or not self.rules.first_commit_counts,
            oldest_pending_seq=min(pending, default=None),
            not_before_ms=1 if state.held_back else None,
        )
        return schedule.is_consumer_due(consumer, now_ms=0)

    def is_stranded(self, state: State) -> bool:
        if state.run is not None or state.held_back or self.is_due(state):
            return False
        return bool(self.prepare(sight(state), state.version))

    # -- what the host does by itself -------------------------------------------------------

    def host(self, state: State) -> Iterator[State]:
        run = state.run
        if run is None:
            if self.is_due(state):
                yield self.begin(state)
        elif run.stage == "begun":
            yield state._replace(run=run._replace(stage="looked", sight=sight(state)))
        elif run.stage == "looked":
            yield self.reserve(state, run)
        elif run.stage == "prepared":
            yield from self.commit(state, run)
        elif run.stage == "stopped":
            yield self.begin(self.release(state, run.holds))

    def begin(self, state: State) -> State:
        counter = top(state)
        seen = counter if self.rules.seen_at == "start" else state.seen
        return state._replace(seen=seen, run=Run("begun", counter, state.version))

    def reserve(self, state: State, run: Run) -> State:
        wanted = self.prepare(run.sight, run.version)
        now = dict(sight(state))
        if any(now.get(number) != dict(run.sight)[number] for number in wanted):
            return state._replace(run=run._replace(stage="begun"))  # C5: look again
        state = put(state, wanted, status="reserved")
        state = state._replace(run=run._replace(stage="prepared", holds=wanted))
        return self.touch(state, "reserve") if wanted else state

    def commit(self, state: State, run: Run) -> Iterator[State]:
        seen = run.counter if self.rules.seen_at == "commit" else state.seen
        done = put(state, run.holds, status="gone")
        done = done._replace(run=None, seen=seen, committed=run.version)
        yield done
        if self.feeds_itself:
            fed = done._replace(held_back=self.rules.holds_back and not run.holds)
            absent = [n for n, event in enumerate(done.events) if event.status == "absent"]
            for number in absent[:1]:
                yield self.publish(fed, number, 0)
            for number, content in sight(done):
                yield self.publish(fed, number, 1 - content)

    # -- what others do ---------------------------------------------------------------------

    def outside(self, state: State) -> Iterator[State]:
        if state.held_back:
            yield state._replace(held_back=False)  # the pause is over
        if not state.acts_left:
            return
        state, run = state._replace(acts_left=state.acts_left - 1), state.run
        for number, event in enumerate(state.events):
            if event.status in ("absent", "pending"):
                for content in CONTENTS:
                    if event.status == "absent" or content != event.content:
                        yield self.publish(state, number, content)
            if event.status == "pending":
                yield self.touch(put(state, {number}, status="gone"), "skip")
            if event.status == "reserved" and run is not None:  # U3: the run is abandoned
                skipped = put(state, {number}, status="gone")._replace(run=None)
                yield self.touch(self.release(skipped, run.holds - {number}), "skip")
        if state.version == 0:
            yield self.touch(state._replace(version=1), "deploy")
        if run is not None:
            yield state._replace(run=run._replace(stage="stopped"))  # a crash or a failure
            yield self.release(state._replace(run=None), run.holds)  # abandoned by a person

    def publish(self, state: State, number: int, content: int) -> State:
        if state.events[number].status == "pending":
            return self.touch(put(state, {number}, content=content), "replace")
        published = put(state, {number}, status="pending", content=content, seq=top(state) + 1)
        return self.touch(published, "publish")

    def release(self, state: State, holds: frozenset[int]) -> State:
        released = put(state, holds, status="pending")
        return self.touch(released, "release") if holds else released

    def touch(self, state: State, act: str) -> State:
        """Write the counter's next number as `changed` if the act takes one."""
        return state._replace(changed=top(state) + 1) if act in self.rules.numbered else state


def sight(state: State) -> Sight:
    pending = [(e.seq, n, e.content) for n, e in enumerate(state.events) if e.status == "pending"]
    return tuple((number, content) for _, number, content in sorted(pending))


def put(state: State, numbers: frozenset[int] | set[int], **fields: object) -> State:
    events = list(state.events)
    for number in numbers:
        events[number] = events[number]._replace(**fields)  # type: ignore[arg-type]
    return state._replace(events=tuple(events))


def top(state: State) -> int:
    counter = state.run.counter if state.run else 0
    return max(state.changed, state.seen, counter, *(event.seq for event in state.events))


def ranked(state: State) -> State:
    """Give numbers their rank instead, so that the world is finite: only their order matters."""
    live = [e.seq for e in state.events if e.status in ("pending", "reserved")]
    counter = state.run.counter if state.run else 0
    rank = {n: i for i, n in enumerate(sorted({0, state.changed, state.seen, counter, *live}))}
    events = tuple(
        event._replace(seq=rank[event.seq])
        if event.status in ("pending", "reserved")
        else Event(event.status)
        for event in state.events
    )
    run = state.run._replace(counter=rank[counter]) if state.run else None
    changed, seen = rank[state.changed], rank[state.seen]
    return state._replace(events=events, run=run, changed=changed, seen=seen)


# -- Scripts, from plain to awkward ---------------------------------------------------------


def oldest(sight: Sight, version: int) -> frozenset[int]:
    return frozenset(number for number, _ in sight[:1])


def picky(sight: Sight, version: int) -> frozenset[int]:
    return frozenset(number for number, content in sight if content == 1)


def picky_about_the_oldest(sight: Sight, version: int) -> frozenset[int]:
    return frozenset(number for number, content in sight[:1] if content == 1)


def pairs(sight: Sight, version: int) -> frozenset[int]:
    return frozenset(number for number, _ in sight) if len(sight) >= 2 else frozenset()


def only_when_alone(sight: Sight, version: int) -> frozenset[int]:
    return frozenset(number for number, _ in sight) if len(sight) == 1 else frozenset()


def only_since_version_one(sight: Sight, version: int) -> frozenset[int]:
    return frozenset(number for number, _ in sight) if version == 1 else frozenset()


def never(sight: Sight, version: int) -> frozenset[int]:
    return frozenset()


SCRIPTS: tuple[Prepare, ...] = (
    oldest,
    picky,
    picky_about_the_oldest,
    pairs,
    only_when_alone,
    only_since_version_one,
    never,
)


# Enough outside acts for every ingredient to matter; more only repeat the same stories.
ACTS = {False: 3, True: 1}


def walk(prepare: Prepare, rules: Rules, feeds_itself: bool) -> World:
    return World(prepare, rules, feeds_itself).walk(ACTS[feeds_itself])


@pytest.mark.parametrize("feeds_itself", [False, True])
@pytest.mark.parametrize("prepare", SCRIPTS)
def test_nothing_is_stranded_and_no_loop_is_busy(prepare: Prepare, feeds_itself: bool) -> None:
    """S3: whatever happens in whatever order, what a script would take is due, and rest is rest."""
    world = walk(prepare, Rules(), feeds_itself)
    assert world.stranded is None
    assert not world.is_busy


def without(act: str) -> Rules:
    return Rules(numbered=ALL_ACTS - {act})


@pytest.mark.parametrize(
    ("rules", "prepare"),
    [
        pytest.param(without("publish"), oldest, id="a publish takes no number"),
        pytest.param(without("replace"), picky, id="a replacement takes no number"),
        pytest.param(without("reserve"), oldest, id="a reservation takes no number"),
        pytest.param(without("skip"), only_when_alone, id="a skip takes no number"),
        pytest.param(Rules(seen_at="start"), oldest, id="seen is copied when the run starts"),
        pytest.param(
            Rules(numbered=ALL_ACTS - {"deploy"}, first_commit_counts=False),
            only_since_version_one,
            id="a deploy changes nothing",
        ),
    ],
)
def test_the_walk_finds_a_stranded_event_when_an_ingredient_is_missing(
    rules: Rules, prepare: Prepare
) -> None:
    """S3: each ingredient is needed, and the walk is sharp enough to see it.

    A release needs no row here: the reservation before it took a number that no commit has seen.
    A deploy is said twice by the rule, as a number and as reason (a); one of the two would do.
    """
    assert walk(prepare, rules, feeds_itself=False).stranded is not None


def test_the_walk_finds_the_busy_loop_of_a_script_that_feeds_itself() -> None:
    """S3: without the 30 s pause a script that publishes and reserves nothing never rests."""
    assert walk(never, Rules(holds_back=False), feeds_itself=True).is_busy
