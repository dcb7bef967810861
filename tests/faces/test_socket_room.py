"""The control socket under pressure: who keeps a place, how many bytes are held, who acts."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from duly.api import wire
from duly.api.session import connect
from duly.api.wire import REQUEST_PARTS_MAX, Peer, Scan, reach, read_line, read_strictly, scan
from duly.errors import Invalid, RequestRefused
from duly.faces import socket as control
from duly.faces.room import Answers, Room, Shelf
from duly.faces.socket import Control
from duly.host import Host
from duly.rules.source import EXAMPLE
from tests.faces.stand import Client, assert_alive, client, listening, project, replace_verb

FEW = Room(connections=4, user_connections=3)
NARROW = Room(client_bytes=200_000, total_bytes=300_000, free_bytes=1000)


async def refusal(path: Path) -> str | None:
    """Connect once more; answer why we are not spoken to, if so."""
    reader, writer = await asyncio.open_unix_connection(sock=reach(path))
    greeting = read_line(await reader.readline())
    writer.transport.abort()
    error: Any = greeting.get("error")
    return None if error is None else str(error["message"])


async def until(holds: Callable[[], bool]) -> None:
    """Let the other side work until something holds."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  # nobody tells us
            await asyncio.sleep(0)


async def follow(each: Client) -> Client:
    """Keep something under way."""
    await each.ask(id=1, verb="bus.journal", follow=True)
    return each


# -- Places ---------------------------------------------------------------------------------------


async def test_silent_clients_give_way_the_oldest_first(tmp_path: Path) -> None:
    """H3: clients that say nothing lock nobody out."""
    async with listening(tmp_path, FEW) as (_, path), AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(client(path)) for _ in range(3)]
        spoken = await stack.enter_async_context(client(path))
        assert await spoken.ask(id=1, verb="workflows") == {"id": 1, "answer": []}
        assert await silent[0].is_hung_up()
        for _ in range(2):
            await assert_alive(path)
        assert await silent[1].is_hung_up()
        assert await silent[2].ask(id=1, verb="workflows") == {"id": 1, "answer": []}
        assert await spoken.ask(id=2, verb="workflows") == {"id": 2, "answer": []}


async def test_a_client_with_something_under_way_keeps_its_place(tmp_path: Path) -> None:
    """H3: who works is not disturbed; one more is told to wait."""
    async with listening(tmp_path, FEW) as (_, path), AsyncExitStack() as stack:
        busy = [await follow(await stack.enter_async_context(client(path))) for _ in range(3)]
        told = (
            f"3 clients of user {os.geteuid()} are connected to this host already. "
            "Close one of them, then try again."
        )
        assert await refusal(path) == told
        assert await busy[0].ask(id=1, stop=True) == {"id": 1, "stop": True}
        await assert_alive(path)
        assert await busy[0].is_hung_up()
        assert await busy[1].ask(id=2, verb="workflows") == {"id": 2, "answer": []}


async def test_one_user_cannot_take_every_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3: root is let in though the host's own user has taken all that it gets."""
    user = os.geteuid() or 4711
    monkeypatch.setattr(os, "geteuid", lambda: user)
    peers = iter([user, user, user, user, 0, user, 0])
    monkeypatch.setattr(control, "ask_peer", lambda made: Peer(1, next(peers)))
    monkeypatch.setattr(wire, "ask_peer", lambda made: None)
    async with listening(tmp_path, FEW) as (_, path), AsyncExitStack() as stack:
        for _ in range(3):
            await follow(await stack.enter_async_context(client(path)))
        assert f"3 clients of user {os.geteuid()} are" in str(await refusal(path))
        await follow(await stack.enter_async_context(client(path)))
        assert f"3 clients of user {os.geteuid()} are" in str(await refusal(path))
        assert await refusal(path) == (
            "4 clients are connected to this host already. Close one of them, then try again."
        )


async def test_a_client_that_never_finishes_a_line_is_hung_up_on(tmp_path: Path) -> None:
    """H3: a client that has spoken may be quiet as long as it likes."""
    room = Room(first_line_s=0.05)
    async with listening(tmp_path, room) as (_, path), client(path) as spoken:
        assert await spoken.ask(id=1, verb="workflows") == {"id": 1, "answer": []}
        async with client(path) as silent:
            assert "not finished in 0.05 s" in (await silent.hear())["error"]["message"]
            assert await silent.is_hung_up()
        assert await spoken.ask(id=2, verb="workflows") == {"id": 2, "answer": []}


async def test_a_session_that_was_hung_up_on_comes_back(tmp_path: Path) -> None:
    """U6: nothing was asked before, so asking anew is safe."""
    place = project(tmp_path)
    async with (
        Host(place.url) as host,
        Control(host, place.socket) as listener,
        connect(place) as session,
    ):
        (talk,) = listener._talks.values()
        talk.give_way()
        await until(lambda: session._remote.is_gone)  # type: ignore[attr-defined]
        assert await session.call("workflows") == []


# -- Bytes ----------------------------------------------------------------------------------------


