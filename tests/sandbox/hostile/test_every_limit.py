"""Which tests hold each limit of N: one at it, one past it, in every language that knows it."""

from __future__ import annotations

import ast
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from duly.config import Limits

ROOT = Path(__file__).parents[3]
HERE = "tests/sandbox/hostile/test_limit.py"
EVENT = "tests/rules/test_event.py"
DECLARATION = "tests/rules/test_declaration.py"
RUN = "tests/engine/test_limit.py::test_what_stands_at_a_limit_passes_and_one_past_it_fails"

BLOBS = (
    "tests/engine/test_blobs.py::test_as_much_as_a_limit_is_taken",
    "tests/engine/test_blobs.py::test_one_past_a_limit_is_refused",
)
# What a sandbox itself watches over: its tests take both languages in turn.
OF_A_STEP = {
    "step_cpu_s": f"{HERE}::test_cpu_time",
    "step_wall_s": f"{HERE}::test_wall_time_of_a_worker_that_stands_still",
    "step_memory_bytes": f"{HERE}::test_memory",
    "stack": f"{HERE}::test_stack",
    "publish_bytes_per_run": f"{HERE}::test_output",
    "calls_per_step": f"{HERE}::test_calls",
    "publishes_per_run": f"{HERE}::test_calls",
    "log_lines": f"{HERE}::test_log_lines",
    "log_line_chars": f"{HERE}::test_log_line_length",
    "source_bytes": f"{HERE}::test_source_size",
    "load_s": f"{HERE}::test_load_time",
    "load_wall_s": f"{HERE}::test_wall_time_of_a_load",
    "json_depth": f"{HERE}::test_depth",
    "values": f"{HERE}::test_values",
}
# What the rules and the engine decide, whatever the language: at the limit, and past it.
OF_A_RUN = {
    "state_bytes": (RUN,),
    "payload_bytes": (RUN, f"{EVENT}::test_a_payload_at_the_limit_is_kept_and_one_past_is_refused"),
    "data_bytes": (
        "tests/rules/test_prepared.py::test_data_at_the_limit_is_kept_and_one_past_is_refused",
    ),
    "result_bytes": (RUN,),
    "peek_events": (
        "tests/engine/test_topic.py::test_a_limit_within_bounds_is_taken",
        f"{EVENT}::test_a_peek_limit_outside_1_to_1000_is_refused",
    ),
    "peek_bytes": (f"{EVENT}::test_a_peek_holds_4_mebibytes_and_at_least_one_event",),
    "reservations_per_run": (
        "tests/rules/test_prepared.py::test_a_prepare_reserves_at_most_ten_thousand",
    ),
    "answers_bytes": (
        "tests/engine/test_waiting.py::test_answers_that_wait_for_a_script_are_bounded_by_bytes",
    ),
    "title_chars": (
        f"{EVENT}::test_a_title_for_a_person_is_kept_as_it_is",
        f"{EVENT}::test_a_title_that_says_nothing_is_refused",
    ),
    "message_id_chars": (
        f"{EVENT}::test_a_message_id_is_kept_and_an_integer_becomes_its_digits",
        f"{EVENT}::test_a_message_id_that_is_none_is_refused",
    ),
    "name_chars": (
        f"{DECLARATION}::test_a_topic_or_handler_name_of_100_characters_is_the_longest",
    ),
    "blob_bytes": BLOBS,
    "blobs_bytes": BLOBS,
    "blobs_per_run": BLOBS,
    "reconcile_s": ("tests/engine/test_ledger.py::test_a_question_that_fails_is_no_answer",),
}
# Limits of the interpreter and of the host's patience, which no policy sets.
FIXED = {"stack", "values"}
# The patience with a repairer, which no script and no event can use up.
OF_NO_RUN = {"repair_s"}


@cache
def functions(path: str) -> dict[str, ast.AsyncFunctionDef | ast.FunctionDef]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = (ast.AsyncFunctionDef, ast.FunctionDef)
    return {each.name: each for each in tree.body if isinstance(each, kinds)}


def test_every_limit_has_its_tests() -> None:
    """N: a limit that nobody tries is no limit."""
    known = {each.name for each in fields(Limits)} - OF_NO_RUN | FIXED
    assert OF_A_STEP.keys() | OF_A_RUN.keys() == known


@pytest.mark.parametrize("limit", OF_A_STEP)
def test_a_limit_of_a_step_is_tried_in_both_languages(limit: str) -> None:
    """N, X2: at it and past it; the language is what its test is given."""
    path, _, name = OF_A_STEP[limit].partition("::")
    found = functions(path)[name]
    assert "language" in {each.arg for each in found.args.args}
    assert "LANGUAGES" in "".join(ast.unparse(each) for each in found.decorator_list)


@pytest.mark.parametrize("limit", OF_A_RUN)
def test_a_limit_of_a_run_is_tried(limit: str) -> None:
    """N: where it is decided, which is the same for every language."""
    for test in OF_A_RUN[limit]:
        path, _, name = test.partition("::")
        assert name in functions(path), test
