"""The write-ahead log of a SQLite database: how long it is, and how it is moved into the database.

Law: the log has a bound. A log that cannot be moved may outgrow it for a while; then every write is
refused with the reason, until the log can be moved (H3).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import apsw

from duly.store.failure import is_sync_failure

CHECKPOINT_PAGES = 1_000
# A log that cannot be moved may grow to so many times the pages at which it should have been.
LOG_GROWTH_MAX = 16
# From so many times these pages on, a question waits until the log is moved: else questions that
# overlap would keep it from being moved for ever.
LOG_WAIT = 4


class WriteAheadLog:
    """What is known of the log; a caller that touches the connection holds the writer's lock."""

    def __init__(
        self,
        connection: apsw.Connection,
        *,
        say_level: Callable[[], None],
        say_ahead: Callable[[], None],
        checkpoint_pages: int,
    ) -> None:
        self._connection = connection
        self._say_level = say_level
        self._say_ahead = say_ahead
        self._checkpoint_pages = checkpoint_pages
        self._move_at_pages = checkpoint_pages
        self.pages = 0
        self._has_grown = False  # since this was told
        # Called on the event loop after commits that wrote, also if their callers have gone.
        self.told: Callable[[], None] = _tell_none
        # Riders of a process that was killed may be in the log and not on the disk.
        self.is_unsynced = True
        # The first commit into a log begun anew syncs its header: not on the event loop.
        self.is_fresh = True
        self.error: apsw.Error | None = None  # why the last move failed
        # Overwrites what lies behind so many pages of the log; what has no file does not need it.
        self.blank: Callable[[int], None] | None = None
        self._must_blank = False
        # SQLite checkpoints by such a hook of its own, inside COMMIT; ours takes its place.
        connection.set_wal_hook(self._note_growth)

    @property
    def is_long(self) -> bool:
        """Tell whether it should be moved; after a move that failed, not until it has grown."""
        return self.pages >= self._move_at_pages

    @property
    def is_overgrown(self) -> bool:
        """Tell whether it is at its limit."""
        return self.pages > LOG_GROWTH_MAX * self._checkpoint_pages

    @property
    def is_starved(self) -> bool:
        """Tell whether a new question must wait for the next move."""
        return self.pages > LOG_WAIT * self._checkpoint_pages and self.is_long

    def move(self) -> None:
        """Move the log into the database, so that SQLite writes it again from its start."""
        try:
            self._say_level()
            pages, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            if is_sync_failure(error):
                raise
            # Every caller has its result, and the log still has it all: a full disk is no loss.
            # The move is tried again when the log has grown as much once more.
            self.error = error
        else:
            # Nothing reads while the log is moved, so no reader can have stood in the way.
            assert moved == pages, (moved, pages)
            self.error = None
            self.pages = 0
            self.is_fresh = True
            self._say_ahead()
            self._blank_rest()
        self._move_at_pages = self.pages + self._checkpoint_pages

    def forget(self) -> None:
        """Move the log when it can be, and overwrite the older pages that it still shows (H5)."""
        self._must_blank = True
        self._move_at_pages = 0

    def _blank_rest(self) -> None:
        # A log without a page was not begun anew: it still has those that were moved.
        if not self._must_blank or self.blank is None or not self.pages:
            return
        with contextlib.suppress(OSError):  # a full disk: it is tried again with the next move
            self.blank(self.pages)
            self._must_blank = False

    def tell_growth(self) -> None:
        """Say that something was written since the last time, if so."""
        if self._has_grown:
            self._has_grown = False
            self.told()

    def _note_growth(self, connection: apsw.Connection, database: str, pages: int) -> int:
        """Note a commit that wrote to the log; one that changed nothing does not come here."""
        self._has_grown = True
        self.is_unsynced = True
        self.is_fresh = False
        self.pages = pages
        return apsw.SQLITE_OK


def _tell_none() -> None:
    """Tell no watcher: there is none yet."""