@asynccontextmanager
async def holding(path: Path, size: int) -> AsyncIterator[Client]:
    """Send so many bytes of a line that is not finished."""
    async with client(path) as each:
        await each.say(b'{"id": 1, "verb": "' + b"x" * (size - 19))
        yield each


async def test_half_lines_of_all_clients_share_what_there_is(tmp_path: Path) -> None:
    """H3: 64 clients with half a line each took half a gigabyte."""
    place = project(tmp_path)
    async with Host(place.url) as host, Control(host, place.socket, room=NARROW) as listener:
        path = place.socket
        async with holding(path, 150_000), holding(path, 150_000):
            await until(lambda: listener.shelf.total_bytes == 298_000)
            async with holding(path, 5000) as third:
                answer = await third.hear()
                assert {
                    "kind": "RequestRefused",
                    "message": "connections: more than 300000 bytes wait for their result. "
                    "Wait for results, then send more.",
                }.items() <= answer["error"].items()
                assert await third.is_hung_up()
            await assert_alive(path)
            assert listener.shelf.total_bytes == 298_000
        async with holding(path, 200_001) as each:
            assert "connection: more than 200000 bytes" in (await each.hear())["error"]["message"]
        await assert_alive(path)
        await until(lambda: not listener._talks)
        assert listener.shelf.total_bytes == 0


async def test_requests_under_way_are_held_until_they_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3: what was read whole is counted for as long as the host works on it."""
    gate = asyncio.Event()

    async def slow(self: Host, **_: str) -> None:
        await gate.wait()

    replace_verb(monkeypatch, "why", slow)
    place = project(tmp_path)
    async with (
        Host(place.url) as host,
        Control(host, place.socket, room=NARROW) as listener,
        client(place.socket) as each,
    ):
        await each.send(id=1, verb="why", args={"id": "x" * 150_000})
        await until(lambda: listener.shelf.total_bytes > 149_000)
        await each.send(id=2, verb="why", args={"id": "x" * 60_000})
        refused = await each.hear()
        assert "connection: more than 200000 bytes" in refused["error"]["message"]
        gate.set()
        assert await each.hear() == {"id": 1, "answer": None}


def test_a_shelf_refuses_one_byte_past_its_limits() -> None:
    """H3: at the limit there is room; a small request always has some."""
    shelf = Shelf(Room(client_bytes=50, total_bytes=60, free_bytes=10))
    shelf.put("a", 50)
    shelf.put("b", 30)
    with pytest.raises(RequestRefused, match="more than 50 bytes"):
        shelf.put("a", 51)
    with pytest.raises(RequestRefused, match="more than 60 bytes"):
        shelf.put("c", 11)
    shelf.put("c", 10)
    shelf.put("b", 20)
    shelf.put("c", 20)
    for each in "abc":
        shelf.clear(each)
    assert shelf.total_bytes == 0


# -- Strictness -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"id": 1, "verb": "workflows", "verb": "remove"}', "verb is given twice"),
        (
            b'{"id": 1, "verb": "publish", "args": {"a": [{"to": 1, "t\\u006f": 2}]}}',
            "to is given twice",
        ),
        (b'{"a\xe2\x80\x8b": 1, "a\xe2\x80\x8b": 1}', r"a\u200b is given twice"),
        (b'{"a":' * 5 + b"1" + b"}" * 5, "nested deeper than 4"),
        (b'{"a":' + b"[" * 40_000 + b"]" * 40_000 + b"}", "nested deeper than 4"),
        (b'{"a": "[[[[[[", "b": [[', "not JSON"),
    ],
)
def test_a_line_is_refused_before_anything_of_it_is_read(line: bytes, told: str) -> None:
    """X3: two readers must not see two requests, and nobody walks into the depth."""
    with pytest.raises(Invalid) as refused:
        read_strictly(line, 4, scan(line))
    assert told in str(refused.value)


def test_what_only_looks_deep_or_double_is_read() -> None:
    """X3: brackets in text are text, and a key may come again in another object."""
    message = {"a": '[[[[[[\\"{{{', "b": [{"a": 1}, {"a": [2]}], "c": "}"}
    line = json.dumps(message).encode()
    assert read_strictly(line, 4, scan(line)) == message


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_line_is_the_same_in_pieces_of_any_size(size: int) -> None:
    """X3: a string, or an escape in it, may go on in the next piece."""
    message = {'a"\\': '[{,"\\\\"\\', "b": [{"a": 1}, {"a": [2, '\\",[']}], "c": '}"'}
    line = json.dumps(message).encode()
    whole, pieces = scan(line), Scan()
    for start in range(0, len(line), size):
        pieces.add(line[start : start + size])
    assert (whole.parts, bytes(whole.brackets)) == (14, b"{[{}{[]}]}")
    assert (pieces.parts, pieces.brackets) == (whole.parts, whole.brackets)


def test_a_line_of_too_many_values_is_refused_before_it_is_read() -> None:
    """Law 2 of the socket: what few bytes hold may take long to read; text may be long."""
    many = b'{"a": [' + b"1," * REQUEST_PARTS_MAX + b"1]}"
    with pytest.raises(Invalid, match=f"at most {REQUEST_PARTS_MAX} values"):
        read_strictly(many, 4, scan(many))
    text = json.dumps({"a": "," * REQUEST_PARTS_MAX}).encode()
    assert read_strictly(text, 4, scan(text)) == json.loads(text)


# -- Answers that are not read ------------------------------------------------------------------


class Deaf:
    is_hung_up = False

    def hang_up(self) -> None:
        self.is_hung_up = True


def test_a_client_that_does_not_read_has_room_for_some_answers() -> None:
    """Law 4: a single answer always fits, and that of an act is owed."""
    answers, one = Answers(Room(unread_bytes=10)), Deaf()
    answers.put(one, 11, is_owed=False)
    with pytest.raises(RequestRefused, match="more than 10 bytes wait"):
        answers.put(one, 1, is_owed=False)
    answers.put(one, 1, is_owed=True)
    answers.take(one, 11)
    assert answers.held_bytes(one) == 1
    answers.put(one, 9, is_owed=False)
    assert not one.is_hung_up


def test_the_client_that_holds_most_gives_its_room_to_the_others() -> None:
    """Law 4: clients that do not read cannot take all the room there is."""
    answers = Answers(Room(unread_bytes=10, unread_total_bytes=20))
    small, large, polite = Deaf(), Deaf(), Deaf()
    answers.put(small, 8, is_owed=False)
    answers.put(large, 10, is_owed=False)
    answers.put(polite, 5, is_owed=False)
    assert (small.is_hung_up, large.is_hung_up, polite.is_hung_up) == (False, True, False)
    answers.take(large, 10)  # its send ends, and is counted no more
    assert (answers.held_bytes(large), answers.held_bytes(small)) == (0, 8)


async def test_a_request_with_a_key_twice_changes_nothing(tmp_path: Path) -> None:
    """X3: the last one does not win."""
    async with listening(tmp_path) as (host, path), client(path) as each:
        await each.say(
            b'{"id": 1, "verb": "bus.emit", "args": {"topic": "t", "payload": {}, '
            b'"source": "a", "source": "b"}}\n'
        )
        answer = await each.hear()
        assert (answer["id"], answer["error"]["path"]) == (None, "source")
        assert await host.bus.journal() == ()


# -- Who acts -------------------------------------------------------------------------------------


async def test_who_acts_is_who_the_kernel_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5, A6: no request can act in another name."""
    other = next(each for each in pwd.getpwall() if each.pw_uid not in (0, os.geteuid()))
    async with listening(tmp_path) as (host, path), client(path) as each:
        copy = {"path": str(tmp_path / "copy.db")}
        forged = await each.ask(id=1, verb="backup", args={**copy, "by": "anna"})
        assert (forged["error"]["kind"], forged["error"]["path"]) == ("Invalid", "by")
        assert await host.actions() == ()
        assert "answer" in await each.ask(id=2, verb="backup", args=copy)
        monkeypatch.setattr(control, "ask_peer", lambda made: Peer(1, other.pw_uid))
        monkeypatch.setattr(os, "geteuid", lambda: other.pw_uid)
        async with client(path) as second:
            copy = {"path": str(tmp_path / "another.db")}
            assert "answer" in await second.ask(id=3, verb="backup", args=copy)
        done = [act.by for act in await host.actions()]
        assert done == [other.pw_name, pwd.getpwuid(os.getuid()).pw_name]


