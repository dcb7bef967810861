"""No sentence stands in `rules` or `desk`: both decide, and `words` speaks (U6)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

from tests import house

ROOMS = ("rules", "desk")
WORDS_MIN = 4
WORD = re.compile(r"(?<![\w{])[A-Za-z]{2,}(?![\w}])")
# What looks like a sentence and is none: types in quotes, patterns, media types, and code that
# examples hold.
CODE = re.compile(r"\w\[|\\b|\(\?:|\bimport\b| \| |^application/\S+$")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def find_prose(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Find texts of four or more words, except docstrings and the formats of logs."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            assert isinstance(node.body[0], ast.Expr)
            skipped.add(id(node.body[0].value))
        if isinstance(node, ast.Call) and _is_log(node.func):
            skipped.update(id(each) for each in node.args[:2])
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
        text = _text(node)
        if len(WORD.findall(text)) >= WORDS_MIN and not CODE.search(text):
            yield getattr(node, "lineno", 0), text


def _is_log(called: ast.expr) -> bool:
    owner = called.value if isinstance(called, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id == "log"


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each) or "{}" for each in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""


def files() -> list[Path]:
    found = [path for room in ROOMS for path in (house.SOURCE / room).rglob("*.py")]
    assert len(found) > 50
    return sorted(found)


@pytest.mark.parametrize("path", files(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_sentence_stands_where_it_is_decided(path: Path) -> None:
    """U6: a code and facts stand there; the sentence is made from them in `words`."""
    assert [*find_prose(ast.parse(path.read_text(encoding="utf-8")))] == []


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("x = 'this is a whole sentence'", True),
        ("x = f'this {one} is one whole sentence'", True),
        ("x = 'not a sentence'", False),
        ("x = 'a_code_of_many_words'", False),
        ("def f():\n    'It says what a thing is for.'", False),
        ("log.warning('this is the format of a log %s')", False),
        ("x: 'dict[str, Any] | None | int'", False),
        ("raise Invalid('this is a whole sentence')", True),
    ],
)
def test_the_search_finds_sentences_and_nothing_else(code: str, is_found: bool) -> None:
    """U6: the search is awake."""
    assert bool([*find_prose(ast.parse(code))]) is is_found


# A command, an option or a call in Python.
TYPED = re.compile(r"`duly |(?<!\w)--[a-z]|\b(?:host|bus)\.\w+\(|=True\b")


def find_typed(tree: ast.AST) -> list[str]:
    """Find the texts that say what to type, except docstrings."""
    docs = {ast.get_docstring(each, clean=False) for each in ast.walk(tree) if is_documented(each)}
    texts = [_text(each) for each in ast.walk(tree)]
    return [each for each in texts if TYPED.search(each) and each not in docs]


def is_documented(node: ast.AST) -> TypeGuard[ast.Module | ast.ClassDef | ast.FunctionDef]:
    """Tell whether a node can have a docstring."""
    return isinstance(node, DOCUMENTED)


def test_no_sentence_of_words_says_what_to_type() -> None:
    """U6: every face spells an offer its own way, so no sentence names a command or a call."""
    paths = sorted((house.SOURCE / "words").glob("*.py"))
    assert len(paths) > 20
    found = {path.name: find_typed(ast.parse(path.read_text(encoding="utf-8"))) for path in paths}
    assert {name: texts for name, texts in found.items() if texts} == {}
    for text in ("See `duly why x`.", "Add --replay.", "Use replay=True.", "Call host.why(x)."):
        assert find_typed(ast.parse(f"'Doc: host.f().'\nx = {text!r}")) == [text]
