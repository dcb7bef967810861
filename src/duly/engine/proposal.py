"""Corrections that come over the bus: an agent heard of a failed script, and wrote another (B10).

Law 1  It can only propose. What it wrote is kept beside what is active, never put to use by itself,
       and a person is told as of any repair that was not adopted (F3, F8).
Law 2  Only a script of the workflow that failed is a proposal. The caller treats any other text as
       an ordinary answer.
Law 3  What an agent is shown is what a repairer is shown: bounded, and without secrets (A5).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict
from typing import Final, cast

from duly.engine.announcements import announce
from duly.engine.base import Parts
from duly.engine.case import build_case, error_of, unrepaired
from duly.engine.draft import Draft, examine, version_of
from duly.errors import NotDeployed, NotFound
from duly.fact import Reason
from duly.rules import repair as rules
from duly.rules.announcement import RunChange, Subject, Topic
from duly.rules.redaction import redact_text
from duly.rules.source import Language, Source
from duly.rules.value import Json, encode
from duly.rules.word import Status
from duly.store.people import PAGE_ROWS_MAX
from duly.store.record import Action, JournalEvent, Origin, RunRow, VersionRow

BY_AN_AGENT: Final = Reason("written_by_agent")
DETAIL_BYTES_MAX: Final = 64 * 1024

log = logging.getLogger("duly.engine")


class Proposals:
    """What an agent is shown of a failed script, and what becomes of its answer.

    `follow` puts an announcement on the chain of the event the agent was asked about (B12).
    """

    def __init__(self, parts: Parts, follow: Callable[[JournalEvent], JournalEvent]) -> None:
        self._parts = parts
        self._follow = follow

    async def lay_out(self, run_id: str) -> dict[str, Json] | None:
        """Show the case of a failed script; none if it does not wait for a correction any more."""
        row = await self._find(run_id)
        if row is None or not _waits(row):
            return None
        case = await build_case(self._parts, row)
        shown = asdict(case)
        for of_a_repairer in ("attempt", "budget"):
            del shown[of_a_repairer]
        shown |= {"language": case.source.language.value, "source": case.source.text}
        return {**shown, "step": case.step.value}

    async def propose(self, run_id: str, answer: str, *, by: str) -> bool:
        """Keep an answer as a proposal, if it is a script of the workflow; tell whether it is.

        Also where a person was faster: then it is kept for them, without an announcement.
        """
        row = await self._find(run_id)
        if row is None:
            return False
        failed = await self._parts.store.get_version(row.workflow_id, row.version)
        text = rules.find_script(answer)
        draft = await self._examine(Source(Language(failed.language), text, f"proposal of {by}"))
        workflow = await self._parts.store.get_workflow(row.workflow_id)
        is_of_it = draft is not None and draft.declaration.name == workflow.name
        if draft is None or not is_of_it or workflow.removed_at is not None:
            return False
        known = await self._parts.store.list_versions(row.workflow_id, limit=PAGE_ROWS_MAX)
        same = [each.version for each in known if each.hash == draft.source.hash]
        if same:
            log.info("%s proposed for run %s the text of version %s", by, row.id, same[0])
        else:
            await self._keep(row, workflow.name, draft, known, by)
        return True

    async def _find(self, run_id: str) -> RunRow | None:
        """Read a run, if it is still there: retention removes what is over (H5)."""
        try:
            return await self._parts.store.get_run(run_id)
        except NotFound:
            return None

    async def _examine(self, source: Source) -> Draft | None:
        try:
            return await examine(self._parts, source, strict=False)
        except NotDeployed:
            return None

    async def _keep(
        self, row: RunRow, workflow: str, draft: Draft, known: tuple[VersionRow, ...], by: str
    ) -> None:
        """Write it down beside what is active, and tell a person, in one transaction."""
        parts, now = self._parts, self._parts.env.now_ms()
        number = rules.next_repair(row.version, (each.version for each in known))
        version = version_of(draft, number, by=by, origin=Origin.REPAIR, parent=row.version)
        detail = {"repairs": row.version, "run": row.id, "why": BY_AN_AGENT.code}
        text = encode(cast("Json", detail), "detail", limit_bytes=DETAIL_BYTES_MAX)
        message = rules.cut(error_of(row).message)
        said = unrepaired(row, workflow, message, BY_AN_AGENT, number)
        await parts.store.keep_version(
            row.workflow_id,
            version,
            action=Action(parts.env.new_id("action"), by, "propose", text),
            now=now,
            announce=(await self._announcement(row, workflow, said),) if _waits(row) else (),
        )

    async def _announcement(self, row: RunRow, workflow: str, said: Reason) -> JournalEvent:
        secrets = self._parts.outside.secrets()
        inputs = await self._parts.store.list_inputs(row.id)
        titles = tuple(redact_text(each.title, secrets) for each in inputs)
        change = RunChange(row.state, row.state, said)
        subject = Subject(workflow, row.id, row.handler, titles)
        return self._follow(announce(self._parts, Topic.NEEDS_ATTENTION, change, subject))


def _waits(row: RunRow) -> bool:
    """Tell whether a run waits for a correction of its script (F3)."""
    return bool(row.open) and row.status == Status.FAILED_LOGIC
