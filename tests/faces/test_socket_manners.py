"""Clients without manners: whatever they send, do not send or do not read, it hurts nobody else.

And what a host that closes owes to those who are still there.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import socket
import warnings
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from duly.api.build import build_host
from duly.api.codec import perform
from duly.api.wire import ANSWER_BYTES_MAX, MIB, REQUEST_BYTES_MAX, reach, write_line
from duly.desk.base import Desk
from duly.faces import socket as control
from duly.faces.room import Room
from duly.faces.socket import Control, Talk
from duly.host import Host
from tests.faces import cli_stand
from tests.faces.stand import EVENT, assert_alive, client, listening, project, replace_verb

FUZZ_SEED = 20260102
FUZZ_LINES = 400


def request_of(size_bytes: int) -> bytes:
    """Make a request that is so long, its newline counted."""
    bare = write_line({"id": 1, "verb": "why", "args": {"id": ""}})
    return bare.replace(b'"id":""', b'"id":"' + b"x" * (size_bytes - len(bare)) + b'"')


async def test_garbage_is_answered_and_the_line_goes_on(tmp_path: Path) -> None:
    async with listening(tmp_path) as (_, path), client(path) as each:
        for raw in (b"\n", b"tea\n", b"[]\n", b"\xff\n", b'"\n', b"{}\n", b"[" * 100_000 + b"\n"):
            await each.say(raw)
            answer = await each.hear()
            assert (answer["id"], answer["error"]["kind"]) == (None, "Invalid")
        assert await each.ask(id=1, verb="workflows") == {"id": 1, "answer": []}


async def test_a_line_at_the_limit_is_read_and_one_past_it_ends_the_talk(tmp_path: Path) -> None:
    async with listening(tmp_path) as (_, path):
        async with client(path) as each:
            await each.say(request_of(REQUEST_BYTES_MAX))
            assert (await each.hear())["error"]["kind"] == "NotFound"
        async with client(path) as each:
            await each.say(request_of(REQUEST_BYTES_MAX + 1))
            answer = await each.hear()
            assert "longer than 8388608 bytes" in answer["error"]["message"]
            assert await each.is_hung_up()
        await assert_alive(path)


async def test_half_a_line_that_is_never_finished_ends_the_talk(tmp_path: Path) -> None:
    async with listening(tmp_path, Room(request_s=0.01)) as (_, path), client(path) as each:
        await each.say(b'{"id": 1, "verb"')
        assert "was not finished" in (await each.hear())["error"]["message"]
        assert await each.is_hung_up()
        await assert_alive(path)


async def test_a_client_that_goes_away_in_the_middle_hurts_nobody(tmp_path: Path) -> None:
    async with listening(tmp_path) as (_, path):
        for raw in (b"", b'{"id": 1', write_line({"id": 1, "verb": "workflows"})):
            async with client(path) as each:
                await each.say(raw)
        await assert_alive(path)


async def test_a_client_that_never_reads_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "ANSWER_S_MAX", 0.05)
    async with listening(tmp_path) as (host, path):
        for _ in range(20):
            await host.bus.emit("tea", {"text": "x" * 200_000}, source="kettle")
        made = reach(path)
        assert made is not None
        with made:
            made.setblocking(False)
            made.send(b"".join(write_line({"id": n, "verb": "bus.journal"}) for n in range(16)))
            await assert_alive(path)
            reader, writer = await asyncio.open_unix_connection(sock=made, limit=2**30)
            reader._transport.pause_reading()  # type: ignore[attr-defined]  # it never reads
            async with asyncio.timeout(60):
                while True:
                    try:
                        writer.write(write_line({"id": 99, "verb": "tools"}))
                        await writer.drain()
                    except ConnectionError:
                        break
                    await asyncio.sleep(0.01)
        await assert_alive(path)


async def test_a_client_that_has_no_more_to_ask_still_gets_its_answers(tmp_path: Path) -> None:
    async with listening(tmp_path) as (_, path), client(path) as each:
        await each.send(id=1, verb="bus.emit", args=EVENT)
        each.writer.write_eof()
        assert await each.hear() == {"id": 1, "answer": 1}
        assert await each.is_hung_up()


async def test_whoever_follows_takes_turns_and_no_act_waits_behind_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: a thousand followed questions held up every act for half a minute."""
    go, looking, most = asyncio.Event(), 0, 0

    async def slowly(host: Host, name: str, args: Any, **more: Any) -> Any:
        nonlocal looking, most
        if name != "workflows":
            return await perform(host, name, args, **more)
        looking += 1
        most = max(most, looking)
        await go.wait()
        looking -= 1
        return []

    monkeypatch.setattr(control, "perform", slowly)
    async with listening(tmp_path) as (_, path), client(path) as each, client(path) as other:
        for number in range(10):
            await each.send(id=number, verb="workflows", follow=True)
        assert (await other.ask(id=1, verb="bus.emit", args=EVENT))["answer"] == 1
        go.set()
        assert sorted([(await each.hear())["id"] for _ in range(10)]) == [*range(10)]
    assert most == control.LOOKS_AT_ONCE_MAX


