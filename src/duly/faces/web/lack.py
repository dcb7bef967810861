"""What a workflow uses and is not allowed: said on its pages, before it stops there (A1, U2).

Law: a version is examined once for each process of the page. Its text never changes, and the page
begins anew with its host, so that what the host's tools are is the same for as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duly.api.session import Session
from duly.errors import DulyError

KNOWN_MAX: Final = 200  # versions that are remembered
UNREADABLE: Final = frozenset({"not_deployed", "script"})


class Lacks:
    """Compares what versions use with what their workflows were granted."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[str, ...]] = {}

    async def find(self, session: Session, each: Mapping[str, Any]) -> list[Any]:
        """List what a workflow uses and was not granted, each with what stands of that right."""
        used = await self._uses(session, each)
        if not used:
            return []
        grants: Any = await session.call("grants", workflow=each["name"])
        granted = {one["capability"] for one in grants}
        lacking = [one for one in used if one not in granted]
        return [
            await session.call("right", workflow=each["name"], capability=one) for one in lacking
        ]

    async def _uses(self, session: Session, each: Mapping[str, Any]) -> tuple[str, ...]:
        # A name that was freed begins again with the same version: the time tells them apart.
        key = (str(each["name"]), str(each["version"]), str(each["created_at"]))
        if key not in self._known:
            try:
                found: Any = await session.call("uses", workflow=key[0], version=key[1])
            except DulyError as error:
                if error.code not in UNREADABLE:
                    return ()  # the host is busy, or gone: it is asked again next time
                found = ()  # its text cannot be examined here; its own page says why
            if len(self._known) >= KNOWN_MAX:
                self._known.pop(next(iter(self._known)))
            self._known[key] = tuple(found)
        return self._known[key]
