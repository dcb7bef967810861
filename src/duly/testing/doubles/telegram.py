"""Telegram's Bot API on loopback, as https://core.telegram.org/bots/api describes it.

Served are `sendMessage` and `getUpdates`. The token stands in the path. A field that the Bot API
does not know, an empty text and one of more than 4,096 characters are rejected with 400.
"""

from __future__ import annotations

from typing import Any, Final

from duly.testing.doubles.base import Rejected, ServiceAsk, ServiceDouble, ServiceReply, route
from duly.testing.doubles.moment import wall_ms
from duly.testing.doubles.shape import ANYTHING, TextOf, needed

CHAT: Final = -100123
UPDATES_MAX: Final = 100
SEND: Final = {
    "chat_id": needed(ANYTHING),
    "text": needed(TextOf(4096)),
    "disable_notification": bool,
    "link_preview_options": {"is_disabled": bool},
    "reply_parameters": {"message_id": needed(int)},
}
SAID: Final = {
    "unauthorized": (401, "Unauthorized"),
    "not_found": (404, "Not Found"),
    "unsupported_media_type": (400, "Bad Request: message text is empty"),
}


class TelegramDouble(ServiceDouble):
    """One bot for each token, in one group."""

    def new_account(self) -> dict[str, Any]:
        """Return a bot that sent nothing."""
        return {"sent": [], "updates": []}

    def effects(self, account: dict[str, Any]) -> int:
        """Count the messages that were sent."""
        return len(account["sent"])

    def rejection(self, rejected: Rejected) -> ServiceReply:
        """Spell a refusal as the Bot API does."""
        status, text = SAID.get(rejected.reason, (400, f"Bad Request: {rejected.message}"))
        return ServiceReply({"ok": False, "error_code": status, "description": text}, status)

    def write(self, account: str, text: str) -> None:
        """Let a person write to the bot."""
        updates = self.account(account)["updates"]
        number = len(updates) + 1
        chat = {"id": CHAT, "type": "group", "title": "Tea"}
        message = {"message_id": number, "date": wall_ms() // 1000, "chat": chat, "text": text}
        message["from"] = {"id": 7, "first_name": "Ada", "username": "ada"}
        updates.append({"update_id": number, "message": message})

    @route("POST", "/bot{token}/sendMessage", is_open=True, query=())
    def send(self, ask: ServiceAsk, token: str) -> ServiceReply:
        """Send a message to the group."""
        sent = self.account(self.account_of(token, ()))["sent"]
        body = self.json_of(ask, SEND)
        if body["chat_id"] != CHAT:
            raise Rejected(400, "chat", "chat not found")
        if not body["text"].strip():
            raise Rejected(400, "text", "message text is empty")
        made = {"message_id": len(sent) + 1, "date": wall_ms() // 1000, "text": body["text"]}
        sent.append({**made, "chat": {"id": CHAT, "type": "group"}})
        return ServiceReply({"ok": True, "result": sent[-1]})

    @route("GET", "/bot{token}/getUpdates", is_open=True, query=("offset", "limit", "timeout"))
    def updates(self, ask: ServiceAsk, token: str) -> ServiceReply:
        """List what waits, and forget what lies before the offset."""
        account = self.account(self.account_of(token, ()))
        least = int(ask.query.get("offset", 0))
        account["updates"] = [each for each in account["updates"] if each["update_id"] >= least]
        most = min(int(ask.query.get("limit", UPDATES_MAX)), UPDATES_MAX)
        return ServiceReply({"ok": True, "result": account["updates"][:most]})
