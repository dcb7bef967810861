"""Channels to people: what is sent, what counts as sent, and what is never shown."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from duly.bus.channel import (
    SEND_S,
    Channel,
    Channels,
    TerminalChannel,
    WebhookChannel,
)
from duly.errors import ConnectorError, Invalid, NotSent, Refused, Transient, UnknownOutcome
from duly.rules.delivery import Event
from tests.bus.extension.post import OK, SECRET_PATH, open_post, self_signed, status
from tests.bus.extension.stand import User
from tests.connectors.certificates import Authority

TOKEN = "xoxb-0123456789"


def event(**payload: Any) -> Event:
    return Event(7, "alert.urgent", "test", payload, 0.0)


# -- Which channel --------------------------------------------------------------------------------


async def test_a_text_goes_to_its_channel_else_to_the_first() -> None:
    """B9: payload.text to payload.channel_id, else the default channel."""
    first, second = User("first"), User("second")
    channels = Channels([first, second])
    await channels.notify_user(event(text="one"))
    await channels.notify_user(event(text="two", channel_id="second"))
    await channels.notify_user(event(text="three", channel_id=None))
    assert (first.texts, second.texts) == (["one", "three"], ["two"])


async def test_a_text_is_for_the_user_it_names() -> None:
    """B10: a channel that serves several is told for whom; anything but a text is nobody."""
    user = User()
    await Channels([user]).notify_user(event(text="one", user_id="alice"))
    await Channels([user]).notify_user(event(text="two", user_id=7))
    assert user.sent == [("one", "alice"), ("two", None)]


@pytest.mark.parametrize("payload", [{}, {"text": ""}, {"text": " \n"}, {"text": 7}])
async def test_an_event_without_a_text_fails_with_its_sentence(payload: dict[str, Any]) -> None:
    """B9: no text fails that delivery."""
    user = User()
    with pytest.raises(Invalid, match=r"Event 7 \(alert.urgent\) has no text to send"):
        await Channels([user]).notify_user(event(**payload))
    assert user.texts == []


@pytest.mark.parametrize("channel_id", ["usr", 7, ["user"], ""])
async def test_an_unknown_channel_fails_with_its_sentence(channel_id: object) -> None:
    """B9: it is not sent elsewhere instead."""
    user = User()
    with pytest.raises(Invalid, match="There is no channel"):
        await Channels([user]).notify_user(event(text="x", channel_id=channel_id))
    assert user.texts == []


def test_a_channel_whose_send_is_not_async_is_refused() -> None:
    """B9, B5: it would send, fail, and send again at every attempt."""

    class Chat:
        name = "chat"

        def send(self, text: str, *, to: str | None = None) -> None:
            """Send at once."""

    with pytest.raises(Invalid, match=r"Chat.send is not async"):
        Channels([Chat()])  # type: ignore[list-item]  # that is what it is about


async def test_no_channel_at_all_fails_with_what_to_do() -> None:
    """B9: a text is never dropped."""
    with pytest.raises(Invalid, match="Give the host a channel"):
        await Channels().notify_user(event(text="x"))


@pytest.mark.parametrize("channel", [object(), User, User("two words"), User(""), User("x" * 101)])
def test_what_is_no_channel_is_refused_at_once(channel: Any) -> None:
    """B9: before anybody depends on it."""
    with pytest.raises(Invalid):
        Channels([channel])
    Channels([User("x" * 100)])


def test_two_channels_of_one_name_are_refused() -> None:
    """B9: nobody could say which is meant."""
    with pytest.raises(Invalid, match='two of them are called "user"'):
        Channels([User(), User()])


def test_both_channels_are_channels() -> None:
    """B9: as the protocol says."""
    assert isinstance(TerminalChannel(), Channel)
    assert isinstance(WebhookChannel("https://chat.example.com"), Channel)


# -- The terminal ---------------------------------------------------------------------------------


async def test_a_text_is_a_line_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """B9: on standard output, or on the stream that was given."""
    await TerminalChannel().send("Hello")
    stream = io.StringIO()
    await TerminalChannel(stream).send("Grüße", to="alice")
    assert (capsys.readouterr().out, stream.getvalue()) == ("Hello\n", "alice: Grüße\n")


async def test_a_text_cannot_steer_the_terminal() -> None:
    """B9: what an agent or a mail wrote is shown, not obeyed."""
    stream = io.StringIO()
    await TerminalChannel(stream).send("a\x1b[2Jb\rc\x07\x9bd\u202ee\nf\tg")
    assert stream.getvalue() == "a\\x1b[2Jb\\rc\\x07\\x9bd\\u202ee\n  f   g\n"


async def test_a_text_the_terminal_has_no_letters_for_is_written_all_the_same() -> None:
    """B9: in an old terminal it looks odd, and is there."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii")
    await TerminalChannel(stream).send("Grüße")
    assert written.getvalue() == b"Gr\\xfc\\xdfe\n"


