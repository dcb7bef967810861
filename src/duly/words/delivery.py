"""Why an event of the bus was not delivered, as its journal keeps it (B4, B12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from duly.rules.delivery import HOST_DIED

OWN: Final[Mapping[str, str]] = {HOST_DIED: "the host died while this subscriber was called"}


def say_loop(depth: int) -> str:
    """Say that an event stands too deep in a chain of events."""
    return f"This event is number {depth} of a chain of events that cause each other: a loop."


def say_failures(failures: Iterable[tuple[str, str]]) -> str | None:
    """Name subscriber and message of every failure; None where there is none."""
    told = (f"{subscriber}: {OWN.get(error, error)}" for subscriber, error in failures)
    return "; ".join(told) or None
