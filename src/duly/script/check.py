"""The whole check of a source before it is deployed: all that can be said without running it.

Law: what stops a source from loading is said alone; only a source that loads is worth the rest.
Where analysis and type checker see the same thing, the analysis says it, since it knows the rule.
"""

from __future__ import annotations

from duly.errors import Invalid
from duly.rules.access import MutateReads
from duly.rules.catalog import Catalog
from duly.rules.source import Language, Source, check_source
from duly.script.analysis import analyse
from duly.script.finding import Finding, Severity, found, refusing, tidy
from duly.script.lacking import find_lacking, parse
from duly.script.type_check import type_check


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
    if not refusing(findings):
        findings += _lacking(source)
    if refusing(findings):
        return tidy(findings)
    said = {(each.rule, each.line) for each in findings}
    more = [each for each in type_check(source, catalog) if (each.rule, each.line) not in said]
    return tidy([*findings, *more])


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
