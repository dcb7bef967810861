"""Questions to language models: what is asked, what comes back, and how much of it in a day (M2).

Law 1: a question is counted before it leaves: one call, and as many tokens as it can take. What the
       answer took replaces that; where no answer came, the reservation stays.
Law 2: text that comes from outside goes in as data, in JSON, and never as an instruction (M3).
Law 3: an answer is used only if it is whole, and if it fits the schema that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from duly.model_settings import ModelSettings
from duly.rules.schedule import DAY_MS
from duly.rules.value import Json, digest, encode

DEFAULT_MODEL: Final = "default"
MESSAGES_MAX: Final = 40
QUESTION_BYTES_MAX: Final = 1024 * 1024
ANSWER_BYTES_MAX: Final = 128 * 1024
OVERHEAD_TOKENS: Final = 200  # what a service adds around the texts of a question
MODEL_DAYS: Final = 7  # of the accounts that are shown
SHOWN_CHARS: Final = 4_000  # what is kept of a question, for a person
TOKENS_MAX: Final = 10**9  # a service that says more is not believed
MILLION: Final = 1_000_000


class Purpose(StrEnum):
    """What a question is for; a model of the same name in the settings is asked, else `default`."""

    LLM = "llm"
    REPAIR = "repair"
    AGENT = "agent"
    WRITE = "write"


class Speaker(StrEnum):
    """Who says a message."""

    USER = "user"
    ASSISTANT = "assistant"


class QuestionStatus(StrEnum):
    """How far a question is: counted, answered, or without a usable answer."""

    ASKED = "asked"
    ANSWERED = "answered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation with a model."""

    speaker: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """What is asked of a model.

    `model` is a name of the settings; without one the purpose decides. With a `schema` the answer
    is JSON that fits it. `workflow_id` says whose budget pays ("": that of the host itself). Within
    a `chain` of runs the same question is asked once, and answered from the record after that.
    """

    purpose: Purpose
    instructions: str
    messages: tuple[Message, ...]
    schema: Json = None
    model: str | None = None
    workflow_id: str = ""
    run_id: str | None = None
    chain: str | None = None


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a model answered: its text, the value of it if a schema was asked for, and the cost."""

    text: str
    value: Json
    model: str
    tokens_in: int
    tokens_out: int
    cost: float
    is_recorded: bool = False


class AskModel(Protocol):
    """The one way to a language model."""

    async def ask(self, question: ModelQuestion) -> ModelAnswer:
        """Count, ask and record; raise what a connector raises where there is no answer."""


def ask_about(text: str, **more: Json) -> tuple[Message, ...]:
    """Return outside text as the data of a question: JSON has no end that it could fake (M3)."""
    data: Json = {**more, "text": text}
    written = encode(data, "text", limit_bytes=2 * QUESTION_BYTES_MAX)
    return (Message(Speaker.USER, written),)


def choose_model(question: ModelQuestion, models: Mapping[str, ModelSettings]) -> str | None:
    """Return the name of the model that a question goes to; None where there is none."""
    if question.model is not None:
        # A manifest may name a model as its service does.
        named = [name for name, each in models.items() if each.model == question.model]
        return next(iter([question.model] if question.model in models else named), None)
    for name in (question.purpose.value, DEFAULT_MODEL):
        if name in models:
            return name
    return None


def size_of(question: ModelQuestion) -> int:
    """Return the bytes of the texts of a question."""
    texts = (question.instructions, *(each.text for each in question.messages))
    return sum(len(each.encode("utf-8", "surrogatepass")) for each in texts)


def reserve_tokens(question: ModelQuestion, settings: ModelSettings) -> int:
    """Return the most tokens a question can take: a token has at least one byte."""
    schema = 0 if question.schema is None else len(str(question.schema))
    return size_of(question) + schema + OVERHEAD_TOKENS + settings.max_tokens


def identify(question: ModelQuestion, name: str, settings: ModelSettings) -> str:
    """Return the digest by which the same question to the same model is known again (M3)."""
    said: list[Json] = [[each.speaker.value, each.text] for each in question.messages]
    asked: list[Json] = [name, settings.model, question.instructions, said, question.schema]
    return digest(asked)


def day_of(now_ms: int) -> int:
    """Return the day of a moment, in UTC, as the limits of a day count."""
    return now_ms // DAY_MS


def cost_of(settings: ModelSettings, tokens_in: int, tokens_out: int) -> float:
    """Return what tokens cost, by the prices of the settings."""
    return (tokens_in * settings.price_in + tokens_out * settings.price_out) / MILLION
