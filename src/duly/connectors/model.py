"""The way to one language model over HTTP, in the two formats that services speak (M2, K2–K6).

Law 1: a question is one request and is sent once. Nothing is retried here, and no redirect is
       followed: what asks counts its requests, and a hidden one would be missing (M2).
Law 2: nothing is offered to the model but text. No tools, no files, no addresses, no memory (M3).
Law 3: only a whole answer is an answer. One that was cut, filtered or refused is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from duly.connectors.json_answer import encode_body, pick
from duly.connectors.response import HttpResponse
from duly.connectors.rest import Auth, Rest
from duly.connectors.status import raise_for_read
from duly.connectors.transport import Transport
from duly.errors import Refused, Transient
from duly.model_settings import ModelSettings
from duly.rules.model import ANSWER_BYTES_MAX, TOKENS_MAX, ModelQuestion
from duly.rules.url import Url, read_host
from duly.rules.value import Json

PREFIX: Final = "model_"
VERSION: Final = "2023-06-01"  # of Anthropic's API, which every request names
RESPONSE_BYTES_MAX: Final = 2 * 1024 * 1024
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
# OpenAI itself takes the newer name of the limit alone; other servers know the older one.
NEWER_HOSTS: Final = ("api.openai.com",)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a service answered; `tokens` are None where it does not say."""

    text: str
    tokens_in: int | None
    tokens_out: int | None


@dataclass(frozen=True, slots=True)
class WireFormat:
    """One of the formats: where a question goes, how it is written, and how the answer is read."""

    path: str
    write: Callable[[ModelQuestion, ModelSettings, Url], dict[str, Json]]
    read: Callable[[Json, str], ModelReply]
    auth: Callable[[str], Auth]
    headers: Mapping[str, str]


class Model(Rest):
    """One model of the settings. It has no tools; scripts reach it through `llm` alone."""

    def __init__(self, name: str, settings: ModelSettings) -> None:
        self.name = f"{PREFIX}{name}"
        self.settings = settings
        self.format = FORMATS[settings.api]
        auth = None if settings.key is None else self.format.auth(settings.key)
        ca = None if settings.ca is None else Path(settings.ca)
        super().__init__(
            settings.url,
            auth=auth,
            headers=self.format.headers,
            allow=(*settings.allow, *LOOPBACK),
            ca=ca,
        )
        hosts = [read_host(each, path="allow") for each in (*settings.allow, *LOOPBACK)]
        self.transport = Transport(allow=hosts, ca=ca, body_bytes_max=RESPONSE_BYTES_MAX)

    async def exchange(self, question: ModelQuestion) -> HttpResponse:
        """Send a question once and return the response, of any status."""
        body = self.format.write(question, self.settings, self.base)
        kind, data = encode_body(body, is_form=False)
        request = self._request("POST", self._at(self.format.path), {"Content-Type": kind}, data)
        return await self.transport.change(request, timeout_s=self.settings.timeout_s)

    async def read_reply(self, response: HttpResponse) -> ModelReply:
        """Return the answer that a response holds; raise what it says instead."""
        what = f"POST {self._at(self.format.path).shown}"
        if not raise_for_read(response, what, self.name):
            raise Refused(f"{what}: there is no such model, or no such address.")
        reply = self.format.read(await self.read_json(response, what), what)
        if len(reply.text.encode("utf-8", "surrogatepass")) > ANSWER_BYTES_MAX:
            raise Refused(f"{what}: the answer has more than {ANSWER_BYTES_MAX:,} bytes.")
        return reply


# -- OpenAI, and servers that speak as it does ----------------------------------------------------


def _write_openai(question: ModelQuestion, settings: ModelSettings, url: Url) -> dict[str, Json]:
    said: list[Json] = [{"role": "system", "content": question.instructions}]
    said += _spoken(question)
    limit = "max_completion_tokens" if url.host in NEWER_HOSTS else "max_tokens"
    body: dict[str, Json] = {"model": settings.model, "messages": said, "stream": False}
    body[limit] = settings.max_tokens
    if question.schema is not None:
        wanted: Json = {"name": "answer", "schema": question.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return body


def _read_openai(answer: Json, what: str) -> ModelReply:
    choice = pick(answer, "choices.0")
    refusal, text = pick(choice, "message.refusal"), pick(choice, "message.content")
    if isinstance(refusal, str) and refusal:
        raise _refused(what)
    _check_end(pick(choice, "finish_reason"), what)
    if not isinstance(text, str):
        raise Transient(f"{what}: the server answered without a text.")
    return ModelReply(
        text,
        _tokens(pick(answer, "usage.prompt_tokens")),
        _tokens(pick(answer, "usage.completion_tokens")),
    )


# -- Anthropic ------------------------------------------------------------------------------------


def _write_anthropic(question: ModelQuestion, settings: ModelSettings, url: Url) -> dict[str, Json]:
    return {
        "model": settings.model,
        "max_tokens": settings.max_tokens,
        "system": question.instructions,
        "messages": _spoken(question),
    }


def _read_anthropic(answer: Json, what: str) -> ModelReply:
    _check_end(pick(answer, "stop_reason"), what)
    blocks = pick(answer, "content")
    texts = [
        text
        for each in (blocks if isinstance(blocks, list) else ())
        if isinstance(each, dict) and each.get("type") == "text"
        if isinstance(text := each.get("text"), str)
    ]
    if not texts:
        raise Transient(f"{what}: the server answered without a text.")
    return ModelReply(
        "".join(texts),
        _tokens(pick(answer, "usage.input_tokens")),
        _tokens(pick(answer, "usage.output_tokens")),
    )


# -- Both -----------------------------------------------------------------------------------------

# How an answer ended, by the words of both services.
WHOLE: Final = frozenset({"stop", "end_turn", "stop_sequence"})
CUT: Final = frozenset({"length", "max_tokens", "model_context_window_exceeded"})
REFUSED: Final = frozenset({"content_filter", "refusal"})


def _spoken(question: ModelQuestion) -> list[Json]:
    return [{"role": each.speaker.value, "content": each.text} for each in question.messages]


def _check_end(said: Any, what: str) -> None:
    """Raise unless an answer came to its own end (law 3)."""
    reason = said if isinstance(said, str) else ""  # any JSON may stand there
    if reason in CUT:
        raise Refused(code="model_cut", subject=what)
    if reason in REFUSED:
        raise _refused(what)
    if reason not in WHOLE:
        raise Transient(f"{what}: the server does not say that its answer is whole.")


def _refused(what: str) -> Refused:
    return Refused(code="model_refused", subject=what)


def _tokens(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value <= TOKENS_MAX else None


FORMATS: Final[Mapping[str, WireFormat]] = {
    "openai": WireFormat(
        "/chat/completions",
        _write_openai,
        _read_openai,
        lambda secret: Auth("bearer", secret=secret),
        {},
    ),
    "anthropic": WireFormat(
        "/v1/messages",
        _write_anthropic,
        _read_anthropic,
        lambda secret: Auth("header", secret=secret, name="x-api-key"),
        {"anthropic-version": VERSION},
    ),
}
