"""The ways to a person: channels, and the one handler that speaks through them (B9).

Law 1: what is told to a person was an event on the bus before. The event is what was said, and its
       delivery is how that ended: sent, waiting for the next attempt, or dead. There is no second
       record beside the two that could disagree with them (B4).
Law 2: a text that could not be sent is never dropped: no text, no such channel and no channel at
       all fail the delivery with their sentence.
Law 3: no error, and no line of a log, holds a token or the address a text was posted to (A5).
Law 4: a text is not trusted. Its control characters are made visible before a channel gets it, and
       a channel obeys nothing in it (G9).
Law 5: channels do not wait for each other, and one send has 30 s. So every channel but the first
       has a subscriber of its own, which gets what names it; the first one's gets all the rest.

A delivery that failed is tried again, so a text can arrive twice: when the other side took it and
its answer was lost.
"""

from __future__ import annotations

import asyncio
import os
import select
import ssl
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from inspect import iscoroutinefunction
from threading import Thread
from typing import Final, Protocol, TextIO, runtime_checkable
from urllib.parse import urlsplit

from duly.bus.asking import AskingChannel
from duly.bus.heartbeat import BeatingChannel
from duly.connectors.reach import make_context
from duly.errors import Invalid, NotSent, Refused, Transient, UnknownOutcome, short
from duly.rules.announcement import Topic
from duly.rules.declaration import NAME
from duly.rules.delivery import OWN_SOURCE, Event
from duly.rules.manifest import BuiltIn
from duly.rules.shown import visible
from duly.rules.value import DEFAULT_LIMITS, nearest

NOTIFY_TOPIC: Final = "user.notify"  # what `ExtensionContext.notify_user` emits
SEND_S: Final = 30.0  # how long one send may take, on every channel (B9)
WEBHOOK_TIMEOUT_S: Final = 10.0
TERMINAL_BYTES: Final = 256  # what a terminal that can be written to takes without waiting
SUCCESS: Final = range(200, 300)
REDIRECT: Final = range(300, 400)
REFUSAL: Final = range(400, 500)
COME_BACK: Final = frozenset({408, 425, 429})


@runtime_checkable
class Channel(Protocol):
    """A way to a person: a name to call it by, and how a text is sent.

    `to` is for whom it is, where a channel serves several. Raise when it was not sent.
    """

    name: str

    async def send(self, text: str, *, to: str | None = None) -> None:
        """Send a text; return when the other side has it."""


class Channels:
    """The channels of one host; the first one is the default."""

    def __init__(self, channels: Iterable[Channel] = ()) -> None:
        found: dict[str, Channel] = {}
        for channel in channels:
            name = _name_of(channel)
            if name in found:
                raise Invalid(code="name_twice", path="channels", facts={"name": name})
            found[name] = channel
        self.beating: tuple[BeatingChannel, ...] = tuple(
            each for each in found.values() if isinstance(each, BeatingChannel)
        )
        beats = {each.name for each in self.beating}
        # What carries no text is no way to a person, and never the default.
        self._channels = {name: each for name, each in found.items() if name not in beats}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the channels, the default one first."""
        return tuple(self._channels)

    @property
    def all(self) -> tuple[Channel, ...]:
        """The channels, the default one first."""
        return tuple(self._channels.values())

    def subscriber_of(self, name: str) -> str:
        """Return the subscriber that is called for what needs a person over this channel (B9)."""
        base = f"{OWN_SOURCE}:{Topic.NEEDS_ATTENTION}:{BuiltIn.NOTIFY_USER}"
        return base if name == self.names[0] else f"{base}.{name}"

    def find(self, channel_id: object = None) -> Channel:
        """Return the channel of this name, or the default one; there may be none."""
        if not self._channels:
            raise Invalid(code="no_channels", path="channel_id")
        if channel_id is None:
            return next(iter(self._channels.values()))
        if not isinstance(channel_id, str) or channel_id not in self._channels:
            raise Invalid(
                code="no_channel",
                path="channel",
                subject=short(channel_id),
                facts=nearest(str(channel_id), self._channels),
            )
        return self._channels[channel_id]

    async def notify_user(self, event: Event) -> None:
        """Send the event's text to its channel, or to the default one (B9)."""
        text = event.payload.get("text")
        if not isinstance(text, str) or not text.strip():
            raise Invalid(
                code="no_text", path="payload.text", facts={"event": event.id, "topic": event.topic}
            )
        user_id = event.payload.get("user_id")
        channel = self.find(event.payload.get("channel_id"))
        if isinstance(channel, AskingChannel) and await channel.heed(event):
            return
        to = user_id if isinstance(user_id, str) else None
        await channel.send(visible(text, is_block=True), to=to)


