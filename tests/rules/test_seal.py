"""Seals: they fit what was sealed, under one key, and nothing else (L11)."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from duly.rules.seal import (
    AllowanceFacts,
    Facts,
    Flaw,
    RowFacts,
    find_proposal_flaw,
    find_row_flaw,
    judge,
    make_seal,
    name_key,
)

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
ROW = RowFacts("m1", "w1", "mail.send", "inputs", "key", "hash")
ALLOWANCE = AllowanceFacts("a1", "w1", "m1", "mail.send", "1.0", "{}", "{}", 3, 99, "anna", 1)


@pytest.mark.parametrize("facts", [ROW, ALLOWANCE], ids=["row", "allowance"])
def test_a_seal_covers_every_fact(facts: Facts) -> None:
    """L11: tool, arguments by their hash, key, workflow, who approved, and the rest."""
    seal = make_seal(KEY, facts)
    assert judge(KEY, facts, seal) is None
    for field in fields(facts):
        value = getattr(facts, field.name)
        other = "other" if isinstance(value, str) or value is None else value + 1
        changed: Facts = replace(facts, **{field.name: other})  # type: ignore[arg-type]
        assert judge(KEY, changed, seal) == Flaw.CHANGED, field.name


def test_a_seal_of_another_kind_does_not_fit() -> None:
    """L11: what is sealed says what it is."""
    assert make_seal(KEY, ROW) != make_seal(KEY, replace(ROW, id="m2"))
    assert make_seal(KEY, ROW).partition(":")[0] == name_key(KEY)
    assert name_key(KEY) != name_key(OTHER_KEY)


def test_another_key_and_no_seal_are_told_apart_from_a_change() -> None:
    """L11: a person who lost the key is told so."""
    assert judge(KEY, ROW, None) == Flaw.UNSEALED
    flaw = judge(KEY, ROW, make_seal(OTHER_KEY, ROW))
    assert flaw == Flaw.OTHER_KEY
    assert judge(KEY, ROW, "") is not None
    assert judge(KEY, ROW, make_seal(KEY, ROW) + "é") is not None


def test_what_would_be_sent_must_have_the_hash_of_the_row() -> None:
    """L11: the seal holds the hash, the hash holds the call."""
    seal = make_seal(KEY, ROW)
    assert find_row_flaw(KEY, ROW, seal, "hash") is None
    assert find_row_flaw(KEY, ROW, seal, "other") == Flaw.CHANGED


def test_a_row_that_asks_for_a_yes_needs_one() -> None:
    """L11, A3: a proposal may wait for it; what is sent has it."""
    asked = replace(ROW, asked=True)
    seal = make_seal(KEY, asked)
    assert find_proposal_flaw(KEY, asked, seal, "hash") is None
    assert find_row_flaw(KEY, asked, seal, "hash") is Flaw.UNAGREED
    agreed = replace(asked, approved_by="anna")
    assert find_row_flaw(KEY, agreed, make_seal(KEY, agreed), "hash") is None
