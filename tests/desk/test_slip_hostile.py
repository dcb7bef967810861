"""A Bot API that lies: it repeats a token, answers at once, forgets nothing, loses an account."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from duly.desk import asker, unreached
from duly.desk.unreached import PAUSE_MAX_MS, Unreached
from duly.errors import DulyError, PermissionDenied
from tests.connectors import shop
from tests.connectors.bot_server import refusal
from tests.connectors.chat_server import TOKEN
from tests.desk.phone import ADA, EVE, Phone, phone

pytestmark = pytest.mark.anyio

OPEN_POLLS = 4  # what may be asked while a test looks, at one a second at most


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often: a test waits for what happens, and for no clock."""
    monkeypatch.setattr(asker, "LOOK_S", 0.02)
    monkeypatch.setattr(asker, "PAUSE_S", 0.02)


@pytest.fixture
async def stand(tmp_path: Path, url: str) -> AsyncIterator[Phone]:
    async with phone(tmp_path, url) as found:
        yield found


def says(status: int, body: bytes) -> Any:
    """Answer with these bytes."""
    head = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
    return shop.raw(head + body, is_done=False)


async def test_a_server_that_repeats_the_token_shows_it_to_none(
    stand: Phone, caplog: pytest.LogCaptureFixture
) -> None:
    """A5, K4: neither the state of a channel, nor a log, nor the bus says it."""
    caplog.set_level(logging.DEBUG)
    echo = says(502, f"<html>no route for /bot{TOKEN}/getUpdates</html>".encode())
    stand.chat.on["getUpdates"] = [echo]
    async with stand.serving() as host:
        await stand.until(lambda: "[redacted]" in caplog.text)
        stand.chat.on["sendMessage"] = [shop.well] + [echo] * 2
        await stand.asked()
        assert TOKEN not in str(await host.channels())
    assert TOKEN not in caplog.text
    for file in stand.folder.rglob("duly.db*"):
        assert TOKEN.encode() not in file.read_bytes()


@pytest.mark.parametrize("what", ["nothing", "the same"])
async def test_a_server_that_does_not_wait_is_asked_seldom(
    stand: Phone, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """K8: an empty answer at once, and an update that is never forgotten, make no loop."""
    async with stand.serving():
        buttons = await stand.asked()
        press = {"id": "p", "from": {"id": ADA}, "data": buttons["No"]}
        same = {"update_id": 5000, "callback_query": press}
        said = {"ok": True, "result": [] if what == "nothing" else [same]}
        lies = [says(200, json.dumps(said).encode())] * 10_000
        pauses: list[float] = []
        monkeypatch.setattr(asker, "HEAR_S", _Noted(pauses))
        stand.chat.on["getUpdates"] = [*lies]
        stand.chat.write(EVE, "hi")  # ends the poll that waits
        await stand.until(lambda: len(pauses) >= OPEN_POLLS)
        heard = len(lies) - len(stand.chat.on["getUpdates"])
        assert heard <= len(pauses) + 2
        stand.chat.on["getUpdates"] = []


class _Noted(float):
    """A second that takes no time, and is counted."""

    def __new__(cls, pauses: list[float]) -> _Noted:
        made = super().__new__(cls, 1.0)
        made.pauses = pauses
        return made

    pauses: list[float]

    def __mul__(self, other: float) -> float:
        self.pauses.append(1.0)
        return 3600.0 * 1000


async def test_numbers_that_begin_anew_are_heard(stand: Phone) -> None:
    """G11: after a week without updates Telegram counts from another number."""
    async with stand.serving():
        buttons = await stand.asked()
        empty = says(200, b'{"ok": true, "result": []}')

        def forget(server: Any, client: Any) -> None:
            stand.chat.updates.clear()
            empty(server, client)

        stand.chat.on["getUpdates"] = [forget]
        stand.chat.write(EVE, "hi")
        await stand.until(lambda: not stand.chat.on["getUpdates"])
        await stand.until(lambda: stand.chat.polls[-1] is None)
        stand.chat._number = 10
        stand.chat.press(ADA, buttons["Yes"])
        await stand.until(lambda: stand.sent)


async def test_an_account_that_blocks_the_bot_holds_up_no_other(
    stand: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G11: the others are told once, asked, and see at once what was decided."""
    monkeypatch.setattr(unreached, "PAUSE_MS", PAUSE_MAX_MS)
    send = stand.chat._sendMessage
    is_blocked = False

    def blocked(body: dict[str, Any]) -> tuple[int, Any, str]:
        if is_blocked and body["chat_id"] == EVE:
            return refusal(403, "Forbidden: bot was blocked by the user")
        return send(body)

    monkeypatch.setattr(stand.chat, "_sendMessage", blocked)
    async with stand.serving() as host:
        await stand.pair(EVE, "Eve")
        is_blocked = True
        buttons = await stand.asked()
        await stand.until(lambda: host._channels.all[0].problem)  # type: ignore[attr-defined]
        (channel,) = await host.channels()
        assert "bot was blocked" in str(channel.problem)
        (told,) = host._channels.all
        before = len(stand.chat.shown_to(ADA))
        await told.send("A line for all.")
        assert len(stand.chat.shown_to(ADA)) == before + 1
        with pytest.raises(DulyError, match="blocked"):
            await told.send("A line for one.", to=str(EVE))
        stand.chat.press(ADA, buttons["Yes"])
        await stand.until(lambda: stand.sent and stand.chat.edits)


def test_a_channel_has_failed_when_no_account_takes_anything() -> None:
    """G11: pauses grow to a limit; what is not paired any more is forgotten."""
    missed, error = Unreached(), PermissionDenied("blocked")
    missed.miss("1", error, 0)
    assert missed.list_due(("1", "2"), 0) == ("2",)
    assert (missed.are_all(("1", "2")), missed.are_all(("1",))) == (False, True)
    now_ms = 0
    for _ in range(20):
        now_ms += PAUSE_MAX_MS
        assert missed.list_due(("1", "2"), now_ms) == ("2", "1")
        missed.miss("1", error, now_ms)
    assert missed.list_due(("1",), now_ms + PAUSE_MAX_MS - 1) == ()
    assert missed.last() is error
    missed.reach("1")
    assert missed.last() is None
    missed.miss("1", error, 0)
    assert missed.list_due(("2",), 0) == ("2",)
    assert missed.last() is None
