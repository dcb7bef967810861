"""Every open state of a run and every act of a person on it: the store does what the rules say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from duly.errors import NotFound, RequestRefused
from duly.rules import lifecycle
from duly.rules.lifecycle import Change, Counts, Run
from duly.rules.word import Act, Kind, MutationStatus, Reserved, Status, Waits
from duly.store import Store, statements
from duly.store.base import Durability, Transaction
from duly.store.parameter import as_set
from duly.store.record import RunRow, Stop
from tests.store.exam import World
from tests.store.scene import (
    CAPABILITY,
    CONNECTOR,
    INPUTS,
    NOON,
    PATHS,
    WORKFLOW,
    Scene,
    arranged,
    deployment,
    on,
    title_of,
)
from tests.store.scene import opened as opened_world

NEXT = "run_next"
SETTLED = (Act.TRY_AGAIN, Act.DID_NOT_HAPPEN, Act.HAPPENED, Act.SKIP)
OF_A_MUTATION = frozenset({Act.APPROVE, Act.REJECT, *SETTLED})


class Undone(Exception):
    """Raised by the test so that its own transaction leaves nothing."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a person's act left: the run, what followed it, and the events it had."""

    run: Run
    is_open: bool
    successor: Run | None
    events: tuple[str, ...]


def _settle(answer: Act) -> Callable[[Transaction, Scene], Any]:
    stop = Stop(Counts(transient=1), due_at=NOON) if answer is Act.DID_NOT_HAPPEN else None

    def call(tx: Transaction, scene: Scene) -> Any:
        action, now = scene.action(), scene.tick()
        return Store.settle.body(tx, scene.mutation_id, answer, stop=stop, action=action, now=now)

    return call


def _deploy(tx: Transaction, scene: Scene) -> Any:
    newer, now = deployment("2.0", "1.0"), scene.tick()
    return Store.deploy.body(tx, newer, successor_id=NEXT, action=scene.action(), now=now)


def _skip_event(tx: Transaction, scene: Scene) -> Any:
    event = (WORKFLOW, INPUTS[0].topic, INPUTS[0].message_id)
    action, now = scene.action(), scene.tick()
    return Store.skip_event.body(tx, *event, successor_id=NEXT, action=action, now=now)


def _pause(tx: Transaction, scene: Scene) -> Any:
    action = scene.action()
    return Store.set_paused.body(tx, WORKFLOW, is_paused=True, action=action, now=scene.tick())


def _approve(tx: Transaction, scene: Scene) -> Any:
    said = {"seal": "sealed", "action": scene.action(), "now": scene.tick()}
    return Store.approve.body(tx, scene.mutation_id, "shown", **said)  # type: ignore[arg-type]


def _on_run(verb: Any, *more: str) -> Callable[[Transaction, Scene], Any]:
    def call(tx: Transaction, scene: Scene) -> Any:
        return verb.body(tx, scene.run_id, *more, action=scene.action(), now=scene.tick())

    return call


def _reject(tx: Transaction, scene: Scene) -> Any:
    return Store.reject.body(tx, scene.mutation_id, action=scene.action(), now=scene.tick())


def _grant(tx: Transaction, scene: Scene) -> Any:
    return Store.grant.body(tx, WORKFLOW, CAPABILITY, action=scene.action(), now=scene.tick())


def _reconnect(tx: Transaction, scene: Scene) -> Any:
    return Store.reconnect.body(tx, CONNECTOR, action=scene.action(), now=scene.tick())


CALLS: dict[Act, Callable[[Transaction, Scene], Any]] = {
    Act.APPROVE: _approve,
    Act.REJECT: _reject,
    Act.RECONNECT: _reconnect,
    Act.GRANT: _grant,
    **{answer: _settle(answer) for answer in SETTLED},
    Act.SKIP_EVENT: _skip_event,
    Act.DEPLOY: _deploy,
    Act.RETRY: _on_run(Store.retry_run, NEXT),
    Act.ABANDON: _on_run(Store.abandon_run),
    Act.PAUSE: _pause,
}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened_world(tmp_path) as world:
        yield world


def look(tx: Transaction, run_id: str) -> Found:
    """Read what there is, inside the transaction of the act."""
    run = statements.read_run(tx, run_id)
    after = tx.one("get_run", id=NEXT)
    rows = (
        tx.one(
            "get_events",
            workflow_id=WORKFLOW,
            topic=each.topic,
            ids=as_set((each.message_id,)),
        )
        for each in INPUTS
    )
    # A followed run has passed its row on; the rules speak of the row wherever it is.
    state = run.state if after is None else replace(run.state, row=None)
    successor = None if after is None else RunRow(*after).state
    return Found(state, bool(run.open), successor, tuple(str(row[6]) for row in rows if row))


