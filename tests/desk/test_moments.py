"""`history`, `grants`, `uses`, `upcoming`: what the pages of a run and of a workflow stand on."""

from __future__ import annotations

import pytest

from duly.errors import Invalid, NotFound
from duly.rules.history import Milestone
from duly.testing import Stage
from duly.words import say
from tests.desk.test_approval import proposed
from tests.engine.stand import CONSUMER, IN, NAME, TOOL, consumer, flow, opened
from verification.moves import Throw


async def test_a_history_has_what_happened_in_order_and_who_did_it(duly_world: Stage) -> None:
    """A6, L12: from the beginning of the run to the known outcome, with the act of a person."""
    play, shown = await proposed(duly_world)
    await play.host.approve(shown.mutation, shown.hash, by="anna")
    await play.drain()
    told = await play.host.history(shown.mutation)
    assert (told.run, told.mutation) == (shown.run, shown.mutation)
    codes = [each.reason.code for each in told.moments]
    assert codes[:2] == [Milestone.RUN_BEGAN, Milestone.CALL_PROPOSED]
    assert codes.index(Milestone.PERSON_ACTED) < codes.index(Milestone.CALL_KNOWN)
    assert Milestone.CALL_SENT in codes
    assert [each.at for each in told.moments] == sorted(each.at for each in told.moments)
    said = [say(each.reason, play.host.now) for each in told.moments]
    assert "Approved by anna" in said
    assert f"The script asked for {TOOL}" in said
    assert await play.host.history(shown.run) == told
    assert TOOL in [each.tool for each in told.calls]
    with pytest.raises(NotFound):
        await play.host.history("run_00000000000000000000000000000000")


async def test_a_run_that_failed_did_so_before_it_was_retried(duly_world: Stage) -> None:
    """A6: a retry ends one run and begins the next in one moment."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(mutate=(Throw("no address"),))}))
    await play.host.publish(NAME, IN, message_id="a", title="A", payload=1)
    await play.drain()
    (failed,) = await play.host.runs(NAME)
    await play.host.retry(failed.id, by="anna")
    old = [each.reason.code for each in (await play.host.history(failed.id)).moments]
    assert old == [Milestone.RUN_BEGAN, Milestone.RUN_CHANGED, Milestone.PERSON_ACTED]
    await play.drain()
    newest, *_ = await play.host.runs(NAME)
    told = [each.reason.code for each in (await play.host.history(newest.id)).moments]
    assert told == [*old, Milestone.RUN_TAKEN_UP, Milestone.RUN_CHANGED]


async def test_grants_and_uses_are_told_apart(duly_world: Stage) -> None:
    """A1, A2: what a workflow may do, and what its text would do."""
    play = await opened(duly_world)
    await play.deploy(flow())
    (before,) = (each for each in await play.host.grants(NAME) if each.capability in TOOL)
    await play.host.grant(NAME, before.capability, mutations_per_day=3, by="anna")
    granted = {each.capability: each for each in await play.host.grants(NAME)}
    found = granted[before.capability]
    assert (found.mutations_per_day, found.granted_by) == (3, "anna")
    await play.host.revoke(NAME, before.capability)
    assert before.capability not in {each.capability for each in await play.host.grants(NAME)}
    assert await play.host.uses(NAME, "1.0") == await play.host.uses(NAME)
    with pytest.raises(NotFound):
        await play.host.uses(NAME, "9.9")


async def test_the_next_times_of_a_producer_are_counted_on(duly_world: Stage) -> None:
    """S2: as the engine counts them; a limit holds."""
    play = await opened(duly_world)
    await play.deploy(flow())
    for each in await play.host.upcoming(NAME, times=4):
        gaps = {later - sooner for sooner, later in zip(each.at, each.at[1:], strict=False)}
        assert len(each.at) in (0, 4)
        assert len(gaps) <= 1
    with pytest.raises(Invalid):
        await play.host.upcoming(NAME, times=0)


async def test_writes_are_counted(duly_world: Stage) -> None:
    """G13: a page that follows this asks again when something was written, and not before."""
    play = await opened(duly_world)
    await play.deploy(flow())
    before = await play.host.writes()
    await play.host.workflows()
    assert await play.host.writes() == before
    await play.host.publish(NAME, IN, message_id="a", title="A", payload=1)
    assert await play.host.writes() > before


async def test_hours_of_a_day_are_counted(duly_world: Stage) -> None:
    """U1: 24 numbers, the newest last."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.publish(NAME, IN, message_id="a", title="A", payload=1)
    await play.drain()
    hours = (await play.host.workflow(NAME)).activity.hours
    assert hours == (*[0] * 23, 1)
