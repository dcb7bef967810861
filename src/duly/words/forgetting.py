"""What is said before something is erased or removed: how much it is, and under which titles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from duly.words.noun import say_number
from duly.words.phrase import in_quotes

Told: TypeAlias = Mapping[str, Any]
ERASE: Final = "Erase this for good?"
REMOVE: Final = "Take it out of service for good?"
ANEW: Final = "Deployed again, it is a new workflow, which works on old message ids again."


def was_erased(sentence: str) -> str:
    """Say of an input that it was erased before, from the sentence that stands in its place."""
    return f"was {sentence[:1].lower()}{sentence[1:]}"


def say_forgettable(told: Told) -> tuple[str, ...]:
    """Say what would be erased: the input, how much came of it, and its titles."""
    where = f"{told['message_id']} in {told['topic']} of {in_quotes(told['workflow'])}"
    first = f"{in_quotes(told['title'])}: {where}."
    if told["erased"] is not None:
        first = f"{where} {was_erased(told['erased'])}. What is erased once more:"
    counts = (
        ("event", told["event_count"] - 1, " made from it", told["events"]),
        ("run", told["run_count"], "", ()),
        ("change", told["mutation_count"], "", told["changes"]),
        ("event", told["bus_event_count"], " of the bus", ()),
    )
    return (first, *(_say(*each) for each in counts if each[1]))


def say_removable(told: Told) -> tuple[str, ...]:
    """Say what ends when a workflow is taken out of service."""
    pending = say_number(sum(each["count"] for each in told["pending"]), "pending input")
    least = "At least " if any(each["is_more"] for each in told["pending"]) else ""
    return (
        f"{in_quotes(told['name'])}, version {told['version']}.",
        f"{least}{pending} will not be worked on. Its webhooks close; its history stays.",
        ANEW,
    )


def _say(noun: str, count: int, more: str, titles: Sequence[str]) -> str:
    named = ", ".join(map(in_quotes, titles))
    rest = ", …" if titles and len(titles) < count else ""
    return f"{say_number(count, noun)}{more}{': ' if named else ''}{named}{rest}."
