"""Where the key of a call travels, and how the outside can be asked what became of it (K1, K10).

Law 1: a tool's author says where its key travels. How it can be asked follows from what the tool
       has: a reconcile method, a promise to make one key's change once, a lag. What the author says
       beyond that must not contradict it; a contradiction is refused when the host is built.
Law 2: what is asked by a trial with the user's own account is believed only after that trial was
       made (K10). Until then every face says so.
Law 3: where a question does not tell what was deleted from what was never made, a *no* counts only
       for an hour after the send. The later it is asked, the likelier a person has tidied up.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeAlias

ABSENCE_S: Final = 3600.0  # how long a no of a question counts that sees nothing deleted (law 3)
ABSENCE_LAGS: Final = 2  # at least so many times as long as the tool needs until a no can be given

# When each secret was set: connector, name, moment.
SecretTimes: TypeAlias = tuple[tuple[str, str, int], ...]


class KeyIn(StrEnum):
    """Where the key of a call travels (K1)."""

    HEADER = "header"  # of a request or of a mail
    ID = "id"  # it is the id of what is made
    FIELD = "field"
    MARKER = "marker"  # a mark that people may see and remove
    METADATA = "metadata"  # a record beside what is changed
    HANDLE = "handle"  # of a first step (L14)
    NONE = "none"


class AskedHow(StrEnum):
    """How the outside can be asked what became of a call (K1)."""

    EXACTLY = "exactly"
    BY_SEARCH = "by_search"
    NOT_AT_ALL = "not_at_all"


class Deleted(StrEnum):
    """What a question says of a thing that a person deleted before it was asked about (law 3)."""

    SEEN = "seen"  # it is found all the same, or the question says that it cannot tell
    UNSEEN = "unseen"  # as if it had never been made


class ProofBy(StrEnum):
    """What shows that the outside can be asked (K10)."""

    ITSELF = "itself"  # the change and its record are one step: there is nothing to try
    TRIAL = "trial"  # one call with the user's own account, found again


class ProofStatus(StrEnum):
    """How far a trial is (K10)."""

    BEGUN = "begun"  # it may have been sent; its end is not known here
    PROVEN = "proven"
    FAILED = "failed"


class ProofFault(StrEnum):
    """Why a trial proves nothing."""

    SEES_UNSENT = "sees_unsent"  # a call that was never sent was taken for done
    NOT_MADE = "not_made"  # the trial itself was refused, or not sent
    NOT_FOUND = "not_found"  # it was made, and not found again in time
    UNKNOWN = "unknown"  # its answer was lost, and it was not found again
    NOT_ASKED = "not_asked"  # the outside could not be asked at all


class Sighting(StrEnum):
    """What the outside says about one key."""

    DONE = "done"
    NOT_DONE = "not_done"
    UNSURE = "unsure"
    SILENT = "silent"  # it could not be asked


class Clash(StrEnum):
    """What a tool says of itself, and cannot be true."""

    NO_WAY_TO_ASK = "no_way_to_ask"
    IS_ASKED = "is_asked"
    KEYLESS = "keyless"
    NOTHING_TO_PROVE = "nothing_to_prove"


@dataclass(frozen=True, slots=True)
class Answering:
    """What is known about asking a tool: as declared, and since when it is proven here.

    `key_in` is None if its author does not say. `proven_at` is when a trial with this account was
    found again; `lag_s` is when a search can be believed. `deleted` is None where a person decides,
    where it is sent again, and where its author does not say.
    """

    tool: str
    key_in: KeyIn | None
    asked: AskedHow
    lag_s: float
    proof: ProofBy | None = None
    proven_at: datetime | None = None
    deleted: Deleted | None = None

    @property
    def is_believed(self) -> bool:
        """Whether a verdict of the outside is taken: not before a trial that it needs (K10)."""
        return self.proof is not ProofBy.TRIAL or self.proven_at is not None


def find_asked(*, reconciles: bool, idempotent: bool, lag_s: float) -> AskedHow:
    """Say how a tool can be asked whose author does not say it; in doubt the weaker word."""
    if not (reconciles or idempotent):
        return AskedHow.NOT_AT_ALL
    # A repeated call that is made once is an exact question. So is one that nothing is late for.
    return AskedHow.EXACTLY if idempotent or lag_s == 0 else AskedHow.BY_SEARCH


def find_clash(
    key_in: KeyIn | None,
    asked: AskedHow | None,
    proof: ProofBy | None,
    *,
    reconciles: bool,
    idempotent: bool,
) -> Clash | None:
    """Find what a tool says of itself that cannot be true (law 1)."""
    can_be_asked = reconciles or idempotent
    if asked in (AskedHow.EXACTLY, AskedHow.BY_SEARCH) and not can_be_asked:
        return Clash.NO_WAY_TO_ASK
    if asked is AskedHow.NOT_AT_ALL and can_be_asked:
        return Clash.IS_ASKED
    if key_in is KeyIn.NONE and can_be_asked:
        return Clash.KEYLESS
    if proof is not None and not can_be_asked:
        return Clash.NOTHING_TO_PROVE
    return None


def is_absence_stale(
    deleted: Deleted | None, age_s: float, *, lag_s: float, timeout_s: float
) -> bool:
    """Tell whether a no comes too long after the send to mean that it was never made (law 3).

    A clock that was set back says nothing about the age either.
    """
    if deleted is not Deleted.UNSEEN:
        return False
    return abs(age_s) > max(ABSENCE_S, ABSENCE_LAGS * (lag_s + timeout_s))


def judge_trial(seen: Sighting, unsent: Sighting, *, is_made: bool) -> ProofFault | None:
    """Judge a trial by what the outside says of its key, and of a key that was never sent (K10).

    A question that never says "not done" is still worth asking: what it finds is there.
    """
    if unsent is Sighting.DONE:
        return ProofFault.SEES_UNSENT
    if seen is Sighting.DONE:
        return None
    if seen is Sighting.SILENT:
        return ProofFault.NOT_ASKED
    return ProofFault.NOT_FOUND if is_made else ProofFault.UNKNOWN
