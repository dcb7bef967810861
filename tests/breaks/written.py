"""Guards of what a model writes and of its preview, taken away one at a time (M9)."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from duly.rules.preview import Passes, WrittenCall
from duly.rules.writing import DraftProblem
from tests.breaks import Break

WRITE = ("tests/models/test_write.py",)
CALL = ("tests/script/test_call.py",)


def no_open_reads(calls: Iterable[WrittenCall], *_: frozenset[str]) -> tuple[str, ...]:
    return ()


def always_written(*_: Any, is_foreign: bool) -> bool:
    return True


def no_flaws(passes: Passes) -> tuple[DraftProblem, ...]:
    return ()


def all_used(value: str, text: str) -> bool:
    return True


def never(problems: Sequence[DraftProblem]) -> bool:
    return False


async def no_name(*_: Any) -> None:
    return None


def bound_once(self: Any, tree: ast.Module, effort: Any) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            self.values[node.targets[0].id] = node.value
    self.bound = defaultdict(lambda: 1)


def no_models(connectors: Any) -> frozenset[str]:
    return frozenset()


async def always_in_use(desk: Any, draft: Any) -> bool:
    return True


YES = ("tests/models/test_before_yes.py",)

BREAKS = (
    Break(
        rule="M9",
        module="duly.connectors.llm",
        attribute="find_asking",
        replacement=no_models,
        tests=YES,
        says="a draft shows a model what it read before a person has agreed",
    ),
    Break(
        rule="M1",
        module="duly.desk.unadopted",
        attribute="is_in_use",
        replacement=always_in_use,
        tests=YES,
        says="an agent tries any text with the grants of another one",
    ),
    Break(
        rule="M9",
        module="duly.rules.portion",
        attribute="_stands_in",
        replacement=all_used,
        tests=("tests/models/test_conditions.py",),
        says="what a condition passes over is not shown",
    ),
    Break(
        rule="M9",
        module="duly.rules.writing",
        attribute="find_open_reads",
        replacement=no_open_reads,
        tests=WRITE,
        says="a draft carries what it reads to any address before a person agrees",
    ),
    Break(
        rule="M9",
        module="duly.rules.writing",
        attribute="is_written_out",
        replacement=always_written,
        tests=WRITE,
        says="a call that the text hides asks any address before a person agrees",
    ),
    Break(
        rule="M9",
        module="duly.rules.writing",
        attribute="find_flaws",
        replacement=no_flaws,
        tests=WRITE,
        says="a draft that stops, or does all again, is good",
    ),
    Break(
        rule="M9",
        module="duly.rules.writing",
        attribute="must_correct",
        replacement=never,
        tests=WRITE,
        says="a draft that stops is proposed all the same",
    ),
    Break(
        rule="M1",
        module="duly.desk.write",
        attribute="_Author._name",
        replacement=no_name,
        tests=WRITE,
        says="a draft replaces a workflow that the person did not name",
    ),
    Break(
        rule="M9",
        module="duly.rules.proposal",
        attribute="is_by_model",
        replacement=lambda author: False,
        tests=WRITE,
        says="what a model wrote is adopted from the list, unseen",
    ),
    Break(
        rule="M9",
        module="duly.script.constant_python",
        attribute="PythonConstants.read",
        replacement=bound_once,
        tests=CALL,
        says="a name that is bound again is shown as a constant",
    ),
)
