"""How many requests a client may send (G10): a bucket that fills by the second, for each client.

Law 1  What costs the host nothing is not counted: a request for no route, or one without a token
       where a token is needed.
Law 2  A caller who signed in is counted by name, a stranger by address. A token that was good a
       moment ago is not counted with strangers, so that none of them keeps its caller out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv6Network
from math import ceil
from typing import Final

from duly.errors import RequestRefused

CLIENTS_MAX: Final = 10_000  # remembered at once; the one that was quiet for longest is forgotten
KNOWN_MS: Final = 60_000  # for how long a good token is remembered as such
NETWORK_BITS: Final = 64  # of IPv6, which one client has to itself


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests a second, and so many at once."""

    kind: str
    per_s: float
    at_once: int


STRANGER: Final = Rate("stranger", 20, 200)
SENDER: Final = Rate("sender", 50, 500)  # of webhooks
CALLER: Final = Rate("caller", 100, 1000)  # who signed in


@dataclass(slots=True)
class Bucket:
    """What is left to a client, and when that was counted."""

    left: float
    counted_at_ms: int


class Rates:
    """Counts the requests of clients by a clock that is never set back."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, str], Bucket] = OrderedDict()
        self._known: OrderedDict[bytes, int] = OrderedDict()

    def take(self, rate: Rate, client: str) -> None:
        """Count one request, or refuse it and say when to try again."""
        now_ms, key = self._clock(), (rate.kind, client)
        bucket = self._buckets.setdefault(key, Bucket(rate.at_once, now_ms))
        self._buckets.move_to_end(key)
        filled = bucket.left + (now_ms - bucket.counted_at_ms) * rate.per_s / 1000
        bucket.left, bucket.counted_at_ms = min(filled, rate.at_once), now_ms
        if bucket.left < 1:
            facts = {"seconds": max(1, ceil((1 - bucket.left) / rate.per_s))}
            raise RequestRefused(code="too_fast", subject=rate.kind, facts=facts)
        bucket.left -= 1
        if len(self._buckets) > CLIENTS_MAX:
            self._buckets.popitem(last=False)

    def remember(self, token: str) -> None:
        """Note that a token is good now."""
        self._known[_digest(token)] = self._clock() + KNOWN_MS
        self._known.move_to_end(_digest(token))
        if len(self._known) > CLIENTS_MAX:
            self._known.popitem(last=False)

    def knows(self, token: str) -> bool:
        """Tell whether a token was good a moment ago; whether it still is, the host says."""
        return self._known.get(_digest(token), 0) > self._clock()


def name_client(address: str) -> str:
    """Return what a client is counted by: its address, or the network it has to itself."""
    if ":" not in address:
        return address
    try:
        return str(IPv6Network((address.partition("%")[0], NETWORK_BITS), strict=False))
    except ValueError:
        return address


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="replace")).digest()
