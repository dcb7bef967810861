"""What a source will do, said to a person who has not seen its code (M9).

Law 1  The words of a script, a model or an outside stand in quotation marks (L11, G9).
Law 2  What is certain is said as certain: “always”. What the script fills in when it runs is said
       to be open, and the examples show it.
Law 3  Each section is a head and lines below it; sections are parted by an empty line, so that
       every face shows the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Final

from duly.rules.planned import Pace
from duly.rules.portion import Portion
from duly.rules.preview import (
    AskedFor,
    ExampleChange,
    Filled,
    NextTimes,
    Passes,
    SeenValues,
    SourcePreview,
    Stop,
    ToolUse,
    TriedRead,
)
from duly.rules.shown import cut
from duly.words.approval import HEAD as ASKED_BY
from duly.words.approval import say_asks, say_settings
from duly.words.noun import say_list, say_number, say_times
from duly.words.phrase import Clock, end, in_quotes
from duly.words.schedule import say_schedule
from duly.words.trial import say_left_out, say_over

FIELD_CHARS_MAX: Final = 300  # of one field of an example
VALUE_CHARS_MAX: Final = 120  # of a constant
PLAIN_NAME: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*", re.ASCII)  # it cannot be read as a sentence
INDENT: Final = "  "

WHEN: Final = "When it runs"
READS: Final = "What it reads"
CHANGES: Final = "What it may change"
PLACES: Final = "Addresses and links that stand in it"
ASKS: Final = "What it asks to be allowed"
LACKS: Final = "What it needs and is not here"
CUT: Final = "This is not all of it"
LOOK_INSIDE: Final = (
    "Its text has more calls or addresses than are shown here, or hides which tools it calls."
    " Read the text first."
)
TODAY: Final = "What it would do with today's data"


def say_preview(preview: SourcePreview, clock: Clock) -> str:
    """Say all that a person needs to know before they agree."""
    sections = [
        (LACKS, [f"A connection named {in_quotes(each)}." for each in preview.lacking]),
        (WHEN, [*_say_when(preview, clock)]),
        (READS, [_say_use(each) for each in preview.reads] or ["Nothing outside."]),
        (CHANGES, [_say_use(each) for each in preview.changes] or ["Nothing outside."]),
        (ASKED_BY, _say_settings(preview)),
        (PLACES, [in_quotes(each) for each in preview.places]),
        (ASKS, [*_say_asked(preview)]),
        (TODAY, _say_tried(preview.tried, preview.untried)),
    ]
    if preview.is_cut:
        sections.insert(0, (CUT, [LOOK_INSIDE]))
    told = ("\n".join([head, *_indent(lines)]) for head, lines in sections if lines)
    return "\n\n".join([_say_head(preview), *told])


def _say_head(preview: SourcePreview) -> str:
    name = in_quotes(preview.workflow)
    if preview.replaces is None:
        return f"A new workflow, {name}."
    return f"A new version of {name}, in place of {preview.replaces}."


def _indent(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield from (f"{INDENT}{each}" for each in line.split("\n"))


# -- When -----------------------------------------------------------------------------------------


def _say_when(preview: SourcePreview, clock: Clock) -> Iterator[str]:
    for each in preview.schedule:
        yield _say_times(each, clock)
    if preview.entries:
        topics = say_list([in_quotes(each) for each in preview.entries])
        also = "also " if preview.schedule else ""
        yield f"It {also}acts when something is published into {topics} from outside."
    if not preview.schedule and not preview.entries:
        yield "It never runs by itself."


def _say_times(each: NextTimes, clock: Clock) -> str:
    planned = each.planned
    said = f"{planned.producer}: {say_schedule(planned, clock)}"
    if planned.kind is Pace.CRON:
        times = say_list([clock.say_day(at) for at in each.at])
        said = f"{said}; next {times}" if times else f"{said}; no such time comes"
    if planned.kind is not Pace.MANUAL and planned.on_deploy:
        said = f"{said}; the first time at once after it is deployed"
    return end(said)


# -- What stands in the text ----------------------------------------------------------------------


def _say_use(use: ToolUse) -> str:
    lines = [f"{use.tool}: {say_asks(use.asks)}" if use.asks else use.tool]
    for call in dict.fromkeys((each.args, each.is_open) for each in use.calls):
        args, is_open = call
        filled = [_say_filled(each) for each in args]
        filled += ["further arguments are decided when it runs"] if is_open else []
        lines += [f"{INDENT}{each}" for each in filled or ["without arguments"]]
        lines.append(f"{INDENT}or")
    return "\n".join(lines[:-1] if use.calls else lines)


def _say_settings(preview: SourcePreview) -> list[str]:
    """Say where it is decided about which changes a person is asked."""
    found = [each.asks for each in preview.changes if each.asks is not None]
    return [*say_settings(found, preview.approvals)]


def _say_filled(filled: Filled) -> str:
    name = _say_name(filled.name)
    if filled.value is not None:
        return f"{name}: always {_say_value(filled.value)}"
    if filled.taken_from:
        names = say_list([in_quotes(each) for each in filled.taken_from])
        return f"{name}: filled in when it runs, from {names}"
    return f"{name}: filled in when it runs"


def _say_name(name: str) -> str:
    """Say the name of a field; a script or an outside may have put any text there (law 1)."""
    return name if PLAIN_NAME.fullmatch(name) else in_quotes(cut(name, VALUE_CHARS_MAX))


def _say_asked(preview: SourcePreview) -> Iterator[str]:
    for each in preview.capabilities:
        yield _say_capability(each)
    if not preview.capabilities:
        yield "Nothing."
    if preview.changes:
        most = preview.changes_per_day
        limit = "no limit" if most is None else f"at most {say_number(most, 'change')}"
        yield f"Changes in one day: {limit}."


def _say_capability(asked: AskedFor) -> str:
    does = "to change" if asked.changes else "to read"
    return f"{asked.capability} ({does}): {'allowed already' if asked.is_granted else 'new'}"


# -- What a trial showed --------------------------------------------------------------------------


def say_untried(tools: Sequence[str]) -> str:
    """Say why no trial is made before a person agrees."""
    return (
        f"It was not tried: {say_list(tools)} could hand what was read to a model, or to an address"
        " that the script makes up when it runs."
    )


def _say_tried(tried: Passes | None, untried: Sequence[str]) -> list[str]:
    if tried is None:
        return [say_untried(untried) if untried else "Not tried."]
    return [
        *(_say_read(each) for each in tried.reads),
        *(say_left_out([asdict(each)]) for each in tried.left_out),
        *(_say_stop(each) for each in tried.stops),
        *_say_count(tried),
        *([say_over(tried.over)] if tried.over else []),
        *(_say_portion(each) for each in tried.portions if each.used < each.count),
        *(_say_values(each) for each in tried.values if tried.count > 1),
        *(_say_example(place, each, tried) for place, each in enumerate(tried.examples, 1)),
    ]


def _say_value(text: str) -> str:
    """Quote a text; an empty one is easily overlooked."""
    return in_quotes(cut(text, VALUE_CHARS_MAX)) if text else "empty"


def _say_read(read: TriedRead) -> str:
    given = ", ".join(f"{name} {_say_value(text)}" for name, text in read.form)
    found = "" if read.items is None else f" and found {say_number(read.items, 'item')}"
    return end(
        f"It read {read.tool}{f' with {given}' if given else ''} {say_times(read.times)}{found}"
    )


def _say_count(tried: Passes) -> Iterator[str]:
    if not tried.count:
        yield "One pass would change nothing. So there is no example."
        return
    calls = say_list([f"{tool} {say_times(count)}" for tool, count in tried.changes])
    more = " or more; the trial ended at its limit" if tried.is_cut else ""
    yield f"One pass would make {say_number(tried.count, 'change')}{more}: {calls}."
    if tried.repeated:
        yield f"{tried.repeated} of them repeat another one exactly."
    if tried.is_cut:
        return
    if tried.again:
        yield (
            f"A second pass over the same data would make {say_number(tried.again, 'change')}"
            " AGAIN: it does not remember what it has done."
        )
    else:
        yield "A second pass over the same data would change nothing more."


def _say_portion(portion: Portion) -> str:
    """Say what is let through and what is not: that shows a condition without its code."""
    if portion.tool is None:
        head = f"It acts on {portion.used} of {say_number(portion.count, 'input')}"
    else:
        found = say_number(portion.count, "item")
        head = f"It uses {portion.used} of {found} that {portion.tool} found"
    lines = [f"{head}; passed over:"]
    for form in portion.passed_over:
        fields = (
            f"{_say_name(name)} {in_quotes(text)}" if name else in_quotes(text)
            for name, text in form
        )
        lines.append(INDENT + ", ".join(fields))
    more = portion.count - portion.used - len(portion.passed_over)
    return "\n".join([*lines, f"{INDENT}and {more} more"] if more else lines)


def _say_stop(stop: Stop) -> str:
    where = "" if stop.line is None else f" in line {stop.line}"
    return f"{stop.handler} stopped{where}: {in_quotes(cut(stop.sentence, FIELD_CHARS_MAX))}"


def _say_values(values: SeenValues) -> str:
    shown = ", ".join(in_quotes(each) for each in values.first)
    if values.distinct == 1:
        return f"{values.tool}, {values.name}: the same in all: {shown}"
    more = values.distinct - len(values.first)
    further = f" and {more} more" if more else ""
    return f"{values.tool}, {values.name}: {values.distinct} different: {shown}{further}"


def _say_example(place: int, example: ExampleChange, tried: Passes) -> str:
    lines = [f"Example {place} of {tried.count}: {example.tool}"]
    for name, text in example.form:
        first, *rest = cut(text, FIELD_CHARS_MAX).split("\n")
        lines.append(f"{INDENT}{name}: {in_quotes(first)}")
        lines += [f"{INDENT}{INDENT}{in_quotes(each)}" for each in rest]
    if example.inputs:
        lines.append(f"{INDENT}because of {say_list([in_quotes(e) for e in example.inputs[:3]])}")
    if example.needs_approval:
        lines.append(f"{INDENT}A person would be asked first.")
    return "\n".join(lines)
