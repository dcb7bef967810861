"""The people of a scenario: they publish, pause, answer, agree, grant and take back.

Law 1  A refusal is an answer like any other; only what breaks is a problem.
Law 2  What a person was told, and what was said, is written down where no host can see it; the
       oracles judge by that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from duly.desk.approval import SEVERAL_MAX
from duly.desk.base import Desk
from duly.desk.commands import Commands
from duly.desk.deploy import Back, Draft, activate
from duly.desk.grant import RightsGiven
from duly.desk.views import Views
from duly.engine.base import Parts
from duly.engine.scheduler import Engine
from duly.errors import DulyError, StoreLost
from duly.rules.event import EventStatus
from duly.rules.schedule import DAY_MS, moment
from duly.rules.value import Json
from duly.rules.word import MutationStatus, Status, Waits
from duly.store.base import Durability
from duly.testing.crash import AFTER, CrashPoints
from duly.testing.env import VirtualEnv
from verification.point import ANSWER, AnswerLost
from verification.workflow.oracle import Oracle
from verification.workflow.outside import Outside
from verification.workflow.scenario import ANSWERS, GENEROUS, Action, Do, Scenario
from verification.workflow.seen import MutationSeen, Seen, see
from verification.workflow.shape import INPUT, NAME, Shape, Tool, make

WAITING: Final = (EventStatus.PENDING, EventStatus.RESERVED)
HOUR_MS: Final = 3_600_000
ALLOWED_MS: Final = 300 * DAY_MS
YEAR_MS: Final = 365 * DAY_MS
JUMPED_MAX_MS: Final = 20 * YEAR_MS
MARGIN_MS: Final = 20 * HOUR_MS  # L7: after a reboot the wall clock is off by less than a day
JUMPS_MS: Final = tuple(
    sign * size
    for size in (90_000, 600_000, HOUR_MS, 7 * HOUR_MS, DAY_MS, 3 * DAY_MS, YEAR_MS, 9 * YEAR_MS)
    for sign in (1, -1)
)
UNSEEN: Final = "0" * 64  # a hash no person was shown
HELPS: Final = {
    Waits.APPROVAL: Do.APPROVE,
    Waits.CONNECTION: Do.RECONNECT,
    Waits.GRANT: Do.GRANT,
}


class Host(Commands, Views):
    """A host's desk, without the rest of a host."""

    def __init__(self, parts: Parts, engine: Engine, points: CrashPoints) -> None:
        self.desk = Desk(parts, engine)
        self.points = points

    def _desk(self) -> Desk:
        return self.desk

    async def see(self) -> Seen:
        """Return everything the store says."""
        return await self.desk.parts.store.backend.transact(see, Durability.READ)


