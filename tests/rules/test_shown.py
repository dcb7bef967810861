"""What a person sees of a text from outside: every character, and every cut (G9)."""

from __future__ import annotations

import json
import sys
import time
from unicodedata import category

import pytest

from duly.rules.shown import UNSEEN, cut, is_seen, visible, visible_json
from duly.words.phrase import in_quotes

# Characters that approvals once printed as they were, and what they are.
HIDDEN = {
    "\u00ad": "soft hyphen",
    "\u034f": "combining grapheme joiner",
    "\u061c": "Arabic letter mark",
    "\u115f": "Hangul choseong filler",
    "\u1160": "Hangul jungseong filler",
    "\u17b4": "Khmer vowel inherent",
    "\u180e": "Mongolian vowel separator",
    "\u200b": "zero width space",
    "\u200e": "left-to-right mark",
    "\u200f": "right-to-left mark",
    "\u2060": "word joiner",
    "\u2800": "braille blank",
    "\u3164": "Hangul filler",
    "\ufe0f": "variation selector",
    "\uffa0": "halfwidth Hangul filler",
    "\U000e0041": "tag",
    "\U000e0100": "variation selector supplement",
}


@pytest.mark.parametrize("character", HIDDEN, ids=HIDDEN.values())
def test_a_hidden_character_is_spelled_out(character: str) -> None:
    """G9: a call that pays another account than it seems to is not approved."""
    spelled = character.encode("unicode_escape").decode()
    assert visible(f"pay{character}ment") == f"pay{spelled}ment"
    assert visible(character, is_block=True) == spelled
    assert in_quotes(character) == f"“{spelled}”"
    text = json.dumps({"to": f"a{character}b"}, ensure_ascii=False)
    assert character not in visible_json(text)
    assert json.loads(visible_json(text)) == {"to": f"a{character}b"}


def test_whole_categories_are_spelled_out_and_letters_are_not() -> None:
    """G9: every character there is, by what it is; one space is what it looks like."""
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        kind = category(character)
        if kind in UNSEEN and character != " ":
            assert not is_seen(character), hex(code)
        elif kind[0] in "LNPS" and character not in HIDDEN | {"\ufffc": "", "\U0001d159": ""}:
            assert is_seen(character), hex(code)
    assert visible("\u00a0\u2003\u3000") == r"\xa0\u2003\u3000"
    assert visible("\ud800\ue000\u0378\u2028") == r"\ud800\ue000\u0378\u2028"


@pytest.mark.parametrize(
    "text",
    ["", "plain", "Grüße, 東京 – مرحبا 👋", "e\u0301te\u0301", "naïve Ünïcode", "1 000 €", "don’t"],
)
def test_what_can_be_read_stays_as_it_is(text: str) -> None:
    """G9: people write in their own languages."""
    assert visible(text) == text
    assert visible_json(text) == text


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("p\u0430ypal.com", r"p\u0430ypal.com"),  # Cyrillic a
        ("\u0440\u0430ypal", r"\u0440\u0430ypal"),
        ("\u041f\u0440\u0438\u0432et", "\u041f\u0440\u0438\u0432" + r"\x65\x74"),
        ("\u0391cme", r"\u0391cme"),  # Greek capital alpha
        ("acm\uff45", r"acm\uff45"),  # full width
        ("s\U0001d41erver", r"s\U0001d41erver"),  # mathematical bold
        ("\u0420\u043e\u0441\u0441\u0438\u044f and London", None),
        ("\u041f\u0440\u0438\u0432\u0435\u0442-world", None),
        ("T\u6064 \u30c6\u30ec\u30d3\u5c40 A4\u7d19", None),  # as Chinese and Japanese write
    ],
)
def test_a_word_of_two_alphabets_is_marked(text: str, seen: str | None) -> None:
    """G9: the letters of the rarer one are spelled out; words beside each other are fine."""
    assert visible(text) == (text if seen is None else seen)
    whole = json.dumps(text, ensure_ascii=False)
    assert json.loads(visible_json(whole)) == text
    assert (visible_json(whole) == whole) is (seen is None)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("ceo@\u0430\u0440\u0440\u04cf\u0435.com", r"ceo@\u0430\u0440\u0440\u04cf\u0435.com"),
        ("\u0441\u0435\u043e@acme.com", r"\u0441\u0435\u043e@acme.com"),  # not ceo
        ("\u0440\u043e\u043c\u0430@\u043f\u043e\u0447\u0442\u0430.\u0440\u0444", None),  # Russian
        ("\u0430\u0440\u0440.com/pay", r"\u0430\u0440\u0440.com/pay"),
        ("www.\u03bf\u03bf.org", r"www.\u03bf\u03bf.org"),
        ("\u0444\u0430\u0439\u043b.txt", None),  # "file", which is read as Russian
        ("\u0442\u0435\u0441\u0442.\u0440\u0444", None),  # a name of one alphabet
        ("\u0441\u043e\u0440. Next", None),  # the end of a sentence
    ],
)
def test_a_part_of_a_name_that_only_looks_latin_is_marked(text: str, seen: str | None) -> None:
    """G9: a domain is one name, and an approval shows it."""
    assert visible(text) == (text if seen is None else seen)
    whole = json.dumps(f"\n{text}\n", ensure_ascii=False)
    assert json.loads(visible_json(whole)) == f"\n{text}\n"
    assert (visible_json(whole) == whole) is (seen is None)


