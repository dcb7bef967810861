"""The verbs of what a workflow may do sit their exam: grant, choose when it asks, revoke."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.errors import NotFound, RequestRefused
from duly.rules.word import Failure, Progress
from duly.store.record import Action
from tests.store.exam import Again, Case, Refusal, Trial, World, exam
from tests.store.scene import (
    CAPABILITY,
    NOON,
    WORKFLOW,
    arranged,
    last_action,
    on,
    opened,
    reach,
)
from tests.store.test_exam_workflow import NO_WORKFLOW, act

UNSEEN = "changed since it was shown"
UNGRANTED = reach(Progress.PREPARE_DONE, Progress.BEGIN_MUTATE, Failure.PERMISSION)


async def _grant(world: World, workflow_id: str = WORKFLOW) -> str | None:
    return await world.store.grant(
        workflow_id,
        CAPABILITY,
        mutations_per_day=9,
        matching='{"to":"*"}',
        action=act("grant"),
        now=NOON + 500,
    )


async def _grant_nobody(world: World) -> str | None:
    return await _grant(world, "workflow_9")


async def _see_granted(world: World, answer: str | None) -> None:
    run = await world.store.get_run(on(world).run_id)
    assert (answer, run.due_at, run.state) == (run.id, NOON + 500, UNGRANTED)
    (granted,) = await world.store.list_grants(WORKFLOW)
    assert (granted.capability, granted.mutations_per_day, granted.matching) == (
        CAPABILITY,
        9,
        '{"to":"*"}',
    )
    assert (granted.granted_by, granted.granted_at) == ("me", NOON + 500)
    assert last_action(world) == ("me", "grant", WORKFLOW, CAPABILITY)
    assert [due.run_id for due in (await world.store.due(NOON + 500)).runs] == [run.id]


async def _grant_unseen(world: World) -> str | None:
    return await world.store.grant(
        WORKFLOW, CAPABILITY, seen="another", action=act("grant"), now=NOON + 500
    )


GRANT = Case(
    "grant",
    arranged(UNGRANTED),
    _grant,
    _see_granted,
    Again.STALE,
    refusals=(
        Refusal(NO_WORKFLOW, NotFound, call=_grant_nobody),
        Refusal("a right that was not shown", RequestRefused, call=_grant_unseen, match=UNSEEN),
    ),
)


async def _give_lacking(world: World, workflow_id: str = WORKFLOW, seen: str | None = None) -> bool:
    return await world.store.grant_lacking(
        workflow_id, CAPABILITY, seen=seen, action=act("grant"), now=NOON + 500
    )


async def _give_nobody(world: World) -> bool:
    return await _give_lacking(world, "workflow_9")


async def _give_unseen(world: World) -> bool:
    return await _give_lacking(world, seen="another")


async def _see_given(world: World, answer: bool) -> None:
    assert answer
    run = await world.store.get_run(on(world).run_id)
    assert (run.due_at, run.state) == (NOON + 500, UNGRANTED)
    (granted,) = await world.store.list_grants(WORKFLOW)
    assert (granted.mutations_per_day, granted.matching) == (None, "{}")
    assert last_action(world) == ("me", "grant", WORKFLOW, CAPABILITY)


GRANT_LACKING = Case(
    "grant_lacking",
    arranged(UNGRANTED),
    _give_lacking,
    _see_given,
    Again.NOTHING,
    refusals=(
        Refusal(NO_WORKFLOW, NotFound, call=_give_nobody),
        Refusal("a right that was not shown", RequestRefused, call=_give_unseen, match=UNSEEN),
    ),
)


CHOSEN = f'{{"to":"*","asks:{CAPABILITY}":"always"}}'
SHOWN = {CAPABILITY: ""}


async def _choose(world: World, word: str = "always", workflow_id: str = WORKFLOW) -> bool:
    return await world.store.choose_asks(
        workflow_id,
        CAPABILITY,
        asks={CAPABILITY: word},
        seen=SHOWN,
        action=Action("action_now", "me", "choose_asks"),
        now=NOON + 600,
    )


async def _choose_nobody(world: World) -> bool:
    return await _choose(world, workflow_id="workflow_9")


async def _choose_less(world: World) -> bool:
    return await _choose(world, "first:5")


async def _choose_before(world: World) -> None:
    action = Action("action_just_before", "me", "choose_asks")
    asks = {CAPABILITY: "always"}
    await world.store.choose_asks(
        WORKFLOW, CAPABILITY, asks=asks, seen=SHOWN, action=action, now=NOON + 550
    )


async def _see_chosen(world: World, answer: bool) -> None:
    (granted,) = await world.store.list_grants(WORKFLOW)
    assert answer
    assert (granted.mutations_per_day, granted.matching) == (9, CHOSEN)
    assert (granted.granted_by, granted.granted_at) == ("me", NOON + 500)
    assert last_action(world) == ("me", "choose_asks", WORKFLOW, CAPABILITY)


async def test_a_grant_asks_as_the_one_before_it_or_is_not_given_twice(tmp_path: Path) -> None:
    """A1, A3: both are looked at in the transaction that writes."""
    async with opened(tmp_path) as world:
        await _arrange_granted(world)
        await _choose_before(world)
        again: Any = {"action": Action("action_later", "you", "grant"), "now": NOON + 700}
        await world.store.grant_lacking(WORKFLOW, CAPABILITY, **again)
        (granted,) = await world.store.list_grants(WORKFLOW)
        assert (granted.mutations_per_day, granted.matching) == (9, CHOSEN)
        assert last_action(world) == ("me", "choose_asks", WORKFLOW, CAPABILITY)
        new = '{"to":"a*"}'
        await world.store.grant(WORKFLOW, CAPABILITY, matching=new, keeps_asks=True, **again)
        (granted,) = await world.store.list_grants(WORKFLOW)
        assert (granted.mutations_per_day, granted.granted_by) == (None, "you")
        assert granted.matching == CHOSEN.replace("*", "a*")


async def _revoke(world: World) -> None:
    await world.store.revoke(WORKFLOW, CAPABILITY, action=act("revoke"), now=NOON + 600)


async def _see_revoked(world: World, answer: None) -> None:
    assert await world.store.list_grants(WORKFLOW) == ()
    assert last_action(world) == ("me", "revoke", WORKFLOW, CAPABILITY)


async def _arrange_granted(world: World) -> None:
    await arranged(UNGRANTED)(world)
    await _grant(world)


async def _revoke_before(world: World) -> None:
    await world.store.revoke(WORKFLOW, CAPABILITY, action=act("before"), now=NOON + 600)


REVOKE = Case(
    "revoke",
    _arrange_granted,
    _revoke,
    _see_revoked,
    Again.MISSING,
    refusals=(Refusal("a grant that is gone", NotFound, broken=_revoke_before),),
)


CHOOSE_ASKS = Case(
    "choose_asks",
    _arrange_granted,
    _choose,
    _see_chosen,
    Again.NOTHING,
    refusals=(
        Refusal(NO_WORKFLOW, NotFound, call=_choose_nobody),
        Refusal("a grant that is gone", NotFound, broken=_revoke_before),
        Refusal(
            "a choice that was not shown",
            RequestRefused,
            broken=_choose_before,
            call=_choose_less,
            match="since it was shown",
        ),
    ),
)


@pytest.mark.parametrize("trial", exam(GRANT, GRANT_LACKING, CHOOSE_ASKS, REVOKE))
async def test_the_verbs_of_grants_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """A1, A3, A6: what is allowed is changed whole, once, and written down with who did it."""
    await trial.sit(tmp_path)
