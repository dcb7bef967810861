"""What a monitor asks a host (B5, F8, U1, M2).

Law 1  All figures come from one question, which costs no more over a million events than over a
       thousand: what is counted since the host opened is in memory, what is open has an index.
Law 2  A figure decides nothing, and no figure names an event, a run or a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from duly.desk.attention import walk_attention
from duly.desk.base import Desk, HasDesk
from duly.desk.explanation import read_facts
from duly.desk.sight import Sight
from duly.env import give_turn, precise_s
from duly.rules import standing
from duly.rules.delivery import DeliveryStatus
from duly.rules.figure import Figure, FigureName, figure
from duly.rules.model import cost_of
from duly.rules.standing import Standing
from duly.rules.verb import question
from duly.rules.word import MutationStatus, Status
from duly.store import people, tally
from duly.store.base import Transaction, Watchers
from duly.store.figure import HasSize, OpenCounts, Pended, count_open, read_waiting
from duly.store.people import PAGE_ROWS_MAX
from duly.store.sqlite import SqliteBackend
from duly.store.survey import Survey

COUNTED: Final = {
    FigureName.RUNS_STARTED: tally.RUNS_STARTED,
    FigureName.RUNS: tally.RUNS,
    FigureName.MUTATIONS: tally.MUTATIONS,
    FigureName.DELIVERIES: tally.DELIVERIES,
    FigureName.MODEL_QUESTIONS: tally.QUESTIONS,
    FigureName.MODEL_TOKENS: tally.TOKENS,
}
OPEN_STATUSES: Final = tuple(
    each for each in Status if each not in (Status.COMMITTED, Status.ABANDONED)
)
OPEN_ROWS: Final = (
    MutationStatus.PROPOSED,
    MutationStatus.IN_FLIGHT,
    MutationStatus.NEEDS_RECONCILE,
    MutationStatus.INDETERMINATE,
)
UNFINISHED: Final = (DeliveryStatus.WAITING, DeliveryStatus.RUNNING, DeliveryStatus.DEAD)


class Figures(HasDesk):
    """The question of a monitor."""

    @question(follow=False, example={})
    async def figures(self) -> tuple[Figure, ...]:
        """List the figures of this host for a monitor: what is open, what was done, how it runs.

        Those that end in _total count since the host opened; the others are of this moment.
        """
        # Rules: G13.
        desk = self._desk()
        begun_s = precise_s()
        await give_turn()
        lag_s = max(precise_s() - begun_s, desk.parts.env.lag.longest_s())
        open_now = await desk.ask(lambda tx: tuple(_list_open(tx, desk)))
        backend = desk.parts.store.backend
        size = [await backend.count_bytes()] if isinstance(backend, HasSize) else []
        return (
            *open_now,
            *(figure(FigureName.STORE_BYTES, each) for each in size),
            figure(FigureName.LOOP_LAG, lag_s),
            *_list_counted(desk),
        )


def _list_open(tx: Transaction, desk: Desk) -> Iterator[Figure]:
    """List what is so at this moment."""
    sight = Sight.of(desk.parts)
    rows = people.list_workflows(tx, limit=PAGE_ROWS_MAX)
    survey = Survey(tx, rows)
    standings = Counter(standing.read(read_facts(survey, sight, row)).standing for row in rows)
    for each in Standing:
        yield figure(FigureName.WORKFLOWS, standings[each], each)
    waiting = sum(1 for _ in islice(walk_attention(tx, desk, sight, "", survey), PAGE_ROWS_MAX))
    yield figure(FigureName.ATTENTION, waiting)
    pending = read_waiting(tx, (row.id for row in rows))
    for row in rows:
        yield from _list_waiting(row.name, pending.get(row.id, Pended(0, None)), sight.now_ms)
    yield from _list_counts(count_open(tx))


def _list_waiting(workflow: str, waiting: Pended, now_ms: int) -> Iterator[Figure]:
    since_ms = waiting.since_ms
    age_s = 0.0 if since_ms is None else max(0, now_ms - since_ms) / 1000
    yield figure(FigureName.PENDING, waiting.count, workflow)
    yield figure(FigureName.OLDEST_PENDING, age_s, workflow)


def _list_counts(counts: OpenCounts) -> Iterator[Figure]:
    for status in OPEN_STATUSES:
        yield figure(FigureName.OPEN_RUNS, counts.runs[status], status)
    for row in OPEN_ROWS:
        yield figure(FigureName.OPEN_MUTATIONS, counts.rows[row], row)
    for each in UNFINISHED:
        yield figure(FigureName.UNFINISHED_DELIVERIES, counts.deliveries[each], each)


def _list_counted(desk: Desk) -> Iterator[Figure]:
    """List what this host did since it opened."""
    parts = desk.parts
    for name, counted in COUNTED.items():
        for labels, value in parts.store.tally.read(counted).items():
            yield figure(name, value, *labels)
    tokens = parts.store.tally.read(tally.TOKENS)
    for model in sorted({labels[0] for labels in tokens}):
        if (settings := parts.model_settings.get(model)) is not None:
            taken, given = (int(tokens.get((model, way), 0)) for way in ("in", "out"))
            yield figure(FigureName.MODEL_COST, round(cost_of(settings, taken, given), 6), model)
    if isinstance(desk.watchers, Watchers):
        yield figure(FigureName.STORE_WRITES, desk.watchers.writes)
    backend = parts.store.backend
    if isinstance(backend, SqliteBackend):
        yield figure(FigureName.STORE_SYNCS, backend.syncs.count)
        yield figure(FigureName.STORE_SYNC_SECONDS, backend.syncs.total_s)
    yield figure(FigureName.WORKER_STARTS, parts.worker_starts())
