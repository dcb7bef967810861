"""What happened to a run and to its change, as codes (A6, L12, U7).

Law: each moment was written down when it happened. None of them is worked out from another.
"""

from __future__ import annotations

from enum import StrEnum


class Milestone(StrEnum):
    """One thing in the history of a run; of several at one moment the order here holds."""

    RUN_BEGAN = "run_began"
    RUN_TAKEN_UP = "run_taken_up"
    CALL_PROPOSED = "call_proposed"
    PERSON_ACTED = "person_acted"
    CALL_SENT = "call_sent"
    CALL_SENT_LAST = "call_sent_last"
    CALL_KNOWN = "call_known"
    RUN_CHANGED = "run_changed"
