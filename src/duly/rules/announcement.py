"""What a change of a run tells the bus (B10, F8).

Law 1  Which announcements a change makes is read off the state before and the state after it, by
       one table; they are written in the transaction of the change, so each is made exactly when
       the change is.
Law 2  A person is told once per run and reason: a reason is announced when it is stored (F8).
       A notice informs and asks for nothing; that it was given is stored with it (F2, R7).
Law 3  A payload always fits on the bus: titles are counted and arguments are cut. Secrets are
       taken out before anything comes here (A5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from duly.errors import Invalid
from duly.fact import Reason
from duly.rules.lifecycle import Run
from duly.rules.reason import plain
from duly.rules.shown import cut
from duly.rules.standing import offered
from duly.rules.value import DEPTH_MAX, Json, encode
from duly.rules.word import MutationStatus, Status, Waits

TITLES_MAX: Final = 20
PREVIEW_CHARS: Final = 1000
PREVIEW_BYTES: Final = 4000  # a call that is longer is shown by its beginning
PREVIEW_BYTES_MAX: Final = 16 * 1024 * 1024  # more than any recorded call has
WRAPPED_DEPTH: Final = 2  # how deep the arguments stand in a payload


class Topic(StrEnum):
    """The topics the engine announces its life in (B10)."""

    DEPLOYED = "workflow.deployed"
    REPAIRED = "workflow.repaired"
    NEEDS_ATTENTION = "workflow.needs_attention"
    NOTICE = "workflow.notice"
    APPROVAL_REQUESTED = "approval.requested"
    INDETERMINATE = "mutation.indeterminate"
    SETTLED = "mutation.settled"
    RUN_FAILED = "run.failed"
    RUN_COMMITTED = "run.committed"


UNSETTLED: Final = frozenset({MutationStatus.NEEDS_RECONCILE, MutationStatus.INDETERMINATE})
SETTLED: Final = frozenset({MutationStatus.APPLIED, MutationStatus.FAILED, MutationStatus.SKIPPED})
FAILED: Final = frozenset({Status.FAILED_LOGIC, Status.FAILED_INTERNAL})


@dataclass(frozen=True, slots=True)
class RunChange:
    """A run before and after, and what a person is told now, if anything.

    `tells` is why a person is needed; `notice` asks for nothing: the host goes on by itself.
    """

    old: Run
    new: Run
    tells: Reason | None = None
    notice: Reason | None = None

    def reason(self, topic: Topic) -> Reason | None:
        """Return what a person is told under a topic."""
        return {Topic.NEEDS_ATTENTION: self.tells, Topic.NOTICE: self.notice}.get(topic)


# In the order in which they are announced.
ANNOUNCED: Final[tuple[tuple[Topic, Callable[[RunChange], bool]], ...]] = (
    (
        Topic.RUN_COMMITTED,
        lambda change: change.new.status is Status.COMMITTED,
    ),
    (
        Topic.SETTLED,
        lambda change: change.old.row in UNSETTLED and change.new.row in SETTLED,
    ),
    (
        Topic.INDETERMINATE,
        lambda change: (
            change.new.row is MutationStatus.INDETERMINATE
            and change.old.row is not MutationStatus.INDETERMINATE
        ),
    ),
    (
        Topic.RUN_FAILED,
        lambda change: change.new.status in FAILED and change.old.status not in FAILED,
    ),
    (
        Topic.APPROVAL_REQUESTED,
        lambda change: change.new.waits is Waits.APPROVAL and change.old.waits is None,
    ),
    (
        Topic.NEEDS_ATTENTION,
        lambda change: change.tells is not None,
    ),
    (
        Topic.NOTICE,
        lambda change: change.notice is not None,
    ),
)


def topics(change: RunChange) -> tuple[Topic, ...]:
    """List what a change announces, in order (B10)."""
    return tuple(topic for topic, is_announced in ANNOUNCED if is_announced(change))


@dataclass(frozen=True, slots=True)
class Subject:
    """What an announcement is about; claimed and observed are kept apart (L11)."""

    workflow: str
    run: str
    handler: str
    titles: tuple[str, ...] = ()
    claimed: str | None = None
    mutation: str | None = None
    tool: str | None = None
    args: Json = None


def describe(
    topic: Topic, change: RunChange, subject: Subject, *, message: str = "", text: str = ""
) -> dict[str, Json]:
    """Write the payload of one announcement; `text` is the sentence for a person (F8).

    The code and the facts that the sentence is made of stand beside it.
    """
    payload: dict[str, Json] = {
        "workflow": subject.workflow,
        "run": subject.run,
        "handler": subject.handler,
        "status": change.new.status.value,
        "titles": list(subject.titles[:TITLES_MAX]),
        "more_titles": max(0, len(subject.titles) - TITLES_MAX),
    }
    if topic is Topic.RUN_COMMITTED:
        payload["outcome"] = None if change.new.outcome is None else change.new.outcome.value
        return payload
    if subject.mutation is not None:
        payload["mutation"] = subject.mutation
        payload["mutation_status"] = None if change.new.row is None else change.new.row.value
        payload["claimed"] = subject.claimed
        payload["observed"] = {"tool": subject.tool, "args": preview(subject.args)}
    reason = change.reason(topic)
    if reason is not None:
        payload["text"] = f"{subject.workflow}: {text}"
        payload["code"] = str(reason.code)
        payload["facts"] = plain(reason.facts)
    elif message:
        payload["message"] = message
    if topic is Topic.NEEDS_ATTENTION:
        payload["verbs"] = [act.value for act in offered(change.new, is_paused=False)]
    return payload


def preview(args: Json) -> Json:
    """Show arguments as they are if they are short and flat, else the beginning of their text."""
    text = encode(args, "args", limit_bytes=PREVIEW_BYTES_MAX, depth=DEPTH_MAX + 1)
    try:
        encode(args, "args", limit_bytes=PREVIEW_BYTES, depth=DEPTH_MAX - WRAPPED_DEPTH)
    except Invalid:
        return cut(text, PREVIEW_CHARS)
    return args
