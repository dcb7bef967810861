"""What a conflict says about a change: whose is what the server speaks of?

`409` and `412` say that something is in the way, `422` that a request cannot be processed. What is
in the way may be of this very call: made by an earlier send of it, or by a copy of its request. A
proxy may repeat PUT and DELETE on its own when a connection breaks behind it; some repeat POST too.

Law 1: a conflict is a definite no only where nothing of this call can be what is in the way (L4).
Law 2: where there is a way to ask, it is asked at once. If it is of this call, or the question is
       not answered, the change is unknown: the host asks as about every such call (L5, K10).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from duly.connectors.base import Applied, Call, NotApplied, Verdict
from duly.connectors.response import HttpResponse
from duly.connectors.status import Meaning, meaning_of
from duly.errors import ConnectorError, Refused, UnknownOutcome

Look: TypeAlias = Callable[[Call], Awaitable[Verdict]]

UNPROCESSABLE: Final = 422
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
) -> bool:
    """Tell whether nothing of this call can be what a conflict speaks of (law 1).

    `look` asks about the call by its key. It is asked only where a response is a conflict.
    """
    if call.attempt != 1 or call.first_sent_at != call.sent_at:
        return False
    if meaning_of(response, own) is not Meaning.CONFLICT:
        return True
    is_request_at_fault = response.status == UNPROCESSABLE
    if look is None:
        return is_request_at_fault or (method in SENT_ONCE and not has_key)
    try:
        verdict = await look(call)
    except ConnectorError:
        return False
    return not isinstance(verdict, Applied) and (is_request_at_fault or method in SENT_ONCE)


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
    raise Refused(f"{said}: {verdict.reason}.")
