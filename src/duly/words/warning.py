"""Lines of the host in the log of a run, and what is kept of a send that does not end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duly.rules.event import Publication
from duly.rules.ledger import Terms

NAMED_MAX: Final = 3  # events that a warning names; the rest is counted
SECOND_MS: Final = 1000


def say_dropped(dropped: Sequence[Publication]) -> str:
    """Say that other contents came for finished events, and were not taken (T5)."""
    named = ", ".join(f'"{each.message_id}" of {each.topic}' for each in dropped[:NAMED_MAX])
    more = f" and {len(dropped) - NAMED_MAX} more" if len(dropped) > NAMED_MAX else ""
    return (
        f"publish: other content for finished events was not taken: {named}{more}. A finished"
        " event never changes; give what is new a message id of its own."
    )


def say_ignored_wake(given: str) -> str:
    """Say that a script's wakeAt is no time (S6)."""
    return f"wakeAt was ignored: {given} is not an ISO 8601 time such as 2026-05-01T09:00:00Z."


def say_still_out(tool: str, terms: Terms) -> str:
    """Say that a send does not end (L6)."""
    return (
        f"{tool} is still out: its timeout of {terms.timeout_ms / SECOND_MS:g} s and its lag of "
        f"{terms.lag_ms / SECOND_MS:g} s have passed, and the call has not returned"
    )


def say_left_out(count: int) -> str:
    """Say how many lines of a log were not kept (X4)."""
    return f"{count} more lines were left out."
