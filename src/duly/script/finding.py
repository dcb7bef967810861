"""The findings of `check`, and the one table of all rules it can report (W5).

Law 1: a finding names its rule, its place, what is wrong in one sentence, and what to write
       instead. Rule names are stable words; a rule without a row in the table does not exist.
Law 2: a finding that loading would prove refuses a deploy. A finding that analysis only believes
       warns, and refuses only where the caller is strict.
Law 3: findings are sorted by place, and each is reported once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from duly.rules.rename import Renamed


class Severity(StrEnum):
    """What a finding does to a deploy (W5)."""

    REFUSES = "refuses"
    WARNS = "warns"


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that can be found: why it matters, which rule it breaks, and an example."""

    name: str
    law: str
    why: str
    example: str
    severity: Severity = Severity.WARNS


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; lines and columns begin at 1, as editors count."""

    rule: str
    severity: Severity
    line: int
    column: int
    sentence: str
    suggestion: str
    file: str = "source"

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}"
        return f"{where}: {self.rule}: {self.sentence} {self.suggestion}"


_TABLE: Final = (
    Rule(
        "syntax",
        "W5",
        "The text cannot be read, so nothing in it can be run.",
        "const rows = [1, 2",
        Severity.REFUSES,
    ),
    Rule(
        "lacking",
        "X1",
        "The interpreter has no such thing: scripts reach the outside only through ctx.",
        'await fetch("https://example.com")',
    ),
    Rule(
        "no-workflow",
        "W1",
        "A source declares exactly one workflow; without it nothing is deployed.",
        "async function prepare(ctx) {}",
    ),
    Rule(
        "code-after-mutation",
        "C8",
        "A mutation call ends the step, so nothing written after it is ever seen.",
        'await ctx.slack.postMessage({...}); console.log("sent")',
    ),
    Rule(
        "several-mutations",
        "C8",
        "A run makes one mutation; the second call would never be sent.",
        "for (const row of rows) await ctx.sheets.appendRow({...row})",
    ),
    Rule(
        "forbidden-call",
        "C2",
        "Each step may do only what the access table lists; the run would end at this call.",
        "prepare: await ctx.sheets.appendRow({...})",
    ),
    Rule(
        "catches-tool-errors",
        "C3",
        "A failing call ends the run; the script never sees the error, so the handler is dead.",
        "try { await ctx.gmail.search({}) } catch { return }",
    ),
    Rule(
        "not-awaited",
        "C8",
        "The call is made, but the step does not wait for its result.",
        "const mails = ctx.gmail.search({})",
    ),
    Rule(
        "shared-global",
        "C1",
        "Every step begins in a fresh context; what another step left in a variable is gone.",
        "let cursor; // written by the producer, read by prepare",
    ),
    Rule(
        "missing-title",
        "T3",
        "An event without a title is refused; the title is what a person sees.",
        'ctx.publish("mail", {messageId: mail.id, payload: mail})',
    ),
    Rule(
        "constant-title",
        "T3",
        "Every event would have the same title; a title says which event it is.",
        'title: "New email"',
    ),
    Rule(
        "missing-message-id",
        "T3",
        "Without an id the event is identified by its content, so a changed mail is a new event.",
        'ctx.publish("mail", {title: mail.subject, payload: mail})',
    ),
    Rule(
        "unstable-message-id",
        "T5",
        "An id made of the time or of random numbers makes the same thing a new event every time.",
        "messageId: Math.random().toString()",
    ),
    Rule(
        "mutate-without-title",
        "C4",
        "Without ui.title a person cannot see what the mutation is for.",
        "return {reservations, data} // and a mutate step follows",
    ),
    Rule(
        "wrong-result",
        "C4",
        "prepare returns reservations, data, ui and the time to wake; any other shape fails.",
        "prepare: if (!pending.length) return null",
    ),
    Rule(
        "no-state-yet",
        "P2",
        "A handler has no state in its first run; reading a part of it fails the run.",
        "after: state.cursor // state?.cursor",
    ),
    Rule(
        "empty-look",
        "C7",
        "next also runs when prepare reserved nothing; then data may be empty.",
        "next: `Row for ${prepared.data.mail.from}` // with no word about result.status",
    ),
    Rule(
        "wrong-id",
        "C5",
        "Events are reserved by their message id; an id in the payload may be another one.",
        "ids: [event.payload.id] // event.messageId",
    ),
    Rule(
        "runs-at-deploy",
        "W2",
        "A producer is due as soon as it is deployed; an event of the day is then made too early.",
        'schedule: { cron: "0 9 * * *" } // onDeploy: false waits for nine',
    ),
    Rule(
        "dynamic-name",
        "W5",
        "A name that is computed at run time cannot be checked, granted or traced.",
        "ctx[service].send({...})",
    ),
    Rule(
        "hidden-use",
        "M9",
        "What is done through ctx in a way that the text does not show can be shown to no person.",
        "await [ctx.mail.send][0]({...})",
    ),
    Rule(
        "undeclared-topic",
        "W4",
        "A topic must be declared; the run would fail at this call.",
        'ctx.publish("not.declared", {...})',
    ),
    Rule(
        "unsubscribed-topic",
        "T7",
        "A consumer sees and reserves only events of topics it subscribes to.",
        'subscribe: ["a"], prepare: ctx.peek("b")',
    ),
    Rule(
        "unknown-tool",
        "A1",
        "No connector offers this tool, so the call would be refused.",
        "ctx.sheets.addRow({...})",
    ),
    Rule(
        "wrong-argument",
        "A1",
        "Arguments are checked before anything is sent; these would be refused.",
        'ctx.sheets.appendRow("Sheet1", row)',
    ),
    Rule(
        "too-tangled",
        "W5",
        "A text that cannot be read to its end cannot be checked; the host's limits still hold.",
        "((((((((…))))))))",
    ),
    Rule(
        "unknown-name",
        "W5",
        "Nothing has this name, so the step would fail when it gets there.",
        "return summarise(mails)  # no such function",
    ),
    Rule(
        "wrong-type",
        "W5",
        "The value has no such part: the step would fail there, or show undefined to a person.",
        "event.payload  # events are dicts: event['payload']",
    ),
)

# Found by comparison with the store, not in the text (W9): a deploy that would do things again.
# Each needs the consent of a person, strict or not.
_BESIDE: Final = (
    Rule(
        Renamed.PRODUCER,
        "W9",
        "State belongs to a producer's name; under a new name it finds everything again.",
        "producers: { fetch: {...} } // it was called poll, and has a cursor",
    ),
    Rule(
        Renamed.TOPIC,
        "W9",
        "Events belong to a topic's name; under a new name they are published and processed again.",
        'topics: ["post"] // it was called mail, and has events',
    ),
    Rule(
        Renamed.WORKFLOW,
        "W9",
        "A workflow is known by its name; under a new name it does everything again.",
        'name: "invoices-2" // the same file, while "invoices" is active',
    ),
)

FINDINGS_MAX: Final = 200  # more than a person reads; each is stored with its version

RULES: Final[Mapping[str, Rule]] = MappingProxyType({rule.name: rule for rule in _TABLE})
BESIDE: Final[Mapping[str, Rule]] = MappingProxyType({rule.name: rule for rule in _BESIDE})


def found(
    rule: str,
    line: int,
    column: int,
    sentence: str,
    suggestion: str,
    *,
    file: str = "source",
    severity: Severity | None = None,
) -> Finding:
    """Make a finding of a rule; its severity is the rule's unless loading proved more."""
    weight = severity or (RULES.get(rule) or BESIDE[rule]).severity
    return Finding(rule, weight, line, column, sentence, suggestion, file)


def tidy(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings by place and keep the first of each rule at a place.

    If there are too many, those that refuse are kept before those that warn.
    """
    first: dict[tuple[str, int, int], Finding] = {}
    for finding in findings:
        first.setdefault((finding.rule, finding.line, finding.column), finding)
    by_weight = sorted(first.values(), key=lambda each: (each.severity, *_place(each)))
    return tuple(sorted(by_weight[:FINDINGS_MAX], key=_place))


def _place(finding: Finding) -> tuple[int, int, str]:
    return finding.line, finding.column, finding.rule


def refusing(findings: Iterable[Finding], *, strict: bool = False) -> tuple[Finding, ...]:
    """Return the findings that refuse a deploy; under `strict` every one does (W5)."""
    return tuple(each for each in findings if strict or each.severity is Severity.REFUSES)
