"""Repair: a script that failed is laid before a repairer, and its answer is judged (F3).

Law 1  A repairer is not trusted. Whether it returns, raises or hangs, the end is a version that was
       judged, or a reason for a person, and the host goes on.
Law 2  It is asked outside any transaction and beside the turns of the workflows; the question was
       counted before, so a host that dies again and again does not ask for ever.
Law 3  Its answer changes something only where the version that failed is still active and a failed
       run waits for it. A person who was faster wins, and what was proposed is kept for them.

The run stays `failed:logic` and due meanwhile: a host that stops, or dies, asks again at its start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

from duly.engine.announcements import Announcements
from duly.engine.base import Parts
from duly.engine.case import build_case, error_of, unrepaired
from duly.engine.claims import Claims
from duly.engine.draft import Draft, deployment_of, examine, version_of
from duly.engine.live import Live
from duly.engine.replay import replay
from duly.engine.study import fingerprint
from duly.engine.successor import Successor
from duly.errors import DulyError, Fenced, NotDeployed, NotFound, Stale, StoreError
from duly.fact import Reason
from duly.rules import repair as rules
from duly.rules.announcement import Topic
from duly.rules.declaration import parse
from duly.rules.fault import trace
from duly.rules.reason import plain
from duly.rules.repair import RepairCase, Repairer
from duly.rules.source import Language, Source
from duly.rules.value import Json, decode, encode
from duly.script.analysis import Fingerprint
from duly.script.chance import introduced
from duly.script.finding import refusing
from duly.store.base import Fence
from duly.store.people import PAGE_ROWS_MAX
from duly.store.record import Action, Origin, RunRow
from duly.words import say_difference

AT_ONCE_MAX: Final = 4  # a service that changed may break many workflows in one minute
END_S: Final = 1.0  # how long a repairer that was told to stop is waited for
DETAIL_BYTES_MAX: Final = 64 * 1024
UNNAMED: Final = "repairer"  # the name of a repairer that gives none

log = logging.getLogger("duly.engine")


@dataclass(frozen=True, slots=True)
class Declined:
    """Why nothing is adopted; the draft, if there is one, is kept as a proposal."""

    reason: Reason
    draft: Draft | None = None


class Repairs:
    """The repairs that are being asked for, beside everything else."""

    def __init__(
        self,
        parts: Parts,
        successor: Successor,
        claims: Claims,
        on_end: Callable[[str, bool], None],
    ) -> None:
        self._parts = parts
        self._claims = claims
        self._successor = successor
        self._announcements = Announcements(parts)
        self.runs: set[str] = set()  # the failed runs a repair is being asked for
        self._on_end = on_end
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(AT_ONCE_MAX)
        # Of one workflow two may end at once; each takes its number when the other has its own.
        self._ending = asyncio.Lock()

    @property
    def is_idle(self) -> bool:
        """Tell whether no repairer is being asked."""
        return not self._tasks

    def begin(self, live: Live, row: RunRow) -> None:
        """Ask for a repair of a failed run, beside the workflow's turn; the end is told."""
        self.runs.add(row.id)
        task = self._parts.env.spawn(self._work(live, row), f"repair of {row.id}")
        self._tasks.add(task)
        task.add_done_callback(partial(self._end, row.workflow_id, row.id))

    async def stop(self) -> None:
        """Stop asking; what is not decided is asked again at the next start."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _end(self, workflow_id: str, run_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.runs.discard(run_id)
        failure = None if task.cancelled() else task.exception()
        if isinstance(failure, NotFound):
            log.info("run %s cannot be repaired: %s", run_id, failure)
        elif failure is not None:
            where = trace(failure, self._parts.outside.secrets())
            log.error("run %s could not be repaired yet\n%s", run_id, where)
        self._on_end(workflow_id, task.cancelled() or failure is not None)

    async def _work(self, live: Live, row: RunRow) -> None:
        async with self._places:
            try:
                found = await self._seek(live.fence, row)
                async with self._ending:
                    # A repairer thinks for minutes, and the workflow may be claimed anew (H2).
                    fence = await self._claims.take(row.workflow_id)
                    if fence is None:
                        return  # another host has it, and asks for itself
                    live.fence = fence
                    if isinstance(found, Draft):
                        await self._adopt(live, row, found)
                    else:
                        await self._decline(live, row, found)
            except (Stale, Fenced) as error:
                log.info("run %s no longer waits for a repair: %s", row.id, error)

    # -- Asking ---------------------------------------------------------------------------------

    async def _seek(self, fence: Fence, row: RunRow) -> Draft | Declined:
        """Come by a repair that may be adopted, or by the reason why there is none."""
        parts = self._parts
        try:
            refusal = await self._refusal(row)
            if refusal is not None:
                return Declined(refusal)
            assert parts.repairer is not None, row.id
            case = await build_case(parts, row)
            now = parts.env.now_ms()
            await parts.store.ask_repair(fence, row.id, row.state, row.counts, now=now)
            answer = await self._ask(parts.repairer, case)
            return answer if isinstance(answer, Declined) else await self._judge(row, answer)
        except StoreError:
            raise
        except Exception as error:
            where = trace(error, parts.outside.secrets())
            log.error("run %s could not be repaired by a fault of ours\n%s", row.id, where)
            return _declined("fault_inside", said=repr(error))

    async def _refusal(self, row: RunRow) -> Reason | None:
        """Return why no repairer is asked: the budget, or the version is not active now (F3)."""
        policy = self._parts.policy
        workflow = await self._parts.store.get_workflow(row.workflow_id)
        if workflow.active_version != row.version:
            return Reason("version_replaced", facts={"version": workflow.active_version})
        now = self._parts.env.now_ms()
        return rules.ask_refusal(
            row.counts,
            rules.asked_today(workflow.repairs, workflow.repairs_since, now),
            chain_max=policy.repair_budget,
            day_max=policy.repair_budget_per_day,
            has_repairer=self._parts.repairer is not None,
        )

    async def _ask(self, repairer: Repairer, case: RepairCase) -> Source | Declined:
        """Let the repairer answer within its time."""
        limit_s = self._parts.policy.limits.repair_s
        asking = asyncio.ensure_future(_call(repairer, case))
        try:
            done, _ = await asyncio.wait({asking}, timeout=limit_s)
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.wait({asking}, timeout=END_S)
        if not done:
            return _declined("repairer_late", seconds=f"{limit_s:g}")
        if asking.cancelled():
            return _declined("repairer_cancelled")
        answer = asking.result()
        if answer is None:
            return _declined("nothing_offered")
        if isinstance(answer, BaseException):
            kind = type(answer).__name__
            return _declined("repairer_failed", kind=kind, said=str(answer))
        if not isinstance(answer, Source) or not isinstance(answer.text, str):
            return _declined("no_source_given", kind=type(answer).__name__)
        return Source(answer.language, answer.text, f"repair of {case.workflow} {case.version}")

    # -- Judging --------------------------------------------------------------------------------

    async def _judge(self, row: RunRow, source: Source) -> Draft | Declined:
        """Examine a source and say whether it may replace the version that failed (F3, A2)."""
        parts = self._parts
        failed = await parts.store.get_version(row.workflow_id, row.version)
        if source.hash == failed.hash:
            return _declined("same_text")
        try:
            draft = await examine(parts, source, strict=False)
        except NotDeployed as error:
            said = " ".join(str(each) for each in error.findings) or str(error)
            return _declined("repair_not_run", said=rules.cut(said))
        except StoreError:
            raise
        except DulyError as error:
            return _declined("repair_not_examined", said=str(error))
        declaration = parse(decode(failed.declaration))
        if draft.declaration.name != declaration.name:
            return _declined("of_another_workflow", workflow=draft.declaration.name)
        grants = await parts.store.list_grants(row.workflow_id)
        reason = rules.adoption_refusal(
            declaration,
            draft.declaration,
            findings=[str(each) for each in refusing(draft.findings, strict=True)],
            used=draft.capabilities,
            granted=frozenset(each.capability for each in grants),
        )
        if reason is None:
            reason = await self._came_before(row, source)
        if reason is None:
            reason = await self._surprise(Source(Language(failed.language), failed.source), draft)
        if reason is None:
            reason = await self._redone(row, draft)
        return draft if reason is None else Declined(reason, draft)

    async def _surprise(self, failed: Source, draft: Draft) -> Reason | None:
        """Return what in a repair the past cannot show: clock, dice, a step of high risk (F3)."""
        parts = self._parts
        where = (parts.env, parts.apart)
        old = await fingerprint(*where, failed, parts.outside.catalog)
        new = await fingerprint(*where, draft.source, parts.outside.catalog)
        if new is None:
            return Reason("too_tangled")
        old = old or Fingerprint()
        asked = introduced(old.chances, new.chances)
        steps = {**old.risky, **new.risky}
        risky = {
            name: step.tools
            for name, step in steps.items()
            if old.risky.get(name) != new.risky.get(name)
        }
        return rules.surprise_refusal(
            tuple(rules.Surprise(each.line, each.word) for each in asked), risky
        )

    async def _redone(self, row: RunRow, draft: Draft) -> Reason | None:
        """Try a repair on the past, within the time its author had to answer (F3)."""
        assert draft.loaded is not None, draft.source.name
        limit_s = self._parts.policy.limits.repair_s
        try:
            async with asyncio.timeout(limit_s):
                replayed = await replay(self._parts, row.workflow_id, draft.loaded)
        except TimeoutError:
            return Reason("not_replayed", facts={"seconds": f"{limit_s:g}"})
        first = next(iter(replayed.differences), None)
        return rules.replay_refusal(replayed, "" if first is None else say_difference(first))

    async def _came_before(self, row: RunRow, source: Source) -> Reason | None:
        """Return that a text was active and was given up: a repairer does not overrule that."""
        known = await self._parts.store.list_versions(row.workflow_id, limit=PAGE_ROWS_MAX)
        for each in known:
            if each.hash == source.hash and each.activated_at is not None:
                return Reason("given_up_before", facts={"version": each.version})
        return None

    # -- What follows ---------------------------------------------------------------------------

    async def _adopt(self, live: Live, row: RunRow, draft: Draft) -> None:
        """Activate a repair, which follows the failed run in the same transaction (F3, W8)."""
        parts = self._parts
        number = await self._next_number(row)
        version = version_of(draft, number, by=self._name, origin=Origin.REPAIR, parent=row.version)
        deployment = deployment_of(
            draft,
            version,
            workflow_id=row.workflow_id,
            replaces=row.version,
            timezone=parts.policy.timezone,
        )
        told = {"workflow": live.workflow, "version": number, "repairs": row.version}
        successor_id = parts.env.new_id("run")
        try:
            await parts.store.deploy(
                deployment,
                successor_id=successor_id,
                action=self._action("repair", {"repairs": row.version, "run": row.id}),
                now=parts.env.now_ms(),
                announce=(self._announcements.deployed(Topic.REPAIRED, told),),
            )
        except Stale:
            await self._decline(live, row, Declined(await self._why_late(row), draft))

    async def _why_late(self, row: RunRow) -> Reason:
        outlook = await self._parts.store.outlook(row.workflow_id)
        if outlook.open_run is not None and outlook.open_run.run_id == row.id and outlook.is_paused:
            return Reason("paused_meanwhile")
        return Reason("moved_meanwhile")

    async def _decline(self, live: Live, row: RunRow, declined: Declined) -> None:
        """Tell a person why there is no repair, and keep what was proposed, if the run waits."""
        store, now = self._parts.store, self._parts.env.now_ms()
        reason = self._clean(declined.reason)
        number, proposal, action = None, None, None
        if declined.draft is not None:
            number = await self._next_number(row)
            proposal = version_of(
                declined.draft, number, by=self._name, origin=Origin.REPAIR, parent=row.version
            )
            why: dict[str, Json] = {"why": reason.code, "facts": plain(reason.facts)}
            action = self._action("propose", {"repairs": row.version, **why})
        message = rules.cut(error_of(row).message)
        said = unrepaired(row, live.workflow, message, reason, number)
        try:
            await store.decline_repair(
                live.fence,
                row.id,
                row.state,
                said,
                proposal=proposal,
                action=action,
                now=now,
                announce=await self._announcements.changed(live, row.state, tells=said),
            )
        except Stale:
            if proposal is None or action is None:
                raise
            # A person was faster and need not be told; the proposal is kept for them.
            await store.keep_version(row.workflow_id, proposal, action=action, now=now)

    def _clean(self, reason: Reason) -> Reason:
        """Take secrets out of what a repairer or a source said, and keep a readable part (A5)."""
        clean = self._successor.clean
        facts = {
            name: clean(each) if isinstance(each, str) else each
            for name, each in reason.facts.items()
        }
        return replace(reason, facts=facts)

    async def _next_number(self, row: RunRow) -> str:
        known = await self._parts.store.list_versions(row.workflow_id, limit=PAGE_ROWS_MAX)
        return rules.next_repair(row.version, (each.version for each in known))

    @property
    def _name(self) -> str:
        """Who repairs, as the record of actions calls it (A6)."""
        name = getattr(self._parts.repairer, "name", None)
        most = self._parts.policy.limits.name_chars
        is_name = isinstance(name, str) and name.strip() and name.isprintable()
        return cast(str, name)[:most] if is_name else UNNAMED

    def _action(self, verb: str, detail: Mapping[str, Json]) -> Action:
        text = encode({**detail}, "detail", limit_bytes=DETAIL_BYTES_MAX)
        return Action(self._parts.env.new_id("action"), self._name, verb, text)


def _declined(code: str, **facts: str) -> Declined:
    return Declined(Reason(code, facts=facts))


async def _call(repairer: Repairer, case: RepairCase) -> object:
    """Ask; return what was raised as well: SystemExit would otherwise end the whole host."""
    try:
        return await repairer.repair(case)
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as error:
        return error
