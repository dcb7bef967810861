"""Allowances: an approval that also covers the next calls of its tool that look like it (A3).

Law 1  It covers a call of the same tool in the same version, whose named arguments match their
       globs and whose other arguments are those of the approved call. A lone star matches every
       value, also an object; any other glob matches texts only.
Law 2  It ends with its version, at its time, after so many calls, or when a person revokes it; the
       first of these ends it. A call counts once, however often it is sent.
Law 3  A tool of higher risk than the policy allows is never covered, whenever the allowance was
       given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from duly.errors import Invalid, short
from duly.rules.catalog import Risk, Tool
from duly.rules.permission import fits
from duly.rules.schedule import DAY_MS
from duly.rules.value import Json, canonical

CALLS_MAX: Final = 1000
DAYS_MAX: Final = 366
ANY: Final = "*"  # every value of an argument, also one that is no text
RISKS: Final = (Risk.LOW, Risk.MEDIUM, Risk.HIGH)  # from the lowest to the highest


class End(StrEnum):
    """Why an allowance covers nothing any more."""

    REVOKED = "revoked"
    VERSION = "version"
    TIME = "time"
    CALLS = "calls"


@dataclass(frozen=True, slots=True)
class Allowance:
    """The next `calls` of a tool that need no further yes."""

    tool: str
    version: str
    args: Mapping[str, Json]
    where: Mapping[str, str]
    calls: int
    until: int
    used: int = 0
    is_revoked: bool = False


@dataclass(frozen=True, slots=True)
class Allow:
    """What a person allows with a yes: so many calls like it, until a time."""

    calls: int
    until: int
    where: Mapping[str, str]


def find_end(allowance: Allowance, version: str, now: int) -> End | None:
    """Say why an allowance has ended; None while it holds for this version."""
    if allowance.is_revoked:
        return End.REVOKED
    if allowance.version != version:
        return End.VERSION
    if now >= allowance.until:
        return End.TIME
    return End.CALLS if allowance.used >= allowance.calls else None


def is_risk_allowed(tool: Tool, most: str) -> bool:
    """Tell whether an approval of this tool may carry an allowance."""
    return RISKS.index(tool.risk) <= RISKS.index(Risk(most))


def is_covered(
    allowance: Allowance,
    tool: Tool,
    args: Mapping[str, Json],
    version: str,
    now: int,
    *,
    risk_max: str,
) -> bool:
    """Tell whether a call needs no further yes."""
    if tool.name != allowance.tool or not is_risk_allowed(tool, risk_max):
        return False
    if find_end(allowance, version, now) is not None:
        return False
    if find_misfit(allowance.where, tool, args) is not None:
        return False
    return _rest(args, allowance) == _rest(allowance.args, allowance)


def find_misfit(where: Mapping[str, str], tool: Tool, args: Mapping[str, Json]) -> str | None:
    """Name the first argument that is not within its glob; None if all of them are."""
    for name, glob in where.items():
        is_within = name in args if glob == ANY else fits({name: glob}, tool, args)
        if not is_within:
            return name
    return None


def check_terms(calls: object, until: int, now: int) -> int:
    """Refuse an allowance without an end; return how many calls it is for."""
    if type(calls) is not int or not 1 <= calls <= CALLS_MAX:
        raise Invalid(
            code="out_of_range",
            path="calls",
            facts={"given": short(calls), "least": 1, "most": CALLS_MAX},
        )
    if not now < until <= now + DAYS_MAX * DAY_MS:
        raise Invalid(
            code="wrong_value", path="until", facts={"wanted": "time_to_come", "days": DAYS_MAX}
        )
    return calls


def _rest(args: Mapping[str, Json], allowance: Allowance) -> bytes:
    return canonical({name: each for name, each in args.items() if name not in allowance.where})
