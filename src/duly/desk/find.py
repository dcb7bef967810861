"""`find`: events by a text, in their message ids and titles, and by the day they came (U6)."""

from __future__ import annotations

from typing import Final

from duly.desk.base import HasDesk, find_history
from duly.desk.page import PAGE_DEFAULT, check_page, read_names
from duly.desk.record import Hit, Hits
from duly.desk.sight import Sight
from duly.errors import Invalid
from duly.rules.day import read_days
from duly.rules.event import EventStatus
from duly.rules.schedule import moment
from duly.rules.verb import question
from duly.store import people
from duly.store.base import Transaction
from duly.store.find import HitRow, Sought, find
from duly.store.people import TopicRow

TEXT_CHARS_MAX: Final = 500  # as long as a message id or a title can be
PAGE_MS_MAX: Final = 1_000


class Finds(HasDesk):
    """What a person asks who knows a word of it."""

    @question(cursor=("after",), follow=False, example={"text": "invoice 2026-001"})
    async def find(
        self,
        text: str = "",
        *,
        workflow: str | None = None,
        first_day: str | None = None,
        last_day: str | None = None,
        limit: int = PAGE_DEFAULT,
        after: str | None = None,
    ) -> Hits:
        """Find events whose message id begins with a text, or whose title has it.

        With `first_day` and `last_day`, such as 2026-05-31, only what came from the first day to
        the last one is found, in the time zone of the project; the text may then be empty. Duly
        looks through the newest titles first, at most 10,000 for a page; `after` continues.
        """
        # Rules: U6, G13.
        check_page(limit, after, str, path="after")
        desk = self._desk()
        between = read_days(first_day, last_day, desk.parts.policy.timezone)
        if not _is_findable(text) and (between is None or text != ""):
            most = {"least": 1, "most": TEXT_CHARS_MAX}
            raise Invalid(code="wrong_length", path="text", facts=most)
        sight = Sight.of(desk.parts)
        env = desk.parts.env
        ends_ms = env.monotonic_ms() + PAGE_MS_MAX

        def is_late() -> bool:
            return env.monotonic_ms() > ends_ms

        def look(tx: Transaction) -> Hits:
            found = None if workflow is None else find_history(tx, workflow).id
            wanted = Sought(text, found, sight.text, is_late, between)
            page = find(tx, wanted, limit=limit, after=after)
            names = read_names(tx, (each.workflow_id for each in page.hits))
            topics = people.list_topics_of(tx, {each.workflow_id for each in page.hits})
            hits = tuple(
                _hit(each, names[each.workflow_id], sight, topics[each.workflow_id, each.topic])
                for each in page.hits
            )
            return Hits(hits, page.after, page.looked)

        return await desk.ask(look)


def _is_findable(text: object) -> bool:
    if not isinstance(text, str) or not text.strip() or len(text) > TEXT_CHARS_MAX:
        return False
    return not any("\ud800" <= each <= "\udfff" for each in text)  # half a character


def _hit(row: HitRow, workflow: str, sight: Sight, topic: TopicRow) -> Hit:
    return Hit(
        workflow=workflow,
        topic=row.topic,
        message_id=row.message_id,
        title=sight.text(row.title),
        status=EventStatus(row.status),
        seq=row.seq,
        created_at=moment(row.created_at),
        is_output=not topic.is_work(row.seq),
    )
