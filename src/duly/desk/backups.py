"""Copies of the store that a serving host makes by itself (H5).

Law 1: a copy is made, checked as a whole, and only then do older ones go.
Law 2: what cannot be done is listed under attention until it can, and logged once; it is tried
       again, and the host works on meanwhile.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Final

from duly.backup_settings import BackupSettings
from duly.desk.alerts import BACKUP, end_alert
from duly.desk.base import HasDesk, UnmadeBackup
from duly.desk.upkeep import DULY, back_up_to
from duly.errors import DulyError
from duly.store import backup, shelf

AGAIN_MS: Final = 10 * 60_000  # after a copy that could not be made
LOOK_MS: Final = 3_600_000  # a clock may be set while a host waits

log = logging.getLogger("duly.store")


class Backups(HasDesk):
    """The rounds of scheduled copies."""

    async def keep_backups(self, settings: BackupSettings, folder: Path) -> None:
        """Make a copy whenever it is due, and keep so many of them; it ends when cancelled."""
        env = self._desk().parts.env
        while True:
            wait_ms = await self._make_due(settings, folder)
            await env.sleep(min(wait_ms, LOOK_MS) / 1000)

    async def _make_due(self, settings: BackupSettings, folder: Path) -> int:
        """Make a copy if one is due; return in how many milliseconds to look again."""
        desk = self._desk()
        env, now_ms = desk.parts.env, desk.now_ms
        try:
            newest = await env.call_blocking(partial(shelf.newest_copy, folder))
            # A copy that a wrong clock dated ahead is not waited for.
            if newest is not None and newest <= now_ms < newest + settings.every_ms:
                await end_alert(desk, BACKUP)
                return newest + settings.every_ms - now_ms
            await self._make(folder, now_ms, settings.keep)
            await end_alert(desk, BACKUP)
        except (DulyError, OSError) as error:
            if desk.unmade is None:
                log.warning("No backup could be made: %s", error)
            since = now_ms if desk.unmade is None else desk.unmade.since
            desk.faults["backup"] = UnmadeBackup(since, str(folder), str(error))
            return min(AGAIN_MS, settings.every_ms)
        desk.faults.pop("backup", None)
        return settings.every_ms

    async def _make(self, folder: Path, now_ms: int, keep: int) -> None:
        desk = self._desk()
        env, target = desk.parts.env, folder / shelf.name_copy(now_ms)
        await env.call_blocking(partial(shelf.clear_drafts, folder))
        await back_up_to(desk, target, desk.action(DULY, "backup"))
        seal_key = getattr(desk.parts.store.backend, "seal_key", None)
        try:
            await env.call_blocking(partial(shelf.check_whole, target, seal_key))
        except BaseException:
            # Not in a thread: a task that is cancelled while it waits would leave the copy.
            backup.take_back(target)
            raise
        gone = await env.call_blocking(partial(shelf.drop_old, folder, keep, target.name))
        log.info("Backup written: %s; %d older removed.", target, len(gone))
