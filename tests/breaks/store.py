"""The breaks of the store: a guard of a verb, a clause of a statement, an index, each taken away.

Law: a break of a statement names the words it takes out; words that are no longer there are an
error at once, so that no break turns red for having become nonsense.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from duly.rules.prepared import Judgement
from duly.rules.word import Reserved
from duly.store import approval, due, ledger, queries, statements
from duly.store.base import Fence, Transaction, barrier, read
from duly.store.record import MutationRow
from tests.breaks import Break

FOLDER = "tests/store/test_"
ALL = tuple(
    f"{FOLDER}{name}.py"
    for name in (
        *("acts", "due", "exam_approval", "exam_event", "exam_ledger", "exam_run"),
        "exam_workflow",
        *("ledger", "number", "redeploy", "succession", "topic"),
    )
)
LOAD, READ = queries.load, queries.read


def _statement(
    name: str, words: str, instead: str = "", file: str = "queries"
) -> Callable[..., dict[str, str]]:
    """Load every statement as it is, but for these words of one of them."""
    text = LOAD(file)[name]
    if words not in text:
        raise AssertionError(f"statement {name} no longer says {words!r}")

    def load(*files: str) -> dict[str, str]:
        found = LOAD(*files)
        return {**found, name: text.replace(words, instead)} if name in found else found

    return load


def _schema(words: str) -> Callable[[str], str]:
    """Read the schema without these words."""
    if words not in READ("schema"):
        raise AssertionError(f"the schema no longer says {words!r}")
    return lambda file: READ(file).replace(words, "")


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


def _look_only(tx: Transaction, fence: Fence) -> statements.WorkflowFacts:
    return statements.look(tx, fence.workflow_id)


def _always_reserve(judgements: Any) -> Judgement:
    for _ in judgements:
        pass
    return Judgement.RESERVE


def _disposing(instead: dict[Reserved, Reserved]) -> Callable[..., int]:
    dispose = statements.dispose

    def broken(
        tx: Transaction, workflow_id: str, run_id: str, reserved: Reserved, now: int, **more: Any
    ) -> int:
        return dispose(tx, workflow_id, run_id, instead.get(reserved, reserved), now, **more)

    return broken


def _approve_anything(tx: Transaction, /, mutation_id: str, seen: str, **more: Any) -> MutationRow:
    shown = ledger.read_mutation(tx, mutation_id).hash
    return approval.approve(tx, mutation_id, shown, **more)


_ASKED: list[int] = []


def _due_once(tx: Transaction, now: int) -> due.Due:
    _ASKED.append(now)
    return due.due(tx, now) if len(_ASKED) == 1 else due.Due()


def _sql(rule: str, says: str, statement: str, words: str, instead: str = "") -> Break:
    broken = _statement(statement, words, instead)
    return Break(rule, "duly.store.queries", "load", broken, ALL, says)


def _verb(rule: str, says: str, place: str, replacement: Any) -> Break:
    module, _, attribute = place.partition(":")
    return Break(rule, f"duly.store{module}", attribute, replacement, ALL, says)


def _index(rule: str, says: str, words: str) -> Break:
    return Break(rule, "duly.store.queries", "read", _schema(words), ALL, says)


OLD_STATE = "phase = :old_phase and status = :old_status"
ANY_STATE = ":old_phase = :old_phase and :old_status = :old_status"
FREE = "and not exists (select 1 from run r where r.workflow_id = h.workflow_id and r.open = 1)"
HELD_BACK = (
    "union all select min(not_before) from handler where kind = 'consumer' and orphaned = 0"
    " and wake_at is not null and wake_at <= :now and not_before > :now"
)
ONE_OPEN = "create unique index run_one_open on run (workflow_id) where open = 1;"
ONE_SUCCESSOR = (
    "create unique index run_one_successor on run (retry_of) where retry_of is not null;"
)

CONSUMERS = (
    _verb("C5", "whatever prepare asks for is reserved", ".run:judge_all", _always_reserve),
    _sql("C6", "a pinned content is thrown away", "reserve_events", ", attempts = attempts + 1"),
    _verb(
        "C9",
        "a run without a call leaves its events reserved",
        ".statements:dispose",
        _disposing({Reserved.CONSUME: Reserved.HOLD}),
    ),
    _sql(
        "C10",
        "no state returned forgets the old one",
        "commit_consumer",
        "state = coalesce(:state, state)",
        "state = :state",
    ),
    _verb(
        "C11",
        "the events of a declined mutation are consumed",
        ".statements:dispose",
        _disposing({Reserved.SKIP: Reserved.CONSUME}),
    ),
    _sql("C12", "an heir forgets the state", "insert_heir", "r.state_before, r.", "null, r."),
    _sql("C13", "an heir has its own clock", "insert_heir", "r.clock_at, r.seed", ":now, r.seed"),
)
LEDGER = (
    _sql(
        "L1",
        "a row stays with the run that made it",
        "pass_mutation",
        "held_by = :successor_id",
        "held_by = coalesce(held_by, :successor_id)",
    ),
    _sql("L5", "asking comes a moment late", "due_reconciles", "due_at <= :now", "due_at < :now"),
    _sql("L7", "every row grows the generation", "count_refusals", " and refused = 1"),
    _sql("L8", "runs start beside an unknown mutation", "due_changed", FREE),
    _sql("L9", "the result is lost", "settle_run", ":result", "nullif(:result, :result)"),
    _sql("L10", "old attempts still count", "reset_asks", "asks = 0, resends = 0", "asks = asks"),
)
RUNS = (
    _index("R1", "a run has two successors", ONE_SUCCESSOR),
    _sql("R5", "an heir inherits no inputs", "insert_heir", "r.prepared, r.", "null, r."),
    _verb(
        "R6",
        "the events of an unknown mutation are released",
        ".statements:dispose",
        _disposing({Reserved.TRANSFER: Reserved.RELEASE}),
    ),
    _sql(
        "R7",
        "an unknown row is never asked about",
        "move_mutation",
        "case when :status = 'needs_reconcile' then cast(:now as bigint) end",
        "case when :status = 'needs_reconcile' then null end",
    ),
    _sql("R8", "a run moves from any state", "move_run", OLD_STATE, ANY_STATE),
    _sql(
        "R8",
        "any workflow's fence moves a run",
        "move_run",
        "workflow_id = :workflow_id",
        ":workflow_id = :workflow_id",
    ),
    _verb("R9", "a proposal outlives its run", ".statements:move_row", _nothing),
)
SCHEDULE = (
    _verb("H2", "an old epoch still writes", ".statements:check", _look_only),
    _verb(
        "S2",
        "a redeploy starts every producer",
        ".workflow:next_run_at_on_deploy",
        lambda stored, declared, planned_ms, now_ms, zone="UTC": now_ms,
    ),
    _verb("S3", "nobody tells the consumer", ".statements:touch", _nothing),
    _sql("S5", "the youngest event counts", "due_changed", "select min((", "select max(("),
    _sql(
        "S6",
        "an old wakeAt stays",
        "commit_consumer",
        "wake_at = :wake_at",
        "wake_at = coalesce(:wake_at, wake_at)",
    ),
    _verb("S7", "Run now interrupts a run", ".workflow:run_now_refusal", _nothing),
    _verb("S8", "what is due is known once", ":Store.due", read(_due_once)),
    _sql("S9", "a consumer that rests is forgotten", "next_due_times", HELD_BACK),
)
FAILURES = (
    _sql("F2", "a backoff ends too late", "due_runs", "r.due_at <= :now", "r.due_at < :now"),
    _verb("F3", "a deploy follows nobody", ".workflow:_follow_failed", _nothing),
    _sql(
        "F4",
        "any grant wakes a run",
        "wake_granted_run",
        " and waits_on = :capability",
        " or :capability = ''",
    ),
    _index("F6", "a workflow has two open runs", ONE_OPEN),
    _verb("F7", "a paused workflow sends", ".ledger:check_sending", _look_only),
)
PEOPLE = (
    _verb(
        "A4",
        "another call than was shown is approved",
        ":Store.approve",
        barrier(_approve_anything),
    ),
    _verb("A6", "nobody writes down who did it", ".statements:note", _nothing),
    _verb("U3", "a skipped poison retries nobody", ".event:_retry_failed", _nothing),
    _sql("W9", "a removed handler still runs", "orphan_handlers", "orphaned = 1", "orphaned = 0"),
    _sql(
        "W10",
        "a removed workflow keeps its name",
        "remove_workflow",
        "removed_at = :now, ",
        "removed_at = nullif(:now, :now), ",
    ),
)
EVENTS = (
    _sql(
        "T5",
        "a release forgets the newer content",
        "release_events",
        "content = coalesce(content_beside, content)",
        "content = content",
    ),
    _sql(
        "T6", "peek shows the newest first", "peek_events", "order by e.seq", "order by e.seq desc"
    ),
    _sql("T9", "roots are lost on the way", "run_roots", "coalesce(c.root, r.seq)", "r.seq"),
    _sql(
        "P2", "no state returned forgets it", "commit_producer", "coalesce(:state, state)", ":state"
    ),
)

BREAKS = (*CONSUMERS, *LEDGER, *RUNS, *SCHEDULE, *FAILURES, *PEOPLE, *EVENTS)
