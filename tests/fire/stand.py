"""The parent of hosts and outside: it starts them, does them harm, and counts at the outside.

Law 1: a condition is waited for, with a limit no machine needs; nothing is hoped for after a while.
Law 2: only processes started here are ended, by their ids, and none is left at the end.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import apsw

from tests.breaks import ROOT
from tests.engine.crash_window.script import INBOX, WRITTEN
from tests.fire.outside import Line
from tests.fire.process import STORE, Flow, Orders

LIMIT_S: Final = 120.0  # what has not answered by then never will
PAUSE_S: Final = 0.02


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, or say what never came."""
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(PAUSE_S)


class Outside:
    """The server's process, and a line to it that no host knows of."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    def ask(self, verb: str, **words: Any) -> dict[str, Any]:
        """Ask it one thing."""
        with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as line:
            line.sendall(json.dumps({"do": verb, **words}).encode() + b"\n")
            with line.makefile() as answers:
                answer: dict[str, Any] = json.loads(answers.readline())
        return answer

    def behave(self, *moods: str, seed: int | None = None) -> None:
        """Say how it takes the next writes, one after another, and then by which dice."""
        self.ask("behave", moods=moods, seed=seed)

    @property
    def lines(self) -> list[Line]:
        """Every effect there was."""
        return [Line(**each) for each in self.ask("tally")["lines"]]

    @property
    def rows(self) -> list[str]:
        """What was written, in order."""
        return [line.row for line in self.lines]


class Nursery:
    """Where hosts come from."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, verb: str, **words: Any) -> Any:
        """Ask it one thing."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": verb, **words}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def _program(name: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", f"tests.fire.{name}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(timeout=LIMIT_S) == 0


@contextmanager
def open_outside() -> Iterator[Outside]:
    """Start an outside, and end it."""
    with _program("outside") as process:
        assert process.stdout is not None
        yield Outside(process, int(process.stdout.readline()))


@contextmanager
def open_nursery() -> Iterator[Nursery]:
    """Start the process that starts hosts, and end it when nobody is left."""
    with _program("process") as process:
        nursery = Nursery(process)
        yield nursery
        until(lambda: not nursery.ask("left"), "the end of every process")


class Hosted:
    """A host's process, from its start to its end."""

    def __init__(self, nursery: Nursery, orders: dict[str, Any]) -> None:
        self._nursery = nursery
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._line: socket.socket | None = None
        self._rest = b""
        self._asked = 0
        self.is_over = False
        self.answers: dict[int, dict[str, Any]] = {}
        self.logs: list[str] = []
        self.greeting: dict[str, Any] | None = None
        self.status: int | None = None
        parent = self._listener.getsockname()[1]
        self.id: int = nursery.ask("start", orders={**orders, "parent": parent})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    # -- Talking --------------------------------------------------------------------------------

    def listen(self, seconds: float) -> None:
        """Take in what it says for so long at most, returning early when it said something."""
        waited_for = self._line or self._listener
        if self.is_over or not select.select([waited_for], [], [], seconds)[0]:
            return
        if self._line is None:
            self._line, _ = self._listener.accept()
            return
        try:
            heard = self._line.recv(1 << 20)
        except ConnectionError:
            heard = b""
        if not heard:
            self.is_over = True
        *lines, self._rest = (self._rest + heard).split(b"\n")
        for line in lines:
            self._hear(json.loads(line))

    def _hear(self, words: dict[str, Any]) -> None:
        if "log" in words:
            self.logs.append(words["log"])
        elif "id" in words:
            self.answers[words.pop("id")] = words
        else:
            self.greeting = words

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Listen until a condition holds, or say what never came."""
        end = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < end, f"never came: {what}"
            if self.is_over:
                self._end()  # so that it can still say of what it died
            assert not self.is_over, f"it ended ({self.status}) before {what}: {self.logs}"
            self.listen(0.1)

    def ready(self) -> Self:
        """Wait until it serves."""
        self.until(lambda: self.greeting is not None, "a greeting")
        assert self.greeting == {"ready": True}, self.greeting
        return self

    def tell(self, verb: str, **words: Any) -> int:
        """Tell it something; answer the number under which it will answer."""
        assert self._line is not None
        self._asked += 1
        self._line.sendall(json.dumps({"do": verb, "id": self._asked, **words}).encode() + b"\n")
        return self._asked

    def ask(self, verb: str, **words: Any) -> dict[str, Any]:
        """Tell it something and wait for the answer."""
        number = self.tell(verb, **words)
        self.until(lambda: number in self.answers, f"an answer to {verb}")
        return self.answers.pop(number)

    def publish(self, workflow: str, mail: str) -> dict[str, Any]:
        """Publish a mail; answer the acknowledgement, or the error."""
        return self.ask("publish", workflow=workflow, mail=mail)

    def status_of(self, workflow: str, mail: str) -> str:
        """Answer what became of a mail."""
        events = self.ask("look")["events"][workflow][INBOX]
        return str(events[mail][0])

    # -- Ending ---------------------------------------------------------------------------------

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.id, number)

    def close(self) -> None:
        """Let it come to an orderly end."""
        self.tell("close")
        self._end()
        assert self.status == 0, (self.status, self.logs)

    def kill(self) -> None:
        """End it as nothing else does: at once, between any two instructions."""
        if self.status is None:
            self.signal(signal.SIGKILL)
            self._end()

    def _end(self) -> None:
        self.status = self._nursery.ask("wait", process=self.id)
        while self._line is not None and not self.is_over:
            self.listen(LIMIT_S)
        for each in (self._line, self._listener):
            if each is not None:
                each.close()


class Fire:
    """One store, one outside, and the hosts that come and go between them."""

    def __init__(self, nursery: Nursery, outside: Outside, folder: Path, *flows: Flow) -> None:
        self._nursery = nursery
        self.outside = outside
        self.store = folder / STORE
        self.flows = flows

    def start(self, **orders: Any) -> Hosted:
        """Start a host; it may not even have opened its store when this returns."""
        made = Orders(str(self.store.parent), self.outside.port, 0, self.flows, **orders)
        return Hosted(self._nursery, asdict(made))

    def finish(self, host: Hosted, mails: dict[str, set[str]]) -> dict[str, Any]:
        """Let a host bring everything to its end, with a person beside it; answer what it says."""
        seen: dict[str, Any] = {}

        def is_done() -> bool:
            self.check_once()
            host.ask("attend")
            seen.update(host.ask("look"))
            inboxes = {name: seen["events"][name].get(INBOX, {}) for name in mails}
            return not seen["open"] and all(
                inboxes[name].get(mail, [""])[0] == "consumed"
                for name, each in mails.items()
                for mail in each
            )

        end = time.monotonic() + LIMIT_S
        while not is_done():
            assert time.monotonic() < end, f"never came: the end of all work ({host.logs[-3:]})"
            time.sleep(PAUSE_S)
        return seen

    def check(self, seen: dict[str, Any], mails: dict[str, set[str]]) -> None:
        """Check what a host says at the end against what the outside has counted."""
        self.check_once()
        lines = self.outside.lines
        assert (seen["open"], seen["strays"]) == ({}, 0)
        assert not [each for each in seen["runs"] if each[0].startswith("failed")]
        for name, expected in mails.items():
            written = Counter(line.row for line in lines if line.workflow == name)
            assert written == Counter(expected), name
            events = seen["events"][name]
            assert {mail: each[0] for mail, each in events.get(INBOX, {}).items()} == dict.fromkeys(
                expected, "consumed"
            )
            said = {f"row:{mail}": ["pending", {"status": "applied"}] for mail in expected}
            assert events.get(WRITTEN, {}) == said
            ledger = [each for each in seen["mutations"] if each["workflow"] == name]
            assert {each["status"] for each in ledger} <= {"applied", "failed"}
            applied = {
                (each["key"], each["args"]["row"], (each["result"] or {}).get("line"))
                for each in ledger
                if each["status"] == "applied"
            }
            counted = {
                (line.key, line.row, place)
                for place, line in enumerate(lines, 1)
                if line.workflow == name
            }
            assert applied == counted, name

    def check_once(self) -> None:
        """Check that the outside has done nothing twice, so far."""
        times = Counter((line.workflow, line.row) for line in self.outside.lines)
        twice = [row for row, number in times.items() if number > 1]
        assert not twice, f"done more than once: {twice}"

    def check_file(self) -> None:
        """Check the database itself, which nobody has open any more."""
        connection = apsw.Connection(str(self.store))
        assert connection.pragma("integrity_check") == "ok"
        connection.close()
