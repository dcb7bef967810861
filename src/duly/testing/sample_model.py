"""A model of a simulation: it answers in the form that was asked for, and asks no service (M10).

Law: the same question has the same answer in every run, so that two runs can be compared. Which
class it says depends on the text alone, so that several texts take several ways of a script.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from duly.rules.model import ModelAnswer, ModelQuestion
from duly.rules.model_schema import SAMPLE_TEXT, make_sample
from duly.rules.value import canonical

NAME: Final = "sample"


class SampleModel:
    """Answers every question with a sample of its schema."""

    async def ask(self, question: ModelQuestion) -> ModelAnswer:
        """Return a value that fits the schema; it costs nothing."""
        pick = int.from_bytes(sha256(question.messages[-1].text.encode()).digest()[:4], "big")
        if question.schema is None:
            return ModelAnswer(SAMPLE_TEXT, None, NAME, 0, 0, 0.0)
        value = make_sample(question.schema, pick)
        return ModelAnswer(canonical(value).decode(), value, NAME, 0, 0, 0.0)
