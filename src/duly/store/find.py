"""Finding events by text: message ids by how they begin, titles by what is in them (U6).

Law 1  A message id is found by its beginning, exactly, along its index.
Law 2  Titles are read newest first, workflow by workflow, so many at a time: a page costs the same
       for any length of history. Where it ended, the next page goes on.
Law 3  Within a time only what came in it is read, along an index by time: its ids and titles
       together. When something came is what a list shows of it, however the clock was set since.

There is no index over words: SQLite's and PostgreSQL's differ in what they call a word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from duly.errors import Invalid
from duly.rules.day import Between
from duly.store.base import Transaction
from duly.store.people import LAST, page
from duly.store.trace import SEQ_MAX

LOOKED_MAX: Final = 10_000  # titles a page looks at
LOOKED_PER_STATEMENT: Final = 500
_ID: Final = "id"
_TITLE: Final = "title"
_TIME: Final = "time"
_BETWEEN: Final = "|"
# How many parts the place of each kind has, and how many of them, at its end, are numbers.
_PARTS: Final = {_ID: (3, 0), _TITLE: (2, 1), _TIME: (3, 2)}


@dataclass(frozen=True, slots=True)
class HitRow:
    """An event that was found."""

    workflow_id: str
    topic: str
    message_id: str
    title: str
    status: str
    seq: int
    created_at: int


@dataclass(frozen=True, slots=True)
class HitPage:
    """A page: where the next one begins, and how many titles this one looked at."""

    hits: tuple[HitRow, ...]
    after: str | None
    looked: int


@dataclass(frozen=True, slots=True)
class Sought:
    """What is looked for: a text, in one workflow or in all, at any time or within one.

    `show` is how a title is shown; what it hides is not found either (A5). `is_late` tells that
    the time for this page is over. Within a time an empty text is in everything.
    """

    text: str
    workflow_id: str | None
    show: Callable[[str], str]
    is_late: Callable[[], bool]
    between: Between | None = None


def find(tx: Transaction, wanted: Sought, *, limit: int = 100, after: str | None = None) -> HitPage:
    """Find events: first by message id, then by title; within a time by both at once."""
    if wanted.between is not None:
        return _find_between(tx, wanted, wanted.between, page(limit), after)
    kind, *place = (_ID, "", "", "") if after is None else _read_place(after, _ID, _TITLE)
    hits: list[HitRow] = []
    if kind == _ID:
        hits += _find_ids(tx, wanted, page(limit), *place)
        if len(hits) == limit:
            last = hits[-1]
            return HitPage(
                tuple(hits), _write_place(_ID, last.workflow_id, last.topic, last.message_id), 0
            )
        place = ["", ""]
    start = place[0] or wanted.workflow_id or LAST
    return _find_titles(tx, wanted, limit, hits, start, int(place[1] or SEQ_MAX))


def _find_ids(
    tx: Transaction, wanted: Sought, limit: int, workflow_id: str, topic: str, message_id: str
) -> list[HitRow]:
    rows = tx.all(
        "find_message_ids",
        workflow_id=wanted.workflow_id,
        text=wanted.text,
        end=wanted.text + LAST,
        after_workflow=workflow_id,
        after_topic=topic,
        after=message_id,
        limit=limit,
    )
    return [HitRow(*row) for row in rows]


def _find_titles(
    tx: Transaction, wanted: Sought, limit: int, hits: list[HitRow], workflow_id: str, before: int
) -> HitPage:
    looked, first = 0, wanted.workflow_id or ""
    while True:
        here = {"workflow_id": workflow_id, "before": before, "first": first}
        rows = tx.all("list_titles", **here, limit=LOOKED_PER_STATEMENT)
        for hit in (HitRow(*row) for row in rows):
            looked += 1
            workflow_id, before = hit.workflow_id, hit.seq
            if _is_wanted(wanted, hit):
                hits.append(hit)
            if len(hits) == limit:
                break
        is_over = len(rows) < LOOKED_PER_STATEMENT and len(hits) < limit
        if is_over or len(hits) == limit or looked >= LOOKED_MAX or wanted.is_late():
            after = None if is_over else _write_place(_TITLE, workflow_id, before)
            return HitPage(tuple(hits), after, looked)


def _find_between(
    tx: Transaction, wanted: Sought, between: Between, limit: int, after: str | None
) -> HitPage:
    """Look through what came within a time, one workflow after the other."""
    place = _begin_between(tx, wanted, between, after)
    hits: list[HitRow] = []
    looked = 0
    while place is not None:
        workflow_id, before_at, before = place
        here = {"workflow_id": workflow_id, "before_at": before_at, "before": before}
        times = {"first_at": between.first_at, "limit": LOOKED_PER_STATEMENT}
        rows = tx.all("list_titles_between", **here, **times)
        for hit in (HitRow(*row) for row in rows):
            looked += 1
            place = (workflow_id, hit.created_at, hit.seq)
            if hit.message_id.startswith(wanted.text) or _has_text(wanted, hit):
                hits.append(hit)
            if len(hits) == limit:
                return HitPage(tuple(hits), _write_place(_TIME, *place), looked)
        if len(rows) < LOOKED_PER_STATEMENT:
            is_last = wanted.workflow_id is not None
            place = None if is_last else _next_workflow(tx, between, workflow_id)
        if looked >= LOOKED_MAX or wanted.is_late():
            break
    return HitPage(tuple(hits), None if place is None else _write_place(_TIME, *place), looked)


def _begin_between(
    tx: Transaction, wanted: Sought, between: Between, after: str | None
) -> tuple[str, int, int] | None:
    """Return where a page begins: a workflow, a moment and a number; None if nothing came."""
    if after is not None:
        _, workflow_id, at, seq = _read_place(after, _TIME)
        return (wanted.workflow_id or workflow_id, *min((int(at), int(seq)), (between.end_at, 0)))
    if wanted.workflow_id is not None:
        return wanted.workflow_id, between.end_at, 0
    return _next_workflow(tx, between, LAST)


def _next_workflow(tx: Transaction, between: Between, before: str) -> tuple[str, int, int] | None:
    times = {"first_at": between.first_at, "end_at": between.end_at}
    found = tx.one("find_workflow_between", before=before, **times)
    return None if found is None else (str(found[0]), between.end_at, 0)


def _is_wanted(wanted: Sought, hit: HitRow) -> bool:
    """Tell whether the title has the text; what its message id begins with was found by that."""
    return not hit.message_id.startswith(wanted.text) and _has_text(wanted, hit)


def _has_text(wanted: Sought, hit: HitRow) -> bool:
    """Tell whether the title has the text, also as it is shown; upper case is as lower case."""
    text = wanted.text.casefold()
    return text in hit.title.casefold() and text in wanted.show(hit.title).casefold()


def _write_place(kind: str, *place: str | int) -> str:
    return _BETWEEN.join((kind, *map(str, place)))


def _read_place(after: str, *kinds: str) -> list[str]:
    kind, _, rest = after.partition(_BETWEEN)
    parts, numbers = _PARTS[kind] if kind in kinds else (0, 0)
    place = rest.split(_BETWEEN, parts - 1) if parts else []
    if not parts or len(place) != parts or not all(map(_is_number, place[parts - numbers :])):
        raise Invalid(code="wrong_value", path="after", facts={"wanted": "page_end"})
    return [kind, *place]


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= len(str(SEQ_MAX)) and int(text) <= SEQ_MAX
