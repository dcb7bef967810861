"""Webhooks: `POST /hooks/WORKFLOW/TOPIC`, signed, or with a key behind a further slash (G12).

Law: nothing is judged here but the size of the body. The host has the secrets and decides (G8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from duly.api.page import HOOK_HEADERS, ID_HEADER, ID_HEADERS_MAX, name_hooks
from duly.api.registry import Scope
from duly.api.value import Json
from duly.faces.web.body import JSON, Large, read_body, read_text
from duly.faces.web.guard import OPEN, Endpoint, Entry, visit_of
from duly.faces.web.rate import SENDER
from duly.words.done import say_received

WEBHOOK: Final = "webhook"  # in whose name what was sent is published
HOOK_BYTES_MAX: Final = 512 * 1024
TAKEN: Final = 202
FINE: Final = 200


@dataclass(frozen=True, slots=True)
class Reach:
    """What stands before the path of a webhook, once for each name of this host.

    `is_named`: the settings name this host, so that a service elsewhere may reach it.
    """

    bases: tuple[str, ...]
    is_named: bool


def find_reach(request: Request) -> Reach:
    """Find out where webhooks are taken; of one page it is the same for every viewer."""
    visit = visit_of(request)
    server, port = request.scope.get("server") or ("", 0)
    here = visit.hooks_at or (f"[{server}]:{port}" if ":" in server else f"{server}:{port}")
    root = "" if visit.hooks_at else request.scope.get("root_path", "")
    named = name_hooks(visit.hosts, visit.hooks_at)
    found = named or ((here,) if visit.hooks_at or port else ())
    scheme = "https" if visit.is_secure else "http"
    return Reach(tuple(f"{scheme}://{each}{root}" for each in found), bool(named))


def list_entries() -> Iterator[Entry]:
    """Make the entries of webhooks; a sender signs each message, and signs in never."""
    receive = _endpoint(Large())
    for path in ("/hooks/{workflow}/{topic}", "/hooks/{workflow}/{topic}/{key}"):
        yield Entry(path, receive, {"POST": OPEN}, actor=WEBHOOK, right=Scope.AGENT, rate=SENDER)


def _endpoint(large: Large) -> Endpoint:
    async def receive(request: Request) -> Response:
        """Hand a message to the host; it is answered when it is on the disk."""
        body = read_text(await read_body(request, JSON, HOOK_BYTES_MAX))
        async with large.turn(len(body)):
            return await _receive(request, body)

    return receive


async def _receive(request: Request, body: str) -> Response:
    """Hand over what proves a message; a header that stands twice proves nothing."""
    given: dict[str, Json] = dict(request.path_params)
    own = [name for name in dict.fromkeys(request.headers) if name.startswith(ID_HEADER)]
    names = {*HOOK_HEADERS, *own[:ID_HEADERS_MAX]}
    found = {name: request.headers.getlist(name) for name in sorted(names)}
    given["headers"] = {name: each[0] for name, each in found.items() if len(each) == 1}
    answer = await visit_of(request).session.call("receive", **given, body=body)
    if answer is None:  # a sender asks whether the address is right, and wants its words back
        challenge = msgspec.json.decode(body).get("challenge")
        return Response(msgspec.json.encode({"challenge": challenge}), FINE, media_type=JSON)
    told = {"event": answer, "told": say_received(str(answer))}
    return Response(msgspec.json.encode(told), TAKEN, media_type=JSON)
