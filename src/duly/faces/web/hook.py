"""Webhooks: `POST /hooks/WORKFLOW/TOPIC`, signed, or with a key behind a further slash (G12).

Law 1  Nothing is judged here but the type and the size of the body, and how often a sender comes.
       The host has the secrets and decides (G8).
Law 2  What is refused here is told to the host, for the owner of the webhook: as sums, a few a
       second, and without the sender waiting for it. A sum stays until the host has taken it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from duly.api.clock import Loop
from duly.api.page import (
    HOOK_HEADERS,
    ID_HEADER,
    ID_HEADERS_MAX,
    POSTS_MAX,
    UnreadFault,
    name_hooks,
)
from duly.api.registry import Scope
from duly.api.session import Session
from duly.api.value import Json
from duly.errors import DulyError, Invalid
from duly.faces.web.body import JSON, Large, read_body, read_text
from duly.faces.web.guard import OPEN, Endpoint, Entry, visit_of
from duly.faces.web.rate import SENDER
from duly.words.done import say_received

WEBHOOK: Final = "webhook"  # in whose name what was sent is published
HOOK_BYTES_MAX: Final = 512 * 1024
TAKEN: Final = 202
FINE: Final = 200
# Why a body was not read, in the words of the host.
WHY: Final[Mapping[str, UnreadFault]] = {
    "wrong_media_type": UnreadFault.WRONG_TYPE,
    "body_too_long": UnreadFault.TOO_LONG,
    "too_fast": UnreadFault.TOO_FAST,
}
A_KEY: Final = "-"  # in place of the one that was sent: the host asks only whether there is one
SUMS_MAX: Final = 1000  # of different places; what comes beside them is not counted
TOLD_MAX: Final = 20  # at a time
PAUSE_S: Final = 1.0


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
    unread = UnreadPosts()
    receive = _endpoint(Large(), unread)
    how: Any = {"actor": WEBHOOK, "right": Scope.AGENT, "rate": SENDER, "too_fast": unread.note}
    for path in ("/hooks/{workflow}/{topic}", "/hooks/{workflow}/{topic}/{key}"):
        yield Entry(path, receive, {"POST": OPEN}, **how)


@dataclass(frozen=True, slots=True)
class _Place:
    """What a sum is of: nothing that a sender can make up without end for one webhook."""

    workflow: str
    topic: str
    why: UnreadFault
    has_key: bool
    signed: tuple[str, ...]


@dataclass(slots=True)
class UnreadPosts:
    """Posts that were refused before they were read, until the host was told of them (law 2)."""

    sums: dict[_Place, int] = field(default_factory=dict)
    telling: asyncio.Task[None] | None = None

    def note(self, request: Request, error: DulyError, session: Session) -> None:
        """Count a post by its place and its reason, and see that the host is told."""
        params = request.path_params
        signed = tuple(sorted(each for each in HOOK_HEADERS if each in request.headers))
        why = WHY.get(error.code, UnreadFault.UNREADABLE)
        place = _Place(params["workflow"], params["topic"], why, bool(params.get("key")), signed)
        if place in self.sums or len(self.sums) < SUMS_MAX:
            self.sums[place] = self.sums.get(place, 0) + 1
        if self.telling is None or self.telling.done():
            self.telling = asyncio.ensure_future(self._tell(session))

    async def _tell(self, session: Session) -> None:
        env = Loop()
        try:
            while self.sums:
                for place in [*self.sums][:TOLD_MAX]:
                    if not await self._tell_one(session, place):
                        break
                await env.sleep(PAUSE_S)
        finally:
            env.close()

    async def _tell_one(self, session: Session, place: _Place) -> bool:
        """Tell of one sum, and return whether the host heard it; what it did not hear stays."""
        posts = min(self.sums[place], POSTS_MAX)
        given: dict[str, Json] = {"workflow": place.workflow, "topic": place.topic, "body": ""}
        given |= {
            "headers": dict.fromkeys(place.signed, ""),
            "key": A_KEY if place.has_key else None,
        }
        try:
            await session.call("receive", **given, unread=place.why, posts=posts)
        except Invalid:
            pass  # it would be refused again
        except (DulyError, OSError):
            return False
        if left := self.sums.pop(place) - posts:  # more came meanwhile
            self.sums[place] = left
        return True


def _endpoint(large: Large, unread: UnreadPosts) -> Endpoint:
    async def receive(request: Request) -> Response:
        """Hand a message to the host; it is answered when it is on the disk."""
        try:
            body = read_text(await read_body(request, JSON, HOOK_BYTES_MAX))
        except DulyError as error:
            unread.note(request, error, visit_of(request).session)
            raise
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