def test_a_mark_does_not_hide_that_a_word_has_two_alphabets() -> None:
    """G9: it is written onto the letter before it, and ends no word."""
    assert visible("p\u0430\u0301ypal") == "p\\u0430\u0301ypal"


def test_an_escape_of_json_is_no_letter_of_the_word_behind_it() -> None:
    """G9: the JSON means what it meant."""
    text = json.dumps(
        "one\n\u043f\u0440\u0438\u0432\u0435\u0442\t\u043c\u0438\u0440", ensure_ascii=False
    )
    assert visible_json(text) == text


def test_long_hostile_text_is_shown_in_the_time_of_its_length() -> None:
    """G9, G10: a page shows ten such calls on the loop that serves all who look."""
    alike = "a\u0430 " * 83_000
    words = (f"a{chr(0x430 + at % 32)}{at:x}" for at in range(40_000))
    unlike = " ".join(words)
    marked = "e\u0301" * 80_000
    begun = time.process_time()
    for text in (alike, unlike, marked, "\u0430." * 80_000, "a-" * 99_999 + "\u0430"):
        visible(text)
    assert time.process_time() - begun < 2.5


def test_marks_that_pile_up_on_a_letter_are_spelled_out() -> None:
    """G9: a thousand of them cover the lines above and below."""
    piled = visible("a" + "\u0301" * 1000 + "b")
    assert piled == "a" + "\u0301" * 6 + r"\u0301" * 994 + "b"
    assert visible(piled) == piled
    text = json.dumps("x" + "\u0301" * 50, ensure_ascii=False)
    assert json.loads(visible_json(text)) == json.loads(text)
    assert visible_json(text).count("\u0301") == 6
    for word in ("Việt", "הֲלֹ֣א", "བསྒྲུབས", "ที่นี่", "नमस्ते"):
        assert visible(word) == word


def test_a_block_keeps_its_lines_and_a_line_does_not() -> None:
    """G9: a text of several lines is read as such where there is room for it, and nowhere else."""
    text = "one\n\ttwo\x1b[2J\r\nthree\u2028four"
    assert visible(text, is_block=True) == "one\n    two\\x1b[2J\\r\nthree\\u2028four"
    assert visible(text) == "one\\n\\ttwo\\x1b[2J\\r\\nthree\\u2028four"
    assert visible(visible(text)) == visible(text)


def test_json_keeps_its_meaning() -> None:
    """G9: what a program reads is what was there; what a person sees hides nothing."""
    value = {"a\u200b": ["\U000e0041\x7f", 1.5, None, "\\u200b", "p\u0430y"]}
    text = visible_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(text) == value
    assert text.isascii()
    assert "\n" in text


@pytest.mark.parametrize(
    ("size", "most", "seen"),
    [
        (100, 100, "x" * 100),
        (101, 100, "x" * 82 + "… (101 characters)"),
        (12345, 100, "x" * 80 + "… (12345 characters)"),
        (6, 5, "xxxx…"),
        (2, 1, "…"),
    ],
)
def test_a_cut_is_told_with_the_length_of_the_whole(size: int, most: int, seen: str) -> None:
    """G9: at the limit whole, one past it cut; never longer than the limit."""
    assert cut("x" * size, most) == seen
    assert len(seen) <= most


def test_a_part_is_told_with_the_length_of_the_whole() -> None:
    """G9: where only the beginning was looked at."""
    assert cut("x" * 40, 100, 5000).endswith("x… (5000 characters)")
