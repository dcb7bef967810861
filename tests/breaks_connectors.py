"""Breaks of the connectors' room: what is declared, what comes out, what a thread may leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from duly.connectors.registry import Place, Registry
from duly.connectors.signature import ANYTHING
from duly.rules.catalog import Tool
from tests.breaks import Break

BASE = ("tests/connectors/test_base.py",)
REGISTRY = ("tests/connectors/test_registry.py",)
SIGNATURE = ("tests/connectors/test_signature.py",)


async def _leave_the_thread(
    self: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    return await asyncio.to_thread(function, *args, **kwargs)


async def _believe_anything(self: Registry, tool: Tool, call: Any) -> Any:
    place = self._place(tool, is_mutation=True)
    return await getattr(place.connector, str(place.asker))(call)


async def _lend_the_call(self: Registry, tool: Tool, call: Any) -> Any:
    return await self._place(tool, is_mutation=True).find()(call, **call.args)


def _any_way(self: Registry, tool: Tool, *, is_mutation: bool) -> Place:
    return self._places[tool.name]


def _asker_by_name_alone(kind: type, mutation: Any, what: str) -> str | None:
    return None if mutation.asker is None else str(mutation.asker.__name__)


BREAKS = (
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
        lambda self: frozenset(),
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
        "Registry.reconcile",
        _believe_anything,
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
        "Registry.change",
        _lend_the_call,
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
