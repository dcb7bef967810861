"""A condition is seen from what it passes over, without the code (M9; decision 325)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.rules.portion import (
    ITEMS_MAX,
    SAID_CHARS_MAX,
    SHOWN_MAX,
    portion_of_inputs,
    portion_of_items,
)
from tests.models.wrong_drafts import world as office
from tests.models.wrong_drafts.reading import Draft, _source, open_host, preview, read_drafts

ORDERS = (
    ("o1", "carla@customer.example", 40),
    ("o3", "ed@customer.example", 120),
    ("o2", "dora@customer.example", 250),
)
PASSED = "id “o1”, customer “carla@customer.example”, total_eur “40”"
WRONGLY = "id “o3”, customer “ed@customer.example”, total_eur “120”"


def orders(*edits: tuple[str, str]) -> Draft:
    (right,) = (each for each in read_drafts()[0] if each.name == "orders")
    text = right.source.text
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return Draft("orders", right.asked, _source(text))


async def test_what_a_condition_passes_over_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M9: asked for “over 100”; a draft that says 200 shows an order of 120 that it leaves out."""
    monkeypatch.setattr(office, "ORDERS", ORDERS)
    async with open_host(tmp_path) as host:
        right = await preview(host, orders())
        assert f"It uses 2 of 3 items that shop.orders found; passed over:\n    {PASSED}" in right
        assert WRONGLY not in right
        wrong = await preview(host, orders(("> 100", "> 200")))
        assert "It uses 1 of 3 items that shop.orders found" in wrong
        assert WRONGLY in wrong
        assert "passed over" not in await preview(host, orders(("> 100", "> 0")))
        nothing = await preview(host, orders(("> 100", "> 1000")))
        assert "It uses 0 of 3 items that shop.orders found" in nothing


async def test_inputs_that_lead_to_nothing_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M9: also where the condition stands in the consumer."""
    monkeypatch.setattr(office, "ORDERS", ORDERS)
    later = orders(
        ('if order["total_eur"] > 100:', "if True:"),
        (
            'await ctx.chat.post(channel="#orders", text=text)',
            (
                'if order["total_eur"] > 100:\n'
                '            await ctx.chat.post(channel="#orders", text=text)'
            ),
        ),
    )
    async with open_host(tmp_path) as host:
        told = await preview(host, later)
    assert "It acts on 2 of 3 inputs; passed over:\n    “Order o1”" in told


@pytest.mark.parametrize(
    ("said", "used"),
    [
        ([{"text": "Order o2 for 120 euro"}], 1),  # a number may stand there for another reason
        (["o10", "xo1"], 0),  # a part of a word
        (["(o1)", "o2."], 2),
        ([["o1", {"a": {"b": "dora@x.example"}}]], 2),
        ([None, True, 40], 0),
    ],
)
def test_an_item_is_used_where_what_tells_it_apart_stands(said: Any, used: int) -> None:
    """M9: from facts alone."""
    items: list[Any] = [
        {"id": "o1", "to": "carla@x.example", "euro": 120, "kind": "order"},
        {"id": "o2", "to": "dora@x.example", "euro": 250, "kind": "order"},
    ]
    portion = portion_of_items("shop.orders", items, said)
    assert portion is not None
    assert (portion.count, portion.used, len(portion.passed_over)) == (2, used, 2 - used)


def test_items_without_a_text_are_told_apart_by_numbers() -> None:
    portion = portion_of_items("x.y", [1, 2, 3], ["2"])
    assert portion is not None
    assert portion.passed_over == ((("", "1"),), (("", "3"),))


def test_limits_of_what_is_passed_over() -> None:
    """N: some are shown from the first to the last; of too many nothing is said."""
    portion = portion_of_items("x.y", [f"n{each}" for each in range(ITEMS_MAX)], [])
    assert portion is not None
    assert len(portion.passed_over) == SHOWN_MAX
    assert portion.passed_over[-1] == (("", f"n{ITEMS_MAX - 1}"),)
    assert portion_of_items("x.y", [f"n{each}" for each in range(ITEMS_MAX + 1)], []) is None
    assert portion_of_items("x.y", ["n"], ["x" * (SAID_CHARS_MAX + 1)]) is None
    assert portion_of_items("x.y", [], ["x"]) is None
    assert portion_of_inputs([]) is None
