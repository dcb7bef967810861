"""What every question has in common: pages, words and names.

Law: a page has at most a thousand entries and goes on from the last key of the page before.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeVar

from duly.errors import Invalid
from duly.store import people
from duly.store.base import Transaction

Word = TypeVar("Word", bound=StrEnum)

PAGE_DEFAULT: Final = 100


def check_page(limit: object, key: object, kind: type) -> None:
    """Refuse a page nobody can have; the store refuses a size out of range."""
    if type(limit) is not int:
        raise Invalid(f"limit is {limit!r}; give a whole number.", path="limit")
    if key is not None and type(key) is not kind:
        wanted = "number" if kind is int else "id or name"
        raise Invalid(f"A page goes on from the {wanted} of an entry, not {key!r}.", path="page")


def read_word(words: type[Word], given: str | None) -> Word | None:
    """Read a status as it was given, or name the ones there are."""
    if given is None:
        return None
    try:
        return words(given)
    except ValueError:
        known = ", ".join(words)
        raise Invalid(f"status is {given!r}; say one of {known}.", path="status") from None


def read_names(tx: Transaction, workflow_ids: Iterable[str]) -> dict[str, str]:
    """Read the name of each workflow, removed ones too: their history is readable (W10)."""
    return {each: people.get_workflow(tx, each).name for each in set(workflow_ids)}
