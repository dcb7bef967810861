"""The workflows of the scenarios: scripts that are data, small, and different where it matters.

Law 1  Every script passes the ids of what it reserved to its tool, so the outside knows for which
       events a change was made and counts them itself.
Law 2  Every prepare keeps what it was shown, and every `next` leaves what it worked on as the
       state, so an oracle can compare both with what the store says.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from duly.rules.access import Step
from verification.moves import Call, Move, Return, Value, When, ref
from verification.scripted import Scripted

NAME: Final = "mail"
INPUT: Final = "mail"  # comes from outside
MADE: Final = "made"  # one for every run that changed something, read by a second consumer
TOLD: Final = "told"  # terminal
PRODUCED: Final = "p0"  # what the producer publishes
BATCH: Final = 3
WAKE_AT: Final = "2026-01-01T00:10:00Z"
CHANGING: Final = frozenset(
    {"fifo", "batch", "produce", "wake"}
)  # the shapes that change something


class Shape(StrEnum):
    """How a workflow goes about its events."""

    FIFO = "fifo"
    BATCH = "batch"
    DECLINE = "decline"  # a mutate that makes no call
    QUIET = "quiet"  # no mutate at all
    PRODUCE = "produce"  # as fifo, with a producer that publishes an event of its own
    WAKE = "wake"  # as fifo, and it wants to be woken a while after every event


class Tool(StrEnum):
    """What the outside offers to find out about a call."""

    ASKED = "sheet.append_asked"  # it can be asked
    BLIND = "sheet.append_blind"  # it cannot
    ONCE = "sheet.append_once"  # it does a repeated call once
    BRIEF = "sheet.append_brief"  # so does this one, but it forgets the key soon


def _prepare(topic: str, limit: int, title: str, wake_at: str = "") -> tuple[Move, ...]:
    chosen = _chosen(topic, ref("pending.*.id"), ref("pending.*.payload"), title)
    if wake_at:
        chosen["wake_at"] = wake_at
    return (
        Call("peek", (topic,), {"limit": limit}, into="pending"),
        When("pending", (Return(chosen),), (Return({"reservations": []}),)),
    )


def _prepare_backwards(topic: str, title: str) -> tuple[Move, ...]:
    """Reserve the same events as a batch does, the last one first (L7: the same key)."""
    ways: tuple[Move, ...] = (Return({"reservations": []}),)
    for count in range(1, BATCH + 1):
        places = list(range(count))[::-1]
        ids: Value = [ref(f"pending.{place}.id") for place in places]
        shown: Value = [ref(f"pending.{place}.payload") for place in places]
        chosen = _chosen(topic, ids, shown, title)
        ways = (When(f"pending.{count - 1}", (Return(chosen),), ways),)
    return (Call("peek", (topic,), {"limit": BATCH}, into="pending"), *ways)


def _chosen(topic: str, ids: Value, shown: Value, title: str) -> dict[str, Value]:
    return {
        "reservations": [{"topic": topic, "ids": ids}],
        "data": {"ids": ids, "shown": shown},
        "ui": {"title": title},
    }


def _publish(topic: str) -> Call:
    named: dict[str, Value] = {
        "message_id": ref("prepared.data.ids.0"),
        "title": f"{topic} for an event",
        "payload": ref("prepared.data"),
    }
    return Call("publish", (topic,), named)


def _keep() -> When:
    return When("prepared.data.ids", (Return({"last": ref("prepared.data.ids")}),))


def make(shape: Shape, tool: Tool, *, is_backwards: bool = False) -> Scripted:
    """Write the script of a shape, with the tool its mutation uses."""
    change = Call(tool.value, (), {"ids": ref("prepared.data.ids")})
    steps: dict[Step, tuple[Move, ...]] = {
        Step.PREPARE: _prepare_backwards(INPUT, "Add a row")
        if is_backwards and shape is Shape.BATCH
        else _prepare(
            INPUT,
            BATCH if shape is Shape.BATCH else 1,
            "Add a row",
            WAKE_AT if shape is Shape.WAKE else "",
        ),
        # With a result if something was changed; a shape that changes nothing tells all the same.
        Step.NEXT: (
            When("result.result", (_publish(MADE),))
            if shape in CHANGING
            else When("prepared.data.ids", (_publish(MADE),)),
            _keep(),
        ),
    }
    if shape is not Shape.QUIET:
        steps[Step.MUTATE] = () if shape is Shape.DECLINE else (change,)
    tell: dict[Step, tuple[Move, ...]] = {
        Step.PREPARE: _prepare(MADE, 1, "Tell"),
        Step.NEXT: (When("prepared.data.ids", (_publish(TOLD),)), _keep()),
    }
    written = {str(step): "function" for step in steps}
    declaration: dict[str, Value] = {
        "name": NAME,
        "topics": {INPUT: {"ingress": True}, MADE: {}, TOLD: {}},
        "consumers": {
            "file": {"subscribe": [INPUT], **written},
            "tell": {"subscribe": [MADE], "prepare": "function", "next": "function"},
        },
    }
    handlers = {"file": steps, "tell": tell}
    if shape is Shape.PRODUCE:
        declaration["producers"] = {"fetch": "function"}
        handlers["fetch"] = {Step.PRODUCE: (_produce(),)}
    return Scripted(declaration=declaration, steps=handlers)


def _produce() -> Call:
    named: dict[str, Value] = {
        "message_id": PRODUCED,
        "title": f"Mail {PRODUCED}",
        "payload": {"content": "first"},
    }
    return Call("publish", (INPUT,), named)
