"""A bot on two hosts of one server: one asks and listens, and another when it is gone (H8, G11)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.bus.telegram import TelegramChannel
from duly.desk import asker
from duly.host import Host
from tests.connectors.chat_server import TOKEN, ChatServer
from tests.desk.phone import ADA, ASKED, PHONE, SOURCE, Phone, Post
from tests.postgres.stand import KEY, SHORT, database
from tests.postgres.world import Place


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_KEY", KEY)
    monkeypatch.setattr(asker, "LOOK_S", 0.05)
    monkeypatch.setattr(asker, "LOOK_AT_LEAST_S", 0.2)
    monkeypatch.setattr(asker, "PAUSE_S", 0.05)


@pytest.fixture
def url(place: Place) -> Iterator[str]:
    with database(place) as made:
        yield made


async def test_one_host_of_a_fleet_listens_and_another_takes_over(url: str, tmp_path: Path) -> None:
    """H8, G11: no 409, one message, one decision; also by a host that was not the one asking."""
    (tmp_path / "chat").mkdir()
    with ChatServer(tmp_path / "chat") as chat:
        stand = Phone(tmp_path, chat, url)

        def make() -> Host:
            channel: Any = TelegramChannel(url=f"{chat.url}/a", allow=["127.0.0.1"], name=PHONE)
            post = Post(stand.sent)
            return Host(url, connectors=[post], channels=[channel], policy=ASKED, fleet=SHORT)

        async with AsyncExitStack() as first, AsyncExitStack() as second:
            one = await first.enter_async_context(make())
            two = await second.enter_async_context(make())
            await one.set_secret("channels", f"{PHONE}.token", TOKEN)
            await one.deploy(duly.Source("python", SOURCE), grant=True)
            await first.enter_async_context(one.running())
            await stand.until(lambda: chat.polls)
            await second.enter_async_context(two.running())
            stand.host = two  # it does not listen, and makes the code all the same
            await stand.pair()
            await stand.publish()
            buttons = chat.buttons(await stand.question())
            assert [each.problem for each in await one.channels()] == [None]
            assert chat.conflicts == 0
            await first.aclose()
            assert await stand.press(buttons["Yes"]) == "Yes. Exactly this call is sent, once."
            await stand.until(lambda: stand.sent and chat.edits)
            assert len(stand.questions(ADA)) == 1
            acts = [each.by for each in await two.actions() if each.verb == "approve"]
            assert acts == ["telegram:Ada (7001)"]
    assert len(stand.sent) == 1
