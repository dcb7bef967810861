"""Several answers, amended calls, allowances and seals sit their exam (A3, L11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.errors import NotFound, RequestRefused, Stale
from duly.rules.seal import AllowanceFacts
from duly.rules.word import Act, Answer, Progress
from duly.rules.word import MutationStatus as Row
from duly.store.approval import Given, Resealed, Sealed, Yes
from duly.store.record import Action, AllowanceRow, Key, Reserve
from tests.store.exam import Again, Case, ReadCase, Refusal, Trial, World, exam
from tests.store.scene import (
    CAPABILITY,
    IN_FLIGHT,
    MUTATING,
    NOON,
    PROPOSED,
    WORKFLOW,
    abandon,
    arranged,
    at,
    last_action,
    on,
    pause,
    reached,
)
from tests.store.test_exam_ledger import MUTATION, row_of, state_of

ALLOWANCE = "allowance_1"
UNTIL = NOON + 60_000
FACTS = AllowanceFacts(
    ALLOWANCE, WORKFLOW, MUTATION, CAPABILITY, "1.0", '{"a":1}', "{}", 1, UNTIL, "me", NOON
)
GIVEN = Given(FACTS, "sealed")


async def _allowed(world: World) -> None:
    """Approve a call with an allowance, send it, and bring the next run to its mutation."""
    scene = await at(world.store, PROPOSED)
    world.fence, world.kept["scene"] = scene.fence, scene
    await scene.store.approve(
        MUTATION,
        "shown",
        seal="a yes",
        action=scene.action("allow"),
        now=scene.tick(),
        given=GIVEN,
    )
    scene.run = IN_FLIGHT
    await scene.store.send_approved(scene.fence, scene.run_id, IN_FLIGHT, now=scene.tick())
    await scene.go(Answer.APPLIED, Progress.BEGIN_NEXT)
    await scene.commit()
    await scene.start()
    await scene.prepare((Reserve("mail", "mail:2"),))
    await scene.go(Progress.BEGIN_MUTATE)


# -- approve_all ----------------------------------------------------------------------------------


async def _approve_all(world: World) -> tuple[str | None, ...]:
    scene = on(world)
    wanted = (("mutation_9", "shown"), (MUTATION, "shown"))
    answers = tuple(
        Yes(WORKFLOW, each, seen, "a yes", Action(f"action_{each}", "me", "approve"))
        for each, seen in wanted
    )
    return await scene.store.approve_all(answers, now=scene.tick())


async def _see_one_approved(world: World, answer: tuple[str | None, ...]) -> None:
    assert answer == ("There is no mutation mutation_9.", None)
    row = await row_of(world)
    assert await state_of(world) == IN_FLIGHT
    assert (row.status, row.approved_by, row.seal) == (Row.IN_FLIGHT, "me", "a yes")
    assert last_action(world) == ("me", "approve", WORKFLOW, MUTATION)


APPROVE_ALL = Case(
    "approve_all",
    arranged(PROPOSED),
    _approve_all,
    _see_one_approved,
    Again.NOTHING,
    never_refuses="of several answers each is refused by itself",
)


# -- amend ----------------------------------------------------------------------------------------


async def _amend(world: World, seen: str = "shown") -> None:
    scene = on(world)
    await scene.store.amend(
        MUTATION,
        seen,
        args='{"a":2}',
        hash="other",
        seal="amended",
        action=scene.action("amend"),
        now=scene.tick(),
    )


async def _amend_unseen(world: World) -> None:
    await _amend(world, "another hash")


async def _see_amended(world: World, answer: None) -> None:
    row = await row_of(world)
    assert (row.args, row.args_proposed, row.hash) == ('{"a":2}', '{"a":1}', "other")
    assert (row.amended_by, row.seal, row.status) == ("me", "amended", Row.PROPOSED)
    assert await state_of(world) == PROPOSED
    assert last_action(world) == ("me", "amend", WORKFLOW, MUTATION)


AMEND = Case(
    "amend",
    arranged(PROPOSED),
    _amend,
    _see_amended,
    Again.REFUSED,
    refusals=(
        Refusal("another hash", RequestRefused, call=_amend_unseen, match="Look at it again"),
        Refusal("what was approved", RequestRefused, broken=reached(Act.APPROVE)),
        Refusal("what was withdrawn", Stale, broken=abandon),
    ),
)


# -- send_allowed, revoke_allowance ---------------------------------------------------------------


async def _send_allowed(world: World, now: int = UNTIL - 1) -> Key | None:
    scene = on(world)
    call = scene.call(id="mutation_2", asked=True, approved_by="me", allowance_id=ALLOWANCE)
    here = (scene.fence, scene.run_id, MUTATING, IN_FLIGHT, call)
    return await scene.store.send_allowed(*here, now=now)


async def _see_sent(world: World, answer: Key | None) -> None:
    row = await world.store.get_mutation("mutation_2")
    first = await world.store.get_mutation("mutation_1")  # the same inputs, so the same key
    assert (answer, row.first_sent_at) == (Key(first.key, int(first.first_sent_at or 0)), UNTIL - 1)
    assert (row.status, row.attempt, row.allowance_id) == (Row.IN_FLIGHT, 1, ALLOWANCE)
    (allowance,) = await world.store.list_allowances()
    assert allowance.used == 1


async def _send_nothing(world: World) -> Key | None:
    scene = on(world)
    call = scene.call(id="mutation_2", allowance_id="allowance_9")
    here = (scene.fence, scene.run_id, MUTATING, IN_FLIGHT, call)
    return await scene.store.send_allowed(*here, now=scene.tick())


SEND_ALLOWED = Case(
    "send_allowed",
    _allowed,
    _send_allowed,
    _see_sent,
    Again.STALE,
    refusals=(
        Refusal("a paused workflow", Stale, broken=pause),
        Refusal("an allowance no one gave", NotFound, call=_send_nothing),
    ),
)


async def _revoke(world: World) -> None:
    scene = on(world)
    action = scene.action("revoke_allowance")
    await scene.store.revoke_allowance(ALLOWANCE, action=action, now=scene.tick())


async def _revoke_nothing(world: World) -> None:
    action = on(world).action("revoke_allowance")
    await world.store.revoke_allowance("allowance_9", action=action, now=NOON)


async def _see_revoked(world: World, answer: None) -> None:
    (allowance,) = await world.store.list_allowances()
    assert (allowance.revoked_by, allowance.revoked_at) == ("me", on(world).now + 1)
    assert last_action(world) == ("me", "revoke_allowance", WORKFLOW, ALLOWANCE)
    assert await _send_allowed(world) is None


REVOKE = Case(
    "revoke_allowance",
    _allowed,
    _revoke,
    _see_revoked,
    Again.REFUSED,
    refusals=(Refusal("an allowance no one gave", NotFound, call=_revoke_nothing),),
)


# -- reading --------------------------------------------------------------------------------------


async def _find(world: World) -> tuple[AllowanceRow, ...]:
    return await world.store.find_allowances(WORKFLOW, CAPABILITY, "1.0", now=UNTIL - 1)


async def _list(world: World) -> tuple[AllowanceRow, ...]:
    return await world.store.list_allowances(WORKFLOW)


async def _see_allowance(world: World, answer: tuple[AllowanceRow, ...]) -> None:
    (row,) = answer
    assert (row.facts, row.seal, row.used, row.revoked_at) == (FACTS, "sealed", 0, None)


async def _see_none_found(world: World) -> None:
    find = world.store.find_allowances
    assert await find(WORKFLOW, CAPABILITY, "1.0", now=UNTIL) == ()
    assert await find(WORKFLOW, CAPABILITY, "1.1", now=NOON) == ()
    assert await find(WORKFLOW, "other.tool", "1.0", now=NOON) == ()
    await _revoke(world)
    assert await find(WORKFLOW, CAPABILITY, "1.0", now=NOON) == ()


async def _see_pages(world: World) -> None:
    assert await world.store.list_allowances("workflow_9") == ()
    assert await world.store.list_allowances(before=ALLOWANCE) == ()


async def _count_first(world: World) -> int:
    return await world.store.count_first(WORKFLOW, CAPABILITY, "1", most=9)


async def _see_one_call(world: World, answer: int) -> None:
    assert answer == 1


async def _see_no_call(world: World) -> None:
    count = world.store.count_first
    assert await count(WORKFLOW, CAPABILITY, "11", most=9) == 0
    assert await count(WORKFLOW, "other.tool", "1", most=9) == 0
    assert await count(WORKFLOW, CAPABILITY, "1", most=0) == 0
    await _send_allowed(world)  # the same inputs, in this scene: they count once
    assert await count(WORKFLOW, CAPABILITY, "1", most=9) == 1


async def _list_sealed(world: World) -> Sealed:
    return await world.store.list_sealed()


async def _see_open(world: World, answer: Sealed) -> None:
    assert [each.id for each in answer.allowances] == [ALLOWANCE]
    assert answer.mutations == ()  # it is applied, so nothing of it is sent or asked any more


async def _see_more_open(world: World) -> None:
    await _send_allowed(world)
    sealed = await world.store.list_sealed()
    assert [each.id for each in sealed.mutations] == ["mutation_2"]


# -- reseal ---------------------------------------------------------------------------------------


async def _reseal(world: World, old: str = "sealed") -> None:
    scene = on(world)
    await scene.store.reseal(
        mutations=(Resealed(MUTATION, "a yes", "new"),),
        allowances=(Resealed(ALLOWANCE, old, "new"),),
        secrets=(Resealed("gmail", "under the old key", "under the new", "token"),),
        action=scene.action("reseal"),
        now=scene.tick(),
    )


async def _arrange_secret(world: World) -> None:
    await _allowed(world)
    scene = on(world)
    action = Action("action_secret", "me", "set_secret")
    await scene.store.set_secret("gmail", "token", "under the old key", action=action, now=NOON)


async def _reseal_other(world: World) -> None:
    await _reseal(world, "what is not there")


async def _see_resealed(world: World, answer: None) -> None:
    assert (await row_of(world)).seal == "new"
    assert [each.seal for each in await world.store.list_allowances()] == ["new"]
    assert (await world.store.get_secret("gmail", "token")).sealed == "under the new"


RESEAL = Case(
    "reseal",
    _arrange_secret,
    _reseal,
    _see_resealed,
    Again.STALE,
    refusals=(Refusal("another seal", Stale, call=_reseal_other),),
)
READS = (
    ReadCase("find_allowances", _allowed, _find, _see_allowance, edge=_see_none_found),
    ReadCase("list_allowances", _allowed, _list, _see_allowance, edge=_see_pages),
    ReadCase("count_first", _allowed, _count_first, _see_one_call, edge=_see_no_call),
    ReadCase("list_sealed", _allowed, _list_sealed, _see_open, edge=_see_more_open),
)


@pytest.mark.parametrize("trial", exam(APPROVE_ALL, AMEND, SEND_ALLOWED, REVOKE, RESEAL, *READS))
async def test_answers_and_allowances_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """A3, L11: an answer, an allowance and a seal are written whole, once, or not at all."""
    await trial.sit(tmp_path)


@pytest.mark.parametrize("how", ["its time", "its calls", "its version"])
async def test_an_allowance_that_ended_lets_nothing_be_sent(tmp_path: Path, how: str) -> None:
    """A3: the transaction of the send looks, and writes nothing."""
    world = await World(tmp_path / "world").open()
    try:
        await _allowed(world)
        if how == "its calls":
            world.connection.execute("update mutation set allowance_id = ?", (ALLOWANCE,))
        if how == "its version":
            world.connection.execute("update run set version = '1.1' where open = 1")
        before = world.dump()
        assert await _send_allowed(world, UNTIL if how == "its time" else UNTIL - 1) is None
        assert world.dump() == before
    finally:
        await world.close()
