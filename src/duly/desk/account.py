"""What came in, what came of it, and how much of both there was lately (U1, U2, U4).

Law 1  An input is followed through every consumer to all that was made of it, and an output back
       to all that caused it (T9).
Law 2  Of an output the script's words and the observed call stand side by side (L11).
Law 3  Pages go on from a key. Changes and events have an order of their own each; the key of an
       output says how far both were read, so no clock that was set back hides or repeats one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final

from duly.desk.base import HasDesk, find_history
from duly.desk.page import PAGE_DEFAULT, check_page, read_word
from duly.desk.record import Input, Output
from duly.desk.sight import Sight, known_only
from duly.errors import Invalid, short
from duly.fact import Reason
from duly.rules import standing
from duly.rules.account import OUTPUT_OF, Came, OutputStatus, became, came_of
from duly.rules.count import Activity, Count, add_up, count_of_tool, noun_of_topic
from duly.rules.event import EventStatus
from duly.rules.schedule import DAY_MS, moment
from duly.rules.standing import CausedEvent, InputStatus
from duly.rules.verb import question
from duly.rules.word import MutationStatus, Way
from duly.store import people, trace
from duly.store.base import Transaction
from duly.store.people import LAST, PAGE_ROWS_MAX, ActionRow, TopicRow
from duly.store.record import MutationRow, WorkflowRow
from duly.store.survey import PendingRow, Survey
from duly.store.trace import COUNT_MAX, SEQ_MAX, TraceRow

INPUT_OUTPUTS_MAX: Final = 100  # of all that came of one input so many are shown

# Of several things that came of an input, which one its reason speaks of.
URGENCY: Final = {
    status: place
    for place, status in enumerate(
        (
            OutputStatus.WAITING,
            OutputStatus.UNKNOWN,
            OutputStatus.UNDER_WAY,
            OutputStatus.NOT_DONE,
            OutputStatus.REJECTED,
            OutputStatus.SKIPPED,
            OutputStatus.DONE,
        )
    )
}

# What its reason already calls unfinished; that something led on is not said as well.
OPEN: Final = frozenset({OutputStatus.WAITING, OutputStatus.UNKNOWN, OutputStatus.UNDER_WAY})


class Accounts(HasDesk):
    """The questions of a person who wants to know what became of things."""

    @question(cursor=("seq",), example={"workflow": "invoices", "status": "pending"})
    async def inputs(
        self,
        workflow: str,
        *,
        status: InputStatus | str | None = None,
        limit: int = PAGE_DEFAULT,
        before: int | None = None,
    ) -> tuple[Input, ...]:
        """List what came in and what came of it, newest first.

        `before` continues a list: it takes the `seq` of the last entry.
        """
        # Rules: U2.
        check_page(limit, before, int)
        people.page(limit)
        word = read_word(InputStatus, status)
        sight = Sight.of(self._desk().parts)

        def look(tx: Transaction) -> tuple[Input, ...]:
            found = find_history(tx, workflow)
            return Book(Survey(tx, (found,)), sight, found).inputs(limit, before, word)

        return await self._desk().ask(look)

    @question(cursor=("key",), example={"workflow": "invoices", "limit": 20})
    async def outputs(
        self, workflow: str, *, limit: int = PAGE_DEFAULT, before: str | None = None
    ) -> tuple[Output, ...]:
        """List changes, and events that no consumer takes, newest first.

        The next page goes on before the `key` of the last entry.
        """
        # Rules: U2, U4.
        check_page(limit, before, str)
        place = read_place(before)
        sight = Sight.of(self._desk().parts)

        def look(tx: Transaction) -> tuple[Output, ...]:
            found = find_history(tx, workflow)
            return tuple(Book(Survey(tx, (found,)), sight, found).outputs(limit, place))

        return await self._desk().ask(look)


@dataclass(frozen=True, slots=True)
class Place:
    """How far a page of outputs got: in the ledger, and among the events."""

    mutation: str = LAST
    seq: int = SEQ_MAX

    @property
    def key(self) -> str:
        """The place in a word; what was not begun is left open."""
        seq = "" if self.seq == SEQ_MAX else str(self.seq)
        return f"{seq}:{'' if self.mutation == LAST else self.mutation}"


def read_place(key: str | None) -> Place:
    """Read the key of an output, or refuse it."""
    if key is None:
        return Place()
    seq, colon, mutation = key.partition(":")
    is_number = seq.isdecimal() and seq.isascii() and int(seq) <= SEQ_MAX
    if not colon or (seq and not is_number):
        raise Invalid(
            code="wrong_value", path="before", facts={"wanted": "output_key", "given": short(key)}
        )
    return Place(mutation or LAST, int(seq) if seq else SEQ_MAX)


class Book:
    """The inputs and outputs of one workflow, as one transaction sees them."""

    def __init__(self, survey: Survey, sight: Sight, workflow: WorkflowRow) -> None:
        self._survey = survey
        self._tx = survey.tx
        self._sight = sight
        self._workflow = workflow
        self._roots: dict[int, tuple[str, ...]] = {}  # of events, and of runs
        self._run_roots: dict[str, tuple[str, ...]] = {}
        self._topics = survey.topics(workflow.id)

    # -- Inputs ---------------------------------------------------------------------------------

    def inputs(self, limit: int, before: int | None, word: InputStatus | None) -> tuple[Input, ...]:
        """Show what came in, newest first, with everything that came of it; of one status, or all.

        A search for one status looks through many inputs at a time, until a page is full.
        """
        shown: list[TraceRow] = []
        statuses: dict[int, InputStatus] = {}
        chunk = limit if word is None else PAGE_ROWS_MAX
        while True:
            rows = trace.list_workflow_inputs(
                self._tx, self._workflow.id, limit=chunk, before=before
            )
            statuses |= self._statuses(rows)
            shown += (each for each in rows if word is None or statuses[each.seq] is word)
            if len(rows) < chunk or len(shown) >= limit:
                break
            before = rows[-1].seq
        return self._inputs(shown[:limit], statuses)

    def _statuses(self, rows: Iterable[TraceRow]) -> dict[int, InputStatus]:
        """Say what became of each input, by all the work it led to."""
        seqs = [each.seq for each in rows]
        words = trace.list_work_statuses(self._tx, self._workflow.id, seqs)
        return {
            seq: standing.input_status(
                CausedEvent(EventStatus(word), has_consumer=True) for word in words.get(seq, ())
            )
            for seq in seqs
        }

    def _inputs(self, rows: list[TraceRow], statuses: dict[int, InputStatus]) -> tuple[Input, ...]:
        """Read what came of all inputs of a page, then show each."""
        here = self._tx, self._workflow.id
        caused = trace.list_caused(*here, (each.seq for each in rows), limit=INPUT_OUTPUTS_MAX)
        events = [*rows, *chain.from_iterable(caused.values())]
        run_ids = dict.fromkeys(each.run_id for each in events if each.run_id)
        held = trace.list_held(self._tx, run_ids)
        self._read_run_roots(list(held))
        self._read_roots([each.seq for each in events if self._is_output(each)])
        skipped = people.find_target_actions(
            *here, (_subject(each) for each in rows if _is_skipped(each)), "skip"
        )
        return tuple(
            self._input(each, caused.get(each.seq, ()), held, statuses[each.seq], skipped)
            for each in rows
        )

    def _input(
        self,
        row: TraceRow,
        caused: tuple[TraceRow, ...],
        held: Mapping[str, MutationRow],
        status: InputStatus,
        skipped: Mapping[str, ActionRow],
    ) -> Input:
        outputs = tuple(self._outputs_of(row, caused, held))
        is_left = row.status == EventStatus.CONSUMED and status is InputStatus.PENDING
        is_cut = len(caused) == INPUT_OUTPUTS_MAX
        topic = self._topics[row.topic]
        event = CausedEvent(EventStatus(row.status), has_consumer=topic.consumer is not None)
        days = self._sight.policy.stale_after_days
        return Input(
            topic=row.topic,
            message_id=row.message_id,
            title=self._sight.text(row.title),
            status=status,
            seq=row.seq,
            created_at=moment(row.created_at),
            stale=standing.is_stale(event, row.created_at, self._sight.now_ms, days),
            reason=self._reason(
                row, topic, outputs, skipped.get(_subject(row)), is_cut=is_cut, is_left=is_left
            ),
            outputs=outputs,
        )

    def _reason(
        self,
        row: TraceRow,
        topic: TopicRow,
        outputs: tuple[Output, ...],
        skipped: ActionRow | None,
        *,
        is_cut: bool,
        is_left: bool,
    ) -> Reason:
        subject = _subject(row)
        if outputs:
            first = min(outputs, key=lambda each: (URGENCY[each.status], each.observed is None))
            facts = {
                **_named(first),
                "more": len(outputs) - 1,
                "at_least": is_cut,
                "led_on": is_left and first.status not in OPEN,
            }
            return Reason(came_of(first.status), subject, known_only(facts))
        held_up = self._held_up if row.status == EventStatus.PENDING else None
        code = became(
            EventStatus(row.status),
            is_left_behind=topic.consumer is None,
            is_left=is_left,
            held_up=None if held_up is None else held_up[0],
        )
        if held_up is not None and code is held_up[0]:
            return Reason(code, subject, held_up[1])
        return Reason(code, subject, {} if skipped is None else {"by": skipped.by})

    @cached_property
    def _held_up(self) -> tuple[Came, dict[str, Any]] | None:
        """Say behind what everything else of the workflow waits; None if it moves (F6)."""
        run = self._survey.run(self._workflow.id)
        if run is None:
            return None
        facts = self._sight.facts(self._workflow, run, self._survey.held(run.id))
        if facts.way is Way.HOST:
            return None
        inputs = self._survey.inputs(run.id)
        titles = self._sight.texts(each.title for each in inputs)
        code = Came.INPUT_BEHIND if titles else Came.INPUT_HELD_UP
        return code, known_only(
            {
                "inputs": titles[: standing.INPUTS_SHOWN],
                "more_inputs": max(0, len(titles) - standing.INPUTS_SHOWN),
                "is_yours": standing.needs_person(facts),
            }
        )

    def _outputs_of(
        self, row: TraceRow, caused: tuple[TraceRow, ...], held: Mapping[str, MutationRow]
    ) -> Iterator[Output]:
        """Follow an input through every consumer (T9): its changes, events no consumer takes."""
        run_ids = dict.fromkeys(each.run_id for each in (row, *caused) if each.run_id)
        for change in (held[each] for each in run_ids if each in held):
            yield self._change(change, Place(change.id))
        for each in caused:
            if self._is_output(each):
                yield self._event(each, Place(seq=each.seq))

    # -- Outputs --------------------------------------------------------------------------------

    def outputs(self, limit: int, place: Place) -> Iterator[Output]:
        """Read changes and events together: of the two that come next, the later one first."""
        changes = people.list_mutations(
            self._tx, self._workflow.id, limit=limit, before=place.mutation
        )
        events = self._terminal_events(limit, place.seq)
        self._read_run_roots([each.held_by for each in changes])
        self._read_roots([each.seq for each in events])
        taken_changes = taken_events = 0
        for _ in range(min(limit, len(changes) + len(events))):
            change = changes[taken_changes] if taken_changes < len(changes) else None
            event = events[taken_events] if taken_events < len(events) else None
            if change and (event is None or change.created_at > event.created_at):
                taken_changes += 1
                place = Place(change.id, place.seq)
                yield self._change(change, place)
            elif event:
                taken_events += 1
                place = Place(place.mutation, event.seq)
                yield self._event(event, place)

    def _terminal_events(self, limit: int, before: int) -> list[TraceRow]:
        found = [
            row
            for topic in self._topics.values()
            if topic.consumer is None
            for row in trace.list_terminal_events(
                self._tx,
                self._workflow.id,
                topic.name,
                after=topic.worked_until,
                before=before,
                limit=limit,
            )
        ]
        return sorted(found, key=lambda row: row.seq, reverse=True)[:limit]

    def _read_roots(self, seqs: list[int]) -> None:
        """Read the inputs behind the events of a page, in one statement."""
        found = trace.list_roots(self._tx, self._workflow.id, seqs)
        self._roots |= {each: found.get(each, ()) for each in seqs}

    def _read_run_roots(self, run_ids: list[str]) -> None:
        """Read the inputs behind the changes of a page, in one statement."""
        found = trace.list_run_roots(self._tx, self._workflow.id, run_ids)
        self._run_roots |= {each: found.get(each, ()) for each in run_ids}

    def _is_output(self, row: TraceRow) -> bool:
        is_work = self._topics[row.topic].is_work(row.seq)
        return not is_work and row.status == EventStatus.PENDING

    def _change(self, row: MutationRow, place: Place) -> Output:
        if row.held_by not in self._run_roots:
            self._read_run_roots([row.held_by])
        inputs = self._run_roots[row.held_by]
        return Output(
            id=row.id,
            claimed=self._sight.claimed(row),
            observed=self._sight.observed(row),
            status=OUTPUT_OF[MutationStatus(row.status)],
            at=moment(row.sent_at or row.created_at),
            inputs=self._sight.texts(inputs),
            key=place.key,
            known=self._sight.ending(row),
        )

    def _event(self, row: TraceRow, place: Place) -> Output:
        if row.seq not in self._roots:
            self._read_roots([row.seq])
        inputs = self._roots[row.seq]
        return Output(
            id=f"{row.topic}/{row.message_id}",
            claimed=self._sight.text(row.title),
            observed=None,
            status=OutputStatus.DONE,
            at=moment(row.created_at),
            inputs=self._sight.texts(inputs),
            key=place.key,
        )

    # -- Counts ---------------------------------------------------------------------------------

    def activity(self) -> Activity:
        """Count what was processed in the last day, and what came of it (U1)."""
        since = self._sight.now_ms - DAY_MS
        rows = self._survey.processed(self._workflow.id, since=since)
        is_cut = sum(row.count for row in rows) > COUNT_MAX
        inputs: dict[str, int] = {}
        for row in rows:
            noun = noun_of_topic(row.topic)
            inputs[noun] = inputs.get(noun, 0) + row.inputs
        applied = self._survey.applied(self._workflow.id, since=since)
        made = (self._made(tool, count) for tool, count in applied)
        taken = (_counted(count, noun, is_cut) for noun, count in sorted(inputs.items()) if count)
        hours = self._survey.hours(self._workflow.id, since=since)
        return Activity(tuple(taken), add_up(made, COUNT_MAX), hours)

    def _made(self, name: str, count: int) -> Count:
        tool = self._sight.find_tool(name)
        noun = None if tool is None else tool.noun
        most = min(count, COUNT_MAX)
        return count_of_tool(name, noun, most, is_more=count > COUNT_MAX)

    def pending(self) -> tuple[Count, ...]:
        """Count what waits to be taken up, by noun; what there is none of is left out (U1)."""
        counts: dict[str, int] = {}
        for row in self._pending():
            if self._topics[row.topic].consumer is not None:
                noun = noun_of_topic(row.topic)
                counts[noun] = counts.get(noun, 0) + row.count
        return tuple(_counted(n, noun) for noun, n in sorted(counts.items()) if n)

    def stale(self) -> dict[str, int]:
        """Count, by topic, what has waited too long (U4)."""
        rows = (row for row in self._pending() if self._topics[row.topic].consumer is not None)
        return {row.topic: row.old for row in rows if row.old}

    def orphaned(self) -> dict[str, int]:
        """Count, by topic, what a newer version left behind (W9)."""
        rows = (row for row in self._pending() if self._topics[row.topic].consumer is None)
        return {row.topic: row.count for row in rows if row.count}

    def oldest(self, topic: str) -> list[TraceRow]:
        """Read what has waited longest in a topic where something is stale or orphaned."""
        return self._survey.oldest(self._workflow.id, before=self._stale_before)[topic]

    def _pending(self) -> tuple[PendingRow, ...]:
        return self._survey.pending(self._workflow.id, before=self._stale_before)

    @property
    def _stale_before(self) -> int:
        return self._sight.now_ms - self._sight.policy.stale_after_days * DAY_MS


def _subject(row: TraceRow) -> str:
    return f"{row.topic}/{row.message_id}"


def _is_skipped(row: TraceRow) -> bool:
    """Tell whether a person skipped an event, and no run."""
    return row.status == EventStatus.SKIPPED and row.finished_by is None


def _counted(count: int, noun: str, is_cut: bool = False) -> Count:
    return Count(min(count, COUNT_MAX), noun, is_more=is_cut or count > COUNT_MAX)


def _named(output: Output) -> dict[str, Any]:
    """List what names an output, and what was said when it ended (L11, L12)."""
    known = output.known
    is_rejected = known is not None and output.status is OutputStatus.REJECTED
    return {
        "tool": None if output.observed is None else output.observed.tool,
        "title": output.claimed,
        "by": known.by if known is not None and is_rejected else None,
        "note": known.said if known is not None and is_rejected else None,
    }
