"""Ids as people type them: any beginning that only one thing has (U6).

Law 1  An id in full always means itself; no beginning of another one can stand in its way.
Law 2  A beginning names something only if nothing else of the same kind begins so.
Law 3  What is shown is short and still unique: eight digits, or as many more as it takes.

An id is its kind, a time and chance: `run_019a8b7c0d1e…`. Things that were made at the same time
begin alike, so that what is shown is often a little longer than eight digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

DIGITS_MIN: Final = 4  # fewer are typed by mistake
DIGITS_SHOWN: Final = 8
DIGITS_OF_TIME: Final = 11
DIGITS_WHOLE: Final = 27  # as `env` makes them; a test compares
_BETWEEN: Final = "_"
_TYPED: Final = re.compile(r"(?:([a-z]+)_)?([0-9a-f]{1,40})", re.ASCII)


class IdKind(StrEnum):
    """What has an id that a person can name."""

    RUN = "run"
    MUTATION = "mutation"
    ALLOWANCE = "allowance"


@dataclass(frozen=True, slots=True)
class Names:
    """Marks an argument that is an id of one of these kinds; faces complete and shorten it."""

    kinds: tuple[IdKind, ...]


RunId: TypeAlias = Annotated[str, Names((IdKind.RUN,))]
MutationId: TypeAlias = Annotated[str, Names((IdKind.MUTATION,))]
AllowanceId: TypeAlias = Annotated[str, Names((IdKind.ALLOWANCE,))]
# A workflow's name and an event of the bus are explained as well; neither is shortened.
ExplainedId: TypeAlias = Annotated[str, Names((IdKind.RUN, IdKind.MUTATION))]


@dataclass(frozen=True, slots=True)
class Typed:
    """What a person typed for an id: the kinds it can be of, and the digits it begins with."""

    kinds: tuple[IdKind, ...]
    digits: str

    @property
    def is_short(self) -> bool:
        """Tell whether it has too few digits to mean one thing."""
        return len(self.digits) < DIGITS_MIN

    def begins(self, kind: IdKind) -> str:
        """Return how an id of this kind begins."""
        return f"{kind}{_BETWEEN}{self.digits}"


def is_whole(text: str) -> bool:
    """Tell whether it is an id in full, which means itself."""
    kind, _, digits = text.partition(_BETWEEN)
    return len(digits) == DIGITS_WHOLE and kind in set(IdKind)


def read_typed(text: str, kinds: Iterable[IdKind]) -> Typed | None:
    """Read what a person typed for an id; None if no id of these kinds begins so."""
    found = _TYPED.fullmatch(text)
    if found is None:
        return None
    wanted = tuple(each for each in kinds if found[1] in (None, each))
    return Typed(wanted, found[2]) if wanted else None


def kind_of(whole: str) -> IdKind | None:
    """Return the kind of an id; None if it is of none that a person can name."""
    kind = whole.partition(_BETWEEN)[0]
    return IdKind(kind) if kind in set(IdKind) else None


def shorten(whole: str, neighbours: Iterable[str | None]) -> str:
    """Return the shortest beginning that names an id among its neighbours in order, with its kind.

    Ids are in order, so the id that shares most with it stands right beside it.
    """
    kind, between, digits = whole.partition(_BETWEEN)
    shared = max((_shared(whole, each) for each in neighbours if each), default=0)
    length = max(DIGITS_SHOWN, shared + 1 - len(kind) - len(between))
    return f"{kind}{between}{digits[:length]}"


def next_made(kind: IdKind, now_ms: int) -> str:
    """Return how ids begin that are made from now on; what is shown stays unique beside them."""
    return f"{kind}{_BETWEEN}{now_ms:0{DIGITS_OF_TIME}x}"


def _shared(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
