"""Cuts a JavaScript text into units, and says which of them ask the clock or the dice (F3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from tree_sitter import Node as Tree

from duly.rules.source import Source
from duly.script import javascript
from duly.script.chance import ChanceReading, Unit
from duly.script.javascript_name import FUNCTIONS, bare, everything, inside, parameters_of, words
from duly.script.outline import Text

# Mentioning one of these is a way to the clock, to the dice, or to anything.
NAMES: Final = frozenset(
    {"performance", "Temporal", "Intl", "crypto", "globalThis", "eval", "Function", "Reflect"}
    | {"WeakRef", "FinalizationRegistry"}
)
MEMBERS: Final = frozenset(
    {"now", "random", "constructor", "timeOrigin", "randomUUID", "getRandomValues", "clock"}
    | {"race", "any", "__proto__", "__lookupGetter__"}
)
# Members of Date and Math that ask neither clock nor dice: all of Math but `random`.
PLAIN_DATES: Final = frozenset({"parse", "UTC"})
IDENTIFIERS: Final = frozenset(
    {"identifier", "shorthand_property_identifier", "shorthand_property_identifier_pattern"}
)
PROPERTIES: Final = frozenset({"property_identifier", "private_property_identifier"})
ASSIGNMENTS: Final = frozenset({"assignment_expression", "augmented_assignment_expression"})
STRINGS: Final = frozenset({"string", "template_string"})
SILENT: Final = frozenset({"{", "}", ";", ","})  # punctuation that says nothing by itself
_ESCAPE: Final = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
UNICODE_MAX: Final = 0x10FFFF
INSIDE_MAX: Final = 200  # nodes of an index or of a list of parameters; no author writes more


@dataclass(frozen=True, slots=True)
class _Around:
    """The context of a node: its unit, and the function it is in."""

    unit: int
    function: str = ""  # its name; one that is handed to a call has none
    outer: int | None = None  # the unit a function without a name stands in
    is_inside: bool = False  # in a function, so not run at load


def read(source: Source) -> ChanceReading:
    """Cut a text whose syntax is known to be right."""
    cutter = _Cutter(Text(source.text))
    cutter.cut(javascript.parse(source))
    return cutter.reading


@dataclass(slots=True)
class _Cutter:
    text: Text
    reading: ChanceReading = field(default_factory=lambda: ChanceReading([Unit(1)]))

    def cut(self, root: Tree) -> None:
        for statement in inside(root):
            start = len(self.reading.tokens)
            self.walk(statement)
            for name in _names(statement):
                self.reading.named[name].append((start, len(self.reading.tokens)))

    def walk(self, root: Tree) -> None:
        """Visit every node in the order of the text, without recursion."""
        is_loose = not list(_names(root))
        waiting: list[tuple[Tree, _Around, int | None]] = [(root, _Around(0), None)]
        while waiting:
            node, around, started = waiting.pop()
            if started is not None:
                place = self.text.place(node.start_point[0], node.start_point[1])
                self.reading.functions[place] = (started, len(self.reading.tokens))
                continue
            if node.type == "comment":
                continue
            if node.type in FUNCTIONS:
                waiting.append((node, around, len(self.reading.tokens)))
            inner = self.enter(node, around)
            if (asked := _asked(node)) is not None:
                self.reading.units[inner.unit].asks = asked
            is_leaf = node.type == "string" or not node.children
            if is_leaf:
                self.token(node, inner, is_loose=is_loose and not inner.is_inside)
            else:
                waiting += [(each, inner, None) for each in reversed(node.children)]

    def enter(self, node: Tree, around: _Around) -> _Around:
        """Open a unit where one begins, and say what gets its value."""
        kind = node.type
        if kind in FUNCTIONS:
            name = _name_of(node)
            self.reading.parameters[name] |= {
                _plain(words(each))
                for parameter in parameters_of(node)
                for each in islice(everything(parameter), INSIDE_MAX)
                if each.type in IDENTIFIERS
            }
            unit = self.open(node, flows_to=None if name else around.unit)
            return _Around(unit, name, None if name else around.unit, True)
        if kind == "return_statement" or _is_body(node):
            unit = self.open(node, flows_to=around.outer)
            self.reading.units[unit].targets |= {around.function} - {""}
        elif kind == "pair" and (key := _key(node)) is not None:
            unit = self.open(node)
            self.reading.units[unit].targets.add(key)
        elif kind == "variable_declarator":
            unit = self.open(node)
            self.reading.units[unit].targets |= set(_targets(node.child_by_field_name("name")))
        elif kind in ASSIGNMENTS or kind == "for_in_statement":
            unit = self.open(node, flows_to=around.unit if kind in ASSIGNMENTS else None)
            self.reading.units[unit].targets |= set(_targets(node.child_by_field_name("left")))
        elif kind.endswith("_statement") or kind == "class_declaration":
            unit = self.open(node)
        else:
            unit = around.unit
            self.note_call(node, unit)
            return around
        return replace(around, unit=unit)

    def open(self, node: Tree, *, flows_to: int | None = None) -> int:
        self.reading.units.append(Unit(node.start_point[0] + 1, flows_to))
        return len(self.reading.units) - 1

    def note_call(self, node: Tree, unit: int) -> None:
        if node.type == "subscript_expression" and not _is_literal(_index(node)):
            self.reading.units[unit].picks = True
        if node.type in ("call_expression", "new_expression"):
            callee = _callee(node)
            last = callee and (callee.child_by_field_name("property") or callee)
            if last is not None and last.type in (*IDENTIFIERS, *PROPERTIES):
                self.reading.units[unit].calls.add(_plain(words(last)))

    def token(self, node: Tree, around: _Around, *, is_loose: bool) -> None:
        text = words(node)
        if node.type in SILENT:
            return
        is_word = node.type in IDENTIFIERS or node.type in PROPERTIES or node.type == "string"
        if is_word:
            text = _plain(text[1:-1] if node.type == "string" else text)
        self.reading.add(around.unit, text, is_word=is_word)
        if is_loose:
            self.reading.loose.append(text)


# -- What asks ----------------------------------------------------------------------------------


def _asked(node: Tree) -> str | None:
    """Name the clock or the dice, or what may be a way to them."""
    kind = node.type
    if kind in IDENTIFIERS:
        return _asked_name(node, _plain(words(node)))
    if kind == "property_identifier" and node.parent is not None:
        name = _plain(words(node))
        return name if name in MEMBERS and node.parent.type == "member_expression" else None
    if kind in STRINGS and not any(each.type == "template_substitution" for each in node.children):
        text = _plain(words(node)[1:-1])
        return text if text in NAMES | MEMBERS | {"Date", "Math"} else None
    if kind == "computed_property_name" and _is_pattern(node):
        return "a member named at run time"
    if kind == "subscript_expression":
        return _asked_member(node)
    return None


def _asked_name(node: Tree, name: str) -> str | None:
    parent, index = node.parent, None
    while parent is not None and parent.type == "parenthesized_expression":
        node, parent = parent, parent.parent
    if name in NAMES:
        return name
    if name not in ("Date", "Math") or parent is None:
        return None
    if parent.type == "member_expression" and _is(parent.child_by_field_name("object"), node):
        taken = _plain(words(parent.child_by_field_name("property")))
        if taken in PLAIN_DATES or (name == "Math" and taken not in MEMBERS):
            return None
    if name == "Date" and parent.type == "new_expression":
        given = inside(parent.child_by_field_name("arguments"))
        index = next(iter(given), None)
        if index is not None and all(each.type != "spread_element" for each in given):
            return None
    is_asked = words(parent.child_by_field_name("operator")) == "instanceof"
    return None if is_asked else name


def _asked_member(node: Tree) -> str | None:
    """Find a member whose name is computed, or that is called without being written."""
    index = _index(node)
    if _is_literal(index):
        return None
    some = list(islice(everything(index), INSIDE_MAX))
    built = any(each.type in STRINGS or each.type == "call_expression" for each in some)
    built = built or len(some) == INSIDE_MAX
    parent = node.parent
    while parent is not None and parent.type == "parenthesized_expression":
        node, parent = parent, parent.parent
    is_called = parent is not None and _is(_callee(parent), node)
    return "a member named at run time" if built or is_called else None


def _is_literal(index: Tree | None) -> bool:
    return index is not None and index.type in ("string", "number")


def _index(node: Tree) -> Tree:
    return bare(node.child_by_field_name("index")) or node


def _callee(node: Tree) -> Tree | None:
    return node.child_by_field_name("function") or node.child_by_field_name("constructor")


def _is(one: Tree | None, other: Tree) -> bool:
    return one is not None and one.id == other.id


def _is_pattern(node: Tree) -> bool:
    return node.parent is not None and node.parent.type == "pair_pattern"


# -- Names --------------------------------------------------------------------------------------


def _plain(text: str) -> str:
    """Read a name as the interpreter does, its escapes resolved."""
    return _ESCAPE.sub(_resolve, text) if "\\" in text else text


def _resolve(match: re.Match[str]) -> str:
    number = int(next(group for group in match.groups() if group), 16)
    return chr(number) if number <= UNICODE_MAX else match[0]


def _is_body(node: Tree) -> bool:
    """Tell whether a node is the expression that an arrow function returns."""
    parent = node.parent
    is_arrow = parent is not None and parent.type == "arrow_function"
    if parent is None or not is_arrow or node.type == "statement_block":
        return False
    return _is(parent.child_by_field_name("body"), node)


def _key(pair: Tree) -> str | None:
    key = pair.child_by_field_name("key")
    if key is None or key.type == "computed_property_name":
        return None
    return _plain(words(key).strip("\"'"))


def _name_of(function: Tree) -> str:
    """Return the name of a function: its own, or that of the variable it is assigned to."""
    name = function.child_by_field_name("name")
    holder = function.parent
    if name is None and holder is not None and holder.type in ("pair", "variable_declarator"):
        name = holder.child_by_field_name("key") or holder.child_by_field_name("name")
    if name is None and holder is not None and holder.type in ASSIGNMENTS:
        left = holder.child_by_field_name("left")
        name = left and (left.child_by_field_name("property") or left)
    return _plain(words(name).strip("\"'"))


def _targets(node: Tree | None) -> Iterator[str]:
    """List the names an assignment writes; for a member, the name of the member."""
    if node is None:
        return
    if node.type == "member_expression":
        yield _plain(words(node.child_by_field_name("property")))
        return
    if node.type == "subscript_expression":
        index = _index(node)
        if index.type == "string":
            yield _plain(words(index)[1:-1])
            return
        yield from _targets(bare(node.child_by_field_name("object")))
        return
    for each in everything(node):
        if each.type in IDENTIFIERS or (each.type in PROPERTIES and each is not node):
            yield _plain(words(each))


def _names(statement: Tree) -> Iterator[str]:
    """List the names a statement of the module declares."""
    if statement.type == "export_statement":
        statement = statement.child_by_field_name("declaration") or statement
    if statement.type in FUNCTIONS or statement.type == "class_declaration":
        yield _plain(words(statement.child_by_field_name("name")))
    elif statement.type in ("lexical_declaration", "variable_declaration"):
        for each in inside(statement):
            yield from _targets(each.child_by_field_name("name"))
