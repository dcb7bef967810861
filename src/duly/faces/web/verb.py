"""Every verb at `/api/v1/VERB`, made from the registry (U6): GET and POST to ask, POST to act.

Law 1  An answer is the one of the command line's `--json`: it comes from the same session.
Law 2  A question by GET takes its arguments from the query; an act takes them from a JSON body, and
       so may a question whose arguments are long. Who acts is no argument (G5).
Law 3  A call that changed since it was shown is a conflict with both of them in it (G11).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from duly.api.paging import next_page
from duly.api.registry import Verb
from duly.api.session import Session
from duly.api.value import Json
from duly.errors import DulyError
from duly.faces.web.body import (
    JSON,
    Large,
    read_arguments,
    read_body,
    read_object,
    read_pairs,
    refuse_query,
)
from duly.faces.web.guard import Endpoint, Entry, visit_of
from duly.faces.web.problem import problem

API: Final = "/api/v1/"
IDEMPOTENCY: Final = "idempotency-key"


def list_entries(verbs: Mapping[str, Verb]) -> Iterator[Entry]:
    """Make an entry for every verb; what it needs is what the verb says."""
    large = Large()
    for verb in verbs.values():
        methods = ("GET", "POST") if verb.is_question else ("POST",)
        needs = dict.fromkeys(methods, verb.scope)
        yield Entry(f"{API}{verb.name}", _endpoint(verb, large), needs)


def _endpoint(verb: Verb, large: Large) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if request.method != "POST":
            args = read_arguments(verb, read_pairs(request.url.query))
            return await _ask(request, verb, args)
        refuse_query(request)
        body = await read_body(request, JSON)
        async with large.turn(len(body)):
            return await _post(request, verb, read_object(body))

    return endpoint


async def _post(request: Request, verb: Verb, args: dict[str, Json]) -> Response:
    if verb.is_question:
        return await _ask(request, verb, args)
    key = request.headers.get(IDEMPOTENCY)
    if key and "message_id" not in args and any(p.name == "message_id" for p in verb.parameters):
        args["message_id"] = key
    session = visit_of(request).session
    try:
        return write(await session.call(verb.name, **args))
    except DulyError as error:
        if error.code == "not_as_shown":
            return problem(error, **await compare(session, error, args))
        raise


async def _ask(request: Request, verb: Verb, args: Mapping[str, Json]) -> Response:
    """Ask a question; the same answer as before need not be sent again."""
    answer = await visit_of(request).session.call(verb.name, **args)
    body = msgspec.json.encode(answer)
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag}
    if (cursor := next_page(verb, args, answer)) is not None:
        query = urlencode([(name, _text(each)) for name, each in cursor.items()])
        headers["Link"] = (
            f'<{request.scope.get("root_path", "")}{API}{verb.name}?{query}>; rel="next"'
        )
    if tag in request.headers.get("if-none-match", "").split(", "):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=JSON)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def write(answer: Json) -> Response:
    """Write an answer."""
    return Response(msgspec.json.encode(answer), media_type=JSON)


async def compare(session: Session, error: DulyError, args: Mapping[str, Json]) -> dict[str, Json]:
    """Return the call that was shown and the one that waits now (law 3).

    Of a call that was amended twice the one in between is not kept: its arguments are null.
    """
    now = await session.call("mutation", id=args["mutation"])
    assert isinstance(now, dict), now
    is_first = error.facts.get("seen") == "proposed"
    shown, form = (now["proposed"], now["proposed_form"]) if is_first else (None, [])
    old: Json = {"hash": args.get("seen"), "args": shown, "form": form}
    return {"old": old, "new": now}
