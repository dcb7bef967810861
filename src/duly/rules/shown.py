"""How text from outside is shown to a person: every character can be seen, and every cut (G9, L11).

Law 1  What a person would not see, or a terminal would obey, is spelled out: `\\u200b`. That is
       decided by what a character is, never by a list of the bad ones we have met.
Law 2  A word of letters that belong to different alphabets is another word than it seems: the
       letters of the rarer alphabet are spelled out.
Law 3  What is cut says so, and how long it was.
Law 4  Showing twice is showing once: what was spelled out is plain text.

Every face uses this and nothing else: the command line, logs, channels, sentences of answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Final
from unicodedata import category, name

TAB_COLUMNS: Final = 4
# Control, format (bidi, zero width, tags), surrogate, private, unassigned, ends of lines, spaces.
UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
SPACE: Final = " "  # the one space that is what it looks like
# Marks, letters and symbols without a shape of their own; their Unicode category does not say so.
BLANK: Final = frozenset(
    {
        *map(chr, range(0xFE00, 0xFE10)),  # variation selectors
        *map(chr, range(0xE0100, 0xE01F0)),
        *"\u180b\u180c\u180d\u180f",  # those of Mongolian
        "\u034f",  # combining grapheme joiner
        *"\u115f\u1160\u3164\uffa0",  # fillers of Hangul
        *"\u17b4\u17b5",  # vowels of Khmer that are not written
        "\u2800",  # a cell of braille without dots
        "\ufffc",  # where an object was
        "\U0001d159",  # the head of a note that has none
    }
)
# Alphabets with letters that look like those of another one.
ALPHABETS: Final = frozenset(
    {"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN", "COPTIC", "CHEROKEE", "LISU"}
    | {"DESERET", "GOTHIC", "TIFINAGH", "OSAGE", "FULLWIDTH", "MATHEMATICAL"}
)
WORD: Final = re.compile(r"\w+")
MARKS_MAX: Final = (
    6  # on one letter; more of them cover the lines around it, and no language has them
)
MARKED: Final = frozenset({"Mn", "Me"})


def visible(text: object, *, is_block: bool = False) -> str:
    """Spell out what a person would not see; a block keeps its lines and its tabs as spaces."""
    whole = str(text)
    if is_block:
        lines = whole.split("\n")
        return "\n".join(visible(each.expandtabs(TAB_COLUMNS)) for each in lines)
    if whole.isascii():
        return whole if whole.isprintable() else "".join(map(_spell_unseen, whole))
    apart = WORD.sub(lambda found: _part_alphabets(found[0]), whole)
    return "".join(map(_spell_unseen, _part_marks(apart)))


def visible_json(text: str) -> str:
    """Spell out the same in JSON text, as JSON spells it; it means what it meant."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    apart = WORD.sub(lambda found: _part_alphabets(found[0], _in_json), text)
    apart = _part_marks(apart, _in_json)
    return "".join(c if c == "\n" or is_seen(c) else _in_json(c) for c in apart)


def cut(text: str, most_chars: int, whole_chars: int | None = None) -> str:
    """Keep the beginning of a text; what is cut says so, and how long it was if there is room.

    `whole_chars` is that length where the text is only a part by now.
    """
    size = len(text) if whole_chars is None else whole_chars
    if size <= most_chars:
        return text
    mark = f"… ({size} characters)"
    mark = mark if len(mark) <= most_chars // 2 else "…"
    return f"{text[: most_chars - len(mark)]}{mark}"


@lru_cache(maxsize=4096)
def is_seen(character: str) -> bool:
    """Tell whether a person sees a character, and sees nothing else instead."""
    if character == SPACE:
        return True
    return category(character) not in UNSEEN and character not in BLANK


def _spell_unseen(character: str) -> str:
    return character if is_seen(character) else spell(character)


def spell(character: str) -> str:
    """Spell a character as Python and JavaScript would: `\\x1b`, `\\u200b`, `\\U000e0041`."""
    code = ord(character)
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _in_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _part_alphabets(word: str, spelled: Callable[[str], str] = spell) -> str:
    """Spell out the letters of a word that do not belong to its alphabet."""
    if word.isascii():
        return word
    found = Counter(each for each in map(_alphabet, word) if each)
    if len(found) < 2:
        return word
    # Of two as frequent ones Latin is the one a reader would take it for.
    own = max(found, key=lambda each: (found[each], each == "LATIN"))
    return "".join(c if _alphabet(c) in (own, "") else spelled(c) for c in word)


def _part_marks(text: str, spelled: Callable[[str], str] = spell) -> str:
    """Spell out the marks that no letter of a language has on it."""
    parts: list[str] = []
    count = 0
    for character in text:
        count = count + 1 if is_mark(character) else 0
        parts.append(character if count <= MARKS_MAX else spelled(character))
    return "".join(parts)


@lru_cache(maxsize=4096)
def is_mark(character: str) -> bool:
    """Tell whether a character is written onto the one before it."""
    return category(character) in MARKED


@lru_cache(maxsize=4096)
def _alphabet(character: str) -> str:
    first = name(character, "").partition(" ")[0] if character.isalpha() else ""
    return first if first in ALPHABETS else ""
