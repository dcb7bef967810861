"""Where errors are raised in the source: class, code and facts, read off the syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from duly import errors
from duly.errors import DulyError
from tests.house import SOURCE

CLASSES = {
    name
    for name, each in vars(errors).items()
    if isinstance(each, type) and issubclass(each, DulyError)
}


@dataclass(frozen=True)
class Site:
    """One place where an error is made; `code` is empty where it is no literal."""

    file: str
    line: int
    kind: str
    code: str
    facts: frozenset[str]
    is_open: bool  # some facts come from elsewhere, so that not all of their names are known
    wanted: str | None
    verb: str | None
    prose: tuple[str, ...]
    has_message: bool  # a sentence of its own is given, be it a literal or not


def find_sites(*rooms: str) -> list[Site]:
    """Find every error that is made in these rooms, or anywhere."""
    folders = [SOURCE / room for room in rooms] or [SOURCE]
    return [site for folder in folders for path in _files(folder) for site in _read(path)]


def find_texts(*, without: str) -> set[str]:
    """Find every text that stands in the source outside of one room."""
    return {
        node.value
        for path in _files(SOURCE)
        if without not in path.relative_to(SOURCE).parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


@cache
def _read(path: Path) -> list[Site]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return [_site(path, call) for call in calls if _name(call.func) in CLASSES]


def _site(path: Path, call: ast.Call) -> Site:
    given = {each.arg: each.value for each in call.keywords}
    facts = given.get("facts")
    pairs = zip(facts.keys, facts.values, strict=True) if isinstance(facts, ast.Dict) else ()
    named = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
    is_open = None in given or (facts is not None and not isinstance(facts, ast.Dict))
    if isinstance(facts, ast.Dict):
        is_open = is_open or len(named) < len(facts.keys)
    offer = given.get("next")
    is_offer = isinstance(offer, ast.Call) and offer.args
    return Site(
        file=path.relative_to(SOURCE).as_posix(),
        line=call.lineno,
        kind=_name(call.func),
        code=_text(given.get("code")),
        facts=frozenset(str(each) for each in named),
        is_open=is_open,
        wanted=_text(named["wanted"]) if "wanted" in named else None,
        verb=_text(offer.args[0]) if is_offer and isinstance(offer, ast.Call) else None,
        prose=tuple(_prose(call)),
        has_message=bool(call.args) or "message" in given,
    )


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _text(node: ast.expr | None) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _prose(call: ast.Call) -> Iterator[str]:
    for node in ast.walk(call):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and " " in text.strip() and any(map(str.isalpha, text)):
            yield text
