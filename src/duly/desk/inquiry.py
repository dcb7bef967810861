"""`sql`: a person's own SELECT over the documented views (H1)."""

from __future__ import annotations

from math import isfinite

from duly.desk.base import HasDesk
from duly.desk.record import Rows
from duly.desk.sight import Sight
from duly.errors import Invalid, RequestRefused, short
from duly.rules.value import INTEGER_MAX, Json
from duly.rules.verb import Scope, question
from duly.store.inquiry import EXAMPLE, ROWS_MAX, HasInquiry, Value


class Inquiries(HasDesk):
    """What a person asks that no other question shows."""

    @question(
        scope=Scope.DECIDE,
        follow=False,
        example={"query": EXAMPLE},
    )
    async def sql(self, query: str, *, limit: int = 100) -> Rows:
        """Run one SELECT over the documented views, while the host runs.

        It changes nothing, and takes five seconds at most.
        """
        # Rules: H1.
        desk = self._desk()
        if not _is_given(query):
            raise Invalid(code="not_one_statement", path="query")
        if type(limit) is not int or not 1 <= limit <= ROWS_MAX:
            facts = {"given": short(limit), "least": 1, "most": ROWS_MAX}
            raise Invalid(code="out_of_range", path="limit", facts=facts)
        backend = desk.parts.store.backend
        if not isinstance(backend, HasInquiry):
            raise RequestRefused(code="not_sqlite")
        sight = Sight.of(desk.parts)
        table = await backend.inquire(query, limit, sight.text)
        rows = tuple(tuple(_show(sight, each) for each in row) for row in table.rows)
        return Rows(table.columns, rows, table.is_cut)


def _is_given(query: object) -> bool:
    return isinstance(query, str) and bool(query.strip())


def _show(sight: Sight, value: Value) -> Json:
    """Show a value without secrets (A5): bytes as hexadecimal digits, no number as its name.

    A number that is not the same in every language becomes its digits.
    """
    if isinstance(value, bytes):
        return sight.text(value.hex())
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        return str(value)
    return sight.text(value) if isinstance(value, str) else value
