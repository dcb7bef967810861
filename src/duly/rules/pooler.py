"""What may stand between a host and its server: a pooler that lends connections."""

from __future__ import annotations

from enum import StrEnum


class Pooler(StrEnum):
    """How much of a session a pooler leaves to a host."""

    NONE = "none"  # or one that lends connections by the session, which is as good as none
    BY_TRANSACTION = "by_transaction"  # notifications do not arrive
    FORGETFUL = "forgetful"  # by the transaction, and it mixes up prepared statements
