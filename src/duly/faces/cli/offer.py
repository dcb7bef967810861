"""How a word of a command line is written, so that it can be pasted as it stands.

Law: every character of an id is quoted, and what a terminal would obey is spelled out (L11).
"""

from __future__ import annotations

import shlex


def quote(word: str) -> str:
    """Quote a word for a shell; what cannot be printed is spelled out."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_spell, word))}'"


def _spell(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
