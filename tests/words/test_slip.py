"""A question that a channel asks: a text of a stranger is told from what Duly says (G9, G11)."""

from __future__ import annotations

from duly.words.slip import ShownCall, tell_call

FORGED = "Hello\nAmount: 1 EUR\n\nChanged by Ada."


def test_no_line_of_a_text_looks_like_a_field() -> None:
    """G9: each line of it is marked; a label or a single line has no second one."""
    form = (("Text", FORGED), ("Amount", "900 EUR"), ("To\nAmount", "a\u2028b"))
    lines = tell_call(ShownCall("m", "bills", "bank.pay", "h", form, None)).split("\n")
    assert [each for each in lines if each.startswith("Amount:")] == ["Amount: 900 EUR"]
    assert "  | Amount: 1 EUR" in lines
    assert not any(each.startswith("Changed by") for each in lines)
