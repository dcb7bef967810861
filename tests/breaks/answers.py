"""Breaks of questions: an answer that makes no sense, is old or of another thing denies nothing."""

from __future__ import annotations

from typing import Any

from duly.connectors.airtable import Airtable
from duly.connectors.base import Call, NotApplied, Unsure, Verdict
from duly.connectors.notion import Notion
from duly.connectors.slack import Slack
from duly.connectors.stripe import Stripe
from duly.errors import Transient
from tests.breaks import Break

EXAM = "test_a_change_passes_the_exam_for_the_network"
DEATHS = "tests/connectors/test_deaths.py"
SHOWN = "tests/connectors/test_distortions.py"
SHEETS = "tests/connectors/test_google_sheet.py"
ROWS, FIND = Airtable._all, Slack._messages
ASKED: dict[str, Any] = {"stripe": Stripe.create_happened, "notion": Notion.create_happened}


async def _deny_payment(self: Stripe, call: Call) -> Verdict:
    found: Verdict = await ASKED["stripe"](self, call)
    return NotApplied() if isinstance(found, Unsure) else found


async def _deny_page(self: Notion, call: Call) -> Verdict:
    found: Verdict = await ASKED["notion"](self, call)
    return NotApplied() if isinstance(found, Unsure) else found


async def _no_messages(self: Slack, *given: Any, **more: Any) -> tuple[list[Any], bool]:
    try:
        return await FIND(self, *given, **more)
    except Transient:
        return [], True


async def _no_rows(self: Airtable, *given: Any, **more: Any) -> list[Any]:
    try:
        return await ROWS(self, *given, **more)
    except Transient:
        return []


BREAKS = (
    Break(
        "L5",
        "duly.connectors.sheets",
        "_is_of",
        lambda answer, cells: True,
        (f"{SHEETS}::test_an_answer_that_is_not_of_the_keys_denies_nothing",),
        "an answer of other cells says that a row is not there",
    ),
    Break(
        "L5",
        "duly.connectors.sheets",
        "_kept",
        lambda call: None,
        (f"{SHEETS}::test_a_mark_that_may_stand_in_another_column_is_not_denied",),
        "a row whose columns moved is written again",
    ),
    Break(
        "L14",
        "duly.connectors.sheets",
        "_kept",
        lambda call: None,
        (f"{SHEETS}::test_cells_that_a_person_changed_since_are_not_written_over",),
        "cells that a person set back are written over",
    ),
    Break(
        "L5",
        "duly.connectors.rest",
        "check_proof",
        lambda response, what, **more: None,
        (f"tests/connectors/test_stripe.py::{EXAM}",),
        "an answer out of a cache denies a payment",
    ),
    Break(
        "L5",
        "duly.connectors.stripe",
        "Stripe.create_happened",
        _deny_payment,
        (f"tests/connectors/test_stripe.py::{EXAM}",),
        "an answer without a list denies a payment",
    ),
    Break(
        "L5",
        "duly.connectors.notion",
        "Notion.create_happened",
        _deny_page,
        (f"tests/connectors/test_notion.py::{EXAM}",),
        "an answer without a list denies a page",
    ),
    Break(
        "L5",
        "duly.connectors.slack",
        "Slack._messages",
        _no_messages,
        (f"tests/connectors/test_slack.py::{EXAM}",),
        "an answer without messages denies a message",
    ),
    Break(
        "L5",
        "duly.connectors.notion",
        "Notion.create_happened",
        _deny_page,
        (f"{SHOWN}::test_a_column_of_keys_that_was_renamed_denies_nothing[notion.create]",),
        "a page whose property of keys was renamed is denied",
    ),
    Break(
        "L5",
        "duly.connectors.slack",
        "PAGES_MAX",
        1,
        (f"{SHOWN}::test_it_is_found_on_a_later_page[slack.post]",),
        "a message is looked for on the first page alone",
    ),
    Break(
        "L14",
        "duly.connectors.slack",
        "_upload_of",
        lambda call: None,
        (f"{DEATHS}::test_a_change_of_a_service_survives_its_death[slack.upload]",),
        "a file whose upload ended with its process is uploaded again",
    ),
    Break(
        "L14",
        "duly.connectors.gmail",
        "_handle",
        lambda call: None,
        (f"{DEATHS}::test_a_change_at_google_survives_its_death[gmail.send]",),
        "a mail whose sending ended with its process is sent again",
    ),
    Break(
        "L5",
        "duly.connectors.airtable",
        "Airtable._all",
        _no_rows,
        (f"tests/connectors/test_airtable.py::{EXAM}",),
        "an answer without rows denies a row",
    ),
)
