"""The verbs of a repair sit their exam: the question is counted, the no is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.errors import Stale
from duly.fact import Reason
from duly.rules.lifecycle import Counts
from duly.rules.reason import keep
from duly.rules.word import Act
from duly.store.record import Action, JournalEvent, Origin, Stop
from tests.store.exam import Again, Case, Refusal, Trial, World, exam
from tests.store.scene import (
    FAILED,
    WORKFLOW,
    abandon,
    at,
    journal,
    last_action,
    on,
    pause,
    version,
)

TOLD = (JournalEvent("workflow.needs_attention", "duly", "{}"),)
ESCALATED = Reason("script_failed", facts={"unrepaired": "there is no repairer."})


async def _repairable(world: World) -> None:
    """Bring a run to where the host would ask for a repair."""
    scene = await at(world.store, FAILED)
    stop = Stop(scene.counts, "{}", due_at=scene.now)
    here = (scene.fence, scene.run_id, scene.run)
    await scene.store.stop_run(*here, scene.run, stop, now=scene.tick())
    world.fence, world.kept["scene"] = scene.fence, scene


async def _ask(world: World, counts: Counts = Counts(logic=1)) -> None:  # noqa: B008, it is frozen
    scene = on(world)
    await scene.store.ask_repair(scene.fence, scene.run_id, scene.run, counts, now=scene.tick())


async def _ask_by_an_old_count(world: World) -> None:
    await _ask(world, Counts(logic=1, repair=1))


async def _see_asked(world: World, answer: None) -> None:
    run = await world.store.get_run(on(world).run_id)
    assert (run.state, run.counts, run.open) == (FAILED, Counts(logic=1, repair=1), 1)
    assert run.due_at is not None  # a host that dies now asks again
    workflow = await world.store.get_workflow(WORKFLOW)
    assert (workflow.repairs, workflow.repairs_since) == (1, on(world).now + 1)


ASK = Case(
    "ask_repair",
    _repairable,
    _ask,
    _see_asked,
    Again.STALE,
    refusals=(
        Refusal("a paused workflow", Stale, broken=pause, match="paused"),
        Refusal("a run that is over", Stale, broken=abandon),
        Refusal("another count", Stale, call=_ask_by_an_old_count),
    ),
)


async def _decline(world: World, *, is_proposed: bool = False) -> None:
    scene = on(world)
    await scene.store.decline_repair(
        scene.fence,
        scene.run_id,
        scene.run,
        ESCALATED,
        proposal=version("1.1", Origin.REPAIR) if is_proposed else None,
        action=Action("action_propose", "repairer", "propose") if is_proposed else None,
        now=scene.tick(),
        announce=TOLD,
    )


async def _propose(world: World) -> None:
    await _decline(world, is_proposed=True)


async def _see_declined(world: World, answer: None) -> None:
    run = await world.store.get_run(on(world).run_id)
    assert (run.state, run.escalated, run.due_at, run.open) == (FAILED, keep(ESCALATED), None, 1)
    assert (run.counts, run.error) == (Counts(logic=1), "{}")
    assert journal(world) == ["workflow.needs_attention"]


async def _see_proposed(world: World, answer: None) -> None:
    await _see_declined(world, answer)
    kept = await world.store.get_version(WORKFLOW, "1.1")
    assert (kept.activated_at, kept.origin) == (None, "repair")
    assert (await world.store.get_workflow(WORKFLOW)).active_version == "1.0"
    assert last_action(world) == ("repairer", "propose", WORKFLOW, "1.1")


async def _take_the_number(world: World) -> None:
    scene = on(world)
    other = version("1.1", Origin.REPAIR)
    await scene.store.keep_version(WORKFLOW, other, action=scene.action(), now=scene.now)


async def _retry(world: World) -> None:
    scene = on(world)
    await scene.store.retry_run(
        scene.run_id, "run_9", action=scene.action(Act.RETRY), now=scene.now
    )


DECLINE = Case(
    "decline_repair",
    _repairable,
    _decline,
    _see_declined,
    Again.STALE,
    refusals=(
        Refusal("a run a person retried", Stale, broken=_retry),
        Refusal("a run that is over", Stale, broken=abandon),
    ),
)
PROPOSE = Case(
    "decline_repair",
    _repairable,
    _propose,
    _see_proposed,
    Again.STALE,
    refusals=(Refusal("a number that exists", Stale, broken=_take_the_number, match="exists"),),
    says="with a proposal",
)


@pytest.mark.parametrize("trial", exam(ASK, DECLINE, PROPOSE))
async def test_the_verbs_of_a_repair_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """F3, R8, H2: asked once and counted once; told once, with what was proposed or without."""
    await trial.sit(tmp_path)
