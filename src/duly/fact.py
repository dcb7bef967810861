"""Facts: what a program reads of Duly. `words` makes sentences of them, for people only.

Law 1  A program never reads a sentence: all that it needs to know is a code, a number, a time, an
       id or a word of an enum.
Law 2  A code is one word in snake case. Each code has its sentence in `words`, and only there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

NO_FACTS: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is as it is: a code, what it is about, and the facts its sentence needs."""

    code: str
    subject: str = ""
    facts: Mapping[str, Any] = field(default_factory=lambda: NO_FACTS)


@dataclass(frozen=True, slots=True)
class Offer:
    """Something a person can do now: a verb with its arguments.

    `asks` names the arguments that the person still has to choose; `does` is the code of what
    happens then.
    """

    verb: str
    args: Mapping[str, Any]
    does: str
    asks: tuple[str, ...] = ()
