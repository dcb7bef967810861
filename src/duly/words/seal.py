"""Why a row of the ledger is not used (L11), and why a store does not go on by itself (H5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from duly.rules.blind import BlindCause
from duly.rules.seal import Flaw, Part
from duly.words.noun import say_number, say_times

FLAWS: Final[Mapping[str, str]] = {
    Flaw.UNSEALED: "it has no seal",
    Flaw.OTHER_KEY: "it was sealed with another key than this host has",
    Flaw.CHANGED: "it was changed in the store",
    Flaw.UNAGREED: "a person has to agree to it first, and none has",
}


# Why a store does not know what was done since a moment.
BLIND: Final[Mapping[BlindCause, str]] = {
    BlindCause.BACKUP: "This store was restored from a backup of {since}.",
    BlindCause.LOST_LOG: (
        "This store was open when its host ended, and its log is not there any more: it shows "
        "{since}."
    ),
    BlindCause.LOST_WRITES: (
        "The server came back without changes that it had confirmed: it shows {since}."
    ),
    BlindCause.STANDBY_BEHIND: (
        "A standby of the server was promoted that lacks changes which the server had confirmed: "
        "it shows {since}."
    ),
    BlindCause.IMPORTED: "This workflow was imported from a file of {since}.",
    BlindCause.HANDED_OVER: "This workflow was handed over to another store at {since}.",
    BlindCause.PROMOTION: (
        "A standby of the server was promoted. It shows {since}, and may lack changes that hosts "
        "which are gone were told of."
    ),
}
# What of a row differs from what was sealed, and what no check can see (L15).
PARTS: Final[Mapping[str, str]] = {
    Part.ARGS: "its arguments",
    Part.RESULT: "its result",
    Part.ERROR: "its error",
    Part.CONTENTS: "its inputs",
    Part.TITLE: "its title",
    Part.PROPOSED: "the proposed call",
    Part.PROMISE: "what the tool promised",
    Part.RESENT: "how often it was sent again",
    Part.LATE: "what came late",
}
UNSEEN: Final[Mapping[str, str]] = {
    "removed_rows": "whole rows that were removed",
    "imitated_retention": "contents that another program removed as retention does",
    "open_progress": "what became of a change so far that is still open",
    "unsealed_records": "grants, actions, runs, statuses of events, and the bus",
}


def say_sound(is_sound: bool) -> str:
    """Say what a check of the whole store found; what is wrong is listed below."""
    return "The store is sound." if is_sound else "The store is not sound:"


def say_changed(row_id: str, flaw: str, parts: Sequence[str]) -> str:
    """Say of a row why its seal does not fit, and what of it differs."""
    named = ", ".join(PARTS.get(each, each) for each in parts)
    why = FLAWS.get(flaw, flaw)  # a newer host may know other words
    return f"{row_id}: {why} ({named})." if named else f"{row_id}: {why}."


def say_imported(count: int) -> str:
    """Say what a seal cannot prove of changes that came in a file."""
    return (
        f"{say_number(count, 'change')} came in a file that was imported: not changed since, but "
        "what was so before is not proven here."
    )


def say_unseen(unseen: Sequence[str]) -> str:
    """Say what a check cannot find."""
    return f"Not seen by this check: {'; '.join(UNSEEN.get(each, each) for each in unseen)}."


def say_once(is_changed: bool, applied: int, still_open: int) -> str:
    """Say what a certificate shows, before all that it holds."""
    if is_changed:
        return "This is no proof: a change below was altered in the store after it was sealed."
    made = "was not made" if not applied else f"was made {say_times(applied)}"
    further = f"; {still_open} with an open outcome" if still_open else ""
    return f"The seals fit. The change {made}{further}."


def say_unsent(tool: str, flaw: Flaw, mutation_id: str) -> str:
    """Say that nothing of a row was sent."""
    return f"{tool} was not sent or asked about: {FLAWS[flaw]} ({mutation_id})"


def say_blind(since: datetime, cause: BlindCause) -> str:
    """Say that a store shows an earlier time, and what is paused for it, for the log of a host."""
    what = BLIND[cause].format(since=f"{since:%Y-%m-%d %H:%M:%S} UTC")
    which = "that no host holds " if cause is BlindCause.PROMOTION else ""
    return (
        f"{what} What was done since then is not known here, so every workflow {which}is paused "
        "until a person resumes it, and so is the bus, if it had something to tell."
    )
