"""The history of a run and of its change: what happened, when, and who did it (A6, L12, U7).

Law 1  A history is read in one transaction, oldest moment first. It goes back through the runs
       that this one follows.
Law 2  What it shows of calls and errors has no secret in it (A5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from duly.desk.base import HasDesk
from duly.desk.identity import find_id
from duly.desk.sight import Sight, is_unsent, known_only, show_error
from duly.fact import Reason
from duly.rules.failure import FOR_OWNER
from duly.rules.history import Milestone
from duly.rules.identity import ExplainedId, IdKind, kind_of
from duly.rules.kept import read_calls
from duly.rules.schedule import moment
from duly.rules.verb import question
from duly.rules.word import Status
from duly.store import people, trace
from duly.store.base import Transaction
from duly.store.people import ActionRow
from duly.store.record import MutationRow, RunRow

RUNS_SHOWN: Final = 20  # of a chain of attempts
ACTS_SHOWN: Final = 100
ORDER: Final = tuple(Milestone)
RETRY: Final = "retry"


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened to a run or to its change."""

    at: datetime
    run: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool by a run's script: how it ended, and how long it took.

    `args` is a cut text.
    """

    tool: str
    args: str
    outcome: str
    duration_ms: int


@dataclass(frozen=True, slots=True)
class History:
    """All that happened to a run, to those it follows, and to the change it answers for."""

    run: str
    mutation: str | None
    moments: tuple[Moment, ...]
    calls: tuple[ToolCall, ...]


class Histories(HasDesk):
    """The question of a person who wants to see what happened in which order."""

    @question(example={"id": "run_019a8b7c0d1e2f30"})
    async def history(self, id: ExplainedId) -> History:  # noqa: A002  # as `why` calls it
        """List what happened to a run or a change, oldest first, and the calls its script made."""
        # Rules: A6, L12.
        sight = Sight.of(self._desk().parts)

        def look(tx: Transaction) -> History:
            whole = find_id(tx, id, IdKind.RUN, IdKind.MUTATION)
            run_id = whole
            if kind_of(whole) is IdKind.MUTATION:
                run_id = people.get_mutation(tx, whole).held_by
            return _history(tx, sight, people.get_run(tx, run_id))

        return await self._desk().ask(look)


def _history(tx: Transaction, sight: Sight, run: RunRow) -> History:
    chain = [run]
    while (before := chain[-1].retry_of) is not None and len(chain) < RUNS_SHOWN:
        chain.append(people.get_run(tx, before))
    held = trace.list_held(tx, (run.id,)).get(run.id)
    names = [each.id for each in chain] + ([] if held is None else [held.id])
    acts = people.list_target_actions(tx, run.workflow_id, names, limit=ACTS_SHOWN)
    moments = [
        *(each for row in chain for each in _of_run(row, sight)),
        *(() if held is None else _of_change(held, sight)),
        *(_of_person(row, run.id, sight) for row in acts if row.verb != RETRY),
    ]
    # A retry ends one run and begins the next in one moment: it comes after all of the former.
    turns = [_of_person(row, row.target or run.id, sight) for row in acts if row.verb == RETRY]
    ages = {each.id: age for age, each in enumerate(reversed(chain))}

    def place(each: Moment) -> tuple[datetime, int, int]:
        code = Milestone(each.reason.code)
        last = len(ORDER) if each in turns else ORDER.index(code)
        return each.at, ages.get(each.run, len(ages)), last

    return History(
        run=run.id,
        mutation=None if held is None else held.id,
        moments=tuple(sorted([*moments, *turns], key=place)),
        calls=_calls(run),
    )


def _of_run(run: RunRow, sight: Sight) -> Iterator[Moment]:
    begins = Milestone.RUN_BEGAN if run.retry_of is None else Milestone.RUN_TAKEN_UP
    facts = {"handler": run.handler, "version": run.version}
    yield Moment(moment(run.created_at), run.id, Reason(begins, run.id, facts))
    error = None
    if run.error is not None and run.status != Status.COMMITTED:
        error = sight.text(show_error(run.error).message)
    is_for_owner = bool(error and run.error and show_error(run.error).code in FOR_OWNER)
    changed = known_only({"status": run.status, "error": error, "for_owner": is_for_owner})
    yield Moment(moment(run.updated_at), run.id, Reason(Milestone.RUN_CHANGED, run.id, changed))


def _of_change(row: MutationRow, sight: Sight) -> Iterator[Moment]:
    proposed = Reason(Milestone.CALL_PROPOSED, row.id, {"tool": row.tool})
    yield Moment(moment(row.created_at), row.run_id, proposed)
    if row.first_sent_at is not None:
        sent = Reason(Milestone.CALL_SENT, row.id, known_only({"unsent": is_unsent(row)}))
        yield Moment(moment(row.first_sent_at), row.held_by, sent)
    if row.sent_at is not None and row.attempt > 1:
        again = Reason(Milestone.CALL_SENT_LAST, row.id, {"sends": row.attempt})
        yield Moment(moment(row.sent_at), row.held_by, again)
    known = sight.ending(row)
    if known is not None:
        facts = known_only(
            {
                "status": row.status,
                "known": known.how,
                "unsent": known.is_unsent,
                "known_by": known.by,
                "known_said": known.said,
            }
        )
        yield Moment(known.at, row.held_by, Reason(Milestone.CALL_KNOWN, row.id, facts))


def _of_person(row: ActionRow, run_id: str, sight: Sight) -> Moment:
    facts = known_only({"by": sight.text(row.by), "act": row.verb})
    return Moment(moment(row.at), run_id, Reason(Milestone.PERSON_ACTED, row.id, facts))


def _calls(run: RunRow) -> tuple[ToolCall, ...]:
    """Show the calls of a run; they were kept without secrets."""
    found = read_calls(run.calls)
    return tuple(ToolCall(each.tool, each.args, each.outcome, each.duration_ms) for each in found)
