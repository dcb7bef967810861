"""The ledger in the store: generations, one row per run, attempts counted, one answer that wins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from duly.errors import RequestRefused, Stale
from duly.rules import lifecycle
from duly.rules.ledger import idempotency_key
from duly.rules.lifecycle import Counts
from duly.rules.word import Act, Answer, Status, Verdict
from tests.store.exam import World
from tests.store.scene import IN_FLIGHT, INDETERMINATE, KEY, MUTATING, NOT_SENT, UNKNOWN, at, key_of
from tests.store.scene import opened as opened_world

MUTATION = "mutation_1"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened_world(tmp_path) as world:
        yield world


@pytest.mark.parametrize(
    ("given", "generation"),
    [
        (Answer.REFUSED, 1),
        (Answer.NOT_SENT, 0),
        (Answer.RATE_LIMITED, 0),
        (Answer.AUTH, 0),
        (Answer.PERMISSION, 0),
        (Answer.UNKNOWN, 0),
    ],
)
async def test_only_a_refusal_on_its_merits_grows_the_generation(
    given: Answer, generation: int, world: World
) -> None:
    """L7: the key changes with a Refused and with nothing else; the keys of other inputs stay."""
    scene = await at(world.store, IN_FLIGHT)
    await scene.go(given)
    assert await key_of(world.store) == idempotency_key("inputs", generation)
    assert await key_of(world.store, "other inputs") == idempotency_key("other inputs", 0)


async def test_what_a_person_answers_never_grows_the_generation(world: World) -> None:
    """L7: did_not_happen is no refusal by the outside."""
    scene = await at(world.store, INDETERMINATE)
    await scene.go(Act.DID_NOT_HAPPEN)
    assert await key_of(world.store) == KEY


async def test_what_was_applied_stands_with_its_result_and_the_phase(world: World) -> None:
    """L9: in one transaction, on the row and on the run."""
    scene = await at(world.store, IN_FLIGHT)
    await scene.go(Answer.APPLIED)
    run, row = await world.store.get_run(scene.run_id), await world.store.get_mutation(MUTATION)
    assert (run.phase, run.outcome, run.result) == ("mutated", "applied", '{"id":7}')
    assert (row.status, row.result) == ("applied", '{"id":7}')


async def test_a_run_cannot_stop_without_saying_why_and_until_when(world: World) -> None:
    """L10, F2: "did not happen" without a time would be lost in silence."""
    scene = await at(world.store, INDETERMINATE)
    before = world.dump()
    action, now = scene.action(), scene.tick()
    with pytest.raises(AssertionError):
        await world.store.settle(MUTATION, Act.DID_NOT_HAPPEN, action=action, now=now)
    assert world.dump() == before


async def test_a_row_passes_to_the_successor_and_is_never_copied(world: World) -> None:
    """L1, R5: the run that made a row and the run that holds it are each named once."""
    scene = await at(world.store, IN_FLIGHT)
    maker = scene.run_id
    change = lifecycle.crash(IN_FLIGHT, Counts(crash=1))
    await scene.follow(change, Counts(crash=1))
    rows = await world.store.list_mutations()
    assert [(row.run_id, row.held_by) for row in rows] == [(maker, scene.run_id)]


async def test_a_second_row_with_another_id_for_the_same_run_is_refused(world: World) -> None:
    """L1: at most one row per run, by constraint, whatever a caller believes."""
    scene = await at(world.store, NOT_SENT)
    before = world.dump()
    call = scene.call(id="mutation_2")
    with pytest.raises(Stale):
        await world.store.send(scene.fence, scene.run_id, MUTATING, IN_FLIGHT, call, now=1)
    assert world.dump() == before


async def test_trying_again_lets_the_attempts_begin_anew(world: World) -> None:
    """L10: asks and re-sends are counted from zero, the attempts of the row go on."""
    scene = await at(world.store, lifecycle.resend(UNKNOWN))
    await scene.go(Answer.UNKNOWN)
    at_ms = scene.now + 1
    await world.store.count_attempt(
        scene.fence,
        MUTATION,
        0,
        scene.due_at,
        is_counted=True,
        error=None,
        due_at=at_ms,
        now=at_ms,
    )
    await scene.go(Verdict.GIVEN_UP, Act.TRY_AGAIN)
    row = await world.store.get_mutation(MUTATION)
    assert (row.asks, row.resends, row.attempt) == (0, 0, 2)


async def test_of_two_answers_at_once_one_wins(world: World) -> None:
    """L10: the second is refused and changes nothing."""
    scene = await at(world.store, INDETERMINATE)
    await scene.go(Act.HAPPENED)
    before = world.dump()
    action, now = scene.action(), scene.tick()
    with pytest.raises(RequestRefused, match="Cannot did_not_happen"):
        await world.store.settle(MUTATION, Act.DID_NOT_HAPPEN, action=action, now=now)
    assert world.dump() == before


async def test_a_stop_that_moves_the_row_writes_both_or_neither(world: World) -> None:
    """L1, R8: the decision is about run and row; a row left behind would never be asked about."""
    scene = await at(world.store, IN_FLIGHT)
    stopped = replace(IN_FLIGHT, status=Status.PAUSED_RECONCILIATION, row=UNKNOWN.row)
    here = (scene.fence, scene.run_id, IN_FLIGHT, stopped, scene.stop(stopped))
    await world.store.stop_run(*here, now=scene.tick())
    row = await world.store.get_mutation(MUTATION)
    assert (row.status, row.due_at) == ("needs_reconcile", scene.now)
    with pytest.raises(Stale):
        await world.store.stop_run(*here, now=scene.tick())
