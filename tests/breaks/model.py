"""Breaks of questions to models: counted first, checked, recorded, seen by a person (M2–M4)."""

from __future__ import annotations

from typing import Any

from tests.breaks import Break

ASKING = "tests/models/test_asking.py"
LLM = "tests/models/test_llm.py"
SIMULATED = "tests/models/test_simulated.py"


async def _count_nothing(self: Any, question: Any, name: str, digest: str) -> str:
    return "question_0"


async def _find_nothing(self: Any, chain: str, digest: str) -> None:
    return None


BREAKS = (
    Break(
        "M2",
        "duly.models.asking",
        "Models._count",
        _count_nothing,
        (f"{ASKING}::test_past_the_budget_nothing_leaves",),
        "a question leaves without being counted",
    ),
    Break(
        "M2",
        "duly.rules.model",
        "reserve_tokens",
        lambda question, settings: 0,
        (f"{ASKING}::test_past_the_budget_nothing_leaves",),
        "a question reserves no tokens before it leaves",
    ),
    Break(
        "M2",
        "duly.models.asking",
        "_tokens",
        lambda reply: (reply.tokens_in or 0, reply.tokens_out or 0),
        (f"{ASKING}::test_a_service_that_does_not_count_costs_what_was_reserved",),
        "a service that counts no tokens is believed",
    ),
    Break(
        "M3",
        "duly.rules.model_schema",
        "_least_size",
        lambda schema: 0,
        (f"{SIMULATED}::test_a_schema_that_no_answer_can_fit_is_refused",),
        "a sample of a schema may be of any length",
    ),
    Break(
        "M3",
        "duly.rules.model_schema",
        "find_misfit",
        lambda value, schema, path="answer": None,
        (f"{ASKING}::test_an_answer_that_does_not_fit_is_asked_for_once_more",),
        "an answer is not checked against its schema",
    ),
    Break(
        "M3",
        "duly.store",
        "Store.find_answer",
        _find_nothing,
        (f"{ASKING}::test_a_chain_is_answered_from_the_record",),
        "a chain of runs asks the same question again",
    ),
    Break(
        "M4",
        "duly.connectors.registry",
        "Registry._asks_model",
        lambda self, tool: False,
        (f"{LLM}::test_what_a_model_said_and_the_state_kept_waits_for_a_person",),
        "what a model said goes unseen through the state of a workflow",
    ),
    Break(
        "M4",
        "duly.rules.permission",
        "asks_after_model",
        lambda tool, *policies: False,
        (f"{LLM}::test_a_change_after_a_model_waits_for_a_person",),
        "a change after a model waits for no person",
    ),
)
