"""What SQLite says when it fails, as what happened, to which file, and what to do (H3)."""

from __future__ import annotations

import apsw

from duly.errors import IllegalTransition, StoreDamaged, StoreUnavailable

_CAUSES: dict[type[apsw.Error], str] = {
    apsw.FullError: "disk_full",
    apsw.BusyError: "database_busy",
    apsw.LockedError: "database_busy",
    apsw.ReadOnlyError: "database_read_only",
    apsw.PermissionsError: "database_unreadable",
    apsw.CantOpenError: "database_cannot_open",
    apsw.NoMemError: "no_memory",
    apsw.IOError: "disk_error",
}
_DAMAGE: dict[type[apsw.Error], str] = {
    apsw.CorruptError: "database_damaged",
    apsw.NotADBError: "not_a_database",
}
_SYNC_FAILURES = {apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC}


def explain(error: Exception, path: str) -> Exception:
    """Turn what SQLite said into what happened, to which file, and what to do."""
    if not isinstance(error, apsw.Error):
        return error
    kind = type(error)
    if kind in _CAUSES:
        return StoreUnavailable(code=_CAUSES[kind], subject=path, facts={"cause": str(error)})
    if kind in _DAMAGE:
        return StoreDamaged(code=_DAMAGE[kind], subject=path, facts={"cause": str(error)})
    # The verbs check before they write, so a constraint or a wrong statement is our own bug.
    return IllegalTransition(f"{path}: SQLite refused a statement; this is a bug in Duly: {error}")


def is_sync_failure(error: BaseException) -> bool:
    """Tell whether SQLite failed to sync a file; its content is unknown after that."""
    return getattr(error, "extendedresult", None) in _SYNC_FAILURES
