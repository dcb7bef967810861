"""What was asked of language models, and what it took (M2).

Law: the numbers are those by which the host decides whether a further question may leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from duly.desk.base import HasDesk, find_history
from duly.desk.page import PAGE_DEFAULT, check_page
from duly.desk.sight import Sight
from duly.model_settings import ModelSettings
from duly.rules.model import MODEL_DAYS, cost_of, day_of
from duly.rules.schedule import DAY_MS, moment
from duly.rules.verb import question
from duly.store import model
from duly.store.base import Transaction
from duly.store.model import ModelDay, QuestionRow

HOST: Final = "the host"


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What one workflow, or another account, asked of one model in a day of UTC.

    `reserved` are tokens of questions whose answer is not there, or was lost.
    """

    day: datetime
    account: str
    model: str
    calls: int
    calls_max: int | None
    tokens_in: int
    tokens_out: int
    reserved: int
    tokens_max: int | None
    cost: float


@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """A question to a model and its answer, without secrets; the question may be cut."""

    id: str
    account: str
    run: str | None
    model: str
    purpose: str
    question: str
    status: str
    answer: str | None
    fault: str | None
    tokens_in: int
    tokens_out: int
    reserved: int
    cost: float
    asked_at: datetime
    ended_at: datetime | None


class ModelViews(HasDesk):
    """What a person asks who wants to know what models cost, and what they were told."""

    @question(example={})
    async def models(self) -> tuple[ModelUse, ...]:
        """List what was asked of models in the last seven days, by workflow, newest first."""
        # Rules: M2.
        parts = self._desk().parts
        since = day_of(parts.env.now_ms()) - MODEL_DAYS + 1
        rows = await self._desk().ask(lambda tx: model.list_days(tx, since=since))
        return tuple(_use(row, parts.model_settings.get(row.model)) for row in rows)

    @question(example={"workflow": "invoices"})
    async def questions(
        self, workflow: str | None = None, *, limit: int = PAGE_DEFAULT
    ) -> tuple[ShownQuestion, ...]:
        """List the newest questions to models with their answers: of a workflow, or all others.

        Those without a workflow are the host's own; each agent has a list of its own under
        extension: and its id.
        """
        # Rules: M2.
        check_page(limit, None, str)
        parts = self._desk().parts
        sight = Sight.of(parts)

        def look(tx: Transaction) -> tuple[QuestionRow, ...]:
            account = workflow or ""
            if account and not account.startswith("extension:"):
                account = find_history(tx, account).id
            return model.list_questions(tx, account, limit=limit)

        rows = await self._desk().ask(look)
        return tuple(_shown(row, sight, parts.model_settings.get(row.model)) for row in rows)


def _use(row: ModelDay, settings: ModelSettings | None) -> ModelUse:
    return ModelUse(
        day=moment(row.day * DAY_MS),
        account=row.workflow or row.workflow_id or HOST,
        model=row.model,
        calls=row.calls,
        calls_max=None if settings is None else settings.calls_per_day,
        tokens_in=row.tokens_in,
        tokens_out=row.tokens_out,
        reserved=row.reserved,
        tokens_max=None if settings is None else settings.tokens_per_day,
        cost=_cost(settings, row.tokens_in, row.tokens_out),
    )


def _shown(row: QuestionRow, sight: Sight, settings: ModelSettings | None) -> ShownQuestion:
    return ShownQuestion(
        id=row.id,
        account=row.workflow or row.workflow_id or HOST,
        run=row.run_id,
        model=row.model,
        purpose=row.purpose,
        question=sight.text(row.question),
        status=row.status,
        answer=None if row.answer is None else sight.text(row.answer),
        fault=row.fault,
        tokens_in=row.tokens_in,
        tokens_out=row.tokens_out,
        reserved=row.reserved,
        cost=_cost(settings, row.tokens_in, row.tokens_out),
        asked_at=moment(row.asked_at),
        ended_at=None if row.ended_at is None else moment(row.ended_at),
    )


def _cost(settings: ModelSettings | None, tokens_in: int, tokens_out: int) -> float:
    return 0.0 if settings is None else round(cost_of(settings, tokens_in, tokens_out), 6)
