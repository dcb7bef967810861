"""A Bot API server on loopback: it speaks the documented wire, and misbehaves on command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.connectors.shop import Ask, Manner, Shop, status

TOKEN = "123456:" + "AbC_-" * 7
LIMIT_MAX = 100


class BotServer(Shop):
    """Keeps messages that were sent as files of their space, and updates that wait."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.updates: list[dict[str, Any]] = []

    def write_to_bot(self, update_id: int, **parts: Any) -> None:
        """Let something happen in a chat; without parts a person writes to the bot."""
        message = {
            "message_id": update_id,
            "date": 1767607200,
            "chat": {"id": -100123, "type": "group", "title": "Tea"},
            "from": {"id": 7, "first_name": "Ada", "username": "ada"},
            "text": f"Hello {update_id}",
        }
        self.updates.append({"update_id": update_id, **(parts or {"message": message})})

    def do(self, ask: Ask) -> tuple[int, Any, str]:
        _, space, bot, method = ask.path.split("/")
        if bot != f"bot{TOKEN}":
            return refusal(401, "Unauthorized") if ":" in bot else refusal(404, "Not Found")
        if method == "getUpdates":
            return self._get_updates(ask)
        body = json.loads(ask.body)
        if body["chat_id"] == 404:
            return refusal(400, "Bad Request: chat not found")
        sent = self.orders(space)
        made = {**body, "message_id": len(sent) + 1}
        self._keep(space, len(sent), made)
        return 200, {"ok": True, "result": made}, ""

    def _get_updates(self, ask: Ask) -> tuple[int, Any, str]:
        """Return what waits, and forget what lies before the offset."""
        offset = int(ask.query.get("offset", 0))
        self.updates = [each for each in self.updates if each["update_id"] >= offset]
        limit = min(int(ask.query.get("limit", LIMIT_MAX)), LIMIT_MAX)
        return 200, {"ok": True, "result": self.updates[:limit]}, ""


def refusal(code: int, description: str, **parameters: Any) -> tuple[int, Any, str]:
    """Spell a refusal as the Bot API does."""
    said = {"ok": False, "error_code": code, "description": description}
    return code, said | ({"parameters": parameters} if parameters else {}), ""


def refuse(code: int, description: str, **parameters: Any) -> Manner:
    """Refuse the next request."""
    _, said, _ = refusal(code, description, **parameters)
    return status(code, value=said)
