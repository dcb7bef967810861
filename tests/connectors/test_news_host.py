"""A project that reads a feed and tells a chat, and one partner by a webhook: nothing twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeAlias

import pytest

import duly
from duly.api.build import build_host
from duly.api.project import find_project
from tests.connectors import shop as double
from tests.connectors.bot_server import TOKEN, BotServer
from tests.connectors.test_feed import Press, rss
from tests.connectors.test_webhook import SECRET, Receiver

pytestmark = pytest.mark.anyio

World: TypeAlias = tuple[duly.Host, BotServer, Receiver]

SETTINGS = """
[connectors.news]
use = "feed"
url = "{press}/feed"
allow = ["127.0.0.1"]

[connectors.bot]
use = "telegram"
url = "{bot}/chat"
allow = ["127.0.0.1"]

[connectors.partner]
use = "webhook"
url = "{partner}/a/hooks"
allow = ["127.0.0.1"]
key_lifetime_s = 3600
lag_s = 0
"""
TEXT = """
from duly import workflow

flow = workflow("news", topics=["entry"])


@flow.producer(every="1h")
async def look(ctx, state):
    page = await ctx.news.items(after=(state or {}).get("cursor"))
    for entry in page["items"]:
        await ctx.publish("entry", message_id=entry["id"], title="An entry", payload=entry)
    return {"cursor": page["last_cursor"]}


@flow.consumer("entry")
class tell:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("entry", limit=1)
        if not pending:
            return {"reservations": []}
        return {
            "reservations": [{"topic": "entry", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"]["id"],
        }

    async def mutate(self, ctx, prepared):
        await CALL
"""
TELL_CHAT = 'ctx.bot.send(chat=-100123, text=prepared["data"])'
TELL_PARTNER = 'ctx.partner.send(event="entry", data={"id": prepared["data"]})'


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    for name in ("press", "bot", "partner"):
        (tmp_path / name).mkdir()
    with (
        Press(tmp_path / "press") as press,
        BotServer(tmp_path / "bot") as bot,
        Receiver(tmp_path / "partner") as partner,
    ):
        press.document = rss("b", "a")
        settings = SETTINGS.format(press=press.url, bot=bot.url, partner=partner.url)
        (tmp_path / "duly.toml").write_text(settings)
        async with build_host(find_project(str(tmp_path), {}, tmp_path)) as host:
            await host.set_secret("bot", "token", TOKEN)
            await host.set_secret("partner", "signing", SECRET)
            yield host, bot, partner


async def test_a_message_whose_answer_was_lost_waits_for_a_person(world: World) -> None:
    """L5: the chat cannot be asked, so nothing is sent again until a person has looked."""
    host, bot, _ = world
    bot.next(double.lost)
    await host.deploy(duly.Source("python", TEXT.replace("CALL", TELL_CHAT)), by="me", grant=True)
    await host.drain()
    assert [each["text"] for each in bot.orders("chat")] == ["a"]
    (row,) = await host.mutations("news")
    assert TOKEN not in repr(row)
    await host.settle(row.id, "happened", {"message_id": 1}, by="me")
    await host.drain()
    assert [each["text"] for each in bot.orders("chat")] == ["a", "b"]


async def test_a_webhook_whose_answer_was_lost_is_sent_again(world: World) -> None:
    """L7: where the receiver takes each id once."""
    host, _, partner = world
    partner.next(double.lost)
    await host.deploy(
        duly.Source("python", TEXT.replace("CALL", TELL_PARTNER)), by="me", grant=True
    )
    await host.drain()
    assert [each["body"]["data"]["id"] for each in partner.orders()] == ["a", "b"]
    first, again, other = partner.asks
    assert first.headers["webhook-id"] == again.headers["webhook-id"]
    assert (first.body == again.body, first.body == other.body) == (True, False)