async def test_what_is_done_with_the_scope_agent_is_an_agents(tmp_path: Path) -> None:
    """G5, A6: a person sees what a model did in their name."""
    async with listening(tmp_path) as (host, path), client(path) as each:
        source = {"language": "python", "text": EXAMPLE["text"]}
        sent = await each.ask(id=1, verb="propose", args={"source": source}, scope="agent")
        assert sent["answer"]["author"] == f"agent:{pwd.getpwuid(os.getuid()).pw_name}"
        kept = await each.ask(id=2, verb="adopt", args={"proposal": sent["answer"]["hash"]})
        assert "answer" in kept, kept
        assert [act.verb for act in await host.actions()] == ["adopt", "propose"]


async def test_without_a_host_who_acts_is_who_runs_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5, A6: neither the variables of a shell nor an argument say who it is."""
    monkeypatch.setenv("LOGNAME", "anna")
    monkeypatch.setenv("USER", "anna")
    async with connect(project(tmp_path)) as session:
        copy = str(tmp_path / "copy.db")
        with pytest.raises(Invalid, match="by cannot be given"):
            await session.call("backup", path=copy, by="anna")
        await session.call("backup", path=copy)
        done: Any = await session.call("actions")
    assert [each["by"] for each in done] == [pwd.getpwuid(os.geteuid()).pw_name]


def test_a_user_without_a_name_is_named_by_its_number() -> None:
    """A6: an act is written down all the same."""
    assert wire.name_user(2**31 - 7) == f"uid {2**31 - 7}"
