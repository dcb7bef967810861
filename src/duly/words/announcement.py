"""What the host announced on its bus, in one line for its log (B10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from duly.rules.announcement import Topic
from duly.rules.shown import visible

Payload = Mapping[str, Any]

SETTLED: Final[Mapping[str, str]] = {
    "applied": "did happen, and is not made again",
    "failed": "did not happen",
    "skipped": "is skipped; whether it happened is left open",
}


def say_announcement(topic: str, payload: Payload) -> str:
    """Say what happened; of a topic without a sentence its name and its workflow."""
    told = {key: visible(value) for key, value in payload.items() if isinstance(value, str)}
    told = {"workflow": "?", **told}
    make = SENTENCES.get(topic)
    return f"{told['workflow']}: {topic}" if make is None else make(payload, told)


def _deployed(payload: Payload, told: Mapping[str, str]) -> str:
    text = f"{told['workflow']} {told.get('version')} deployed by {told.get('by', 'duly')}"
    missing = visible(", ".join(map(str, payload.get("missing") or [])))
    return f"{text}; not granted: {missing}" if missing else text


def _settled(payload: Payload, told: Mapping[str, str]) -> str:
    observed = payload.get("observed")
    tool = visible(observed["tool"]) if isinstance(observed, dict) else "a change"
    became = SETTLED.get(told.get("mutation_status", ""), "is settled")
    return f"{told['workflow']}: {tool} {became}"


SENTENCES: Final[Mapping[str, Callable[[Payload, Mapping[str, str]], str]]] = {
    Topic.DEPLOYED: _deployed,
    Topic.RUN_COMMITTED: lambda _, told: (
        f"{told['workflow']}.{told.get('handler')} committed ({told.get('outcome', 'none')})"
    ),
    Topic.NEEDS_ATTENTION: lambda _, told: f"Needs you: {told.get('text')}",
    Topic.NOTICE: lambda _, told: f"For your information: {told.get('text')}",
    Topic.RUN_FAILED: lambda _, told: (
        f"{told['workflow']}.{told.get('handler')} failed: {told.get('message', '')}"
    ),
    Topic.SETTLED: _settled,
}
