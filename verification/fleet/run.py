"""Runs one scenario of a fleet: hosts on one store, one outside, and the oracles over them.

Law 1  The engine, the lease, the claims, the rules and the store's verbs are the ones that ship.
Law 2  The trace is everything that happened, in order; the same scenario has the same trace.
Law 3  When the scenario is over every host is well again, and everything must come to rest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Final

from duly.config import Policy
from duly.connectors.base import Call
from duly.store.sqlite import open_sqlite
from duly.testing.dice import Dice
from duly.testing.loop import VirtualLoop
from verification.disk import MemoryDisk
from verification.fleet.member import PATIENCE_S, FleetEnv, Member
from verification.fleet.oracle import FleetConsent, FleetOracle
from verification.fleet.process import FleetLoop, outside
from verification.fleet.scenario import LENGTH_MS, TRANSACTIONS, FleetScenario, Mishap, What
from verification.fleet.server import Commit, Server
from verification.life import Ending, SimulatedEnv, schema, stage
from verification.workflow.oracle import Oracle
from verification.workflow.outside import Outside
from verification.workflow.person import Person
from verification.workflow.run import is_at_rest, template
from verification.workflow.scenario import Action, Do
from verification.workflow.seen import Seen

HINDERING: Final = (*TRANSACTIONS, What.STOP, What.CUT, What.STORE_CLOCK)  # to renew
ACT_S: Final = 12.0  # how long a person waits for a host
CALM_S: Final = (30.0, 30.0, 60.0, 60.0, *(120.0,) * 6, *(600.0,) * 4, *(3600.0,) * 2)


def run(scenario: FleetScenario) -> Ending:
    """Run a scenario of a fleet from its beginning to its end."""
    template(scenario.shape, scenario.tool)
    with stage(FleetLoop) as (runner, loop):
        return runner.run(_FleetRun(scenario, loop).run())


class _FleetRun:
    def __init__(self, scenario: FleetScenario, loop: VirtualLoop) -> None:
        self._scenario = scenario
        self._loop = loop
        self._dice = Dice(scenario.dice)
        self._trace: list[str] = []
        self._problems: list[str] = []
        self._points: Counter[str] = Counter()
        self._mishaps = [each for each in scenario.mishaps if each.at]
        self._deaths = 0
        self._is_wrong = asyncio.Event()
        self._is_calm = False
        self._beside: set[asyncio.Task[None]] = set()
        self._outside = Outside(
            list(scenario.outcomes),
            list(scenario.sayings),
            self._tell,
            self._now_s,
            loop.sleep,
            self._see_leave,
        )
        plain = scenario.plain
        consent = FleetConsent(scenario.tool.value, plain.is_asked)
        consent.is_clock_set = True
        self._oracle = Oracle(
            self._outside.effects, consent, problems=self._problems, unsure=self._outside.unsure
        )
        self._members: list[Member] = []
        self._fleet = FleetOracle(self._members, self._problems)
        self._doors = [action for action in scenario.actions if action.at]
        self._person = Person(
            plain,
            SimulatedEnv(loop, 0),
            self._outside,
            self._oracle,
            self._tell,
            self._is_wrong.set,
        )
        self._server: Server

    async def run(self) -> Ending:
        scenario = self._scenario
        files = template(scenario.shape, scenario.tool)
        env = SimulatedEnv(self._loop, 0)
        backend = await open_sqlite(MemoryDisk(files), env, schema=schema())
        dice = Dice(scenario.dice + 2) if scenario.dice else None
        self._server = Server(self._loop, backend, self, dice)
        self.see_work(await self._server.see())
        self._start_members()
        tasks = [
            self._spawn(self._server.serve(), "server"),
            self._spawn(self._watch(), "watch"),
            *(self._spawn(self._live(each), "member") for each in self._members),
            *(self._spawn(self._meet(each), "mishap") for each in scenario.mishaps if not each.at),
        ]
        wrong = self._spawn(self._until_wrong(), "wrong")
        story = self._spawn(self._run_scenario(), "scenario")
        await asyncio.wait((story, wrong, tasks[0]), return_when=asyncio.FIRST_COMPLETED)
        for task in (story, tasks[0]):
            if task.done() and (error := task.exception()) is not None:
                self._say(f"the simulation broke: {error!r}")
        for member in self._members:
            await member.bury()
        return Ending(
            tuple(self._problems),
            tuple(self._trace),
            self._points,
            self._deaths,
            0,
            self._person.published,
        )

    def _start_members(self) -> None:
        scenario = self._scenario
        policy = Policy(approvals={"*": scenario.approval.value})
        for number in range(scenario.hosts):
            env = FleetEnv(self._loop, scenario.dice, number)
            if number < len(scenario.ahead_s):
                env.jump(scenario.ahead_s[number] * 1000)
            member = Member(
                number,
                env,
                self._server,
                self._outside,
                policy,
                self._come_by,
                self._see_check,
                self._tell,
            )
            member.start()
            self._members.append(member)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task outside of every process."""
        task = self._loop.create_task(work, name=name, context=outside())
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
        return task

    def _now_s(self) -> float:
        return self._loop.time()

    def _tell(self, text: str) -> None:
        self._trace.append(f"{self._now_s():.3f} s: {text}")

    def _say(self, problem: str) -> None:
        if problem not in self._problems:
            self._problems.append(problem)
        self._is_wrong.set()

    async def _until_wrong(self) -> None:
        await self._is_wrong.wait()

    # -- What the oracles are shown -------------------------------------------------------------

    def see_commit(self, commit: Commit) -> None:
        """Look at the leases and claims."""
        if commit.verb in ("join", "claim", "evict", "leave"):
            self._tell(f"{commit.verb} of {commit.host_id or 'a new host'}: {commit.after}")
        self._oracle.lives = commit.after.epoch + len(self._scenario.mishaps) + 1
        self._fleet.see_commit(commit)
        self._check()

    def see_work(self, seen: Seen) -> None:
        """Look at everything else."""
        self._oracle.look(seen)
        self._check()

    def _see_leave(self, call: Call) -> None:
        self._oracle.see_leave(call)
        self._check()

    def _see_check(self, member: Member, ago_s: float) -> None:
        # A host that was stopped since it looked is judged by what it does after that.
        if ago_s == 0:
            now_s = self._now_s()
            self._fleet.see_check(member, self._server.now, self._server.clock_ms, now_s)
            self._check()

    def _check(self) -> None:
        if self._problems:
            self._is_wrong.set()

    async def _watch(self) -> None:
        while True:
            await self._loop.sleep(1)
            self._fleet.look(self._server.now, self._server.clock_ms, self._now_s())
            self._check()

    # -- Hosts and their mishaps ----------------------------------------------------------------

    async def _live(self, member: Member) -> None:
        """Let one process after the other live in this place."""
        while True:
            error = await member.ended()
            if member.is_closing:
                return
            if error is not None:
                self._say(f"host {member.number} broke: {error!r}")
            self._deaths += 1
            await member.bury()
            await self._loop.sleep(self._down_s(member))
            member.start()
            self._tell(f"host {member.number} starts again")

    def _down_s(self, member: Member) -> float:
        mishap, member.next_mishap = member.next_mishap, None
        return 0.1 if mishap is None or self._is_calm else max(0.1, mishap.lasts_s)

    def _come_by(self, member: Member, name: str) -> None:
        """Let a host meet what waits for it at this place."""
        self._points[name] += 1
        for mishap in [each for each in self._mishaps if each.at == name]:
            if mishap.times == self._points[name]:
                self._mishaps.remove(mishap)
                self._befall(member, mishap)
        for action in [each for each in self._doors if each.at == name]:
            if action.times == self._points[name]:
                self._doors.remove(action)
                self._tell(f"an action comes in {name}")
                self._spawn(self._act(action), "guest")

    async def _meet(self, mishap: Mishap) -> None:
        await self._loop.sleep(mishap.at_ms / 1000)
        member = self._members[mishap.times % len(self._members)]
        if member.is_up and not member.process.is_stopped and not self._is_calm:
            self._befall(member, mishap)
            if member.is_doomed:
                member.die()

    def _befall(self, member: Member, mishap: Mishap) -> None:
        where = f" {mishap.at}" if mishap.at else ""
        self._tell(f"host {member.number} {mishap.what}{where} ({mishap.lasts_s:g} s)")
        now_s = self._now_s()
        member.calm_since_s = max(member.calm_since_s, now_s + max(0.0, mishap.lasts_s))
        if mishap.what in HINDERING:
            ends_s = now_s + mishap.lasts_s + PATIENCE_S
            member.hindered_until_s = max(member.hindered_until_s, ends_s)
        if mishap.what in TRANSACTIONS:
            member.next_mishap = mishap
        elif mishap.what is What.KILL:
            member.next_mishap = mishap
            member.is_doomed = True
        elif mishap.what is What.STOP:
            member.process.stop()
            self._later(mishap.lasts_s, member.process.go_on)
        elif mishap.what is What.CUT:
            member.cut_until_s = now_s + mishap.lasts_s
        elif mishap.what is What.CLOCK:
            member.env.jump(round(mishap.lasts_s * 1000))
        elif mishap.what is What.STORE_CLOCK:
            self._server.ahead_ms += round(mishap.lasts_s * 1000)
            self._fleet.stepped_s = now_s
        else:
            self._spawn(self._close(member, mishap.lasts_s), "closing")

    def _later(self, seconds: float, callback: Any) -> None:
        self._loop.call_later(seconds, callback, context=outside())

    async def _close(self, member: Member, down_s: float) -> None:
        """Close a host in order; after a while another one starts in its place."""
        if not member.is_up:
            return
        await member.close()
        await self._loop.sleep(max(0.1, down_s))
        member.start()
        self._tell(f"host {member.number} starts again")
        self._spawn(self._live(member), "member")

    # -- People ---------------------------------------------------------------------------------

    async def _act(self, action: Action) -> None:
        """Do something through one of the hosts that can be reached."""
        member = await self._choose()
        acting = member.process.spawn(self._person.do(member.host, action), "act")
        await asyncio.wait([acting], timeout=ACT_S)

    async def _choose(self) -> Member:
        while not (up := [each for each in self._members if each.is_well]):
            await self._loop.sleep(0.5)
        return self._dice.choose(up)

    async def _run_scenario(self) -> None:
        while self._person.published < self._scenario.mails:
            await self._act(Action(0, Do.PUBLISH))
        for action in [each for each in self._scenario.actions if not each.at]:
            await self._loop.sleep(max(0.0, action.at_ms / 1000 - self._now_s()))
            await self._act(action)
        await self._loop.sleep(max(0.0, LENGTH_MS / 1000 - self._now_s()))
        self._doors.clear()
        self._mishaps.clear()
        self._is_calm = True
        self._tell("nothing befalls any host from now on")
        for calm_s in CALM_S:
            await self._loop.sleep(calm_s)
            seen = await self._server.see()
            if is_at_rest(seen) and not self._outside.landing:
                self._oracle.look_at_the_end(seen)
                self._check()
                await self._close_all()
                return
            for member in self._members:
                if member.is_well:
                    helping = member.process.spawn(self._person.help(member.host, seen), "help")
                    await asyncio.wait([helping], timeout=ACT_S)
        open_run = (await self._server.see()).open_run
        self._say(f"it did not come to rest: {open_run}; {self._server.now}")

    async def _close_all(self) -> None:
        """Close every host in order: none of them stays behind in the store."""
        while not all(each.is_well for each in self._members):
            await self._loop.sleep(1)
        await self._loop.sleep(30)
        for member in self._members:
            host_id = member.host_id
            await member.close()
            if host_id in self._server.now.hosts:
                self._say(f"host {host_id} has closed and did not leave")
