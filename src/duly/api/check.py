"""All that can be said about a source, as one kind of remark (W5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duly.host import Host
    from duly.rules.declaration import Problem
    from duly.rules.source import Source
    from duly.script.finding import Finding

REFUSES: Final = "refuses"


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing to say about a source; a line of 0 is the whole of it."""

    file: str
    line: int
    column: int
    rule: str
    severity: str
    sentence: str
    suggestion: str


async def examine(host: Host, source: Source) -> list[Remark]:
    """Load a source with no tools and analyse it; return everything found, by place."""
    return [remark_on(each, source.name) for each in await host.check(source)]


def remark_on(found: Finding | Problem, file: str) -> Remark:
    """Make a remark out of a finding, or of a problem that loading proved."""
    from duly.script.finding import Finding

    if isinstance(found, Finding):
        severity = str(found.severity)
        place = (found.line, found.column)
        return Remark(file, *place, found.rule, severity, found.sentence, found.suggestion)
    # Where the line is known it is a field of the remark, and the sentence does not repeat it.
    sentence = (replace(found, path="") if found.line else found).sentence
    place = (found.line, found.column or 1) if found.line else (0, 0)
    return Remark(file, *place, found.rule, REFUSES, sentence, found.suggestion)
