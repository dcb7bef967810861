"""What the status of a response means, by one table for reads and one for changes (L4, K8).

Law 1: a status says "it was not done" only where the protocol says so. Every other one that is no
       success leaves a change unknown.
Law 2: a rate limit is a temporary refusal and carries the time the server asks for. Its clock is
       the server's own `Date`, so that a wrong clock on this machine changes nothing.
Law 3: 409, 412 and 422 may speak of what this very call made, by an earlier send or by a copy of
       its request. They refuse a change only where neither can be (`conflict.py`); else the outcome
       is unknown (L4). So does 404 after a DELETE: a copy of it meets nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from duly.connectors.response import HttpResponse
from duly.errors import AuthNeeded, PermissionDenied, Refused, Transient, UnknownOutcome
from duly.rules.schedule import RETRY_AFTER_MAX_MS

RETRY_AFTER_S_MAX: Final = RETRY_AFTER_MAX_MS / 1000
EPOCH_S_MIN: Final = 1_000_000_000.0  # a larger number is a moment, a smaller one a duration
WORDS_CHARS_MAX: Final = 300
# With these words services say in a 403 that there were too many requests, and nothing was done.
LIMIT_WORDS: Final = re.compile(rb'"(?:rateLimitExceeded|userRateLimitExceeded)"')
LIMIT_BYTES_MAX: Final = 10_000  # of a refusal, so much is looked through


class Meaning(StrEnum):
    """What a status says about a request."""

    DONE = "done"
    MISSING = "missing"
    REFUSED = "refused"
    AUTH = "auth"
    PERMISSION = "permission"
    BUSY = "busy"
    UNKNOWN = "unknown"
    CONFLICT = "conflict"  # refused, unless what is in the way may be of this call (law 3)


OK: Final = 200
FORBIDDEN: Final = 403
GONE: Final = 410
# What is not here is decided by its first digit.
STATUSES: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        401: Meaning.AUTH,
        402: Meaning.PERMISSION,
        403: Meaning.PERMISSION,
        404: Meaning.MISSING,
        407: Meaning.UNKNOWN,  # of a proxy, and there should be none
        408: Meaning.UNKNOWN,  # it waited for the rest of a request that it may have begun
        409: Meaning.CONFLICT,
        410: Meaning.MISSING,
        412: Meaning.CONFLICT,
        422: Meaning.CONFLICT,
        425: Meaning.BUSY,
        429: Meaning.BUSY,
        307: Meaning.REFUSED,  # these two ask for the same request elsewhere: it was not done here
        308: Meaning.REFUSED,
    }
)
# What is gone after a DELETE, or is no more the version that it names, may be gone by it.
DELETED: Final[Mapping[int, Meaning]] = MappingProxyType(
    {404: Meaning.UNKNOWN, 410: Meaning.UNKNOWN, 412: Meaning.UNKNOWN}
)
# A list of what was done and what was not (RFC 4918, 13): the status alone says neither.
MULTI: Final = 207
CLASSES: Final[Mapping[int, Meaning]] = MappingProxyType(
    {2: Meaning.DONE, 3: Meaning.UNKNOWN, 4: Meaning.REFUSED, 5: Meaning.UNKNOWN}
)


def meaning_of(
    response: HttpResponse,
    own: Mapping[int, Meaning] = MappingProxyType({}),
) -> Meaning:
    """Return what a status means; `own` are the words of the service itself, which come first."""
    if response.status in own:
        return own[response.status]
    found = STATUSES.get(response.status) or CLASSES.get(response.status // 100, Meaning.UNKNOWN)
    return _forbidden(response) if response.status == FORBIDDEN else found


def _forbidden(response: HttpResponse) -> Meaning:
    """Tell why a request was forbidden: some services say so that there were too many requests.

    A token without a scope is told by the header of RFC 6750; a person has to sign in again.
    """
    if response.header("retry-after") is not None or _remaining(response) == 0:
        return Meaning.BUSY
    if LIMIT_WORDS.search(response.body[:LIMIT_BYTES_MAX]) is not None:
        return Meaning.BUSY
    if "insufficient_scope" in (response.header("www-authenticate") or ""):
        return Meaning.AUTH
    return STATUSES[FORBIDDEN]


def raise_for_change(
    response: HttpResponse,
    what: str,
    connector: str,
    *,
    is_alone: bool,
    is_idempotent: bool = False,
    own: Mapping[int, Meaning] = MappingProxyType({}),
) -> None:
    """Return if the change was made; else raise what is certain about it (L4).

    `is_alone`: nothing of this call can be what a conflict speaks of (law 3).
    """
    meaning = meaning_of(response, own)
    if response.status == MULTI and MULTI not in own:
        meaning = Meaning.UNKNOWN
    if meaning is Meaning.CONFLICT:
        meaning = Meaning.REFUSED if is_alone else Meaning.UNKNOWN
    said = said_by(response, what)
    match meaning:
        case Meaning.DONE:
            return
        case Meaning.AUTH:
            raise AuthNeeded(said, connect=connector)
        case Meaning.PERMISSION:
            raise PermissionDenied(said)
        case Meaning.BUSY:
            raise Transient(said, retry_after_s=retry_after_s(response), outcome="refused")
        case Meaning.REFUSED | Meaning.MISSING:
            is_kept = is_idempotent and response.header("idempotent-replayed") == "true"
            raise Refused(said, remembered=is_kept)
    if (after_s := retry_after_s(response)) is not None:
        raise Transient(said, retry_after_s=after_s)
    raise UnknownOutcome(said)


def raise_for_read(
    response: HttpResponse,
    what: str,
    connector: str,
) -> bool:
    """Tell whether there is something to read, or raise what the status means.

    `404` and `410` say that there is nothing: the caller knows whether that is an answer.
    """
    said = said_by(response, what)
    match meaning_of(response):
        case Meaning.DONE:
            return True
        case Meaning.MISSING:
            return False
        case Meaning.AUTH:
            raise AuthNeeded(said, connect=connector)
        case Meaning.PERMISSION:
            raise PermissionDenied(said)
        case Meaning.REFUSED | Meaning.CONFLICT:
            raise Refused(said)
    raise Transient(said, retry_after_s=retry_after_s(response))


def check_proof(response: HttpResponse, what: str, *, is_delete: bool = False) -> None:
    """Refuse an answer that cannot prove whether something happened (L5).

    A cache may have kept it since before the change; `410` says that there was something, which
    only a delete may believe; a `2xx` other than `200` is no whole answer of the place itself.
    """
    if (response.header("age") or "0").strip() != "0":
        raise Transient(f"{what}: the answer comes out of a cache.")
    if response.status == GONE and not is_delete:
        raise Transient(f"{what}: it is gone, so it may have been there.")
    if OK < response.status < 300:
        raise Transient(f"{what}: the server answered {response.status}, which proves nothing.")


def retry_after_s(response: HttpResponse) -> float | None:
    """Return how long the server asks to wait, by the headers that servers use for it (K8)."""
    now = _moment(response.header("date"))
    given = response.header("retry-after")
    if given is not None:
        wait = _number(given)
        moment = None if wait is not None else _moment(given)
        if moment is not None and now is not None:
            wait = (moment - now).total_seconds()
        return _bounded(wait)
    if _remaining(response) != 0:
        return None
    for name in ("ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset"):
        reset = _number(response.header(name))
        if reset is None:
            continue
        if reset < EPOCH_S_MIN:
            return _bounded(reset)
        seconds = reset / 1000 if reset > EPOCH_S_MIN * 1000 else reset
        return None if now is None else _bounded(seconds - now.timestamp())
    return None


def _remaining(response: HttpResponse) -> float | None:
    names = ("ratelimit-remaining", "x-ratelimit-remaining", "x-rate-limit-remaining")
    found = (_number(response.header(name)) for name in names)
    return next((each for each in found if each is not None), None)


def _bounded(wait_s: float | None) -> float | None:
    return None if wait_s is None else min(max(wait_s, 0.0), RETRY_AFTER_S_MAX)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _moment(text: str | None) -> datetime | None:
    """Read a time of HTTP; one without a zone is none."""
    try:
        found = parsedate_to_datetime(text or "")
    except (ValueError, TypeError, OverflowError):
        return None
    return found if found.tzinfo is not None else None


def said_by(response: HttpResponse, what: str) -> str:
    """Say what the server answered, with the beginning of its own words."""
    words = " ".join(response.body[: 4 * WORDS_CHARS_MAX].decode("utf-8", "replace").split())
    shown = f": {words[:WORDS_CHARS_MAX]}" if words else ""
    leads = response.header("location") if response.status // 100 == 3 else None
    where = (
        f", a redirect to {leads.partition('?')[0][:200]}, and none is followed" if leads else ""
    )
    return f"{what}: the server answered {response.status}{where}{shown}."