@dataclass(slots=True)
class Person:
    """The same person through all lives of the host."""

    scenario: Scenario
    env: VirtualEnv
    outside: Outside
    oracle: Oracle
    tell: Callable[[str], None]
    on_wrong: Callable[[], None]
    published: int = 0
    deployed: int = 0
    jumped_ms: int = 0  # how far the wall clock was set
    to_mend_ms: int = 0  # and how far a time server sets it back in the end
    # One after the other: of a grant and a revoke at once it is unknown which came last, and a
    # name that is just free would become another workflow.
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def do(self, host: Host, action: Action) -> None:
        """Do one action, and tell how it ended."""
        recorded = self.oracle.count_actions()
        try:
            await self._carry_out(host, action)
            self.oracle.promise.take(recorded, self.oracle.count_actions())
            self.tell(f"a person did: {action.do}")
            host.points.reach(AFTER, f"{ANSWER} {action.do}")
        except DulyError as error:
            self.tell(f"a person was refused: {action.do} ({error})")
        except Exception as error:
            self.oracle.problems.append(f"{action.do} broke: {error!r}")
            self.on_wrong()

    async def help(self, host: Host, seen: Seen) -> None:
        """Do what a person would when everything has calmed down."""
        if seen.is_paused:
            await self.do(host, Action(0, Do.RESUME))
        if seen.grants.get(self.scenario.tool.value, 0) is not None:
            await self.do(host, Action(0, Do.GRANT))
        run = seen.open_run
        if run is None:
            return
        row = seen.held(run.id)
        if row is not None and row.status == MutationStatus.INDETERMINATE:
            await self.do(host, Action(0, Do.ANSWER))
        elif run.waits is not None:
            await self.do(host, Action(0, HELPS[Waits(run.waits)]))
        elif run.escalated is not None and run.status != Status.PAUSED_RECONCILIATION:
            await self.do(host, Action(0, Do.RETRY))

    async def _carry_out(self, host: Host, action: Action) -> None:
        which = self._which(action)
        match action.do:
            case Do.PUBLISH:
                await self._publish(host, self.published)
            case Do.REPUBLISH:
                await self._publish(host, which)
            case Do.REPLACE:
                await self._publish(host, which, content="other")
            case Do.PAUSE:
                await host.pause(NAME)
            case Do.RESUME:
                await host.resume(NAME)
            case Do.SKIP:
                with self.oracle.consent.withdrawal():
                    await host.skip(NAME, INPUT, f"m{which}")
            case Do.RUN_NOW:
                await host.run_now(NAME)
            case Do.RECONNECT:
                await host.reconnect("sheet")
            case Do.CLOCK_FORWARD | Do.CLOCK_BACK:
                self._set_clock(DAY_MS if action.do is Do.CLOCK_FORWARD else -DAY_MS)
            case Do.SET_CLOCK:
                self._set_clock(JUMPS_MS[action.which % len(JUMPS_MS)], is_lasting=False)
            case Do.RETRY | Do.ABANDON:
                await self._end_run(host, action.do)
            case Do.GRANT | Do.LIMIT | Do.REVOKE:
                async with self._alone:
                    await self._allow(host, action.do)
            case Do.DEPLOY | Do.ROLL_BACK | Do.REMOVE:
                async with self._alone:
                    await self._change_version(host, action.do, is_granting=which % 2 == 0)
            case _ if action.do in ANSWERS:
                await self._agree(host, action.do)
            case _ if action.do in GENEROUS:
                await self._agree_further(host, action.do, action.which)
            case _:
                await self._settle(host, action.do)

    def _set_clock(self, jump_ms: int, *, is_lasting: bool = True) -> None:
        """Set the wall clock forward or back, by minutes or by years; it starts in 2026."""
        most_ms = MARGIN_MS if self.scenario.is_clock_believed else JUMPED_MAX_MS
        if abs(self.jumped_ms + jump_ms) > most_ms:
            return
        self.jumped_ms += jump_ms
        self.oracle.consent.is_clock_set = True
        if not is_lasting:
            self.to_mend_ms += jump_ms
        self.env.jump(jump_ms)
        self.tell(f"the clock is set by {jump_ms / HOUR_MS:+.2f} h")

    def set_clock_right(self) -> None:
        """Set the wall clock to what it should be, as a time server does in the end."""
        if self.to_mend_ms:
            self.env.jump(-self.to_mend_ms)
            self.tell("the clock is set right")
            self.to_mend_ms = 0

    def _which(self, action: Action) -> int:
        """Choose an event: any, or for an action at a door one that is not done yet."""
        if action.at and self.oracle.before is not None:
            open_events = [
                int(event.message_id[1:])
                for event in self.oracle.before.events.values()
                if event.topic == INPUT and event.status in WAITING and event.message_id[0] == "m"
            ]
            if open_events:
                return open_events[action.which % len(open_events)]
        return action.which % max(1, self.published)

    async def _publish(self, host: Host, number: int, *, content: str = "first") -> None:
        name = f"m{number}"
        self.published = max(self.published, number + 1)
        payload: Json = {"content": content}
        with self.oracle.promise.publishing(name, payload):
            await host.publish(NAME, INPUT, message_id=name, title=f"Mail {name}", payload=payload)
        self.oracle.acknowledged.add(name)
        self.tell(f"published {name}")

    async def _end_run(self, host: Host, do: Do) -> None:
        run = (await host.see()).open_run
        if run is not None:
            with self.oracle.consent.withdrawal():
                await (host.retry(run.id) if do is Do.RETRY else host.abandon(run.id))

    # -- Versions and grants --------------------------------------------------------------------

    async def _change_version(self, host: Host, do: Do, *, is_granting: bool) -> None:
        if (await host.see()).is_removed:
            return
        if do is Do.REMOVE:
            await host.remove(NAME)
        elif do is Do.ROLL_BACK:
            await roll_back(host, self.scenario.shape, self.scenario.tool)
        else:
            self.oracle.consent.is_taken_back &= not is_granting
            self.deployed += 1
            await deploy(
                host,
                self.scenario.shape,
                self.scenario.tool,
                grant=is_granting,
                is_backwards=self.deployed % 2 == 1,
            )

    async def _allow(self, host: Host, do: Do) -> None:
        capability = self.scenario.tool.value
        if do is Do.REVOKE:
            await host.revoke(NAME, capability)
            self.oracle.consent.is_taken_back = True
            return
        self.oracle.consent.is_taken_back = False
        limit = 1 if do is Do.LIMIT else None
        await host.grant(NAME, capability, mutations_per_day=limit)

    # -- Answers --------------------------------------------------------------------------------

    async def _agree(self, host: Host, do: Do) -> None:
        """Say yes or no to the call that waits for it, or to one that waits no more."""
        rows = (await host.see()).mutations.values()
        if do is Do.APPROVE_LATE:
            for over in [row for row in rows if row.status != MutationStatus.PROPOSED]:
                await self._approve_late(host, over)
            return
        row = next((row for row in rows if row.status == MutationStatus.PROPOSED), None)
        if row is None:
            return
        if do is Do.APPROVE:
            await self._approve(host, row)
        elif do is Do.APPROVE_TWICE:
            await _both(self._approve(host, row), self._approve(host, row))
        elif do is Do.APPROVE_UNSEEN:
            await host.approve(row.id, UNSEEN)
        else:
            await host.reject(row.id)
            self.oracle.consent.rejected.add(row.id)

    async def _approve(
        self, host: Host, row: MutationSeen, say: Awaitable[None] | None = None
    ) -> None:
        consent = self.oracle.consent
        consent.approve(row)
        try:
            await (say or host.approve(row.id, row.hash))
        except (StoreLost, AnswerLost):
            raise  # it may have been written: the yes was said
        except DulyError:
            consent.refuse(row)
            raise
        consent.agreed.add(row.id)

    async def _agree_further(self, host: Host, do: Do, which: int) -> None:
        """Allow the next calls, change the words of one, agree to all at once, or take it back."""
        seen = await host.see()
        if do is Do.APPROVE_ALL:
            await self._approve_all(host, tuple(seen.mutations.values()))
            return
        if do is Do.REVOKE_ALLOWANCE:
            for each in seen.allowances.values():
                await host.revoke_allowance(each.id)
            return
        waiting = (row for row in seen.mutations.values() if row.status == MutationStatus.PROPOSED)
        row = next(waiting, None)
        if row is None:
            return
        if do is Do.AMEND:
            with self.oracle.consent.amendment():
                await host.amend(row.id, row.hash, {"note": f"words of a person, {which}"})
            return
        calls = 1 + which % 3
        until = moment(self.env.now_ms() + ALLOWED_MS).isoformat()
        self.oracle.consent.allowed[row.id].append(calls)
        say = host.allow(row.id, row.hash, calls, until, where={"ids": "*"})
        await self._approve(host, row, say)

    async def _approve_all(self, host: Host, rows: tuple[MutationSeen, ...]) -> None:
        """Say yes to every call there is, at once: only those that wait are taken."""
        consent = self.oracle.consent
        waiting = {row.id: row for row in rows if row.status == MutationStatus.PROPOSED}
        for row in waiting.values():
            consent.approve(row)
        if not rows:
            return
        for answer in await host.approve_all({row.id: row.hash for row in rows[-SEVERAL_MAX:]}):
            if answer.refused is None:
                consent.agreed.add(answer.mutation)
                if answer.mutation not in waiting:
                    self.oracle.problems.append(f"{answer.mutation} was over and was approved")
                    self.on_wrong()
            elif answer.mutation in waiting:
                consent.refuse(waiting[answer.mutation])

    async def _approve_late(self, host: Host, row: MutationSeen) -> None:
        """Say yes to a call that is out or over: no row ever waits for a first yes twice."""
        try:
            await host.approve(row.id, row.hash)
        except DulyError as error:
            self.tell(f"a person was refused: approve {row.id} ({error})")
        else:
            self.oracle.problems.append(f"mutation {row.id} was {row.status} and was approved")
            self.on_wrong()

    async def _settle(self, host: Host, do: Do) -> None:
        """Return the question about an indeterminate mutation: truly, falsely, or not really."""
        seen = await host.see()
        for row in seen.mutations.values():
            if row.status != MutationStatus.INDETERMINATE:
                continue
            if do in (Do.SKIP_MUTATION, Do.TRY_AGAIN):
                words = {Do.SKIP_MUTATION: "skip", Do.TRY_AGAIN: "try_again"}
                await host.settle(row.id, words[do])
                self.outside.unsure.pop(row.key, None)  # it may be asked as often again (L10)
                return
            has_happened = self.outside.has_happened(row.key)
            if do is Do.LIE:
                has_happened = not has_happened
                reserved = seen.reservations.get(row.held_by, frozenset())
                self.oracle.excused.update(seen.events[seq].message_id for seq in reserved)
            if has_happened:
                await host.settle(row.id, "happened", self.outside.rows.get(row.key))
            else:
                await host.settle(row.id, "did_not_happen")


