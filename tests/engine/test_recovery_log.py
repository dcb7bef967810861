"""Who restarts a host reads in its log what was interrupted, and what is done about it."""

from __future__ import annotations

import logging

import pytest

from duly.rules.word import MutationStatus
from duly.testing import Fault, Stage
from duly.words.recovered import RECOVERED
from tests.engine.stand import NAME, flow, opened, plan


async def recovered(stage: Stage, *faults: Fault, **moments: str) -> None:
    play = await opened(stage)
    plan(stage, *faults)
    await play.deploy(flow())
    await play.publish("a")
    if faults:
        await stage.crash(play.host, play.host.drain())
        play.host = await stage.host(**play.options)
    else:
        await play.crash_during(**moments)
    await play.drain()


@pytest.mark.parametrize(
    ("faults", "moments", "row"),
    [
        ((), {"prepare_run": "before"}, None),
        ((Fault.CRASH_BEFORE,), {}, MutationStatus.NEEDS_RECONCILE),
        ((), {"commit_run": "before"}, MutationStatus.APPLIED),
    ],
)
async def test_an_interrupted_run_is_told_by_its_workflow_and_what_is_done(
    duly_world: Stage,
    caplog: pytest.LogCaptureFixture,
    faults: tuple[Fault, ...],
    moments: dict[str, str],
    row: MutationStatus | None,
) -> None:
    """R7, R5: by name, in one sentence, from the ledger row alone."""
    with caplog.at_level(logging.INFO, "duly.engine"):
        await recovered(duly_world, *faults, **moments)
    (told,) = [each.getMessage() for each in caplog.records if "interrupted" in each.getMessage()]
    assert told.startswith(f"{NAME}: interrupted; {RECOVERED[row]} (run_")


async def test_one_that_is_interrupted_for_ever_is_said_to_wait(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """R7: the third in a row gets no successor, and nobody reads that it begins again."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    for _ in range(3):
        await play.crash_during(commit_run="before")
    caplog.clear()
    with caplog.at_level(logging.INFO, "duly.engine"):
        await play.drain()
    assert f"{NAME}: interrupted; once too often in a row, so it waits for you" in caplog.text


def test_every_word_of_the_ledger_has_a_sentence() -> None:
    """R7: no crash is without a word."""
    assert set(RECOVERED) == {None, *MutationStatus}
