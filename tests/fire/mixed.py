"""`duly serve` again and again, with a connector of threads, harmed in every way a machine knows.

Law 1: the next host is started the moment the one before was told to stop or killed: it is refused
       while the other holds the store, and tries again. What the other still sends is its affair.
Law 2: only three things are judged: made twice, lost, stuck. No time is, but for a limit that no
       machine needs.
Law 3: a mail is sent until it is acknowledged; once acknowledged it is never sent again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.engine.crash_window.script import INBOX, source
from tests.fire.outside import LANDING_S
from tests.fire.process import Flow
from tests.fire.stand import LIMIT_S, PAUSE_S, Nursery, Outside, until
from tests.fire.threads import BLOCKS_S, LAG_S, TIMEOUT_S

FLOWS: Final = (
    Flow("threaded", "threaded"),
    Flow("handed", "handed", "python"),
    Flow("tasked", "tasked"),
    Flow("keyed", "keyed", "python"),
    Flow("silent", "silent"),
)
PROJECT: Final = """
[connectors.book]
use = "tests.fire.threads:Threads"
port = {port}

[policy.limits]
reconcile_s = 1

[policy.retries]
first_s = 0.05
longest_s = 0.2

[policy.reconcile]
first_s = 0.05
longest_s = 0.4
attempts = 20
"""
STOP_S: Final = TIMEOUT_S + LAG_S + 0.3  # longer than a call may take and than it may land late
HARMS: Final = ("nothing", "fork", "fork", "stop")
ENDS: Final = {"term": 5, "kill": 3, "term, kill": 1, "term, stop, kill": 1}
MAILS_MAX: Final = 3
CALL_S: Final = 1.0
MOMENT_S: Final = 0.2
GLANCE_S: Final = 0.005
LOG_CHARS: Final = 6000
REFUSED: Final = "another host holds this store"


@dataclass(slots=True)
class Report:
    """What a mix did, and what was left to see of it."""

    rounds: int = 0
    mails: int = 0
    effects: int = 0
    sent_again: int = 0
    found_absent: int = 0
    refused_starts: int = 0
    harms: dict[str, int] = field(default_factory=dict)
    moods: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


class Gone(Exception):
    """The host does not answer any more."""


class Served:
    """One `duly serve`, spoken to over its socket."""

    def __init__(self, nursery: Nursery, folder: Path) -> None:
        self._nursery = nursery
        self._socket = folder / "duly.db.socket"
        self.id: int = nursery.ask("serve", folder=str(folder))
        self.status: int | None = None

    def signal(self, number: int) -> None:
        if self.status is None:
            os.kill(self.id, number)

    def is_over(self) -> bool:
        """Tell whether its process is gone, without waiting."""
        try:
            state = Path(f"/proc/{self.id}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        return state == "Z"

    def ask(self, verb: str, **args: Any) -> Any:
        """Have it carry out a verb; an error of Duly's is answered as a string."""
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(LIMIT_S)
                line.connect(str(self._socket))
                with line.makefile("rw") as lines:
                    greeting = json.loads(lines.readline() or "{}")
                    if greeting.get("pid") != self.id:
                        raise Gone
                    lines.write(json.dumps({"id": 1, "verb": verb, "args": args}) + "\n")
                    lines.flush()
                    answer = json.loads(lines.readline() or "{}")
        except (OSError, ValueError) as error:
            raise Gone from error
        if "error" in answer:
            return f"{answer['error']['kind']}: {answer['error']['message']}"
        if "answer" not in answer:
            raise Gone
        return answer["answer"]

    def wait(self) -> int:
        """Wait for its end."""
        if self.status is None:
            until(self.is_over, f"the end of process {self.id}")
            self.status = self._nursery.ask("wait", process=self.id)
        assert self.status is not None
        return self.status