def _name_of(channel: object) -> str:
    """Check what a channel is before anything depends on it."""
    name = getattr(channel, "name", None)
    most = DEFAULT_LIMITS.name_chars
    if isinstance(channel, type) or not callable(getattr(channel, "send", None)):
        raise Invalid(code="not_channel", path="channels", subject=repr(channel))
    if not iscoroutinefunction(channel.send):  # type: ignore[attr-defined]  # it has one, see above
        # It would send, then fail because its result cannot be awaited, and so send every time.
        kind = type(channel).__name__
        raise Invalid(code="not_async", path="channels", subject=f"{kind}.send")
    if not isinstance(name, str) or NAME.fullmatch(name) is None or len(name) > most:
        raise Invalid(
            code="not_name",
            path="channels",
            subject=f"{type(channel).__name__}.name",
            facts={"given": short(name), "most": most},
        )
    return name


class TerminalChannel:
    """Writes each text to a stream, standard output unless told otherwise.

    duly.Host("sqlite:///duly.db", channels=[duly.TerminalChannel()])
    """

    def __init__(self, stream: TextIO | None = None, *, name: str = "terminal") -> None:
        self.name = name
        self._stream = stream
        self._writing: asyncio.Future[None] | None = None

    async def send(self, text: str, *, to: str | None = None) -> None:
        """Write the text; what would steer a terminal is shown instead of sent to it."""
        # Read anew each time: a test that captures the output puts another stream there.
        stream = self._stream or sys.stdout
        whole = f"{to}: {text}" if to else text
        line = _lines(whole, stream.encoding or "utf-8") + "\n"

        def write() -> None:
            stream.write(line)
            stream.flush()

        while self._writing is not None and not self._writing.done():
            await asyncio.wait((self._writing,))
        if _may_block(stream, len(line.encode(stream.encoding or "utf-8"))):
            self._writing = _in_thread(write)
            await asyncio.shield(self._writing)
        else:
            write()


def _may_block(stream: TextIO, count: int) -> bool:
    """Tell whether writing so many bytes may wait for a reader: a pipe, or a stopped terminal."""
    try:
        number = stream.fileno()
        mode = os.fstat(number).st_mode
    except (OSError, ValueError, AttributeError):
        return False  # it is in memory
    if stat.S_ISREG(mode):
        return False
    room = TERMINAL_BYTES if stat.S_ISCHR(mode) else select.PIPE_BUF
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    return count > room or not poll.poll(0)


def _in_thread(work: Callable[[], None]) -> asyncio.Future[None]:
    """Do something in a thread that keeps no program from ending, however long it waits."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def end(error: Exception | None) -> None:
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
            done.exception()  # its sender may have given up since

    def run() -> None:
        raised = None
        try:
            work()
        except Exception as error:
            raised = error
        with suppress(RuntimeError):  # the loop is closed, and nothing waits any more
            loop.call_soon_threadsafe(end, raised)

    Thread(target=run, name="duly-terminal", daemon=True).start()
    return done


def _lines(text: str, encoding: str) -> str:
    """Indent further lines, so that none looks like another's; say nothing the stream cannot."""
    whole = visible(text, is_block=True).replace("\n", "\n  ")
    return whole.encode(encoding, "backslashreplace").decode(encoding)


