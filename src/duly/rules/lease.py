"""How long a host of a fleet may act, by which clock, and when another may take its place (H2).

Law 1  A host counts its lease on its own clock, from before it asked for it: it lapses for itself
       no later than for the database.
Law 2  A host is evicted only when the database says that its lease is over, and the host that
       evicts it has seen it unrenewed for a whole lease on its own clock: a database whose clock
       steps evicts no live host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from duly.rules.schedule import moment

LEASE_MS: Final = 15_000
MACHINE_GONE_MS: Final = 600_000  # after so long a call that a machine alone can ask about is shown
CLOCK_OFF_MAX_MS: Final = 5_000  # between a host and the server; more is said


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a lease lasts, and the times that follow from it."""

    lease_ms: int = LEASE_MS

    @property
    def renew_ms(self) -> int:
        """How long a host waits between two renewals."""
        return self.lease_ms // 3

    @property
    def send_left_ms(self) -> int:
        """What must be left of a lease when the first byte of a send leaves."""
        return self.lease_ms * 2 // 3

    @property
    def idle_ms(self) -> int:
        """How long a transaction may stand still before the server ends it."""
        return self.lease_ms * 2 // 3


@dataclass(frozen=True, slots=True)
class Uncompared:
    """A host that has not compared what it was told since the server began (H10).

    `until_ms` says how long it is waited for at most if it does not renew its lease.
    """

    host: str
    until_ms: int | None

    @property
    def facts(self) -> dict[str, object]:
        """Name it, as a sentence does."""
        until = {} if self.until_ms is None else {"waits_until": moment(self.until_ms)}
        return {"host": self.host, **until}


DEFAULT_TIMES: Final = LeaseTimes()
RENEW_MS: Final = DEFAULT_TIMES.renew_ms
SEND_LEFT_MS: Final = DEFAULT_TIMES.send_left_ms


def clock_off_ms(server_ms: int, asked_ms: int, heard_ms: int) -> int:
    """Return how far the server's clock is ahead; 0 if the answer took as long as that.

    >>> clock_off_ms(9_000, 2_000, 2_100), clock_off_ms(2_500, 2_000, 4_000)
    (6900, 0)
    """
    if asked_ms <= server_ms <= heard_ms:
        return 0
    return server_ms - (heard_ms if server_ms > heard_ms else asked_ms)


def may_send(left_ms: int, times: LeaseTimes = DEFAULT_TIMES) -> bool:
    """Tell whether enough is left of a lease to let a send begin.

    >>> may_send(SEND_LEFT_MS), may_send(SEND_LEFT_MS - 1)
    (True, False)
    """
    return left_ms >= times.send_left_ms


def may_evict(unrenewed_ms: int, *, is_over: bool, times: LeaseTimes = DEFAULT_TIMES) -> bool:
    """Tell whether a host is gone; `is_over` says so by the database's clock.

    >>> may_evict(LEASE_MS, is_over=True), may_evict(LEASE_MS - 1, is_over=True)
    (True, False)
    """
    return is_over and unrenewed_ms >= times.lease_ms


def is_gone(since_ms: int | None, clock_ms: int) -> bool:
    """Tell whether a machine has had no host for so long that a person is asked instead (H7).

    >>> is_gone(0, MACHINE_GONE_MS), is_gone(0, MACHINE_GONE_MS - 1), is_gone(None, MACHINE_GONE_MS)
    (True, False, False)
    """
    return since_ms is not None and clock_ms - since_ms >= MACHINE_GONE_MS
