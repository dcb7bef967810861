"""Breaks of the repair: each lets a repairer, or its answer, go further than it may."""

from __future__ import annotations

from typing import Any

from duly.engine.repair import Declined, Repairs
from tests.breaks import Break

REPAIR = ("tests/engine/test_repair.py",)
MEANWHILE = ("tests/engine/test_repair_meanwhile.py",)
LANGUAGE = ("tests/engine/test_repair_language.py",)
RULES = ("tests/rules/test_repair.py",)

_decline = Repairs._decline


async def ask_whoever_asks(self: Repairs, row: Any) -> None:
    """Find no reason not to ask."""


async def wait_for_ever(self: Repairs, repairer: Any, case: Any) -> Any:
    """Believe that every repairer answers, and answers well."""
    return await repairer.repair(case)


async def keep_nothing(self: Repairs, live: Any, row: Any, declined: Declined) -> None:
    """Tell a person, and throw away what was proposed to them."""
    await _decline(self, live, row, Declined(declined.reason))


def as_it_is(value: Any, secrets: Any, **_: Any) -> Any:
    return value


BREAKS = (
    Break(
        "F3",
        "duly.engine.repair",
        "Repairs._refusal",
        ask_whoever_asks,
        (*REPAIR, *MEANWHILE),
        "a repairer is asked without end",
    ),
    Break(
        "F3",
        "duly.engine.repair",
        "Repairs._ask",
        wait_for_ever,
        REPAIR,
        "what a repairer raises or returns is believed",
    ),
    Break(
        "F3",
        "duly.engine.repair",
        "Repairs._decline",
        keep_nothing,
        REPAIR,
        "a repair that is not adopted is dropped",
    ),
    Break(
        "F3",
        "duly.rules.repair",
        "adoption_refusal",
        lambda *_, **__: None,
        LANGUAGE,
        "whatever loads is adopted",
    ),
    Break(
        "F3",
        "duly.rules.repair",
        "replay_refusal",
        lambda replay, said: None,
        LANGUAGE,
        "a repair changes what was done",
    ),
    Break(
        "F3",
        "duly.rules.repair",
        "left_out",
        lambda old, new: (),
        REPAIR,
        "a repair does less and is adopted",
    ),
    Break(
        "A2",
        "duly.rules.repair",
        "missing_capabilities",
        lambda granted, used: (),
        (*REPAIR, *RULES),
        "a repair widens the envelope",
    ),
    Break("A5", "duly.engine.case", "redact_text", as_it_is, REPAIR, "a prompt has a secret"),
    Break("A5", "duly.engine.case", "redact", as_it_is, REPAIR, "a prompt has a secret payload"),
    Break(
        "W8",
        "duly.rules.repair",
        "next_repair",
        lambda failed, known: f"{int(failed.partition('.')[0]) + 1}.0",
        (*REPAIR, *RULES),
        "a repair is numbered like a person's version",
    ),
)
