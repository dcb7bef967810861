"""What every question has in common: pages, words and names.

Law: a page has at most a thousand entries and goes on from the last key of the page before.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeVar

from duly.errors import Invalid, short
from duly.rules import request
from duly.store import people
from duly.store.base import Transaction

Word = TypeVar("Word", bound=StrEnum)

PAGE_DEFAULT: Final = 100


def check_page(limit: object, key: object, kind: type, *, path: str = "before") -> None:
    """Refuse a page of a wrong size, or one that goes on from no entry; `path` names the key."""
    people.page(limit)
    if key is not None and type(key) is not kind:
        wanted = "entry_number" if kind is int else "entry_name"
        raise Invalid(code="wrong_value", path=path, facts={"wanted": wanted, "given": short(key)})


def read_word(words: type[Word], given: str | None) -> Word | None:
    """Read a status to narrow a page by; none narrows nothing."""
    return None if given is None else request.read_word(words, given)


def read_names(tx: Transaction, workflow_ids: Iterable[str]) -> dict[str, str]:
    """Read the name of each workflow, removed ones too: their history is readable (W10)."""
    return people.list_names(tx, workflow_ids)
