"""The exam of deliveries: recover, begin, finish, discard, retry, what can be begun (B, T10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.errors import Invalid, NotFound, RequestRefused, Stale
from duly.rules.delivery import Delivery, DeliveryStatus, JournalStatus
from duly.store.delivery import Begun, Finished, Reach, Recovered
from duly.store.due import BusOutlook
from duly.store.ingress import IngressTopic
from duly.store.lane import OpenDelivery
from duly.store.record import Action
from tests.store.exam import NOW, Again, Call, Case, ReadCase, Refusal, Trial, World, exam
from tests.store.post import (
    A_MINUTE,
    A_SECOND,
    BOTH,
    FIRST,
    NEWS,
    SAID,
    SECOND,
    begun,
    dead,
    deferred,
    delivered,
    emitted,
    ingress,
    left_behind,
    listened,
    mixed,
    statuses,
)
from tests.store.scene import WORKFLOW, deployment

# -- Recover, begin, finish ---------------------------------------------------------------------


async def _it_is_given_back(world: World, answer: Any) -> None:
    assert answer == Recovered(events=1, promoted=3)
    assert await statuses(world) == ["pending"] * 5
    first, second = await world.store.list_deliveries()
    # What failed waits on; what died is counted, and due at once.
    assert (first.status, first.attempts, first.due_at_ms) == ("waiting", 1, NOW + A_SECOND)
    assert (second.status, second.attempts, second.due_at_ms) == ("waiting", 1, NOW + A_MINUTE)


RECOVER = Case(
    verb="recover_bus",
    arrange=left_behind,
    call=lambda world: world.store.recover_bus(now=NOW + A_MINUTE),
    effect=_it_is_given_back,
    never_refuses="whatever state a host left, the next one begins with it",
    again=Again.NOTHING,
)


async def _it_is_given_back_uncounted(world: World, answer: Any) -> None:
    assert answer == 1
    assert await delivered(world) == [(1, FIRST, "waiting", 0), (1, SECOND, "waiting", 0)]


GIVE_BACK = Case(
    verb="give_back_running",
    arrange=begun,
    call=lambda world: world.store.give_back_running({FIRST}, {(1, SECOND)}, now=NOW),
    effect=_it_is_given_back_uncounted,
    never_refuses="a stop ends whatever it finds",
    again=Again.NOTHING,
)


async def _what_has_ended_is_kept(world: World, answer: Any) -> None:
    assert answer == 0
    assert await delivered(world) == [(1, FIRST, "running", 1), (1, SECOND, "waiting", 0)]


GIVE_BACK_NONE = Case(
    verb="give_back_running",
    says="of an event whose handler has ended",
    arrange=begun,
    call=lambda world: world.store.give_back_running({FIRST}, {(1, FIRST)}, now=NOW),
    effect=_what_has_ended_is_kept,
    again=Again.SAME,
)


GIVE_BACK_OTHERS = Case(
    verb="give_back_running",
    says="for a subscriber that another delivery runs for",
    arrange=begun,
    call=lambda world: world.store.give_back_running({SECOND}, now=NOW),
    effect=_what_has_ended_is_kept,
    again=Again.SAME,
)


def begin(event_id: int, connected: frozenset[str] = BOTH, host: str | None = None) -> Call:
    """Call the verb for an event."""
    return lambda world: world.store.begin_delivery(event_id, connected, now=NOW, host=host)


async def _the_first_is_called(world: World, answer: Any) -> None:
    assert isinstance(answer, Begun)
    assert answer.delivery == Delivery(1, "mail", FIRST, 1, DeliveryStatus.RUNNING, 1, NOW)
    assert answer.event is not None
    assert (answer.event.id, answer.event.payload) == (1, {"text": "hello"})
    assert (answer.event.created_at, answer.event.status) == (NOW / 1000, "processing")
    assert (answer.status, answer.depth) == (JournalStatus.PROCESSING, 2)
    assert await delivered(world) == [(1, FIRST, "running", 1), (1, SECOND, "waiting", 0)]
    assert await statuses(world) == ["processing", "pending"]


BEGIN = Case(
    verb="begin_delivery",
    arrange=emitted,
    call=begin(1),
    effect=_the_first_is_called,
    refusals=(
        Refusal("an event nobody emitted", NotFound, call=begin(9)),
        Refusal("a later event before an earlier one", Stale, call=begin(2)),
        Refusal("handlers that are gone since", Stale, broken=begin(1), call=begin(1, frozenset())),
        Refusal(
            "a host that does not hold it", Stale, broken=begin(1), call=begin(1, host="host_2")
        ),
    ),
    again=Again.STALE,
)


async def _nobody_was_told(world: World, answer: Any) -> None:
    assert answer == Begun(JournalStatus.DONE)
    (row,) = await world.store.list_journal()
    assert (row.status, row.undelivered, row.processed_at) == ("done", 1, NOW)
    assert await world.store.list_deliveries() == ()


async def unwanted(world: World) -> None:
    """An event nobody subscribes to."""
    await world.store.emit(NEWS, now=NOW)


CLOSE = Case(
    verb="begin_delivery",
    says="of an event nobody wants",
    arrange=unwanted,
    call=begin(1),
    effect=_nobody_was_told,
    again=Again.STALE,
)


async def _it_waits_for_both(world: World, answer: Any) -> None:
    assert answer == Begun(JournalStatus.PENDING)
    assert await statuses(world) == ["pending", "pending"]
    assert await delivered(world) == [(1, FIRST, "waiting", 0), (1, SECOND, "waiting", 0)]


LEAVE = Case(
    verb="begin_delivery",
    says="of an event whose subscribers are somewhere else",
    arrange=emitted,
    call=begin(1, frozenset()),
    effect=_it_waits_for_both,
    again=Again.STALE,
)


def finish(error: str | None = None, *, attempt: int = 1, into: str = "") -> Call:
    """Call the verb for the first attempt at the first event."""
    way = ingress(into) if into else None
    return lambda world: world.store.finish_delivery(
        1, FIRST, attempt, error=error, ingress=way, now=NOW
    )


async def _it_is_done(world: World, answer: Any) -> None:
    done = Delivery(1, "mail", FIRST, 1, DeliveryStatus.DONE, 1, NOW)
    assert answer == Finished(done, JournalStatus.PROCESSING)
    assert await delivered(world) == [(1, FIRST, "done", 1), (1, SECOND, "waiting", 0)]


FINISH = Case(
    verb="finish_delivery",
    arrange=begun,
    call=finish(),
    effect=_it_is_done,
    refusals=(
        Refusal("an attempt that is not the last", Stale, call=finish(attempt=2)),
        Refusal("an attempt that ended otherwise", Stale, broken=finish("it rained")),
        Refusal(
            "an attempt given back at a start",
            Stale,
            broken=lambda world: world.store.recover_bus(now=NOW),
        ),
        Refusal(
            "a delivery nobody opened",
            NotFound,
            call=lambda world: world.store.finish_delivery(2, FIRST, 1, now=NOW),
        ),
    ),
    again=Again.SAME,
)


async def _the_next_is_begun(world: World, answer: Any) -> None:
    assert answer.next.delivery == Delivery(2, "mail", FIRST, 1, DeliveryStatus.RUNNING, 1, NOW)
    assert (answer.next.event.id, answer.next.depth) == (2, 2)
    assert answer.free == (OpenDelivery(1, SECOND),)
    assert await delivered(world) == [
        (1, FIRST, "done", 1),
        (1, SECOND, "waiting", 0),
        (2, FIRST, "running", 1),
        (2, SECOND, "waiting", 0),
    ]
    assert await statuses(world) == ["processing", "processing"]


FOLLOW = Case(
    verb="finish_delivery",
    says="and begin the next of the lane",
    arrange=begun,
    call=lambda world: world.store.finish_delivery(1, FIRST, 1, reach=Reach(BOTH, 2), now=NOW),
    effect=_the_next_is_begun,
    again=Again.NOTHING,
)


async def _it_waits(world: World, answer: Any) -> None:
    assert answer.delivery.status is DeliveryStatus.WAITING
    assert answer.delivery.due_at_ms == NOW + A_SECOND
    event = (await world.store.list_journal())[-1]
    assert (event.status, event.error) == ("processing", f"{FIRST}: it rained")


FAIL = Case(
    verb="finish_delivery",
    says="with an error",
    arrange=begun,
    call=finish("it rained"),
    effect=_it_waits,
    refusals=(
        Refusal("another error", Stale, broken=finish("it rained"), call=finish("it snowed")),
    ),
    again=Again.SAME,
)


async def _it_is_in_the_workflow(world: World, answer: Any) -> None:
    assert answer.delivery.status is DeliveryStatus.DONE
    (event,) = await world.store.list_events(WORKFLOW)
    assert (event.topic, event.message_id, event.title) == ("letters", "bus:1", "hello")
    assert event.created_by == "bus:1"


async def _drop_the_topic(world: World) -> None:
    action = Action("action_drop", "ada", "deploy")
    bare = deployment("2.0", "1.0", handlers=(), topics=())
    await world.store.deploy(bare, successor_id="run_0", action=action, now=NOW)


ENTER = Case(
    verb="finish_delivery",
    says="into a workflow",
    arrange=listened,
    call=finish(into="letters"),
    effect=_it_is_in_the_workflow,
    refusals=(
        Refusal("a topic that does not listen", Invalid, call=finish(into="deaf")),
        Refusal("a topic nobody declared", NotFound, call=finish(into="nowhere")),
        Refusal("a topic that was dropped", NotFound, broken=_drop_the_topic),
    ),
    again=Again.SAME,
)


# -- Decide: discard, retry ---------------------------------------------------------------------


def discard(subscriber_id: str) -> Call:
    """Call the verb for a delivery of the first event."""
    return lambda world: world.store.discard(1, subscriber_id, action=SAID, now=NOW + 1)


def retry(subscriber_id: str) -> Call:
    """Call the verb for a delivery of the first event."""
    return lambda world: world.store.retry_delivery(1, subscriber_id, action=SAID, now=NOW + 1)


async def _it_is_discarded(world: World, answer: Any) -> None:
    assert answer is JournalStatus.FAILED
    assert await delivered(world) == [(1, FIRST, "done", 1), (1, SECOND, "discarded", 1)]
    event = (await world.store.list_journal())[-1]
    assert (event.error, event.processed_at) == (f"{SECOND}: it rained", NOW)
    (action,) = await world.store.list_actions()
    assert (action.by, action.target, action.at) == ("ada", f"1/{SECOND}", NOW + 1)


DISCARD = Case(
    verb="discard",
    arrange=dead,
    call=discard(SECOND),
    effect=_it_is_discarded,
    refusals=(
        Refusal(
            "a delivery that is done", RequestRefused, call=discard(FIRST), match="only a dead"
        ),
        Refusal("a delivery nobody opened", NotFound, call=discard("third")),
    ),
    again=Again.REFUSED,
)


async def _it_is_open_again(world: World, answer: Any) -> None:
    assert answer is JournalStatus.PROCESSING
    assert await delivered(world) == [(1, FIRST, "done", 1), (1, SECOND, "waiting", 0)]
    event = (await world.store.list_journal())[-1]
    assert (event.status, event.processed_at) == ("processing", None)
    assert len(await world.store.list_actions()) == 1


RETRY = Case(
    verb="retry_delivery",
    arrange=dead,
    call=retry(SECOND),
    effect=_it_is_open_again,
    refusals=(
        Refusal("a delivery that is done", RequestRefused, call=retry(FIRST), match="only a dead"),
        Refusal("a delivery nobody opened", NotFound, call=retry("third")),
        Refusal(
            "a subscriber that is gone",
            RequestRefused,
            broken=lambda world: world.store.unsubscribe(SECOND, now=NOW),
            match="Discard",
        ),
    ),
    again=Again.REFUSED,
)


# -- What can be begun --------------------------------------------------------------------------


async def _oldest_first(world: World, answer: Any) -> None:
    assert answer == (OpenDelivery(2, FIRST), OpenDelivery(3, None))


async def _one_at_a_time(world: World) -> None:
    first = await world.store.open_deliveries(BOTH, now=NOW, limit=1)
    assert first == (OpenDelivery(2, FIRST),)
    await world.store.begin_delivery(2, BOTH, now=NOW)
    await world.store.begin_delivery(3, BOTH, now=NOW)
    assert await world.store.open_deliveries(BOTH, now=NOW, limit=1) == ()


OPEN = ReadCase(
    verb="open_deliveries",
    arrange=mixed,
    call=lambda world: world.store.open_deliveries(BOTH, now=NOW, limit=100),
    effect=_oldest_first,
    refusals=(
        Refusal(
            "a limit of none",
            Invalid,
            call=lambda world: world.store.open_deliveries(BOTH, now=NOW, limit=0),
        ),
    ),
    edge=_one_at_a_time,
)


def look(connected: frozenset[str] = BOTH, *, now: int = NOW, limit: int = 100) -> Call:
    """Ask what the bus can do."""
    return lambda world: world.store.bus_outlook(connected, now=now, limit=limit)


LETTERS = IngressTopic(WORKFLOW, "letters", "mail")


async def _nothing_beside_the_one_that_runs(world: World, answer: Any) -> None:
    assert answer == BusOutlook((), (LETTERS,), newest_id=2, is_overdue=False, next_at=None)


async def _times_to_come(world: World) -> None:
    await world.store.finish_delivery(1, FIRST, 1, error="it rained", now=NOW)
    await deferred(world)
    first = await look()(world)
    assert (first.is_overdue, first.next_at) == (False, NOW + A_SECOND)
    assert first.deliveries == (OpenDelivery(1, LETTERS.subscriber_id),)
    later = await look(now=NOW + A_SECOND)(world)
    assert (later.is_overdue, later.next_at) == (True, None)
    await world.store.emit(NEWS, now=NOW)
    assert len((await look()(world)).deliveries) == 2
    assert len((await look(limit=1)(world)).deliveries) == 1


LOOK = ReadCase(
    verb="bus_outlook",
    arrange=listened,
    call=look(),
    effect=_nothing_beside_the_one_that_runs,
    refusals=(Refusal("a limit of none", Invalid, call=look(limit=0)),),
    edge=_times_to_come,
)


@pytest.mark.parametrize("trial", exam(RECOVER))
async def test_recovery_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """B7: a start gives back what was being processed, and twice gives the same state."""
    await trial.sit(tmp_path)


@pytest.mark.parametrize(
    "trial", exam(BEGIN, FINISH, FAIL, FOLLOW, GIVE_BACK, GIVE_BACK_NONE, GIVE_BACK_OTHERS, OPEN)
)
async def test_deliveries_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """B4, B5, B6: an attempt counts before it runs, in order, and is recorded once."""
    await trial.sit(tmp_path)


@pytest.mark.parametrize("trial", exam(CLOSE))
async def test_an_event_nobody_wants_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """B11: it ends done, undelivered, once."""
    await trial.sit(tmp_path)


@pytest.mark.parametrize("trial", exam(LEAVE))
async def test_an_event_for_somebody_else_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """B13: it is opened for those who are not here, in sight, and nobody is called."""
    await trial.sit(tmp_path)


@pytest.mark.parametrize("trial", exam(LOOK))
async def test_the_look_of_the_bus_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """B2, B6, T10: what can be done now, for whom, and when there will be more."""
    await trial.sit(tmp_path)


@pytest.mark.parametrize("trial", exam(ENTER))
async def test_the_way_into_a_workflow_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """T10: the event enters in the transaction that records its delivery, or neither happens."""
    await trial.sit(tmp_path)


@pytest.mark.parametrize("trial", exam(DISCARD, RETRY))
async def test_acts_on_dead_letters_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """B5, A6: only the dead are discarded or opened again, and who did it is written down."""
    await trial.sit(tmp_path)
