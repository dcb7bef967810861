"""How rows are shown to a person: without secrets, the script's words apart from ours (A5, L11).

Law 1: a text of a script or of the outside goes through `text` before it is shown.
Law 2: what a script claims is never put where an observation stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from duly.config import Policy
from duly.desk.base import USER
from duly.desk.record import Ending, LogLine, Preview, RunError
from duly.engine.base import Parts
from duly.errors import Invalid
from duly.fact import Reason
from duly.rules import kept
from duly.rules.catalog import Tool
from duly.rules.failure import UNSENT
from duly.rules.late import LateAnswer, read_late
from duly.rules.reason import read_kept
from duly.rules.redaction import Redactor, redact, redact_text
from duly.rules.schedule import moment
from duly.rules.share import read_unserved
from duly.rules.standing import Facts
from duly.rules.value import Json, decode
from duly.rules.word import Status, Way
from duly.store.record import MutationRow, RunRow, WorkflowRow
from duly.words.warning import say_left_out


@dataclass(frozen=True, slots=True)
class Sight:
    """What showing anything takes: the host's parts, the time, and the secrets to take out."""

    parts: Parts
    now_ms: int
    secrets: Redactor

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """Look from where a host stands now."""
        return cls(parts, parts.env.now_ms(), parts.outside.secrets())

    @property
    def policy(self) -> Policy:
        """How the host behaves."""
        return self.parts.policy

    @property
    def wake_max_ms(self) -> int:
        """How far away a wakeAt can be (S6)."""
        return round(self.policy.wake_max_s * 1000)

    def text(self, text: str) -> str:
        """Show a text."""
        return redact_text(text, self.secrets)

    def texts(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Show several texts."""
        return tuple(self.text(each) for each in texts)

    def value(self, value: Json) -> Json:
        """Show a value."""
        return redact(value, self.secrets)

    def claimed(self, row: MutationRow) -> str | None:
        """Show what the script calls its call."""
        return None if row.title is None else self.text(row.title)

    def ending(self, row: MutationRow) -> Ending | None:
        """Show how the outcome of a change became known, if it did (L12)."""
        if row.known is None or row.known_at is None:
            return None
        said = None if row.known.said is None else self.text(row.known.said)
        at = moment(row.known_at)
        return Ending(row.known.how, at, row.known.by, said, is_unsent=is_unsent(row))

    def late(self, row: MutationRow) -> tuple[LateAnswer, ...]:
        """Show what sends of a change returned when they decided nothing any more (L1)."""
        return tuple(
            replace(
                each,
                message=None if each.message is None else self.text(each.message),
                said=None if each.said is None else self.text(each.said),
            )
            for each in read_late(row.late)
        )

    def observed(self, row: MutationRow) -> Preview:
        """Show the call the host saw."""
        return Preview(row.tool, self.value(read_args(row.args)))

    def find_tool(self, name: str) -> Tool | None:
        """Look up a tool; its connector may not be here any more."""
        try:
            return self.parts.outside.catalog.find(name)
        except Invalid:
            return None

    def facts(
        self,
        workflow: WorkflowRow,
        run: RunRow | None,
        held: MutationRow | None,
        paused_by: str = USER,
    ) -> Facts:
        """Put together what decides how a workflow stands (U1)."""
        wish = Facts(
            workflow=workflow.name,
            subject=workflow.name,
            paused=bool(workflow.paused),
            paused_by=paused_by,
            paused_since_ms=workflow.paused_since,
            copied_at_ms=workflow.blind_since,
            machine=workflow.missing_machine,
            unserved=read_unserved(workflow.unserved),
        )
        if run is None:
            return wish
        is_asked = run.status == Status.PAUSED_RECONCILIATION and held is not None
        title = held.title if held is not None else kept.read_title(run.prepared)
        tool = tool_of(run, held)
        facts = replace(
            wish,
            run=run.state,
            subject=run.id if held is None else held.id,
            escalated=None if run.escalated is None else self._told(run.escalated),
            needs=run.waits_on,
            service=(tool or run.waits_on or "").partition(".")[0],
            message=self._message(run, held),
            error_code="" if run.error is None else show_error(run.error).code or "",
            attempts=_attempts(run),
            title=None if title is None else self.text(title),
            due_at_ms=held.due_at if is_asked and held is not None else run.due_at,
            tool=None if held is None else held.tool,
            is_unsent=held is not None and held.is_unsent,
            may_settle=is_asked and held is not None and bool(held.outage_told),
            late=() if held is None else self.late(held),
            # A time that is still to come was written by a clock that was set back since.
            unreachable_since_ms=None
            if run.outage_since is None
            else min(run.outage_since, self.now_ms),
        )
        return replace(facts, way=self.way(run, facts)) if run.open else facts

    def _told(self, kept: str) -> Reason:
        told = read_kept(kept)
        return replace(told, facts=cast("dict[str, Any]", self.value(dict(told.facts))))

    def _message(self, run: RunRow, held: MutationRow | None) -> str:
        """What went wrong, in its own words."""
        is_asked = run.status == Status.PAUSED_RECONCILIATION
        asked = held.error if is_asked and held is not None else None
        error = asked or run.error
        return "" if error is None else self.text(show_error(error).message)

    def way(self, run: RunRow, facts: Facts) -> Way:
        """Say who moves an open run on."""
        if facts.is_unblocked:
            return Way.HOST
        return self.parts.way(
            run.state,
            run.counts,
            is_escalated=run.escalated is not None,
            was_empty=run.due_at is not None,  # only such a crashed run waits for a time (R7)
        )


def tool_of(run: RunRow, held: MutationRow | None) -> str | None:
    """Return the tool of a run's call, also of one that was not let through (A1)."""
    if held is not None:
        return held.tool
    return None if run.error is None else show_error(run.error).tool


def is_unsent(row: MutationRow) -> bool:
    """Tell whether a call was begun once, and its connector said that nothing was sent."""
    return row.attempt == 1 and row.error is not None and show_error(row.error).code in UNSENT


def known_only(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the facts that are not known."""
    return {name: each for name, each in facts.items() if each not in (None, "", (), 0, False)}


def _attempts(run: RunRow) -> int:
    """How often in a row it went wrong in this way; nothing where that is not counted."""
    if run.status == Status.CRASHED:
        return run.counts.crash
    return run.counts.transient if run.status == Status.PAUSED_TRANSIENT else 0


def read_args(text: Json) -> Json:
    """Read the arguments of a call that was not let through; a cut text stays a text."""
    try:
        return decode(text) if isinstance(text, str) else text
    except Invalid:
        return text


def show_error(text: str) -> RunError:
    """Show a stored error."""
    found = kept.read_error(text)
    told = (found.failure, found.message, found.line, found.tool, found.args, found.code)
    return RunError(*told)


def show_log(text: str) -> tuple[LogLine, ...]:
    """Show a stored log; how much was left out is said in a last line (X4)."""
    found = kept.read_log(text)
    lines = [LogLine(moment(each.at_ms), each.source, each.text) for each in found.lines]
    if found.dropped:
        left_out = say_left_out(found.dropped)
        lines.append(LogLine(lines[-1].at, kept.DULY, left_out))
    return tuple(lines)
