"""Breaks of what a restored store honours no more: proofs, accounts, what they were asked (H5)."""

from __future__ import annotations

from collections.abc import Callable

from duly.store import queries
from tests.breaks import Break

PROOF = "tests/store/test_exam_proof.py::test_a_restored_store_believes_no_trial"
SLIP = "tests/store/test_exam_slip.py::test_a_restored_store_keeps_no_account_and_no_open_slip"
LOAD = queries.load


def _without(statement: str) -> Callable[..., dict[str, str]]:
    """Load every statement as it is, but for one that then changes no row."""

    def load(*files: str) -> dict[str, str]:
        found = LOAD(*files)
        if statement in found:
            text = found[statement]
            found[statement] = f"{text} {'and' if ' where ' in text else 'where'} 1 = 0"
        return found

    return load


def _kept(statement: str, test: str, says: str) -> Break:
    return Break("H5", "duly.store.queries", "load", _without(statement), (test,), says)


BREAKS = (
    _kept("doubt_proofs", PROOF, "a proof from before the backup is believed"),
    _kept("drop_pairings", SLIP, "an account from before the backup decides"),
    _kept("close_slips", SLIP, "a button from before the backup counts"),
)
