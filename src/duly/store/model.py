"""Questions to language models: counted before they leave, and kept with their answers (M2).

Law 1  A question that is not counted does not leave. The count of a day and the row of the question
       are one transaction, on the disk before the first byte goes out.
Law 2  What a question took replaces what was reserved for it, once. Where that is never known, the
       reservation stays: the account is never lower than what was used.
Law 3  Only the newest questions of a workflow are kept; the accounts of its days are kept longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from duly.errors import PermissionDenied, see
from duly.rules.model import Purpose, QuestionStatus, day_of
from duly.store import statements
from duly.store.base import Transaction
from duly.store.tally import QUESTIONS, TOKENS, note

QUESTIONS_KEPT: Final = 400  # of one workflow: more than one step can ask
DAYS_KEPT: Final = 366
DAYS_MAX: Final = 1000  # rows of one look at the accounts


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question that is about to leave."""

    id: str
    workflow_id: str
    run_id: str | None
    chain: str | None
    model: str
    purpose: Purpose
    digest: str
    question: str
    reserved: int


@dataclass(frozen=True, slots=True)
class EndedQuestion:
    """What became of a question; tokens are None where it is not known how many it took.

    An answer that does not fit what was asked for has a `fault` beside it.
    """

    status: QuestionStatus
    answer: str | None = None
    fault: str | None = None
    tokens: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """What a chain of runs was answered before; `misfits` counts its answers if none fits."""

    id: str
    model: str
    answer: str
    tokens_in: int
    tokens_out: int
    misfits: int = 0


@dataclass(frozen=True, slots=True)
class ModelDay:
    """What one workflow asked of one model in a day."""

    workflow_id: str
    workflow: str | None
    model: str
    day: int
    calls: int
    reserved: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question as it is kept."""

    id: str
    workflow_id: str
    workflow: str | None
    run_id: str | None
    model: str
    purpose: str
    question: str
    status: str
    answer: str | None
    fault: str | None
    reserved: int
    tokens_in: int
    tokens_out: int
    asked_at: int
    ended_at: int | None


def ask_model(
    tx: Transaction, asked: AskedQuestion, *, calls_max: int, tokens_max: int, now: int
) -> None:
    """Count a question and write it down; past the limits of the day it is refused."""
    # The clocks of two hosts may be days apart: on a server its own clock says which day it is.
    now = tx.clock_ms or now
    day = day_of(now)
    account = {"workflow_id": asked.workflow_id, "model": asked.model, "day": day}
    tx.run("open_model_day", **account)
    counted = tx.run(
        "count_question",
        reserved=asked.reserved,
        calls_max=calls_max,
        tokens_max=tokens_max,
        **account,
    )
    if not counted:
        calls, reserved, tokens_in, tokens_out = statements.must(
            tx.one("get_model_day", **account), "The account"
        )
        facts = {
            "calls": calls,
            "calls_max": calls_max,
            "tokens": reserved + tokens_in + tokens_out,
            "tokens_max": tokens_max,
            "needed": asked.reserved,
        }
        code = "model_calls_used" if calls >= calls_max else "model_tokens_used"
        raise PermissionDenied(code=code, subject=asked.model, facts=facts, next=see("models"))
    tx.run(
        "insert_question",
        id=asked.id,
        workflow_id=asked.workflow_id,
        run_id=asked.run_id,
        chain=asked.chain,
        model=asked.model,
        purpose=asked.purpose,
        digest=asked.digest,
        question=asked.question,
        reserved=asked.reserved,
        now=now,
    )
    tx.run("prune_questions", workflow_id=asked.workflow_id, kept=QUESTIONS_KEPT)
    where = {"workflow_id": asked.workflow_id, "model": asked.model}
    tx.run("drop_model_days", before=day - DAYS_KEPT, **where)


def end_question(tx: Transaction, question_id: str, ended: EndedQuestion, *, now: int) -> None:
    """Write down what became of a question, and what it took, once."""
    workflow_id, model, reserved, asked_at = statements.must(
        tx.one("get_question", id=question_id), f"Question {question_id}"
    )
    tokens_in, tokens_out = ended.tokens or (0, 0)
    freed = 0 if ended.tokens is None else reserved
    changed = tx.run(
        "end_question",
        id=question_id,
        status=ended.status,
        answer=ended.answer,
        fault=ended.fault,
        reserved=reserved - freed,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        now=now,
    )
    statements.must_change(changed, f"Question {question_id}")
    tx.run(
        "settle_model_day",
        workflow_id=workflow_id,
        model=model,
        day=day_of(asked_at),
        freed=freed,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
    )
    note(QUESTIONS, model, ended.status)
    note(TOKENS, model, "in", by=tokens_in)
    note(TOKENS, model, "out", by=tokens_out)


def find_answer(tx: Transaction, chain: str, digest: str) -> RecordedAnswer | None:
    """Read what a chain of runs was answered to this very question, fitting or not (M3)."""
    found = tx.one("find_answer", chain=chain, digest=digest)
    return None if found is None else RecordedAnswer(*found)


def has_asked_model(tx: Transaction, chain: str) -> bool:
    """Tell whether a model answered a chain of runs (M4); of an open run that is never pruned."""
    return tx.one("has_asked_model", chain=chain) is not None


def list_days(tx: Transaction, *, since: int) -> tuple[ModelDay, ...]:
    """Read the accounts of the days since one, the newest first."""
    return tuple(ModelDay(*row) for row in tx.all("list_model_days", since=since, limit=DAYS_MAX))


def list_questions(tx: Transaction, workflow_id: str, *, limit: int) -> tuple[QuestionRow, ...]:
    """Read the newest questions of one workflow, or ("") of the host itself."""
    rows = tx.all("list_questions", workflow_id=workflow_id, limit=limit)
    return tuple(QuestionRow(*row) for row in rows)
