"""What is listed under attention without a run is told over the channels, once a beginning."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.backup_settings import BackupSettings
from duly.config import Policy, WorkflowPolicy
from duly.desk import backups
from duly.desk.alerts import tell_alerts
from duly.desk.upkeep import back_up_to
from duly.rules.alert import ALERTED, SKEW_MS, begun_at, is_new
from duly.testing import Stage
from tests.desk.stores import folder_of
from tests.engine.stand import IN, NAME, Play, flow, opened

pytestmark = pytest.mark.anyio

DAY_S = 86_400
EXPECTED = Policy(workflows={NAME: WorkflowPolicy(silent_after_days=2)})
DAILY = BackupSettings(every="1d", keep=2)


async def told(play: Play) -> list[dict[str, Any]]:
    """Look as a serving host does every hour; return all that was told since the beginning."""
    await tell_alerts(play.desk)
    found = await play.host.bus.journal(limit=100)
    told = [each.payload or {} for each in found]
    return [each for each in told if each.get("code") in ALERTED]


async def test_silence_is_told_once_and_again_when_it_began_anew(duly_world: Stage) -> None:
    """F8: once across restarts and hosts; also where nothing looked between the two."""
    play = await opened(duly_world, policy=EXPECTED)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert await told(play) == []
    await play.pass_by(2 * DAY_S + 1)
    (first,) = await told(play)
    assert first["text"] == f"{NAME}: Nothing came in for more than 2 days"
    assert (first["code"], first["workflow"], first["verbs"]) == ("silent", NAME, ["run_now"])
    together = await asyncio.gather(*(tell_alerts(play.desk) for _ in range(3)))
    assert together == [0, 0, 0]
    await play.restart(policy=EXPECTED)
    assert len(await told(play)) == 1
    await play.publish("b")
    await play.drain()
    await play.pass_by(3 * DAY_S)
    assert len(await told(play)) == 2


async def test_two_hosts_that_look_at_the_same_moment_tell_once(duly_world: Stage) -> None:
    """F8, law 1: both have read that nothing was told."""
    play = await opened(duly_world, policy=EXPECTED)
    await play.deploy(flow())
    await play.pass_by(2 * DAY_S + 1)
    assert sorted(await asyncio.gather(*(tell_alerts(play.desk) for _ in range(3)))) == [0, 0, 1]
    assert len(await told(play)) == 1


async def test_stale_inputs_are_told_once_while_one_of_them_is_left(duly_world: Stage) -> None:
    """F8, U4: a thousand that are skipped one by one are one alert."""
    play = await opened(duly_world, policy=Policy(stale_after_days=7))
    await play.deploy(flow())
    await play.host.pause(NAME)
    for each in ("a", "b"):
        await play.publish(each)
    await play.pass_by(7 * DAY_S + 1)
    assert [each["code"] for each in await told(play)] == ["stale"]
    await play.host.skip(NAME, IN, "a")
    await play.publish("c")
    await play.pass_by(DAY_S)
    assert len(await told(play)) == 1
    await play.host.skip(NAME, IN, "b")
    await play.pass_by(7 * DAY_S)
    assert [each["code"] for each in await told(play)] == ["stale", "stale"]


async def test_a_backup_that_fails_is_told_until_a_good_one(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5, F8: once across restarts; a good copy ends it, and the next failure is told again."""
    play = await opened(duly_world)
    folder = folder_of(duly_world) / "backups"
    make = back_up_to

    async def fails(*_: object) -> None:
        raise OSError("the disk is full")

    async def round_of(does: Any) -> int:
        monkeypatch.setattr(backups, "back_up_to", does)
        await play.host._make_due(DAILY, folder)
        return len(await told(play))

    assert await round_of(fails) == 1
    assert "the disk is full" in (await told(play))[0]["text"]
    await play.restart()
    assert await round_of(fails) == 1
    assert await round_of(make) == 1
    await play.pass_by(DAY_S)
    assert await round_of(fails) == 2


class Said:
    """A channel that keeps what it was given."""

    name = "said"

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def send(self, text: str, *, to: str | None = None) -> None:
        """Keep it."""
        self.texts.append(text)


async def test_a_serving_host_sends_an_alert_to_its_channel(duly_world: Stage) -> None:
    """B9, F8: without one it tells nothing, so that a channel that comes later hears of it."""
    channel = Said()
    play = await opened(duly_world, policy=EXPECTED)
    await play.deploy(flow())
    await play.pass_by(3 * DAY_S)
    async with play.host.running():
        await play.stage.advance(DAY_S)
    assert [each.topic for each in await play.host.bus.journal(limit=9)].count(
        "workflow.needs_attention"
    ) == 0
    await play.restart(policy=EXPECTED, channels=[channel])
    async with play.host.running():
        await play.stage.advance(DAY_S)
    assert channel.texts == [f"{NAME}: Nothing came in for more than 2 days"]


def test_when_something_began() -> None:
    day = 86_400_000
    assert (begun_at("silent", 5, 2), begun_at("stale", 5, 2)) == (5, 5 + 2 * day)
    assert begun_at("no_backup", 5, 0) == 0
    assert is_new(None, 0, 9)
    assert (is_new(5, 5, 9), is_new(4, 5, 9)) == (False, True)
    assert (is_new(9 + SKEW_MS, 5, 9), is_new(10 + SKEW_MS, 5, 9)) == (False, True)
