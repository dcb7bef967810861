"""One way to call a verb: on the host that runs, or on the store itself where none does.

Law 1: a verb means the same either way: the same arguments, the same answer, the same errors.
Law 2: without a running host nothing runs but the verb: the store is opened for it, without
       extensions, and given back at once.
Law 3: a host that went away in the middle of an act is never answered for: what is not known is
       said.
Law 4: a question makes nothing: where there is no store yet, there is none afterwards. A sign-in
       that begins is the one that does: what it returns is sealed with the key of the store.
Law 5: a session has a scope, which a program can only lower; the host checks it, not the client.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec

from duly import __version__
from duly.api.codec import masked, perform, read_arguments
from duly.api.project import Project
from duly.api.registry import BUS, VERBS, Scope, Verb
from duly.api.wire import (
    ANSWER_BYTES_MAX,
    DEPTH_AROUND,
    REQUEST_BYTES_MAX,
    Peer,
    ask_peer,
    name_actor,
    reach,
    read_error,
    read_line,
    write_line,
)
from duly.config import URL_PREFIX
from duly.env import Loop
from duly.errors import DulyError, Invalid, RequestRefused, StoreInUse, StoreUnavailable, see
from duly.rules.value import Json, check_json
from duly.rules.verb import check_right

if TYPE_CHECKING:
    from duly.host import Host

GREETING_S: Final = 10.0
# Another process may have the store for the moment of one verb, or be a host that soon listens.
TRIES_MAX: Final = 10
PAUSE_S: Final = 0.1

log = logging.getLogger("duly.session")


@dataclass(frozen=True, slots=True)
class RunningHost:
    """The host that answers: its process, its version, since when it is open, whether it works.

    `settings` is a fingerprint of what it was started with; a program that embeds Duly has none.
    `page` is where its page can be opened; `page_down`: it ended, and is started again.
    """

    pid: int
    version: str
    store: str
    since: datetime
    serving: bool
    settings: str | None = None
    page: str | None = None
    page_down: bool = False

    def has_other_settings(self, project: Project) -> bool:
        """Tell whether it was started with other settings than the project has now."""
        # Another version knows other settings, so that its fingerprint says nothing.
        is_comparable = self.settings is not None and self.version == __version__
        return is_comparable and self.settings != project.settings


class Session(Protocol):
    """A way to a host, or to the store of one."""

    @property
    def host(self) -> RunningHost | None:
        """The host that answers; None where the store is asked directly."""

    async def call(self, verb: str, /, **args: Json) -> Json:
        """Carry out a verb and answer what it answered."""

    def follow(self, verb: str, /, **args: Json) -> AsyncIterator[Json]:
        """Give the answer of a question, and again each time it has changed."""


Answers: TypeAlias = "asyncio.Queue[Json | DulyError]"


@asynccontextmanager
async def connect(project: Project, *, scope: Scope = Scope.ADMIN) -> AsyncIterator[Session]:
    """Speak to the host that runs, else to the store itself; a smaller scope refuses more (G4)."""
    session = Through(project, scope)
    try:
        await session.look()
        yield session
    finally:
        await session.close()


class Through:
    """A session: through the socket if a host answers there, else through the store."""

    def __init__(self, project: Project, scope: Scope = Scope.ADMIN) -> None:
        self._project = project
        self._scope = scope
        self._remote: Remote | None = None

    @property
    def host(self) -> RunningHost | None:
        """The host that answers; None where the store is asked directly."""
        return None if self._remote is None else self._remote.host

    async def look(self) -> None:
        """Look whether a host answers; from then on it is spoken to."""
        if self._remote is not None and self._remote.is_gone and not self._remote.was_asked:
            # The host hung up on a session that had said nothing; nothing can be lost by that.
            await self._remote.close()
            self._remote = None
        if self._remote is None:
            self._remote = await Remote.reach(self._project.socket, self._scope)

    async def call(self, verb: str, /, **args: Json) -> Json:
        """Carry out a verb and answer what it answered."""
        self._check(args)
        await self.look()
        if self._remote is not None:
            return await self._remote.call(verb, **args)
        return await self._call_store(verb, args)

    async def _call_store(self, verb: str, args: Mapping[str, Json]) -> Json:
        """Carry out a verb on the store itself, or on a host that took it meanwhile."""
        from duly.api.build import build_host

        known = VERBS.find(verb)
        check_right(known.name, self._scope, known.scope)  # before a store is made for it
        for _ in range(TRIES_MAX):
            await self.look()
            if self._remote is not None:
                return await self._remote.call(verb, **args)
            is_aside = known.is_question and not known.declared.needs_store
            if is_aside and self._has_no_store():
                return await self._ask_nothing(known, args)
            # Extensions come to life only to be asked how they are (law 2).
            host = build_host(self._project, with_extensions=known.declared.needs_extensions)
            try:
                await host.open()
            except StoreInUse as error:
                held = error
                await Loop().sleep(PAUSE_S)
                continue
            try:
                if verb.startswith(BUS):
                    with masked(host):
                        self._reserve(host, known, args)
                return await self._perform(host, verb, args)
            finally:
                await host.close()
        socket = self._project.socket.name
        raise StoreInUse(
            code="host_not_listening", subject=held.subject, facts={**held.facts, "socket": socket}
        ) from held

    def _has_no_store(self) -> bool:
        """Tell whether a store is yet to be made; where none can be, that is told by trying."""
        place = self._project.database
        if place is None:
            return False  # the server says whether there is one
        return not place.exists() and os.access(place.parent, os.W_OK | os.X_OK)

    async def _perform(self, host: Host, verb: str, args: Mapping[str, Json]) -> Json:
        by = name_actor(os.geteuid(), self._scope)
        return await perform(host, verb, args, by=by, scope=self._scope)

    async def _ask_nothing(self, verb: Verb, args: Mapping[str, Json]) -> Json:
        """Ask an empty store aside: a question makes none (law 4)."""
        from duly.api.build import build_host

        with TemporaryDirectory(prefix="duly-") as folder:
            config = replace(self._project.config, url=f"{URL_PREFIX}{folder}/nothing.db")
            aside = replace(self._project, config=config)
            with_extensions = verb.declared.needs_extensions
            async with build_host(aside, with_extensions=with_extensions) as host:
                return await self._perform(host, verb.name, args)

    def _reserve(self, host: Host, verb: Verb, args: Mapping[str, Json]) -> None:
        """Keep for the extensions what is theirs, though none of them is awake (B1, B13)."""
        from duly.bus.loader import list_ids

        folder = self._project.config.extensions
        if folder is None:
            return
        ids = list_ids(self._project.folder / folder, self._project.config.policy.limits)
        for extension_id in dict.fromkeys(ids):
            host.bus.reserve(extension_id)
        named = args.get(verb.declared.extension_argument)
        owner = str(named).partition(":")[0]
        if owner in ids:
            # Only a host can tell whether the extension still uses it.
            facts = {"of": named, "owner": owner}
            place = self._project.place
            raise RequestRefused(code="needs_host", subject=place, facts=facts)

    async def follow(self, verb: str, /, **args: Json) -> AsyncIterator[Json]:
        """Give the answer of a question, and again each time it has changed."""
        self._check(args)
        await self.look()
        if self._remote is None:
            known = VERBS.find(verb)
            check_right(known.name, self._scope, known.scope)
            read_arguments(known, args)
            raise RequestRefused(code="needs_host", subject=self._project.place)
        async with aclosing(self._remote.follow(verb, **args)) as answers:
            async for answer in answers:
                yield answer

    def _check(self, args: Mapping[str, Json]) -> None:
        """Refuse what JSON cannot say, which would arrive as null; a host reads the arguments."""
        depth = self._project.config.policy.limits.json_depth + DEPTH_AROUND
        for name, each in args.items():
            check_json(each, name, limit_bytes=ANSWER_BYTES_MAX, depth=depth)

    async def close(self) -> None:
        """Hang up."""
        if self._remote is not None:
            await self._remote.close()


class Remote:
    """A conversation with a running host; several verbs may be under way at once."""

    def __init__(
        self,
        host: RunningHost,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        scope: Scope = Scope.ADMIN,
    ) -> None:
        self.host = host
        # The host gives every client all it may have, so only a smaller scope is said.
        self._lowered: dict[str, Json] = {} if scope is Scope.ADMIN else {"scope": str(scope)}
        self._reader = reader
        self._writer = writer
        self._ids = count(1)
        self._waiting: dict[int, tuple[str, Answers]] = {}
        self._reason: DulyError | None = None  # why the host is about to hang up, if it said so
        self.was_asked = False
        self.is_gone = False  # the host has hung up
        self._listening = asyncio.ensure_future(self._listen())

    @classmethod
    async def reach(cls, path: Path, scope: Scope = Scope.ADMIN) -> Remote | None:
        """Connect to the host that listens at a path; None if none does."""
        made = reach(path)
        if made is None:
            return None
        reader, writer = await asyncio.open_unix_connection(sock=made, limit=ANSWER_BYTES_MAX)
        host = None
        try:
            host = await _hear_greeting(reader, path, ask_peer(made))
        finally:
            if host is None:
                writer.transport.abort()
        return None if host is None else cls(host, reader, writer, scope)

    @classmethod
    async def over(cls, made: socket.socket) -> Remote:
        """Speak over a socket that this process inherited from its host (G5)."""
        reader, writer = await asyncio.open_connection(sock=made, limit=ANSWER_BYTES_MAX)
        host = await _hear_greeting(reader, Path("channel"), None)
        if host is None:
            writer.transport.abort()
            raise StoreUnavailable(code="host_gone", facts={"process": os.getppid()})
        return cls(host, reader, writer)

    async def until_gone(self) -> None:
        """Return when the host has hung up, or is no more."""
        await asyncio.wait([self._listening])

    async def call(self, verb: str, /, **args: Json) -> Json:
        """Carry out a verb over there and answer what it answered."""
        return await self.ask(verb, args, self._lowered)

    async def follow(self, verb: str, /, **args: Json) -> AsyncGenerator[Json, None]:
        """Give the answer of a question, and again each time it has changed; the newest only."""
        async with aclosing(self.ask_on(verb, args, self._lowered)) as answers:
            async for answer in answers:
                yield answer

    async def ask(self, verb: str, args: Mapping[str, Json], said: Mapping[str, Json]) -> Json:
        """Carry out a verb; `said` goes with the request: a scope, and who acts where it may."""
        with self._expecting(verb) as (request_id, answers):
            await self._send({"id": request_id, "verb": verb, "args": dict(args), **said})
            return _read_answer(await answers.get())

    async def ask_on(
        self, verb: str, args: Mapping[str, Json], said: Mapping[str, Json]
    ) -> AsyncGenerator[Json, None]:
        """Ask a question, and return its answer again each time it has changed."""
        with self._expecting(verb) as (request_id, answers):
            asked: dict[str, Json] = {"id": request_id, "verb": verb, "args": dict(args)}
            await self._send({**asked, **said, "follow": True})
            try:
                while True:
                    yield _read_answer(await answers.get())
            finally:
                if not self.is_gone:
                    await self._send({"id": request_id, "stop": True})

    async def close(self) -> None:
        """Hang up."""
        self._listening.cancel()
        self._writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await asyncio.wait([self._listening])
            await self._writer.wait_closed()

    @contextmanager
    def _expecting(self, verb: str) -> Iterator[tuple[int, Answers]]:
        """Keep a place for the answers to one request."""
        request_id = next(self._ids)
        self.was_asked = True
        answers: Answers = asyncio.Queue()
        self._waiting[request_id] = (verb, answers)
        try:
            yield request_id, answers
        finally:
            del self._waiting[request_id]

    async def _send(self, message: dict[str, Json]) -> None:
        line = write_line(message)
        if len(line) > REQUEST_BYTES_MAX:
            most = {"limit": REQUEST_BYTES_MAX, "unit": "bytes"}
            raise Invalid(code="too_long", subject="request", facts=most)
        if self.is_gone:
            raise StoreUnavailable(code="host_gone", facts={"process": self.host.pid})
        # A host that does not take it has hung up; the task that reads answers notices that.
        with suppress(OSError):
            self._writer.write(line)
            await self._writer.drain()

    async def _listen(self) -> None:
        """Hand out what the host says, until it says nothing more."""
        try:
            while (line := await self._reader.readline()).endswith(b"\n"):
                self._hand_out(read_line(line))
        except (OSError, ValueError, Invalid) as error:
            log.debug("The host at the other end broke off: %s", error)
        finally:
            self.is_gone = True
            for verb, answers in self._waiting.values():
                _put(answers, _gone(self.host.pid, verb, self._reason))

    def _hand_out(self, message: dict[str, Json]) -> None:
        request_id = message.get("id")
        if request_id is None and "error" in message:
            self._reason = read_error(message["error"])
        if not isinstance(request_id, int) or request_id not in self._waiting:
            return  # the caller does not wait for it any more
        _, answers = self._waiting[request_id]
        if "error" in message:
            _put(answers, read_error(message["error"]))
        elif "answer" in message:
            _put(answers, message["answer"])


def _put(answers: Answers, answer: Json | DulyError) -> None:
    """Keep the newest answer; a caller that reads slowly misses those in between."""
    while not answers.empty():
        answers.get_nowait()
    answers.put_nowait(answer)


def _read_answer(answer: Json | DulyError) -> Json:
    if isinstance(answer, DulyError):
        raise answer
    return answer


def _gone(process: int, verb: str, reason: DulyError | None) -> StoreUnavailable:
    facts: dict[str, Json] = {"process": process}
    if reason is not None:
        facts["cause"] = str(reason)
    known = VERBS.get(verb)  # one of a newer host may be an act
    if known is not None and known.is_question:
        return StoreUnavailable(code="host_gone", facts=facts)
    look = see("actions" if known is None else known.recorded_in)
    return StoreUnavailable(code="act_unheard", subject=verb, facts=facts, next=look)


async def _hear_greeting(
    reader: asyncio.StreamReader, path: Path, peer: Peer | None
) -> RunningHost | None:
    """Hear what a host says first: who it is; one that is closing says nothing."""
    try:
        async with asyncio.timeout(GREETING_S):
            line = await reader.readline()
    except TimeoutError:
        facts = {} if peer is None else {"process": peer.process}
        raise StoreUnavailable(code="host_silent", subject=str(path), facts=facts) from None
    except ConnectionError:
        return None
    return _read_greeting(line, path) if line else None


def _read_greeting(line: bytes, path: Path) -> RunningHost:
    """Read what a host says first: who it is, or why it does not speak to us."""
    try:
        greeting = read_line(line)
        if "error" in greeting:
            raise read_error(greeting["error"])
        return msgspec.convert({**greeting, "version": greeting["duly"]}, RunningHost)
    except (Invalid, KeyError, msgspec.ValidationError):
        raise StoreUnavailable(code="not_a_host", subject=str(path)) from None
