"""The versions that were loaded, ready to be opened; the rest stay in the store.

Law: a version never changes (W8), so a loaded one stays valid. One that is dropped here is loaded
again when a run needs it. How many are kept is bounded: an idle workflow costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Final

from duly.engine.base import Parts, StepFailed, sandbox_failure
from duly.errors import DulyError, NotFound
from duly.rules.declaration import parse
from duly.rules.source import Language, Source
from duly.rules.value import decode
from duly.rules.word import Failure
from duly.sandbox.base import Loaded

LOADED_MAX: Final = 256


class Library:
    """Loaded versions, the ones used last kept longest."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._shelf: OrderedDict[tuple[str, str], Loaded] = OrderedDict()

    async def get(self, workflow_id: str, version: str) -> Loaded:
        """Return a version ready to be opened; an error here is a failure of the step (F1)."""
        here = (workflow_id, version)
        if here in self._shelf:
            self._shelf.move_to_end(here)
            return self._shelf[here]
        loaded = await self._load(workflow_id, version)
        self._shelf[here] = loaded
        while len(self._shelf) > LOADED_MAX:
            self._shelf.popitem(last=False)
        return loaded

    async def _load(self, workflow_id: str, version: str) -> Loaded:
        try:
            row = await self._parts.store.get_version(workflow_id, version)
        except NotFound as error:
            raise StepFailed(str(error), Failure.INTERNAL, code=error.code) from error
        source = Source(Language(row.language), row.source)
        try:
            loaded = await self._parts.sandbox.load(source, self._parts.outside.catalog)
        except (DulyError, OSError) as error:
            raise sandbox_failure(error) from error
        # What deploy extracted holds, even if the source would say something else today (W7).
        return replace(loaded, declaration=parse(decode(row.declaration)))