EVENTS = {
    Reserved.HOLD: "reserved",
    Reserved.TRANSFER: "reserved",
    Reserved.RELEASE: "pending",
    Reserved.CONSUME: "consumed",
    Reserved.SKIP: "skipped",
}


def has_events(run: Run) -> bool:
    """Tell whether a run of the stage has reserved its inputs."""
    return run.phase not in lifecycle.HOLDS_NOTHING


def promised(run: Run, act: Act) -> Found:
    """Spell what the rules say an act does; a refusal is raised."""
    if act in (Act.RECONNECT, Act.GRANT):
        lifecycle.act(run, act)
        change = Change(run)  # the host moves it on, in a transaction of its own
    elif act is Act.DEPLOY and run.status is not Status.FAILED_LOGIC:
        change = Change(run)
    elif act is Act.SKIP_EVENT and not has_events(run):
        change = skip_pending(run)
    else:
        change = lifecycle.act(run, act)
    event = EVENTS[change.reserved] if has_events(run) else "pending"
    first = "skipped" if act is Act.SKIP_EVENT else event
    state = change.run if change.successor is None else replace(change.run, row=None)
    is_open = change.successor is None and change.run.status not in lifecycle.ENDED
    return Found(state, is_open, change.successor, (first, event))


def skip_pending(run: Run) -> Change:
    """Say what skipping a pending event does to a run of its consumer (U3)."""
    is_poisoned = run.status is Status.FAILED_LOGIC and run.kind is Kind.CONSUMER
    return lifecycle.act(run, Act.RETRY) if is_poisoned else Change(run)


async def attempt(world: World, act: Act) -> tuple[Any, Found]:
    """Do an act, look, and undo it: the same world serves every act."""
    scene = on(world)
    seen: list[tuple[Any, Found]] = []

    def body(tx: Transaction) -> None:
        answer = CALLS[act](tx, scene)
        seen.append((answer, look(tx, scene.run_id)))
        raise Undone

    with pytest.raises(Undone):
        await world.store.backend.transact(body, Durability.RIDER)
    return seen[-1]


@pytest.mark.parametrize("run", PATHS, ids=title_of)
async def test_every_act_on_every_state_does_what_the_rules_say(run: Run, world: World) -> None:
    """R9, L10, U3: an act changes exactly what was decided, or is refused with a sentence."""
    await arranged(run)(world)
    before = world.dump()
    for act in CALLS:
        try:
            expected = promised(run, act)
        except RequestRefused as refusal:
            await see_refused(world, run, act, str(refusal))
            continue
        _, found = await attempt(world, act)
        assert found == expected, act
    assert world.dump() == before


async def see_refused(world: World, run: Run, act: Act, sentence: str) -> None:
    """See that the store refuses in the words of the rules; grants and sign-ins wake nobody."""
    if act in (Act.RECONNECT, Act.GRANT):
        answer, found = await attempt(world, act)
        assert not answer, act
        assert found.run == run, act
        return
    scene = on(world)
    with pytest.raises((RequestRefused, NotFound)) as caught:
        await world.store.backend.transact(lambda tx: CALLS[act](tx, scene), Durability.RIDER)
    if run.row is None and act in OF_A_MUTATION:
        assert caught.type is NotFound, act
    else:
        assert str(caught.value) == sentence, act


WAITING = [run for run in PATHS if run.status is Status.PAUSED_APPROVAL]


@pytest.mark.parametrize("run", WAITING, ids=title_of)
async def test_a_grant_and_a_sign_in_wake_only_who_waits_for_exactly_that(
    run: Run, world: World
) -> None:
    """F4: not for another capability or connector, and never what waits for approval."""
    await arranged(run)(world)
    scene, run_id = on(world), on(world).run_id
    grant, reconnect = world.store.grant, world.store.reconnect
    assert await grant(WORKFLOW, "mail.send", action=scene.action(), now=scene.tick()) is None
    assert await reconnect("slack", action=scene.action(), now=scene.tick()) == ()
    assert (await world.store.get_run(run_id)).due_at is None
    granted = await grant(WORKFLOW, CAPABILITY, action=scene.action(), now=scene.tick())
    assert granted == (run_id if run.waits is Waits.GRANT else None)
    connected = await reconnect(CONNECTOR, action=scene.action(), now=scene.tick())
    assert connected == ((run_id,) if run.waits is Waits.CONNECTION else ())


def test_the_stage_knows_every_status_a_run_can_be_open_in() -> None:
    """R9: a state that no scene shows would be examined by nobody."""
    assert {run.status for run in PATHS} == set(Status) - lifecycle.ENDED
    assert {run.row for run in PATHS} == {None, *MutationStatus}
    assert {run.waits for run in PATHS} == {None, *Waits}
