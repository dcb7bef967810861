"""One turn of a workflow: look, choose and start in one transaction (S5, H2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from duly.errors import Fenced
from duly.rules.turn import Choice, Work
from duly.store.due import Outlook
from tests.store.exam import World, same
from tests.store.scene import deployed, opened, starting

RUN = "run_next"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened(tmp_path) as world:
        yield world


async def test_a_turn_is_chosen_on_what_its_own_transaction_sees(world: World) -> None:
    """S5: the chooser is shown the workflow as it is when the run is opened."""
    scene = await deployed(world.store)
    shown: list[Outlook] = []

    def choose(outlook: Outlook) -> Choice:
        shown.append(outlook)
        return starting("file")(outlook)

    taken = await world.store.take_turn(scene.fence, RUN, choose, now=scene.tick())
    assert taken.started is not None
    assert shown == [taken.outlook]
    assert {each.name for each in taken.outlook.handlers} >= {"file", "poll"}
    assert (await world.store.outlook(scene.fence.workflow_id)).open_run is not None


async def test_a_turn_without_work_writes_nothing(world: World) -> None:
    """S9: an idle look leaves the store as it is, and the log needs no sync."""
    scene = await deployed(world.store)
    await world.store.sync()
    before = world.dump()
    taken = await world.store.take_turn(
        scene.fence, RUN, lambda _: Choice(Work.NOTHING, look_at=7), now=scene.tick()
    )
    assert (taken.choice.look_at, taken.started) == (7, None)
    same(before, world.dump(), "an idle look")


async def test_a_turn_under_an_old_claim_is_refused_before_anything_is_chosen(
    world: World,
) -> None:
    """H2: a host that was overtaken chooses nothing."""
    scene = await deployed(world.store)
    old = replace(scene.fence, epoch=scene.fence.epoch - 1)

    def choose(outlook: Outlook) -> Choice:
        raise AssertionError(outlook)

    with pytest.raises(Fenced):
        await world.store.take_turn(old, RUN, choose, now=scene.tick())
