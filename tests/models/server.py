"""A language model on loopback: the real wire of OpenAI and of Anthropic, and a script of answers.

Law 1: it answers what the test has written down, in this order, and nothing else. A question too
       many is an error of the test: `500`, and `surplus` counts it.
Law 2: it checks the form of a request as the service does, and answers `400` or `401` as it does.
Law 3: what it does wrong is decided by the test: a manner of `tests.connectors.shop` for the next
       connection, or an answer that is cut, refused, flattering or hostile.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duly.model_settings import ModelSettings
from tests.connectors.shop import Ask, Manner, Shop, status

KEY = "sk-loopback-0123456789abcdef"
MODEL = "scripted-1"


@dataclass(frozen=True)
class Heard:
    """One question as the model got it."""

    system: str
    messages: list[tuple[str, str]]
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def text(self) -> str:
        """The last message."""
        return self.messages[-1][1]


@dataclass(frozen=True)
class Say:
    """An answer: its text, and how it ends: `stop`, `length` or `refusal`."""

    text: str
    end: str = "stop"
    tokens: tuple[int, int] | None = (20, 7)


Line = str | Say | Callable[[Heard], str]


class ModelServer(Shop):
    """Both services at one port: `/v1/chat/completions` and `/v1/messages`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lines: list[Line] = []
        self.heard_all: list[Heard] = []
        self.surplus = 0

    def script(self, *lines: Line) -> None:
        """Say what the next questions are answered with."""
        self.lines += lines

    def settings(self, api: Any = "openai", **more: Any) -> ModelSettings:
        """Return settings that lead here."""
        url = f"{self.url}/v1" if api == "openai" else self.url
        return ModelSettings(api=api, url=url, model=MODEL, **more)

    # -- In the thread ----------------------------------------------------------------------------

    def do(self, ask: Ask) -> tuple[int, Any, str]:
        body = json.loads(ask.body)
        if ask.path == "/v1/chat/completions":
            return self._openai(ask, body)
        if ask.path == "/v1/messages":
            return self._anthropic(ask, body)
        return 404, {"error": {"message": "no such place", "type": "not_found_error"}}, ""

    def _openai(self, ask: Ask, body: dict[str, Any]) -> tuple[int, Any, str]:
        fault = self._fault(body, ask.headers.get("authorization", f"Bearer {KEY}"), "Bearer ")
        if fault is not None:
            return fault[0], {"error": {"message": fault[1], "type": "invalid_request_error"}}, ""
        if body["messages"][0]["role"] != "system" or body.get("stream"):
            return 400, {"error": {"message": "unexpected form"}}, ""
        spoken = [(each["role"], each["content"]) for each in body["messages"]]
        said = self._next(Heard(spoken[0][1], spoken[1:], body, ask.headers))
        if said is None:
            return 500, {"error": {"message": "the script is over"}}, ""
        message = {"role": "assistant", "content": said.text, "refusal": None}
        if said.end == "refusal":
            message |= {"content": None, "refusal": said.text}
        end = "stop" if said.end == "refusal" else said.end
        answer: dict[str, Any] = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1767607200,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": end}],
        }
        if said.tokens is not None:
            first, second = said.tokens
            answer["usage"] = {"prompt_tokens": first, "completion_tokens": second}
        return 200, answer, ""

    def _anthropic(self, ask: Ask, body: dict[str, Any]) -> tuple[int, Any, str]:
        fault = self._fault(body, ask.headers.get("x-api-key", KEY), "")
        if fault is None and "anthropic-version" not in ask.headers:
            fault = 400, "anthropic-version: header is required"
        if fault is None and "max_tokens" not in body:
            fault = 400, "max_tokens: field required"
        if fault is not None:
            return fault[0], {"type": "error", "error": {"message": fault[1]}}, ""
        spoken = [(each["role"], each["content"]) for each in body["messages"]]
        said = self._next(Heard(body["system"], spoken, body, ask.headers))
        if said is None:
            return 500, {"type": "error", "error": {"type": "api_error"}}, ""
        ends = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal"}
        answer: dict[str, Any] = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "text", "text": said.text}],
            "stop_reason": ends[said.end],
            "stop_sequence": None,
        }
        if said.tokens is not None:
            answer["usage"] = {"input_tokens": said.tokens[0], "output_tokens": said.tokens[1]}
        return 200, answer, ""

    def _fault(self, body: dict[str, Any], key: str, prefix: str) -> tuple[int, str] | None:
        if key != f"{prefix}{KEY}":
            return 401, "invalid key"
        if body.get("model") != MODEL:
            return 404, "no such model"
        turns = [each["role"] for each in body["messages"] if each["role"] != "system"]
        is_alternating = turns == [("user", "assistant")[at % 2] for at in range(len(turns))]
        return None if turns and is_alternating else (400, "roles must alternate")

    def _next(self, heard: Heard) -> Say | None:
        self.heard_all.append(heard)
        if not self.lines:
            self.surplus += 1
            return None
        line = self.lines.pop(0)
        if isinstance(line, Say):
            return line
        return Say(line if isinstance(line, str) else line(heard))


def over_limit(seconds: int = 20) -> Manner:
    """Be over the limit for the next request, as both services say it."""
    said = {"type": "error", "error": {"type": "rate_limit_error", "message": "Too many"}}
    return status(429, f"Retry-After: {seconds}\r\n", value=said)
