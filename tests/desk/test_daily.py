"""A line about the day, and a sign of life: both optional, each on its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from duly.bus.heartbeat import HeartbeatChannel
from duly.bus.telegram import TelegramChannel
from duly.desk import asker
from duly.errors import ConfigError
from duly.rules.schedule import DAY_MS
from tests.connectors import shop
from tests.connectors.shop import Shop
from tests.desk.phone import ADA, ASKED, PHONE, Phone, Post, phone
from tests.web.stand import Shifted

pytestmark = pytest.mark.anyio

KEY = "0123abcd-secret"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_S", "PAUSE_S", "DAILY_LOOK_S"):
        monkeypatch.setattr(asker, name, 0.02)


@pytest.fixture
async def stand(tmp_path: Path, url: str) -> AsyncIterator[Phone]:
    async with phone(tmp_path, url) as found:
        yield found


def given(stand: Phone, *channels: Any) -> dict[str, Any]:
    return {"connectors": [Post(stand.sent)], "channels": channels, "policy": ASKED}


async def test_a_line_tells_of_a_day_once(stand: Phone) -> None:
    """B9: at its minute, also after restarts, and never twice for one day."""
    clock = Shifted()

    def lines() -> list[str]:
        return [each["text"] for each in stand.chat.shown_to(ADA) if "24 hours" in each["text"]]

    def channel() -> TelegramChannel:
        return TelegramChannel(
            url=f"{stand.chat.url}/a", allow=["127.0.0.1"], name=PHONE, daily="08:30"
        )

    async with stand.serving(**given(stand, channel()), env=clock):
        await stand.pair()
        await stand.publish()
        await stand.press(stand.chat.buttons(await stand.question())["Yes"])
        await stand.until(lambda: stand.sent)
        await stand.publish(2)
        await stand.question(count=2)
        assert lines() == []  # the first day is not over
        clock.shift_ms = DAY_MS - 60_000
        await stand.until(lambda: len(lines()) == 1)
        assert lines() == ["In the last 24 hours 1 change was made; 1 thing waits for you."]
    async with stand.serving(**given(stand, channel()), env=clock):
        clock.shift_ms = 0
        polls = len(stand.chat.polls)
        await stand.until(lambda: len(stand.chat.polls) > polls)
        clock.shift_ms = 2 * DAY_MS
        await stand.until(lambda: len(lines()) == 2)
        assert lines()[1].startswith("In the last 24 hours 0 changes were made;")
    clock.close()


async def test_a_sign_of_life_is_given_while_the_host_is_well(stand: Phone, tmp_path: Path) -> None:
    """B9, K3, K4: its key is a secret, it is no default channel, and a failure is told."""
    (tmp_path / "shop").mkdir()
    with Shop(tmp_path / "shop") as watcher:
        watcher.next(shop.status(500))
        alive = HeartbeatChannel(
            f"{watcher.url}/a/text/***", every_s=10, allow=["127.0.0.1"], name="alive"
        )
        alive.every_s = 0
        terminal = TelegramChannel(url=f"{stand.chat.url}/a", allow=["127.0.0.1"], name=PHONE)
        async with stand.serving(**given(stand, alive, terminal)) as host:
            await stand.until(lambda: "has no key" in (alive.problem or ""))
            await host.set_secret("channels", "alive.key", KEY)
            await stand.until(lambda: len(watcher.asks) >= 3)
            assert watcher.asks[0].path == f"/a/text/{KEY}"
            states = {each.name: each for each in await host.channels()}
            assert KEY not in json.dumps([str(each) for each in states.values()])
            assert (states["alive"].kind, states["alive"].asks) == ("heartbeat", False)
            assert host._channels.names == (PHONE,)


@pytest.mark.parametrize(
    "bad", [{"every_s": 9}, {"every_s": 86_401}, {"every_s": 1.5}, {"method": "PUT"}, {"url": "x"}]
)
def test_a_sign_of_life_that_cannot_be_given_is_refused(bad: dict[str, Any]) -> None:
    """B9: one past each limit."""
    HeartbeatChannel("https://hc.example.com/***", every_s=10)
    with pytest.raises(ConfigError):
        HeartbeatChannel(**{"url": "https://hc.example.com/x", **bad})


async def test_a_sign_of_life_reaches_no_private_address(stand: Phone) -> None:
    """K3: unless the settings name the host."""
    alive = HeartbeatChannel("http://127.0.0.1:9/x", name="alive")
    async with stand.serving(**given(stand, alive)):
        await stand.until(lambda: "not public" in (alive.problem or ""))
