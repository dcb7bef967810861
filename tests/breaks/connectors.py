"""Breaks of the connectors' room: what is declared, what comes out, what a thread may leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from duly.connectors.registry import Registry, ToolPlace
from duly.connectors.signature import ANYTHING
from duly.connectors.watch import Watch
from duly.rules.catalog import Tool
from duly.rules.redaction import Redactor
from duly.rules.word import Answer
from tests.breaks import Break

BASE = ("tests/connectors/test_base.py",)
REGISTRY = ("tests/connectors/test_registry.py",)
WATCH = ("tests/connectors/test_watch.py",)
RAISED = ("tests/connectors/test_raised.py",)
SENDS = ("tests/test_host_sends.py",)
SIGNATURE = ("tests/connectors/test_signature.py",)


async def _leave_the_thread(
    self: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    return await asyncio.to_thread(function, *args, **kwargs)


def _forget_the_job(self: Watch, part: object) -> None:
    """Count the tasks of a call alone."""
    if isinstance(part, asyncio.Task):
        self._parts.add(part)
        self.ended_at_ms = None


def _any_way(self: Registry, tool: Tool, *, is_mutation: bool) -> ToolPlace:
    return self._places[tool.name]


def _asker_by_name_alone(kind: type, mutation: Any, what: str) -> str | None:
    return None if mutation.asker is None else str(mutation.asker.__name__)


BREAKS = (
    Break(
        "L6",
        "duly.connectors.watch",
        "Watch.add",
        _forget_the_job,
        WATCH,
        "a send ends with its tasks, whatever its threads do",
    ),
    Break(
        "L6",
        "duly.connectors.registry",
        "Registry.sends_out",
        lambda self: (),
        SENDS,
        "a host closes while a send is out",
    ),
    Break(
        "L7",
        "duly.connectors.watch",
        "Watch.check_time",
        lambda self: None,
        WATCH,
        "a call goes on after its time",
    ),
    Break(
        "L4",
        "duly.connectors.watch",
        "answer_of",
        lambda error: Answer.UNKNOWN,
        WATCH,
        "a definite no is believed at once",
    ),
    Break(
        "L13",
        "duly.connectors.watch",
        "tame",
        lambda error: error,
        RAISED,
        "the engine meets what a connector raised",
    ),
    Break(
        "L13",
        "duly.connectors.watch",
        "Watch.guard",
        lambda self, work: work,
        RAISED,
        "a connector can end the host",
    ),
    Break(
        "L13",
        "duly.connectors.watchdog",
        "Watchdog._tell",
        lambda self, tool, ticks: None,
        RAISED,
        "what blocks the host is not named",
    ),
    Break(
        "L6",
        "duly.connectors.base",
        "Connector.in_thread",
        _leave_the_thread,
        # Alone: others of its file fill more threads than this break would have.
        ("tests/connectors/test_base.py::test_a_cancelled_call_ends_when_its_thread_returned",),
        "a cancelled call leaves its thread behind",
    ),
    Break(
        "A5",
        "duly.connectors.registry",
        "Registry.secrets",
        lambda self: Redactor(),
        BASE,
        "a secret that was handed out is forgotten",
    ),
    Break(
        "A1",
        "duly.connectors.signature",
        "json_types",
        lambda annotation: ANYTHING,
        SIGNATURE,
        "an annotation means nothing",
    ),
    Break(
        "A1",
        "duly.connectors.registry",
        "_capability",
        lambda connector, kind, method, terms: terms.capability or f"{connector}.{method}",
        REGISTRY,
        "a grant for one connector opens its twin",
    ),
    Break(
        "L5",
        "duly.connectors.registry",
        "Registry._read_verdict",
        lambda self, tool, asker, verdict: verdict,
        REGISTRY,
        "what is no verdict is believed",
    ),
    Break(
        "L5",
        "duly.connectors.registry",
        "_asker_of",
        _asker_by_name_alone,
        REGISTRY,
        "the reconcile method of another mutation answers",
    ),
    Break(
        "L7",
        "duly.connectors.registry",
        "_own",
        lambda args: args,
        REGISTRY,
        "a connector changes the recorded call",
    ),
    Break(
        "C2",
        "duly.connectors.registry",
        "Registry._place",
        _any_way,
        REGISTRY,
        "a mutation goes out as a read",
    ),
    Break(
        "L4",
        "duly.connectors.registry",
        "_plain",
        lambda tool, answer: answer,
        REGISTRY,
        "whatever a connector answers passes",
    ),
)
