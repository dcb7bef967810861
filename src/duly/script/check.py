"""The whole check of a source before it is deployed: all that can be said without running it.

Law 1: everything is said at once; only a text that is no program has nothing else said of it.
Law 2: where analysis and type checker see the same thing, the analysis says it, since it knows the
       rule; where a line cannot be run, the type checker is not asked about it.

This checks a source here and now, for whoever trusts it: a test, a simulation. A host does the
same in locked processes (`engine.study`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from duly.rules.access import MutateReads
from duly.rules.catalog import Catalog
from duly.rules.declaration import Problem
from duly.rules.source import Source
from duly.script.finding import Finding, refusing, tidy
from duly.script.study import Study, findings_in, study
from duly.script.type_check import not_ended, type_check

_PLACED: Final = re.compile(r":(\d+)(?::\d+)?$")  # where a problem of loading stands


def check(
    source: Source, catalog: Catalog, mutate_reads: MutateReads = "none"
) -> tuple[Finding, ...]:
    """Answer every finding in a source, sorted by place (W5)."""
    return complete(source, catalog, study(source, catalog, mutate_reads))


def complete(source: Source, catalog: Catalog, read: Study) -> tuple[Finding, ...]:
    """Ask the type checker about a source that was studied, if it is worth asking."""
    if not read.is_typed:
        return findings_in(source, read, ())
    is_asked = read.annotated is not None
    types = type_check(source, catalog) if is_asked else (not_ended(source.name),)
    return findings_in(source, read, types)


def join(
    read: Iterable[Finding], proved: Iterable[Finding | Problem]
) -> tuple[Finding | Problem, ...]:
    """Put together what a text shows and what loading proved; each thing once.

    What can be read off the text knows its rule and its column; loading often does not.
    """
    findings = tidy([*read, *(each for each in proved if isinstance(each, Finding))])
    lines = {each.line for each in refusing(findings)}
    problems = [
        each
        for each in proved
        if isinstance(each, Problem) and not (lines and _line_of(each) in {0, *lines})
    ]
    return (*findings, *problems)


def _line_of(problem: Problem) -> int | None:
    """Answer the line a problem names; 0 where it is of a place in the text but of no line."""
    placed = _PLACED.search(problem.path)
    if placed is not None:
        return int(placed[1])
    return None if problem.rule != "W5" or "." in problem.path else 0
