"""Breaks of values, declarations, events, access and permission: C, A, and some of T, W and P."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from duly.rules import access, catalog, event, permission, prepared
from duly.rules.access import Operation, Step
from duly.rules.event import EventMove, EventStatus, Republish
from duly.rules.prepared import Judgement, Offered
from duly.rules.redaction import REDACTED, Redactor
from duly.rules.value import digest
from duly.rules.word import Outcome
from tests.breaks import Break


def _reserve_if_any(judgements: Iterable[Judgement]) -> Judgement:
    return min(judgements, key=list(Judgement).index, default=Judgement.RESERVE)


def _result_always(outcome: Outcome, result: Any = None) -> dict[str, Any]:
    return {"status": outcome.value, "result": result}


def _thaw(step: Step, *, now_ms: int, prepared_at_ms: int, first_run: str) -> prepared.StepClock:
    return prepared.StepClock(now_ms, step in prepared.FROZEN, prepared.seed(first_run, step))


def _grant_all(tool: Any, args: Any, envelope: Any, mutations_today: int) -> permission.Allowed:
    return permission.Allowed(args)


def _bind_nothing_checked(
    tool: catalog.Tool, named: Mapping[str, Any], positional: Any = ()
) -> dict[str, Any]:
    return dict(named)


def _loosest(tool: catalog.Tool, *policies: Mapping[str, str]) -> permission.Approval:
    words = [permission.Approval(word) for policy in policies for word in policy.values()]
    return min(words, key=list(permission.Approval).index, default=permission.Approval.NEVER)


def _redact_whole_strings_only(text: str, secrets: Redactor, *, is_cut: bool = False) -> str:
    return REDACTED if text in secrets.secrets else text


ACCESS = ("tests/rules/test_access.py",)
CATALOG = ("tests/rules/test_catalog.py",)
DECLARATION = ("tests/rules/test_declaration.py",)
EVENT = ("tests/rules/test_event.py",)
PERMISSION = ("tests/rules/test_permission.py",)
REDACTION = ("tests/rules/test_redaction.py",)
PREPARED = ("tests/rules/test_prepared.py",)
VALUE = ("tests/rules/test_value.py",)

BREAKS = (
    Break(
        "C2",
        "duly.rules.access",
        "TABLE",
        {**access.TABLE, Operation.MUTATION: frozenset({Step.MUTATE, Step.NEXT})},
        ACCESS,
        "next may mutate",
    ),
    Break(
        "C2",
        "duly.rules.access",
        "ADDED",
        {**access.ADDED, "none": access.ADDED["by_id"]},
        ACCESS,
        "mutate may read by id without the policy",
    ),
    Break(
        "P1",
        "duly.rules.access",
        "TABLE",
        {**access.TABLE, Operation.PEEK: frozenset({Step.PRODUCE, Step.PREPARE})},
        ACCESS,
        "a producer may peek",
    ),
    Break(
        "C4",
        "duly.rules.prepared",
        "refuse_unknown",
        lambda given, known, path: None,
        PREPARED,
        "an unknown key of prepare's answer is overlooked",
    ),
    Break(
        "C4",
        "duly.rules.prepared",
        "parse_title",
        lambda raw, path, limits: raw,
        PREPARED,
        "ui.title may be anything",
    ),
    Break(
        "C5",
        "duly.rules.prepared",
        "judge_all",
        _reserve_if_any,
        PREPARED,
        "one good id reserves the whole set",
    ),
    Break(
        "C5",
        "duly.rules.prepared",
        "JUDGEMENTS",
        {
            **prepared.JUDGEMENTS,
            (EventStatus.PENDING, Offered.AS_IT_WAS): Judgement.RESERVE,
        },
        PREPARED,
        "an event replaced under prepare is reserved unseen",
    ),
    Break(
        "C5",
        "duly.rules.prepared",
        "JUDGEMENTS",
        {**prepared.JUDGEMENTS, (EventStatus.CONSUMED, Offered.NEVER): Judgement.RESERVE},
        PREPARED,
        "a consumed event is reserved again",
    ),
    Break(
        "C7",
        "duly.rules.prepared",
        "Prepared.is_empty",
        False,
        PREPARED,
        "empty reservations look like work",
    ),
    Break(
        "C6",
        "duly.rules.prepared",
        "script_text",
        lambda prepared: '{"reservations":[],"data":{}}',
        PREPARED,
        "later steps do not see the stored data",
    ),
    Break(
        "C10",
        "duly.rules.prepared",
        "mutation_result",
        _result_always,
        PREPARED,
        "a skipped mutation has a result",
    ),
    Break(
        "C13",
        "duly.rules.prepared",
        "step_clock",
        _thaw,
        PREPARED,
        "the clock runs on in mutate and next",
    ),
    Break(
        "C13",
        "duly.rules.prepared",
        "seed",
        lambda first_run, step: len(first_run),
        PREPARED,
        "every step of every chain has the same chance",
    ),
    Break(
        "A1",
        "duly.rules.permission",
        "check_grant",
        _grant_all,
        PERMISSION,
        "everything is granted",
    ),
    Break(
        "A1",
        "duly.rules.permission",
        "check_access",
        lambda operation, step, called, mutate_reads: None,
        PERMISSION,
        "access is not asked before the grant",
    ),
    Break(
        "A1",
        "duly.rules.catalog",
        "bind",
        _bind_nothing_checked,
        (*CATALOG, *PERMISSION),
        "arguments are not checked",
    ),
    Break(
        "A1",
        "duly.rules.permission",
        "_is_used_up",
        lambda grant, mutations_today: False,
        PERMISSION,
        "a daily limit is never used up",
    ),
    Break(
        "A1",
        "duly.rules.permission",
        "fits",
        lambda where, tool, args: True,
        PERMISSION,
        "a grant's globs are not looked at",
    ),
    Break(
        "A2",
        "duly.rules.permission",
        "missing_capabilities",
        lambda granted, used: (),
        PERMISSION,
        "a repair may widen the envelope",
    ),
    Break(
        "A3",
        "duly.rules.permission",
        "approval_for",
        _loosest,
        PERMISSION,
        "the looser approval holds",
    ),
    Break(
        "A4",
        "duly.rules.permission",
        "proposal_hash",
        lambda tool, args, inputs: digest({"tool": tool, "args": dict(args)}),
        PERMISSION,
        "an approval does not bind the inputs",
    ),
    Break(
        "A5",
        "duly.rules.redaction",
        "_find_beginnings",
        lambda raw, needles: (),
        REDACTION,
        "a cut text ends with the beginning of a secret",
    ),
    Break(
        "A5",
        "duly.rules.redaction",
        "redact_text",
        _redact_whole_strings_only,
        REDACTION,
        "a secret inside a longer string is shown",
    ),
    Break(
        "T3",
        "duly.rules.event",
        "category",
        lambda character: "Lu",
        EVENT,
        "a title may have control characters",
    ),
    Break(
        "T4",
        "duly.rules.event",
        "MOVES",
        {**event.MOVES, (EventStatus.CONSUMED, EventMove.RELEASE): EventStatus.PENDING},
        EVENT,
        "a consumed event comes back",
    ),
    Break(
        "T5",
        "duly.rules.event",
        "REPUBLISH",
        {**event.REPUBLISH, (EventStatus.SKIPPED, False): Republish.REPLACED},
        EVENT,
        "a skipped event is replaced",
    ),
    Break(
        "T7",
        "duly.rules.event",
        "refuse_unknown",
        lambda given, known, path: None,
        EVENT,
        "unknown fields of a publish are overlooked",
    ),
    Break(
        "T8",
        "duly.rules.value",
        "isfinite",
        lambda number: True,
        VALUE,
        "NaN is taken for JSON",
    ),
    Break(
        "T9",
        "duly.rules.event",
        "roots",
        lambda reserved: tuple(sorted(each.seq for each in reserved)),
        EVENT,
        "an event forgets its inputs after one step",
    ),
    Break(
        "W4",
        "duly.rules.declaration",
        "_Reader.check_consumers",
        lambda reader, consumers: None,
        DECLARATION,
        "a topic may have two consumers",
    ),
    Break(
        "W6",
        "duly.rules.declaration",
        "PROBLEMS_MAX",
        10**6,
        DECLARATION,
        "every mistake of a huge declaration is looked at",
    ),
)
