"""The versions that were loaded, ready to be opened; the rest stay in the store.

Law: a version never changes (W8), so what was loaded once stays true; what is dropped here is
loaded again when a run needs it. What they take together is bounded in bytes, not in number: a
thousand small versions that run in turn all stay. An idle workflow costs nothing.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Final

from duly.engine.base import Parts, StepFailed, sandbox_failure
from duly.errors import DulyError, NotFound
from duly.rules.declaration import parse
from duly.rules.source import Language, Source
from duly.rules.value import decode
from duly.rules.word import Failure
from duly.sandbox.base import Loaded

LOADED_BYTES_MAX: Final = 128 * 1024 * 1024
KEEPING_BYTES: Final = 1024  # the row of a version on the shelf, and its key


class Library:
    """Loaded versions, the ones used last kept longest."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._shelf: OrderedDict[tuple[str, str], Loaded] = OrderedDict()
        self._bytes = 0

    async def get(self, workflow_id: str, version: str) -> Loaded:
        """Return a version ready to be opened; an error here is a failure of the step (F1)."""
        here = (workflow_id, version)
        if here in self._shelf:
            self._shelf.move_to_end(here)
            return self._shelf[here]
        loaded = await self._load(workflow_id, version)
        self._keep(here, loaded)
        return loaded

    def _keep(self, here: tuple[str, str], loaded: Loaded) -> None:
        # Two runs that needed the same version at once have both loaded it.
        before = self._shelf.pop(here, None)
        self._shelf[here] = loaded
        self._bytes += size_bytes(loaded) - (0 if before is None else size_bytes(before))
        while self._bytes > LOADED_BYTES_MAX and len(self._shelf) > 1:
            _, dropped = self._shelf.popitem(last=False)
            self._bytes -= size_bytes(dropped)

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


def size_bytes(loaded: Loaded) -> int:
    """Return about how much memory a loaded version takes: text, image and what it declares."""
    image = loaded.image or b""
    return KEEPING_BYTES + sum(map(_taken_bytes, (loaded.source.text, image, loaded.declaration)))


def _taken_bytes(value: object) -> int:
    """Return what a value and all it holds take; what two values share counts for both."""
    held: Iterable[object] = ()
    if isinstance(value, tuple):
        held = value
    elif is_dataclass(value):
        held = (getattr(value, field.name) for field in fields(value))
    return sys.getsizeof(value) + sum(map(_taken_bytes, held))
