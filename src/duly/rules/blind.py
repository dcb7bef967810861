"""Why a store does not know what was done lately, and what a person is told of it (H5, H10)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from duly.rules.schedule import moment


class BlindCause(StrEnum):
    """Why a store does not know what was done lately; each is a code of a standing, too."""

    LOST_LOG = "log_lost"
    LOST_WRITES = "writes_lost"  # the server came back without what it had confirmed
    STANDBY_BEHIND = "standby_behind"  # a promoted standby lacks what the server had confirmed
    PROMOTION = "standby_promoted"  # what hosts were told that are gone cannot be compared
    IMPORTED = "imported"  # it came in a file, and shows what was so when the file was made
    HANDED_OVER = "handed_over"  # another store has it since then
    BACKUP = "restored"


def blind_facts(copied_at_ms: int | None, cause: BlindCause) -> dict[str, Any]:
    """Return up to when the store knows what was done, and why no further; a backup is usual."""
    if copied_at_ms is None:
        return {}
    why = {} if cause is BlindCause.BACKUP else {str(cause): True}
    return {"copied_at": moment(copied_at_ms), **why}