async def test_an_answer_past_the_limit_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(tmp_path) as (_, path), client(path) as each:
        monkeypatch.setattr(control, "ANSWER_BYTES_MAX", 23)
        assert await each.ask(id=100, verb="workflows") == {"id": 100, "answer": []}  # 23 bytes
        refused = await each.ask(id=1000, verb="workflows")
        assert refused["error"]["message"] == (
            "result: the result has 24 bytes, and one call returns at most 23."
            " Ask for fewer at a time."
        )


async def test_an_act_that_was_begun_is_finished_though_its_client_went_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: an act is carried out whole, and closing waits for it."""
    begun, gate = asyncio.Event(), asyncio.Event()
    find = Host._desk
    done: list[str] = []

    async def slow(self: Host, workflow: str, *, by: str = "user") -> None:
        begun.set()
        await gate.wait()
        find(self)  # the host is still open
        done.append(workflow)

    replace_verb(monkeypatch, "pause", slow)
    async with listening(tmp_path) as (_, path):
        async with client(path) as each:
            await each.send(id=1, verb="pause", args={"workflow": "Tea"})
            await begun.wait()
        await assert_alive(path)
        assert done == []
        asyncio.get_running_loop().call_later(0.05, gate.set)
    assert done == ["Tea"]


async def test_closing_answers_begun_acts_and_hangs_up_on_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def never(self: Host) -> None:
        await asyncio.Event().wait()

    async def slow(self: Host, workflow: str, *, by: str = "user") -> None:
        begun.set()
        await gate.wait()

    replace_verb(monkeypatch, "tools", never)
    replace_verb(monkeypatch, "pause", slow)
    async with AsyncExitStack() as clients:
        async with listening(tmp_path) as (_, path):
            each = await clients.enter_async_context(client(path))
            await each.send(id=1, verb="tools")
            assert (await each.ask(id=2, verb="bus.journal", follow=True))["id"] == 2
            await each.send(id=3, verb="pause", args={"workflow": "Tea"})
            await begun.wait()
            asyncio.get_running_loop().call_soon(gate.set)
        assert await each.hear() == {"id": 3, "answer": None}
        assert await each.is_hung_up()
    assert not path.exists()


async def test_closing_answers_the_act_of_a_client_that_asks_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def slow(self: Host, workflow: str, *, by: str = "user") -> None:
        begun.set()
        await gate.wait()

    replace_verb(monkeypatch, "pause", slow)
    async with AsyncExitStack() as clients:
        async with listening(tmp_path) as (_, path):
            each = await clients.enter_async_context(client(path))
            await each.send(id=1, verb="pause", args={"workflow": "Tea"})
            each.writer.write_eof()
            await begun.wait()
            asyncio.get_running_loop().call_later(0.05, gate.set)
        assert await each.hear() == {"id": 1, "answer": None}
        assert await each.is_hung_up()


async def test_a_host_that_is_told_to_stop_twice_still_finishes_what_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: an impatient person does not cut an act short."""
    begun, gate = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def slow(self: Host, workflow: str, *, by: str = "user") -> None:
        begun.set()
        await gate.wait()
        done.append(workflow)

    async def serve() -> None:
        async with listening(tmp_path) as (host, _):
            is_up.set()
            await host.serve()

    replace_verb(monkeypatch, "pause", slow)
    is_up = asyncio.Event()
    serving = asyncio.ensure_future(serve())
    await is_up.wait()
    path = project(tmp_path).socket
    try:
        async with client(path) as each:
            await each.send(id=1, verb="pause", args={"workflow": "Tea"})
            await begun.wait()
            serving.cancel()
            while path.exists():  # noqa: ASYNC110  # closing tells nobody but the disk
                await asyncio.sleep(0)
            serving.cancel()
            await asyncio.sleep(0)
            assert not serving.done()
            gate.set()
            assert await each.hear() == {"id": 1, "answer": None}
    finally:
        gate.set()
        await asyncio.wait([serving])
    assert serving.cancelled()
    assert done == ["Tea"]


