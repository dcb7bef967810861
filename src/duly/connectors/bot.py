"""The Bot API of Telegram, as a host itself uses it: to ask a person, and to hear the answer.

Law 1: a request is sent once. A message whose response was lost may have been sent, and the caller
       decides what that means.
Law 2: Telegram forgets an update when a later one is asked for. So the caller asks for a later one
       only when everything that the update led to is on the disk.
Law 3: the token stands in the path of every request, and in nothing that is shown (K4).
Law 4: nothing of an update is trusted: a field that is not what it should be is not there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from duly.connectors.json_answer import encode_body, pick, read_answer
from duly.connectors.status import raise_for_change, raise_for_read
from duly.connectors.telegram import CONFLICT, STATUSES, TOKEN, URL, say_conflict, with_wait
from duly.connectors.transport import HIDDEN, Credentials, HttpRequest, Transport, add_query
from duly.errors import (
    AuthNeeded,
    ConfigError,
    Invalid,
    PermissionDenied,
    Refused,
    Transient,
    UnknownOutcome,
)
from duly.rules.url import Url, read_host, read_url
from duly.rules.value import Json

POLL_S: Final = 25  # how long Telegram waits for an update before it answers with none
POLL_MORE_S: Final = 10.0  # what a request may take besides
SEND_S: Final = 25.0
UPDATES_MAX: Final = 100  # in one answer
ANSWER_CHARS_MAX: Final = 200  # of what is shown for a moment after a press
ID_CHARS_MAX: Final = 100
WANTED: Final = ("message", "callback_query")
NUMBER_MAX: Final = 2**53


@dataclass(frozen=True, slots=True)
class Button:
    """A button below a message: it sends `data`, or leads to `url`."""

    label: str
    data: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class BotSign:
    """A message in a private chat, or a press on a button; None where it is something else.

    `press` is the id by which Telegram wants an answer to a press.
    """

    number: int
    account: str | None = None
    text: str | None = None
    press: str | None = None
    data: str | None = None


class BotApi:
    """One bot; `find_token` is asked at every request."""

    def __init__(
        self,
        find_token: Callable[[], str | None],
        *,
        name: str,
        url: str = URL,
        allow: Sequence[str] = (),
        ca: Path | None = None,
    ) -> None:
        self._find_token = find_token
        self._name = name
        try:
            self._base = read_url(url)
            allowed = [read_host(each, path="allow") for each in allow]
        except Invalid as error:
            raise ConfigError(str(error)) from None
        self._transport = Transport(allow=allowed, ca=ca)

    async def get_updates(self, offset: int | None, *, wait_s: int = POLL_S) -> tuple[BotSign, ...]:
        """Wait for updates; with an offset Telegram forgets all before it (law 2)."""
        fields = [("limit", str(UPDATES_MAX)), ("timeout", str(wait_s))]
        fields.append(("allowed_updates", json.dumps(WANTED)))
        if offset is not None:
            fields.append(("offset", str(offset)))
        request = self._request("GET", add_query(self._method("getUpdates"), fields))
        response = with_wait(
            await self._transport.read(
                request, timeout_s=wait_s + POLL_MORE_S, may_ask=lambda url: False
            )
        )
        if response.status == CONFLICT:
            raise Transient(f"{request.shown}: {say_conflict(response)}")
        if not raise_for_read(response, request.shown, self._name):
            raise AuthNeeded(f"{self._name}: Telegram knows no bot with this token.")
        found = pick(read_answer(response, request.shown, is_change=False), "result")
        if not isinstance(found, list):
            raise Transient(f"{request.shown}: the server answered without updates.")
        read = (read_update(each) for each in found)
        return tuple(sorted((each for each in read if each), key=lambda each: each.number))

    async def send(self, account: str, text: str, buttons: Sequence[Button] = ()) -> str:
        """Send plain text to an account; return the id of the message."""
        made = await self._change("sendMessage", _message(account, text, buttons))
        number = pick(made, "result.message_id")
        if pick(made, "ok") is not True or not isinstance(number, int):
            raise UnknownOutcome(f"{self._name}: the server answered without a message.")
        return str(number)

    async def edit(
        self, account: str, message: str, text: str, buttons: Sequence[Button] = ()
    ) -> bool:
        """Put another text into a message; return False if there is nothing to change any more."""
        body = {**_message(account, text, buttons), "message_id": int(message)}
        try:
            await self._change("editMessageText", body)
        except (Refused, PermissionDenied):
            return False  # it was deleted, says this already, or the account has left
        return True

    async def answer(self, press: str, text: str) -> None:
        """Show a text to the account that pressed a button."""
        body: dict[str, Json] = {"callback_query_id": press, "show_alert": True}
        await self._change("answerCallbackQuery", {**body, "text": text[:ANSWER_CHARS_MAX]})

    async def _change(self, method: str, body: Mapping[str, Json]) -> Json:
        kind, data = encode_body(dict(body), is_form=False)
        request = self._request("POST", self._method(method), {"Content-Type": kind}, data)
        response = with_wait(await self._transport.change(request, timeout_s=SEND_S))
        raise_for_change(response, request.shown, self._name, is_alone=True, own=STATUSES)
        return read_answer(response, request.shown, is_change=True)

    def _method(self, name: str) -> Url:
        base = self._base
        path = f"{base.path.rstrip('/')}/bot{HIDDEN}/{name}"
        return Url(base.scheme, base.host, base.port, path, "")

    def _request(
        self, method: str, url: Url, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpRequest:
        token = self._find_token()
        if token is None or not TOKEN.fullmatch(token):
            what = "has no token" if token is None else "has a token that is none of a bot"
            raise AuthNeeded(
                f"The channel {self._name} {what}. Ask @BotFather for one and set it as the secret"
                f" {self._name}.token of channels."
            )
        credentials = Credentials(self._base.origin, path=token)
        return HttpRequest(method, url, headers or {}, body, credentials)


def read_update(value: Any) -> BotSign | None:
    """Read what is known of an update; None if it has not even a number (law 4)."""
    number = pick(value, "update_id")
    if not _is_number(number):
        return None
    press, sender = pick(value, "callback_query.id"), pick(value, "callback_query.from.id")
    if isinstance(press, str) and 0 < len(press) <= ID_CHARS_MAX and press.isprintable():
        data = pick(value, "callback_query.data")
        account = str(sender) if _is_number(sender) else None
        return BotSign(number, account, None, press, data if isinstance(data, str) else None)
    sender, text = pick(value, "message.from.id"), pick(value, "message.text")
    is_private = pick(value, "message.chat.type") == "private"
    is_own = _is_number(sender) and pick(value, "message.chat.id") == sender
    if is_private and is_own and isinstance(text, str):
        return BotSign(number, str(sender), text)
    return BotSign(number)


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 < value < NUMBER_MAX


def _message(account: str, text: str, buttons: Sequence[Button]) -> dict[str, Json]:
    rows: list[Json] = [[_button(each) for each in buttons]] if buttons else []
    return {
        "chat_id": int(account),
        "text": text,
        "link_preview_options": {"is_disabled": True},
        "reply_markup": {"inline_keyboard": rows},
    }


def _button(button: Button) -> Json:
    if button.url:
        return {"text": button.label, "url": button.url}
    return {"text": button.label, "callback_data": button.data}
