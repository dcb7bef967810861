"""Why things stand as they do (U7).

Law 1  Every answer is read from the store, never remembered (U7).
Law 2  Of something open it says who moves it on; of something that is over, who ended it (A6).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from duly.desk import journal, offer
from duly.desk.account import Book
from duly.desk.base import USER, HasDesk, find
from duly.desk.grant import find_chosen, find_grant, find_lacks, find_words
from duly.desk.identity import find_id
from duly.desk.offer import Place
from duly.desk.record import FailedScript, Preview, Why
from duly.desk.sight import Sight, is_unsent, known_only, read_args, show_error, show_log
from duly.errors import Invalid, NotFound
from duly.fact import Offer, Reason
from duly.rules import account, standing
from duly.rules.account import Ended
from duly.rules.failure import FOR_OWNER
from duly.rules.identity import ExplainedId, IdKind
from duly.rules.permission import Lack
from duly.rules.repair import STEP_AT
from duly.rules.schedule import Producer, earliest, is_consumer_due, is_producer_due, moment
from duly.rules.share import read_unserved
from duly.rules.standing import Facts, Mover, TriedYes
from duly.rules.turn import HandlerOutlook
from duly.rules.verb import question
from duly.rules.word import Act, Kind, Known, MutationStatus, Phase, Status, Waits
from duly.store import people, trace
from duly.store.base import Transaction
from duly.store.people import ActionRow
from duly.store.record import MutationRow, RunRow, WorkflowRow
from duly.store.survey import Survey
from duly.store.trace import TraceRow

LOG_LINES_SHOWN: Final = 5  # of a failed script; `logs` has them all
TRIED_RUNS_MAX: Final = 5  # through which a yes that came to nothing is looked for
IS_BUS_EVENT: Final = re.compile(r"bus:[0-9]{1,18}").fullmatch


class Explanations(HasDesk):
    """The questions of a person who wonders why."""

    @question(example={"id": "invoices"})
    async def why(self, id: ExplainedId) -> Why:  # noqa: A002  # design §5 calls it so
        """Say why a run, a mutation, a workflow or an event of the bus (`bus:7`) stands so."""
        # Rules: U7.
        if not isinstance(id, str):
            raise Invalid(code="wrong_value", path="id", facts={"wanted": "explained"})
        desk = self._desk()
        sight = Sight.of(desk.parts)

        def look(tx: Transaction) -> Why:
            if IS_BUS_EVENT(id) and people.find_workflow(tx, id) is None:
                return journal.why(tx, sight, desk.presence, int(id.removeprefix("bus:")))
            # A workflow that is called so comes before an id that begins so.
            is_name = people.find_workflow(tx, id) is not None
            return _why(tx, sight, id if is_name else find_id(tx, id, IdKind.RUN, IdKind.MUTATION))

        return await desk.ask(look)


def _why(tx: Transaction, sight: Sight, name: str) -> Why:
    try:
        run = people.get_run(tx, name)
    except NotFound:
        return _why_mutation(tx, sight, name)
    return _why_run(tx, sight, people.get_workflow(tx, run.workflow_id), run)


def _why_mutation(tx: Transaction, sight: Sight, name: str) -> Why:
    try:
        row = people.get_mutation(tx, name)
    except NotFound:
        return _why_workflow(tx, sight, name)
    workflow = people.get_workflow(tx, row.workflow_id)
    run = people.get_run(tx, row.held_by)
    if run.open:
        return _why_run(tx, sight, workflow, run)
    return Explainer(Survey(tx, (workflow,), (run,), row), sight, workflow, run).ended_change()


def _why_workflow(tx: Transaction, sight: Sight, name: str) -> Why:
    workflow = people.find_workflow(tx, name) or people.find_former_workflow(tx, name)
    if workflow is None:
        workflow = find(tx, name)  # which says what was probably meant
    if workflow.removed_at is not None:
        removed = people.find_last_action(tx, workflow.id, "remove")
        facts = {"at": moment(workflow.removed_at), "by": None if removed is None else removed.by}
        reason = Reason(Ended.REMOVED, workflow.name, known_only(facts))
        return Why(workflow.name, reason, (), None, None, Mover.NOTHING, None, ())
    survey = Survey(tx, (workflow,))
    run = survey.run(workflow.id)
    if run is not None:
        return Explainer(survey, sight, workflow, run).open()
    return _why_rest(survey, sight, workflow)


def _why_run(tx: Transaction, sight: Sight, workflow: WorkflowRow, run: RunRow) -> Why:
    told = Explainer(Survey(tx, (workflow,), (run,)), sight, workflow, run)
    if run.open:
        return told.open()
    if run.status == Status.COMMITTED:
        return told.committed()
    if run.status == Status.ABANDONED:
        return told.abandoned()
    return told.followed()


# -- One run ------------------------------------------------------------------------------------


class Explainer:
    """What there is to tell of one run and of the call it answers for."""

    def __init__(self, survey: Survey, sight: Sight, workflow: WorkflowRow, run: RunRow) -> None:
        self._survey = survey
        self._sight = sight
        self._workflow = workflow
        self._run = run
        self._held = survey.held(run.id)
        self.inputs = survey.inputs(run.id)
        self.titles = sight.texts(each.title for each in self.inputs)

    @cached_property
    def facts(self) -> Facts:
        """Everything that decides how it stands, and that its sentence may name."""
        facts = self._sight.facts(
            self._workflow, self._run, self._held, find_pauser(self._survey, self._workflow)
        )
        return replace(
            facts,
            inputs=self.titles,
            can_be_asked=self._can_be_asked,
            lack=self._lack,
            tried=self._tried,
            pending=self._book.pending(),
            is_scheduled=self._is_scheduled,
            suspect="" if self._suspect is None else self._sight.text(self._suspect.title),
            blind_cause=self._survey.blind_cause(self._workflow),
            uncompared=self._survey.uncompared(self._workflow.id) if self._run.open else None,
        )

    @cached_property
    def _book(self) -> Book:
        return Book(self._survey, self._sight, self._workflow)

    @cached_property
    def _suspect(self) -> TraceRow | None:
        """What a script that took nothing may have failed over: skipping it retries (U3)."""
        run = self._run.state
        if (run.status, run.phase) != (Status.FAILED_LOGIC, Phase.PREPARING):
            return None
        return self._survey.first_offered(self._run)

    @property
    def _is_scheduled(self) -> bool:
        """Whether the schedule of another handler waits until this run moves (F6)."""
        return any(
            each.kind == Kind.PRODUCER
            and each.next_run_at is not None
            and each.name != self._run.handler
            for each in self._survey.outlooks(self._workflow.id)
        )

    @property
    def _can_be_asked(self) -> bool:
        """Whether the outside can tell what became of its call (L5)."""
        tool = None if self._held is None else self._sight.find_tool(self._held.tool)
        return tool is not None and tool.reconciles

    @property
    def _lack(self) -> Lack | None:
        """What is not granted of what it waits for; nothing, if the outside refused it (A1)."""
        if self._run.waits != Waits.GRANT:
            return None
        catalog = self._sight.parts.outside.catalog
        lacks = self._survey.once("lacks", lambda: find_lacks(self._survey, catalog))
        return lacks[self._run.id]

    @property
    def _seen(self) -> str:
        """The word for what stands of the right that is waited for (A6)."""
        if self._run.waits != Waits.GRANT:
            return ""
        words = self._survey.once("rights", lambda: find_words(self._survey))
        return words[self._run.id]

    @property
    def _may_be_allowed(self) -> bool:
        """Whether an allowance may cover what the version in use calls next (A3)."""
        if self._held is None or self._held.status != MutationStatus.PROPOSED:
            return False
        wanted = (self._held.tool, self._workflow.active_version)
        return wanted in self._survey.allowed(self._workflow.id, now=self._sight.now_ms)

    @property
    def _tried(self) -> TriedYes | None:
        """The newest yes to the call that waits which came to nothing, of the runs before (A3)."""
        held, before = self._held, self._run.retry_of
        if held is None or self._run.waits != Waits.APPROVAL:
            return None
        for _ in range(TRIED_RUNS_MAX):
            if before is None:
                break
            row = trace.list_held(self._survey.tx, (before,)).get(before)
            if row is not None and row.approved_by and _is_failed(row) and row.tool == held.tool:
                said = "" if row.error is None else show_error(row.error).message
                by, text = self._sight.text(row.approved_by), self._sight.text(said)
                return TriedYes(row.id, row.known_at or row.updated_at, by, text)
            before = people.get_run(self._survey.tx, before).retry_of
        return None

    @property
    def observed(self) -> Preview | None:
        """The call that was seen: the recorded one, or one that was not let through (A1)."""
        if self._held is not None:
            return self._sight.observed(self._held)
        if self._run.waits is None or self._run.error is None:
            return None
        error = show_error(self._run.error)
        if error.tool is None:
            return None
        return Preview(error.tool, self._sight.value(read_args(error.args)))

    def offers(self, acts: tuple[Act, ...]) -> tuple[Offer, ...]:
        """What a person can do about it."""
        grant = find_grant(self._survey, self._workflow.id, self._run.waits_on or "")
        place = Place(
            workflow=self._workflow.name,
            run=self._run,
            held=self._held,
            inputs=self.inputs,
            grant=grant,
            seen=self._seen,
            lack=self._lack,
            chosen=find_chosen(self._survey.grants(self._workflow.id)),
            may_be_allowed=self._may_be_allowed,
        )
        made = offer.offers(acts, place, self._sight, is_paused=bool(self._workflow.paused))
        found = self._suspect
        if found is None:
            return made
        return (offer.skip_suspect(self._workflow.name, found.topic, found.message_id), *made)

    def open(self) -> Why:
        """Say why it waits, who moves it on, and when (U7)."""
        facts = self.facts
        mover, at_ms = standing.mover(facts)
        acts = standing.offered(self._run.state, is_paused=facts.paused, is_told=facts.may_settle)
        reason = standing.read(facts).reason
        if reason.code in FOR_OWNER:  # no other script helps
            acts = tuple(each for each in acts if each is not Act.DEPLOY)
        return Why(
            workflow=self._workflow.name,
            reason=reason,
            inputs=self.titles,
            claimed=facts.title,
            observed=self.observed,
            mover=mover,
            at=None if at_ms is None else moment(at_ms),
            offers=self.offers(acts),
            script=self.script,
        )

    @property
    def script(self) -> FailedScript | None:
        """Where its script failed, and what it printed last."""
        run = self._run
        if run.status != Status.FAILED_LOGIC or run.error is None:
            return None
        step = STEP_AT.get(Phase(run.phase))
        lines = () if run.logs is None else show_log(run.logs)[-LOG_LINES_SHOWN:]
        logs = tuple(self._sight.text(each.text) for each in lines)
        line = show_error(run.error).line
        return None if step is None else FailedScript(run.handler, step, line, logs)

    # -- It is over -----------------------------------------------------------------------------

    def committed(self) -> Why:
        """Say how it ended."""
        if self._held is not None:
            return self.ended_change()
        kind = Kind(self._run.kind)
        code = account.ended_without_change(kind, has_inputs=bool(self.titles))
        return self._ended(code, self._past(self._run.updated_at))

    def ended_change(self) -> Why:
        """Say how its call ended."""
        held = self._held
        assert held is not None, self._run
        is_sent = held.sent_at is not None
        code = account.ended_change(MutationStatus(held.status), is_sent=is_sent)
        past = self._past(held.updated_at, self._answered())
        return self._ended(code, {**past, **self._known(held), "late": self._late})

    def abandoned(self) -> Why:
        """Say who ended it, and what is left of it (A6, R9)."""
        ender = self._ender()
        code = Ended.ENDED if ender is None else account.ENDED_BY.get(ender.verb, Ended.ENDED)
        row = self._run.state.row
        left = row.value if row is not None and row in account.SETTLED else "nothing"
        return self._ended(code, {**self._past(self._run.updated_at, ender), "left": left})

    def followed(self) -> Why:
        """Say that another run took over (R5)."""
        return self._ended(Ended.FOLLOWED, self._past(self._run.updated_at))

    def _ended(self, code: Ended, past: Mapping[str, Any]) -> Why:
        return Why(
            workflow=self._workflow.name,
            reason=Reason(code, self.facts.subject, known_only(past)),
            inputs=self.titles,
            claimed=self.facts.title,
            observed=self.observed,
            mover=Mover.NOTHING,
            at=None,
            offers=(),
        )

    def _past(self, at_ms: int, action: ActionRow | None = None) -> dict[str, Any]:
        """List what is known of something that has ended."""
        held = self._held
        error = None if held is None else held.error
        return {
            "at": moment(at_ms),
            "tool": None if held is None else held.tool,
            "title": None if held is None else self.facts.title,
            "inputs": self.titles[: standing.INPUTS_SHOWN],
            "more_inputs": max(0, len(self.titles) - standing.INPUTS_SHOWN),
            "by": None if action is None else action.by,
            "message": self.facts.message
            if error is None
            else self._sight.text(show_error(error).message),
            "resent": held is not None and bool(held.is_resent),
            "taken_up": any(each.status in standing.UNFINISHED for each in self.inputs),
        }

    def _known(self, held: MutationRow) -> dict[str, Any]:
        """List how the outcome of its call became known (L12)."""
        known = held.known
        if known is None:
            return {}
        said = None if known.said is None else self._sight.text(known.said)
        told = {"known": known.how.value, "known_by": known.by, "known_said": said}
        return {**told, "unsent": is_unsent(held)}

    @property
    def _late(self) -> tuple[dict[str, Any], ...]:
        """List what came late about its call, as facts (L1)."""
        return tuple(each.facts for each in self.facts.late)

    def _answered(self) -> ActionRow | None:
        """Find who said no to a call, or what became of one."""
        assert self._held is not None, self._run
        verb = "reject" if self._held.status == MutationStatus.REJECTED else "settle"
        return people.find_target_action(self._survey.tx, self._workflow.id, self._held.id, verb)

    def _ender(self) -> ActionRow | None:
        """Find who abandoned it, skipped what it held, or paused the workflow under it."""
        tx, workflow_id, at = self._survey.tx, self._workflow.id, self._run.updated_at
        ended = people.find_target_action(tx, workflow_id, self._run.id, "abandon")
        if ended is not None:
            return ended
        targets = (f"{each.topic}/{each.message_id}" for each in self.inputs)
        skipped = people.find_target_actions(tx, workflow_id, targets, "skip")
        for each in skipped.values():
            if each.at == at:
                return each
        paused = people.find_last_action(tx, workflow_id, "pause", at=at)
        return paused if paused is not None and paused.at == at else None


def _is_failed(row: MutationRow) -> bool:
    """Tell whether a call changed nothing, and not by the word of a person alone (L12)."""
    is_settled = row.known is not None and row.known.how is Known.SETTLED
    return row.status == MutationStatus.FAILED and not is_settled


def find_pauser(survey: Survey, workflow: WorkflowRow) -> str:
    """Name who paused a workflow (A6)."""
    return (survey.paused_by(workflow.id) if workflow.paused else None) or USER


def read_facts(survey: Survey, sight: Sight, workflow: WorkflowRow) -> Facts:
    """Read what decides how a workflow stands (U1)."""
    run = survey.run(workflow.id)
    if run is None:
        return _rest(survey, sight, workflow)
    return Explainer(survey, sight, workflow, run).facts


# -- A workflow with nothing open ---------------------------------------------------------------


def _why_rest(survey: Survey, sight: Sight, workflow: WorkflowRow) -> Why:
    facts = _rest(survey, sight, workflow)
    offers: tuple[Offer, ...] = ()
    if workflow.paused:
        offers = (offer.on_workflow("resume", workflow.name),)
    elif facts.can_be_run:
        offers = (offer.on_workflow("run_now", workflow.name),)
    times = (facts.held_until_ms, facts.check_at_ms, facts.wake_at_ms)
    at_ms = None if workflow.paused or facts.is_due else earliest(times)
    return Why(
        workflow=workflow.name,
        reason=standing.read(facts).reason,
        inputs=(),
        claimed=None,
        observed=None,
        mover=Mover.RESUME if workflow.paused else Mover.HOST,
        at=None if at_ms is None else moment(at_ms),
        offers=offers,
    )


def _rest(survey: Survey, sight: Sight, workflow: WorkflowRow) -> Facts:
    handlers = survey.outlooks(workflow.id)
    consumers = [each for each in handlers if each.kind == Kind.CONSUMER]
    producers = [each for each in handlers if each.kind == Kind.PRODUCER]
    now = sight.now_ms
    has_pending = any(each.oldest_pending_seq is not None for each in consumers)
    return replace(
        sight.facts(workflow, None, None, find_pauser(survey, workflow)),
        blind_cause=survey.blind_cause(workflow),
        is_due=(is_due := _is_due(handlers, now, sight.wake_max_ms)),
        machine=workflow.missing_machine if is_due else None,
        unserved=read_unserved(workflow.unserved) if is_due else None,
        uncompared=survey.uncompared(workflow.id) if is_due else None,
        held_until_ms=earliest(_held_until(each, now, sight.wake_max_ms) for each in consumers),
        check_at_ms=earliest(each.next_run_at for each in producers),
        wake_at_ms=earliest(each.wake_at for each in consumers),
        pending=Book(survey, sight, workflow).pending() if has_pending else (),
        can_be_run=bool(producers),
    )


def _is_due(handlers: tuple[HandlerOutlook, ...], now_ms: int, wake_max_ms: int) -> bool:
    """Tell whether something would begin at once (S2, S3)."""
    return any(
        is_producer_due(Producer(each.next_run_at), now_ms)
        if each.kind == Kind.PRODUCER
        else is_consumer_due(each.consumer(wake_max_ms), now_ms)
        for each in handlers
    )


def _held_until(handler: HandlerOutlook, now_ms: int, wake_max_ms: int) -> int | None:
    """Return until when a consumer is held back from work it would begin (S3)."""
    until = handler.not_before
    consumer = handler.consumer(wake_max_ms)
    is_held = until > now_ms and not is_consumer_due(consumer, now_ms)
    return until if is_held and is_consumer_due(consumer, until) else None