# -- The webhook ----------------------------------------------------------------------------------


async def test_a_text_is_posted_as_chats_take_it() -> None:
    """B9: JSON with the text, and the token in its header."""
    async with open_post() as post:
        channel = WebhookChannel(post.url, token=lambda: TOKEN)
        await channel.send("Grüße")
        await channel.send("Psst", to="alice")
    first, second = post.requests
    assert first.line == f"POST {SECRET_PATH} HTTP/1.1"
    assert first.body == {"text": "Grüße"}
    assert first.headers["Content-Type"] == "application/json"
    assert first.headers["Authorization"] == f"Bearer {TOKEN}"
    assert second.body == {"text": "Psst", "to": "alice"}


@pytest.mark.parametrize(
    ("header", "token", "sent"),
    [("X-Token", TOKEN, TOKEN), ("authorization", "Basic abc", "Basic abc")],
)
async def test_a_token_goes_into_the_header_that_was_named(
    header: str, token: str, sent: str
) -> None:
    """B9: as it is, unless it is a bare token for Authorization."""
    async with open_post() as post:
        await WebhookChannel(post.url, token=lambda: token, header=header).send("x")
    assert post.requests[0].headers[header] == sent


@pytest.mark.parametrize("line", ["200 OK", "201 Created", "204 No Content", "299 Fine"])
async def test_every_answer_from_200_to_299_means_that_it_was_taken(line: str) -> None:
    """B9: nothing is raised."""
    async with open_post(status(line)) as post:
        await WebhookChannel(post.url).send("x")
    assert len(post.requests) == 1


WRONG: list[tuple[str, type[ConnectorError], str]] = [
    (status("199 Odd"), ConnectorError, ""),
    (status("302 Found", "Location: http://127.0.0.1:9/elsewhere"), Refused, "302, a redirect"),
    (status("307 Temporary Redirect", "Location: /hooks/2"), Refused, "307, a redirect"),
    (status("400 Bad Request"), Refused, "answered 400 and did not take the text"),
    (status("404 Not Found"), Refused, "answered 404"),
    (status("429 Too Many Requests"), Transient, "answered 429"),
    (status("500 Internal Server Error"), Transient, "answered 500"),
    (status("503 Service Unavailable"), Transient, "answered 503"),
    ("", Transient, "broke off (RemoteProtocolError)"),
    ("HTTP/1.1 2", Transient, "broke off (RemoteProtocolError)"),
    ("Hello, this is no HTTP at all\r\n\r\n", Transient, "broke off (RemoteProtocolError)"),
    ("HTTP/1.1 999999 Far too much\r\n\r\n", Transient, "broke off (RemoteProtocolError)"),
]


@pytest.mark.parametrize(("answer", "kind", "words"), WRONG)
async def test_any_other_answer_is_a_failure_that_names_it(
    answer: str, kind: type[ConnectorError], words: str
) -> None:
    """B9: status or kind of trouble, and no redirect is followed."""
    async with open_post(answer) as post:
        with pytest.raises(kind) as caught:
            await WebhookChannel(post.url, timeout_s=5, token=lambda: TOKEN).send("x")
        assert str(caught.value).startswith(f"127.0.0.1:{post.port} ") or not words
    assert words in str(caught.value)
    assert len(post.requests) == 1


async def test_an_answer_that_never_comes_is_not_waited_for_for_ever() -> None:
    """B9: the text may have arrived, and the error says so."""
    async with open_post(None) as post:
        with pytest.raises(UnknownOutcome, match=r"gave no answer in 0.05 s. It may have the text"):
            await WebhookChannel(post.url, timeout_s=0.05).send("x")


async def test_an_answer_in_drops_is_not_waited_for_for_ever() -> None:
    """B9: the time limit is for the whole, not for each drop."""
    drops = "HTTP/1.1 200 OK\r\n" + "X-Drop: 1\r\n" * 200
    async with open_post(drops, pause_s=0.01) as post:
        with pytest.raises(UnknownOutcome, match=r"gave no answer in 0\.2 s"):
            await WebhookChannel(post.url, timeout_s=0.2).send("x")


