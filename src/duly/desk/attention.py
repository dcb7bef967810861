"""What waits for a person, on the whole host (F8, U4, W9, R7, B5, A5).

Law 1  Whatever only a person can move on is listed, and nothing that the host moves on by itself.
Law 2  Whoever is told that something waits for them is told what they can do, with the ids to give.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from duly.desk import offer
from duly.desk.account import Book
from duly.desk.base import Desk, HasDesk
from duly.desk.explanation import Told, say_paused
from duly.desk.page import PAGE_DEFAULT, check_page
from duly.desk.record import Attention, Offer
from duly.desk.sight import Sight
from duly.rules import account, explanation, standing
from duly.rules.delivery import DeliveryStatus
from duly.rules.schedule import moment
from duly.rules.standing import Count
from duly.rules.verb import question
from duly.rules.word import Act
from duly.store import bus, due, event, people
from duly.store.base import Transaction
from duly.store.people import PAGE_ROWS_MAX, StrayRow
from duly.store.record import EventRow, RunRow, WorkflowRow
from duly.store.trace import COUNT_MAX

TITLES_SHOWN: Final = 5  # of what waits together so many are named
WORKFLOWS_AT_ONCE: Final = 100


class Attentions(HasDesk):
    """The question of somebody who comes to help."""

    @question(example={})
    async def attention(
        self, *, limit: int = PAGE_DEFAULT, after: str | None = None
    ) -> tuple[Attention, ...]:
        """List everything that waits for a person, by workflow, from behind a `key` (F8).

        What is of no workflow comes first, with an empty name.
        """
        check_page(limit, after, str)
        desk = self._desk()
        sight = Sight.of(desk.parts)

        def look(tx: Transaction) -> tuple[Attention, ...]:
            people.page(limit)
            found: list[Attention] = []
            for each in _walk_attention(tx, desk, sight, after or ""):
                found.append(each)
                if len(found) == limit:
                    break
            return tuple(found)

        return await desk.ask(look)


def _walk_attention(tx: Transaction, desk: Desk, sight: Sight, after: str) -> Iterator[Attention]:
    """Go through the workflows by name; a key begins with the name of its workflow."""
    if not after.partition("/")[0]:
        ours = (*_undelivered(tx, sight), *_held(tx, sight), *_unreadable(tx, desk, sight))
        yield from (each for each in ours if each.key > after)
    strays: dict[str, list[StrayRow]] = {}
    for each in people.list_strays(tx, limit=PAGE_ROWS_MAX):
        strays.setdefault(each.workflow_id, []).append(each)
    for workflow in _walk_workflows(tx, after.partition("/")[0]):
        for entry in _attend(tx, sight, workflow, strays.get(workflow.id, [])):
            if entry.workflow != after.partition("/")[0] or entry.key > after:
                yield entry


def _walk_workflows(tx: Transaction, first: str) -> Iterator[WorkflowRow]:
    begun = people.find_workflow(tx, first)
    if begun is not None:
        yield begun
    while page := people.list_workflows(tx, limit=WORKFLOWS_AT_ONCE, after=first):
        yield from page
        first = page[-1].name


def _attend(
    tx: Transaction, sight: Sight, workflow: WorkflowRow, strays: list[StrayRow]
) -> Iterator[Attention]:
    """List what waits for a person in one workflow, in the order of the keys."""
    open_run = due.outlook(tx, workflow.id).open_run
    if open_run is not None:
        run = people.get_run(tx, open_run.run_id)
        told = Told(tx, sight, workflow, run, people.find_held_mutation(tx, run.id))
        if explanation.needs_person(told.facts, told.way):
            yield _open(told, workflow, run)
    book = Book(tx, sight, workflow)
    yield from _orphaned(book, sight, workflow)
    yield from _proposed(tx, sight, workflow)
    yield from _restored(tx, sight, workflow)
    yield from _stale(book, sight, workflow)
    if strays:
        yield _stray(tx, sight, workflow, strays)


def _open(told: Told, workflow: WorkflowRow, run: RunRow) -> Attention:
    why = told.open()
    return Attention(
        workflow=workflow.name,
        sentence=why.sentence,
        titles=why.inputs,
        claimed=why.claimed,
        observed=why.observed,
        # Whoever pauses moves nothing on.
        offers=tuple(each for each in why.offers if each.verb != Act.PAUSE),
        since=moment(run.updated_at),
        key=f"{workflow.name}/open",
    )


def _entry(
    workflow: WorkflowRow | None,
    kind: str,
    sentence: str,
    since_ms: int,
    *,
    titles: tuple[str, ...] = (),
    offers: tuple[Offer, ...] = (),
) -> Attention:
    """Make an entry that is about no call."""
    name = "" if workflow is None else workflow.name
    key = f"{name}/{kind}"
    since = moment(since_ms)
    return Attention(name, sentence, titles, None, None, offers, since, key)


def _orphaned(book: Book, sight: Sight, workflow: WorkflowRow) -> Iterator[Attention]:
    for topic, count in sorted(book.orphaned().items()):
        oldest = book.oldest(topic, TITLES_SHOWN)
        titles = sight.texts(each.title for each in oldest)
        sentence = account.explain_orphaned(
            _count(count, topic), titles[0], str(workflow.active_version)
        )
        yield _entry(
            workflow,
            f"orphaned/{topic}",
            sentence,
            oldest[0].created_at,
            titles=titles,
            offers=(
                *(offer.skip(workflow.name, topic, each.message_id) for each in oldest),
                offer.deploy(workflow.name),
            ),
        )


def _proposed(tx: Transaction, sight: Sight, workflow: WorkflowRow) -> Iterator[Attention]:
    found = people.find_proposed_version(tx, workflow)
    if found is not None:
        sentence = account.explain_proposal(found.version, sight.moment(found.created_at))
        offers = offer.adopt(workflow.name, str(workflow.active_version), found.version)
        yield _entry(workflow, "proposal", sentence, found.created_at, offers=offers)


def _restored(tx: Transaction, sight: Sight, workflow: WorkflowRow) -> Iterator[Attention]:
    if workflow.paused and workflow.blind_since is not None:
        sentence = account.explain_restored(say_paused(tx, sight, workflow))
        offers = (offer.on_workflow("resume", workflow.name),)
        yield _entry(workflow, "restored", sentence, workflow.blind_since, offers=offers)


def _stale(book: Book, sight: Sight, workflow: WorkflowRow) -> Iterator[Attention]:
    counts = book.stale()
    if not counts:
        return
    rows = sorted(
        (row for topic in counts for row in book.oldest(topic, TITLES_SHOWN)),
        key=lambda row: row.seq,
    )[:TITLES_SHOWN]
    titles = sight.texts(each.title for each in rows)
    sentence = account.explain_stale(
        ", ".join(_count(count, topic) for topic, count in sorted(counts.items())),
        sight.policy.stale_after_days,
        titles[0],
        sight.moment(rows[0].created_at),
    )
    offers = tuple(offer.skip(workflow.name, each.topic, each.message_id) for each in rows)
    yield _entry(workflow, "stale", sentence, rows[0].created_at, titles=titles, offers=offers)


def _stray(
    tx: Transaction, sight: Sight, workflow: WorkflowRow, strays: list[StrayRow]
) -> Attention:
    rows: list[EventRow] = []
    for each in strays[:TITLES_SHOWN]:
        rows += event.get_by_ids(tx, workflow.id, each.topic, (each.message_id,))
    titles = sight.texts(each.title for each in rows)
    sentence = account.explain_stray(titles)
    # Skipping it would have to end a run that is over, which no rule allows.
    offers = (offer.verify(),)
    return _entry(workflow, "stray", sentence, rows[0].created_at, titles=titles, offers=offers)


# -- Of no workflow -----------------------------------------------------------------------------


def _undelivered(tx: Transaction, sight: Sight) -> Iterator[Attention]:
    """List what the bus gave up, as one entry (B5)."""
    found = bus.list_deliveries(tx, status=DeliveryStatus.DEAD, limit=PAGE_ROWS_MAX)
    if found:
        first = found[0]
        count = str(Count(len(found), "delivery", is_more=len(found) == PAGE_ROWS_MAX))
        error = sight.text(first.error or "")
        sentence = account.explain_undelivered(count, sight.text(first.subscriber_id), error)
        shown = found[:TITLES_SHOWN]
        offers = (
            made for each in shown for made in offer.deliver(each.event_id, each.subscriber_id)
        )
        since_ms = bus.read_event(tx, first.event_id).created_at
        yield _entry(None, "bus", sentence, since_ms, offers=tuple(offers))


def _held(tx: Transaction, sight: Sight) -> Iterator[Attention]:
    """Say that the bus came back out of a backup and tells nobody anything (H5)."""
    since = bus.held_since(tx)
    if since is not None:
        sentence = account.explain_held(f"{sight.moment(since)} ({sight.policy.timezone})")
        yield _entry(None, "restored", sentence, since, offers=(offer.resume_bus(),))


def _unreadable(tx: Transaction, desk: Desk, sight: Sight) -> Iterator[Attention]:
    """List the secrets nobody can read, as one entry; since when is not written down (A5)."""
    vault = desk.vault
    rows = () if vault is None else people.list_secrets(tx)
    found = [each for each in rows if vault and vault.problem(each.connector, each.name)]
    if found:
        count = str(Count(len(found), "secret"))
        sentence = account.explain_unreadable(count, found[0].connector, found[0].name)
        shown = found[:TITLES_SHOWN]
        offers = (
            made for each in shown for made in offer.replace_secret(each.connector, each.name)
        )
        yield _entry(None, "secret", sentence, sight.now_ms, offers=tuple(offers))


def _count(count: int, topic: str) -> str:
    noun = standing.noun_of_topic(topic)
    return str(Count(min(count, COUNT_MAX), noun, is_more=count > COUNT_MAX))
