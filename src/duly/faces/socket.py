"""The control socket of a running host: every verb, over newline-delimited JSON (docs/control.md).

Law 1: a user who may open the file may command the host, and no other: the mode is the token, and
       the kernel is asked who is there. Acts are written down under the name it gives, and no
       request can give another (G5).
Law 2: no client hurts the host or another client by what it sends, or by not sending or not
       reading: every size, number and wait has a limit (`faces/room.py`).
Law 3: an act that was begun is finished, whether its client stays or not; closing waits for it.
Law 4: without a client that follows, nothing is read: an idle host does no work for its socket
       (S9).

    async with Control(host, path):
        await host.serve()
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from duly import __version__, fork
from duly.api.codec import Extent, perform, to_json
from duly.api.record import mask, trace
from duly.api.registry import Registry, Scope
from duly.api.value import Json
from duly.api.wire import (
    ANSWER_BYTES_MAX,
    DEPTH_AROUND,
    LINE,
    PIECE_BYTES,
    REQUEST_BYTES_MAX,
    ROOT,
    Scan,
    ask_peer,
    listen,
    name_actor,
    read_strictly,
    stop_accepting,
    write_error,
    write_line,
)
from duly.errors import DulyError, Invalid, RequestRefused, short
from duly.faces.request import Request, RequestId, read_id, read_request
from duly.faces.room import Answers, Clock, Room, Shelf, make_place
from duly.host import Host
from duly.loop import outlast

REQUESTS_AT_ONCE_MAX: Final = 16  # of one connection, those it follows among them
CHUNK_BYTES: Final = 64 * 1024  # read at once
ANSWER_S_MAX: Final = 30.0  # how long an answer may lie there until its client takes it
HANGUP_S_MAX: Final = 5.0  # how long the last answers may lie there
LOOKS_AT_ONCE_MAX: Final = 2  # of all who follow: no act must wait behind a thousand of them
FOLLOW_PAUSE_S: Final = 0.2  # at most five answers a second
FOLLOW_LOOK_S: Final = 1.0  # some answers change with the time: "Next check in 3 min"
UNREAD_BYTES_MAX: Final = 1024 * 1024  # of answers; with more a client is not read from

log = logging.getLogger("duly.control")


class Control:
    """Lets other processes of the same user speak to a host, for as long as it is entered.

    `settings` is a fingerprint of what the host was started with: a client can compare its own.
    `page` is where the page of the host can be opened.
    `scope` is what a client may do at most; the owner of the host may do everything (G4).
    """

    def __init__(
        self,
        host: Host,
        path: Path,
        *,
        clock: Clock | None = None,
        settings: str | None = None,
        page: str | None = None,
        scope: Scope = Scope.ADMIN,
        room: Room | None = None,
    ) -> None:
        self.host = host
        self._turn: Callable[[], Awaitable[None]] | None = None
        self.scope = scope
        self.verbs = Registry(type(host))
        self.clock = clock
        self.room = room or Room()
        self.shelf = Shelf(self.room)
        self.answers = Answers(self.room)
        self.turns = count()
        self.looking = asyncio.Semaphore(LOOKS_AT_ONCE_MAX)
        self._path = path
        self.told: dict[str, Json] = {"settings": settings, "page": page}
        self._talks: dict[asyncio.Task[None], Talk] = {}
        self._server: asyncio.Server | None = None
        self._is_closing = False
        self._identity: tuple[int, int] | None = None
        self._listener: socket.socket | None = None
        self._is_abandoned = False
        fork.own(self)

    def abandon(self) -> None:
        """Leave the socket to the parent, in a forked child, where no call would be heard (H1)."""
        self._is_abandoned = True
        if self._listener is not None:
            self._listener.close()

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        self._turn = partial(self.host.clock.sleep, 0)  # a host that has closed has no clock
        made = listen(self._path)
        self._identity = _identity(self._path)
        self._listener = made
        self._server = await asyncio.start_unix_server(self._welcome, sock=made, limit=CHUNK_BYTES)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let no further client in, let begun acts end, and hang up."""
        if self._is_abandoned:
            return
        assert self._server is not None
        self._is_closing = True
        assert self._turn is not None
        assert self._listener is not None
        await stop_accepting(self._listener, self._turn)
        self._server.close()
        # Another host may listen there by now; its socket is not ours to remove.
        with suppress(FileNotFoundError):
            if _identity(self._path) == self._identity:
                self._path.unlink()
        for talk in self._talks.values():
            talk.end()
        await outlast(*self._talks)

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak with one client until one of the two has had enough."""
        # Where the kernel cannot be asked, the mode of the file has let in its own user alone.
        peer = ask_peer(writer.get_extra_info("socket"))
        user = os.geteuid() if peer is None else peer.user
        await self.talk(Talk(self, reader, writer, user), self._refuse(user))

    async def talk(self, talk: Talk, refusal: RequestRefused | None = None) -> None:
        """Hold a conversation to its end, or say why there is none."""
        if self._is_closing:
            await talk.close()
            return
        talk.is_leaving = refusal is not None
        task = asyncio.current_task()
        assert task is not None
        self._talks[task] = talk
        try:
            if refusal is not None:
                await talk.send({"error": write_error(refusal)})
            else:
                await talk.run(self._greeting())
        except Exception:
            log.exception("A talk over the control socket failed")
        finally:
            await talk.close()
            del self._talks[task]
            self.shelf.clear(talk)

    def _refuse(self, user: int) -> RequestRefused | None:
        if user not in (ROOT, os.geteuid()):
            log.warning("User %d was refused at the control socket", user)
            return RequestRefused(code="host_of_another", subject=str(self._path))
        if (count := len(self._talks)) >= 2 * self.room.connections:
            return RequestRefused(code="too_many_clients", facts={"count": count})
        return make_place(self._talks.values(), user, self.room)

    def _greeting(self) -> dict[str, Json]:
        return {
            "duly": __version__,
            "pid": os.getpid(),
            "store": self.host.place,
            "since": to_json(self.host.opened_at),
            "serving": self.host.is_working,
            **{name: each for name, each in self.told.items() if each is not None},
        }


class Talk:
    """One connection: what its client asked for and has not been answered yet."""

    names_actor = False  # only a page says who acts (`faces/channel.py`)
    requests_max = REQUESTS_AT_ONCE_MAX

    def __init__(
        self,
        control: Control,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        user: int,
    ) -> None:
        self.user = user
        self.is_leaving = False
        self.has_spoken = False
        self.quiet_since = next(control.turns)
        self._host = control.host
        self._scope = control.scope
        self._verbs = control.verbs
        self._env = control.host.clock
        self._clock = control.clock or self._env
        self._room = control.room
        self._shelf = control.shelf
        self._answers = control.answers
        self._turns = control.turns
        self._looking = control.looking
        self._buffer = bytearray()
        self._held_bytes = 0  # of the requests under way
        self._reader = reader
        self._writer = writer
        self._sending = asyncio.Lock()
        self._taken = asyncio.Event()  # unset while too much of what was answered is not read
        self._taken.set()
        self._requests: dict[RequestId, tuple[Request, asyncio.Task[None]]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._is_ended = False

    async def run(self, greeting: Mapping[str, Json]) -> None:
        """Greet, and listen until the client has no more to ask, or the host ends it."""
        await self.send(greeting)
        if not self._is_ended:
            self._listening = asyncio.ensure_future(self._listen())
            with suppress(asyncio.CancelledError):
                await self._listening

    async def _listen(self) -> None:
        """Take requests until there are no more, or one breaks the rules of the line."""
        try:
            while line := await self._read_line():
                await self._take(line)
                # Lines that are there already are taken in turn with all that the host does.
                await self._pause()
                await self._taken.wait()
        except ConnectionError:
            pass
        except (Invalid, RequestRefused) as refusal:
            await self._send_error(None, refusal)
        except TimeoutError:
            waited_s = self._room.request_s if self._buffer else self._room.first_line_s
            facts = {"seconds": f"{waited_s:g}"}
            late = Invalid(code="line_unfinished", subject=LINE, facts=facts)
            await self._send_error(None, late)

    async def _read_line(self) -> bytes:
        """Read one line; nothing once the client has hung up, be it in the middle of one."""
        clock = asyncio.get_running_loop()
        looked = 0
        async with asyncio.timeout(None if self.has_spoken else self._room.first_line_s) as limit:
            while (end := self._buffer.find(b"\n", looked)) < 0:
                looked = len(self._buffer)
                if looked:
                    by = clock.time() + self._room.request_s
                    limit.reschedule(min(by, limit.when() or by))
                chunk = await self._reader.read(CHUNK_BYTES)
                if not chunk:
                    return b""
                self._buffer += chunk
                if b"\n" not in chunk and len(self._buffer) >= REQUEST_BYTES_MAX:
                    raise _too_long()
                self._count()
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        if len(line) > REQUEST_BYTES_MAX:
            raise _too_long()
        self.has_spoken = True
        return line

    def _count(self) -> None:
        """Note how many bytes of this client the host holds, or refuse them."""
        self._shelf.put(self, len(self._buffer) + self._held_bytes)

    @property
    def is_quiet(self) -> bool:
        """Tell whether nothing is under way."""
        return not self._requests

    def give_way(self) -> None:
        """Leave the place to another client; nothing is under way."""
        self.end()

    async def _pause(self) -> None:
        """Let the loop turn."""
        await self._env.sleep(0)

    async def _scan(self, line: bytes) -> Scan:
        """See what a line is made of, without holding the loop for long."""
        scan = Scan()
        for start in range(0, len(line), PIECE_BYTES):
            if start:
                await self._pause()
            scan.add(line[start : start + PIECE_BYTES])
        return scan

    async def _take(self, line: bytes) -> None:
        """Begin what a line asks for, or say what is wrong with it."""
        self.quiet_since = next(self._turns)
        answered_id: RequestId | None = None
        try:
            depth = self._host.policy.limits.json_depth + DEPTH_AROUND
            message = read_strictly(line, depth, await self._scan(line))
            with suppress(Invalid):
                answered_id = read_id(message.get("id"))
            if answered_id in self._requests:
                answered_id = None  # its answer is still to come, and must not be taken for this
            request = read_request(message, names_actor=self.names_actor)
            if request.is_stop:
                await self._stop(request)
                return
            self._check_room(request)
        except DulyError as error:
            await self._send_error(answered_id, error)
            return
        task = asyncio.ensure_future(self._answer(request))
        self._requests[request.id] = (request, task)
        self._held_bytes += len(line)
        task.add_done_callback(lambda _: self._done(request.id, len(line)))

    def _done(self, request_id: RequestId, size: int) -> None:
        del self._requests[request_id]
        self.quiet_since = next(self._turns)
        self._held_bytes -= size
        if not self.is_leaving:
            self._count()

    def _check_room(self, request: Request) -> None:
        if request.id in self._requests:
            raise Invalid(code="id_in_use", path="id", facts={"given": request.id})
        if len(self._requests) >= self.requests_max:
            most = {"limit": self.requests_max, "unit": "requests"}
            raise RequestRefused(code="too_many", subject="connection", facts=most)

    async def _answer(self, request: Request) -> None:
        """Carry out one request; the client is told of every error."""
        try:
            if request.is_follow:
                await self._follow(request)
            else:
                await self._send_answer(await self._make_answer(request), request)
        except DulyError as error:
            if error.code == "failed_inside" and isinstance(error.__cause__, Exception):
                error = self._log_bug(request, error.__cause__, error)
            await self._send_error(request.id, error)
        except Exception as error:  # of the socket itself: the verb has been carried out
            done = {"done": str(Extent.YES)} if self._is_act(request) else {}
            facts = {"cause": type(error).__name__, **done}
            bug = DulyError(code="failed_inside", subject=short(request.verb), facts=facts)
            await self._send_error(request.id, self._log_bug(request, error, bug))

    def _log_bug(self, request: Request, cause: Exception, bug: DulyError) -> DulyError:
        """Write where it happened, and say where that is written; never what it says (A5)."""
        where = trace(cause, self._host.connectors.secrets())
        log.error("%s failed inside the host\n%s", request.verb, where)
        facts = {**bug.facts, "process": os.getpid()}
        return DulyError(code=bug.code, subject=bug.subject, facts=facts, next=bug.next)

    async def _make_answer(self, request: Request) -> bytes:
        """Carry out a verb; only the line is kept of what it returned."""
        scope = self._scope.lowered_to(request.scope)
        by = request.by or self._by(scope)
        answer = await perform(
            self._host, request.verb, request.args, by=by, scope=scope, verbs=self._verbs
        )
        return write_line({"id": request.id, "answer": answer})

    def _is_act(self, request: Request) -> bool:
        """Tell whether something may be changed by it."""
        return request.verb in self._verbs and not self._verbs[request.verb].is_question

    async def _follow(self, request: Request) -> None:
        """Answer a question, and again each time its answer has changed."""
        verb = self._verbs.find(request.verb)
        if not verb.is_followable:
            raise RequestRefused(code="not_followable", subject=verb.name)
        changed = asyncio.Event()
        last = b""
        with self._host.watched_by(changed.set):
            while True:
                changed.clear()
                async with self._looking:
                    line = await self._make_answer(request)
                if (digest := sha256(line).digest()) != last:
                    last = digest
                    await self._send_answer(line, request)
                await self._clock.sleep(FOLLOW_PAUSE_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(FOLLOW_LOOK_S - FOLLOW_PAUSE_S):
                        await changed.wait()

    async def _stop(self, request: Request) -> None:
        """End following; one that has ended by itself is ended."""
        followed, task = self._requests.get(request.id, (None, None))
        if followed is not None and task is not None:
            if not followed.is_follow:
                raise Invalid(code="not_followed", path="id", facts={"given": request.id})
            task.cancel()
        await self.send({"id": request.id, "stop": True})

    def _by(self, scope: Scope) -> str:
        """Who acts, as the kernel says; a client with less than all is one's agent (G5)."""
        return name_actor(self.user, scope)

    async def send(self, message: Mapping[str, Json]) -> None:
        """Send one message; a client that has gone misses it."""
        await self._send_line(write_line(message))

    async def _send_error(self, request_id: RequestId | None, error: DulyError) -> None:
        """Send an error, without any secret that the client put into its request (A5)."""
        mask(error, self._host.connectors.secrets())
        await self.send({"id": request_id, "error": write_error(error)})

    async def _send_answer(self, line: bytes, request: Request) -> None:
        """Send an answer if there is room for it; that of an act, which is done, always."""
        size = len(line)
        try:
            if size > ANSWER_BYTES_MAX:
                facts = {"given": size, "limit": ANSWER_BYTES_MAX}
                raise RequestRefused(code="answer_too_long", subject="result", facts=facts)
            self._answers.put(self, size, is_owed=self._is_act(request))
        except RequestRefused as refusal:
            del line  # it is not to be held while the error waits for its turn
            await self._send_error(request.id, refusal)
            return
        self._count_answers()
        try:
            await self._send_line(line)
        finally:
            self._answers.take(self, size)
            self._count_answers()

    def _count_answers(self) -> None:
        """Read on from a client as soon as it has read its answers."""
        if self._answers.held_bytes(self) > UNREAD_BYTES_MAX:
            self._taken.clear()
        else:
            self._taken.set()

    def hang_up(self) -> None:
        """Drop a client that does not read, and what it has not read."""
        log.warning("A client of user %d was hung up on: it does not read its answers", self.user)
        self._writer.transport.abort()

    async def _send_line(self, line: bytes) -> None:
        # One answer at a time, so that a client that does not read holds up only one.
        async with self._sending:
            if self._writer.transport.is_closing():
                return
            try:
                self._writer.write(line)
                async with asyncio.timeout(ANSWER_S_MAX):
                    await self._writer.drain()
            except (ConnectionError, TimeoutError):
                self._writer.transport.abort()

    def end(self) -> None:
        """Take no more requests, and give up what only asks; acts go on."""
        self._is_ended = self.is_leaving = True
        if self._listening is not None:
            self._listening.cancel()
        for request, task in self._requests.values():
            if not self._is_act(request):
                task.cancel()

    async def close(self) -> None:
        """Let what was begun end, then hang up."""
        for request, task in self._requests.values():
            if request.is_follow:
                task.cancel()
        try:
            await outlast(*(task for _, task in self._requests.values()))
        finally:
            self._writer.close()
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(HANGUP_S_MAX):
                    await self._writer.wait_closed()
            self._writer.transport.abort()  # drops what the client has not read


def _too_long() -> Invalid:
    most = {"limit": REQUEST_BYTES_MAX, "unit": "bytes"}
    return Invalid(code="too_long", subject=LINE, facts=most)


def _identity(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino
