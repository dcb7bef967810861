"""A workflow into which nothing comes any more is told of, where a person expects something."""

from __future__ import annotations

import pytest

from duly.config import Policy, WorkflowPolicy
from duly.errors import ConfigError
from duly.testing import Stage
from tests.engine.stand import NAME, Play, flow, opened

pytestmark = pytest.mark.anyio

DAY_S = 86_400
EXPECTED = Policy(workflows={NAME: WorkflowPolicy(silent_after_days=2)})


async def keys(play: Play) -> list[str]:
    return [each.key for each in await play.host.attention()]


async def test_silence_is_told_until_something_comes_in(duly_world: Stage) -> None:
    """F8: counted from the newest input, and not from what came of it."""
    play = await opened(duly_world, policy=EXPECTED)
    await play.deploy(flow())
    await play.publish("a")
    await play.pass_by(2 * DAY_S)
    assert await keys(play) == []  # two days exactly are not longer than two days
    await play.pass_by(1)
    (told,) = await play.host.attention()
    assert told.key == f"{NAME}/silent"
    assert (told.reason.code, told.reason.facts["days"]) == ("silent", 2)
    assert [each.verb for each in told.offers] == ["run_now"]
    await play.restart(policy=EXPECTED)
    assert await keys(play) == [f"{NAME}/silent"]
    await play.publish("b")
    await play.drain()
    assert await keys(play) == []


async def test_a_workflow_that_never_got_anything_is_silent_since_it_is_there(
    duly_world: Stage,
) -> None:
    """F8: a person who paused it expects nothing, and without a policy nothing is expected."""
    play = await opened(duly_world, policy=EXPECTED)
    await play.deploy(flow())
    await play.deploy(flow(name="other"))
    await play.pass_by(3 * DAY_S)
    assert await keys(play) == [f"{NAME}/silent"]
    await play.host.pause(NAME)
    assert await keys(play) == []


@pytest.mark.parametrize("days", [0, -1])
def test_a_number_of_days_is_checked(days: int) -> None:
    with pytest.raises(ConfigError):
        WorkflowPolicy(silent_after_days=days)
