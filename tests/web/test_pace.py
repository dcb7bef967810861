"""How often pages are made that several viewers follow: in time that a test lets pass (G13)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Final

import pytest

from duly.faces.web import stream
from duly.faces.web.look import Sheet

COST_MS: Final = 47  # of the first page over a million events, with no other work (decision 190)
PAGES: Final = 5
LOOKS: Final = 2  # at each page that may be saved up
QUIET_S: Final = 20.0


class Skipping(asyncio.SelectorEventLoop):
    """A loop that waits for nothing: what is due next is due now."""

    def __init__(self) -> None:
        super().__init__()
        self._passed_s = 0.0
        selector: Any = self._selector  # type: ignore[attr-defined]
        really = selector.select

        def select(timeout: float | None = None) -> Any:
            self._passed_s += timeout or 0.0
            return really(0)

        selector.select = select

    def time(self) -> float:
        return self._passed_s

    def pass_s(self, passed_s: float) -> None:
        """Work for so long."""
        self._passed_s += passed_s


class Host:
    """A host that tells of writes when a test says so, and counts how long it was asked."""

    def __init__(self) -> None:
        self.written = asyncio.Event()
        self.made: dict[str, list[float]] = {}
        self.busy_s = 0.0
        self.cost_s = COST_MS / 1000
        self.is_still = False
        self.lives: list[stream.Life] = []
        self.drawn = 0

    async def call(self, verb: str, /, **args: Any) -> Any:
        assert verb == "admitted"
        return [True for _ in args["tokens"]]

    async def follow(self, verb: str, /) -> AsyncIterator[None]:
        assert verb == "writes"
        while True:
            await self.written.wait()
            self.written.clear()
            yield None

    async def make(self, name: str) -> Any:
        """Take the time that a page takes."""
        await asyncio.sleep(self.cost_s)
        self.busy_s += self.cost_s
        at_s = asyncio.get_running_loop().time()
        self.made.setdefault(name, []).append(at_s)
        return Sheet(name, {"at": 0 if self.is_still else at_s})

    async def watch(self, life: stream.Life, cost_s: float) -> None:
        """Take the time that it takes to send a page, each time it is another one."""
        loop: Any = asyncio.get_running_loop()
        while not life.is_over:
            await life.changed(life.page.digest, "", QUIET_S)
            loop.pass_s(cost_s)
            self.busy_s += cost_s


def pace(monkeypatch: pytest.MonkeyPatch, body: Callable[[Host], Awaitable[None]]) -> None:
    """Let viewers follow several pages for as long as the body lasts, in a time that jumps."""
    loop = Skipping()

    host = Host()

    async def write(request: Any, sheet: Any) -> stream.Written:
        host.drawn += 1
        return stream.Written(f"{sheet.template} {loop.time()}", b"")

    monkeypatch.setattr(stream, "machine_ms", lambda: round(loop.time() * 1000))
    monkeypatch.setattr(stream, "_write", write)

    async def run() -> None:
        monkeypatch.setattr(stream, "visit_of", lambda _: SimpleNamespace(session=host))
        shared = asyncio.Lock(), stream.Budget(), stream.Pulse()
        first: Any = stream.Written("", b"")
        for number in range(PAGES):
            name: Any = f"page {number}"
            host.lives.append(stream.Life(name, host.make, first, *shared))  # type: ignore[arg-type]
        try:
            await body(host)
        finally:
            for each in host.lives:
                each.end()
            await asyncio.sleep(0)

    try:
        loop.run_until_complete(asyncio.wait_for(run(), 10_000))
    finally:
        loop.close()


def test_a_change_is_seen_on_several_pages_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """G13: the rest after one page does not hold up the others; it comes after all of them."""

    async def change(host: Host) -> None:
        for lead_s in (0.0, 0.3, 0.9, 1.7):  # between two looks, wherever it comes
            await asyncio.sleep(QUIET_S + lead_s)
            begun_s = asyncio.get_running_loop().time()
            host.made.clear()
            host.written.set()
            await asyncio.sleep(1.0 + stream.PAUSE_S)
            assert len(host.made) == PAGES
            seen_s = [min(each) - begun_s for each in host.made.values()]
            assert max(seen_s) < 1.2  # a page that was just looked at waits for its half second
            assert sorted(seen_s)[2] < 0.8

    pace(monkeypatch, change)


def test_pages_take_a_tenth_of_the_time_however_much_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G13: of a host that writes all the time, and of one where nothing happens."""

    async def work(host: Host) -> None:
        for step_s in (0.01, 300.0):
            begun_s = host.busy_s
            for _ in range(round(300 / step_s)) if step_s < 1 else range(1):
                await asyncio.sleep(step_s)
                host.written.set()
            lasted_s = 300.0
            assert host.busy_s - begun_s < lasted_s / 10
            assert host.busy_s - begun_s > lasted_s / 20

    pace(monkeypatch, work)


def test_sending_a_page_to_its_viewers_is_paid_for_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """G13: fifty viewers cost more than one, and still no more than a tenth of the time."""

    async def work(host: Host) -> None:
        watching = [asyncio.ensure_future(host.watch(each, 0.05)) for each in host.lives]
        for _ in range(10_000):
            await asyncio.sleep(0.01)
            host.written.set()
        assert host.busy_s < 10
        for each in watching:
            each.cancel()

    pace(monkeypatch, work)


def test_no_more_is_saved_up_than_the_pages_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """G13: pages that cost little take little after a quiet time as well."""

    async def work(host: Host) -> None:
        host.cost_s = 0.012
        for _ in range(10):
            await asyncio.sleep(QUIET_S)
            begun_s = host.busy_s
            for _ in range(500):
                await asyncio.sleep(0.01)
                host.written.set()
            saved_s, earned_s = LOOKS * PAGES * host.cost_s, 5 / (stream.REST + 1)
            assert host.busy_s - begun_s < saved_s + earned_s + 2 * host.cost_s

    pace(monkeypatch, work)


def test_a_page_whose_facts_are_the_same_is_not_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G13: what is written elsewhere costs its questions alone."""

    async def work(host: Host) -> None:
        host.is_still = True
        for _ in range(20):
            await asyncio.sleep(1)
            host.written.set()
        assert (sum(map(len, host.made.values())) > PAGES, host.drawn) == (True, PAGES)
        host.is_still = False
        await asyncio.sleep(stream.LOOK_S + 10)
        assert host.drawn >= 2 * PAGES

    pace(monkeypatch, work)


def test_a_page_is_made_twice_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """G13: a host that writes all the time, and pages that cost nothing."""

    async def work(host: Host) -> None:
        host.cost_s = 0.0
        for _ in range(1000):
            await asyncio.sleep(0.01)
            host.written.set()
        for times in host.made.values():
            assert len(times) > 15
            gaps = [later - earlier for earlier, later in pairwise(times)]
            assert min(gaps) > 0.5 - 1e-6

    pace(monkeypatch, work)
