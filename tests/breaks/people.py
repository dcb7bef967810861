"""The breaks of what people see and do: the record of their acts, the preview of a call."""

from __future__ import annotations

from tests.breaks import Break


def _forget(*_: object, **__: object) -> None:
    """Write nothing down."""


def _same_key(key: str, _: object) -> str:
    return key


BREAKS = (
    Break(
        rule="A6",
        module="duly.store.statements",
        attribute="note",
        replacement=_forget,
        tests=("tests/store/test_exam_workflow.py",),
        says="an act of a person is not recorded",
    ),
    Break(
        rule="L11",
        module="duly.rules.redaction",
        attribute="_free_key",
        replacement=_same_key,
        tests=("tests/rules/test_redaction.py",),
        says="the preview loses an argument",
    ),
)
