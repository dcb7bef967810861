"""How long a host of a fleet may act, by which clock, and when another may take its place (H2).

Law 1  A host counts its lease on its own clock, from before it asked for it: it lapses for itself
       no later than for the database.
Law 2  A host is evicted only when the database says that its lease is over, and the host that
       evicts it has seen it unrenewed for a whole lease on its own clock: a database whose clock
       steps evicts no live host.
"""

from __future__ import annotations

from typing import Final

LEASE_MS: Final = 15_000
RENEW_MS: Final = 5_000
SEND_LEFT_MS: Final = 10_000  # what must be left of a lease when the first byte of a send leaves


def may_send(left_ms: int) -> bool:
    """Tell whether enough is left of a lease to let a send begin.

    >>> may_send(SEND_LEFT_MS), may_send(SEND_LEFT_MS - 1)
    (True, False)
    """
    return left_ms >= SEND_LEFT_MS


def may_evict(unrenewed_ms: int, *, is_over: bool) -> bool:
    """Tell whether a host is gone; `is_over` says so by the database's clock.

    >>> may_evict(LEASE_MS, is_over=True), may_evict(LEASE_MS - 1, is_over=True)
    (True, False)
    """
    return is_over and unrenewed_ms >= LEASE_MS
