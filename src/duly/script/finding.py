"""What `check` has to say about a source, and the one table of everything it can say (W5).

Law 1: a finding names its rule, its place, what is wrong in one sentence, and what to write
       instead. Rule names are stable words; a rule without a row in the table does not exist.
Law 2: what loading would prove refuses; what analysis believes warns, and refuses only where a
       caller is strict.
Law 3: findings are sorted by place and said once.
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
    """One thing that can be found: why it matters, whose law it is, and how it looks."""

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
        "The call is made, but its result is a promise that nobody waits for.",
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
        "Every event would be called the same; a title says which one it is.",
        'title: "New email"',
    ),
    Rule(
        "missing-message-id",
        "T3",
        "Without an id the event is named by its content, so a changed mail is another event.",
        'ctx.publish("mail", {title: mail.subject, payload: mail})',
    ),
    Rule(
        "unstable-message-id",
        "T5",
        "An id out of the clock or the dice makes the same thing a new event every time.",
        "messageId: Math.random().toString()",
    ),
    Rule(
        "mutate-without-title",
        "C4",
        "Without ui.title nobody can say what the mutation was for.",
        "return {reservations, data} // and a mutate step follows",
    ),
    Rule(
        "wrong-result",
        "C4",
        "prepare answers reservations, data, ui and the time to wake; any other shape fails.",
        "prepare: if (!pending.length) return null",
    ),
    Rule(
        "no-state-yet",
        "P2",
        "A handler has no state in its first run; looking into nothing ends the run.",
        "after: state.cursor // state?.cursor",
    ),
    Rule(
        "empty-look",
        "C7",
        "next also runs when prepare reserved nothing; what data would have held is not there.",
        "next: `Row for ${prepared.data.mail.from}` // with no word about result.status",
    ),
    Rule(
        "wrong-id",
        "C5",
        "Events are reserved by their message id; an id out of the payload is another name.",
        "ids: [event.payload.id] // event.messageId",
    ),
    Rule(
        "runs-at-deploy",
        "W2",
        "A producer is due as soon as it is deployed; what is named by the day is made that day.",
        'schedule: { cron: "0 9 * * *" } // onDeploy: false waits for nine',
    ),
    Rule(
        "dynamic-name",
        "W5",
        "A name that is put together at run time cannot be checked, granted or traced.",
        "ctx[service].send({...})",
    ),
    Rule(
        "undeclared-topic",
        "W4",
        "No topic springs into being; the run would fail at this call.",
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
        "What cannot be read to its end cannot be judged; the host's limits still hold.",
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
        "The value has no such part: the step would fail there, or say undefined to a person.",
        "event.payload  # events are dicts: event['payload']",
    ),
)

# What is found beside the store, not in the text (W9): a deploy that would do things again. Each
# needs a person's word of consent, strict or not.
_BESIDE: Final = (
    Rule(
        Renamed.PRODUCER,
        "W9",
        "State belongs to a producer's name; under a new one it finds everything again.",
        "producers: { fetch: {...} } // it was called poll, and has a cursor",
    ),
    Rule(
        Renamed.TOPIC,
        "W9",
        "Events belong to a topic's name; what is published under a new one is worked on again.",
        'topics: ["post"] // it was called mail, and has events',
    ),
    Rule(
        Renamed.WORKFLOW,
        "W9",
        "A workflow is its name; under a new one it is another, and does everything again.",
        'name: "invoices-2" // the same file, while "invoices" is active',
    ),
)

FINDINGS_MAX: Final = 200  # nobody reads more, and every one is stored with its version

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

    Of too many the ones that refuse are kept before the ones that warn.
    """
    first: dict[tuple[str, int, int], Finding] = {}
    for finding in findings:
        first.setdefault((finding.rule, finding.line, finding.column), finding)
    by_weight = sorted(first.values(), key=lambda each: (each.severity, *_place(each)))
    return tuple(sorted(by_weight[:FINDINGS_MAX], key=_place))


def _place(finding: Finding) -> tuple[int, int, str]:
    return finding.line, finding.column, finding.rule


def refusing(findings: Iterable[Finding], *, strict: bool = False) -> tuple[Finding, ...]:
    """Answer the findings that refuse a deploy; under `strict` every one does (W5)."""
    return tuple(each for each in findings if strict or each.severity is Severity.REFUSES)
