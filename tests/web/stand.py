"""The stand of the web's tests: an application asked without a server, byte by byte if need be.

`Fake` is a door whose host answers nothing of interest and remembers what it was asked; `serving`
is a real host with the application of an embedder on it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

import duly.web
from duly.api.registry import VERBS, Registry, Scope
from duly.api.session import RunningHost, Session
from duly.api.value import Json
from duly.env import Loop
from duly.errors import NotFound, RequestRefused
from duly.faces.web.app import make_app
from duly.faces.web.guard import Guard, Place
from duly.host import Host
from duly.rules.source import EXAMPLE, Source

PORT: Final = 7337
HOME: Final = f"127.0.0.1:{PORT}"
ORIGIN: Final = f"http://{HOME}"
COOKIE: Final = f"duly-{PORT}"
TOKENS: Final = {f"token of {scope}": scope for scope in Scope}
OWN: Final = {"sec-fetch-site": "same-origin"}

# What a page shows by itself.
ALONE: Final = ("workflow", "run", "mutation", "why", "proposal", "connection")

Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def __getitem__(self, name: str) -> str:
        (found,) = (value for key, value in self.headers if key == name)
        return found

    def has(self, name: str) -> bool:
        return any(key == name for key, _ in self.headers)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(frozen=True)
class Asked:
    """One verb that reached the host, in whose name and with which scope."""

    verb: str
    args: dict[str, Json]
    by: str
    scope: Scope


@dataclass
class Fake:
    """A door behind which nothing happens; tokens are known by `TOKENS`."""

    verbs: Registry = field(default_factory=lambda: VERBS)
    asked: list[Asked] = field(default_factory=list)
    answers: dict[str, Json] = field(default_factory=dict)
    gate: asyncio.Event | None = None  # what every verb waits for

    def signed(self, by: str, scope: Scope) -> Session:
        return FakeSession(self, by, scope)


@dataclass
class FakeSession:
    door: Fake
    by: str
    scope: Scope
    host: RunningHost | None = None

    async def call(self, verb: str, /, **args: Json) -> Json:
        if verb == "who" and self.by == "page":
            scope = TOKENS.get(str(args["token"]))
            if scope is None:
                raise RequestRefused(code="not_signed_in")
            return {"name": str(scope), "scope": str(scope), "actor": f"token:{scope}"}
        if verb == "admitted" and "tokens" in args and verb not in self.door.answers:
            return [each in TOKENS for each in cast("list[str]", args["tokens"])]
        if verb in ALONE and verb not in self.door.answers:
            raise NotFound(code="not_found", subject=verb)
        self.door.asked.append(Asked(verb, args, self.by, self.scope))
        if self.door.gate is not None:
            await self.door.gate.wait()
        return self.door.answers.get(verb, [])

    async def follow(self, verb: str, /, **args: Json) -> AsyncIterator[Json]:
        yield await self.call(verb, **args)


def fake(place: Place | None = None) -> tuple[Guard, Fake]:
    door = Fake()
    return make_app(door, place or Place()), door


def bearer(scope: Scope | str = Scope.ADMIN) -> dict[str, str]:
    return {"authorization": f"Bearer token of {scope}"}


def cookie(token: str = f"token of {Scope.ADMIN}", name: str = COOKIE) -> dict[str, str]:
    return {"cookie": f"{name}={token}"}


async def ask(
    app: Any,
    path: str,
    method: str = "GET",
    *,
    headers: Mapping[str, str] | Pairs = (),
    body: Any = b"",
    host: str = HOME,
    scheme: str = "http",
    raw_path: bytes | None = None,
    root: str = "",
    port: int = PORT,
) -> Reply:
    """Send one request to an application as a server would; a list of bytes is sent in pieces."""
    pairs = [*(headers.items() if isinstance(headers, Mapping) else headers)]
    if not isinstance(body, bytes) and not _is_pieces(body):
        body = json.dumps(body).encode()
        pairs.append(("content-type", "application/json"))
    pieces: list[Any] = [*body] if _is_pieces(body) else [body]
    if not any(key == "host" for key, _ in pairs) and host:
        pairs.append(("host", host))
    where, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": root + where,
        "raw_path": quote(root + where, safe="/%").encode() if raw_path is None else raw_path,
        "root_path": root,
        "query_string": query.encode(),
        "headers": [(key.lower().encode(), value.encode("latin-1")) for key, value in pairs],
        "server": ("127.0.0.1", port),
        "client": ("127.0.0.1", 1),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if pieces:
            piece = pieces.pop(0)
            if callable(piece):
                await piece()
                piece = b""
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    found = [(key.decode().lower(), value.decode("latin-1")) for key, value in start["headers"]]
    return Reply(start["status"], found, b"".join(each.get("body", b"") for each in sent[1:]))


def _is_pieces(body: object) -> bool:
    return isinstance(body, list) and any(
        isinstance(each, bytes) or callable(each) for each in body
    )


def form(**fields: str) -> bytes:
    return "&".join(
        f"{quote(key)}={quote(value, safe='')}" for key, value in fields.items()
    ).encode()


FORM: Final = {"content-type": "application/x-www-form-urlencoded"}


class Shifted(Loop):
    """A clock that a test can set, and one that is never set, which a test can let go on."""

    shift_ms = 0
    ticked_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.shift_ms

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ticked_ms


@dataclass
class Web:
    """A real host, its application, and tokens of every scope."""

    host: Host
    app: Guard
    clock: Shifted
    tokens: dict[Scope, str]

    async def deploy(self) -> None:
        """Deploy the workflow that the examples of verbs are about."""
        await self.host.deploy(Source(**EXAMPLE), grant=True)  # type: ignore[arg-type]

    async def ask(
        self, path: str, method: str = "GET", *, scope: Scope | None = Scope.ADMIN, **more: Any
    ) -> Reply:
        headers = dict(more.pop("headers", {}))
        if scope is not None:
            headers["authorization"] = f"Bearer {self.tokens[scope]}"
        return await ask(self.app, path, method, headers=headers, **more)


@asynccontextmanager
async def serving(folder: Path, **more: Any) -> AsyncIterator[Web]:
    """Open a host and make its application; no run is begun."""
    clock = Shifted()
    async with Host(f"sqlite:///{folder / 'duly.db'}", env=clock, **more) as host:
        tokens = {
            scope: (await host.new_token(f"{scope} token", scope=scope, by="ada")).token
            for scope in Scope
        }
        yield Web(host, duly.web.app(host), clock, tokens)
    clock.close()
