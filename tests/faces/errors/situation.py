"""What can go wrong at a terminal: each situation is prepared, and then one command is typed.

A situation is given a fresh copy of a project with a past, and answers what was typed and what
came of it. Everything is real: stores, sockets, scripts, files.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

import apsw

from duly.api import session
from duly.api.build import build_host
from tests.faces.cli_stand import TOML, Facts, answer, call, flow, project, running
from tests.house import ROOT

BIG: Final = '"' + "x" * (300 * 1024) + '"'
FULL_BYTES: Final = 64 * 1024
MISSING_RUN: Final = "run_000000000000"
MISSING_MUTATION: Final = "mutation_000000000000"


@dataclass(frozen=True)
class Said:
    """What was typed, and what came of it."""

    typed: str
    code: int
    text: str


@dataclass(frozen=True)
class Desk:
    """A project to go wrong in."""

    folder: Path
    facts: Facts

    def type(self, line: str, *, given: str | None = None, **environ: str) -> Said:
        """Type a command; names in braces are ids of the past."""
        words = [each.replace("~", " ") for each in line.format(**self.facts.words).split()]
        result = call(self.folder, *words, given=given, **environ)
        return Said(line, result.exit_code, result.stdout + result.stderr)

    def config(self, text: str) -> Desk:
        """Write other settings."""
        (self.folder / "duly.toml").write_text(text, encoding="utf-8")
        return self

    def write(self, name: str, text: str) -> Desk:
        """Write a file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return self

    def done(self, *lines: str) -> Desk:
        """Let something have been done before."""
        for line in lines:
            said = self.type(line)
            assert said.code == 0, said
        return self


Situation = Callable[[Desk], Said]


def typing(line: str, *before: str, given: str | None = None) -> Situation:
    """Make a situation of commands alone."""
    return lambda desk: desk.done(*before).type(line, given=given)


def with_config(text: str, line: str = "workflows") -> Situation:
    """Make a situation of settings alone."""
    return lambda desk: desk.config(text).type(line)


# -- Hosts --------------------------------------------------------------------------------------


def host_runs(desk: Desk, line: str) -> Said:
    with running(desk.folder):
        return desk.type(line)


def every_user_writes(desk: Desk) -> Said:
    """The settings of the project could be another user's."""
    (desk.folder / "duly.toml").chmod(0o666)
    return desk.type("workflows")


def embedded(desk: Desk) -> Said:
    """A program has the store and listens nowhere."""
    with _held(desk.folder):
        return desk.type("workflows")


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    ready, done = threading.Event(), threading.Event()

    async def hold() -> None:
        async with build_host(project(folder)):
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(hold()))
    thread.start()
    try:
        assert ready.wait(30)
        yield
    finally:
        done.set()
        thread.join(30)


def stranger(desk: Desk) -> Said:
    """Something else listens where a host would."""
    return _listening(desk, lambda client: client.sendall(b"HTTP/1.1 400 Bad Request\n"))


def goes_away(desk: Desk) -> Said:
    """The host ends after it was asked something."""
    greeting = {
        "duly": "0",
        "pid": 7,
        "store": "duly.db",
        "since": "2026-05-01T18:00:00Z",
        "serving": True,
    }

    def greet(client: socket.socket) -> None:
        client.sendall(json.dumps(greeting).encode() + b"\n")
        client.recv(4096)

    return _listening(desk, greet)


def says_nothing(desk: Desk) -> Said:
    """The host was stopped, and its socket still takes calls."""
    with patch.object(session, "GREETING_S", 0.05):
        return _listening(desk, lambda client: client.recv(4096))


