"""Every page of a host on which something of everything is: where each is, and what it shows.

`opened` gives such a host. Law: a page that is added to the routes is added to `PATHS`, or named
in `NO_PAGES`; a test says so.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from duly.api.build import build_host
from duly.api.door import Within
from duly.api.folder import ProjectFolder
from duly.api.registry import Registry, Scope
from duly.api.session import RunningHost, Session
from duly.api.value import Json
from duly.faces.web.app import make_app
from duly.faces.web.guard import Entry, Guard, Place
from duly.host import Host
from duly.rules.source import Language, Source
from tests.faces import cli_stand

# What answers GET and is no page: for programs, a file, or without a sign-in.
NO_PAGES: Final = re.compile(
    r"/api/.*|/static/.*|/healthz|/metrics|/sign-in|/ask|/w/\{name\}/(inputs|outputs)\.(csv|json)"
    r"|/guide\.md"
)
PATHS: Final = (
    *("/", "/w/asks", "/w/asks?status=pending", "/w/asks?text=Note", "/w/asks/outputs"),
    *("/w/asks/outputs?text=sheet", "/w/asks/runs", "/w/fails/runs?status=failed:logic"),
    *("/w/rests/versions", "/w/rests/versions/1.0", "/w/rests/versions/1.0..2.0"),
    *("/w/rests/versions/1.0..2.0?what_if=1", "/w/checks/setup", "/i/asks/{seq}"),
    *("/m/{proposed}", "/m/{unknown}", "/runs/{failed_run}", "/runs/{waiting_run}"),
    *("/why/asks", "/why/{unknown}", "/why/{failed_run}", "/why/bus:{dead_event}"),
    *(
        "/proposals/{proposal}",
        "/find?text=Note",
        "/find?first_day=2020-01-01",
        "/bus",
        "/tools",
        "/models",
        "/guide",
    ),
    *(
        "/connect/sheet",
        "/right?workflow=asks&capability=sheet.append",
        "/actions",
        "/settings",
        "/doctor",
        "/doctor?verify=1",
        "/scripts",
        "/scripts/asks.js",
        "/add",
        "/add/mail",
    ),
)


def list_pages(entries: Iterable[Entry]) -> list[str]:
    """List the routes that are pages."""
    found = (each.path for each in entries if "GET" in each.needs)
    return [each for each in found if not NO_PAGES.fullmatch(each)]


def covers(route: str, path: str) -> bool:
    """Tell whether an address is one of a route."""
    where = re.sub(r"\{.*?\}", "x", path.partition("?")[0])
    parts = re.split(r"\{.*?\}", route)
    return re.fullmatch("[^/]+".join(map(re.escape, parts)), where) is not None


@dataclass(frozen=True, slots=True)
class All:
    """A host, its application, the token of an admin, and the addresses of its pages."""

    host: Host
    app: Guard
    token: str
    facts: dict[str, str]

    @property
    def paths(self) -> list[str]:
        return [each.format(**self.facts) for each in PATHS]


Change = Callable[[Any, str], Any]


@dataclass(frozen=True, slots=True)
class Changing:
    """A door whose host answers what a test makes of its answers."""

    door: Within
    change: Change

    @property
    def verbs(self) -> Registry:
        return self.door.verbs

    def signed(self, by: str, scope: Scope) -> Session:
        return cast("Session", _Changing(self.door.signed(by, scope), self.change))


@dataclass(frozen=True, slots=True)
class _Changing:
    session: Session
    change: Change

    @property
    def host(self) -> RunningHost | None:
        return self.session.host

    async def call(self, verb: str, /, **args: Json) -> Json:
        answer = await self.session.call(verb, **args)
        return cast("Json", answer if verb == "who" else self.change(answer, verb))


@asynccontextmanager
async def opened(
    folder: Path, words: dict[str, str], change: Change | None = None
) -> AsyncIterator[All]:
    """Open the host of a folder that `cli_stand.prepare` made, with a proposal beside the rest."""
    made = cli_stand.project(folder)
    async with build_host(made) as host:
        source = Source(Language.JAVASCRIPT, cli_stand.flow("asks", prepare="// Look again."))
        proposal = await host.propose(source, note="Look twice", by="agent:maker")
        (event,) = await host.events("asks")
        name = f"all pages {len(await host.tokens())}"
        token = (await host.new_token(name, scope=Scope.ADMIN, by="ada")).token
        door: Any = Within(host)
        place = Place(folder=ProjectFolder(folder, made.workflows))
        app = make_app(door if change is None else Changing(door, change), place)
        facts = {**words, "proposal": proposal.hash, "seq": str(event.seq)}
        yield All(host, app, token, facts)
