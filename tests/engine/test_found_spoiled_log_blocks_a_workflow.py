"""A run whose stored log or error another program has spoiled goes on, and is shown (L11, R4)."""

from __future__ import annotations

import pytest

from duly.testing import Fault, Stage
from tests.engine.stand import CONSUMER, MUTATE, consumer, flow, opened, plan
from verification.moves import Say

SPOILED = ("spoiled", "[]", '{"lines": [5], "dropped": 0, "message": 5}')


@pytest.mark.parametrize("text", SPOILED)
async def test_a_run_with_a_spoiled_log_goes_on(duly_world: Stage, text: str) -> None:
    """R4: its workflow is not blocked by a text that only a person reads."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(mutate=(Say("one"), *MUTATE))}))
    plan(duly_world, Fault.RATE_LIMIT)
    await play.publish("a")
    await play.drain()
    stopped = await play.run()
    play.tamper("update run set logs = ?, error = ?", text, text)
    (shown,) = await play.host.logs(stopped.id)
    assert shown.text == text
    found = await play.host.run(stopped.id)
    assert found.error is not None
    assert found.error.message == text
    await play.host.why(stopped.id)
    await play.pass_by(3600)
    assert await play.statuses() == {"a": "consumed"}


async def test_a_spoiled_log_does_not_keep_an_answered_run_from_going_on(duly_world: Stage) -> None:
    """R4: the same run goes on, and its log with it."""
    play = await opened(duly_world, reconcile=False)
    await play.deploy(flow({CONSUMER: consumer(mutate=(Say("one"), *MUTATE))}))
    plan(duly_world, Fault.AMBIGUOUS)
    await play.publish("a")
    await play.drain()
    play.tamper("update run set logs = 'spoiled'")
    await play.host.settle((await play.row()).id, "happened", {"row": 1})
    await play.drain()
    assert await play.statuses() == {"a": "consumed"}
