"""Breaks of carrying workflows: what is open, what is known, what is proven (H5, L15, T5)."""

from __future__ import annotations

from tests.breaks import Break

EXAM = ("tests/store/test_exam_carrying.py",)
DESK = ("tests/desk/test_carrying.py",)
RULES = ("tests/rules/test_carried.py",)

BREAKS = (
    Break(
        "H5",
        "duly.store.carrying",
        "require_handed_over",
        lambda *_: None,
        DESK,
        "a workflow that runs here is in a file as handed over",
    ),
    Break(
        "H5",
        "duly.store.carrying",
        "_refuse_second",
        lambda *_: None,
        EXAM,
        "a workflow is handed over twice",
    ),
    Break(
        "L3",
        "duly.rules.carried",
        "FINAL",
        frozenset({"applied", "failed", "rejected", "skipped", "indeterminate", "proposed"}),
        RULES,
        "a change whose outcome is open is taken in",
    ),
    Break(
        "H5",
        "duly.store.carrying",
        "is_dropped_by_pause",
        lambda _: True,
        EXAM,
        "a workflow is handed over while a call of it is unknown",
    ),
    Break(
        "T5",
        "duly.store.carrying",
        "_pass_bus",
        lambda *_: None,
        EXAM,
        "an event of this bus passes for one that the other bus had",
    ),
    Break(
        "L15",
        "duly.store.carrying",
        "_Taking._check_ledger",
        lambda _: None,
        EXAM,
        "a row is sealed here whose texts were changed in the file",
    ),
    Break(
        "L15",
        "duly.rules.seal",
        "is_imported",
        lambda _: False,
        DESK,
        "a row that came in a file passes for one that was made here",
    ),
)
