"""The breaks of the static analysis: one for each finding, which is then found no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from duly.script import judgement, type_check
from duly.script.finding import Finding, found
from duly.script.path import State
from tests.breaks import Break

DRAFT = "tests/script/test_check.py::test_a_draft_has_exactly_the_findings_its_header_names"
KNOT = "tests/script/test_javascript.py::test_a_knot_of_functions_is_said_to_be_one"
JUDGEMENT = "duly.script.judgement"
HABIT = "duly.script.habit"


def _nothing(*_: object, **__: object) -> None:
    """Find nothing."""


def _none(*_: object) -> tuple[()]:
    """Find none."""
    return ()


def _silent(rule: str) -> Callable[..., None]:
    """Say everything but one rule's findings."""
    say = judgement._Judge.say

    def without(judge: Any, said: str, *rest: Any) -> None:
        if said != rule:
            say(judge, said, *rest)

    return without


def _only_follow(_: object, use: Any, state: State) -> State:
    return State(state.spent or use)


def _say_another(source: Any) -> Finding:
    return found("syntax", 1, 1, "a.", "A.", file=source.name)


# What is switched off, where, by what, and the draft that shows it.
OFF: tuple[tuple[str, str, str, Any, str], ...] = (
    ("syntax", "duly.script.javascript", "syntax", lambda _: [], "javascript-bracket_left_open"),
    (
        "lacking",
        "duly.script.javascript",
        "_Reader.find_lacking",
        _nothing,
        "javascript-fetch_and_wait",
    ),
    (
        "no-workflow",
        "duly.script.analysis",
        "_no_workflow",
        _say_another,
        "javascript-no_declaration",
    ),
    (
        "code-after-mutation",
        "duly.script.path",
        "_Walk.work",
        _nothing,
        "python-answers_with_the_result",
    ),
    (
        "several-mutations",
        "duly.script.path",
        "_Walk.use",
        _only_follow,
        "javascript-every_row_of_every_sheet",
    ),
    ("forbidden-call", JUDGEMENT, "_Judge.judge_access", _nothing, "javascript-notifies_in_next"),
    (
        "catches-tool-errors",
        JUDGEMENT,
        "_Judge.judge_guard",
        _nothing,
        "javascript-retries_until_it_works",
    ),
    ("shared-global", JUDGEMENT, "_Judge.judge_globals", _nothing, "python-cache_of_seen_mails"),
    (
        "mutate-without-title",
        JUDGEMENT,
        "_Judge.judge_shown",
        _nothing,
        "javascript-nothing_to_show",
    ),
    ("wrong-result", JUDGEMENT, "_Judge.judge_results", _nothing, "python-forgets_to_reserve"),
    ("unknown-tool", JUDGEMENT, "_Judge.judge_unknown", _nothing, "javascript-emits_an_event"),
    ("wrong-argument", JUDGEMENT, "_Judge.judge_arguments", _nothing, "javascript-wrong_arguments"),
    (
        "wrong-type",
        JUDGEMENT,
        "_Judge.judge_words",
        _nothing,
        "javascript-snake_case_in_javascript",
    ),
    (
        "unknown-name",
        "duly.script.type_check",
        "RULES",
        {code: rule for code, rule in type_check.RULES.items() if rule != "unknown-name"},
        "python-function_nobody_wrote",
    ),
    ("no-state-yet", HABIT, "_state", _none, "python-no_state_in_the_first_run"),
    ("empty-look", HABIT, "_empty_look", _none, "python-next_after_an_empty_look"),
    ("wrong-id", HABIT, "judge_ids", _nothing, "python-id_out_of_the_payload"),
    ("runs-at-deploy", HABIT, "_at_deploy", _none, "python-daily_at_deploy"),
    *(
        (rule, JUDGEMENT, "_Judge.say", _silent(rule), draft)
        for rule, draft in (
            ("not-awaited", "javascript-forgot_await"),
            ("missing-title", "javascript-no_titles"),
            ("constant-title", "javascript-every_event_the_same_name"),
            ("missing-message-id", "javascript-id_instead_of_message_id"),
            ("unstable-message-id", "python-id_of_chance"),
            ("dynamic-name", "javascript-topic_by_name"),
            ("hidden-use", "javascript-tools_in_a_table"),
            ("undeclared-topic", "javascript-misspelt_topic"),
            ("unsubscribed-topic", "javascript-peeks_elsewhere"),
        )
    ),
)

BREAKS = (
    *(
        Break("W5", module, attribute, replacement, (f"{DRAFT}[{draft}]",), f"{rule} is not found")
        for rule, module, attribute, replacement, draft in OFF
    ),
    Break(
        "W5",
        "duly.script.outline",
        "READINGS_MAX",
        10**9,
        (KNOT,),
        "too-tangled is not found",
    ),
)
