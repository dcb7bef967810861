"""When a producer first runs: at the deploy, or at its own time (W2)."""

from __future__ import annotations

from typing import Any

import pytest

from duly import Policy, Source
from duly.testing import Stage

PYTHON = """\
from duly import workflow

flow = workflow("digest", topics=["day"])


@flow.producer(cron="0 9 * * *", on_deploy=False)
async def morning(ctx, state):
    return {"runs": (state or {}).get("runs", 0) + 1}


@flow.producer(cron="0 9 * * *")
async def at_once(ctx, state):
    return {"runs": (state or {}).get("runs", 0) + 1}
"""
JAVASCRIPT = """\
const count = async (ctx, state) => ({runs: (state?.runs ?? 0) + 1});

export default Keep.workflow({
  name: "digest",
  topics: ["day"],
  producers: {
    morning: {schedule: {cron: "0 9 * * *", onDeploy: false}, handler: count},
    at_once: {schedule: {cron: "0 9 * * *"}, handler: count},
  },
});
"""
TEXTS: dict[Any, str] = {"python": PYTHON, "javascript": JAVASCRIPT}


async def ran(host: Any) -> list[str]:
    return sorted(each.handler for each in await host.runs("digest"))


@pytest.mark.parametrize("language", TEXTS)
async def test_a_producer_that_says_so_does_not_run_at_deploy(
    duly_world: Stage, language: str
) -> None:
    """W2, S2: its first time is the schedule's own, in the zone of the policy."""
    host = await duly_world.host(policy=Policy(timezone="Asia/Tokyo"))
    await host.deploy(Source(language, TEXTS[language]))  # type: ignore[arg-type]
    await host.drain()
    assert await ran(host) == ["at_once"]
    # The world begins at midnight UTC, which is nine in Tokyo.
    await duly_world.advance("23h")
    await host.drain()
    assert await ran(host) == ["at_once"]
    await duly_world.advance("1h")
    await host.drain()
    assert await ran(host) == ["at_once", "at_once", "morning"]


@pytest.mark.parametrize("language", TEXTS)
async def test_one_producer_can_be_run_now(duly_world: Stage, language: str) -> None:
    """W2, S7: the others keep their time."""
    host = await duly_world.host()
    await host.deploy(Source(language, TEXTS[language]))  # type: ignore[arg-type]
    await host.drain()
    assert await host.run_now("digest", "morning") == 1
    await host.drain()
    assert await ran(host) == ["at_once", "morning"]
