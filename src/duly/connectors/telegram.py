"""A bot of Telegram: it sends messages, and returns what was written to it.

    [connectors.bot]
    use = "telegram"            # then: duly secret set bot token

Law 1: the Bot API takes no key and finds no message again. So a send whose answer was lost is never
       repeated, and a person decides about it (L5).
Law 2: Telegram forgets an update when a later one is asked for. A look lets it forget only what the
       look before the last returned, and only a cursor that a look has made does that (K5, K11).
       Updates are numbered one after the other, so a look says if others were let go in between.
Law 3: the token stands in the path of every request, and in nothing that is shown (K4).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypedDict

import msgspec

from duly.connectors.base import SEND_S, Call, Page, mutation, read
from duly.connectors.clock import Timed
from duly.connectors.conflict import is_alone
from duly.connectors.json_answer import encode_body, pick
from duly.connectors.mail import plain
from duly.connectors.response import HttpResponse
from duly.connectors.rest import READ_S, Rest
from duly.connectors.status import Meaning, raise_for_change, raise_for_read
from duly.connectors.transport import HIDDEN, Credentials, add_query
from duly.errors import AuthNeeded, Refused, Transient, UnknownOutcome
from duly.rules.schedule import DAY_MS, moment
from duly.rules.url import Url
from duly.rules.value import Json

URL: Final = "https://api.telegram.org"
TOKEN: Final = re.compile(r"[0-9]{3,20}:[A-Za-z0-9_-]{20,100}")
CHAT: Final = re.compile(r"@[A-Za-z][A-Za-z0-9_]{3,31}")
TEXT_UNITS_MAX: Final = 4096  # of UTF-16
NAME_CHARS_MAX: Final = 200
PAGE: Final = 50  # half of what one answer holds: the other half was returned before
ANSWER_MAX: Final = 100
# Telegram keeps an update for a day. After a week without any, it counts from another number.
CURSOR_MS_MAX: Final = 2 * DAY_MS
CURSOR: Final = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})\.([0-9]{1,15})\.([0-9a-f]{32})")
LOST: Final = (
    "{} updates before these were never returned: another program or workflow took them, or they"
    " were older than a day"
)
MESSAGES: Final = ("message", "edited_message", "channel_post", "edited_channel_post")
CONFLICT: Final = 409
# A token that is malformed is "not found" to the Bot API.
STATUSES: Final[Mapping[int, Meaning]] = MappingProxyType({404: Meaning.AUTH})


class SentMessage(TypedDict):
    """The result of a send."""

    message_id: int


class BotUpdate(TypedDict):
    """Something that happened in a chat of the bot; `text` is empty where nothing was written."""

    id: str
    kind: str
    chat: int | None
    chat_title: str
    sender: str
    message_id: int | None
    sent_at: str | None
    text: str


@dataclass(frozen=True, slots=True)
class BotCursor:
    """How far the updates were returned: by the look before the last, and by the last, and when."""

    forgotten: int = 0
    last: int = 0
    seen_ms: int = 0

    @classmethod
    def read(cls, text: str | None, token: str, now_ms: int) -> BotCursor:
        """Read a cursor; one that no look with this token made, or an old one, begins anew."""
        found = CURSOR.fullmatch(text or "")
        if found is None:
            if text is None:
                return cls()
            raise Refused(f"after is {text[:50]!r}, which is no cursor of updates.")
        cursor = cls(*map(int, found.groups()[:3]))
        is_own = hmac.compare_digest(cursor.write(token), found[0])
        is_old = now_ms - cursor.seen_ms > CURSOR_MS_MAX
        return cursor if is_own and not is_old else cls()

    def write(self, token: str) -> str:
        """Write it for the state of a workflow, with a mark that no script can make."""
        words = f"{self.forgotten}.{self.last}.{self.seen_ms}"
        return f"{words}.{hmac.new(token.encode(), words.encode(), sha256).hexdigest()[:32]}"


class Telegram(Timed, Rest):
    """One bot; `secret` names its token, `url` a Bot API server of your own."""

    name = "telegram"

    def __init__(
        self,
        url: str = URL,
        *,
        secret: str = "token",
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "telegram",
    ) -> None:
        self.name = name
        self._secret = secret
        super().__init__(url, allow=allow, ca=None if ca is None else Path(ca))
        self._secret_names = (secret,)

    @mutation(
        noun="message",
        key_in="none",
        asked="not_at_all",
        labels={"chat": "To", "text": "Message"},
        editable=("text",),
    )
    async def send(
        self,
        call: Call,
        chat: int | str,
        text: str,
        silent: bool = False,
        reply_to: int | None = None,
    ) -> SentMessage:
        """Send a message of plain text to a chat: its number, or @name of a channel.

        Returns {message_id}.
        """
        if isinstance(chat, str) and not CHAT.fullmatch(chat):
            raise Refused("chat: write the number of a chat, or @name of a channel.")
        if not text.strip() or len(text.encode("utf-16-le")) > 2 * TEXT_UNITS_MAX:
            raise Refused(f"text: a message has 1 to {TEXT_UNITS_MAX} characters.")
        body: dict[str, Json] = {
            "chat_id": chat,
            "text": text,
            "link_preview_options": {"is_disabled": True},
        }
        if silent:
            body["disable_notification"] = True
        if reply_to is not None:
            body["reply_parameters"] = {"message_id": reply_to}
        kind, data = encode_body(body, is_form=False)
        url, head = self._method("sendMessage"), {"Content-Type": kind}
        make = partial(self._request, "POST", url, head, data)
        request, response = await self._change_signed(make, SEND_S)
        response = with_wait(response)
        alone = await is_alone(call, "POST", response, has_key=False, own=STATUSES)
        raise_for_change(response, request.shown, self.name, is_alone=alone, own=STATUSES)
        answer = await self.read_json(response, request.shown, is_change=True)
        made = pick(answer, "result.message_id")
        if pick(answer, "ok") is not True or not isinstance(made, int):
            raise UnknownOutcome(f"{request.shown}: the server answered without a message.")
        return {"message_id": made}

    @read
    async def updates(self, after: str | None = None) -> Page[BotUpdate]:
        """List what happened in the chats of the bot since, in its order.

        Returns a page of {id, kind, chat, chat_title, sender, message_id, sent_at, text}.
        """
        token = self.secret(self._secret)
        before = BotCursor.read(after, token, self.now_ms())
        fields = [("limit", str(ANSWER_MAX))]
        if before.forgotten:
            fields.append(("offset", str(before.forgotten + 1)))
        found = await self._updates(fields)
        new = sorted((each for each in found if each[0] > before.last), key=lambda each: each[0])
        page = new[:PAGE]
        cursor = BotCursor(before.last, page[-1][0], self.now_ms()) if page else before
        is_more = len(new) > PAGE or len(found) == ANSWER_MAX
        items = [_item(number, update) for number, update in page]
        lost = page[0][0] - before.last - 1 if page and before.last else 0
        names: dict[str, Json] = {"last_cursor": cursor.write(token), "has_more": is_more}
        return Page(items, **names, problem=LOST.format(lost) if lost else None)

    async def _updates(self, fields: list[tuple[str, str]]) -> list[tuple[int, dict[str, Any]]]:
        request = self._request("GET", add_query(self._method("getUpdates"), fields))
        response = with_wait(
            await self.transport.read(request, timeout_s=READ_S, may_ask=lambda url: False)
        )
        if response.status == CONFLICT:
            # Another program asks for updates, or they go to a webhook.
            raise Transient(f"{request.shown}: {say_conflict(response)}")
        if not raise_for_read(response, request.shown, self.name):
            raise AuthNeeded(
                f"{self.name}: Telegram knows no bot with this token.",
                connect=self.name,
                secret=self._secret,
            )
        result = pick(await self.read_json(response, request.shown), "result")
        if not isinstance(result, list):
            raise Transient(f"{request.shown}: the server answered without updates.")
        return [
            (each["update_id"], each)
            for each in result
            if isinstance(each, dict) and isinstance(each.get("update_id"), int)
        ]

    def _method(self, name: str) -> Url:
        return self._at(f"/bot{HIDDEN}/{name}")

    def _credentials(self) -> Credentials:
        token = self.secret(self._secret)
        if not TOKEN.fullmatch(token):
            raise AuthNeeded(
                f"{self.name}: the secret “{self._secret}” is no token of a bot. Ask @BotFather for"
                " one.",
                connect=self.name,
                secret=self._secret,
            )
        return Credentials(self.base.origin, path=token)


def with_wait(response: HttpResponse) -> HttpResponse:
    """Return a response with the time to wait, which the Bot API writes into its body (K8)."""
    if response.status // 100 == 2 or response.header("retry-after") is not None:
        return response
    wait = pick(_said(response), "parameters.retry_after")
    if not isinstance(wait, int):
        return response
    return replace(response, headers=(*response.headers, ("retry-after", str(wait))))


def say_conflict(response: HttpResponse) -> str:
    """Say why another has the updates, in the words of the server."""
    found = pick(_said(response), "description")
    return plain(found, NAME_CHARS_MAX) if isinstance(found, str) else "it is busy elsewhere."


def _said(response: HttpResponse) -> Any:
    try:
        return msgspec.json.decode(response.body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _item(number: int, update: dict[str, Any]) -> BotUpdate:
    kind = next((each for each in update if each != "update_id"), "")
    message = update.get(kind) if kind in MESSAGES else None
    chat, at = pick(message, "chat.id"), pick(message, "date")
    words = (pick(message, name) for name in ("text", "caption"))
    return {
        "id": str(number),
        "kind": plain(kind, NAME_CHARS_MAX),
        "chat": chat if isinstance(chat, int) else None,
        "chat_title": _name(pick(message, "chat")),
        "sender": _name(pick(message, "from")),
        "message_id": made if isinstance(made := pick(message, "message_id"), int) else None,
        "sent_at": _moment(at),
        "text": next((each for each in words if isinstance(each, str)), ""),
    }


def _name(person: Any) -> str:
    """Return the name of a chat or of a person, with the one that is unique."""
    given = [pick(person, name) for name in ("title", "first_name", "last_name")]
    shown = " ".join(each for each in given if isinstance(each, str))
    user = pick(person, "username")
    own = f"@{user}" if isinstance(user, str) else ""
    return plain(f"{shown} ({own})" if shown and own else shown or own, NAME_CHARS_MAX)


def _moment(seconds: Any) -> str | None:
    is_time = isinstance(seconds, int) and 0 <= seconds < 2**40
    try:
        return moment(seconds * 1000).isoformat().replace("+00:00", "Z") if is_time else None
    except (ValueError, OverflowError):
        return None
