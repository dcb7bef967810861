"""What a client of the control socket asks for: one line, one request (docs/control.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from duly.api.registry import BY, Scope
from duly.api.value import INTEGER_MAX, Json, refuse_unknown
from duly.errors import Invalid, short

ID_CHARS_MAX: Final = 100
FIELDS: Final = ("id", "verb", "args", "follow", "scope", "stop")

RequestId: TypeAlias = "int | str"


@dataclass(frozen=True, slots=True)
class Request:
    """One line of a client: a verb to carry out or to follow, or the end of following.

    With a `scope` the client asks to be allowed less than it could be. `by` is who acts, where the
    client is a page that may say so.
    """

    id: RequestId
    verb: str
    args: Mapping[str, Json]
    is_follow: bool = False
    is_stop: bool = False
    scope: Scope = Scope.ADMIN
    by: str = ""


def read_request(message: Mapping[str, Json], *, names_actor: bool = False) -> Request:
    """Read a request, or say which field of it is wrong; only a page names who acts (G5)."""
    refuse_unknown(message, (*FIELDS, BY) if names_actor else FIELDS, "request")
    request_id = read_id(message.get("id"))
    if "stop" in message:
        if message["stop"] is not True or len(message) > 2:
            raise Invalid(code="wrong_value", path="stop", facts={"wanted": "true_alone"})
        return Request(request_id, "", {}, is_stop=True)
    verb, args, follow = message.get("verb"), message.get("args", {}), message.get("follow", False)
    if not isinstance(verb, str):
        raise Invalid(code="wrong_value", path="verb", facts={"wanted": "verb"})
    if not isinstance(args, dict):
        raise Invalid(code="wrong_value", path="args", facts={"wanted": "object"})
    if not isinstance(follow, bool):
        raise Invalid(code="wrong_value", path="follow", facts={"wanted": "true_or_false"})
    scope = _read_scope(message.get("scope", Scope.ADMIN))
    by = message.get(BY, "")
    if not isinstance(by, str) or names_actor is not bool(by):
        raise Invalid(code="wrong_value", path=BY, facts={"wanted": "actor"})
    return Request(request_id, verb, args, is_follow=follow, scope=scope, by=by)


def _read_scope(given: Json) -> Scope:
    if given not in tuple(Scope):
        facts = {"given": short(given), "known": [*map(str, Scope)]}
        raise Invalid(code="not_one_of", path="scope", facts=facts)
    return Scope(given)


def read_id(given: Json) -> RequestId:
    """Read the id that a client gave its request."""
    if type(given) is int and abs(given) <= INTEGER_MAX:
        return given
    if type(given) is str and len(given) <= ID_CHARS_MAX:
        return given
    facts = {"wanted": "request_id", "most": ID_CHARS_MAX}
    raise Invalid(code="wrong_value", path="id", facts=facts)
