"""Counts and lists in words: “3 emails”, “2 rows added”, “twice”, “a, b and c” (U1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from duly.rules.count import Activity, Count

NOTHING_PROCESSED = "Nothing processed lately"


def plural(noun: str) -> str:
    """Make an English noun plural by its ending."""
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in ("a", "e", "i", "o", "u", ""):
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def say_number(number: int, noun: str) -> str:
    """Say how many of something there are."""
    return f"{number} {noun if number == 1 else plural(noun)}"


def say_times(number: int) -> str:
    """Say how often something was done."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def say_waiting(count: int) -> str:
    """Say how much waits for a person, in half a sentence."""
    if not count:
        return "nothing waits for you"
    return f"{say_number(count, 'thing')} {'waits' if count == 1 else 'wait'} for you"


def say_list(words: Sequence[str]) -> str:
    """Put words into a row: “a, b and c”."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def say_count(count: Count) -> str:
    """Say how many there are, and what became of them."""
    is_one = count.count == 1 and not count.is_more
    noun = count.noun if is_one else plural(count.noun)
    done = count.done or (f"by {count.tool}" if count.tool else "")
    return f"{count.count}{'+' * count.is_more} {noun} {done}".rstrip()


def say_counts(counts: Iterable[Count | Mapping[str, Any]]) -> str:
    """Say several counts; one that came as JSON is read first."""
    return ", ".join(say_count(each) for each in _read(counts) if each.count)


def are_several(counts: Iterable[Count | Mapping[str, Any]]) -> bool:
    """Tell whether several counts are of more than one thing together."""
    read = _read(counts)
    return sum(each.count for each in read) > 1 or any(each.is_more for each in read)


def _read(counts: Iterable[Count | Mapping[str, Any]]) -> list[Count]:
    return [each if isinstance(each, Count) else Count(**each) for each in counts]


def say_activity(activity: Activity) -> str:
    """Say what was processed and what came of it: “Processed 3 emails → 3 rows added” (U1)."""
    taken, made = say_counts(activity.inputs), say_counts(activity.outputs)
    if not taken:
        return f"→ {made}" if made else NOTHING_PROCESSED
    return f"Processed {taken} → {made}" if made else f"Processed {taken}"
