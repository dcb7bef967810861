"""The sandboxes of both languages as one.

Law: what a source is written in decides which of them runs it; nothing else knows that there are
two.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.source import Language, Source
from duly.rules.value import Json
from duly.sandbox.base import Loaded, Missing, Sandbox, Script, World


class Languages:
    """The sandboxes of both languages as one; what a source is written in decides."""

    def __init__(self, sandboxes: Mapping[Language, Sandbox]) -> None:
        self._sandboxes = sandboxes

    async def load(self, source: Source, catalog: Catalog) -> Loaded:
        """Run the source with no tools and read what it declares (W6)."""
        return await self._sandboxes[source.language].load(source, catalog)

    def open(
        self,
        loaded: Loaded,
        handler: str,
        step: Step,
        args: tuple[Json | Missing, ...],
        world: World,
    ) -> Script:
        """Make a fresh context for one step; it runs when it is entered."""
        return self._sandboxes[loaded.language].open(loaded, handler, step, args, world)

    async def close(self) -> None:
        """End every worker of every language; none is left behind."""
        async with AsyncExitStack() as stack:
            for sandbox in self._sandboxes.values():
                stack.push_async_callback(sandbox.close)
