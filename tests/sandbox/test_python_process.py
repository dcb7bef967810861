"""The process of Python's interpreter: what it may say, when, and how much of it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duly.config import Limits
from duly.env import Loop
from duly.rules.access import Step
from duly.sandbox import python_process
from duly.sandbox.base import MISSING, Asked, Broke, Loaded, Returned
from duly.sandbox.python import Image, PythonSandbox
from duly.sandbox.python_process import FORGET_S, READ_AT_ONCE_BYTES
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from tests.sandbox.contract import CATALOG, WORLD, Body
from tests.sandbox.python_stand import LIMITS, make, opened, run, source
from tests.sandbox.test_pool import is_gone, wait_until

# Says that it is locked, and then says what a test is about in place of the interpreter.
HOSTILE = """
import os, sys, time
def read():
    head = os.read(channel, 4)
    left = int.from_bytes(head, "little")
    while left:
        left -= len(os.read(channel, left))
def say(body):
    whole = len(body).to_bytes(4, "little") + body
    while whole:
        whole = whole[os.write(channel, whole):]
def varint(n):
    return bytes((n & 127 | 128,)) + varint(n >> 7) if n > 127 else bytes((n,))
channel = int(sys.argv[1])
say(b'{"held":[],"missing":[]}')
done, returned = bytes((82, 0)), bytes((50, 6, 18, 4, 18, 2, 18, 0))
read(), read()
BODY
time.sleep(60)
"""
NOTHING: Any = None


@pytest.fixture
async def sandbox() -> AsyncIterator[PythonSandbox]:
    made = make()
    yield made
    await made.close()


async def hostile_turn(sandbox: PythonSandbox, monkeypatch: pytest.MonkeyPatch, body: str) -> Any:
    """Let a worker say something in place of the first turn of a step."""
    monkeypatch.setattr(python_process, "PROGRAM", HOSTILE.replace("BODY", body))
    image = Image({}, dump=b"an image")
    loaded = Loaded(source("pass"), NOTHING, msgspec.msgpack.encode(image))
    async with opened(sandbox, loaded) as script:
        return await script.start()


async def test_a_worker_that_says_what_it_should_is_believed(
    sandbox: PythonSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X2: so what is refused below is refused for what it says."""
    assert await hostile_turn(sandbox, monkeypatch, "say(done), say(returned)") == Returned(MISSING)