def bad_lines(chance: random.Random) -> list[bytes]:
    """Make lines that are wrong in every way we can think of, always the same ones."""
    good: list[dict[str, Any]] = [
        {"id": 1, "verb": "bus.journal", "args": {"limit": 5}},
        {"id": 2, "verb": "why", "args": {"id": "Tea"}},
        {"id": 3, "verb": "bus.deferred", "args": {"after": {"id": 1}}},
        {"id": 4, "verb": "publish", "args": {"workflow": "w", "topic": "t", "title": "T"}},
        {"id": 5, "verb": "check", "args": {"source": {"language": "python", "text": 5}}},
        {"id": 6, "stop": True},
    ]
    odd: list[Any] = [
        None,
        True,
        -1,
        2**70,
        1e308,
        "",
        "\0",
        "x" * 5000,
        [],
        [[[]]],
        {},
        {"id": {}},
        "close",
    ]
    lines = []
    for _ in range(FUZZ_LINES):
        message = json.loads(json.dumps(chance.choice(good)))
        for _ in range(chance.randint(1, 3)):
            target = message["args"] if chance.random() < 0.5 and "args" in message else message
            if not isinstance(target, dict):
                target = message
            target[chance.choice([*target, "args", "verb", "id", "x"])] = chance.choice(odd)
        line = bytearray(json.dumps(message).encode())
        for _ in range(chance.choice([0, 0, 1, 5])):
            line[chance.randrange(len(line))] = chance.randrange(256)
        lines.append(bytes(line).replace(b"\n", b" ") + b"\n")
    return lines


async def test_hundreds_of_malformed_requests_leave_the_host_as_it_was(tmp_path: Path) -> None:
    """Every line is answered with an answer or a classified error, and the host goes on."""
    lines = bad_lines(random.Random(FUZZ_SEED))
    kinds: set[str] = set()
    async with listening(tmp_path) as (_, path):
        async with client(path) as each:
            for line in lines:
                await each.say(line)
                answer = await each.hear()
                kinds.add(answer["error"]["kind"] if "error" in answer else "answer")
        async with client(path) as each:
            await each.say(b"".join(lines))  # all at once, and then no more
            each.writer.write_eof()
            assert await each.is_hung_up()
        await assert_alive(path)
    assert "DulyError" not in kinds, "something failed inside the host"
    assert kinds >= {"Invalid", "NotFound", "answer"}


async def test_bytes_that_are_no_lines_leave_the_host_as_it_was(tmp_path: Path) -> None:
    chance = random.Random(FUZZ_SEED)
    async with listening(tmp_path) as (_, path):
        for _ in range(50):
            async with client(path) as each:
                with suppress(ConnectionError):
                    await each.say(chance.randbytes(chance.randrange(1, 3000)))
        await assert_alive(path)


