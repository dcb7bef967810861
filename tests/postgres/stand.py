"""Hosts on a real server for tests: workflows that post notes, an outside that counts them."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import duly
from duly.config import FleetSettings
from duly.host import Host
from duly.rules.source import Language, Source
from tests.postgres.server import address
from tests.postgres.world import Place

KEY: Final = base64.b64encode(bytes(range(32))).decode()
OTHER_KEY: Final = base64.b64encode(bytes(range(32, 64))).decode()
PATIENCE_S: Final = 60.0  # only what hangs is ended by it
SHORT: Final = FleetSettings(lease_s=2)

FLOW: Final = """
from duly import workflow

flow = workflow("{name}", topics={{"note": {{"ingress": True}}}})


@flow.consumer("note")
class post:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("note", limit=1)
        if not pending:
            return {{"reservations": [], "data": {{}}}}
        return {{
            "reservations": [{{"topic": "note", "ids": [pending[0]["message_id"]]}}],
            "data": {{"text": pending[0]["title"]}},
            "ui": {{"title": f"Post {{pending[0]['title']}}"}},
        }}

    async def mutate(self, ctx, prepared):
        await ctx.outside.post(text=prepared["data"]["text"])
"""


@dataclass
class Outside(duly.Connector):
    """An outside in the memory of the test: it counts what it was told, by its key."""

    name = "outside"
    posts: list[str] = field(default_factory=list)
    by_host: list[str] = field(default_factory=list)
    label: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    @duly.mutation(lag_s=0.1, timeout_s=2, noun="post")
    async def post(self, call: duly.Call, text: str) -> dict[str, Any]:
        """Post a note."""
        self.posts.append(text)
        self.by_host.append(self.label)
        return {}

    @post.reconcile
    async def post_happened(self, call: duly.Call) -> Any:
        """Look whether a note is there."""
        text = call.args["text"]
        return duly.Applied({}) if text in self.posts else duly.NotApplied()


@contextmanager
def database(place: Place) -> Iterator[str]:
    """Give the address of an empty store."""
    name = place.make()
    yield address(place.folder, name)
    place.give_back(name)


@asynccontextmanager
async def opened(url: str, *connectors: duly.Connector, **options: Any) -> AsyncIterator[Host]:
    """Open a host with a short lease."""
    options.setdefault("fleet", SHORT)
    async with Host(url, connectors=connectors, **options) as host:
        yield host


async def deploy(host: Host, name: str = "notes") -> None:
    """Deploy the workflow that posts notes."""
    await host.deploy(Source(Language.PYTHON, FLOW.format(name=name), f"{name}.py"))
    await host.grant(name, "outside.post")


async def until(asked: Callable[[], Awaitable[bool]] | Callable[[], bool], what: str) -> None:
    """Wait until something is so; what never is, is told."""
    ends_at = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_at:
        answer = asked()
        if answer if isinstance(answer, bool) else await answer:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{what}: not within {PATIENCE_S:g} s")
