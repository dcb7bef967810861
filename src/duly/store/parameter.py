"""How sets and rows are handed to a statement: as JSON, which both databases read (T7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec


def as_set(members: Iterable[str | int]) -> str:
    """Write a set as statements take one: the keys of a JSON object (T7)."""
    return msgspec.json.encode(dict.fromkeys(members)).decode()


def as_rows(rows: Sequence[Sequence[Any]]) -> str:
    """Write rows as statements take them: the values of a JSON object."""
    return msgspec.json.encode({str(place): row for place, row in enumerate(rows)}).decode()