NONSENSE = {
    "nothing": "say(done), say(b'')",
    "no event": "say(done), say(bytes((255, 255, 3, 0)))",
    "half a field": "say(done), say(bytes((50, 6, 18)))",
    "half a number": "say(done), say(bytes((50, 255)))",
    "a number without end": "say(done), say(bytes((50,)) + b'\\xff' * 40)",
    "a kind of field that there is not": "say(done), say(bytes((51, 1, 1)))",
    "a number for a part": "say(done), say(bytes((48, 1)))",
    "a value that it did not send": "say(done), say(bytes((50, 2, 8, 7)))",
    "a text that is no text": "say(done), say(bytes((10, 5, 10, 3, 18, 1, 255)))",
    "no acknowledgement": "say(returned), say(returned)",
    "its first words again": 'say(b\'{"held":[],"missing":[]}\')',
    "what it was not asked for": "say(done), say(bytes((74, 0)))",
    "that it did not understand": (
        "say(done); words = b'protocol violation: no session';"
        "inner = bytes((18, len(words))) + words; raised = bytes((10, len(inner))) + inner;"
        "say(bytes((58, len(raised))) + raised)"
    ),
    "a second end at once": (
        "os.write(channel, b''.join(len(each).to_bytes(4, 'little') + each"
        " for each in (done, returned, returned)))"
    ),
    "a frame that is too long": "say(done), os.write(channel, (1 << 31).to_bytes(4, 'little'))",
    "too many fields": (
        "body = bytes((120, 0)) * 30000 + bytes((18, 4, 18, 2, 18, 0));"
        "say(done), say(bytes((50,)) + varint(len(body)) + body)"
    ),
    "half a frame, and then nothing": (
        "say(done), os.write(channel, bytes((9, 0, 0, 0, 50))), os._exit(1)"
    ),
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE)
async def test_a_worker_that_says_nonsense_is_lost(
    sandbox: PythonSandbox, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """X2, F1: what it says is hostile until proven; its script is not blamed, no worker is kept."""
    turn = await hostile_turn(sandbox, monkeypatch, body)
    assert isinstance(turn, Broke), turn
    assert turn.is_lost
    assert sandbox.pool.pids == ()


async def test_what_is_said_between_two_scripts_is_not_heard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """C1: an end in advance is not the next script's end."""
    said = tmp_path / "said"
    sandbox = PythonSandbox(Loop(), LIMITS, names=NAMES, refuse=refuse_lacking, workers_max=1)
    body = (
        "say(done), say(returned), time.sleep(0.05);"
        f"say(done), say(done), say(returned), open({str(said)!r}, 'w')"
    )
    assert await hostile_turn(sandbox, monkeypatch, body) == Returned(MISSING)
    (pid,) = sandbox.pool.pids
    wait_until(said.exists)
    turn = await hostile_turn(sandbox, monkeypatch, "say(done), say(returned)")
    assert isinstance(turn, Broke)
    assert turn.is_lost
    wait_until(lambda: is_gone(pid))
    await sandbox.close()


KILLED = {
    "before its first word": "os._exit(1)",
    "between two frames": "say(done), os._exit(1)",
    "within a frame": "say(done), os.write(channel, bytes((9, 0, 0, 0, 50))), os._exit(1)",
    "within a length": "say(done), os.write(channel, bytes((9, 0))), os._exit(1)",
    "after a printed line": "say(done), say(bytes((10, 5, 10, 3, 18, 1, 65))), os._exit(1)",
}


@pytest.mark.parametrize("body", KILLED.values(), ids=KILLED)
async def test_a_worker_that_dies_at_any_moment_is_lost(
    sandbox: PythonSandbox, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """F1: no half of an event is believed."""
    turn = await hostile_turn(sandbox, monkeypatch, body)
    assert isinstance(turn, Broke)
    assert turn.is_lost


async def test_a_worker_that_is_out_of_memory_says_so_by_its_end(
    sandbox: PythonSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X2: the limit is named; it is the script that broke it."""
    turn = await hostile_turn(sandbox, monkeypatch, "say(done), os._exit(65)")
    assert isinstance(turn, Broke)
    assert not turn.is_lost
    assert "16 MiB of memory" in str(turn.error)


async def test_a_worker_killed_between_two_calls_is_lost_and_the_next_runs(
    sandbox: PythonSandbox,
) -> None:
    """F1: one that dies while its script waits for an answer, and one that dies while idle."""
    loaded = await sandbox.load(source("await ctx.mail.send()\nreturn 1"), CATALOG)
    async with opened(sandbox, loaded) as script:
        assert isinstance(await script.start(), Asked)
        assert script._worker is not None
        os.kill(script._worker.pid, signal.SIGKILL)
        wait_until(lambda: script._worker is None or not script._worker.is_alive)
        turn = await script.answer(0, None)
    assert isinstance(turn, Broke)
    assert turn.is_lost
    assert await run(sandbox, "return 1") == Returned(1)
    for worker in tuple(sandbox.pool._all):
        os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: not any(each.is_alive for each in sandbox.pool._all))
    assert await run(sandbox, "return 2") == Returned(2)


# -- What is long -------------------------------------------------------------------------------


async def test_long_events_are_read_beside_the_loop(
    sandbox: PythonSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X2: an argument, a result and an answer of many times what is read at once."""
    threads: list[str] = []
    apart = sandbox.pool.apart

    async def noted(function: Any) -> Any:
        threads.append("apart")
        return await apart(function)

    body = "got = await ctx.mail.send(text='x' * 300_000)\nreturn [len(got), 'y' * 300_000]"
    loaded = await sandbox.load(source(body), CATALOG)
    monkeypatch.setattr(sandbox.pool, "apart", noted)
    async with opened(sandbox, loaded) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        assert turn.calls[0].kwargs == {"text": "x" * 300_000}
        assert await script.answer(0, "z" * 1_000_000) == Returned([1_000_000, "y" * 300_000])
    assert threads == ["apart"] * 2


async def test_a_worker_that_prints_on_while_a_long_event_is_read_is_heard_in_order(
    sandbox: PythonSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X4: nothing is lost and nothing is taken for an answer."""
    long = READ_AT_ONCE_BYTES + 100
    body = (
        f"text = b'a' * {long}; segment = bytes((8, 1, 18)) + varint({long}) + text;"
        "inner = bytes((10,)) + varint(len(segment)) + segment;"
        "say(done), say(bytes((10,)) + varint(len(inner)) + inner);"
        "say(bytes((10, 8, 10, 6, 8, 1, 18, 2, 10, 66))), say(returned)"
    )
    turn = await hostile_turn(sandbox, monkeypatch, body)
    assert isinstance(turn, Returned), turn
    assert [len(log.text) for log in turn.logs] == [LIMITS.log_line_chars, 1]


async def test_an_answer_that_does_not_fit_the_socket_is_sent_in_pieces(
    sandbox: PythonSandbox,
) -> None:
    """X2: chance by the megabyte, of which the socket takes a part at a time."""
    body = "import os\nreturn [len(os.urandom(1_000_000)), len(os.urandom(1_000_000))]"
    assert await run(sandbox, body) == Returned([1_000_000, 1_000_000])


# -- Between two scripts ------------------------------------------------------------------------


async def sessions(sandbox: PythonSandbox, body: str, pause_s: float) -> list[Any]:
    loaded = await sandbox.load(source(body), CATALOG)
    found = []
    for _ in range(3):
        async with opened(sandbox, loaded) as script:
            found.append(await script.start())
        await asyncio.sleep(pause_s)
    return found


@pytest.mark.parametrize("pause_s", [0.0, 2 * FORGET_S])
async def test_nothing_of_a_script_is_there_for_the_next(pause_s: float) -> None:
    """C1: it is forgotten by itself, or when the next begins; one worker serves them all."""
    one = PythonSandbox(Loop(), Limits(), names=NAMES, refuse=refuse_lacking, workers_max=1)
    body = "global kept\ntry:\n    kept += 1\nexcept NameError:\n    kept = 1\nreturn kept"
    assert await sessions(one, body, pause_s) == [Returned(1)] * 3
    assert len(one.pool.pids) == 1
    await one.close()


async def test_a_script_that_left_without_a_word_changes_nothing_for_the_next() -> None:
    """C1: its predecessor is forgotten once, however many were there in between."""
    one = PythonSandbox(Loop(), Limits(), names=NAMES, refuse=refuse_lacking, workers_max=1)
    loaded = await one.load(
        Body(python="return await ctx.gmail.search()").source("python"), CATALOG
    )

    async def play() -> None:
        async with one.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD) as script:
            assert isinstance(await script.start(), Asked)
            await asyncio.sleep(FORGET_S / 2)
            assert await script.answer(0, 7) == Returned(7)

    for _ in range(4):
        await play()
        async with one.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD):
            await asyncio.sleep(FORGET_S / 10)
    await asyncio.sleep(2 * FORGET_S)
    await play()
    assert len(one.pool.pids) == 1
    await one.close()


async def test_an_idle_worker_that_does_not_listen_is_ended() -> None:
    """X2: its socket is full, so not even the word to forget fits in."""
    one = PythonSandbox(Loop(), Limits(), names=NAMES, refuse=refuse_lacking, workers_max=1)
    assert (await sessions(one, "return 1", 0))[0] == Returned(1)
    (worker,) = one.pool._all
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        while True:
            worker._channel._end.send(bytes(4096))
    except BlockingIOError:
        pass
    await asyncio.sleep(2 * FORGET_S)
    wait_until(lambda: not worker.is_alive)
    assert (await sessions(one, "return 1", 0))[0] == Returned(1)
    await one.close()
