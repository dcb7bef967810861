"""Attacks on the upper floor that succeed today: every test here is red, and says why.

Each is to turn green with a fix of its own, and then moves to the room whose rule it proves.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from duly.api import wire
from duly.api.build import build_host
from duly.api.codec import perform
from duly.api.registry import VERBS
from duly.api.session import connect
from duly.api.wire import ANSWER_BYTES_MAX, MIB, Peer, reach, read_error, write_line
from duly.desk.base import Desk
from duly.errors import DulyError, StoreUnavailable
from duly.faces.cli import duly
from duly.faces.socket import Control, Talk
from duly.host import Host
from duly.rules.value import Json
from tests.faces import cli_stand
from tests.faces.cli_stand import call
from tests.faces.stand import client, listening, project, replace_verb

SECRET = "hunter2 hunter2"
PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a past."""
    folder = tmp_path_factory.mktemp("lived") / "project"
    cli_stand.prepare(folder)
    return folder


@pytest.fixture
def folder(lived: Path, tmp_path: Path) -> Path:
    return cli_stand.copy(lived, tmp_path / "project")


def facts(folder: Path) -> dict[str, str]:
    known: dict[str, str] = json.loads((folder / "facts.json").read_text())
    return known


# -- An act that was done must not look undone --------------------------------------------------


async def test_an_act_that_was_done_is_not_refused_because_its_host_closes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 3 of the socket: red, because `perform` asks a closing host for the time afterwards."""
    begun = asyncio.Event()
    complete = Desk.complete

    async def noted(desk: Desk, act: Any) -> Any:
        begun.set()
        return await complete(desk, act)

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


def test_files_that_were_deployed_are_told_though_a_later_one_failed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: red, because only a source that is refused is caught; the rest of the list is lost."""
    calls: list[object] = []
    deploy = Host.deploy

    async def failing(host: Host, source: Any, **how: Any) -> Any:
        calls.append(source)
        if len(calls) > 1:
            raise StoreUnavailable(code="host_gone", facts={"process": 1})
        return await deploy(host, source, **how)

    replace_verb(monkeypatch, "deploy", failing)
    text = (folder / "workflows" / "rests.js").read_text()
    for name in ("one", "two"):
        (folder / f"{name}.js").write_text(text.replace('"rests"', f'"{name}"'))
    told = call(folder, "deploy", str(folder / "one.js"), str(folder / "two.js"))
    assert told.exit_code == 1
    assert "“one” is at version 1.0" in told.output


# -- Nobody waits for ever ----------------------------------------------------------------------


@contextmanager
def pretender(path: Path, *lines: dict[str, Json]) -> Iterator[None]:
    """Greet one client like a host, say some lines after its request, and hang up."""
    greeting: dict[str, Json] = {"duly": "9.0", "pid": 1, "store": "x", "serving": True}
    greeting["since"] = "2026-01-02T12:00:00.000Z"
    listener = wire.listen(path)
    listener.setblocking(True)

    def greet() -> None:
        met, _ = listener.accept()
        with met:
            met.sendall(write_line(greeting))
            met.recv(64 * 1024)
            for each in lines:
                met.sendall(write_line(each))

    thread = threading.Thread(target=greet)
    thread.start()
    try:
        yield
    finally:
        thread.join(PATIENCE_S)
        listener.close()


async def test_a_verb_this_version_does_not_know_is_lost_and_not_waited_for(
    tmp_path: Path,
) -> None:
    """Law 3 of a session: red, because `_gone` looks the verb up, and its error ends the listener.

    The caller waits for ever; so does every other caller of the same session.
    """
    place = project(tmp_path)
    with pretender(place.socket):
        async with connect(place) as each:
            with pytest.raises(DulyError):
                async with asyncio.timeout(2):
                    await each.call("from_a_newer_host")


@pytest.mark.parametrize(
    "more",
    [{"next": {"verb": "why", "args": {}}}, {"more": 1}],
    ids=["offer of another version", "field of another version"],
)
async def test_an_error_of_another_version_is_still_that_error(more: dict[str, Json]) -> None:
    """U6: red, because what cannot be read ends the session: a refused act becomes an unknown."""
    raw: dict[str, Json] = {"kind": "Invalid", "code": "blank", "message": "No.", **more}
    assert (read_error(raw).code, str(read_error(raw))) == ("blank", "No.")


# -- Wrong values are the caller's, and are told in few words -------------------------------------


