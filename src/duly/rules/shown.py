"""How text from outside is shown to a person: every character can be seen, and every cut (G9, L11).

Law 1  What a person would not see, or a terminal would obey, is spelled out: `\\u200b`. That is
       decided by what a character is, never by a list of the bad ones we have met.
Law 2  A word of letters that belong to different alphabets is another word than it seems: the
       letters of the rarer alphabet are spelled out. So is a part of a name with dots or of an
       address, if all its letters look like Latin ones and another part is Latin.
Law 3  What is cut says so, and how long it was.
Law 4  Showing twice is showing once: what was spelled out is plain text.

Every face uses this and nothing else: the command line, logs, channels, sentences of answers.

A text may have 256 KiB of hostile words, and a page shows many: each character is looked up in a
table that is filled as characters come, and only words that are odd are taken apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
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
# Alphabets with letters that look like those of another one, each by one character in `KINDS`.
NAMED: Final = (
    *("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN", "COPTIC", "CHEROKEE", "LISU"),
    *("DESERET", "GOTHIC", "TIFINAGH", "OSAGE", "FULLWIDTH", "MATHEMATICAL"),
)
ALPHABETS: Final = {name: chr(ord("A") + place) for place, name in enumerate(NAMED)}
LATIN: Final = ALPHABETS["LATIN"]
MARK: Final = "m"  # written onto the letter before it
OTHER: Final = "."  # of a word, and of no such alphabet
OUTSIDE: Final = " "  # of no word
# In a text of kinds: a word with two alphabets in it.
MIXED: Final = re.compile(r"(?<![A-Nm.])[m.]*+([A-N])(?:[m.]|\1)*+[A-N][A-Nm.]*+")
# Parts with dots between them, or the sign of an address.
NAME: Final = re.compile(r"(?<![\w.@-])[\w-]++(?:[.@][\w-]++)++")
BETWEEN: Final = re.compile(r"([.@])")
ESCAPE: Final = re.compile(r"(\\(?:u[0-9a-fA-F]{4}|.))")  # of JSON: its letters are no word
# Letters that are taken for Latin ones; a part of a name that has others is read as what it is.
LOOKALIKES: Final = frozenset(
    # Cyrillic
    "\u0430\u0432\u0433\u0435\u043a\u043c\u043d\u043e\u043f\u0440\u0441\u0442\u0443\u0445\u044c"
    "\u0455\u0456\u0458\u04bb\u04bd\u04cf\u0501\u051b\u051d\u0475\u0461"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u042c"
    "\u0405\u0406\u0408\u04ae\u04ba\u04c0\u051a\u051c"
    "\u03b1\u03b3\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03c9"  # Greek
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u0585\u057d\u0578\u0570\u0566"  # Armenian
)
SHORT_CHARS: Final = 40  # of a word whose spelling is remembered
TABLE_ROWS_MAX: Final = 8192  # a text of all characters there are must not fill the memory
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
        return whole if whole.isprintable() else whole.translate(SEEN)
    return _part(whole, spell).translate(SEEN)


def visible_json(text: str) -> str:
    """Spell out the same in JSON text, as JSON spells it; it means what it meant."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    between = ESCAPE.split(text)
    between[::2] = [_part(each, _in_json) for each in between[::2]]
    return "".join(between).translate(SEEN_IN_JSON)


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


def _part(text: str, spelled: Callable[[str], str]) -> str:
    """Spell out what makes a word another one than it seems (law 2), and marks that pile up."""
    if text.isascii():
        return text
    kinds = text.translate(KINDS)
    parts: list[str] = []
    end = 0
    for found in MIXED.finditer(kinds):
        begin = found.start()
        parts.append(text[end:begin])
        end = found.end()
        part = _part_short if end - begin <= SHORT_CHARS else _part_word
        parts.append(part(text[begin:end], kinds[begin:end], spelled))
    parts.append(text[end:])
    apart = "".join(parts)
    if MARK * (MARKS_MAX + 1) in kinds:
        apart = _part_marks(apart, spelled)
    if "." in text or "@" in text:
        apart = NAME.sub(lambda name: _part_name(name[0], spelled), apart)
    return apart


def _part_word(word: str, kinds: str, spelled: Callable[[str], str]) -> str:
    """Spell out the letters of a word that do not belong to its alphabet."""
    found = {each: kinds.count(each) for each in set(kinds) - {MARK, OTHER}}
    # Of two as frequent ones Latin is the one a reader would take it for.
    own = (max(found, key=lambda each: (found[each], each == LATIN)), MARK, OTHER)
    pairs = zip(word, kinds, strict=True)
    return "".join(letter if kind in own else spelled(letter) for letter, kind in pairs)


_part_short = lru_cache(maxsize=4096)(_part_word)


def _part_name(name: str, spelled: Callable[[str], str]) -> str:
    """Spell out the parts of a name that only look Latin, if another part is."""
    if name.isascii() or LATIN not in name.translate(KINDS):
        return name
    return "".join(
        "".join(map(spelled, part)) if _is_lookalike(part) else part for part in BETWEEN.split(name)
    )


def _is_lookalike(part: str) -> bool:
    letters = [each for each in part if each.isalpha()]
    return bool(letters) and LOOKALIKES.issuperset(letters)


def _part_marks(text: str, spelled: Callable[[str], str]) -> str:
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


class _Table(dict[int, str]):
    """What `str.translate` puts in the place of each character; filled as they come."""

    def __init__(self, find: Callable[[str], str]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, code: int) -> str:
        if len(self) >= TABLE_ROWS_MAX:
            self.clear()
        found = self[code] = self._find(chr(code))
        return found


def _kind(character: str) -> str:
    """Tell what a character is in a word, by one character."""
    if is_mark(character):
        return MARK
    if not character.isalnum() and character != "_":
        return OUTSIDE
    first = name(character, "").partition(" ")[0] if character.isalpha() else ""
    return ALPHABETS.get(first, OTHER)


def _show(character: str, spelled: Callable[[str], str]) -> str:
    return character if is_seen(character) else spelled(character)


def _show_in_json(character: str) -> str:
    return character if character == "\n" else _show(character, _in_json)


KINDS: Final = _Table(_kind)
SEEN: Final = _Table(partial(_show, spelled=spell))
SEEN_IN_JSON: Final = _Table(_show_in_json)
