"""The breaks of the settings: every check that `config.py` makes, taken away once."""

from __future__ import annotations

from tests.breaks import Break

TESTS = ("tests/test_config.py",)


def _nothing(*_: object) -> None:
    """Check nothing."""


BREAKS = (
    Break(
        rule="N",
        module="duly.config",
        attribute="_check_numbers",
        replacement=_nothing,
        tests=TESTS,
        says="a limit of minus one can be set",
    ),
    Break(
        rule="S2",
        module="duly.config",
        attribute="ZoneInfo",
        replacement=_nothing,
        tests=TESTS,
        says="a time zone nobody knows can be set",
    ),
    Break(
        rule="S6",
        module="duly.config",
        attribute="Policy.__post_init__",
        replacement=_nothing,
        tests=TESTS,
        says="an empty range for wakeAt can be set",
    ),
    Break(
        rule="A3",
        module="duly.config",
        attribute="APPROVALS",
        replacement=("never", "always", "above:low", "above:medium", "above:high"),
        tests=TESTS,
        says="a word of approval that means nothing can be set",
    ),
)
