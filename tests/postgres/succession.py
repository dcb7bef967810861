"""A server and its standby by turns: when the server dies the standby is promoted, and gets one."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from tests.postgres import server


class Succession:
    """The servers of one store, one after the other; commits wait for a standby where one is."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._number = 0
        self._following: asyncio.Task[None] | None = None
        server.start(self.primary)

    @property
    def primary(self) -> Path:
        """Where the server lies that takes writes."""
        return self._base / f"server{self._number}"

    @property
    def _next(self) -> Path:
        return self._base / f"server{self._number + 1}"

    def begin(self) -> None:
        """Make a standby, beside everything else."""
        self._following = asyncio.create_task(
            asyncio.to_thread(server.follow, self.primary, self._next, is_waited_for=True)
        )

    async def is_followed(self) -> None:
        """Return when commits wait for a standby."""
        if self._following is not None:
            await self._following

    async def restart(self, pause_s: float) -> None:
        """Let the server die without an orderly end, and start it again."""
        await self.is_followed()
        await asyncio.to_thread(server.kill, self.primary)
        await asyncio.sleep(pause_s)
        await asyncio.to_thread(server.start_again, self.primary)

    async def fail_over(self) -> Path:
        """Let the server die, promote its standby, and return where that one lies."""
        await self.is_followed()
        old = self.primary
        await asyncio.to_thread(server.kill, old)
        await asyncio.to_thread(server.promote, self._next)
        # It would wait for a standby that it has not.
        await asyncio.to_thread(server.wait_for, self._next, "")
        self._number += 1
        await asyncio.to_thread(shutil.rmtree, old / "data")
        self.begin()
        return self.primary

    def close(self) -> None:
        """Stop what runs."""
        for each in (self.primary, self._next):
            if (each / "data" / "postmaster.pid").exists():
                server.kill(each)
