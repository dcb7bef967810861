"""What every request has in common: who acts, and words of an enum.

Law: a wrong argument is refused with its name and what to give instead. What was given is not
repeated: it may be of any length.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from duly.config import Limits
from duly.errors import Invalid, short

Word = TypeVar("Word", bound=StrEnum)


def check_by(by: object, limits: Limits) -> str:
    """Return the name of who acts, or refuse it (A6)."""
    most = limits.name_chars
    if not isinstance(by, str) or not by.strip() or not by.isprintable() or len(by) > most:
        raise Invalid(
            code="wrong_length", path="by", facts={"least": 1, "most": most, "of": "printable"}
        )
    return by


def read_word(words: type[Word], given: object) -> Word:
    """Read a status as it was given, or name those there are."""
    known = {str(each): each for each in words}
    if not isinstance(given, str) or given not in known:
        raise Invalid(
            code="not_one_of", path="status", facts={"given": short(given), "known": [*known]}
        )
    return known[given]