async def _both(*actions: Awaitable[None]) -> None:
    """Do two things at once; one that is refused is no reason to stop, two are an answer."""
    refusals = [
        each for each in await asyncio.gather(*actions, return_exceptions=True) if each is not None
    ]
    if len(refusals) == len(actions):
        raise refusals[0]


async def deploy(
    host: Host, shape: Shape, tool: Tool, *, grant: bool, is_backwards: bool = False
) -> None:
    """Deploy the script of a shape, with or without leave to use its tool."""
    draft = await _draft(host, shape, tool, is_backwards=is_backwards)
    await activate(host.desk, draft, by="user", given=RightsGiven(grant))


async def roll_back(host: Host, shape: Shape, tool: Tool) -> None:
    """Make the first version the newest one, if there is another by now (W8)."""
    workflow = await host.desk.find(NAME)
    versions = await host.desk.parts.store.list_versions(workflow.id)
    back = Back(versions[-1].version, workflow.active_version)
    if back.to != back.over:
        draft = await _draft(host, shape, tool)
        await activate(host.desk, draft, by="user", given=RightsGiven(), back=back)


async def _draft(host: Host, shape: Shape, tool: Tool, *, is_backwards: bool = False) -> Draft:
    parts = host.desk.parts
    source = make(shape, tool, is_backwards=is_backwards).source(NAME)
    loaded = await parts.sandbox.load(source, parts.outside.catalog)
    capabilities = frozenset({parts.outside.catalog.find(tool.value).capability})
    return Draft(source, loaded.declaration, (), {"file.mutate": (tool.value,)}, capabilities)
