"""The static analysis of a source in either language; runs nothing (W5).

Law: syntax first; a text that cannot be read has no other findings. Analysis has a limit like
everything else: a text that is too tangled is not read to its end, and one finding says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from duly.errors import ScriptError
from duly.rules.access import MutateReads
from duly.rules.catalog import Catalog, Risk
from duly.rules.preview import WrittenCall
from duly.rules.source import Language, Source
from duly.script import (
    chance_javascript,
    chance_python,
    habit_javascript,
    habit_python,
    javascript,
    python,
)
from duly.script.call import list_calls
from duly.script.chance import Chance, ChanceReading, find_chances, texts_of
from duly.script.finding import Finding, Severity, found, tidy
from duly.script.habit import HabitFacts, judge_habits
from duly.script.judgement import StepName, judge
from duly.script.lacking import parse
from duly.script.outline import Outline, Text, TooTangled


@dataclass(frozen=True, slots=True)
class Analysis:
    """What was found, and what each step of each handler calls and names (W7).

    `topics` is None where the source does not write its list of topics out. `calls` are the calls
    of tools as they stand in the text. `lacking` are connectors that it calls and no host of ours
    has.
    """

    findings: tuple[Finding, ...] = ()
    handlers: tuple[str, ...] = ()
    topics: tuple[str, ...] | None = None
    tools: Mapping[StepName, tuple[str, ...]] = field(default_factory=dict)
    topics_used: Mapping[StepName, tuple[str, ...]] = field(default_factory=dict)
    calls: tuple[WrittenCall, ...] = ()
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RiskyStep:
    """A step that calls tools of high risk: these tools, and a digest of all code it uses."""

    text: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a repair is compared by: uses of clock and random numbers, steps of high risk (F3)."""

    chances: tuple[Chance, ...] = ()
    risky: Mapping[StepName, RiskyStep] = field(default_factory=dict)


def analyse(source: Source, catalog: Catalog, mutate_reads: MutateReads = "none") -> Analysis:
    """Read a source and judge it, by the variant of C2 that the workflow's policy sets."""
    try:
        if findings := _syntax(source):
            return Analysis(tuple(findings))
        outline, facts = _read(source, catalog)
        if not outline.has_workflow:
            return Analysis((*outline.findings, _no_workflow(source)))
        judgement = judge(outline, catalog, mutate_reads)
        habits = judge_habits(outline, facts, outline.variables)
        calls = list_calls(outline, catalog)
    except (RecursionError, MemoryError, TooTangled):
        return Analysis((_too_tangled(source),))
    return Analysis(
        tidy([*judgement.findings, *habits]),
        tuple(handler.name for handler in outline.handlers),
        outline.topics,
        judgement.tools,
        judgement.topics,
        calls,
        judgement.lacking,
    )


def fingerprint(source: Source, catalog: Catalog) -> Fingerprint | None:
    """Read what a repair is compared by; None where the text cannot be read to its end."""
    try:
        if _syntax(source):
            return None
        outline, _ = _read(source, catalog)
        reading = _cut(source)
        tools = judge(outline, catalog).tools
        return Fingerprint(find_chances(reading), _risky(outline, reading, catalog, tools))
    except (RecursionError, MemoryError, TooTangled):
        return None


def _syntax(source: Source) -> list[Finding]:
    if source.language is Language.JAVASCRIPT:
        return javascript.syntax(source)
    try:
        parse(source.text)
    except ScriptError as error:
        line, column = error.line or 1, error.column or 1
        advice = "Correct it and check again."
        return [found("syntax", line, column, str(error), advice, file=source.name)]
    return []


def _read(source: Source, catalog: Catalog) -> tuple[Outline, list[HabitFacts]]:
    """Read a source once: its outline, and what its steps take for granted."""
    text = Text(source.text)
    if source.language is Language.JAVASCRIPT:
        outline, trees = javascript.read_steps(source)
        # A function that is the step of many handlers is read once.
        steps = {(step, tree.id): (step, tree) for step, tree in trees}
        return outline, habit_javascript.read(steps.values(), text, catalog)
    outline, definitions = python.read_steps(source)
    entered = {(step, id(each)): (step, each) for step, each in definitions}
    return outline, habit_python.read(entered.values(), text, catalog)


def _cut(source: Source) -> ChanceReading:
    if source.language is Language.JAVASCRIPT:
        return chance_javascript.read(source)
    return chance_python.read(source)


def _risky(
    outline: Outline,
    reading: ChanceReading,
    catalog: Catalog,
    tools: Mapping[StepName, tuple[str, ...]],
) -> dict[StepName, RiskyStep]:
    """Find the steps that call a tool of high risk, each with all code of the module it uses."""
    risky = {
        name: tuple(each for each in used if catalog.find(each).risk is Risk.HIGH)
        for name, used in tools.items()
    }
    places = {
        (handler.name, step): outline.functions[key].place
        for handler in outline.handlers
        for step, key in handler.steps.items()
        if risky[handler.name, step]
    }
    texts = texts_of(reading, places.values())
    return {name: RiskyStep(texts[place], risky[name]) for name, place in places.items()}


def _no_workflow(source: Source) -> Finding:
    is_javascript = source.language is Language.JAVASCRIPT
    form = "export default Keep.workflow({…})" if is_javascript else 'flow = workflow("…", …)'
    sentence = "The source declares no workflow."
    return found("no-workflow", 1, 1, sentence, f"Write {form}.", file=source.name)


def _too_tangled(source: Source) -> Finding:
    return found(
        "too-tangled",
        1,
        1,
        "The text nests or loops through itself so deeply that it was not read to its end.",
        "Write it flatter, with fewer functions that hand ctx on.",
        file=source.name,
        severity=Severity.WARNS,
    )
