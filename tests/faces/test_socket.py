"""The control socket: who may speak, what is answered, and what is followed."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from duly import __version__
from duly.api import wire
from duly.api.wire import Peer, reach, read_line
from duly.errors import ConfigError, Invalid, RequestRefused, StoreUnavailable
from duly.faces import socket as control
from duly.faces.request import read_request
from duly.faces.socket import REQUESTS_AT_ONCE_MAX, Control
from duly.host import Host
from tests.faces.stand import Client, assert_alive, client, listening, project, replace_verb

# -- Who may speak ------------------------------------------------------------------------------


@pytest.mark.parametrize("user", [0, 4711])
def test_a_client_says_nothing_to_a_stranger_s_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    """A5, K14: what is sent may be a secret; root has most to lose."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "s"))
        left.listen()
        monkeypatch.setattr(wire, "ask_peer", lambda made: Peer(1, 65534))
        monkeypatch.setattr(os, "geteuid", lambda: user)
        with pytest.raises(StoreUnavailable) as refused:
            reach(tmp_path / "s")
    assert refused.value.code == "host_of_another"


async def test_the_socket_is_its_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    """A5: secrets cross it, so nobody else may open it, not even for a moment."""
    born: list[int] = []
    bind = socket.socket.bind

    def watched(self: socket.socket, address: Any) -> None:
        bind(self, address)
        born.append(stat.S_IMODE(Path(address).stat().st_mode))

    umask = os.umask(0)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(socket.socket, "bind", watched)
            async with listening(tmp_path) as (_, path):
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(umask)
    assert born == [0o600]


@pytest.mark.parametrize(("user", "is_let_in"), [(os.geteuid(), True), (0, True), (4711, False)])
async def test_another_user_is_refused_and_root_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, is_let_in: bool
) -> None:
    """A5: the kernel says who is there; the mode of a file may have been changed."""
    monkeypatch.setattr(control, "ask_peer", lambda made: Peer(1, user))
    async with listening(tmp_path) as (_, path):
        made = reach(path)
        reader, writer = await asyncio.open_unix_connection(sock=made)
        greeting = read_line(await reader.readline())
        assert ("duly" in greeting) is is_let_in
        if not is_let_in:
            error = greeting["error"]
            assert isinstance(error, dict)
            assert error["kind"] == "RequestRefused"
            assert error["message"] == (
                f"{path} belongs to another user's host. Run the command as that user, "
                "or ask that user."
            )
            assert await Client(reader, writer).is_hung_up()
        writer.transport.abort()


async def test_the_host_says_who_it_is(tmp_path: Path) -> None:
    async with listening(tmp_path) as (host, path):
        made = reach(path)
        reader, writer = await asyncio.open_unix_connection(sock=made)
        greeting = read_line(await reader.readline())
        assert greeting == {
            "duly": __version__,
            "pid": os.getpid(),
            "store": str(tmp_path / "duly.db"),
            "since": host.opened_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "serving": False,
        }
        writer.transport.abort()


async def test_a_path_of_any_length_works(tmp_path: Path) -> None:
    """The address of a socket has room for 108 bytes; a folder's name may have more."""
    deep = tmp_path / ("d" * 200) / ("e" * 200)
    deep.mkdir(parents=True)
    path = deep / ("f" * 240 + ".socket")
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host, Control(host, path):
        await assert_alive(path)
        assert [*deep.iterdir()] == [path]
    assert [*deep.iterdir()] == []


async def test_what_a_dead_host_left_is_replaced_and_what_is_no_socket_is_not(
    tmp_path: Path,
) -> None:
    place = project(tmp_path)
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(place.socket))
    left.close()
    assert reach(place.socket) is None
    async with listening(tmp_path) as (_, path):
        await assert_alive(path)
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(ConfigError, match=r"is in the way of the control socket\. Move it"):
        async with listening(tmp_path):
            pass
    assert path.read_text() == "mine"


async def test_a_socket_that_cannot_be_made_is_told_with_what_to_do(tmp_path: Path) -> None:
    async with Host(f"sqlite:///{tmp_path / 'a.db'}") as host:
        with pytest.raises(
            ConfigError, match=r"x/s: no control socket can be made there \(No such"
        ):
            await Control(host, tmp_path / "x" / "s").__aenter__()


async def test_closing_leaves_the_socket_of_another_host_alone(tmp_path: Path) -> None:
    async with Host(f"sqlite:///{tmp_path / 'a.db'}") as host:
        path = tmp_path / "one.socket"
        async with Control(host, path):
            other = Control(host, path)
            await other.__aenter__()
        await assert_alive(path)
        await other.__aexit__(None, None, None)
        assert not path.exists()