class Mix:
    """Rounds over one store."""

    def __init__(self, nursery: Nursery, outside: Outside, folder: Path, seed: int) -> None:
        self._nursery = nursery
        self._outside = outside
        self._folder = folder
        self._dice = random.Random(seed)
        self._seed = seed
        self._living: list[Served] = []
        self._waiting: dict[str, str] = {}  # mails that were not acknowledged yet, and their flow
        self._harms: Counter[str] = Counter()
        self.mails: dict[str, set[str]] = {flow.name: set() for flow in FLOWS}
        self.report = Report()
        (folder / "duly.toml").write_text(PROJECT.format(port=outside.port))

    def blow(self, rounds: int, progress: Callable[[int], None] = lambda _: None) -> Report:
        """Harm so many hosts, let a last one live, and check everything."""
        begun = time.monotonic()
        try:
            host = self._start()
            for flow in FLOWS:
                made = asdict(source(flow.language, name=flow.name, tool=flow.tool))
                made.pop("hash", None)
                answer = host.ask("deploy", source=made, grant=True)
                assert isinstance(answer, dict), answer
            self._outside.behave(seed=self._seed)
            for number in range(1, rounds + 1):
                self._harm(host)
                self._check_once()
                host = self._start()
                self.report.rounds += 1
                progress(number)
            self._calm(host)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._last_words()}") from error
        finally:
            for each in self._living:
                each.signal(signal.SIGKILL)
                each.wait()
        self.report.seconds = time.monotonic() - begun
        return self.report

    def _last_words(self) -> str:
        """Let hosts that still live say where they are, and answer the end of their log."""
        for each in self._living:
            each.signal(signal.SIGCONT)
            each.signal(signal.SIGUSR2)
        time.sleep(MOMENT_S)
        return (self._folder / "serve.log").read_text(errors="replace")[-LOG_CHARS:]

    # -- One round ------------------------------------------------------------------------------

    def _start(self) -> Served:
        """Start hosts until one is let in."""
        end = time.monotonic() + LIMIT_S
        while True:
            assert time.monotonic() < end, "never came: a host that is let in"
            self._reap()
            host = Served(self._nursery, self._folder)
            self._living.append(host)
            while not host.is_over():
                try:
                    if isinstance(host.ask("workflows"), list):
                        return host
                except Gone:
                    time.sleep(GLANCE_S)
                assert time.monotonic() < end, "never came: an answer of a host that started"
            self.report.refused_starts += 1
            assert REFUSED in (self._folder / "serve.log").read_text(errors="replace")
            time.sleep(PAUSE_S)

    def _reap(self) -> None:
        for each in [each for each in self._living if each.is_over()]:
            each.wait()
            self._living.remove(each)

    def _harm(self, host: Served) -> None:
        try:
            self._attend(host)
            self._post(host)
        except Gone:
            assert host.is_over(), "a host hung up and lives"
            return
        self._await_call()
        time.sleep(self._dice.uniform(0, MOMENT_S))
        for _ in range(self._dice.randint(0, 2)):
            self._do(host, self._dice.choice(HARMS))
            time.sleep(self._dice.uniform(0, MOMENT_S))
        way = self._dice.choices(list(ENDS), list(ENDS.values()))[0]
        self._harms[way] += 1
        for step in way.split(", "):
            self._do(host, step)
            time.sleep(self._dice.uniform(0, 0.1))

    def _do(self, host: Served, harm: str) -> None:
        if harm == "stop":
            host.signal(signal.SIGSTOP)
            time.sleep(STOP_S)
            host.signal(signal.SIGCONT)
        elif harm != "nothing":
            numbers = {"term": signal.SIGTERM, "kill": signal.SIGKILL, "fork": signal.SIGUSR1}
            host.signal(numbers[harm])
        if harm in ("stop", "fork"):
            self._harms[harm] += 1

    def _post(self, host: Served) -> None:
        for _ in range(self._dice.randint(1, MAILS_MAX)):
            self.report.mails += 1
            mail = f"m{self.report.mails}"
            self._waiting[mail] = self._dice.choice(FLOWS).name
            self.mails[self._waiting[mail]].add(mail)
        self._deliver(host)

    def _deliver(self, host: Served) -> None:
        for mail, workflow in list(self._waiting.items()):
            told = {"topic": INBOX, "title": f"Mail {mail}", "message_id": mail}
            answer = host.ask("publish", workflow=workflow, **told)
            assert ":" not in answer, answer
            del self._waiting[mail]

    def _await_call(self) -> None:
        """Wait for a call more at the outside; a host that has none to make lives long enough."""
        ask, end = self._outside.ask, time.monotonic() + CALL_S
        calls = ask("count")["calls"]
        while ask("count")["calls"] == calls and time.monotonic() < end:
            time.sleep(GLANCE_S)

    # -- The person, and the end ----------------------------------------------------------------

    def _attend(self, host: Served) -> None:
        """Answer for what a host cannot know, by what the outside has counted."""
        for each in host.ask("mutations", status="indeterminate"):
            # Whatever had left has landed then; what a thread still holds back is refused (L6).
            time.sleep(LANDING_S)
            line = self._outside.ask("find", key=each["key"])["line"]
            happened: dict[str, Any] = {"answer": "did_not_happen"}
            if line is not None:
                happened = {"answer": "happened", "result": {"line": line}}
            host.ask("settle", mutation=each["id"], **happened)
        for status in ("crashed", "paused:transient"):
            for run in host.ask("runs", status=status):
                host.ask("retry", run=run["id"])

    def _calm(self, host: Served) -> None:
        """Let the outside behave and the last host live; then nothing may be missing."""
        self._outside.behave()
        self._deliver(host)
        end = time.monotonic() + LIMIT_S
        while left := self._left(host):
            assert time.monotonic() < end, f"stuck: {left}"
            self._check_once()
            self._attend(host)
            time.sleep(PAUSE_S)
        time.sleep(BLOCKS_S[-1][1] + LAG_S)  # also what a thread holds back is out by then
        rows = self._ledger(host)
        host.signal(signal.SIGTERM)
        host.wait()
        self._check_once()
        lines = self._outside.lines
        for name, mails in self.mails.items():
            written = {line.row for line in lines if line.workflow == name}
            assert written == mails, f"lost: {sorted(mails - written)} of {name}"
        self.report.effects = len(lines)
        self.report.sent_again = sum(each["attempt"] > 1 for each in rows)
        self.report.found_absent = sum(each["status"] == "failed" for each in rows)
        self.report.harms = dict(self._harms)
        self.report.moods = self._outside.ask("tally")["drawn"]

    def _left(self, host: Served) -> list[str]:
        return [
            f"{name} {event['message_id']} {event['status']}"
            for name in self.mails
            for status in ("pending", "reserved")
            for event in host.ask("events", workflow=name, topic=INBOX, status=status)
        ]

    def _ledger(self, host: Served) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        before: dict[str, str] = {}
        while page := host.ask("mutations", limit=100, **before):
            rows += page
            before = {"before": page[-1]["id"]}
        return rows

    def _check_once(self) -> None:
        times = Counter((line.workflow, line.row) for line in self._outside.lines)
        twice = [row for row, number in times.items() if number > 1]
        assert not twice, f"made twice: {twice}"
