"""The live page: a stream says what the page says, to viewers only (G6, G10, G13)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from duly.api.registry import Scope
from duly.faces.web import stream
from tests.web.stand import HOME, PORT, Web, ask, bearer, fake, serving

EVENTS: Final = {"accept": "text/event-stream"}


class Viewer:
    """A browser that follows a page: what it got, piece by piece."""

    def __init__(self) -> None:
        self.status = 0
        self.ended = asyncio.Event()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        if message.get("body"):
            await self._pieces.put(message["body"])
        if not message.get("more_body"):
            self.ended.set()

    async def page(self) -> str:
        """Wait for the next page that is sent."""
        async with asyncio.timeout(30):
            while True:
                piece = (await self._pieces.get()).decode()
                if piece.startswith("event: page"):
                    return str(json.loads(piece.partition("data: ")[2]))


@asynccontextmanager
async def looking(app: Any, path: str, headers: dict[str, str]) -> AsyncIterator[Viewer]:
    """Follow a page until the block ends; then the viewer has left."""
    viewer, left = Viewer(), asyncio.Event()
    where, _, query = path.partition("?")
    pairs = [(k.encode(), v.encode()) for k, v in {**EVENTS, **headers, "host": HOME}.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "method": "GET",
        "scheme": "http",
        "path": where,
        "query_string": query.encode(),
        "headers": pairs,
        "server": ("127.0.0.1", PORT),
        "client": ("127.0.0.1", 1),
    }

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    task = asyncio.ensure_future(app(scope, receive, viewer.send))
    try:
        yield viewer
    finally:
        left.set()
        await task


def token(web: Web, scope: Scope = Scope.ADMIN) -> dict[str, str]:
    return {"authorization": f"Bearer {web.tokens[scope]}"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less than a person would."""
    for name in ("PAUSE_S", "LOOK_S"):
        monkeypatch.setattr(stream, name, 0.05)


async def test_a_stream_says_what_the_page_says_and_again_when_it_changed(tmp_path: Path) -> None:
    """G13: the same function and template; what belongs to one viewer is not in it."""
    async with serving(tmp_path) as web:
        await web.deploy()
        async with looking(web.app, "/w/invoices", token(web)) as viewer:
            first = await viewer.page()
            whole = (await web.ask("/w/invoices")).text
            inner = first.partition("<main")[2].partition(">")[2].rpartition("</main>")[0]
            assert inner in whole
            assert "admin token" in whole
            assert "admin token" not in first
            await web.host.publish("invoices", "mail.received", title="Milk", message_id="1")
            while "Milk" not in (seen := await viewer.page()):
                pass
            assert "Milk" in seen
        assert (viewer.status, web.host._watchers) == (200, set())


async def test_without_a_viewer_nothing_is_asked(tmp_path: Path) -> None:
    """G13: the last one who leaves ends it; equal pages are made once for all."""
    async with serving(tmp_path) as web:
        await web.deploy()
        asked: list[str] = []
        real = web.host.attention

        async def attention(**args: Any) -> Any:
            asked.append("attention")
            return await real(**args)

        web.host.attention = attention  # type: ignore[method-assign]
        async with (
            looking(web.app, "/", token(web)) as one,
            looking(web.app, "/", token(web)) as two,
        ):
            assert await one.page() == await two.page()
            assert len(asked) <= 4
        count = len(asked)
        await web.host.publish("invoices", "mail.received", title="Milk", message_id="1")
        async with asyncio.timeout(5):
            for _ in range(20):
                await asyncio.sleep(0)
        assert len(asked) == count


async def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path) -> None:
    """G6: an open stream too."""
    async with serving(tmp_path) as web:
        await web.deploy()
        async with asyncio.timeout(30), looking(web.app, "/", token(web, Scope.READ)) as viewer:
            await viewer.page()
            await web.host.revoke_token("read token")
            await viewer.ended.wait()
        assert (await web.ask("/", scope=Scope.READ)).status == 401


