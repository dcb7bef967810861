"""What a send returned when it decided nothing any more, as facts (L1).

Law: each is kept once. A sentence that an older Duly kept is read as it is, in `said`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from duly.errors import Invalid
from duly.rules.schedule import moment
from duly.rules.value import Json, decode, encode
from duly.rules.word import Answer

KEPT_BYTES_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """What one send of a change returned late: which send, when, and what became of it.

    `message` is what the outside said. `said` is a sentence that an older Duly kept instead.
    """

    attempt: int = 0
    at: datetime | None = None
    answer: Answer | None = None
    message: str | None = None
    said: str | None = None

    def is_same(self, other: LateAnswer) -> bool:
        """Tell whether another one says the same of the same send, whenever it was written."""
        mine, yours = (self.attempt, self.answer), (other.attempt, other.answer)
        return mine == yours and self.message == other.message

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that a reason carries; what is not known is left out."""
        found = {
            "attempt": self.attempt,
            "at": self.at,
            "answer": None if self.answer is None else self.answer.value,
            "message": self.message,
            "said": self.said,
        }
        return {name: each for name, each in found.items() if each}


def keep_late(answers: tuple[LateAnswer, ...]) -> str:
    """Write late answers as the text a row keeps."""
    kept: list[Json] = [
        {
            "attempt": each.attempt,
            "at": None if each.at is None else round(each.at.timestamp() * 1000),
            "answer": None if each.answer is None else each.answer.value,
            "message": each.message,
            "said": each.said,
        }
        for each in answers
    ]
    return encode(kept, "late", limit_bytes=KEPT_BYTES_MAX)


def read_late(text: str | None) -> tuple[LateAnswer, ...]:
    """Read what a row keeps; a text that is no such list was kept by an older Duly."""
    if text is None:
        return ()
    try:
        kept = decode(text)
    except (Invalid, TypeError):
        kept = None
    if not isinstance(kept, list) or not all(isinstance(each, dict) for each in kept):
        return (LateAnswer(said=str(text)),)
    return tuple(_read(cast("Mapping[str, Any]", each)) for each in kept)


def _read(kept: Mapping[str, Any]) -> LateAnswer:
    at, answer = kept.get("at"), kept.get("answer")
    return LateAnswer(
        kept.get("attempt", 0),
        None if at is None else moment(at),
        None if answer is None else Answer(answer),
        kept.get("message"),
        kept.get("said"),
    )
