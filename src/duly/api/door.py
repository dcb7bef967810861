"""The way of a page to its host: a channel on which the page says who acts (G5, G8).

Law 1  Only a page speaks through a door: one that a host started, over a socket that it inherited,
       or one that runs in the host's own process. On every other way `by` is known without asking.
Law 2  A caller who signed in has a scope, and the host checks it at every verb, not the page.
Law 3  A verb means the same either way: the same arguments, the same answer, the same errors.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final, Protocol

from duly.api.codec import perform
from duly.api.registry import Registry, Scope
from duly.api.session import Remote, RunningHost, Session
from duly.errors import DulyError, RequestRefused
from duly.rules.fault import mask, trace
from duly.rules.value import Json

if TYPE_CHECKING:
    from duly.host import Host

LOOK_S: Final = 1.0  # some answers change with the time alone

log = logging.getLogger("duly.page")


class Door(Protocol):
    """What a page stands on."""

    @property
    def verbs(self) -> Registry:
        """The verbs of the host behind it."""

    def signed(self, by: str, scope: Scope) -> Session:
        """Return a session in the name of a caller."""


class Inherited:
    """The door of a page in a process of its own: the socket that it inherited from its host."""

    def __init__(self, remote: Remote) -> None:
        self.verbs = Registry()
        self._remote = remote

    def signed(self, by: str, scope: Scope) -> Session:
        """Return a session in the name of a caller."""
        return _Far(self._remote, by, scope)


class _Far:
    def __init__(self, remote: Remote, by: str, scope: Scope) -> None:
        self._remote = remote
        self._said: dict[str, Json] = {"by": by, "scope": str(scope)}

    @property
    def host(self) -> RunningHost | None:
        return self._remote.host

    async def call(self, verb: str, /, **args: Json) -> Json:
        return await self._remote.ask(verb, args, self._said)

    async def follow(self, verb: str, /, **args: Json) -> AsyncIterator[Json]:
        async with aclosing(self._remote.ask_on(verb, args, self._said)) as answers:
            async for answer in answers:
                yield answer


class Within:
    """The door of a page in the process of its host, for a program that embeds both."""

    def __init__(self, host: Host) -> None:
        self.verbs = Registry(type(host))
        self._host = host

    def signed(self, by: str, scope: Scope) -> Session:
        """Return a session in the name of a caller."""
        return _Near(self._host, self.verbs, by, scope)


class _Near:
    def __init__(self, host: Host, verbs: Registry, by: str, scope: Scope) -> None:
        self._host = host
        self._verbs = verbs
        self._by = by
        self._scope = scope

    @property
    def host(self) -> RunningHost | None:
        from duly import __version__

        return RunningHost(
            pid=os.getpid(),
            version=__version__,
            store=self._host.place,
            since=self._host.opened_at,
            serving=self._host.is_working,
        )

    async def call(self, verb: str, /, **args: Json) -> Json:
        host = self._host
        try:
            return await perform(
                host, verb, args, by=self._by, scope=self._scope, verbs=self._verbs
            )
        except DulyError as error:
            secrets = host.connectors.secrets()
            if error.code == "failed_inside" and isinstance(error.__cause__, Exception):
                # Where it happened is for the log; what it says may be a secret (A5).
                log.error("%s failed inside the host\n%s", verb, trace(error.__cause__, secrets))
            mask(error, secrets)
            raise

    async def follow(self, verb: str, /, **args: Json) -> AsyncIterator[Json]:
        if not self._verbs.find(verb).is_followable:
            raise RequestRefused(code="not_followable", subject=verb)
        changed = asyncio.Event()
        last: Json = None
        is_first = True
        with self._host.watched_by(changed.set):
            while True:
                changed.clear()
                answer = await self.call(verb, **args)
                if is_first or answer != last:
                    last, is_first = answer, False
                    yield answer
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await changed.wait()
