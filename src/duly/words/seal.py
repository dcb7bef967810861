"""Why a row of the ledger is not used (L11), and why a store does not go on by itself (H5)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from duly.rules.seal import Flaw

FLAWS: Final[Mapping[Flaw, str]] = {
    Flaw.UNSEALED: "it has no seal",
    Flaw.OTHER_KEY: "it was sealed with another key than this host has",
    Flaw.CHANGED: "it was changed in the store",
    Flaw.UNAGREED: "a person has to agree to it first, and none has",
}


def say_unsent(tool: str, flaw: Flaw, mutation_id: str) -> str:
    """Say that nothing of a row was sent."""
    return f"{tool} was not sent or asked about: {FLAWS[flaw]} ({mutation_id})"


def say_restored(since: datetime, *, is_log_lost: bool) -> str:
    """Say that a store shows an earlier time, for the log of a host."""
    what = (
        "This store was open when its host ended, and its log is not there any more: it shows"
        if is_log_lost
        else "This store was restored from a backup of"
    )
    return (
        f"{what} {since:%Y-%m-%d %H:%M:%S} UTC. What was done since then is not known here, so "
        "every workflow is paused until a person resumes it, and so is the bus, if it had "
        "something to tell."
    )
