"""Breaks of forgetting an input and of scheduled copies: what must be over, gone, or stay (H5)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from duly.store import forgetting, queries
from tests.breaks import Break

EXAM = ("tests/store/test_exam_forgetting.py",)
DESK = ("tests/desk/test_forgetting.py",)
ASKED = ("tests/faces/test_cli_erase.py::test_what_would_be_erased_is_shown_and_a_no_leaves_it",)
STAYS = ("tests/test_bench_half_year.py",)
COPIES = ("tests/desk/test_backups.py",)
LOAD = queries.load


def _without(statement: str) -> Callable[..., dict[str, str]]:
    """Load every statement as it is, but for one that then changes no row."""

    def load(*files: str) -> dict[str, str]:
        found = LOAD(*files)
        if statement in found:
            found[statement] = f"{found[statement]} and 1 = 0"
        return found

    return load


def _in_its_place(*files: str) -> dict[str, str]:
    """Load every statement as it is, but those that empty a row leave it where it is."""
    return {
        name: text.replace(f"rowid = (select min(rowid) - 1 from {name[6:]}), ", "")
        for name, text in LOAD(*files).items()
    }


def _sealed_always(tx: Any, row: Any, sentence: str, *, is_whole: bool) -> None:
    ERASE_ROW(tx, row, sentence, is_whole=True)


ERASE_ROW = forgetting._erase_row

BREAKS = (
    Break(
        "H5",
        "duly.desk.upkeep",
        "count_forgotten",
        lambda _: None,
        DESK,
        "a file that is written meanwhile keeps what is forgotten",
    ),
    Break(
        "H5",
        "duly.store.forgetting",
        "_refuse_open",
        lambda tx, extent, now: None,
        EXAM,
        "an input is erased while something of it is to be done",
    ),
    Break(
        "H5",
        "duly.store.forgetting",
        "_refuse_derived",
        lambda *_: None,
        EXAM,
        "an event that came of others is taken for an input",
    ),
    Break(
        "L15",
        "duly.store.forgetting",
        "_erase_row",
        _sealed_always,
        DESK,
        "forgetting seals what another program changed",
    ),
    Break(
        "H5",
        "duly.store.wal",
        "WriteAheadLog.forget",
        lambda self: None,
        DESK,
        "the log still shows what was erased",
    ),
    Break(
        "H5", "duly.store.queries", "load", _without("end_output"), EXAM, "an output stays pending"
    ),
    Break(
        "H5", "duly.store.queries", "load", _without("erase_run"), DESK, "runs keep what they said"
    ),
    Break("H5", "duly.rules.forgetting", "ID_CHARS_MIN", 1, EXAM, "a short id erases other inputs"),
    Break(
        "H5",
        "duly.rules.forgetting",
        "as_key",
        lambda message_id: "no field",
        EXAM,
        "a field that is called like the id erases other inputs",
    ),
    Break(
        "H5",
        "duly.store.shelf",
        "check_whole",
        lambda path, key: None,
        COPIES,
        "older copies go though the new one is not whole",
    ),
    Break(
        "H5",
        "duly.store.shelf",
        "_oldest_first",
        lambda names, made: names,
        COPIES,
        "the copy just made goes where others are dated ahead",
    ),
    Break(
        "H5",
        "duly.store.shelf",
        "clear_drafts",
        lambda folder: None,
        COPIES,
        "drafts of killed hosts stay",
    ),
    Break(
        "H5",
        "duly.store.shelf",
        "stat",
        SimpleNamespace(S_ISREG=lambda mode: True),
        COPIES,
        "links are taken for copies",
    ),
    Break(
        "H5",
        "duly.faces.cli.erase",
        "confirm",
        lambda question, *, is_yes: None,
        ASKED,
        "a person is not asked before it is erased",
    ),
    Break("H5", "duly.store.queries", "load", _in_its_place, STAYS, "a page stays of each change"),
)
