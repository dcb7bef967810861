"""Ids as people type them: found by their beginning, and shown as short as they can be (U6).

Law 1  An id in full costs no look; one that is typed in part costs one, along the primary key.
Law 2  A beginning that several things have is refused with their ids; none is chosen for a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from duly.desk.base import Desk, HasDesk
from duly.desk.page import check_page, read_names, read_word
from duly.desk.record import Identity
from duly.errors import Invalid, RequestRefused, see
from duly.rules.identity import (
    DIGITS_MIN,
    IdKind,
    Typed,
    is_whole,
    kind_of,
    next_made,
    read_typed,
    shorten,
)
from duly.rules.schedule import moment
from duly.rules.verb import question
from duly.store import identity
from duly.store.base import Transaction

if TYPE_CHECKING:
    from duly.store.identity import IdRow

CANDIDATES_SHOWN: Final = 5
LISTED_DEFAULT: Final = 20
SEVERAL_MAX: Final = 1000  # ids shortened in one question


class Identities(HasDesk):
    """The questions of a face that shows ids, or reads what a person typed for one."""

    @question(follow=False, example={"begins": "019a8b7c"})
    async def ids(
        self,
        begins: str = "",
        *,
        kind: IdKind | str | None = None,
        limit: int = LISTED_DEFAULT,
    ) -> tuple[Identity, ...]:
        """List runs, mutations and allowances by the beginning of their id, newest first."""
        # Rules: U6.
        check_page(limit, None, str)
        word = read_word(IdKind, kind)
        wanted = (word,) if word else tuple(IdKind)
        now_ms = self._desk().now_ms
        typed = Typed(wanted, "") if not begins else read_typed(begins, wanted)

        def look(tx: Transaction) -> tuple[Identity, ...]:
            rows = () if typed is None else identity.list_ids(tx, typed, limit=limit)
            names = read_names(tx, (row.workflow_id for row in rows))
            short = shorten_all(tx, [row.id for row in rows], now_ms)
            return tuple(_identity(row, short[row.id], names) for row in rows)

        return await self._desk().ask(look)

    @question(follow=False, example={"ids": ["run_019a8b7c0d1e2f30"]})
    async def short_ids(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the shortest beginning of each of these ids that is unique.

        What is not the id of a run, a mutation or an allowance is left out.
        """
        # Rules: U6.
        if len(ids) > SEVERAL_MAX:
            facts = {"wanted": "ids", "most": SEVERAL_MAX}
            raise Invalid(code="wrong_value", path="ids", facts=facts)
        now_ms = self._desk().now_ms
        return await self._desk().ask(lambda tx: shorten_all(tx, ids, now_ms))


def shorten_all(tx: Transaction, ids: Iterable[str], now_ms: int = 0) -> dict[str, str]:
    """Shorten ids so that each still names one thing of its kind; one look for each kind.

    With the time, each stays unique also beside the ids that are made from now on.
    """
    by_kind: dict[IdKind, list[str]] = {}
    for each in ids:
        kind = kind_of(each)
        if kind is not None:
            by_kind.setdefault(kind, []).append(each)
    return {
        whole: shorten(whole, (*beside, next_made(kind, now_ms)))
        for kind, found in by_kind.items()
        for whole, beside in identity.list_beside(tx, kind, found).items()
    }


def find_id(tx: Transaction, text: str, *kinds: IdKind) -> str:
    """Return the id that a person means; what names nothing is returned as it is."""
    typed = None if is_whole(text) else read_typed(text, kinds)
    if typed is None:
        return text
    found = identity.list_ids(tx, typed, limit=CANDIDATES_SHOWN + 1)
    if not found:
        return text
    only = found[0].id
    if len(found) == 1 and only in {typed.begins(kind) for kind in typed.kinds}:
        return only
    if typed.is_short:
        raise RequestRefused(
            code="short_id", subject=text, facts={"least": DIGITS_MIN}, next=see("ids")
        )
    if len(found) > 1:
        short = shorten_all(tx, [each.id for each in found[:CANDIDATES_SHOWN]])
        is_more = len(found) > CANDIDATES_SHOWN
        raise RequestRefused(
            code="ambiguous_id",
            subject=text,
            facts={"candidates": [*short.values()], "more": "…" if is_more else None},
            next=see("ids", begins=text),
        )
    return only


def find_place(tx: Transaction, before: str | None, kind: IdKind) -> str | None:
    """Return the id that a page goes on before; none is the first page."""
    return None if before is None else find_id(tx, before, kind)


async def resolve(desk: Desk, text: str, kind: IdKind) -> str:
    """Return the id that a person means, for an act on it; one in full costs no look."""
    if is_whole(text):
        return text
    return await desk.look(lambda tx: find_id(tx, text, kind))


def _identity(row: IdRow, short: str, names: dict[str, str]) -> Identity:
    kind = kind_of(row.id)
    assert kind is not None, row
    at: datetime = moment(row.made_at)
    return Identity(row.id, short, kind, names[row.workflow_id], row.status, at)
