"""The breaks of what a person sees: claims alone, causes lost, pages that repeat, silence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from duly.desk import figure
from duly.desk.account import Place
from duly.desk.sight import Sight
from duly.rules.account import OUTPUT_OF, OutputStatus
from duly.rules.delivery import DeliveryStatus
from duly.rules.figure import FigureName
from duly.rules.standing import FAILED, MOVING, PAUSED, RESTING
from duly.rules.word import MutationStatus
from duly.store import tally
from tests.breaks import Break

ACCOUNT = ("tests/desk/test_account.py",)
WHY = ("tests/desk/test_why.py",)
VIEWS = ("tests/desk/test_views.py",)
RULES = ("tests/rules/test_standing.py",)
SILENCE = ("tests/desk/test_silence.py",)
FIGURES = ("tests/desk/test_figures.py",)
EACH = ("tests/desk/test_every_figure.py",)
WORDS = ("tests/words/test_sentence.py",)
PAGES = ("tests/desk/test_why.py::test_a_page_of_attention_goes_on_from_a_key",)
ONCE = ("tests/desk/test_account.py::test_pages_of_outputs_show_each_once_whatever_the_clock_did",)
GIVEN = ("tests/desk/test_why.py::test_nothing_follows_in_a_paused_workflow",)
LEFT = (
    "tests/desk/test_account.py::test_what_a_newer_version_left_behind_is_counted_until_it_is_skipped",
)

_facts = Sight.facts


def _claim_alone(facts: Any, clock: Any) -> str:
    return f"“{facts.get('title')}”"


def _as_it_is(text: str) -> str:
    return f"“{text}”"


def _plain(self: Any, text: Any) -> Any:
    return text


def _plain_value(self: Any, value: Any) -> Any:
    return value


def _no_call(self: Any, workflow: Any, run: Any, held: Any, paused_by: str = "user") -> Any:
    return replace(_facts(self, workflow, run, held, paused_by), tool=None)


def _nothing(*_: object, **__: object) -> tuple[str, ...]:
    return ()


def _no_one(*_: object, **__: object) -> None:
    return None


def _is_never(*_: object, **__: object) -> bool:
    return False


def _is_always(*_: object, **__: object) -> bool:
    return True


def _count_every_row(held_by: str, status: str, tool: str | None = None) -> None:
    if tool is not None:
        tally.note_tool(held_by, tool)
    tally.note(tally.MUTATIONS, held_by, status)


def _one_key(self: Place) -> str:
    return f":{self.mutation}"


ON = (*PAUSED, *MOVING, *RESTING)

BREAKS = (
    Break("L11", "duly.words.part", "_short", _claim_alone, WORDS, "a claim alone"),
    Break("L11", "duly.desk.sight", "Sight.facts", _no_call, WHY, "the call is not looked at"),
    Break("L11", "duly.words.phrase", "in_quotes", _as_it_is, WORDS, "a title closes its marks"),
    Break("A5", "duly.desk.sight", "Sight.text", _plain, WHY, "a secret in a title"),
    Break("A5", "duly.desk.sight", "Sight.value", _plain_value, WHY, "a secret in a preview"),
    Break(
        "A1",
        "duly.desk.explanation",
        "Explainer.observed",
        property(_no_one),
        WHY,
        "a call that was not let through is not shown",
    ),
    Break("L10", "duly.desk.offer", "_can_be_asked", _is_always, WHY, "an offer nobody can keep"),
    Break("F8", "duly.rules.standing", "needs_person", _is_never, PAGES, "nobody is asked"),
    Break(
        "U5", "duly.words.phrase", "quote", _as_it_is, WORDS, "another's words are taken for ours"
    ),
    Break("U7", "duly.rules.standing", "LINES", ON, RULES, "what waits for you is unsaid"),
    Break("U7", "duly.rules.standing", "LINES", (*FAILED, *ON), RULES, "no question is put"),
    Break("F7", "duly.desk.offer", "on_workflow", _no_one, GIVEN, "no resume is offered"),
    Break("U1", "duly.desk.views", "_planned_at", _no_one, VIEWS, "no word of the next check"),
    Break("U2", "duly.store.trace", "list_caused", _nothing, ACCOUNT, "an input is not followed"),
    Break("U2", "duly.store.trace", "list_run_roots", _nothing, ACCOUNT, "a change has no inputs"),
    Break("U2", "duly.store.trace", "list_roots", _nothing, ACCOUNT, "an event has no inputs"),
    Break("U2", "duly.desk.account", "Place.key", property(_one_key), ONCE, "a page repeats"),
    Break(
        "U2",
        "duly.rules.account",
        "OUTPUT_OF",
        {**OUTPUT_OF, MutationStatus.INDETERMINATE: OutputStatus.DONE},
        ACCOUNT,
        "what nobody knows is called done",
    ),
    Break("U4", "duly.rules.standing", "is_stale", _is_never, ACCOUNT, "nothing is ever stale"),
    Break("U4", "duly.desk.account", "Book.stale", lambda _: {}, ACCOUNT, "no old one is counted"),
    Break("F8", "duly.rules.account", "is_silent", _is_never, SILENCE, "silence goes unnoticed"),
    Break("U1", "duly.store.tally", "note", _no_one, FIGURES, "nothing is counted"),
    Break(
        "A4", "duly.store.tally", "note_row", _count_every_row, FIGURES, "a yes counts as a send"
    ),
    Break("U1", "duly.env", "Lag.note", _no_one, EACH, "no lag is kept"),
    Break("U1", "duly.store.tally", "note_delivery", _no_one, EACH, "no delivery is counted"),
    Break("B5", "duly.desk.figure", "UNFINISHED", (*DeliveryStatus,), EACH, "ended ones are open"),
    Break("M2", "duly.desk.figure", "cost_of", lambda *_: 0.0, EACH, "a model costs nothing"),
    Break(
        "M2",
        "duly.desk.figure",
        "COUNTED",
        {**figure.COUNTED, FigureName.MODEL_QUESTIONS: "nothing"},
        EACH,
        "questions are not counted",
    ),
    Break("W9", "duly.desk.account", "Book.orphaned", lambda _: {}, LEFT, "the rest is unseen"),
)
