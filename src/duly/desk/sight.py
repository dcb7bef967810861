"""How rows are shown to a person: without secrets, the script's words apart from ours (A5, L11).

Law 1: whatever text comes from a script or from outside goes through `text` before it is shown.
Law 2: what a script claims is never put where an observation stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Self

from duly.config import Policy
from duly.desk.base import USER
from duly.desk.record import Ending, LogLine, Preview, RunError
from duly.engine.base import Parts
from duly.errors import Invalid
from duly.rules import kept
from duly.rules.catalog import Tool
from duly.rules.redaction import Redactor, redact, redact_text
from duly.rules.schedule import moment
from duly.rules.standing import Facts
from duly.rules.value import Json, decode
from duly.rules.word import Status, Way
from duly.rules.wording import describe_moment
from duly.store.record import MutationRow, RunRow, WorkflowRow

YOU: Final = "you"


@dataclass(frozen=True, slots=True)
class Sight:
    """What showing anything takes: the host's parts, the time, and what nobody may see."""

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
        return Ending(row.known.how, moment(row.known_at), row.known.by, said)

    def observed(self, row: MutationRow) -> Preview:
        """Show the call the host saw."""
        return Preview(row.tool, self.value(read_args(row.args)))

    def moment(self, at_ms: int) -> str:
        """Say when something was, on the clock of the policy."""
        return describe_moment(at_ms, self.now_ms, self.policy.timezone)

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
        paused_by: str = YOU,
    ) -> Facts:
        """Put together what decides how a workflow stands (U1)."""
        wish = Facts(
            paused=bool(workflow.paused),
            paused_by=paused_by,
            blind_since_ms=workflow.blind_since,
        )
        if run is None:
            return wish
        is_asked = run.status == Status.PAUSED_RECONCILIATION and held is not None
        title = held.title if held is not None else kept.read_title(run.prepared)
        return replace(
            wish,
            run=run.state,
            escalated=None if run.escalated is None else self.text(run.escalated),
            waits_for=run.waits_on,
            title=None if title is None else self.text(title),
            due_at_ms=held.due_at if is_asked and held is not None else run.due_at,
            tool=None if held is None else held.tool,
            is_unsent=held is not None and held.is_unsent,
            is_told=is_asked and held is not None and bool(held.outage_told),
            # A time that is still to come was written by a clock that was set back since.
            unreachable_since=None
            if run.outage_since is None
            else self.moment(min(run.outage_since, self.now_ms)),
        )

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


def name_person(by: str) -> str:
    """Name who did something; who gave no name is the one who reads."""
    return YOU if by == USER else by


def read_args(text: Json) -> Json:
    """Read the arguments of a call that was not let through; a cut text stays a text."""
    try:
        return decode(text) if isinstance(text, str) else text
    except Invalid:
        return text


def read_error(text: str) -> RunError:
    """Show a stored error."""
    found = kept.read_error(text)
    told = (found.failure, found.message, found.line, found.tool, found.args, found.code)
    return RunError(*told)


def read_log(text: str) -> tuple[LogLine, ...]:
    """Show a stored log; how much was left out is said in a last line (X4)."""
    found = kept.read_log(text)
    lines = [LogLine(moment(each.at_ms), each.source, each.text) for each in found.lines]
    if found.dropped:
        left_out = f"{found.dropped} more lines were left out."
        lines.append(LogLine(lines[-1].at, kept.DULY, left_out))
    return tuple(lines)