class WebhookChannel:
    """Posts each text as JSON, `{"text": …}`, as chats take it.

    duly.WebhookChannel("https://chat.example.com/hooks/7", token=lambda: os.environ["CHAT_TOKEN"])

    The token is asked for at every send and goes into the header, `Authorization: Bearer …` unless
    told otherwise. Redirects are not followed: the token is for the host it was given for.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "webhook",
        token: Callable[[], str] | None = None,
        header: str = "Authorization",
        timeout_s: float = WEBHOOK_TIMEOUT_S,
    ) -> None:
        self.name = name
        self._url = url
        self._shown = _shown(url)
        self._token = token
        self._header = header
        if not 0 < timeout_s <= SEND_S:
            most = f"{SEND_S:g}"
            raise Invalid(
                code="out_of_range", path="timeout_s", facts={"more_than": 0, "most": most}
            )
        self._timeout_s = timeout_s
        self._context: ssl.SSLContext | None = None

    async def send(self, text: str, *, to: str | None = None) -> None:
        """Post the text; only an answer of 200 to 299 means that it was taken."""
        body = {"text": text} if to is None else {"text": text, "to": to}
        headers = self._headers()
        try:
            async with asyncio.timeout(self._timeout_s):
                status = await self._post(body, headers)
        except TimeoutError:
            raise UnknownOutcome(
                f"{self._shown} gave no answer in {self._timeout_s:g} s. It may have the text."
            ) from None
        self._judge(status)

    def _headers(self) -> dict[str, str]:
        if self._token is None:
            return {}
        try:
            token: object = self._token()
        except Exception as error:
            # What it says may be what it knows.
            kind = type(error).__name__
            raise NotSent(f"The token for {self._shown} could not be read ({kind}).") from None
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise NotSent(f"The token for {self._shown} is no line of plain text.")
        is_bearer = self._header.lower() == "authorization" and " " not in token
        return {self._header: f"Bearer {token}" if is_bearer else token}

    async def _post(self, body: dict[str, str], headers: dict[str, str]) -> int:
        """Post JSON and return the status.

        The transport is asked directly: a client would write the address into the log, follow what
        the environment says, and read an answer of any length.
        """
        import httpx2  # late: a host without a webhook does not wait for it

        limits = httpx2.Timeout(self._timeout_s).as_dict()
        try:
            request = httpx2.Request(
                "POST", self._url, json=body, headers=headers, extensions={"timeout": limits}
            )
            if self._context is None:
                self._context = make_context(None)
            # Neither the certificates nor a proxy that the environment names are used (K3).
            way = httpx2.AsyncHTTPTransport(verify=self._context, trust_env=False)
            async with way as transport:
                response = await transport.handle_async_request(request)
                await response.aclose()
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL):
            raise NotSent(f"{self._shown} could not be reached. Nothing was sent.") from None
        except httpx2.TimeoutException:
            raise TimeoutError from None
        except (httpx2.HTTPError, OSError, ValueError) as error:
            kind = type(error).__name__  # what it says may be what must not be seen
            raise Transient(f"{self._shown} broke off ({kind}). It may have the text.") from None
        return response.status_code

    def _judge(self, status: int) -> None:
        """Return if the text was accepted; else raise with the status."""
        if status in SUCCESS:
            return
        if status in REDIRECT:
            raise Refused(
                f"{self._shown} answered {status}, a redirect, and none is followed. Give the"
                " address it leads to."
            )
        if status in REFUSAL and status not in COME_BACK:
            raise Refused(f"{self._shown} answered {status} and did not take the text.")
        raise Transient(f"{self._shown} answered {status}.")


def _shown(url: object) -> str:
    """Name the other side without what must not be seen: a chat's address is its password."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host = parts.hostname if parts.scheme in ("http", "https") else None
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        host = None
    if not host:
        raise Invalid(code="wrong_value", path="url", facts={"wanted": "web_address"})
    return f"{host}{port}"
