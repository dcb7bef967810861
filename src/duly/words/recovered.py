"""What is done with a run that was interrupted, for the log of a host (R7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duly.rules.word import MutationStatus

RECOVERED: Final[Mapping[MutationStatus | None, str]] = {
    None: "nothing was sent, and it begins again",
    MutationStatus.PROPOSED: "nothing was sent, and it begins again",
    MutationStatus.FAILED: "its change was not made, and it begins again",
    MutationStatus.IN_FLIGHT: "a change was under way, and what became of it is found out",
    MutationStatus.NEEDS_RECONCILE: "a change was under way, and what became of it is found out",
    MutationStatus.INDETERMINATE: "a change was under way, and only you can say what became of it",
    MutationStatus.APPLIED: "its change is done and is not made again; the rest is finished",
    MutationStatus.REJECTED: "its change was rejected; the rest is finished",
    MutationStatus.SKIPPED: "its change was skipped; the rest is finished",
}


def say_recovered(status: MutationStatus | None) -> str:
    """Say what is done with an interrupted run, by what the ledger says of its call."""
    return RECOVERED[status]
