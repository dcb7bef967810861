"""A bot of Telegram: it cannot be asked and does not pretend, and no update is lost."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors import Telegram
from duly.connectors.registry import Registry
from duly.connectors.transport import Credentials
from duly.errors import (
    AuthNeeded,
    PermissionDenied,
    Refused,
    Transient,
    UnknownOutcome,
)
from duly.rules.schedule import DAY_MS
from duly.testing import WEB_REPLIES, ExamFailed, examine, examine_network, look_at_disk
from tests.connectors import shop as double
from tests.connectors.bot_server import TOKEN, BotServer, refuse
from tests.connectors.shop import raw
from tests.connectors.test_rest import call as make_call

pytestmark = pytest.mark.anyio

HOST = "127.0.0.1"
ARGS: dict[str, Any] = {"chat": -100123, "text": "Tea is *ready* @ada"}


class Dated(Telegram):
    """A bot whose clock the test sets."""

    at_ms = 1_767_607_200_000

    def now_ms(self) -> int:
        return self.at_ms


def connect(server: BotServer, space: str = "a", port: int = 0, kind: Any = Dated) -> Any:
    made = kind(f"http://{HOST}:{port or server.port}/{space}", allow=[HOST])
    made._vault = lambda connector, name: TOKEN
    return made


def call(**args: Any) -> duly.Call:
    return make_call(**{**ARGS, **args})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BotServer]:
    with BotServer(tmp_path) as made:
        yield made


# -- Sending --------------------------------------------------------------------------------------


async def test_a_message_is_plain_text(server: BotServer) -> None:
    """K12: no markup, and no page is fetched for a preview."""
    bot = connect(server)
    assert await bot.send(call(), **ARGS) == {"message_id": 1}
    await bot.send(call(), chat="@tea_time", text="x", silent=True, reply_to=1)
    first, second = server.orders()
    assert (first["chat_id"], first["text"]) == (-100123, ARGS["text"])
    assert "parse_mode" not in first
    assert first["link_preview_options"] == {"is_disabled": True}
    assert (second["chat_id"], second["disable_notification"]) == ("@tea_time", True)
    assert second["reply_parameters"] == {"message_id": 1}


def test_it_says_that_it_cannot_be_asked(server: BotServer) -> None:
    """L5: no key, no question; a person decides about an unknown outcome."""
    send = Registry([connect(server)]).catalog.find("telegram.send")
    assert (send.reconciles, send.idempotent) == (False, False)


@pytest.mark.parametrize(
    ("code", "said", "error", "is_sent_later"),
    [
        (400, "Bad Request: chat not found", Refused, None),
        (401, "Unauthorized", AuthNeeded, None),
        (404, "Not Found", AuthNeeded, None),
        (403, "Forbidden: bot was blocked by the user", PermissionDenied, None),
        (429, "Too Many Requests: retry after 5", Transient, 5),
        (500, "Internal Server Error", UnknownOutcome, None),
    ],
)
async def test_a_refusal_of_the_bot_api_is_understood(
    server: BotServer, code: int, said: str, error: type[Exception], is_sent_later: int | None
) -> None:
    """L4, K8: the time to wait stands in the body."""
    parameters = {"retry_after": is_sent_later} if is_sent_later else {}
    server.next(refuse(code, said, **parameters))
    with pytest.raises(error, match=said.split(":", maxsplit=1)[0]) as caught:
        await connect(server).send(call(), **ARGS)
    if is_sent_later:
        assert isinstance(caught.value, Transient)
        assert (caught.value.retry_after_s, caught.value.outcome) == (is_sent_later, "refused")
    assert server.orders() == []


@pytest.mark.parametrize(
    "manner",
    [
        double.lost,
        double.half,
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + b'{"ok": false}'),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n" + b'{"ok": true}'),
    ],
)
async def test_an_answer_that_names_no_message_leaves_it_unknown(
    server: BotServer, manner: double.Manner
) -> None:
    server.next(manner)
    with pytest.raises(UnknownOutcome):
        await connect(server).send(call(), **ARGS)


@pytest.mark.parametrize(
    "args",
    [{"text": " "}, {"text": "x" * 4097}, {"text": "😀" * 2049}, {"chat": "ada"}, {"chat": "@a/b"}],
)
async def test_what_telegram_would_refuse_is_not_sent(
    server: BotServer, args: dict[str, Any]
) -> None:
    with pytest.raises(Refused):
        await connect(server).send(call(**args), **{**ARGS, **args})
    assert server.asks == []


async def test_the_token_is_in_nothing_that_is_shown(server: BotServer) -> None:
    """K4: it stands in the path of the request, and the message says `***` there."""
    bot = connect(server)
    server.next(refuse(400, "Bad Request"))
    with pytest.raises(Refused) as caught:
        await bot.send(call(), **ARGS)
    assert server.asks[0].path == f"/a/bot{TOKEN}/sendMessage"
    assert TOKEN not in str(caught.value)
    assert "/a/bot***/sendMessage" in str(caught.value)
    assert TOKEN not in repr(bot._credentials())
    for wrong in ("", "123", f"{TOKEN}/../x", f"{TOKEN}?"):
        bot._vault = lambda connector, name, wrong=wrong: wrong
        with pytest.raises(AuthNeeded):
            await bot.send(call(), **ARGS)
    with pytest.raises(Refused):
        Credentials(server.url, path="a/b")
    assert len(server.asks) == 1


# -- Updates --------------------------------------------------------------------------------------


async def look(bot: Any, after: str | None = None) -> tuple[list[int], str, bool]:
    page = await bot.updates(after)
    ids = [int(each["id"]) for each in page.items]
    return ids, page.names["last_cursor"], page.names["has_more"]


async def test_an_update_is_read(server: BotServer) -> None:
    server.write_to_bot(5)
    server.write_to_bot(6, edited_message={"caption": "A picture", "chat": {"username": "tea"}})
    server.write_to_bot(7, poll={"id": "1"})
    message, edited, poll = (await connect(server).updates()).items
    assert message == {
        "id": "5",
        "kind": "message",
        "chat": -100123,
        "chat_title": "Tea",
        "sender": "Ada (@ada)",
        "message_id": 5,
        "sent_at": "2026-01-05T10:00:00Z",
        "text": "Hello 5",
    }
    assert (edited["text"], edited["chat_title"], edited["chat"]) == ("A picture", "@tea", None)
    assert (poll["id"], poll["kind"], poll["text"]) == ("7", "poll", "")


async def test_every_update_is_returned_and_forgotten_two_looks_later(server: BotServer) -> None:
    """K11: a run that is lost after its look finds the same updates once more."""
    for number in range(1, 181):
        server.write_to_bot(number)
    bot, after = connect(server), None
    seen: list[int] = []
    while True:
        before = [each["update_id"] for each in server.updates]
        assert set(range(1, 181)) - {*before} <= {*seen[:-50]}
        ids, after, has_more = await look(bot, after)
        assert (await look(bot, None))[0] == [each["update_id"] for each in server.updates][:50]
        seen += ids
        if not has_more:
            break
    assert seen == list(range(1, 181))
    assert await look(bot, after) == ([], after, False)
    server.write_to_bot(181)
    assert (await look(bot, after))[0] == [181]


async def test_updates_that_another_took_are_missed_aloud(server: BotServer) -> None:
    """K11: what one workflow lets Telegram forget, another never sees; its look says so."""
    mine, others = connect(server), connect(server)
    server.write_to_bot(1)
    _, after, _ = await look(mine)
    for number in (2, 3, 4):
        server.write_to_bot(number)
    theirs = None
    for number in (5, 6, 7):  # the third look lets Telegram forget what the first returned
        _, theirs, _ = await look(others, theirs)
        server.write_to_bot(number)
    page = await mine.updates(after)
    assert [each["id"] for each in page.items] == ["5", "6", "7"]
    assert str(page.names["problem"]).startswith("3 updates before these were never returned")
    page = await mine.updates(page.names["last_cursor"])
    assert page.names["problem"] is None


async def test_a_cursor_that_a_script_made_up_lets_nothing_be_forgotten(server: BotServer) -> None:
    """K5: nor one of another token; a text that is none at all is refused."""
    server.write_to_bot(1)
    bot = connect(server)
    for after in (f"9.9.{bot.at_ms}.{'0' * 32}",):
        assert (await look(bot, after))[0] == [1]
    for after in ("-1", "9", ""):
        with pytest.raises(Refused):
            await look(bot, after)
    assert all("offset" not in each.query for each in server.asks)
    assert len(server.updates) == 1


async def test_numbers_that_begin_elsewhere_after_a_quiet_week_are_found(server: BotServer) -> None:
    """K11: Telegram counts from any number then, also from a lower one."""
    bot, after = connect(server), None
    for number in (1000, 1001):
        server.write_to_bot(number)
        _, after, _ = await look(bot, after)
    server.updates.clear()
    bot.at_ms += 8 * DAY_MS
    server.write_to_bot(3)
    ids, after, _ = await look(bot, after)
    assert ids == [3]
    server.write_to_bot(4)
    assert (await look(bot, after))[0] == [4]


async def test_updates_that_go_elsewhere_are_waited_for(server: BotServer) -> None:
    server.next(
        refuse(409, "Conflict: can't use getUpdates method while webhook is active"),
        refuse(429, "Too Many Requests", retry_after=3),
        refuse(404, "Not Found"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n" + b'{"ok": true}'),
    )
    bot = connect(server)
    with pytest.raises(Transient, match="webhook is active"):
        await look(bot)
    with pytest.raises(Transient) as busy:
        await look(bot)
    assert busy.value.retry_after_s == 3
    with pytest.raises(AuthNeeded):
        await look(bot)
    with pytest.raises(Transient):
        await look(bot)


# -- The exams ------------------------------------------------------------------------------------


def count_sent(server: BotServer) -> Any:
    """Make a function that counts messages, once all that was sent was dealt with."""

    def sent(folder: Path) -> int:
        way = HTTPConnection(HOST, server.port, timeout=10)
        way.request("GET", f"/{folder.name}/bot{TOKEN}/getUpdates")
        way.getresponse().read()
        way.close()
        return len(server.orders(folder.name))

    return sent


def take_exam(folder: Path, kind: type[Telegram] = Telegram, **more: Any) -> str:
    with BotServer(folder) as server:
        report = examine_network(
            lambda here, port: connect(server, here.name, port, kind),
            "send",
            ARGS,
            server=(HOST, server.port),
            effects=count_sent(server),
            folder=folder,
            **more,
        )
    return str(report)


def test_a_send_passes_the_exam_for_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4, L5, K2: what it says is true, and it never claims to know."""
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.3)
    # The last two are no answers of the Bot API: they leave it unknown.
    said = take_exam(tmp_path, replies=WEB_REPLIES)
    assert "it was done, reconcile said Unsure" in said
    assert "reconcile said Applied" not in said


class Repeating(Telegram):
    """Sends once more after a lost answer, as most client libraries do."""

    async def send(self, call: duly.Call, **args: Any) -> Any:  # type: ignore[override]
        try:
            return await super().send(call, **args)
        except UnknownOutcome:
            return await super().send(call, **args)


class Patient(Telegram):
    """Takes a server error for a rate limit."""

    async def send(self, call: duly.Call, **args: Any) -> Any:  # type: ignore[override]
        try:
            return await super().send(call, **args)
        except UnknownOutcome as error:
            raise Transient(str(error), retry_after_s=5, outcome="refused") from error


@pytest.mark.parametrize(
    ("kind", "said"),
    [(Repeating, "there were 2 changes"), (Patient, "it said rate.limited .*and it was done")],
)
def test_a_bot_that_is_not_honest_fails_for_its_own_reason(
    tmp_path: Path, kind: type[Telegram], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4: also where there is no reconcile method that could lie."""
    monkeypatch.setattr("duly.testing.network.CUTS", 1)
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.2)
    with pytest.raises(ExamFailed, match=said):
        take_exam(tmp_path, kind)


def test_a_send_passes_the_exam_of_deaths(tmp_path: Path) -> None:
    """L4, L5, L13: killed, failed and stopped at every line of its own; it is always unsure."""
    with BotServer(tmp_path) as server:
        report = examine(
            lambda here: connect(server, here.name, kind=Telegram),
            "send",
            ARGS,
            effects=count_sent(server),
            folder=tmp_path,
            look=look_at_disk,
        )
    assert report.unsure == report.points
