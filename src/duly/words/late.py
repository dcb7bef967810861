"""What a send returned late, in words (L1)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from duly.rules.shown import visible
from duly.rules.word import Answer
from duly.words.phrase import Clock

BECAME: Final[Mapping[str, str]] = {
    Answer.APPLIED: "it was done",
    Answer.UNKNOWN: "it did not say what became of it",
    Answer.REFUSED: "it was refused",
    Answer.REMEMBERED: "it was refused",
}
OTHERWISE: Final = "it was not done"


def say_late(facts: Mapping[str, Any], clock: Clock, tool: str = "") -> str:
    """Say what one send returned; a sentence that an older Duly kept is said as it is."""
    if facts.get("said"):
        return visible(str(facts["said"])).rstrip(". ")
    at = facts["at"] if isinstance(facts["at"], datetime) else datetime.fromisoformat(facts["at"])
    of = f" of {tool}" if tool else ""
    why = f" ({visible(str(facts['message']))})" if facts.get("message") else ""
    became = BECAME.get(facts["answer"], OTHERWISE)
    return f"Send {facts['attempt']}{of} returned late, on {clock.say(at)}: {became}{why}"


def say_all_late(found: object, clock: Clock, tool: str = "") -> str:
    """Say all that came late about one change."""
    each = found if isinstance(found, list | tuple) else ()
    return "; ".join(say_late(late, clock, tool) for late in each)
