"""A Bot API server with buttons: several connections at once, long polls, and presses.

It keeps the state of every message, so that a test sees what a person would see. What it does wrong
is decided by the test.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.connectors.bot_server import TOKEN, BotServer, refusal
from tests.connectors.shop import WAIT_S, Ask, Manner, answer, well

LIMIT_MAX = 100
HANGS_S = 60.0  # only ends what hangs


class ChatServer(BotServer):
    """A bot, its chats, and the people in them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.messages: dict[int, dict[str, Any]] = {}
        self.answers: list[tuple[str, str]] = []
        self.edits: list[tuple[int, str]] = []
        self.polls: list[int | None] = []
        self.on: dict[str, list[Manner]] = {}  # how the next requests of a method are served
        self.repeats = 0  # how often each update is returned once more
        self._changed = threading.Condition()
        self._poller = 0
        self.conflicts = 0  # polls that another one ended
        self._number = 1000
        self._is_over = False

    # -- What a test does and sees ----------------------------------------------------------------

    def write(self, account: int, text: str, *, chat: str = "private", chat_id: int = 0) -> int:
        """Let an account write to the bot; to pair it, the code."""
        message = {
            "message_id": 1,
            "chat": {"id": chat_id or account, "type": chat},
            "from": {"id": account, "first_name": "Ada"},
            "text": text,
        }
        return self.put(message=message)

    def press(self, account: int, data: Any, *, press: str = "") -> int:
        """Let an account press a button."""
        number = self._number + 1
        return self.put(
            callback_query={
                "id": press or f"press-{number}",
                "from": {"id": account},
                "data": data,
                "message": {"message_id": 1},
            }
        )

    def put(self, **parts: Any) -> int:
        """Let something happen."""
        with self._changed:
            self._number += 1
            self.updates.append({"update_id": self._number, **parts})
            self._changed.notify_all()
            return self._number

    def until(self, is_so: Callable[[], Any], what: str = "") -> Any:
        """Wait until something is so; the limit only ends what hangs."""
        end = time.monotonic() + HANGS_S
        with self._changed:
            while not (found := is_so()):
                assert time.monotonic() < end, what or "it did not happen"
                self._changed.wait(0.05)
        return found

    def shown_to(self, account: int) -> list[dict[str, Any]]:
        """Return the messages of a chat as they stand now."""
        return [each for each in [*self.messages.values()] if each["chat_id"] == account]

    def buttons(self, message: dict[str, Any]) -> dict[str, str]:
        """Return the buttons of a message."""
        rows = message.get("reply_markup", {}).get("inline_keyboard", [])
        found = (each for row in rows for each in row)
        return {each["text"]: each.get("callback_data") or each["url"] for each in found}

    def __exit__(self, *error: Any) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        super().__exit__(*error)

    # -- In its threads -----------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.settimeout(WAIT_S)
            threading.Thread(target=self._serve_one, args=(client,), daemon=True).start()

    def _serve_one(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            ask = self.hear(client)
            if ask is None:
                return
            manners = self.on.get(ask.path.rpartition("/")[2]) or [well]
            manner = manners.pop(0)
            manner(_Heard(self, ask), client)  # type: ignore[arg-type]  # what a manner uses of it

    def do(self, ask: Ask) -> tuple[int, Any, str]:
        _, _, bot, method = ask.path.split("/")
        if bot != f"bot{TOKEN}":
            return refusal(401, "Unauthorized")
        if method == "getUpdates":
            return self._wait_for_updates(ask)
        body = json.loads(ask.body)
        with self._changed:
            try:
                done: tuple[int, Any, str] = getattr(self, f"_{method}")(body)
                return done
            finally:
                self._changed.notify_all()

    def _wait_for_updates(self, ask: Ask) -> tuple[int, Any, str]:
        offset = int(ask.query["offset"]) if "offset" in ask.query else None
        with self._changed:
            self._poller += 1
            own = self._poller
            self.polls.append(offset)
            self._changed.notify_all()
            if offset is not None:
                self.updates = [each for each in self.updates if each["update_id"] >= offset]
            end = time.monotonic() + int(ask.query.get("timeout", 0))
            while not self.updates and own == self._poller and not self._is_over:
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            if own != self._poller:
                self.conflicts += 1
                return refusal(409, "Conflict: terminated by other getUpdates request")
            found = self.updates[: int(ask.query.get("limit", LIMIT_MAX))]
            return 200, {"ok": True, "result": found * (1 + self.repeats)}, ""

    def _sendMessage(self, body: dict[str, Any]) -> tuple[int, Any, str]:  # noqa: N802  # theirs
        number = len(self.messages) + 1
        units = len(body["text"].encode("utf-16-le")) // 2
        if not 1 <= units <= 4096:
            return refusal(400, "Bad Request: message is too long")
        self.messages[number] = {**body, "message_id": number, "first_text": body["text"]}
        return 200, {"ok": True, "result": {"message_id": number}}, ""

    def _editMessageText(self, body: dict[str, Any]) -> tuple[int, Any, str]:  # noqa: N802  # theirs
        number = body["message_id"]
        if number not in self.messages:
            return refusal(400, "Bad Request: message to edit not found")
        self.edits.append((number, body["text"]))
        self.messages[number] = {**self.messages[number], **body}
        return 200, {"ok": True, "result": self.messages[number]}, ""

    def _answerCallbackQuery(self, body: dict[str, Any]) -> tuple[int, Any, str]:  # noqa: N802
        self.answers.append((body["callback_query_id"], body["text"]))
        return 200, {"ok": True, "result": True}, ""


class _Heard:
    """The server, for a manner, after the request was heard."""

    def __init__(self, server: ChatServer, ask: Ask) -> None:
        self._server = server
        self._ask = ask

    def hear(self, client: socket.socket) -> Ask:
        return self._ask

    def do(self, ask: Ask) -> tuple[int, Any, str]:
        return self._server.do(ask)


__all__ = ["TOKEN", "ChatServer", "answer"]
