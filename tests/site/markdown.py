"""Markdown of the pages to HTML: anchors as the forges make them, code in colours, links resolved.

Law 1  What a page links to is decided by `Resolve`, which raises for a target that is not there.
Law 2  Markup that a page writes as HTML is shown as text: comments alone are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

Resolve = Callable[[str], str]
COMMENT: Final = re.compile(r"^<!--.*?-->\s*$", re.MULTILINE | re.DOTALL)
ARROW: Final = re.compile(r"^\s*(\S+) --> (\S+?): (.*)$", re.MULTILINE)
COLOURED: Final = frozenset({"python", "js", "json", "toml", "ini", "sql", "yaml", "sh"})


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of a page: how deep, its anchor, its words, and the beginning of its text."""

    level: int
    anchor: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Written:
    """A page as HTML, with its title and its sections."""

    title: str
    html: str
    sections: tuple[Section, ...]


def write(text: str, resolve: Resolve) -> Written:
    """Write a page as HTML."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.options["highlight"] = _colour
    tokens = parser.parse(COMMENT.sub("", text))
    sections = tuple(_sections(tokens))
    for token in _whole(tokens):
        for name in ("href", "src"):
            if (target := token.attrGet(name)) is not None:
                token.attrSet(name, resolve(str(target)))
    html = parser.renderer.render(tokens, parser.options, {})
    wrapped = html.replace("<table>", '<div class="wide"><table>').replace(
        "</table>", "</table></div>"
    )
    title = next((each.title for each in sections if each.level == 1), "")
    return Written(title, wrapped, sections)


def slug(words: str) -> str:
    """Make the anchor of a heading, as the forges do."""
    return re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")


def plain(token: Token) -> str:
    """Read the words of a line, without its marks."""
    return "".join(each.content for each in token.children or () if each.content)


def _whole(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _whole(token.children or [])


def _sections(tokens: list[Token]) -> Iterator[Section]:
    seen: dict[str, int] = {}
    for place, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        words = plain(tokens[place + 1])
        anchor = slug(words)
        seen[anchor] = seen.get(anchor, -1) + 1
        anchor += f"-{seen[anchor]}" if seen[anchor] else ""
        token.attrSet("id", anchor)
        yield Section(int(token.tag[1]), anchor, words, _beginning(tokens[place + 3 :]))


def _beginning(tokens: list[Token]) -> str:
    for token in tokens:
        if token.type == "heading_open":
            return ""
        if token.type == "inline":
            return plain(token)[:160]
    return ""


def _colour(code: str, language: str, _: Any) -> str:
    if language == "mermaid":
        return _arrows(code)
    if language not in COLOURED:
        return escape(code)
    lexer = get_lexer_by_name("text" if language == "sh" else language, stripnl=False)
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))


def _arrows(code: str) -> str:
    """Write a drawing of states as one line for each arrow: no script draws here."""
    rows = [("begin" if a == "[*]" else a, b, words) for a, b, words in ARROW.findall(code)]
    assert rows, code
    width = max(len(a) for a, _, _ in rows)
    return escape("".join(f"{a:<{width}} → {b}: {words}\n" for a, b, words in rows))
