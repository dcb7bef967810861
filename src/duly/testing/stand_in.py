"""Stand-ins: connectors with the tools and terms of real ones, which change nothing real.

Law: a stand-in declares what the real connector declares, so a script, a grant and the host see no
difference. A change is made in the stage's own world, which counts it; a read returns what was
given or kept for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any

from duly.connectors.base import Call, Connector
from duly.connectors.llm import Llm
from duly.connectors.pinning import PinningConnector
from duly.connectors.registry import Registry, ToolPlace
from duly.rules.catalog import Tool, ToolKind
from duly.rules.shape import sample
from duly.rules.value import Json
from duly.testing.stage import Stage
from duly.testing.worker_cache import Memory


class StandIns:
    """Makes the stand-ins of a project's connectors; `answers` are results by the tool's name."""

    def __init__(self, registry: Registry, answers: Mapping[str, Json], memory: Memory) -> None:
        self._registry = registry
        self._answers = answers
        self._memory = memory

    def make(self, stage: Stage, connector: Connector) -> Connector:
        """Make a connector with the tools and terms of another, and reaches nothing real."""
        methods: dict[str, Any] = {}
        for name, place in self._registry._places.items():
            if place.connector is not connector:
                continue
            tool = self._registry.catalog.find(name)
            if tool.kind is ToolKind.MUTATION:
                methods[place.method] = self._changer(stage, tool, place)
                if place.asker is not None:
                    methods[place.asker] = stage._asker(tool.name)
            else:
                methods[place.method] = self._reader(stage, tool, place)
        # It has no address and no account, so that nothing of it is ever proven (K10).
        methods["_relies_on"] = lambda self, method: None
        if isinstance(connector, Llm):
            methods["asks_model"] = False
        if isinstance(connector, PinningConnector):
            methods["_close_down"] = _close_nothing
        kind = type(type(connector).__name__, (type(connector),), methods)
        made: Connector = object.__new__(kind)
        object.__setattr__(made, "name", connector.name)
        return made

    def _changer(self, stage: Stage, tool: Tool, place: ToolPlace) -> Any:
        answers = self._answers

        @wraps(_function(place))
        async def change(self: Connector, call: Call, **args: Json) -> Json:
            # In the shape of the real tool, or a script that is right would fail here.
            given = tool.name in answers
            result = answers[tool.name] if given else sample(tool.result, args)

            async def act() -> Any:
                return await stage._change(
                    call, tool.name, lambda **_: result, args, is_idempotent=tool.idempotent
                )

            answer: Json = await stage._meet(tool.name, act)
            return answer

        return change

    def _reader(self, stage: Stage, tool: Tool, place: ToolPlace) -> Any:
        memory = self._memory

        @wraps(_function(place))
        async def look(self: Connector, **args: Json) -> Json:
            with stage.loop.outstanding():
                return await memory.ask(tool, args)

        return look


async def _close_nothing(connector: Connector) -> None:
    """Stand for the end of what a connector has started: a stand-in has started nothing."""


def _function(place: ToolPlace) -> Any:
    """Find what the class declared, whose signature is the tool's."""
    declared = getattr(type(place.connector), place.method)
    return getattr(declared, "function", declared)
