"""What SQLite says when it fails, as what happened, to which file, and what to do (H3)."""

from __future__ import annotations

import apsw

from duly.errors import IllegalTransition, StoreDamaged, StoreUnavailable

_CAUSES: dict[type[apsw.Error], str] = {
    apsw.FullError: "the disk is full; free some space",
    apsw.BusyError: "another program has the database open; end it",
    apsw.LockedError: "another program has the database open; end it",
    apsw.ReadOnlyError: "the database cannot be written; give this user the right to write to it",
    apsw.PermissionsError: "the database cannot be read; give this user the right to read it",
    apsw.CantOpenError: "the database cannot be opened; see that its folder exists and is readable",
    apsw.NoMemError: "there is no memory left; free some",
    apsw.IOError: "the disk answered with an error; see to the disk",
}
_DAMAGE: dict[type[apsw.Error], str] = {
    apsw.CorruptError: "the database is damaged; restore a backup",
    apsw.NotADBError: "this is not a SQLite database; name another file or restore a backup",
}
_SYNC_FAILURES = {apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC}


def explain(error: Exception, path: str) -> Exception:
    """Turn what SQLite said into what happened, to which file, and what to do."""
    if not isinstance(error, apsw.Error):
        return error
    kind = type(error)
    if kind in _CAUSES:
        return StoreUnavailable(f"{path}: {_CAUSES[kind]}; nothing was written ({error})")
    if kind in _DAMAGE:
        return StoreDamaged(f"{path}: {_DAMAGE[kind]} ({error})")
    # The verbs check before they write, so a constraint or a wrong statement is our own bug.
    return IllegalTransition(f"{path}: SQLite refused a statement; this is a bug in Duly: {error}")


def is_sync_failure(error: BaseException) -> bool:
    """Tell whether SQLite failed to sync a file, after which its content is anybody's guess."""
    return getattr(error, "extendedresult", None) in _SYNC_FAILURES
