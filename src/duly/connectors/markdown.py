"""Writes a text in Markdown that shows exactly this text, for services that read Markdown alone.

Law: no character of the text is markup, a mention or an emoji afterwards (K12). An address of the
web stays one, in angle brackets. Only what CommonMark and Discord have in common is used: a
backslash before punctuation. HTML and entities are not, since Discord would show them.
"""

from __future__ import annotations

import re
from typing import Final

WEB: Final = re.compile(r"https?://[^\s<>`\"'\\]+")
ESCAPED: Final = frozenset("\\`*_~[]<>|#{}!$^&")
JOINER: Final = "\u2060"  # no width: behind it a name is no mention
EMOJI: Final = re.compile(r":(?=[A-Za-z0-9_+-]{1,50}:)")
LEADING: Final = re.compile(r"^([ \t]*)(?:([-+=])|([0-9]{1,9})([.)]))?", re.MULTILINE)
NO_BREAK: Final = "\u00a0"


def write_plain_markdown(text: str) -> str:
    """Write a text so that a reader of Markdown shows it as it is."""
    parts: list[str] = []
    last = 0
    for found in WEB.finditer(text):
        parts += [_escape(text[last : found.start()]), f"<{found[0]}>"]
        last = found.end()
    return LEADING.sub(_lead, "".join((*parts, _escape(text[last:]))))


def _escape(text: str) -> str:
    made = "".join(f"\\{each}" if each in ESCAPED else each for each in text)
    return EMOJI.sub(r"\\:", made.replace("@", f"@{JOINER}"))


def _lead(found: re.Match[str]) -> str:
    """Write the beginning of a line: no list, no line below a heading, no block of code."""
    indent = "".join(NO_BREAK * (4 if each == "\t" else 1) for each in found[1])
    if found[2]:
        return f"{indent}\\{found[2]}"
    return f"{indent}{found[3]}\\{found[4]}" if found[3] else indent