async def test_all_viewers_of_a_page_are_confirmed_by_one_question(tmp_path: Path) -> None:
    """G6, G13: who each one is is asked as it comes; the one who was revoked hears no more."""
    async with serving(tmp_path) as web:
        await web.deploy()
        names = ("one", "two", "three")
        tokens = [(await web.host.new_token(each, scope=Scope.READ)).token for each in names]
        asked: list[str] = []
        who, admitted = web.host.who, web.host.admitted

        async def ask_who(token: str) -> Any:
            asked.append("who")
            return await who(token)

        async def ask_admitted(tokens: list[str]) -> Any:
            asked.append(f"{len(tokens)} admitted")
            return await admitted(tokens)

        web.host.who, web.host.admitted = ask_who, ask_admitted  # type: ignore[assignment,method-assign]
        async with AsyncExitStack() as stack:
            viewers = [
                await stack.enter_async_context(
                    looking(web.app, "/w/invoices", {"authorization": f"Bearer {each}"})
                )
                for each in tokens
            ]
            for each in viewers:
                await each.page()
            await web.host.publish("invoices", "mail.received", title="Milk", message_id="1")
            for each in viewers:
                while "Milk" not in await each.page():
                    pass
            assert asked.count("who") == len(viewers)
            assert "3 admitted" in asked
            await web.host.revoke_token("two")
            async with asyncio.timeout(30):
                await viewers[1].ended.wait()
            await web.host.publish("invoices", "mail.received", title="Bread", message_id="2")
            for each in (viewers[0], viewers[2]):
                while "Bread" not in await each.page():
                    pass
            assert not viewers[0].ended.is_set()
            assert asked.count("who") == len(viewers)


async def test_nothing_is_made_for_one_more_viewer_of_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G13: a page that is followed is shown as it is; one of another scope is made anew."""
    for name in ("PAUSE_S", "LOOK_S"):
        monkeypatch.setattr(stream, name, 3600.0)  # no look of its own comes between
    async with serving(tmp_path) as web:
        await web.deploy()
        asked, inputs = [], web.host.inputs

        async def ask_inputs(*args: Any, **named: Any) -> Any:
            asked.append(args)
            return await inputs(*args, **named)

        web.host.inputs = ask_inputs  # type: ignore[method-assign]
        admin, reader = token(web), token(web, Scope.READ)
        async with looking(web.app, "/w/invoices", admin) as first:
            shown = await first.page()
            async with looking(web.app, "/w/invoices", admin) as second:
                assert await second.page() == shown
            assert len(asked) == 1
            async with looking(web.app, "/w/invoices", reader) as other:
                assert await other.page() != shown
            assert len(asked) == 2
        async with looking(
            web.app, "/w/invoices", admin
        ) as later:  # no viewer followed it meanwhile
            await later.page()
        assert len(asked) == 3


async def test_viewers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """G10: one too many is refused before anything is asked."""
    monkeypatch.setattr(stream, "VIEWERS_OF_ONE_MAX", 1)
    app, _ = fake()
    async with looking(app, "/", bearer()) as viewer:
        await viewer.page()
        refused = await ask(app, "/", headers={**bearer(), **EVENTS})
        assert (refused.status, refused.json["code"]) == (429, "too_many")
        other = await ask(app, "/tools", headers={**bearer(), **EVENTS})
        assert (other.status, other.json["code"]) == (409, "not_followable")


async def test_viewers_who_come_at_one_moment_are_counted_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G10: a place is taken before anything is asked; who left gives it back."""
    monkeypatch.setattr(stream, "VIEWERS_OF_ONE_MAX", 2)
    app, door = fake()
    door.gate = asyncio.Event()
    async with AsyncExitStack() as stack:
        viewers = [await stack.enter_async_context(looking(app, "/", bearer())) for _ in range(5)]
        async with asyncio.timeout(30):
            await asyncio.gather(*(each.ended.wait() for each in viewers[2:]))
        door.gate.set()
        assert {each.status for each in viewers[2:]} == {429}
        for each in viewers[:2]:
            await each.page()
    async with looking(app, "/", bearer()) as again:
        await again.page()


@pytest.mark.parametrize(
    "path", ["/", "/bus", "/tools", "/models", "/actions", "/settings", "/doctor"]
)
async def test_a_page_is_json_for_a_program(path: str) -> None:
    """U6: the facts as they are; a browser, which takes anything, gets the page."""
    app, _ = fake()
    told = await ask(app, path, headers={**bearer(), "accept": "application/json"})
    assert (told.status, told["content-type"]) == (200, "application/json")
    assert isinstance(told.json, dict)
    browser = {**bearer(), "accept": "text/html,application/json;q=0.9,*/*;q=0.8"}
    assert (await ask(app, path, headers=browser))["content-type"].startswith("text/html")
