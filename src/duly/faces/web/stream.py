"""The live page: one stream of server-sent events a page, at the address of the page (G13).

Law 1  A stream says the same as the page would: it is made by the same function and template.
Law 2  Equal pages that are looked at by viewers of one scope are made once. Without a viewer
       nothing is asked. One page is made at a time, and none more than twice a second.
       All of them together take a small part of a host's time: runs come first (`Budget`). One
       whose facts are the same is not written again.
Law 3  A viewer whose token was revoked hears nothing further (G6): before a page is sent, one
       question tells which of its viewers are still let in. Viewers are counted, of one token and
       in all (G10).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from duly.api.clock import machine_ms
from duly.api.session import Session
from duly.errors import DulyError, RequestRefused
from duly.faces.web.guard import Endpoint, path_of, visit_of
from duly.faces.web.look import Sheet, show, write_page

Show: TypeAlias = Callable[[Request], Awaitable[Sheet]]
Key: TypeAlias = tuple[str, str, str, str]

MEDIA_TYPE: Final = "text/event-stream"
VIEWERS_MAX: Final = 60
VIEWERS_OF_ONE_MAX: Final = 12
PAUSE_S: Final = 0.5  # at most two updates a second
REST: Final = 15  # times as long as a page took to make, no page is made: runs come first
COST_MS_MAX: Final = 100  # of one page that is rested for, so that a slow one is not made slower
# So much of the time of pages can be saved up, and never more than each page takes so often: a
# change after a quiet time is seen on several pages at once, and the rest comes after them.
SAVED_MS_MAX: Final = 250
SAVED_LOOKS: Final = 2
LOOK_S: Final = 2.0  # some sentences change with the time alone: "Next check in 3 min"
RETRY_MS: Final = 1000  # after it a browser that lost its stream comes back
QUIET_S: Final = 15.0  # after it a comment is sent, so that a viewer who left is noticed


@dataclass(frozen=True, slots=True)
class Written:
    """A page as every viewer is sent it; equal pages have equal digests."""

    digest: str
    sent: bytes


class Lives:
    """The pages that are looked at now."""

    def __init__(self) -> None:
        self._open: dict[Key, Life] = {}
        self._viewers: Counter[str] = Counter()
        self._looking = asyncio.Lock()
        self._budget = Budget()
        self._pulse = Pulse()

    def live(self, make: Show) -> Endpoint:
        """Make the endpoint of a page that is also a stream."""

        async def endpoint(request: Request) -> Response:
            if not wants_stream(request):
                return await show(request, await make(request), is_live=True)
            leave = self._take_seat(visit_of(request).token)
            try:
                # A page that cannot be shown is refused before it begins. One that is followed
                # already is shown as it is: nothing is made for one more viewer.
                life = self._open.get(_key_of(request))
                if life is None or life.is_over:
                    first = await _write(request, await make(request))
                else:
                    first = life.page
            except BaseException:
                leave()
                raise
            return Stream(self._follow(request, make, first), leave)

        return endpoint

    async def _follow(self, request: Request, make: Show, first: Written) -> AsyncIterator[bytes]:
        """Send a page each time it has changed, until its viewer leaves or is let in no more."""
        visit = visit_of(request)
        with self._looked_at(request, make, first) as life:
            yield f"retry: {RETRY_MS}\n\n".encode()
            seen = ""
            while not life.is_over and life.admits(visit.token):
                page = life.page
                if page.digest != seen:
                    seen = page.digest
                    yield page.sent
                else:
                    yield b": \n\n"
                await life.changed(seen, visit.token, QUIET_S)

    def _take_seat(self, token: str) -> Callable[[], None]:
        """Count a viewer from now on, or refuse one too many; return what counts it no more.

        It is counted before anything is asked: however many come at one moment, no more get in.
        """
        for count, most in (
            (self._viewers.total(), VIEWERS_MAX),
            (self._viewers[token], VIEWERS_OF_ONE_MAX),
        ):
            if count >= most:
                facts = {"limit": most, "unit": "streams"}
                raise RequestRefused(code="too_many", subject="stream", facts=facts)
        self._viewers[token] += 1

        def leave() -> None:
            self._viewers[token] -= 1
            self._viewers += Counter()  # forgets those who have left

        return leave

    @contextmanager
    def _looked_at(self, request: Request, make: Show, first: Written) -> Iterator[Life]:
        visit = visit_of(request)
        key = _key_of(request)
        life = self._open.get(key)
        if life is None or life.is_over:
            life = Life(request, make, first, self._looking, self._budget, self._pulse)
            self._open[key] = life
        life.viewers[visit.token] += 1
        try:
            yield life
        finally:
            life.viewers[visit.token] -= 1
            life.viewers += Counter()  # forgets those who have left
            if not life.viewers:
                life.end()
                if self._open.get(key) is life:
                    del self._open[key]


def _key_of(request: Request) -> Key:
    """Return what is the same for all viewers who are sent the same page (law 2)."""
    caller = visit_of(request).caller
    assert caller is not None
    root = str(request.scope.get("root_path", ""))
    return root, path_of(request), request.url.query, str(caller.right)


class Stream(StreamingResponse):
    """What a viewer is sent; a viewer who left before it began has left as well."""

    def __init__(self, pages: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        headers = {"X-Accel-Buffering": "no"}
        super().__init__(pages, headers=headers, media_type=MEDIA_TYPE)
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send pages until the viewer leaves."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


class Budget:
    """How long pages may be made: one part of the time, and what was saved up before.

    A look at what is known to have changed may take all that was saved, and is rested for after
    that. A look that is only due by the time is made when all is saved that can be.
    """

    def __init__(self) -> None:
        self._costs_ms: dict[Life, int] = {}  # of each page, when it was made the last time
        self._saved_ms = float(SAVED_MS_MAX)
        self._at_ms = machine_ms()

    def add(self, page: Life) -> None:
        """Save for a page from now on; before it was made, it may cost as much as any."""
        self._costs_ms[page] = COST_MS_MAX

    def remove(self, page: Life) -> None:
        """Save for a page no more."""
        self._costs_ms.pop(page, None)

    def spend(self, page: Life, cost_ms: int, now_ms: int) -> None:
        """Write down how long a page took to make, and to send to its viewers."""
        cost_ms = min(cost_ms, COST_MS_MAX)
        self._saved_ms = self._saved(now_ms) - cost_ms
        self._at_ms = now_ms
        self._costs_ms[page] = cost_ms

    def wait_s(self, now_ms: int, *, is_due: bool = False) -> float:
        """Return how long it takes until a page may be made."""
        least_ms = self._most_ms if is_due else 0
        return max(least_ms - self._saved(now_ms), 0) * (REST + 1) / 1000

    def _saved(self, now_ms: int) -> float:
        earned_ms = max(now_ms - self._at_ms, 0) / (REST + 1)
        return min(self._saved_ms + earned_ms, self._most_ms)

    @property
    def _most_ms(self) -> int:
        return min(SAVED_LOOKS * sum(self._costs_ms.values()), SAVED_MS_MAX)


class Life:
    """One page that is looked at: it is made again when something was written, or time passed."""

    def __init__(
        self,
        request: Request,
        make: Show,
        first: Written,
        looking: asyncio.Lock,
        budget: Budget,
        pulse: Pulse,
    ) -> None:
        self.viewers: Counter[str] = Counter()
        self.is_over = False
        self._refused: frozenset[str] = frozenset()
        self._facts = b""  # that the page was made of
        self._request = request
        self._make = make
        self._looking = looking
        self._budget = budget
        self._pulse = pulse
        self._turn = asyncio.Event()
        self.page = first
        budget.add(self)
        self._task = asyncio.ensure_future(self._keep())

    def end(self) -> None:
        """Ask nothing further."""
        self._budget.remove(self)  # a task that is cancelled before it began does not
        self._task.cancel()

    def admits(self, token: str) -> bool:
        """Tell whether a viewer is still let in, as far as the host was asked."""
        return token not in self._refused

    async def changed(self, seen: str, token: str, most_s: float) -> None:
        """Wait until the page changed, or is shown to this viewer no more, or for so long."""
        turn = self._turn
        if self.page.digest == seen and self.admits(token) and not self.is_over:
            with suppress(TimeoutError):
                async with asyncio.timeout(most_s):
                    await turn.wait()

    async def _keep(self) -> None:
        session = visit_of(self._request).session
        try:
            with self._pulse.felt(session) as beat:
                while True:
                    await _wait(asyncio.Event(), PAUSE_S)
                    await _wait(beat, LOOK_S - PAUSE_S)
                    while (wait_s := await self._look(session, beat)) > 0:
                        await _wait(beat, wait_s)
        except DulyError:
            pass  # the host is gone, or what is shown is: viewers come back and are told
        finally:
            self._budget.remove(self)
            self.is_over = True
            self._ring()

    async def _look(self, session: Session, beat: asyncio.Event) -> float:
        """Make the page again; if that has time, make it not and return how much of it."""
        async with self._looking:
            wait_s = self._budget.wait_s(machine_ms(), is_due=True)
            if wait_s > 0 and not beat.is_set():
                return max(wait_s, PAUSE_S)
            beat.clear()
            begun_ms = machine_ms()
            await self._renew(session)
            await _wait(asyncio.Event(), 0)  # its viewers are sent it meanwhile
            now_ms = machine_ms()
            self._budget.spend(self, now_ms - begun_ms, now_ms)
            await _wait(asyncio.Event(), self._budget.wait_s(now_ms))
        return 0.0

    async def _renew(self, session: Session) -> None:
        """Make the page again and tell its viewers, if it is another one."""
        sheet = await self._make(self._request)
        facts = sha256(msgspec.json.encode([sheet.template, sheet.facts])).digest()
        made = self.page if facts == self._facts else await _write(self._request, sheet)
        refused = await self._ask_refused(session)
        is_other = refused != self._refused or made.digest != self.page.digest
        self._facts, self._refused, self.page = facts, refused, made
        if is_other:
            self._ring()

    async def _ask_refused(self, session: Session) -> frozenset[str]:
        """Ask which viewers are let in no more: one question for all of them (law 3)."""
        tokens = sorted(self.viewers)
        told = await session.call("admitted", tokens=list(tokens))
        assert isinstance(told, list), told
        return frozenset(each for each, is_in in zip(tokens, told, strict=True) if not is_in)

    def _ring(self) -> None:
        self._turn.set()
        self._turn = asyncio.Event()


async def _write(request: Request, sheet: Sheet) -> Written:
    text = await write_page(request, sheet, is_live=True, is_part=True)
    digest = sha256(text.encode()).hexdigest()[:16]
    return Written(digest, f"event: page\nid: {digest}\ndata: {json.dumps(text)}\n\n".encode())


class Pulse:
    """Tells every page that is looked at when the host wrote something: one question for all."""

    def __init__(self) -> None:
        self._beats: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def felt(self, session: Session) -> Iterator[asyncio.Event]:
        """Give an event that is set at each write, for as long as the block lasts."""
        beat = asyncio.Event()
        self._beats.add(beat)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._listen(session))
        try:
            yield beat
        finally:
            self._beats.discard(beat)
            if not self._beats:
                self._task.cancel()

    async def _listen(self, session: Session) -> None:
        with suppress(DulyError):
            follow = session.follow("writes")
            async for _ in follow:
                for each in self._beats:
                    each.set()


async def _wait(event: asyncio.Event, most_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            await event.wait()


def still(make: Show) -> Endpoint:
    """Make the endpoint of a page that does not change by itself."""

    async def endpoint(request: Request) -> Response:
        if wants_stream(request):
            raise RequestRefused(code="not_followable", subject=path_of(request))
        return await show(request, await make(request))

    return endpoint


def wants_stream(request: Request) -> bool:
    """Tell whether a request asks for a stream of the page."""
    return MEDIA_TYPE in request.headers.get("accept", "")