async def test_an_answer_without_end_is_not_read() -> None:
    """B9: the status is enough; nobody fills our memory."""
    endless = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + "1\r\nx\r\n" * 1000
    async with open_post(endless) as post:
        await WebhookChannel(post.url).send("x")


async def test_the_environment_names_no_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K3: a server that only a variable vouches for gets no text."""
    authority, taken = Authority(tmp_path / "ca"), []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(await reader.readline())
        writer.close()

    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    server = await asyncio.start_server(take, "127.0.0.1", 0, ssl=authority.context("localhost"))
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotSent):
            await WebhookChannel(f"https://localhost:{port}/").send("x")
    assert taken == []


async def test_a_server_that_is_not_there_is_named() -> None:
    """B9: by host and port."""
    async with open_post() as post:
        url, shown = post.url, f"127.0.0.1:{post.port}"
    with pytest.raises(NotSent, match=rf"^{shown} could not be reached. Nothing was sent.$"):
        await WebhookChannel(url).send("x")


@pytest.mark.parametrize(
    "answer", [OK, status("500 No"), status("302 Found"), "garbage\r\n\r\n", ""]
)
async def test_neither_token_nor_address_stands_in_an_error_or_a_log(
    answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A5: not even where everything is logged."""
    caplog.set_level(logging.DEBUG)
    said = ""
    async with open_post(answer) as post:
        try:
            await WebhookChannel(post.url, token=lambda: TOKEN).send("x")
        except ConnectorError as error:
            logging.getLogger("test").exception("failed", exc_info=error)
            said = repr(error)
    assert post.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"
    for secret in (TOKEN, SECRET_PATH):
        assert secret not in said + caplog.text


def unreadable() -> str:
    raise KeyError(TOKEN)


@pytest.mark.parametrize("token", [unreadable, lambda: f"{TOKEN}\n", lambda: None, lambda: "é"])
async def test_a_token_that_cannot_be_used_sends_nothing_and_stays_hidden(token: Any) -> None:
    """A5: neither what it is nor what was raised while it was read."""
    async with open_post() as post:
        with pytest.raises(NotSent, match=r"The token for 127\.0\.0\.1:\d+ ") as caught:
            await WebhookChannel(post.url, token=token).send("x")
    assert post.requests == []
    assert TOKEN not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


async def test_a_server_that_cannot_prove_who_it_is_gets_nothing(tmp_path: Path) -> None:
    """A5: the token is for the host it was given for."""
    async with open_post(tls=self_signed(tmp_path)) as post:
        channel = WebhookChannel(post.url.replace("http:", "https:"), token=lambda: TOKEN)
        with pytest.raises(NotSent, match=r"could not be reached\. Nothing was sent"):
            await channel.send("x")
    assert post.requests == []


async def test_the_environment_does_not_send_a_text_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A5: a proxy that was set for something else does not get the token."""
    async with open_post() as post, open_post() as proxy:
        for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
        await WebhookChannel(post.url, token=lambda: TOKEN).send("x")
    assert (len(post.requests), proxy.requests) == (1, [])


@pytest.mark.parametrize(
    "url", ["", "chat.example.com", "ftp://chat.example.com", "https://", "http://a:b:c/", None]
)
def test_an_address_that_is_none_is_refused_when_the_channel_is_made(url: Any) -> None:
    """B9: and is not repeated, since it may be a password."""
    with pytest.raises(Invalid) as caught:
        WebhookChannel(url)
    assert "example" not in str(caught.value)


def test_a_time_limit_is_within_its_bounds() -> None:
    """B9: a handler has its own, which must not be the first to end."""
    WebhookChannel("https://a.example", timeout_s=SEND_S)
    for timeout_s in (SEND_S + 0.1, 0, -1, float("nan")):
        with pytest.raises(Invalid, match="timeout_s"):
            WebhookChannel("https://a.example", timeout_s=timeout_s)


def test_a_host_without_a_webhook_brings_no_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """B9: the client is imported by the first send."""
    monkeypatch.delitem(sys.modules, "httpx2", raising=False)
    WebhookChannel("https://a.example")
    assert cast(Any, sys.modules).get("httpx2") is None