async def test_an_act_that_was_done_is_not_refused_because_its_host_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 3: the clock is read before the act, for a closing host has none."""
    begun = asyncio.Event()
    complete = Desk.complete

    async def noted(desk: Desk, act: Any) -> Any:
        begun.set()
        return await complete(desk, act)

    folder = tmp_path / "project"
    await asyncio.to_thread(cli_stand.prepare, folder)
    monkeypatch.setattr(Desk, "complete", noted)
    made = cli_stand.project(folder)
    host = await build_host(made).open()
    async with Control(host, made.socket), client(made.socket) as each:
        await each.send(id=1, verb="pause", args={"workflow": "checks"})
        await begun.wait()
        closing = asyncio.ensure_future(host.close())
        told = await each.hear()
        await closing
    async with build_host(made) as again:
        assert [each.verb for each in await again.actions("checks")] == ["pause", "deploy"]
    assert told == {"id": 1, "answer": None}


@pytest.mark.parametrize(
    ("verb", "name"), [("pause", "workflow"), ("run", "id"), ("reconnect", "connector")]
)
async def test_an_error_does_not_grow_with_what_was_asked(
    tmp_path: Path, verb: str, name: str
) -> None:
    """Law 2: a long name is made visible letter by letter, which would hold up everybody."""
    async with listening(tmp_path) as (_, path), client(path) as each:
        await each.send(id=1, verb=verb, args={name: "\u0439" * 100_000})
        assert len(await each.reader.readline()) < 10_000


async def test_a_flood_of_lines_lets_the_loop_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S9, law 2: lines that are there already are taken one in each turn of the loop."""
    turn = 0
    taken: Counter[int] = Counter()
    take = Talk._take
    loop = asyncio.get_running_loop()

    def count() -> None:
        nonlocal turn
        turn += 1
        loop.call_soon(count)

    async def noted(talk: Talk, line: bytes) -> None:
        taken[turn] += 1
        await take(talk, line)

    monkeypatch.setattr(Talk, "_take", noted)

    def flood(path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as made:
            made.connect(str(path))
            made.recv(64 * 1024)
            made.sendall(b"\n" * 2000)
            made.shutdown(socket.SHUT_WR)
            while made.recv(1024 * 1024):
                pass

    short = tmp_path / "s"
    short.symlink_to(tmp_path)
    async with listening(tmp_path) as (_, path):
        loop.call_soon(count)
        await asyncio.to_thread(flood, short / path.name)
    assert sum(taken.values()) == 2000
    assert max(taken.values()) <= 2


async def test_a_long_line_lets_the_loop_turn(tmp_path: Path) -> None:
    """S9, law 2: it is looked at in pieces."""
    turns = 0
    loop = asyncio.get_running_loop()

    def count() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(count)

    line = write_line({"id": 1, "verb": "why", "args": {"id": [""] * 1_000_000}})
    async with listening(tmp_path) as (host, path), client(path) as each:
        talk = Talk(Control(host, path), each.reader, each.writer, user=0)
        loop.call_soon(count)
        seen = await talk._scan(line)
    assert seen.parts > 100_000
    assert turns >= len(line) // (64 * 1024)


async def test_answers_that_are_not_read_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 2: past it a client gets errors in place of answers, and is not read from."""
    held = peak = begun = 0
    ready = asyncio.Event()
    size = ANSWER_BYTES_MAX // 12
    send = Talk._send_line

    async def noted(talk: Talk, line: bytes) -> None:
        nonlocal held, peak
        held += len(line)
        peak = max(peak, held)
        try:
            await send(talk, line)
        finally:
            held -= len(line)

    async def large(host: Host) -> Any:
        nonlocal begun
        begun += 1
        if begun == 15:
            ready.set()
        await ready.wait()
        return "x" * size

    replace_verb(monkeypatch, "next_due", large)
    monkeypatch.setattr(Talk, "_send_line", noted)
    async with listening(tmp_path) as (_, path), client(path) as deaf:
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is read as well
        for each in range(15):
            await deaf.send(id=each, verb="next_due")
        await ready.wait()
        async with client(path) as polite:
            assert await polite.ask(id=1, verb="workflows") == {"id": 1, "answer": []}
            await deaf.send(id=15, verb="next_due")
            assert await polite.ask(id=2, verb="workflows") == {"id": 2, "answer": []}
        assert begun == 15
        deaf.writer.transport.resume_reading()  # type: ignore[attr-defined]
        told = [await deaf.hear() for _ in range(16)]
    assert ANSWER_BYTES_MAX // 2 < peak <= ANSWER_BYTES_MAX + MIB
    assert [each["error"]["code"] for each in told if "error" in each] == ["unanswered"] * 4
    # The last one was read when the others had been.
    assert (told[-1]["id"], len(told[-1]["answer"])) == (15, size)


@pytest.mark.parametrize("turns", range(5))
def test_a_client_that_comes_while_the_host_ends_is_hung_up_on(tmp_path: Path, turns: int) -> None:
    """U6: whatever the loop has done of its welcome, no connection is left open behind the host."""

    async def end_while_clients_come() -> list[socket.socket]:
        async with listening(tmp_path) as (_, path):
            made = [reach(path) for _ in range(3)]
            for _ in range(turns):
                await asyncio.sleep(0)
        return [each for each in made if each is not None]

    gc.collect()
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        clients = asyncio.run(end_while_clients_come())
        gc.collect()
    assert len(clients) == 3
    for each in clients:
        each.settimeout(5)
        with each, suppress(ConnectionResetError):  # what the kernel says to one not yet let in
            while each.recv(4096):  # a greeting, perhaps; then the end
                pass
    assert [str(each.message) for each in noted if each.category is ResourceWarning] == []