def _listening(desk: Desk, greet: Callable[[socket.socket], object]) -> Said:
    """Type a command where something listens that is no host at work."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(project(desk.folder).socket))
        server.listen()

        def serve() -> None:
            with server.accept()[0] as client:
                greet(client)

        thread = threading.Thread(target=serve)
        thread.start()
        said = desk.type("workflows")
        thread.join(30)
    return said


# -- Stores -------------------------------------------------------------------------------------


def newer(desk: Desk) -> Said:
    with apsw.Connection(str(desk.folder / "duly.db")) as connection:
        connection.pragma("user_version", int(connection.pragma("user_version")) + 1)
    connection.close()
    return desk.type("status")


def damaged(desk: Desk) -> Said:
    _forget_log(desk.folder)
    path = desk.folder / "duly.db"
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 4000 + path.read_bytes()[4100:])
    return desk.type("status")


def no_database(desk: Desk) -> Said:
    _forget_log(desk.folder)
    (desk.folder / "duly.db").write_bytes(b"not a database at all, " * 1000)
    return desk.type("status")


def _forget_log(folder: Path) -> None:
    for ending in ("-wal", "-shm"):
        (folder / f"duly.db{ending}").unlink(missing_ok=True)


def full(desk: Desk) -> Said:
    """No file may grow: what a full disk looks like to a program."""
    line = "publish rests in --title Note --payload @big.json"
    desk.write("big.json", '"' + "x" * 200_000 + '"')
    done = subprocess.run(
        [sys.executable, "-m", "duly", "--project", str(desk.folder), *line.split()],
        cwd=desk.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_BYTES, FULL_BYTES)),
    )
    return Said(line, done.returncode, done.stdout + done.stderr)


def open_key(desk: Desk) -> Said:
    (desk.folder / "duly.db.key").chmod(0o644)
    return desk.type("secret list")


# -- Sources ------------------------------------------------------------------------------------


def empty_folder(desk: Desk) -> Said:
    (desk.folder / "none").mkdir()
    return desk.type(f"deploy {desk.folder}/none")


def deploying(name: str, text: str, options: str = "") -> Situation:
    return lambda desk: desk.write(name, text).type(f"deploy {desk.folder}/{name} {options}")


def other_workflow(desk: Desk) -> Said:
    return desk.type(f"what-if asks {desk.folder}/workflows/checks.js")


def broken_extension(desk: Desk) -> Said:
    desk.config(f'extensions = "extensions"\n{TOML}')
    desk.write("extensions/post/manifest.yaml", "id: post\nname: Post\nversoin: 1\n")
    return desk.type("extensions")


def payload(name: str, text: str) -> Situation:
    return lambda desk: desk.write(name, text).type(
        f"publish rests in --title Note --payload @{desk.folder}/{name}"
    )


SYNTAX: Final = "export default Duly.workflow({\n  name: 'x',\n  topics: [,\n});\n"
URL: Final = TOML.partition("\n")[0]
SHEET: Final = '[connectors.sheet]\nuse = "{}"\n'
PUBLISH: Final = "publish rests in --title Note --payload"

SITUATIONS: Final[dict[str, Situation]] = {
    # Names
    "an unknown workflow": typing("pause zebra"),
    "a misspelt workflow": typing("pause ask"),
    "a misspelt command": typing("stauts"),
    "a misspelt option": typing("runs --limt 3"),
    "a missing argument": typing("pause"),
    "an argument too many": typing("pause asks checks"),
    "an unknown run": typing(f"retry {MISSING_RUN}"),
    "an unknown mutation": typing(f"approve {MISSING_MUTATION} --yes"),
    "an unknown thing to explain": typing("why zebra"),
    "an unknown topic": typing("events asks --topic inn"),
    "an unknown handler": typing("runs asks --handler fiel"),
    "an unknown status": typing("runs --status broken"),
    "a number that is none": typing("runs --limit many"),
    "a page of nothing": typing("runs --limit 0"),
    "a page too long": typing("runs --limit 1001"),
    "an unknown version": typing("diff rests 1.0 7.0"),
    # Settings
    "settings that are no TOML": with_config("url = sqlite\n"),
    "an unknown setting": with_config(f'{URL}\nworkflow = "flows"\n'),
    "a wrong setting": with_config(f"{URL}\n[policy]\nruns_max = 0\n"),
    "a wrong setting in the environment": lambda desk: desk.type(
        "workflows", DULY_POLICY__RUNS_MAX="many"
    ),
    "a project that is not there": lambda desk: Desk(desk.folder / "nowhere", desk.facts).type(
        "workflows"
    ),
    "a folder that is no project": lambda desk: Desk(
        desk.write("bare/notes.txt", "x").folder / "bare", desk.facts
    ).type("workflows"),
    "a project that every user can write": every_user_writes,
    "forgetting what was never trusted": lambda desk: desk.type(
        f"trust --forget {desk.folder}", XDG_CONFIG_HOME=str(desk.folder)
    ),
    "a relative url without a scheme": with_config('url = "duly.db"\n'),
    "a postgres url": with_config('url = "postgresql://localhost/duly"\n'),
    "a store in a folder that is a file": with_config('url = "sqlite:///duly.toml/duly.db"\n'),
    "a store where nobody may write": with_config(
        'url = "sqlite:////proc/duly.db"\n', "pause checks"
    ),
    "a connector that is not built in": with_config(f"{URL}\n{SHEET.format('shet')}"),
    "a connector that says nothing": with_config(f"{URL}\n[connectors.sheet]\n"),
    "a connector whose module is missing": with_config(f"{URL}\n{SHEET.format('no_shop:Sheet')}"),
    "a connector whose module fails": lambda desk: (
        desk.write("errors_shop.py", "raise RuntimeError('no till')\n")
        .config(f"{URL}\n{SHEET.format('errors_shop:Sheet')}")
        .type("workflows")
    ),
    "a connector whose class is missing": with_config(f"{URL}\n{SHEET.format('json:Sheet')}"),
    "a connector that takes no such setting": with_config(
        f'{TOML}\n[connectors.other]\nuse = "tests.faces.cli_stand:Sheet"\ncolour = "red"\n'
    ),
    "a connector that is none": with_config(
        f"{URL}\n{SHEET.format('tests.faces.cli_stand:Facts')}"
    ),
    "a broken extension": broken_extension,
    # Hosts and stores
    "a second host": lambda desk: host_runs(desk, "serve"),
    "draining beside a host": lambda desk: host_runs(desk, "drain"),
    "a host inside another program": embedded,
    "a stranger at the socket": stranger,
    "a host that goes away": goes_away,
    "a host that says nothing": says_nothing,
    "following without a host": typing("runs --follow"),
    "a newer store": newer,
    "a damaged store": damaged,
    "a file that is no store": no_database,
    "a full disk": full,
    "a key that others can read": open_key,
    "a backup over a file": lambda desk: desk.type(f"backup {desk.folder}/duly.toml"),
    "tidying where everything is kept": typing("tidy"),
    # Sources
    "an empty folder": empty_folder,
    "a file that is no source": deploying("notes.txt", "hello"),
    "checking a file that is no source": lambda desk: desk.write("notes.txt", "x").type(
        f"check {desk.folder}/notes.txt"
    ),
    "a file that is not there": lambda desk: desk.type(f"deploy {desk.folder}/none.py"),
    "a syntax error": deploying("broken.js", SYNTAX),
    "a python syntax error": deploying("broken.py", "def (:\n"),
    "a source that declares nothing": deploying("nothing.js", "export const x = 1;\n"),
    "a source with two topics of one consumer missing": deploying(
        "odd.js", flow("odd").replace('subscribe: ["in"]', 'subscribe: ["inn"]')
    ),
    "a source of another workflow": other_workflow,
    "back to an unknown version": typing("rollback rests 7.0"),
    "back to the active version": typing("rollback rests 2.0"),
    "removing what is open": typing("remove asks"),
    # Decisions
    "too little of an id": typing("run 1"),
    "retrying one of several": typing("retry"),
    "settling the only one twice": typing("settle happened --yes", "settle skip --yes"),
    "approving without a terminal": typing("approve {proposed}"),
    "approving with another hash": typing("approve {proposed} --hash 00 --yes"),
    "approving what was rejected": typing("approve {proposed} --yes", "reject {proposed} --yes"),
    "approving while paused": typing("approve {proposed} --yes", "pause asks"),
    "rejecting what is unknown": typing("reject {unknown} --yes"),
    "settling twice": typing("settle {unknown} happened --yes", "settle {unknown} skip --yes"),
    "settling what is proposed": typing("settle {proposed} happened --yes"),
    "settling with another word": typing("settle {unknown} perhaps --yes"),
    "a result of nothing": typing("settle {unknown} skip --result 1 --yes"),
    "abandoning what is unknown": lambda desk: desk.type(f"abandon {_holder(desk)}"),
    "retrying what is unknown": lambda desk: desk.type(f"retry {_holder(desk)}"),
    "skipping twice": typing("skip rests in 1", "skip rests in 1"),
    "skipping what is under way": typing("skip lost in 1"),
    "skipping an unknown event": typing("skip rests in 99"),
    "checking at once what is open": typing("run-now asks"),
    "checking at once what is paused": typing("run-now checks", "pause checks"),
    "a script that failed": typing("why fails"),
    # Publishing
    "publishing where nobody may": typing("publish rests quiet --title Note"),
    "publishing into an unknown topic": typing("publish rests inn --title Note"),
    "publishing without a title": typing("publish rests in"),
    "publishing with a blank title": typing("publish rests in --title ~"),
    "a payload that is no JSON": typing(f"{PUBLISH} {{{{a:1}}}}"),
    "a payload that is no number": typing(f"{PUBLISH} NaN"),
    "a payload too large": payload("big.json", BIG),
    "a payload that is not there": typing(f"{PUBLISH} @none.json"),
    # Permissions and secrets
    "revoking twice": typing("revoke asks sheet.append", "revoke asks sheet.append"),
    "granting what nobody needs": typing("grant asks sheet.apend"),
    "granting with an unknown argument": typing('grant asks sheet.append --where {{"txt":"*"}}'),
    "limiting what only reads": typing("grant asks sheet.read --mutations-per-day 3"),
    "connecting what is not there": typing("reconnect shet"),
    "a secret of nobody": typing("secret set shet token", given="x"),
    "a secret as an argument": typing("secret set sheet token s3cret"),
    "a secret of nothing": typing("secret set sheet token", given=""),
    "dropping a secret that is not there": typing("secret drop sheet tokn"),
    # The bus
    "cancelling twice": typing("bus cancel {deferred}", "bus cancel {deferred}"),
    "cancelling what never was": typing("bus cancel 99"),
    "emitting what is no object": typing("bus emit task 3"),
    "emitting as the host": typing("bus emit task {{}} --source duly"),
    "delivering again what is not dead": typing(
        "bus retry {dead_event} test:task", "bus discard {dead_event} test:task"
    ),
    "an unknown delivery": typing("bus discard 99 test:task"),
    "unsubscribing nobody": typing("bus unsubscribe nobody"),
}


def _holder(desk: Desk) -> str:
    return str(answer(desk.folder, "mutation", desk.facts.unknown)["held_by"])
