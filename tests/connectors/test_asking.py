"""Where a key travels and how a tool can be asked: declared, derived, never in contradiction."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.api.build import CONNECTORS
from duly.connectors.registry import Registry
from duly.errors import Invalid
from duly.rules.asking import (
    Answering,
    AskedHow,
    Clash,
    Deleted,
    KeyIn,
    ProofBy,
    is_absence_stale,
)
from duly.rules.catalog import Tool, ToolKind
from duly.words import Clock, texts
from duly.words.asking import CLASHES, KEYS, say_answering
from tests.connectors import asking_page


def make(*, reconciles: bool = False, **terms: Any) -> Tool:
    """Make a tool with these terms, as a host does."""

    class Sheet(duly.Connector):
        name = "sheet"

        @duly.mutation(**terms)
        async def add(self, call: duly.Call, text: str) -> None: ...

        if reconciles:

            @add.reconcile
            async def add_happened(self, call: duly.Call) -> duly.Unsure:
                return duly.Unsure()

    return Registry([Sheet()]).catalog.find("sheet.add")


FOREVER = {"idempotent": True, "key_lifetime_s": math.inf}


@pytest.mark.parametrize(
    ("terms", "reconciles", "asked"),
    [
        ({}, False, AskedHow.NOT_AT_ALL),
        ({}, True, AskedHow.BY_SEARCH),
        ({"lag_s": 0}, True, AskedHow.EXACTLY),
        (FOREVER, False, AskedHow.EXACTLY),
        ({"asked": "exactly"}, True, AskedHow.EXACTLY),
        ({**FOREVER, "asked": "by_search"}, True, AskedHow.BY_SEARCH),
    ],
)
def test_how_a_tool_can_be_asked_follows_from_what_it_has(
    terms: dict[str, Any], reconciles: bool, asked: AskedHow
) -> None:
    """K1: in doubt the weaker word, unless its author says the stronger."""
    assert make(reconciles=reconciles, **terms).asked is asked


@pytest.mark.parametrize(
    ("terms", "reconciles", "clash"),
    [
        ({"asked": "exactly"}, False, Clash.NO_WAY_TO_ASK),
        ({"asked": "by_search"}, False, Clash.NO_WAY_TO_ASK),
        ({"asked": "not_at_all"}, True, Clash.IS_ASKED),
        ({"asked": "not_at_all", **FOREVER}, False, Clash.IS_ASKED),
        ({"key_in": "none"}, True, Clash.KEYLESS),
        ({"key_in": "none", **FOREVER}, False, Clash.KEYLESS),
        ({"proof": "itself"}, False, Clash.NOTHING_TO_PROVE),
    ],
)
def test_a_contradiction_is_refused_when_the_host_is_built(
    terms: dict[str, Any], reconciles: bool, clash: Clash
) -> None:
    """K1: with the reason."""
    with pytest.raises(Invalid) as caught:
        make(reconciles=reconciles, **terms)
    assert (caught.value.code, caught.value.facts["clash"]) == ("key_contradiction", clash)
    assert CLASHES[clash] in str(caught.value)


@pytest.mark.parametrize("name", ["key_in", "asked", "proof", "deleted"])
def test_a_word_that_is_none_is_refused_with_those_there_are(name: str) -> None:
    """K1: by class, method and term."""
    with pytest.raises(Invalid, match=rf"Sheet.add: {name} is 'else'. Say "):
        make(reconciles=True, **{name: "else"})


def test_a_read_has_nothing_to_ask() -> None:
    """K1: and says nothing of a key."""
    assert Tool("a.b", ToolKind.READ, "a.read").answering is None
    with pytest.raises(Invalid):
        Tool("a.b", ToolKind.READ, "a.read", key_in=KeyIn.NONE)


def test_every_ready_made_change_declares_its_key() -> None:
    """K1: of each kind that settings can name."""
    assert asking_page.SAMPLES.keys() == CONNECTORS.keys()
    assert all(each.key_in is not None for each in asking_page.list_answering())


def test_the_page_begins_with_a_table_of_every_kind() -> None:
    """U6: a kind that is missing there is not found."""
    table = asking_page.PAGE.read_text(encoding="utf-8").partition("```")[0]
    named = re.findall(r"^\| \[`(\w+)`\]", table, re.MULTILINE)
    assert sorted(named) == sorted(CONNECTORS)


def test_every_ready_made_question_says_what_it_makes_of_a_deletion(tmp_path: Path) -> None:
    """L6: of each change that has a question; one that is only sent again asks nothing."""
    tools = asking_page.list_tools(tmp_path)
    unsaid = {each.name for each in tools if each.reconciles and each.deleted is None}
    assert unsaid == set()
    assert {each.name for each in tools if each.deleted and not each.reconciles} == set()


@pytest.mark.parametrize(
    ("deleted", "age_s", "lag_s", "is_stale"),
    [
        (Deleted.UNSEEN, 3600, 60, False),
        (Deleted.UNSEEN, 3601, 60, True),
        (Deleted.UNSEEN, -3601, 60, True),  # the clock was set back: the age is not known
        (Deleted.UNSEEN, 9000, 4470, False),  # a tool whose lag is longer still has its time
        (Deleted.UNSEEN, 9001, 4470, True),
        (Deleted.SEEN, 1e9, 60, False),
        (None, 1e9, 60, False),
    ],
)
def test_a_no_that_sees_no_deletion_counts_for_an_hour(
    deleted: Deleted | None, age_s: float, lag_s: float, is_stale: bool
) -> None:
    """L6: the longer nothing was asked, the likelier a person has tidied up."""
    assert is_absence_stale(deleted, age_s, lag_s=lag_s, timeout_s=30) is is_stale


def test_the_page_says_what_the_connectors_declare() -> None:
    """K1: python -m tests.connectors.asking_page --write."""
    page = asking_page.PAGE.read_text()
    assert asking_page.replace_table(page) == page


def test_the_words_are_the_same_everywhere() -> None:
    """K1: with the moment of a proof, on the clock of the project."""
    clock = Clock(0, "UTC")
    found = Answering("a.b", KeyIn.HEADER, AskedHow.BY_SEARCH, 600, ProofBy.TRIAL)
    told = "can answer by search after 600 s (not yet proven with your account)"
    assert say_answering(found, clock) == f"{told}; its key travels in a header"
    assert texts(found, clock) == {
        "text": say_answering(found, clock),
        "proof_text": "not yet proven with your account",
    }
    at = datetime(1970, 5, 3, 9, 12, tzinfo=UTC)
    proven = Answering("a.b", KeyIn.ID, AskedHow.EXACTLY, 60, ProofBy.TRIAL, at)
    told = "can answer exactly (proven with your account on 3 May 09:12 UTC)"
    assert say_answering(proven, clock) == f"{told}; its key travels as the id of what is made"
    unsaid = Answering("a.b", None, AskedHow.NOT_AT_ALL, 60)
    told = "cannot answer at all; where its key travels is not said"
    assert say_answering(unsaid, clock) == told
    assert {*KEYS} == {*KeyIn}
    assert (found.is_believed, proven.is_believed, unsaid.is_believed) == (False, True, True)


def test_the_exam_writes_the_row_of_the_tool(tmp_path: Path) -> None:
    """K1: as it stands on the page."""
    from duly.connectors.files import Files
    from duly.testing.exam import row_of

    row = row_of(Files, "write", tmp_path)
    assert row in asking_page.write_table().splitlines()
