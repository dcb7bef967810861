"""Breaks of the bus itself: the dispatcher, its calls, its causes, and the ways into workflows."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from duly.bus import cause
from duly.bus.attempt import HandlerFailure
from duly.bus.bus import Bus
from duly.bus.dispatcher import Dispatcher
from duly.bus.ingress import enter
from duly.bus.recorder import Recorder, _Kept
from duly.config import Limits
from duly.env import Boot
from duly.rules import delivery
from duly.rules.delivery import Event, encode_payload
from duly.store.bus import delivery_of
from duly.store.delivery import Ingress, Reach
from duly.store.ingress import IngressTopic
from duly.store.lane import choose
from tests.breaks import Break

EMIT = ("tests/bus/test_emit.py",)
DISPATCH = ("tests/bus/test_dispatch.py",)
HANDLER = ("tests/bus/test_handler.py",)
RECOVER = ("tests/bus/test_recover.py",)
RETRY = ("tests/bus/test_retry.py",)
CAUSE = ("tests/bus/test_cause.py",)
INGRESS = ("tests/bus/test_ingress.py",)
STORY = ("tests/bus/test_story.py",)
SUBSCRIPTION = ("tests/bus/test_subscription.py",)
TROUBLE = ("tests/bus/test_trouble.py",)
BATCH = ("tests/bus/test_batch.py",)
QUESTION = ("tests/bus/test_question.py",)
WHY = ("tests/bus/test_why.py",)
NEIGHBOUR = ("tests/bus/test_neighbour.py",)
CLOCK = ("tests/bus/test_clock.py",)
SEED = ("tests/bus/extension/test_seed.py",)
ENDING = ("tests/bus/test_ending.py",)
FOLLOW = ("tests/bus/test_follow.py",)
SUSPECT = ("tests/bus/test_suspect.py",)
UNRECORDED = ("tests/bus/test_unrecorded.py",)

_recover_delivery = delivery.recover_delivery

_action = Bus._action
_give_back = Dispatcher._give_back
_cause = cause.cause


async def _run_tamely(handler: Any, event: Event, begin: Any, outcome: Any) -> None:
    begin()
    try:
        await handler(event)
    except Exception as error:
        outcome.error = error
    outcome.is_over = True


async def _do_not_register(self: Dispatcher) -> None:
    for name, subscriber in self._unregistered.items():
        self._connected.setdefault(name, subscriber)


async def _do_not_recover(self: Dispatcher) -> None:
    self._must_recover = False


async def _recover_always(self: Dispatcher) -> None:
    await self._store.recover_bus(now=self._env.now_ms())


async def _forget(self: Recorder, ended: Any, reach: Any = None) -> Any:
    return await self._finish(ended, reach)


async def _record_loudly(self: Recorder, ended: Any, reach: Any = None) -> Any:
    self._kept.setdefault(ended.subscriber_id, _Kept(ended))
    finished = await self._finish(ended, reach)
    del self._kept[ended.subscriber_id]
    return finished


async def _settle_half(self: Dispatcher) -> None:
    await self._give_back()


async def _register_loudly(self: Dispatcher) -> None:
    while self._unregistered:
        name, subscriber = self._unregistered.popitem()
        await self.write_down(subscriber)
        self._connected[name] = subscriber


async def _give_nothing_back(self: Dispatcher) -> None:
    self._lost.clear()


async def _give_back_at_rest(self: Dispatcher) -> None:
    if not self._at_work:
        await _give_back(self)


async def _poll(self: Dispatcher, is_draining: bool) -> None:
    await self._env.sleep(self._settings.poll_interval_s)
    self._must_look = True


async def _wait_for_ever(task: Any, seconds: float) -> bool:
    await asyncio.wait((task,))
    return True


def _end_in_silence(self: Dispatcher, key: Any, task: Any) -> None:
    self._bell.set()


def _reach_unless(*flags: str) -> Any:
    def reach(self: Dispatcher) -> Any:
        if any(getattr(self, flag) for flag in flags):
            return None
        return Reach(self._able | self._ingress.keys(), self._durable_id)

    return reach


async def _carry_out_alone(self: Dispatcher, begun: Any) -> Any:
    ended = await self._tell(begun)
    finished = await self._recorder.record(ended, self._reach())
    return None if finished is None else finished.next


async def _carry_out_always(self: Dispatcher, begun: Any) -> Any:
    ended = await self._tell(begun)
    finished = await self._recorder.record(ended, self._reach())
    for each in () if finished is None else finished.free:
        self._begin_lane(each)
    return None if finished is None else finished.next


def _choose_in_sight(
    tx: Any, topic: str, lanes: Any, connected: Any, now: int, ended: Any = ()
) -> Any:
    running = [delivery_of(row) for row in tx.all("running_beside", topic=topic)]
    return choose(lanes, running, connected, now)


def _shallow(*said: Any) -> Any:
    return replace(_cause(*said), depth=0)


def _uncaused(*said: Any) -> Any:
    return replace(_cause(*said), causation_id=None)


async def _recover_a_batch(self: Dispatcher) -> None:
    if self._must_recover and not self._at_work:
        batch, now = self._settings.batch, self._env.now_ms()
        await self._store.recover_bus(now=now, limit=batch, boot=self.boot)
        self._must_recover = False


def _enter_under_another_title(ingress: IngressTopic, event: Event, limits: Limits) -> Ingress:
    return enter(ingress, replace(event, payload={"title": "An event"}), limits)


def _in_dispatcher(rule: str, attribute: str, instead: Any, tests: Any, says: str) -> Break:
    return Break(rule, "duly.bus.dispatcher", f"Dispatcher.{attribute}", instead, tests, says)


BREAKS = (
    Break(
        "B1",
        "duly.bus.bus",
        "Bus._check_free",
        lambda self, source: None,
        EMIT,
        "anybody speaks as the host or an extension",
    ),
    Break(
        "B1",
        "duly.bus.publisher",
        "encode_payload",
        lambda payload, limits: encode_payload({}, limits),
        EMIT,
        "what was said is not what is heard",
    ),
    _in_dispatcher("B2", "_wait", _poll, EMIT, "a deferred event waits for a poll"),
    _in_dispatcher("S9", "_wait", _poll, RECOVER, "an idle bus polls"),
    Break("B3", "duly.bus.attempt", "_run", _run_tamely, HANDLER, "a SystemExit ends the host"),
    Break(
        "B3",
        "duly.bus.attempt",
        "_ends_within",
        _wait_for_ever,
        HANDLER,
        "a handler may hang for ever",
    ),
    Break(
        "B3",
        "duly.bus.publisher",
        "is_async",
        lambda handler: True,
        DISPATCH,
        "a plain function is taken for a handler",
    ),
    _in_dispatcher(
        "B4",
        "note_durable",
        lambda self, event_id: setattr(self, "_durable_id", 2**62),
        DISPATCH,
        "handlers are called for what is not on the disk",
    ),
    Break(
        "B4",
        "duly.bus.recorder",
        "Recorder.record",
        _forget,
        TROUBLE,
        "what a handler came to is forgotten",
    ),
    Break(
        "B5",
        "duly.bus.bus",
        "Bus._action",
        lambda self, by, verb, detail=None: _action(self, "user", verb, detail),
        RETRY,
        "nobody knows who retried",
    ),
    Break(
        "B5",
        "duly.rules.delivery",
        "recover_delivery",
        lambda lost, retry, now, *, is_alone: _recover_delivery(lost, retry, now),
        NEIGHBOUR,
        "a death counts against all who were being told",
    ),
    Break(
        "B5",
        "duly.rules.delivery",
        "_isolate",
        lambda chosen, running: tuple(chosen),
        NEIGHBOUR,
        "what ran when a host died runs side by side again",
    ),
    Break(
        "B5",
        "duly.bus.attempt",
        "HandlerFailure",
        lambda said, is_final=False: HandlerFailure(said),
        NEIGHBOUR,
        "never again is tried again",
    ),
    _in_dispatcher("B5", "_give_back", _give_nothing_back, NEIGHBOUR, "a stop is a death"),
    _in_dispatcher(
        "B2",
        "boot",
        property(lambda self: Boot(self._own_boot, self._env.now_ms())),
        CLOCK,
        "a deferred event fires when the wall clock says so",
    ),
    Break(
        "B2",
        "duly.rules.deferral",
        "remaining_ms",
        lambda created_at, fire_at, now: fire_at - now,
        CLOCK,
        "another boot waits for a time that a wrong clock wrote",
    ),
    _in_dispatcher(
        "B13", "register", _register_loudly, SUBSCRIPTION, "one subscription refuses all emits"
    ),
    Break(
        "B1",
        "duly.rules.delivery",
        "looks_like_own",
        lambda source: source == "duly",
        SEED,
        "DULY speaks as the host",
    ),
    Break(
        "B10",
        "duly.bus.publisher",
        "ANNOUNCED",
        frozenset(),
        SEED,
        "anybody announces a failed run",
    ),
    Break(
        "B13",
        "duly.rules.delivery",
        "is_unasked",
        lambda found: False,
        SUBSCRIPTION,
        "who left before it was called has failed",
    ),
    Break(
        "H1",
        "duly.store.disk",
        "make_folder",
        lambda folder: None,
        ENDING,
        "the folder of a database must be there",
    ),
    _in_dispatcher(
        "B5",
        "_reach",
        _reach_unless("_is_stopping"),
        FOLLOW,
        "a lane with a backlog never lets a suspect run alone",
    ),
    _in_dispatcher(
        "B5",
        "_give_back",
        _give_back_at_rest,
        FOLLOW,
        "what was lost waits until all lanes are empty",
    ),
    Break(
        "B5",
        "duly.store.delivery",
        "choose_in_topic",
        _choose_in_sight,
        SUSPECT,
        "a suspect begins beside what runs in another topic",
    ),
    Break(
        "B6",
        "duly.bus.recorder",
        "Recorder.record",
        _record_loudly,
        UNRECORDED,
        "a record that is refused stops every topic",
    ),
    _in_dispatcher(
        "B6",
        "_waiting_records",
        property(lambda self: frozenset()),
        UNRECORDED,
        "a record that is refused holds up all that get its event",
    ),
    _in_dispatcher("B4", "_settle", _settle_half, UNRECORDED, "a stop forgets a success"),
    _in_dispatcher(
        "B7", "_carry_out", _carry_out_always, FOLLOW, "a begin that ends late calls its handler"
    ),
    _in_dispatcher(
        "B7",
        "_reach",
        _reach_unless("_is_isolated"),
        FOLLOW,
        "a host that stops begins the next of a lane",
    ),
    _in_dispatcher(
        "B3", "_carry_out", _carry_out_alone, FOLLOW, "the next subscriber waits for a whole lane"
    ),
    _in_dispatcher("B6", "_ended", _end_in_silence, FOLLOW, "the next event of a lane sleeps"),
    Break(
        "B12",
        "duly.store.delivery",
        "starts_runs",
        lambda *_: True,
        ("tests/bus/test_cause.py",),
        "what an announcement started starts more",
    ),
    _in_dispatcher("B7", "_recover", _do_not_recover, RECOVER, "a start gives nothing back"),
    _in_dispatcher("B7", "_recover", _do_not_recover, STORY, "a story with a crash never ends"),
    _in_dispatcher("B7", "_recover", _recover_always, RECOVER, "every look is a start"),
    Break(
        "B7",
        "duly.bus.dispatcher",
        "STOP_S",
        0.001,
        RECOVER,
        "a stop does not wait for handlers",
    ),
    Break(
        "B8",
        "duly.bus.publisher",
        "cause",
        lambda *said: replace(_cause(*said), correlation_id=None),
        EMIT,
        "a handler is not told the correlation",
    ),
    Break("B12", "duly.bus.publisher", "cause", _shallow, CAUSE, "a loop has no depth"),
    Break(
        "B12", "duly.bus.publisher", "cause", _uncaused, CAUSE, "nobody knows what caused an event"
    ),
    _in_dispatcher("B13", "register", _do_not_register, SUBSCRIPTION, "a subscription is not kept"),
    _in_dispatcher(
        "B13",
        "is_connected",
        lambda self, subscriber_id: True,
        SUBSCRIPTION,
        "nobody sees for whom a delivery waits",
    ),
    Break(
        "T10",
        "duly.bus.dispatcher",
        "enter",
        _enter_under_another_title,
        INGRESS,
        "every bus event has one title",
    ),
    Break(
        "T10",
        "duly.store.subscription",
        "subscribe",
        lambda tx, subscriber_id, topic, retry, **_: 0,
        INGRESS,
        "a deploy opens no way",
    ),
    Break(
        "B3",
        "duly.bus.attempt",
        "Caller.stuck",
        property(lambda self: frozenset()),
        HANDLER,
        "a handler that does not end runs beside itself",
    ),
    _in_dispatcher(
        "B6",
        "_is_full",
        property(lambda self: False, lambda self, found: None),
        BATCH,
        "what a full look left out waits for a slow handler",
    ),
    _in_dispatcher("B7", "_recover", _recover_a_batch, BATCH, "a start promotes one batch"),
    Break(
        "B12",
        "duly.desk.publication",
        "handled_event",
        lambda store: None,
        CAUSE,
        "a publish in a handler begins a new chain",
    ),
    Break(
        "B12",
        "duly.desk.publication",
        "RESERVED",
        (),
        CAUSE,
        "anybody publishes under the name of the bus",
    ),
    Break(
        "B12",
        "duly.bus.cause",
        "handled_event",
        lambda store: None if (now := cause._handled.get()) is None else now.event_id,
        CAUSE,
        "an event of one host is named as the cause in another",
    ),
    Break(
        "B12",
        "duly.desk.deploy",
        "follow",
        lambda store, event: event,
        CAUSE,
        "a deploy in a handler begins a new chain",
    ),
    Break(
        "B13",
        "duly.store.ingress",
        "list_ingress",
        lambda tx: (),
        SUBSCRIPTION,
        "any caller ends the subscription of a workflow",
    ),
    Break(
        "B13",
        "duly.desk.journal",
        "find_wait",
        lambda delivery, presence, now_ms, is_held: None,
        WHY,
        "why does not say for whom an event waits",
    ),
    Break(
        "B14",
        "duly.bus.question",
        "LAST_ID",
        10**6000,
        QUESTION,
        "a number no database can read is asked for",
    ),
    Break(
        "B2",
        "duly.store.bus",
        "last_number",
        lambda tx, name: 0,
        EMIT,
        "what retention removed was never deferred",
    ),
)
