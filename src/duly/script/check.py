"""The whole check of a source before it is deployed: all that can be said without running it.

Law 1: all findings are reported at once, except that a text which is no program has only that one.
Law 2: where analysis and type checker find the same thing, the analysis reports it, since it knows
       the rule. On a line that the interpreter cannot run, the type checker reports nothing.

This checks a source in this process, for callers that trust it: a test, a simulation. A host does
the same in locked processes (`engine.study`).
"""

from __future__ import annotations

from collections.abc import Iterable

from duly.rules.access import MutateReads
from duly.rules.catalog import Catalog
from duly.rules.declaration import Problem
from duly.rules.source import Source
from duly.script.finding import Finding, refusing, tidy
from duly.script.study import Study, findings_in, study
from duly.script.type_check import not_ended, type_check


def check(
    source: Source, catalog: Catalog, mutate_reads: MutateReads = "none"
) -> tuple[Finding, ...]:
    """Return every finding in a source, sorted by place (W5)."""
    return complete(source, catalog, study(source, catalog, mutate_reads))


def complete(source: Source, catalog: Catalog, read: Study) -> tuple[Finding, ...]:
    """Ask the type checker about a source that was studied, if it can be type-checked."""
    if not read.is_typed:
        return findings_in(source, read, ())
    is_asked = read.annotated is not None
    types = type_check(source, catalog) if is_asked else (not_ended(source.name),)
    return findings_in(source, read, types)


def join(
    read: Iterable[Finding], proved: Iterable[Finding | Problem]
) -> tuple[Finding | Problem, ...]:
    """Combine the findings of the text with the problems of loading; each thing once.

    A finding of the text has a rule and a column; a problem of loading often has not.
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
    """Return the line a problem names; 0 where it names a part of the text but no line."""
    if problem.line:
        return problem.line
    return None if problem.rule != "W5" or "." in problem.path else 0