# -- Requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({}, "id"),
        ({"id": None, "verb": "why"}, "id"),
        ({"id": True, "verb": "why"}, "id"),
        ({"id": 2**53, "verb": "why"}, "id"),
        ({"id": "x" * 101, "verb": "why"}, "id"),
        ({"id": 1}, "verb"),
        ({"id": 1, "verb": 3}, "verb"),
        ({"id": 1, "verb": "why", "args": []}, "args"),
        ({"id": 1, "verb": "why", "follow": 1}, "follow"),
        ({"id": 1, "stop": False}, "stop"),
        ({"id": 1, "stop": True, "verb": "why"}, "stop"),
        ({"id": 1, "verb": "why", "arguments": {}}, "request.arguments"),
    ],
)
def test_a_wrong_request_is_refused_by_its_field(message: dict[str, Any], path: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_request(message)
    assert caught.value.path == path


def test_an_id_is_a_number_or_a_short_text() -> None:
    for given in (0, -(2**53) + 1, "x" * 100, ""):
        assert read_request({"id": given, "verb": "why"}).id == given


async def test_errors_cross_with_kind_and_message(tmp_path: Path) -> None:
    async with listening(tmp_path) as (_, path), client(path) as each:
        answer = await each.ask(id=1, verb="why", args={"id": "Tea"})
        assert answer["id"] == 1
        assert {
            "kind": "NotFound",
            "message": 'There is no workflow "Tea". There are none.',
        }.items() <= answer["error"].items()
        answer = await each.ask(id="b", verb="why", args={})
        assert answer["id"] == "b"
        assert {
            "kind": "Invalid",
            "message": "id is missing for why. Add it.",
            "path": "id",
        }.items() <= answer["error"].items()


async def test_what_nobody_expected_crosses_as_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A5: what an unexpected error says may be what must not be seen."""

    async def broken(self: Host) -> None:
        raise ValueError(f"the password is {secret}")

    secret = "tea-4711"
    replace_verb(monkeypatch, "tools", broken)
    async with listening(tmp_path) as (host, path), client(path) as each:
        host._desk().parts.outside.remember(secret)
        answer = await each.ask(id=1, verb="tools")
        assert {
            "kind": "DulyError",
            "message": "tools failed inside the host (ValueError), which is a bug in Duly. "
            f"The log of the host (process {os.getpid()}) says where.",
        }.items() <= answer["error"].items()
        await assert_alive(path)
    (record,) = [each for each in caplog.records if each.name == "duly.control"]
    assert record.levelno == logging.ERROR
    assert "in broken\n" in record.getMessage()
    assert "tea-4711" not in caplog.text + repr(vars(record))


async def test_several_requests_are_under_way_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow question holds up nobody, up to sixteen of them; the next one is refused."""
    gate = asyncio.Event()

    async def slow(self: Host) -> tuple[()]:
        await gate.wait()
        return ()

    replace_verb(monkeypatch, "tools", slow)
    async with listening(tmp_path) as (_, path), client(path) as each:
        for number in range(REQUESTS_AT_ONCE_MAX - 1):
            await each.send(id=number, verb="tools")
        assert await each.ask(id=98, verb="workflows") == {"id": 98, "answer": []}
        await each.send(id=REQUESTS_AT_ONCE_MAX - 1, verb="tools")
        refused = await each.ask(id=99, verb="workflows")
        assert refused["error"]["message"].startswith(
            "connection: at most 16 requests are allowed."
        )
        twice = await each.ask(id=0, verb="workflows")
        assert (twice["id"], twice["error"]["path"]) == (None, "id")
        gate.set()
        answered = [(await each.hear())["id"] for _ in range(REQUESTS_AT_ONCE_MAX)]
        assert sorted(answered) == list(range(REQUESTS_AT_ONCE_MAX))


# -- Following ----------------------------------------------------------------------------------


async def test_a_write_is_told_to_whoever_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S9: nobody looks by the clock where a write can be waited for."""
    monkeypatch.setattr(control, "FOLLOW_LOOK_S", 3600)
    async with listening(tmp_path) as (host, path), client(path) as each, asyncio.timeout(60):
        assert await each.ask(id=1, verb="bus.journal", follow=True) == {"id": 1, "answer": []}
        for number in (1, 2):
            await host.bus.emit("tea", {}, source="kettle")
            answer = await each.hear()
            assert [event["id"] for event in answer["answer"]] == [*range(number, 0, -1)]
        assert await each.ask(id=1, stop=True) == {"id": 1, "stop": True}
        await host.bus.emit("tea", {}, source="kettle")
        assert await each.ask(id=2, verb="workflows") == {"id": 2, "answer": []}


async def test_an_answer_that_changes_with_the_time_is_looked_at_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes = count(3)

    async def tools(self: Host) -> tuple[str, ...]:
        return (f"in {next(minutes)} min",)

    replace_verb(monkeypatch, "tools", tools)
    monkeypatch.setattr(control, "FOLLOW_LOOK_S", control.FOLLOW_PAUSE_S)
    async with listening(tmp_path) as (_, path), client(path) as each, asyncio.timeout(60):
        assert (await each.ask(id=1, verb="tools", follow=True))["answer"] == ["in 3 min"]
        assert (await each.hear())["answer"] == ["in 4 min"]


class Stopwatch:
    """A world in which a pause is as long as the test wants."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.go_on = asyncio.Event()
        self._begun: asyncio.Queue[float] = asyncio.Queue()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._begun.put_nowait(seconds)
        await self.go_on.wait()
        self.go_on.clear()

    async def pause(self) -> None:
        """Return when the next pause has begun."""
        await self._begun.get()


async def test_many_changes_are_told_as_one_and_none_is_not_told(tmp_path: Path) -> None:
    """At most five answers a second: what happens in a pause is told after it, once."""
    watch = Stopwatch()
    place = project(tmp_path)
    async with (
        Host(place.url) as host,
        Control(host, place.socket, clock=watch),
        client(place.socket) as each,
    ):
        assert (await each.ask(id=1, verb="bus.journal", follow=True))["answer"] == []
        await watch.pause()
        for _ in range(10):
            await host.bus.emit("tea", {}, source="kettle")
        assert await each.ask(id=2, verb="workflows") == {"id": 2, "answer": []}
        watch.go_on.set()
        assert len((await each.hear())["answer"]) == 10
        await watch.pause()
        # A write that leaves this answer as it is.
        await host.bus.schedule_at(60, "tea", {}, source="kettle")
        watch.go_on.set()
        await watch.pause()
        assert await each.ask(id=3, verb="workflows") == {"id": 3, "answer": []}
    assert set(watch.pauses) == {0.2}


async def test_an_idle_host_looks_only_while_somebody_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S9: no watcher is left behind by those who stopped, hung up or were refused."""
    async with listening(tmp_path) as (host, path):
        assert host._watchers == set()
        async with client(path) as each:
            await each.ask(id=1, verb="bus.journal", follow=True)
            await each.ask(id=2, verb="bus.deferred", follow=True)
            assert len(host._watchers) == 2
            await each.ask(id=1, stop=True)
            assert len(host._watchers) == 1
            refused = await each.ask(id=3, verb="why", args={"id": "Tea"}, follow=True)
            assert refused["error"]["kind"] == "NotFound"
            assert len(host._watchers) == 1
            each.writer.write_eof()
            assert await each.is_hung_up()
        assert host._watchers == set()


@pytest.mark.parametrize("verb", ["try_", "verify", "pause", "bus.emit"])
async def test_what_works_or_changes_something_cannot_be_followed(
    tmp_path: Path, verb: str
) -> None:
    async with listening(tmp_path) as (_, path), client(path) as each:
        answer = await each.ask(id=1, verb=verb, follow=True)
        assert {
            "kind": "RequestRefused",
            "message": f"{verb} cannot be followed. Ask for it once, without follow.",
        }.items() <= answer["error"].items()
        assert await each.ask(id=1, stop=True) == {"id": 1, "stop": True}


async def test_what_is_answered_once_cannot_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    async def slow(self: Host) -> tuple[()]:
        await gate.wait()
        return ()

    replace_verb(monkeypatch, "tools", slow)
    async with listening(tmp_path) as (_, path), client(path) as each:
        await each.send(id=1, verb="tools")
        answer = await each.ask(id=1, stop=True)
        assert (answer["id"], answer["error"]["path"]) == (None, "id")
        gate.set()
        assert await each.hear() == {"id": 1, "answer": []}


def test_what_a_peer_may_be_is_asked_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5: a stranger who listens in our folder is told nothing."""
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "s"))
    left.listen()
    monkeypatch.setattr(wire, "ask_peer", lambda made: Peer(1, 4711))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with left, pytest.raises(Exception, match="belongs to another user's host") as caught:
        reach(tmp_path / "s")
    assert not isinstance(caught.value, RequestRefused)
