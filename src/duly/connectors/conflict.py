"""What a conflict says about a change: whose is what the server speaks of?

`409` and `412` say that something is in the way, `422` that a request cannot be processed. What is
in the way may be of this very call: made by an earlier send of it, or by a copy of its request. A
proxy may repeat PUT and DELETE on its own when a connection breaks behind it; some repeat POST too.

Law 1: a conflict is a definite no only where nothing of this call can be what is in the way (L4).
Law 2: a question about exactly one thing is asked at once. It makes a conflict a no only where it
       shows what is there, and that it is certainly of another. That nothing is there counts for a
       request that is wrong in itself: after a conflict the service may still work on a copy of it.
       A search may be behind what was just made, and *unsure* is no answer: then the change is
       unknown, and the host asks after the lag (L5, L6, K10).
Law 3: a precondition that failed refuses only where what is there is certainly of another.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from duly.connectors.base import Applied, Call, NotApplied, Unsure, Verdict
from duly.connectors.response import HttpResponse
from duly.connectors.status import Meaning, meaning_of
from duly.errors import ConnectorError, Refused, UnknownOutcome


@dataclass(frozen=True, slots=True)
class Theirs(Unsure):
    """What is at the place of a change is certainly of another; `reason` says what is there."""


Look: TypeAlias = Callable[[Call], Awaitable[Verdict]]

UNPROCESSABLE: Final = 422
# By this code GitHub says in a 422 that something of that name is there.
EXISTS: Final = re.compile(rb'"already_exists"')
EXISTS_BYTES_MAX: Final = 10_000
# HTTP forbids a proxy to repeat these on its own (RFC 9110, 9.2.2).
SENT_ONCE: Final = frozenset({"POST", "PATCH"})


async def is_alone(
    call: Call,
    method: str,
    response: HttpResponse,
    *,
    has_key: bool,
    own: Mapping[int, Meaning] = MappingProxyType({}),
    look: Look | None = None,
    is_exact: bool = False,
) -> bool:
    """Tell whether nothing of this call can be what a conflict speaks of (law 1).

    `look` asks about the call by its key. It is asked only where a response is a conflict. With
    `is_exact` it asks for one thing, and not in a list that may be behind.
    """
    if call.attempt != 1 or call.first_sent_at != call.sent_at:
        return False
    if meaning_of(response, own) is not Meaning.CONFLICT:
        return True
    is_request_at_fault = response.status == UNPROCESSABLE and not _says_exists(response)
    if look is None:
        return method in SENT_ONCE and (is_request_at_fault or not has_key)
    if not is_exact:
        return False
    try:
        verdict = await look(call)
    except ConnectorError:
        return False
    if is_request_at_fault:
        return isinstance(verdict, NotApplied | Theirs)
    return isinstance(verdict, Theirs) and method in SENT_ONCE


def _says_exists(response: HttpResponse) -> bool:
    """Tell whether a request is refused because of what is there, which a copy may have made."""
    return EXISTS.search(response.body[:EXISTS_BYTES_MAX]) is not None


async def find_own(call: Call, look: Look, said: str) -> Applied:
    """Return what is in the way of a change if this very call made it; else raise what is certain.

    For a change with a precondition whose question is about exactly the place of the change.
    """
    try:
        verdict = await look(call)
    except ConnectorError as error:
        raise UnknownOutcome(f"{said}, and it cannot be looked at: {error}") from error
    if isinstance(verdict, Applied):
        return verdict
    if isinstance(verdict, NotApplied):
        raise UnknownOutcome(f"{said}, and nothing is in the way now.")
    if isinstance(verdict, Theirs):
        raise Refused(f"{said}: {verdict.reason}.")
    raise UnknownOutcome(f"{said}: {verdict.reason}.")
