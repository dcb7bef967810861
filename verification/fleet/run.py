"""Runs one scenario of a fleet: hosts on one store, one outside, and the oracles over them.

Law 1  The engine, the lease, the claims, the rules and the store's verbs are the ones that ship.
Law 2  The trace is everything that happened, in order; the same scenario has the same trace.
Law 3  When the scenario is over every host is well again, and everything must come to rest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from duly.config import Policy
from duly.connectors.base import Call
from duly.rules.word import MutationStatus
from duly.testing.dice import Dice
from duly.testing.loop import VirtualLoop
from verification.fleet.database import Database, image
from verification.fleet.line import PATIENCE_S
from verification.fleet.loss import Loss, is_missed
from verification.fleet.member import FleetEnv, Member
from verification.fleet.oracle import FREE_AFTER_S, FleetConsent, FleetOracle
from verification.fleet.process import FleetLoop, outside
from verification.fleet.scenario import (
    LENGTH_MS,
    OF_SERVER,
    STEP,
    TRANSACTIONS,
    FleetScenario,
    Mishap,
    What,
)
from verification.fleet.server import Commit, Kept, Server
from verification.life import Ending, SimulatedEnv, stage
from verification.workflow.oracle import Oracle
from verification.workflow.outside import Outside
from verification.workflow.person import WAITING, Person
from verification.workflow.run import is_at_rest
from verification.workflow.scenario import Action, Do
from verification.workflow.seen import Seen
from verification.workflow.shape import TOLD

HINDERING: Final = (*TRANSACTIONS, What.STOP, What.CUT, What.STORE_CLOCK)  # to renew
ACT_S: Final = 12.0  # how long a person waits for a host
QUIET_S: Final = 20.0  # longer than a lease
LOOK_S: Final = 5.0
GONE_S: Final = 600.0
CALM_S: Final = (*(10.0,) * 6, 60.0, *(120.0,) * 6, *(600.0,) * 4, *(3600.0,) * 2)

OnPoint = Callable[[Member, str], None]


def run(scenario: FleetScenario, on_point: OnPoint = lambda member, name: None) -> Ending:
    """Run a scenario of a fleet from its beginning to its end; each host says where it comes by."""
    image(scenario.shape, scenario.tool)
    with stage(FleetLoop) as (runner, loop):
        return runner.run(_FleetRun(scenario, loop, on_point).run())


class _FleetRun:
    def __init__(self, scenario: FleetScenario, loop: VirtualLoop, on_point: OnPoint) -> None:
        self._scenario = scenario
        self._on_point = on_point
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
        self._lost: Loss | None = None
        self._sent: set[str] = set()  # keys of calls that were out when the server was lost
        self._left: set[str] = set()  # and of those whose first byte has left
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
        database = Database(image(scenario.shape, scenario.tool))
        dice = Dice(scenario.dice + 2) if scenario.dice else None
        keeps = any(each.what in OF_SERVER for each in scenario.mishaps)
        self._server = Server(self._loop, database, self, dice, keeps)
        self._server.open()
        self.see_work(self._server.see())
        self._start_members()
        self._spawn(self._watch(), "watch")
        for member in self._members:
            self._spawn(self._live(member), "member")
        for mishap in scenario.mishaps:
            if not mishap.at:
                self._spawn(self._meet(mishap), "mishap")
        wrong = self._spawn(self._until_wrong(), "wrong")
        story = self._spawn(self._run_scenario(), "scenario")
        await asyncio.wait((story, wrong), return_when=asyncio.FIRST_COMPLETED)
        if story.done() and (error := story.exception()) is not None:
            self._say(f"the simulation broke: {error!r}")
        for member in self._members:
            await member.bury()
        self._server.database.close()
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
                self._see_first_byte,
                self._tell,
                scenario.tool.value if number in scenario.without else "",
                scenario.has_long_keys,
            )
            if number == 0:
                self._plan_step(member)
            member.start()
            self._members.append(member)

    def _plan_step(self, member: Member) -> None:
        for mishap in [each for each in self._mishaps if each.at == STEP]:
            self._mishaps.remove(mishap)
            assert mishap.what is What.STOP, mishap
            member.stops_in = (mishap.times, partial(self._pause, member, mishap))

    def _pause(self, member: Member, mishap: Mishap) -> None:
        """Stop a host until its lease is over and another host has taken its place."""
        self._befall(member, mishap)
        self._fleet.see_pause(member, self._now_s())
        self._later(mishap.lasts_s, lambda: self._fleet.see_wake(self._server.now))

    def _see_first_byte(self, member: Member, ago_s: float) -> None:
        self._tell(f"host {member.number} sends")
        self._fleet.see_first_byte(member, ago_s, self._now_s())
        self._check()

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
        if commit.after.blind_since != commit.before.blind_since:
            self._oracle.forget()  # what was approved may have been sent: it is doubted, not sent
        if self._lost is not None:
            self._lost.see_commit(commit)
        self._check()

    def see_work(self, seen: Seen) -> None:
        """Look at everything else."""
        if self._lost is None:
            self._oracle.look(seen)
            self._check()

    def see_break(self, error: Exception) -> None:
        """Say that an oracle broke."""
        self._say(f"the simulation broke: {error!r}")

    def see_belief(self, verb: str, *, is_committed: bool) -> None:
        """Say that a host has found out something that is not so (H10)."""
        word = "committed" if is_committed else "not committed"
        self._say(f"a host believes that {verb} is {word}")

    def see_loss(self, lost: Sequence[Kept]) -> None:
        """Look at what the server has lost; riders no host counts on may be gone (R7)."""
        self._tell(f"the server lacks {[each.commit.verb for each in lost]}")
        self._fleet.stepped_s = self._fleet.forgot_s = self._now_s()
        self._fleet.see_riders_lost(lost, self._server.now, self._now_s())
        before = self._oracle.before  # nothing, if a host hears of it when it is lost
        rows = () if before is None else before.mutations.values()
        self._sent |= {row.key for row in rows if row.status == MutationStatus.IN_FLIGHT}
        if self._lost is None and any(is_missed(each) for each in lost):
            self._lost = Loss.of(lost, self._say, self._sent, self._left)
            self._doors.clear()
            self._mishaps.clear()
        self._oracle.forget()
        self.see_work(self._server.see())

    def _see_leave(self, call: Call) -> None:
        self._left.add(call.key)
        if self._lost is not None:
            self._lost.see_leave(call, self._server.now)
            return
        self._oracle.see_leave(call)
        self._check()

    def _see_check(self, member: Member, ago_s: float) -> None:
        # A host that was stopped since it looked is judged by what it does after that.
        if ago_s == 0 and self._lost is None:
            now_s = self._now_s()
            self._fleet.see_check(member, self._server.now, self._server.clock_ms, now_s)
            self._check()

    def _check(self) -> None:
        if self._problems:
            self._is_wrong.set()

    async def _watch(self) -> None:
        while True:
            await self._loop.sleep(self._until_next_look_s(1))
            if self._lost is not None:
                continue
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
            await self._stay_away(member, self._down_s(member))
            member.start()
            self._tell(f"host {member.number} starts again")

    async def _stay_away(self, member: Member, left_s: float) -> None:
        """Leave a host gone, for minutes at most once another host is up."""
        while left_s > 0:
            await self._loop.sleep(min(left_s, GONE_S))
            left_s -= GONE_S
            if left_s > 0 and not self._are_gone():
                member.calm_since_s = self._now_s()
                return

    def _down_s(self, member: Member) -> float:
        mishap, member.next_mishap = member.next_mishap, None
        return 0.1 if mishap is None or self._is_calm else max(0.1, mishap.lasts_s)

    def _come_by(self, member: Member, name: str) -> None:
        """Let a host meet what waits for it at this place."""
        self._on_point(member, name)
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
            self._later(mishap.lasts_s, partial(self._go_on, member))
        elif mishap.what is What.CUT:
            member.cut_until_s = now_s + mishap.lasts_s
            self._later(mishap.lasts_s, partial(self._fleet.see_well, member))
        elif mishap.what is What.REFUSE:
            member.refused_until_s = now_s + mishap.lasts_s
        elif mishap.what is What.CLOCK:
            member.env.jump(round(mishap.lasts_s * 1000))
        elif mishap.what in OF_SERVER:
            self._server.fall(
                round(mishap.lasts_s),
                is_promotion=mishap.what is What.PROMOTE,
                is_rollback=mishap.what is What.ROLL_BACK,
            )
        elif mishap.what is What.STORE_CLOCK:
            self._server.ahead_ms += round(mishap.lasts_s * 1000)
            self._fleet.stepped_s = now_s
        else:
            if mishap.what is What.SETTLE:
                member.lacks = "" if member.lacks_now else self._scenario.tool.value
            self._spawn(self._close(member, mishap.lasts_s), "closing")

    def _go_on(self, member: Member) -> None:
        member.process.go_on()
        self._fleet.see_well(member)

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
        if self._lost is not None:
            return  # a person who resumes a blind workflow has looked outside first
        member = await self._choose()
        acting = member.process.spawn(self._person.do(member.host, action), "act")
        await asyncio.wait([acting], timeout=ACT_S)

    async def _choose(self) -> Member:
        while not (up := [each for each in self._members if each.is_well]):
            await self._loop.sleep(self._until_next_look_s(0.5))
        return self._dice.choose(up)

    async def _run_scenario(self) -> None:
        while self._person.published < self._scenario.mails and self._lost is None:
            await self._act(Action(0, Do.PUBLISH))
        for action in [each for each in self._scenario.actions if not each.at]:
            while (left_s := action.at_ms / 1000 - self._now_s()) > 0 and self._lost is None:
                await self._loop.sleep(min(LOOK_S, max(left_s, 0.001)))
            await self._act(action)
        is_over = self._lost is not None
        ends_s = LENGTH_MS / 1000
        while self._now_s() < ends_s and not is_over:
            if self._are_gone():
                ends_s = self._now_s() + GONE_S + LENGTH_MS / 1000
            await self._loop.sleep(self._until_next_look_s(LOOK_S))
            is_over = self._lost is not None or self._is_over()
        self._doors.clear()
        self._mishaps.clear()
        self._is_calm = True
        self._tell("nothing befalls any host from now on")
        await self._equip()
        is_at_rest = is_over or await self._come_to_rest()
        if self._lost is not None:
            await self._loop.sleep(FREE_AFTER_S)
            if not self._lost.was_blind:
                await self._loop.sleep(FREE_AFTER_S)
            self._lost.look_at_the_end(self._server.now)
            return
        if not is_at_rest:
            open_run = self._server.see().open_run
            self._say(f"it did not come to rest: {open_run}; {self._server.now}")
            return
        self._oracle.look_at_the_end(self._server.see())
        self._check()
        await self._close_all()

    async def _equip(self) -> None:
        """Give one host the tool, if none has it: then all that waits for it is taken up."""
        first = self._members[0]
        if all(each.lacks or each.lacks_now for each in self._members):
            first.lacks = ""
            await self._close(first, 0.0)
            self._tell("host 0 has the tool from now on")

    def _until_next_look_s(self, usual_s: float) -> float:
        """Look seldom while every host is gone, for days: nothing happens in the store."""
        return max(usual_s, GONE_S) if self._are_gone() else usual_s

    def _are_gone(self) -> bool:
        """Tell whether every host is gone in a scenario that lasts for days."""
        return self._scenario.lasts_days and not any(each.is_up for each in self._members)

    async def _come_to_rest(self) -> bool:
        """Help until nothing is open; tell whether that was enough.

        Each event that ends gives the next one all the patience there is: a person who is asked
        about every change answers for one of them at a time. A server may be lost as late as this:
        its end waits for the next transaction.
        """
        ended, patience = self._count_ended(), iter(CALM_S)
        while (calm_s := next(patience, None)) is not None:
            for _ in range(round(calm_s / LOOK_S)):
                await self._loop.sleep(LOOK_S)
                if self._lost is not None:
                    return False
                if self._is_at_rest():
                    while not all(each.is_well for each in self._members):
                        await self._loop.sleep(1)
                    await self._loop.sleep(QUIET_S)
                    if self._is_at_rest():
                        return True
            seen = self._server.see()
            for member in self._members:
                if member.is_well:
                    helping = member.process.spawn(self._person.help(member.host, seen), "help")
                    await asyncio.wait([helping], timeout=ACT_S)
            if (now_ended := self._count_ended()) > ended:
                ended, patience = now_ended, iter(CALM_S)
        return False

    def _count_ended(self) -> int:
        """Count the events that nothing waits for any more; none of them comes back."""
        events = self._server.see().events.values()
        return sum(each.topic != TOLD and each.status not in WAITING for each in events)

    def _is_at_rest(self) -> bool:
        return is_at_rest(self._server.see()) and not self._outside.landing

    def _is_over(self) -> bool:
        """Tell whether nothing more can befall a host, and nothing has for a while.

        A host that has nothing to do comes by no place but its renewals.
        """
        now_s = self._now_s()
        timed = (each.at_ms / 1000 > now_s for each in self._scenario.mishaps if not each.at)
        waiting = (each.at.endswith(" renew") for each in self._mishaps)
        if any(timed) or any(waiting):
            return False
        is_quiet = all(
            each.is_well and each.calm_since_s < now_s - QUIET_S for each in self._members
        )
        return is_quiet and self._is_at_rest()

    async def _close_all(self) -> None:
        """Close every host in order: none of them stays behind in the store."""
        for member in self._members:
            host_id = member.host_id
            await member.close()
            if host_id in self._server.now.hosts:
                self._say(f"host {host_id} has closed and did not leave")
