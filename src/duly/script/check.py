"""The whole check of a source before it is deployed: all that can be said without running it.

Law 1: everything is said at once; only a text that is no program has nothing else said of it.
Law 2: where analysis and type checker see the same thing, the analysis says it, since it knows the
       rule; where a line cannot be run, the type checker is not asked about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from duly.errors import Invalid
from duly.rules.access import MutateReads
from duly.rules.catalog import Catalog
from duly.rules.declaration import Problem
from duly.rules.source import Language, Source, check_source
from duly.script.analysis import analyse
from duly.script.finding import Finding, Severity, found, refusing, tidy
from duly.script.lacking import find_lacking, parse
from duly.script.type_check import type_check

_PLACED: Final = re.compile(r":(\d+)(?::\d+)?$")  # where a problem of loading stands


def check(
    source: Source, catalog: Catalog, mutate_reads: MutateReads = "none"
) -> tuple[Finding, ...]:
    """Answer every finding in a source, sorted by place (W5)."""
    try:
        check_source(source)
    except Invalid as error:
        return (found("syntax", 1, 1, str(error), "Correct the text.", file=source.name),)
    findings = list(analyse(source, catalog, mutate_reads).findings)
    if source.language is Language.JAVASCRIPT:
        return tidy(findings)
    if any(each.rule == "syntax" for each in findings):
        return tidy(findings)
    findings += _lacking(source)
    said = {(each.rule, each.line) for each in findings}
    lost = {each.line for each in refusing(findings)}
    more = [
        each
        for each in type_check(source, catalog)
        if (each.rule, each.line) not in said and each.line not in lost
    ]
    return tidy([*findings, *more])


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


def _lacking(source: Source) -> list[Finding]:
    """Say what the interpreter cannot run; loading refuses it in the same words."""
    return [
        found(
            "lacking",
            each.line,
            each.column,
            f"{each.what}.",
            each.instead,
            file=source.name,
            severity=Severity.REFUSES,
        )
        for each in find_lacking(parse(source.text))
    ]
