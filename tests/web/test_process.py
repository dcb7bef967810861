"""The page of `duly serve`: a process of its own, watched, without store and key (G5, G8)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from duly.api.door import Inherited, Within
from duly.api.folder import ProjectFolder
from duly.api.page import PageSettings
from duly.api.registry import Scope
from duly.api.session import Remote
from duly.errors import DulyError
from duly.faces.channel import speak
from duly.faces.socket import Control
from duly.faces.web import process, watch
from duly.faces.web.app import make_app
from duly.faces.web.guard import Place
from duly.faces.web.process import Given, _show, until_orphaned
from duly.faces.web.watch import listen
from duly.host import Host
from tests.faces.real import Running, call, make_project, running, wait_for
from tests.faces.stand import replace_verb
from tests.web.stand import ask

FAR_S = 600.0  # ends what hangs


def url_of(host: Running) -> str:
    host.until("Page http://")
    found = re.search(r"Page (http://\S+)", host.said)
    assert found is not None
    return found[1]


def page_of(host: Running) -> int:
    """Find the process of the page among the children of its host."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                told = (entry / "stat").read_text().rpartition(")")[2].split()
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if int(told[1]) == host.process.pid and b"duly.faces.web.process" in words:
                return int(entry.name)
    return 0


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_host_shows_its_page_and_starts_it_again_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G8, U6: the answers are those of `--json`; a page that died is reached at the same place."""
    folder = make_project(tmp_path / "project")
    monkeypatch.setenv("DULY_KEY", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    monkeypatch.setenv("PGPASSWORD", "not for the page")
    monkeypatch.setenv("CHAT_TOKEN", "not for the page either")
    with running(folder, "serve", "--page-port", "0") as host:
        url = url_of(host)
        made = json.loads(call(folder, "token", "new", "ci", "--scope", "read", "--json").stdout)
        printed = call(folder, "open", "--scope", "read").stdout.strip()
        assert "code=" not in host.said  # no link for those who read a log
        assert re.fullmatch(rf"{url}/sign-in\?code=[0-9a-f]{{64}}", printed)
        headers = {"authorization": f"Bearer {made['token']}"}
        with httpx2.Client(base_url=url, headers=headers, timeout=FAR_S) as client:
            for verb in ("workflows", "actions", "runs"):
                there = json.loads(call(folder, verb, "--json").stdout)
                assert client.get(f"/api/v1/{verb}").json() == there
            refused = client.post("/api/v1/tidy", json={})
            assert (refused.status_code, refused.json()["code"]) == (403, "beyond_scope")
            page = page_of(host)
            _check_holds_nothing(page, folder)
            os.kill(page, signal.SIGKILL)
        # The host still listens there: the request waits for the next page.
        assert httpx2.get(f"{url}/healthz", timeout=FAR_S).text == "ok\n"
        assert "The page ended (-9); it is started again in 1 s." in host.said
        again = page_of(host)
        assert again not in (0, page)
        host.tell(signal.SIGTERM)
        assert host.end() == 0
        wait_for(lambda: not is_alive(again), "the end of the page")


def _check_holds_nothing(page: int, folder: Path) -> None:
    """See that a page has neither the store nor a key, in its files and its environment."""
    held = [str(each.readlink()) for each in Path(f"/proc/{page}/fd").iterdir()]
    assert not [each for each in held if str(folder) in each]
    environ = Path(f"/proc/{page}/environ").read_bytes()
    assert b"DULY_" not in environ
    assert b"PGPASSWORD" not in environ
    assert b"CHAT_TOKEN" not in environ


def test_a_page_ends_with_a_host_that_is_killed(tmp_path: Path) -> None:
    """G8: nothing is left that would listen without a host behind it."""
    folder = make_project(tmp_path / "project")
    with running(folder, "serve", "--page-port", "0") as host:
        url = url_of(host)
        assert httpx2.get(f"{url}/healthz", timeout=FAR_S).text == "ok\n"
        page = page_of(host)
        host.tell(signal.SIGKILL)
        host.process.wait()
        wait_for(lambda: not is_alive(page), "the end of the page")
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{url}/healthz")


def test_a_host_serves_although_its_page_cannot_be_shown(tmp_path: Path) -> None:
    """G1: the port is taken; that is a warning, and everything else goes on."""
    folder = make_project(tmp_path / "project")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with running(folder, "serve", "--page-port", str(port)) as host:
            host.until(f"No page can be opened at 127.0.0.1:{port}")
            host.until("Workflows:")
            opened = call(folder, "open")
            assert opened.exit_code == 1
            assert "shows no page" in opened.output
            assert page_of(host) == 0
            host.tell(signal.SIGTERM)
            assert host.end() == 0


class Watch:
    """A clock that goes on by its sleeps, and by how long each page lives."""

    def __init__(self, *lives_s: float) -> None:
        self.slept: list[float] = []
        self._now_ms = 0.0
        self._lives_s = [*lives_s]

    def monotonic_ms(self) -> int:
        return int(self._now_ms)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if not self._lives_s:
            raise asyncio.CancelledError
        self._now_ms += seconds * 1000

    async def show(self, *_: object) -> str:
        self._now_ms += self._lives_s.pop(0) * 1000
        return "1"


async def test_a_page_that_keeps_ending_is_started_again_after_a_growing_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G8: a page that lived for a minute begins anew with the first pause."""
    clock: Any = Watch(*[0.1] * 8, 61, 0.1)
    monkeypatch.setattr(watch, "_show_once", clock.show)
    nothing: Any = None
    control: Any = SimpleNamespace(told={})
    with pytest.raises(asyncio.CancelledError):
        await watch._watch(control, nothing, PageSettings(), ProjectFolder(Path()), clock)
    assert control.told == {"page_down": True}
    assert clock.slept == [1, 2, 4, 8, 16, 32, 60, 60, 1, 2]


