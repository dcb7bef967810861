"""Whether a store is sound: what must always hold, and the seals of the ledger (H5, L15).

Law: a check sees one moment and changes nothing. A file is checked in a copy (`backup.py`), where
its pages and references are looked at too. A server looks after its pages and references itself;
it is checked in a transaction that only reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from duly.store.base import Transaction
from duly.store.seal import Flawed, find_flaws

PROBLEMS_MAX: Final = 100

# What each statement of upkeep.sql finds, as a sentence about the thing it names.
INVARIANTS: Final[Mapping[str, str]] = {
    "find_open_runs": "workflow {} has more than one open run",
    "find_strays": "event {} is reserved by no open run",
    "find_unanswered": "mutation {} is not settled, and no open run answers for it",
    "find_causeless": "the cause {} names an event that is not there",
    "find_contentless": "event {} has no content",
    "find_unpinned": "run {} is open, and what it was shown is gone",
    "find_torn": "blob {} is not whole",
}


@dataclass(frozen=True, slots=True)
class Problems:
    """What is wrong with a store: sentences, and the rows whose seal does not fit (L15).

    `imported` counts the rows that came in a file: sealed here, and not made here.
    """

    texts: tuple[str, ...] = ()
    flawed: tuple[Flawed, ...] = ()
    imported: int = 0


def check(tx: Transaction, seal_key: bytes | None) -> Problems:
    """Say what is wrong with the rows of a store."""
    texts = tuple(_find_broken(tx))
    ((imported,),) = tx.all("count_imported")
    return Problems(texts[:PROBLEMS_MAX], find_flaws(tx, seal_key, PROBLEMS_MAX), imported)


def _find_broken(tx: Transaction) -> Iterator[str]:
    for name, sentence in INVARIANTS.items():
        for row in tx.all(name):
            yield sentence.format(" ".join(str(each) for each in row))
