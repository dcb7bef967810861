"""A host killed again and again at moments nobody chose, while mails come and the outside lies.

Law: a mail is sent until it is acknowledged, as any sender would; once acknowledged it is never
sent again. The dice decide when a host dies; the machine decides what it was doing then.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.fire.process import Flow
from tests.fire.stand import Fire, Hosted

FLOWS: Final = (
    Flow("asked in javascript", "asked"),
    Flow("asked in python", "asked", "python"),
    Flow("keyed in javascript", "keyed"),
    Flow("keyed in python", "keyed", "python"),
    Flow("silent", "silent"),
)
MAILS_MAX: Final = 4
SHORT_S: Final = 0.06
LONG_S: Final = 0.8
STOP_S: Final = 1.2
UNBORN: Final = 0.15  # how many die before they are ready
STOPPED: Final = 0.15  # how many are stopped for a while before they die
ATTENDED: Final = 0.6  # how many have a person beside them
CALLED: Final = 0.6  # how many live until a call has reached the outside, if one comes at all
CALL_S: Final = 3.0
GLANCE_S: Final = 0.002


@dataclass(slots=True)
class Report:
    """What a storm did, and what was left to see of it."""

    kills: int = 0
    unborn: int = 0
    stops: int = 0
    mails: int = 0
    effects: int = 0
    republished: int = 0
    crashed_runs: int = 0
    sent_again: int = 0
    found_absent: int = 0
    moods: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


class Storm:
    """One storm over one store."""

    def __init__(self, fire: Fire, seed: int) -> None:
        self._fire = fire
        self._dice = random.Random(seed)
        self._boot_s = LONG_S
        self._waiting: dict[str, str] = {}  # mails nobody has acknowledged, and where they go
        self._told: dict[int, str] = {}
        self.mails: dict[str, set[str]] = {flow.name: set() for flow in fire.flows}
        self.report = Report()
        fire.outside.behave(seed=seed)

    def blow(self, rounds: int, progress: Callable[[int], None] = lambda _: None) -> Report:
        """Kill so many hosts, let a last one live, and check everything."""
        begun = time.monotonic()
        for number in range(1, rounds + 1):
            with self._fire.start() as host:
                self._harm(host)
            assert host.status == -signal.SIGKILL, (host.status, host.logs)
            self._take_acknowledgements(host)
            self.report.kills += 1
            progress(number)
        self._calm()
        self.report.seconds = time.monotonic() - begun
        return self.report

    def _harm(self, host: Hosted) -> None:
        begun = time.monotonic()
        if self._dice.random() < UNBORN:
            self.report.unborn += 1
            time.sleep(self._dice.uniform(0, self._boot_s))
            return
        host.ready()
        self._boot_s = time.monotonic() - begun
        if self._dice.random() < ATTENDED:
            host.tell("attend")
        self._post(host)
        if self._dice.random() < CALLED:
            self._await_call()
        time.sleep(self._dice.uniform(0, self._dice.choice((SHORT_S, LONG_S))))
        if self._dice.random() < STOPPED:
            self.report.stops += 1
            host.signal(signal.SIGSTOP)
            time.sleep(self._dice.uniform(0, STOP_S))
            if self._dice.random() < 0.5:
                host.signal(signal.SIGCONT)
                time.sleep(self._dice.uniform(0, LONG_S))

    def _await_call(self) -> None:
        """Wait for a call more at the outside; a host that has none to make lives long enough."""
        ask, end = self._fire.outside.ask, time.monotonic() + CALL_S
        calls = ask("count")["calls"]
        while ask("count")["calls"] == calls and time.monotonic() < end:
            time.sleep(GLANCE_S)

    def _post(self, host: Hosted) -> None:
        for _ in range(self._dice.randint(1, MAILS_MAX)):
            self.report.mails += 1
            mail = f"m{self.report.mails}"
            flow = self._dice.choice(self._fire.flows)
            self._waiting[mail] = flow.name
            self.mails[flow.name].add(mail)
        self._told = {
            host.tell("publish", workflow=workflow, mail=mail): mail
            for mail, workflow in self._waiting.items()
        }

    def _take_acknowledgements(self, host: Hosted) -> None:
        for number, mail in self._told.items():
            answer = host.answers.get(number)
            if answer is not None:
                assert "acknowledged" in answer, answer
                del self._waiting[mail]
                self.report.republished += answer["acknowledged"] != "new"
        self._told = {}

    def _calm(self) -> None:
        """Let the outside behave and the last host live; then nothing may be missing."""
        self._fire.outside.behave()
        with self._fire.start() as host:
            host.ready()
            for mail, workflow in sorted(self._waiting.items()):
                assert "acknowledged" in host.publish(workflow, mail)
            seen = self._fire.finish(host, self.mails)
            host.close()
        self._fire.check(seen, self.mails)
        self._fire.check_file()
        statuses = Counter(status for status, _ in seen["runs"])
        self.report.crashed_runs = statuses["crashed"]
        self.report.effects = len(self._fire.outside.lines)
        self.report.sent_again = sum(each["attempt"] > 1 for each in seen["mutations"])
        self.report.found_absent = sum(each["status"] == "failed" for each in seen["mutations"])
        self.report.moods = self._fire.outside.ask("tally")["drawn"]