@pytest.mark.parametrize(
    ("verb", "args", "path"),
    [
        ("workflows", {"limit": {"a": 1}}, "limit"),
        ("workflows", {"limit": [1, 2]}, "limit"),
        ("runs", {"status": {"a": 1}}, "status"),
        ("bus.cancel", {"deferred_id": {"a": 1}}, "deferred_id"),
        ("backup", {"path": {"a": "/x"}}, "path"),
    ],
)
async def test_a_wrong_value_is_refused_by_its_name(
    folder: Path, verb: str, args: dict[str, Json], path: str
) -> None:
    """U6: codec reads the parts of `Annotated` as those of an object and fails inside."""
    made = cli_stand.project(folder)
    async with (
        build_host(made) as host,
        Control(host, made.socket),
        client(made.socket) as each,
    ):
        error = (await each.ask(id=1, verb=verb, args=args))["error"]
    assert (error["kind"], error.get("path")) == ("Invalid", path)


async def test_the_example_of_a_verb_works(tmp_path: Path) -> None:
    """U6: red, because the one source that all examples share has no handler and is refused."""
    async with Host(project(tmp_path).url) as host:
        example: Any = dict(VERBS["deploy"].example)
        told: Any = await perform(host, "deploy", {**example, "grant": False}, by="ada")
    assert told["workflow"] == "invoices"


# -- No client hurts another (law 2 of the socket) ------------------------------------------------


async def test_a_flood_of_lines_lets_the_loop_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S9: red, because lines that are there already are taken without one pause.

    64 KiB of newlines stop every run, lease and client of the host for seconds.
    """
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
            made.sendall(b"\n" * 20_000)
            made.shutdown(socket.SHUT_WR)
            while made.recv(1024 * 1024):
                pass

    short = tmp_path / "s"
    short.symlink_to(tmp_path)
    async with listening(tmp_path) as (_, path):
        loop.call_soon(count)
        await asyncio.to_thread(flood, short / path.name)
    assert sum(taken.values()) == 20_000
    assert max(taken.values()) <= 100


async def test_answers_that_nobody_takes_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 2 of the socket: red, because the room counts requests only.

    One client that reads nothing holds sixteen answers of up to 64 MiB; there are 48 such places.
    """
    held = peak = 0
    size = ANSWER_BYTES_MAX // 12
    send = Talk._send_line

    async def noted(talk: Talk, line: bytes, request_id: Json) -> None:
        nonlocal held, peak
        held += len(line)
        peak = max(peak, held)
        try:
            await send(talk, line, request_id)
        finally:
            held -= len(line)

    async def large(host: Host) -> Any:
        return "x" * size

    replace_verb(monkeypatch, "next_due", large)
    monkeypatch.setattr(Talk, "_send_line", noted)
    async with listening(tmp_path) as (_, path), client(path) as deaf:
        for each in range(16):
            await deaf.send(id=each, verb="next_due")
        async with client(path) as polite:
            assert await polite.ask(id=1, verb="workflows") == {"id": 1, "answer": []}
        deaf.writer.transport.abort()
    assert peak <= ANSWER_BYTES_MAX + MIB


# -- Secrets (A5) -------------------------------------------------------------------------------


def speak(path: Path) -> None:
    """Connect, and hang up."""
    made = reach(path)
    assert made is not None
    made.close()


def test_a_secret_is_not_told_to_a_stranger_by_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5, K14: red, because root speaks to whoever listens.

    In a folder of another user `duly secret set` sends it to that user, and says it is kept.
    """
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "s"))
        left.listen()
        monkeypatch.setattr(wire, "ask_peer", lambda made: Peer(1, 65534))
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        with pytest.raises(StoreUnavailable):
            speak(tmp_path / "s")


def test_a_store_that_another_user_could_have_written_is_not_used(tmp_path: Path) -> None:
    """K14: red, because only duly.toml is judged: without one, a stranger's store and key are used.

    In /tmp the commands of every user open the store that the first of them left there.
    """
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    cli_stand.prepare(open_folder / "p")
    for each in (open_folder / "p").glob("duly.db*"):
        each.rename(open_folder / each.name)
    open_folder.chmod(0o777)
    here = Path.cwd()
    os.chdir(open_folder)
    try:
        told = CliRunner().invoke(duly, ["actions"], prog_name="duly")
    finally:
        os.chdir(here)
    assert told.exit_code == 1
    assert "could" in told.output or "written" in told.output
