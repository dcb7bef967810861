"""What SQLite says, in words for the person who must act."""

from __future__ import annotations

import apsw
import pytest

from duly.errors import DulyError, IllegalTransition, Stale, StoreDamaged, StoreUnavailable
from duly.store.failure import explain, is_sync_failure

PATH = "/data/duly.db"


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        (apsw.FullError("x"), StoreUnavailable, "Free some space"),
        (apsw.BusyError("x"), StoreUnavailable, "End that program, then open"),
        (apsw.ReadOnlyError("x"), StoreUnavailable, "cannot be written"),
        (apsw.CantOpenError("x"), StoreUnavailable, "cannot be opened"),
        (apsw.IOError("x"), StoreUnavailable, "the disk returned an error"),
        (apsw.CorruptError("x"), StoreDamaged, "Restore a backup"),
        (apsw.NotADBError("x"), StoreDamaged, "not a SQLite database"),
        (apsw.ConstraintError("x"), IllegalTransition, "a bug in Duly"),
        (apsw.SQLError("x"), IllegalTransition, "a bug in Duly"),
    ],
)
def test_every_error_of_sqlite_names_the_file_and_what_to_do(
    error: apsw.Error, expected: type[DulyError], words: str
) -> None:
    """H3: what happened, to which file, what to do."""
    told = explain(error, PATH)
    assert type(told) is expected
    assert str(told).startswith(f"{PATH}: ")
    assert words in str(told)


def test_an_unavailable_store_says_that_nothing_was_written() -> None:
    """H3: the caller may try again."""
    assert "nothing was written" in str(explain(apsw.FullError("x"), PATH))


def test_an_error_that_is_not_sqlites_is_left_alone() -> None:
    """H3: what a verb says to its caller is not ours to reword."""
    error = Stale("run_1 is no longer active")
    assert explain(error, PATH) is error


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (apsw.SQLITE_IOERR_FSYNC, True),
        (apsw.SQLITE_IOERR_DIR_FSYNC, True),
        (apsw.SQLITE_IOERR_WRITE, False),
        (apsw.SQLITE_FULL, False),
    ],
)
def test_a_failed_sync_of_a_file_or_of_its_folder_is_known(code: int, expected: bool) -> None:
    """H3: after either nothing is known about the disk; a write that failed has changed nothing."""
    error = apsw.IOError("x")
    error.extendedresult = code  # type: ignore[attr-defined]  # apsw sets and reads it
    assert is_sync_failure(error) is expected
