"""Bugs of the bus planted on purpose: each must be found, or its scenarios are too weak to trust.

Law: as in `planted`: a bug is a name, a sentence and the places it changes, and it is found when a
scenario that is fine without it has a problem with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from duly.env import Boot
from duly.rules.delivery import Delivery, DeliveryStatus, JournalStatus
from duly.store import statements
from duly.store.base import rider
from duly.store.delivery import Reach
from duly.store.record import JournalEvent
from verification.bus.run import run, template
from verification.bus.scenario import from_seed
from verification.workflow.planted import Bug, Lines, Make, Place, planted


def find(bug: Bug, seeds: Iterable[int]) -> int | None:
    """Return the first seed whose scenario has a problem with the bug."""
    # Before the bug: what is deployed there is not what is looked at.
    for is_heard in (True, False):
        template(is_heard=is_heard)
    with planted(bug):
        return next((seed for seed in seeds if run(from_seed(seed)).problems), None)


# -- What the bugs are made of --------------------------------------------------------------------


def _answer(value: Any) -> Make:
    """Make a coroutine function that does nothing and answers this."""

    def make(_: Any) -> Any:
        async def answer(*args: Any, **kwargs: Any) -> Any:
            return value

        return answer

    return make


def _nothing(_: Any) -> Any:
    return lambda *args, **kwargs: None


def _ride(original: Any) -> Any:
    return rider(original.body)


def _changed(change: Callable[[Any], Any]) -> Make:
    """Make a function whose answer is changed."""

    def make(original: Any) -> Any:
        return lambda *args, **kwargs: change(original(*args, **kwargs))

    return make


def _record_first(original: Any) -> Any:
    async def tell(self: Any, begun: Any) -> Any:
        delivery = begun.delivery
        if begun.event is not None and delivery.subscriber_id in self._connected:
            letter = delivery.event_id, delivery.subscriber_id, delivery.attempts
            await self._store.finish_delivery(*letter, now=self._env.now_ms())
        return await original(self, begun)

    return tell


def _succeed_always(original: Any) -> Any:
    async def call(self: Any, *args: Any) -> None:
        await original(self, *args)

    return call


def _uncounted(original: Any) -> Any:
    return lambda delivery: replace(original(delivery), attempts=delivery.attempts)


def _never_recover(_: Any) -> Any:
    async def recover(self: Any) -> None:
        self._must_recover = False

    return recover


def _promote_twice(original: Any) -> Any:
    def promote(tx: Any, deferred: Any, now: int) -> Any:
        event_id = original(tx, deferred, now)
        statements.emit(tx, JournalEvent(deferred.topic, deferred.source, deferred.payload), now)
        return event_id

    return promote


def _early(original: Any) -> Any:
    def promote(tx: Any, *, now: int, limit: int, boot: Boot) -> Any:
        return original(tx, now=now, limit=limit, boot=Boot(boot.id, boot.ms + 30_000))

    return promote


def _head_by_due_time(original: Any) -> Any:
    def read_lane(row: Any, now: int) -> Any:
        lane = original(row, now)
        name, topic, place, _, _, _, unopened, *_ = row
        if lane.head is None or lane.head.due_at_ms <= now or unopened is None:
            return lane
        return replace(lane, head=Delivery(unopened, topic, name, place, due_at_ms=now))

    return read_lane


def _follow_at_once(original: Any) -> Any:
    return lambda able, ended, durable_id: original(able, ended, 2**62)


def _follow_in_any_lane(_: Any) -> Any:
    def follow(able: Any, ended: Any, durable_id: int) -> Any:
        return next((each for each in able if each.event_id <= durable_id), None)

    return follow


def _go_on_for_ever(_: Any) -> Any:
    async def carry_out(self: Any, begun: Any) -> Any:
        ended = await self._tell(begun)
        reach = Reach(self._able | self._ingress.keys(), self._durable_id)
        finished = await self._recorder.record(ended, reach)
        return None if finished is None else finished.next

    return carry_out


def _hold_the_topic(original: Any) -> Any:
    def startable(deliveries: Any, connected: Any, now_ms: int) -> Any:
        known = list(deliveries)
        waiting = [each for each in known if each.status is DeliveryStatus.WAITING]
        held = {each.topic for each in waiting if each.due_at_ms > now_ms}
        chosen = original(known, connected, now_ms)
        return tuple(each for each in chosen if each.topic not in held)

    return startable


def _last_comes_first(original: Any) -> Any:
    def startable(deliveries: Any, connected: Any, now_ms: int) -> Any:
        turned = (replace(each, position=-each.position) for each in deliveries)
        return original(turned, connected, now_ms)

    return startable


def _dead_is_open(original: Any) -> Any:
    def judge(deliveries: Any) -> Any:
        known = list(deliveries)
        is_dead = any(each.status is DeliveryStatus.DEAD for each in known)
        return JournalStatus.PROCESSING if is_dead else original(known)

    return judge


def _believe_in_the_disk(_: Any) -> Any:
    def note(self: Any, event_id: int) -> None:
        self._durable_id = 2**62

    return note


def _publish_twice(original: Any) -> Any:
    def publish(tx: Any, workflow_id: str, publication: Any, **named: Any) -> Any:
        again = replace(publication, message_id=f"{publication.message_id}:again")
        original(tx, workflow_id, again, **named)
        return original(tx, workflow_id, publication, **named)

    return publish


def _only_exceptions(_: Any) -> Any:
    async def run(handler: Any, event: Any, begin: Any, outcome: Any) -> None:
        begin()
        try:
            await handler(event)
        except Exception as error:
            outcome.error = error
        outcome.is_over = True

    return run


def _wait_for_ever(original: Any) -> Any:
    async def ends_within(task: Any, seconds: float) -> Any:
        return await original(task, 10 * seconds)

    return ends_within


def _wait_for_half_a_minute(original: Any) -> Any:
    async def call(self: Any, *args: Any) -> Any:
        return await original(self, *args[:4], 30)

    return call


def _always_alone(original: Any) -> Any:
    return lambda delivery, retry, now_ms, is_alone: original(delivery, retry, now_ms)


def _all_together(_: Any) -> Any:
    return lambda chosen, running: tuple(chosen)


def _never_final(original: Any) -> Any:
    return lambda *given, is_final: original(*given)


def _wall_clock(_: Any) -> Any:
    return property(lambda self: Boot(self._own_boot, self._env.now_ms()))


def _keep_attempts(original: Any) -> Any:
    return lambda delivery, now: replace(original(delivery, now), attempts=delivery.attempts)


_RULES: Final[Lines] = (
    ("attempts-are-not-counted", "A crash hides that a handler was called.",
     "duly.rules.delivery", "begin", _uncounted),
    ("a-retry-holds-back-its-topic", "Who waits for a retry holds back everybody of the topic.",
     "duly.rules.delivery", "startable", _hold_the_topic),
    ("the-last-comes-first", "Subscribers are called in the wrong order.",
     "duly.rules.delivery", "startable", _last_comes_first),
    ("dead-letters-stay-open", "An event with a dead letter never ends.",
     "duly.rules.delivery", "judge", _dead_is_open),
    ("one-death-is-enough", "What a single crash cut short at its last attempt is given up.",
     "duly.rules.delivery", "HOST_DEATHS_MAX", lambda _: 1),
    ("neighbours-are-guilty", "A death counts against everybody who was being told.",
     "duly.rules.delivery", "recover_delivery", _always_alone),
    ("suspects-run-together", "What ran when a host died runs side by side again.",
     "duly.rules.delivery", "_isolate", _all_together),
    ("never-again-is-tried-again", "A handler that refuses for good is called again.",
     "duly.rules.delivery", "end", _never_final),
    ("retries-come-at-once", "The next attempt does not wait.",
     "duly.rules.delivery", "Retry.delay_ms", lambda _: lambda self, attempts: 0),
    ("every-deferral-begins-anew", "A loop that waits a tenth of a second has no depth.",
     "duly.rules.delivery", "RESETTING_DELAY_MS", lambda _: 100),
    ("followed-before-the-sync", "The next of a lane is begun before its event is on the disk.",
     "duly.rules.delivery", "follow", _follow_at_once),
    ("followed-in-any-lane", "What ends in one lane begins a delivery of another.",
     "duly.rules.delivery", "follow", _follow_in_any_lane),
    ("a-retry-gets-one-attempt", "A dead letter that is retried keeps its count.",
     "duly.rules.delivery", "reopen", _keep_attempts),
)  # fmt: skip

_STORE: Final[Lines] = (
    ("emit-does-not-wait", "An event is acknowledged before it is on the disk.",
     "duly.store", "Store.emit", _ride),
    ("defer-does-not-wait", "A deferral is acknowledged before it is on the disk.",
     "duly.store", "Store.defer", _ride),
    ("cancel-does-not-wait", "A cancel is acknowledged before it is on the disk.",
     "duly.store", "Store.cancel", _ride),
    ("unsubscribe-does-not-wait", "A subscriber that left is back after a power cut.",
     "duly.store", "Store.unsubscribe", _ride),
    ("retry-does-not-wait", "A dead letter that was retried is dead after a power cut.",
     "duly.store", "Store.retry_delivery", _ride),
    ("discard-does-not-wait", "A dead letter that was discarded is back after a power cut.",
     "duly.store", "Store.discard", _ride),
    ("cancel-says-true", "A caller that cancels what has fired is told that it was in time.",
     "duly.store", "Store.cancel.body", _changed(lambda _: True)),
    ("promoted-twice", "What was deferred fires twice.",
     "duly.store.bus", "_promote", _promote_twice),
    ("promoted-early", "What is due in half a minute fires with what is due now.",
     "duly.store", "Store.promote_due.body", _early),
    ("ordered-by-due-time", "Who waits for a retry is overtaken by later events.",
     "duly.store.lane", "_lane", _head_by_due_time),
    ("the-last-is-forgotten", "An event is not opened for who subscribed last.",
     "duly.store.lane", "addressees",
     _changed(lambda found: found[:-1] if len(found) > 1 else found)),
    ("delivered-and-not-entered", "A delivery into a workflow is recorded, and nothing enters.",
     "duly.store.delivery", "_enter", _nothing),
    ("entered-twice", "A bus event enters a workflow twice.",
     "duly.store.statements", "publish", _publish_twice),
)  # fmt: skip

_BUS: Final[Lines] = (
    ("recorded-before-called", "A success is recorded before the handler runs.",
     "duly.bus.dispatcher", "Dispatcher._tell", _record_first),
    ("nothing-is-given-back", "A start forgets what the last host was at.",
     "duly.bus.dispatcher", "Dispatcher._recover", _never_recover),
    ("a-stop-is-a-death", "What a stop cuts short is left running.",
     "duly.bus.dispatcher", "Dispatcher._give_back", _answer(None)),
    ("a-lane-goes-on-for-ever", "A lane goes on beside suspects, and while its host is stopped.",
     "duly.bus.dispatcher", "Dispatcher._carry_out", _go_on_for_ever),
    ("the-wall-clock-is-believed", "A deferred event fires when the wall clock says so.",
     "duly.bus.dispatcher", "Dispatcher.boot", _wall_clock),
    ("called-before-the-sync", "A handler is called for what is not on the disk.",
     "duly.bus.dispatcher", "Dispatcher.note_durable", _believe_in_the_disk),
    ("unsubscribed-and-called", "Who has left is still called.",
     "duly.bus.dispatcher", "Dispatcher.disconnect", _answer(0)),
    ("failures-are-successes", "An error of a handler is taken for a success.",
     "duly.bus.attempt", "Caller.call", _succeed_always),
    ("an-exit-is-an-exit", "A handler that raises SystemExit ends the host.",
     "duly.bus.attempt", "_run", _only_exceptions),
    ("handlers-have-all-day", "A handler that hangs is waited for.",
     "duly.bus.attempt", "_ends_within", _wait_for_ever),
    ("handlers-are-cut-short", "A handler has half a minute.",
     "duly.bus.attempt", "Caller.call", _wait_for_half_a_minute),
    ("the-stuck-are-called-again", "A handler that does not end is called beside itself.",
     "duly.bus.attempt", "Caller.stuck", lambda _: property(lambda self: frozenset())),
    ("no-cause-is-named", "What a handler emits does not say what caused it.",
     "duly.bus.cause", "name_causation", _changed(lambda _: "bus:0")),
    ("every-chain-is-new", "What a handler emits begins a chain of its own.",
     "duly.bus.cause", "depth_after", _changed(lambda _: 0)),
)  # fmt: skip

BUGS: Final = tuple(
    Bug(name, says, (Place(module, attribute, make),))
    for name, says, module, attribute, make in (*_RULES, *_STORE, *_BUS)
)
