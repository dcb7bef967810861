"""What goes wrong when a language model is asked: one pair of sentences for each code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MODELS: Final[Mapping[str, tuple[str, str]]] = {
    "model_calls_used": (
        "The model {subject} was asked {calls} times today, which is the limit of this workflow.",
        "Wait until tomorrow (UTC), or raise calls_per_day of the model; then retry.",
    ),
    "model_tokens_used": (
        "A question to {subject} can take {needed} tokens; {tokens} of {tokens_max} are used.",
        "Wait until tomorrow (UTC), or raise tokens_per_day of the model; then retry.",
    ),
    "model_missing": (
        "No model is set for {subject}.",
        "Add a table [models.default] to duly.toml.",
    ),
    "model_misfit": (
        "The answer of the model {subject} does not fit what was asked for ({where}).",
        "Ask for less at once, or choose another model.",
    ),
    "model_cut": (
        "{subject}: the answer is longer than max_tokens allows.",
        "Raise max_tokens of the model, or ask for less.",
    ),
    "model_refused": (
        "{subject}: the model refused to answer.",
        "Look at the question, and ask in another way.",
    ),
}
