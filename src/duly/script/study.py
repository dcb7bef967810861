"""Everything a host learns from a source without running it, done in a worker (W5, X2).

Law: nothing here runs a source, and nothing is kept between two sources. Bytes cross the border and
are decoded by type in the host, which believes nothing else that a broken worker says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from duly.errors import Invalid, ScriptError
from duly.rules.access import MutateReads
from duly.rules.catalog import Catalog, Tool
from duly.rules.source import Language, Source, check_source
from duly.script.analysis import Analysis, Fingerprint, analyse, fingerprint
from duly.script.finding import Finding, Severity, found, refusing, tidy
from duly.script.lacking import Lacking, find_lacking, parse, refuse_lacking
from duly.script.type_check import Annotated, annotate

WARM_UP: Final = (
    Source(Language.PYTHON, "from duly import workflow\nä = workflow('w', topics=['t']).x()\n"),
    Source(Language.JAVASCRIPT, "export default Keep.workflow({name: 'w', topics: ['t']})\n"),
)


@dataclass(frozen=True, slots=True)
class Study:
    """What is known of a text; `annotated` is the text for the type checker, if there is one."""

    analysis: Analysis
    lacking: tuple[Lacking, ...] = ()
    annotated: Annotated | None = None
    is_typed: bool = False

    def findings(self, name: str) -> list[Finding]:
        """Return what was found without the type checker."""
        return [*self.analysis.findings, *(_lacks(name, each) for each in self.lacking)]


class Question(msgspec.Struct, frozen=True):
    """A source to be studied."""

    language: Language
    text: str
    name: str
    tools: tuple[Tool, ...]
    mutate_reads: MutateReads


def study(source: Source, catalog: Catalog, mutate_reads: MutateReads = "none") -> Study:
    """Read a source: its analysis, what the interpreter lacks, and the text for the checker."""
    try:
        check_source(source)
    except Invalid as error:
        refused = found("syntax", 1, 1, str(error), "Correct the text.", file=source.name)
        return Study(Analysis((refused,)))
    analysis = analyse(source, catalog, mutate_reads)
    if source.language is Language.JAVASCRIPT:
        return Study(analysis)
    if any(each.rule == "syntax" for each in analysis.findings):
        return Study(analysis)
    lacking = tuple(find_lacking(parse(source.text)))
    return Study(analysis, lacking, annotate(source), is_typed=True)


def findings_in(source: Source, read: Study, types: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Combine the findings of the analysis and of the type checker; the analysis comes first."""
    findings = read.findings(source.name)
    said = {(each.rule, each.line) for each in findings}
    lost = {each.line for each in refusing(findings)}
    more = [each for each in types if (each.rule, each.line) not in said and each.line not in lost]
    return tidy([*findings, *more])


def _lacks(name: str, each: Lacking) -> Finding:
    """Make the finding for a thing the interpreter cannot run; loading uses the same words."""
    return found(
        "lacking",
        each.line,
        each.column,
        f"{each.what}.",
        each.instead,
        file=name,
        severity=Severity.REFUSES,
    )


# -- In a worker ----------------------------------------------------------------------------------


def ask(source: Source, catalog: Catalog, mutate_reads: MutateReads) -> bytes:
    """Encode the question for a worker."""
    asked = Question(source.language, source.text, source.name, catalog.tools, mutate_reads)
    return msgspec.msgpack.encode(asked)


def study_apart(body: bytes) -> bytes:
    """Answer a question in a worker; an empty one only does late imports."""
    if not body:
        for source in WARM_UP:
            study(source, Catalog())
        return b""
    asked = msgspec.msgpack.decode(body, type=Question)
    source = Source(asked.language, asked.text, asked.name)
    return msgspec.msgpack.encode(study(source, Catalog(asked.tools), asked.mutate_reads))


def fingerprint_apart(body: bytes) -> bytes:
    """Return, in a worker, what a repair is compared by; an empty one only does late imports."""
    if not body:
        for source in WARM_UP:
            fingerprint(source, Catalog())
        return b""
    asked = msgspec.msgpack.decode(body, type=Question)
    source = Source(asked.language, asked.text, asked.name)
    return msgspec.msgpack.encode(fingerprint(source, Catalog(asked.tools)))


def answer(body: bytes) -> Study:
    """Decode what a worker found in a source; raise ScriptError if it cannot be decoded."""
    read: Study = _decode(body, Study)
    return read


def answer_fingerprint(body: bytes) -> Fingerprint | None:
    """Decode what a repair is compared by; raise ScriptError if it cannot be decoded."""
    read: Fingerprint | None = _decode(body, Fingerprint | None)
    return read


def _decode(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.MsgspecError:
        raise ScriptError(code="reader_died", is_lost=True) from None


def refuse_apart(body: bytes) -> bytes:
    """Return, in a worker, the first thing in a text that the interpreter cannot run."""
    try:
        refuse_lacking(body.decode())
    except ScriptError as error:
        return msgspec.msgpack.encode((str(error), error.line, error.column))
    return msgspec.msgpack.encode(None)