async def test_a_page_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """G8: a host never stops for its page."""
    clock: Any = Watch(0.1)

    async def fail(*_: object) -> int:
        await clock.show()
        raise OSError("no more processes")

    monkeypatch.setattr(watch, "_show_once", fail)
    nothing: Any = None
    control: Any = SimpleNamespace(told={})
    with pytest.raises(asyncio.CancelledError):
        await watch._watch(control, nothing, PageSettings(), ProjectFolder(Path()), clock)
    assert "no more processes" in caplog.text


async def test_a_page_that_stands_still_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G8: there is no page, and no webhook, for as long as its process lives and does nothing."""
    begin = asyncio.create_subprocess_exec
    begun: list[asyncio.subprocess.Process] = []

    async def start(*_: Any, **__: Any) -> asyncio.subprocess.Process:
        begun.append(await begin("sleep", "600"))
        return begun[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    monkeypatch.setattr(watch, "LOOK_S", 0.001)
    listening = listen(PageSettings(port=0))
    place = f"sqlite:///{tmp_path / 'duly.db'}"
    async with Host(place) as host, Control(host, tmp_path / "duly.db.socket") as control:
        told = await watch._show_once(
            control, listening, PageSettings(), ProjectFolder(tmp_path), host.clock
        )
    listening.close()
    assert told == "it stood still"
    assert begun[0].returncode == -signal.SIGKILL


async def test_a_page_that_speaks_is_not_taken_for_one_that_stands_still() -> None:
    """G8: looks are counted, so that a host that stood still itself blames no page."""
    pulse, looks = watch.Pulse(), 0

    class Clock:
        async def sleep(self, seconds: float) -> None:
            nonlocal looks
            looks += 1
            if looks <= 100:
                pulse.beat()

    env: Any = Clock()
    await pulse.until_silent(env)
    assert looks == 100 + watch.SILENT_LOOKS_MAX - 1


async def test_a_page_without_a_viewer_says_that_it_is_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G8: each line is a sign of life; the question itself may fail."""
    monkeypatch.setattr(process, "BEAT_S", 0.01)
    ours, theirs = socket.socketpair()
    heard: list[None] = []
    enough = asyncio.Event()

    def hear() -> None:
        heard.append(None)
        if len(heard) >= 3:
            enough.set()

    place = f"sqlite:///{tmp_path / 'duly.db'}"
    async with Host(place) as host, Control(host, tmp_path / "duly.db.socket") as control:
        speaking = asyncio.ensure_future(speak(control, ours, hear))
        remote = await Remote.over(theirs)
        beating = asyncio.ensure_future(process.beat(Inherited(remote)))
        await asyncio.wait_for(enough.wait(), 10)
        beating.cancel()
        await remote.close()
        await speaking


def test_the_page_gets_no_variable_that_may_be_a_secret() -> None:
    """G8: only what a process needs to run is given."""
    environ = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "DULY_KEY": "k",
        "PGPASSWORD": "of the store",
        "AWS_SECRET_ACCESS_KEY": "x",
        "CHAT_TOKEN": "y",
    }
    assert watch.list_given(environ) == {"PATH": "/bin", "LC_ALL": "C"}


# -- The channel ------------------------------------------------------------------------------


@asynccontextmanager
async def channel(folder: Path) -> AsyncIterator[tuple[Host, Remote, Path]]:
    """Open a host that speaks with a page, and be that page."""
    ours, theirs = socket.socketpair()
    path = folder / "duly.db.socket"
    async with Host(f"sqlite:///{folder / 'duly.db'}") as host, Control(host, path) as control:
        speaking = asyncio.ensure_future(speak(control, ours))
        remote = await Remote.over(theirs)
        try:
            yield host, remote, path
        finally:
            await remote.close()
            await speaking


async def test_on_the_channel_alone_a_request_says_who_acts(tmp_path: Path) -> None:
    """G5: the page names the caller; a client of the socket cannot."""
    async with channel(tmp_path) as (host, remote, path):
        door = Inherited(remote)
        ada = door.signed("device:Ada's phone", Scope.ADMIN)
        await ada.call("new_token", name="ci", scope="read")
        small = door.signed("token:ci", Scope.READ)
        with pytest.raises(DulyError, match="needs the scope admin"):
            await small.call("tokens")
        assert await small.call("workflows") == []
        (done,) = await host.actions()
        assert (done.by, done.verb) == ("device:Ada's phone", "new_token")
        with pytest.raises(DulyError, match="who acts"):
            await remote.ask("workflows", {}, {})
        async with aclosing_remote(await Remote.reach(path)) as other:
            with pytest.raises(DulyError, match="by is not known"):
                await other.ask("new_token", {"name": "x", "scope": "read"}, {"by": "ada"})


