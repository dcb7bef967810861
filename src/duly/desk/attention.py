"""What waits for a person, on the whole host (F8, U4, W9, R7, B5, A5).

Law 1  All that only a person can move on is listed, and nothing that the host moves on by itself.
Law 2  With everything that waits comes what the person can do about it, with the ids to give.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from duly.desk import offer
from duly.desk.account import Book
from duly.desk.base import Desk, HasDesk
from duly.desk.explanation import Explainer
from duly.desk.journal import explain_held
from duly.desk.page import PAGE_DEFAULT, check_page
from duly.desk.record import Attention
from duly.desk.sight import Sight, known_only
from duly.fact import Offer, Reason
from duly.rules.account import Waiting, is_silent
from duly.rules.blind import blind_facts
from duly.rules.count import Count, noun_of_topic
from duly.rules.delivery import DeliveryStatus
from duly.rules.proposal import is_by_model
from duly.rules.schedule import DAY_MS, moment
from duly.rules.standing import Code, needs_person
from duly.rules.verb import question
from duly.store import bus, people, proposal
from duly.store.base import Transaction
from duly.store.people import PAGE_ROWS_MAX, StrayRow
from duly.store.record import RunRow, WorkflowRow
from duly.store.survey import OLDEST_MAX, Survey
from duly.store.trace import COUNT_MAX

TITLES_SHOWN: Final = 5  # of what waits together so many are named


class Attentions(HasDesk):
    """The question of a person who comes to help."""

    @question(cursor=("key",), example={})
    async def attention(
        self, *, limit: int = PAGE_DEFAULT, after: str | None = None
    ) -> tuple[Attention, ...]:
        """List everything that waits for a person, by workflow.

        Entries without a workflow come first, with an empty name.
        """
        # Rules: F8.
        check_page(limit, after, str, path="after")
        desk = self._desk()
        sight = Sight.of(desk.parts)

        def look(tx: Transaction) -> tuple[Attention, ...]:
            people.page(limit)
            found: list[Attention] = []
            for each in walk_attention(tx, desk, sight, after or ""):
                found.append(each)
                if len(found) == limit:
                    break
            return tuple(found)

        return await desk.ask(look)

    @question(example={})
    async def attention_count(self) -> int:
        """Count what waits for a person; 1000 means 1000 or more.

        A list of `attention` may show fewer; this is how many there are.
        """
        # Rules: F8, G9.
        desk = self._desk()
        sight = Sight.of(desk.parts)

        def look(tx: Transaction) -> int:
            return sum(1 for _ in islice(walk_attention(tx, desk, sight, ""), PAGE_ROWS_MAX))

        return await desk.ask(look)


def walk_attention(
    tx: Transaction, desk: Desk, sight: Sight, after: str, survey: Survey | None = None
) -> Iterator[Attention]:
    """Go through the workflows by name; a key begins with the name of its workflow.

    A survey that a caller has made is used again: then its workflows are all that are looked at.
    """
    if not after.partition("/")[0]:
        ours = (
            *_undelivered(tx, sight),
            *_sources(tx, sight),
            *_held(tx),
            *_unreadable(tx, desk, sight),
            *_unmade(desk, sight),
        )
        yield from (each for each in ours if each.key > after)
    strays: dict[str, list[StrayRow]] = {}
    for each in people.list_strays(tx, limit=PAGE_ROWS_MAX):
        strays.setdefault(each.workflow_id, []).append(each)
    first = after.partition("/")[0]
    for looked in _walk_workflows(tx, first) if survey is None else (survey,):
        for workflow in looked.workflows.values():
            for entry in _attend(looked, sight, workflow, strays.get(workflow.id, [])):
                if entry.workflow != first or entry.key > after:
                    yield entry


def _walk_workflows(tx: Transaction, first: str) -> Iterator[Survey]:
    """Go through the workflows by name, many at a time, beginning with the one of a name."""
    begun = people.find_workflow(tx, first) if first else None
    page: tuple[WorkflowRow, ...] = () if begun is None else (begun,)
    while page := (*page, *people.list_workflows(tx, limit=PAGE_ROWS_MAX, after=first)):
        yield Survey(tx, page)
        first, page = page[-1].name, ()


def _attend(
    survey: Survey, sight: Sight, workflow: WorkflowRow, strays: list[StrayRow]
) -> Iterator[Attention]:
    """List what waits for a person in one workflow, in the order of the keys."""
    run = survey.run(workflow.id)
    if run is not None:
        told = Explainer(survey, sight, workflow, run)
        if needs_person(told.facts):
            yield _open(told, workflow, run)
    book = Book(survey, sight, workflow)
    yield from _orphaned(book, sight, workflow)
    yield from _proposed(survey, workflow)
    yield from _restored(survey, workflow)
    yield from _silent(survey, sight, workflow)
    yield from _stale(book, sight, workflow)
    if strays:
        yield _stray(sight, workflow, strays)


def _open(told: Explainer, workflow: WorkflowRow, run: RunRow) -> Attention:
    why = told.open()
    return Attention(
        workflow=workflow.name,
        reason=why.reason,
        titles=why.inputs,
        claimed=why.claimed,
        observed=why.observed,
        # A pause moves nothing on.
        offers=tuple(each for each in why.offers if each.verb != "pause"),
        since=moment(run.updated_at),
        key=f"{workflow.name}/open",
        script=why.script,
    )


def _entry(
    workflow: WorkflowRow | None,
    key: str,
    reason: Reason,
    since_ms: int,
    *,
    titles: tuple[str, ...] = (),
    offers: Iterable[Offer] = (),
) -> Attention:
    """Make an entry that is about no call."""
    name = "" if workflow is None else workflow.name
    since = moment(since_ms)
    return Attention(name, reason, titles, None, None, tuple(offers), since, f"{name}/{key}")


def _orphaned(book: Book, sight: Sight, workflow: WorkflowRow) -> Iterator[Attention]:
    for topic, count in sorted(book.orphaned().items()):
        oldest = book.oldest(topic)
        titles = sight.texts(each.title for each in oldest)
        facts = {
            "counts": (_count(count, topic),),
            "oldest": titles[0],
            "version": str(workflow.active_version),
        }
        yield _entry(
            workflow,
            f"orphaned/{topic}",
            Reason(Waiting.ORPHANED, workflow.name, facts),
            oldest[0].created_at,
            titles=titles,
            offers=(
                *(offer.skip(workflow.name, topic, each.message_id) for each in oldest),
                offer.deploy(),
            ),
        )


def _proposed(survey: Survey, workflow: WorkflowRow) -> Iterator[Attention]:
    found = survey.proposed(workflow.id)
    if found is not None:
        facts = {"version": found.version, "since": moment(found.created_at)}
        reason = Reason(Waiting.PROPOSAL, workflow.name, facts)
        offers = offer.adopt(workflow.name, str(workflow.active_version), found.version)
        yield _entry(workflow, "proposal", reason, found.created_at, offers=offers)


def _restored(survey: Survey, workflow: WorkflowRow) -> Iterator[Attention]:
    copied = workflow.blind_since
    if workflow.paused and copied is not None:
        cause = survey.blind_cause(workflow)
        reason = Reason(Code(cause), workflow.name, blind_facts(copied, cause))
        offers = (offer.on_workflow("resume", workflow.name),)
        yield _entry(workflow, "restored", reason, copied, offers=offers)


def _silent(survey: Survey, sight: Sight, workflow: WorkflowRow) -> Iterator[Attention]:
    """Say that nothing came in for longer than a person expects; one who paused it expects none."""
    policy = sight.policy.workflows.get(workflow.name)
    days = None if policy is None else policy.silent_after_days
    if days is None or workflow.paused:
        return
    newest = survey.newest_input(workflow.id)
    since = workflow.created_at if newest is None else newest
    if is_silent(since, sight.now_ms, days):
        facts = {"days": days, "since": moment(since)}
        reason = Reason(Waiting.SILENT, workflow.name, facts)
        is_free = survey.run(workflow.id) is None  # else what waits says what to do (S7)
        offers = (offer.on_workflow("run_now", workflow.name),) if is_free else ()
        yield _entry(workflow, "silent", reason, since + days * DAY_MS, offers=offers)


def _stale(book: Book, sight: Sight, workflow: WorkflowRow) -> Iterator[Attention]:
    counts = book.stale()
    if not counts:
        return
    rows = sorted((row for topic in counts for row in book.oldest(topic)), key=lambda row: row.seq)[
        :OLDEST_MAX
    ]
    titles = sight.texts(each.title for each in rows)
    facts = {
        "counts": tuple(_count(count, topic) for topic, count in sorted(counts.items())),
        "days": sight.policy.stale_after_days,
        "oldest": titles[0],
        "since": moment(rows[0].created_at),
    }
    reason = Reason(Waiting.STALE, workflow.name, facts)
    offers = (offer.skip(workflow.name, each.topic, each.message_id) for each in rows)
    yield _entry(workflow, "stale", reason, rows[0].created_at, titles=titles, offers=offers)


def _stray(sight: Sight, workflow: WorkflowRow, strays: list[StrayRow]) -> Attention:
    rows = strays[:TITLES_SHOWN]
    titles = sight.texts(each.title for each in rows)
    reason = Reason(Waiting.STRAY, workflow.name, {"inputs": titles})
    # Skipping it would have to end a run that is over, which no rule allows.
    offers = (offer.verify(),)
    return _entry(workflow, "stray", reason, rows[0].created_at, titles=titles, offers=offers)


# -- Of no workflow -----------------------------------------------------------------------------


def _undelivered(tx: Transaction, sight: Sight) -> Iterator[Attention]:
    """List what the bus gave up, as one entry (B5)."""
    found = bus.list_deliveries(tx, status=DeliveryStatus.DEAD, limit=PAGE_ROWS_MAX)
    if found:
        first = found[0]
        count = Count(len(found), "delivery", is_more=len(found) == PAGE_ROWS_MAX)
        facts = {
            "counts": (count,),
            "receiver": sight.text(first.subscriber_id),
            "error": sight.text(first.error or ""),
        }
        offers = (
            made
            for each in found[:TITLES_SHOWN]
            for made in offer.deliver(each.event_id, each.subscriber_id)
        )
        since_ms = bus.read_event(tx, first.event_id).created_at
        reason = Reason(Waiting.UNDELIVERED, "bus", known_only(facts))
        yield _entry(None, "bus", reason, since_ms, offers=offers)


def _sources(tx: Transaction, sight: Sight) -> Iterator[Attention]:
    """List the sources that an agent proposed and that can still be adopted (M6)."""
    found = [each for each in proposal.list_proposals(tx) if each.is_current]
    for each in sorted(found, key=lambda row: row.hash):
        facts = {
            "workflow": sight.text(each.workflow),
            "author": sight.text(each.author),
            "since": moment(each.created_at),
            "note": sight.text(each.note),
            "replaces": each.replaces,
        }
        reason = Reason(Waiting.PROPOSED_SOURCE, each.hash, known_only(facts))
        is_a_models = is_by_model(each.author)
        offers = offer.decide_on(each.workflow, each.hash, is_seen_first=is_a_models)
        yield _entry(None, f"propose/{each.hash}", reason, each.created_at, offers=offers)


def _held(tx: Transaction) -> Iterator[Attention]:
    """Say that the bus came back out of a backup and delivers nothing (H5)."""
    since = bus.held_since(tx)
    if since is not None:
        reason = explain_held(tx, since)
        yield _entry(None, "restored", reason, since, offers=(offer.resume_bus(),))


def _unreadable(tx: Transaction, desk: Desk, sight: Sight) -> Iterator[Attention]:
    """List the secrets that cannot be read, as one entry; since when is not written down (A5)."""
    vault = desk.vault
    rows = () if vault is None else people.list_secrets(tx)
    found = [each for each in rows if vault and vault.problem(each.connector, each.name)]
    if found:
        facts = {
            "counts": (Count(len(found), "secret"),),
            "connection": found[0].connector,
            "secret": found[0].name,
        }
        offers = (
            made
            for each in found[:TITLES_SHOWN]
            for made in offer.replace_secret(each.connector, each.name)
        )
        reason = Reason(Waiting.UNREADABLE, found[0].connector, facts)
        yield _entry(None, "secret", reason, sight.now_ms, offers=offers)


def _unmade(desk: Desk, sight: Sight) -> Iterator[Attention]:
    """Say that no scheduled backup can be made (H5)."""
    if desk.unmade is not None:
        facts = {
            "folder": desk.unmade.folder,
            "error": sight.text(desk.unmade.error),
            "since": moment(desk.unmade.since),
        }
        reason = Reason(Waiting.NO_BACKUP, "backup", facts)
        yield _entry(None, "backup", reason, desk.unmade.since, offers=(offer.verify(),))


def _count(count: int, topic: str) -> Count:
    return Count(min(count, COUNT_MAX), noun_of_topic(topic), is_more=count > COUNT_MAX)
