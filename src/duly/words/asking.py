"""Where a key travels, how the outside can be asked, and since when that is proven (K1, K10).

Law: the same words everywhere: `duly tools`, approvals, the summary of a deploy, the exam, and the
table on the page of connectors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from duly.rules.asking import (
    Answering,
    AskedHow,
    Clash,
    Deleted,
    KeyIn,
    ProofBy,
    ProofFault,
    ProofStatus,
)
from duly.words.phrase import Clock

KEYS: Final[Mapping[str, str]] = {
    KeyIn.HEADER: "in a header",
    KeyIn.ID: "as the id of what is made",
    KeyIn.FIELD: "in a field",
    KeyIn.MARKER: "in a mark on what is changed",
    KeyIn.METADATA: "in a record beside what is changed",
    KeyIn.HANDLE: "in the handle of a first step",
    KeyIn.NONE: "nowhere",
}
UNSAID: Final = "not said"
NOWHERE_SAID: Final = "where its key travels is not said"
ASKED: Final[Mapping[str, str]] = {
    AskedHow.EXACTLY: "exactly",
    AskedHow.BY_SEARCH: "by search",
    AskedHow.NOT_AT_ALL: "not at all",
}
PROOFS: Final[Mapping[str, str]] = {
    ProofBy.ITSELF: "the change itself proves it",
    ProofBy.TRIAL: "not yet proven with your account",
}
# What it says of a thing that a person deleted before it was asked about.
DELETIONS: Final[Mapping[str, str]] = {
    Deleted.SEEN: "is not made again",
    Deleted.UNSEEN: "counts as not made for an hour, then a person decides",
}
PROVEN: Final = "proven with your account on"
CLASHES: Final[Mapping[str, str]] = {
    Clash.NO_WAY_TO_ASK: "it can be asked, but has neither a reconcile method nor idempotent",
    Clash.IS_ASKED: "it cannot be asked, but has a reconcile method or is idempotent",
    Clash.KEYLESS: "its key travels nowhere, but it can be asked about a key",
    Clash.NOTHING_TO_PROVE: "it has a proof, but cannot be asked",
}


# Why a trial proves nothing, and how far it is (K10).
FAULTS: Final[Mapping[str, str]] = {
    ProofFault.SEES_UNSENT: "the service says of a call that was never sent that it was done",
    ProofFault.NOT_MADE: "the trial was not made",
    ProofFault.NOT_FOUND: "the trial was made and not found again",
    ProofFault.UNKNOWN: "the answer to the trial was lost and it was not found again",
    ProofFault.NOT_ASKED: "the trial was sent and the service could not be asked about it",
}
BEGUN: Final = "a trial was begun and its end is not known: it may have been made"


def say_trial(status: str, fault: str | None) -> str:
    """Say what came of a trial."""
    if status == ProofStatus.BEGUN:
        return BEGUN
    return FAULTS.get(fault, fault) if fault is not None else "proven"


SET_UP_WORKS: Final = "Its set-up works: every statement was planned, and nothing was changed."


def say_fault(connection: str, fault: Mapping[str, str]) -> str:
    """Say what does not work in the set-up of a connection."""
    named = f"{connection}.{fault['tool']}" if fault["tool"] else connection
    return f"{named}: {fault['message']}"


SENT_OTHERWISE: Final = (
    "the service says that it did not happen, but the call was sent with another secret or other"
    " settings: it may have been done with another account"
)


DELETED_UNSEEN: Final = (
    "it is not there now, but it was sent more than an hour ago: a person may have deleted it"
    " since, and the service cannot tell that from never made"
)


def say_other_account(tool: str) -> str:
    """Say why a call is not sent again."""
    return (
        f"{tool} is not sent again: its secret or its settings were changed since it was sent, and"
        " another account would do it a second time"
    )


def say_gone(tool: str, machine: str) -> str:
    """Say why a call is not asked about (H7): its machine is gone, or no host has its tool."""
    if not machine:
        return f"no host with the connector of {tool} has served for ten minutes"
    return (
        f"{tool} can be asked only on the machine {machine}, and no host with its connector has"
        " served there for ten minutes"
    )


def say_unbelieved(*, is_done: bool) -> str:
    """Say why a verdict of the outside is not believed."""
    word = "that it happened" if is_done else "that it did not happen"
    return f"the service says {word}, but it was never proven with your account that it can tell"


def say_key(key_in: str | None) -> str:
    """Say where a key travels."""
    return UNSAID if key_in is None else KEYS.get(key_in, key_in)


def say_asked(asked: str, lag_s: float) -> str:
    """Say how a tool can be asked: exactly, by search after some time, not at all."""
    word = ASKED.get(asked, asked)
    return f"{word} after {math.ceil(lag_s)} s" if asked == AskedHow.BY_SEARCH else word


def say_proof(proof: str | None, proven_at: datetime | None, clock: Clock | None) -> str:
    """Say what shows that it can be asked; "" where no trial is known of."""
    if proof == ProofBy.TRIAL and proven_at is not None and clock is not None:
        return f"{PROVEN} {clock.say(proven_at)}"
    return PROOFS.get(proof, proof) if proof is not None else ""


def say_answering(found: Answering, clock: Clock | None = None) -> str:
    """Say all of it on one line."""
    proof = say_proof(found.proof, found.proven_at, clock)
    asked = say_asked(found.asked, found.lag_s)
    can = "cannot answer at all" if found.asked == AskedHow.NOT_AT_ALL else f"can answer {asked}"
    key = (
        f"its key travels {KEYS.get(found.key_in, found.key_in)}" if found.key_in else NOWHERE_SAID
    )
    return f"{can} ({proof}); {key}" if proof else f"{can}; {key}"


def write_row(found: Answering) -> str:
    """Write the row of a tool in the table on the page of connectors."""
    gone = "–" if found.deleted is None else DELETIONS[found.deleted]
    asked = say_asked(found.asked, found.lag_s)
    cells = (say_key(found.key_in), asked, _in_cell(found.proof), gone)
    return f"| `{found.tool}` | {' | '.join(cells)} |"


def _in_cell(proof: str | None) -> str:
    return say_proof(proof, None, None) or "–"