@asynccontextmanager
async def aclosing_remote(remote: Remote | None) -> AsyncIterator[Remote]:
    assert remote is not None
    try:
        yield remote
    finally:
        await remote.close()


async def test_questions_of_strangers_take_no_place_from_a_caller_who_signed_in(
    tmp_path: Path,
) -> None:
    """G10: `/healthz` needs no sign-in, and takes one place on the channel at most."""
    async with channel(tmp_path) as (host, remote, _):
        app = make_app(Inherited(remote), Place())
        made = await host.new_token("ada", scope=Scope.READ)
        strangers = [asyncio.ensure_future(ask(app, "/healthz")) for _ in range(90)]
        await asyncio.sleep(0)
        headers = {"authorization": f"Bearer {made.token}"}
        reply = await ask(app, "/api/v1/workflows", headers=headers)
        assert {each.status for each in await asyncio.gather(*strangers)} == {200}
        assert reply.status == 200


async def test_a_page_is_told_when_its_host_ends(tmp_path: Path) -> None:
    """G8: the channel ends with either of the two."""
    ours, theirs = socket.socketpair()
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        async with Control(host, tmp_path / "duly.db.socket") as control:
            speaking = asyncio.ensure_future(speak(control, ours))
            remote = await Remote.over(theirs)
        await asyncio.wait_for(remote.until_gone(), 10)
        await remote.close()
        await speaking


async def test_a_follow_over_the_channel_is_answered_again_when_it_changes(tmp_path: Path) -> None:
    """U6: the way of a live page; in the process of the host it is the same."""
    async with channel(tmp_path) as (host, remote, _):
        for door in (Inherited(remote), Within(host)):
            answers: Any = door.signed("device:x", Scope.READ).follow("bus.journal")
            before = await anext(answers)
            await host.bus.emit("tea.ready", {}, source="kettle")
            after = await asyncio.wait_for(anext(answers), 10)
            assert len(after) == len(before) + 1
            await answers.aclose()


async def test_a_page_gives_way_to_no_other_client(tmp_path: Path) -> None:
    """G10: where places are short, clients of the socket give way to each other."""
    async with channel(tmp_path) as (_, remote, path):
        others = [await Remote.reach(path) for _ in range(60)]
        assert await Inherited(remote).signed("device:x", Scope.READ).call("workflows") == []
        for each in others:
            assert each is not None
            await each.close()


async def test_a_page_whose_host_is_no_more_ends_also_if_its_channel_is_held_open() -> None:
    """G8: a process that the host forked may still have the other end."""
    await asyncio.wait_for(until_orphaned(os.getppid() + 1), 10)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(until_orphaned(os.getppid()), 0.05)


async def test_a_page_is_not_hung_up_on_for_what_its_clients_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G10: many large requests under way at once are answered, and the channel stays."""
    all_there = asyncio.Barrier(13)

    async def receive(self: Host, *args: Any, **more: Any) -> str:
        await all_there.wait()
        return "new"

    replace_verb(monkeypatch, "receive", receive)
    async with channel(tmp_path) as (_, remote, _path):
        session = Inherited(remote).signed("webhook", Scope.AGENT)
        body = '"' + "\x01" * 500_000 + '"'  # six times as long on the line
        sent = [
            asyncio.ensure_future(session.call("receive", workflow="a", topic="b", body=body))
            for _ in range(12)
        ]
        await asyncio.wait_for(all_there.wait(), 60)
        assert await asyncio.gather(*sent) == ["new"] * 12
        assert await session.call("workflows") == []


async def test_webhooks_are_taken_at_an_address_of_their_own(tmp_path: Path) -> None:
    """G8: two servers in one process; the second has nothing else."""
    made = listen(PageSettings(port=0, hooks_address="127.0.0.1:0"))
    assert made.hooks is not None
    page, hooks = made.page.getsockname()[1], made.hooks.getsockname()[1]
    ours, theirs = socket.socketpair()
    given = Given(theirs.detach(), made.page.detach(), os.getppid(), made.hooks.detach())
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        async with Control(host, tmp_path / "duly.db.socket") as control:
            speaking = asyncio.ensure_future(speak(control, ours))
            showing = asyncio.ensure_future(_show(given))
            async with httpx2.AsyncClient(timeout=20) as client:
                for port, path, status in (
                    (page, "/healthz", 200),
                    (hooks, "/healthz", 404),
                    (hooks, "/api/v1/workflows", 404),
                ):
                    assert (
                        await client.get(f"http://127.0.0.1:{port}{path}")
                    ).status_code == status
                for port in (page, hooks):
                    url = f"http://127.0.0.1:{port}/hooks/a/b"
                    told = await client.post(url, json={})
                    assert (told.status_code, told.json()["code"]) == (401, "hook_refused")
        await asyncio.wait_for(showing, 20)
        await speaking
