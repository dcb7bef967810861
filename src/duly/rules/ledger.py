"""What the ledger may believe and what it may repeat (L6, L7).

Law: "it did not happen" is believed only when nothing sent earlier can land any more, and a call
is repeated only under the key of the first one, while the outside still remembers that key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Final

import rfc8785

RESENDS_MAX: Final = 5  # an unknown idempotent call is sent again at most so often


def is_absence_settled(lag_ms: int, since_end_ms: int) -> bool:
    """Tell whether "it did not happen" can be believed yet (L6).

    `since_end_ms` is monotonic: since the sending process saw the send end, or else since this
    host took the row over. Never since the recorded send time: a late request may still land.
    """
    return since_end_ms >= lag_ms


def may_resend(
    *,
    idempotent: bool,
    resends: int,
    now_ms: int,
    first_sent_ms: int,
    timeout_ms: int,
    lag_ms: int,
    key_lifetime_ms: float,
) -> bool:
    """Tell whether an unknown call may be sent again under its key (L7)."""
    # A clock that stands before the first send was set back: it cannot say how old the key is.
    is_young = first_sent_ms <= now_ms
    is_young = is_young and now_ms + timeout_ms + lag_ms < first_sent_ms + key_lifetime_ms
    return idempotent and resends < RESENDS_MAX and is_young


class Recourse(StrEnum):
    """What can be done about a call nobody knows the end of (L5, L7)."""

    SEND_AGAIN = "send again"
    ASK = "ask"
    WAIT = "wait"
    GIVE_UP = "give up"


# Keyed by: may it be sent again, can it be asked about, is the workflow paused. A paused one sends
# nothing (F7), so what can only be sent again waits for resume.
RECOURSES: Final[Mapping[tuple[bool, bool, bool], Recourse]] = {
    (True, True, False): Recourse.SEND_AGAIN,
    (True, False, False): Recourse.SEND_AGAIN,
    (True, True, True): Recourse.ASK,
    (True, False, True): Recourse.WAIT,
    (False, True, False): Recourse.ASK,
    (False, True, True): Recourse.ASK,
    (False, False, False): Recourse.GIVE_UP,
    (False, False, True): Recourse.GIVE_UP,
}


def recourse(*, is_repeatable: bool, can_be_asked: bool, is_paused: bool) -> Recourse:
    """Choose how to settle an unknown call."""
    return RECOURSES[is_repeatable, can_be_asked, is_paused]


def is_last_ask(asks: int, attempts: int) -> bool:
    """Tell whether the question that had no answer was the last; a person is asked then (L5)."""
    return asks + 1 >= attempts


def inputs_digest(workflow_id: str, consumer: str, reserved: Iterable[tuple[str, str]]) -> str:
    """Name the set of inputs a mutation answers for, whatever run, version or host makes it."""
    named = [workflow_id, consumer, sorted([topic, message_id] for topic, message_id in reserved)]
    return sha256(rfc8785.dumps(named)).hexdigest()


def idempotency_key(digest: str, generation: int) -> str:
    """Make the key of a mutation: its inputs, and how often they were refused on merits (L7)."""
    return sha256(f"{digest}:{generation}".encode()).hexdigest()
