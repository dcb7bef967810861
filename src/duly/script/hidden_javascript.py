"""Where a JavaScript text uses `ctx` so that no reader could follow it; runs nothing (W5, M9).

The laws are those of `hidden_python.py`: only calls, names for parts of `ctx` and functions of the
text that it is handed to are read, every other place is reported; and a function that is followed
is the one that runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tree_sitter import Node as Tree

from duly.script.javascript_name import (
    NAME_BYTES_MAX,
    everything,
    everything_inside,
    inside,
    key_of,
    words,
)
from duly.script.outline import Alias, Effort, NameScope

NAMES: Final = frozenset({"identifier", "shorthand_property_identifier"})
BOUND: Final = frozenset({"identifier", "shorthand_property_identifier_pattern"})
SPELLED: Final = frozenset(
    {"property_identifier", "shorthand_property_identifier_pattern", "private_property_identifier"}
)
# Where a name is bound and not used; of a pattern with a value only its left side.
BINDING: Final = frozenset(
    {"formal_parameters", "array_pattern", "object_pattern", "rest_pattern", "pair_pattern"}
)
LEFT: Final = frozenset(
    {"assignment_pattern", "object_assignment_pattern", "assignment_expression", "for_in_statement"}
)
# They give out, or exchange, what a function or an object holds, without its name.
DOORS: Final = frozenset({"arguments", "eval", "Function", "globalThis", "Reflect", "Proxy"})
EXCHANGING: Final = frozenset(
    {"Object.assign", "Object.defineProperty", "Object.defineProperties", "Object.setPrototypeOf"}
)
INNER: Final = frozenset({"__proto__", "prototype", "constructor", "__defineGetter__"})
CHANGED: Final = frozenset({"assignment_expression", "augmented_assignment_expression"})


@dataclass(slots=True)
class FollowedPlaces:
    """What a reader of flows has followed, and which names stand for `ctx` or a part of it.

    Names belong to a whole function of the module, with all that is written inside of it.
    """

    places: set[int] = field(default_factory=set)  # where followed names begin
    holders: dict[int, set[str]] = field(default_factory=dict)
    read: dict[int, Tree] = field(default_factory=dict)

    def enter(self, key: str, node: Tree) -> None:
        """Note that a function is read; the outermost one counts."""
        self.read.setdefault(_outermost(key), node)

    def hold(self, key: str, name: str) -> None:
        """Note that a name stands for a part of `ctx` somewhere in a function."""
        self.holders.setdefault(_outermost(key), set()).add(name)

    def learn(self, pattern: Tree, meaning: object, value: Tree, scope: NameScope) -> None:
        """Note that parts of `ctx` have names now; a name that was another before is lost."""
        if not isinstance(meaning, Alias):
            return
        names = [words(each) for each in everything(pattern) if each.type in BOUND]
        for name in names:
            self.hold(scope.key, name)
        if all(isinstance(scope.names.get(name), Alias) for name in names):
            self.follow(value)

    def follow(self, node: Tree) -> None:
        """Note that the name an expression begins with is followed where it stands."""
        root: Tree | None = node
        while root is not None and root.type not in NAMES:
            is_chain = root.type in ("member_expression", "subscript_expression")
            is_held = root.type == "parenthesized_expression"
            root = root.child_by_field_name("object") if is_chain else _only(root, is_held)
        if root is not None:
            self.places.add(root.start_byte)


def _only(node: Tree, is_held: bool) -> Tree | None:
    return next(iter(inside(node)), None) if is_held else None


def find_hidden(root: Tree, followed: FollowedPlaces, effort: Effort) -> Iterator[Tree]:
    """Yield the places where a text uses `ctx` in a way that is not followed."""
    for key, held in followed.holders.items():
        for node, around in everything_inside(followed.read[key]):
            effort.spend()
            is_used = node.type in NAMES and not _is_bound(node, around)
            if is_used and words(node) in held and node.start_byte not in followed.places:
                yield node
    passing = {name for key in followed.holders for name in _names_of(followed.read[key])}
    functions = {each.id for each in followed.read.values()}
    holding = {name for key in followed.holders for name in _holders_of(followed.read[key])}
    for node, around in everything_inside(root):
        effort.spend()
        if _is_door(node, around) or _is_exchange(node, passing, holding):
            yield node
        elif node.type == "object" and any(
            each.id in functions or _value(each) in functions for each in inside(node)
        ):
            yield from _unclear(node)
    yield from _named_twice(root, passing, effort)


def _is_bound(node: Tree, around: Tree) -> bool:
    """Tell whether a name gets its value there."""
    if around.type in BINDING:
        return True
    if around.type in LEFT:
        return _is_field(around, "left", node)
    return _is_field(around, "name", node) or _is_field(around, "parameter", node)


def _is_field(around: Tree, name: str, node: Tree) -> bool:
    found = around.child_by_field_name(name)
    return found is not None and found.id == node.id


def _is_door(node: Tree, around: Tree) -> bool:
    if node.type in NAMES:
        return words(node) in DOORS or _is_disguised(node)
    if node.type in SPELLED:
        is_inner = around.type == "member_expression" and words(node) in INNER
        return is_inner or _is_disguised(node)
    return node.type == "with_statement"


def _is_disguised(node: Tree) -> bool:
    """Tell whether a name is written by numbers of characters, or longer than any name."""
    is_long = node.end_byte - node.start_byte > NAME_BYTES_MAX
    return is_long or "\\" in words(node)


def _is_exchange(node: Tree, passing: set[str], holding: set[str]) -> bool:
    """Tell whether something is put in the place of a function that `ctx` goes through."""
    if node.type in CHANGED:
        target = node.child_by_field_name("left")
        if target is None:
            return False
        if target.type == "identifier":
            return words(target) in passing
        if target.type == "member_expression":
            return words(target.child_by_field_name("property")) in passing
        if target.type == "subscript_expression":
            index = target.child_by_field_name("index")
            is_known = index is not None and index.type == "string"
            is_holder = words(target.child_by_field_name("object")) in holding
            return key_of(index) in passing if is_known else is_holder
        return False
    if node.type != "call_expression":
        return False
    given = inside(node.child_by_field_name("arguments"))
    is_fresh = bool(given) and given[0].type == "object"
    return words(node.child_by_field_name("function")) in EXCHANGING and not is_fresh


def _unclear(node: Tree) -> Iterator[Tree]:
    """Yield what may exchange a function of an object: a spread, a made-up key, a key twice."""
    seen: set[str] = set()
    for each in inside(node):
        key = each.child_by_field_name("key") or each.child_by_field_name("name")
        name = words(each) if each.type in NAMES else key_of(key)
        is_made_up = key is not None and key.type == "computed_property_name"
        is_getter = any(one.type in ("get", "set") for one in each.children)
        if each.type == "spread_element" or is_made_up or is_getter or name in seen:
            yield each
        seen.add(name)


def _value(node: Tree) -> int | None:
    value = node.child_by_field_name("value") if node.type == "pair" else None
    return None if value is None else value.id


def _names_of(node: Tree) -> Iterator[str]:
    """Yield the names by which a function is found: its own, and that of what holds it."""
    around = node.parent
    for holder, name in ((node, "name"), (around, "name"), (around, "key")):
        if holder is not None and (found := holder.child_by_field_name(name)) is not None:
            yield key_of(found)


def _holders_of(node: Tree) -> Iterator[str]:
    """Yield the names of the objects that a function stands in."""
    around = node.parent
    while around is not None and around.type in ("pair", "object", "arguments", "call_expression"):
        around = around.parent
    if around is not None and around.type == "variable_declarator":
        yield words(around.child_by_field_name("name"))


def _named_twice(root: Tree, passing: set[str], effort: Effort) -> Iterator[Tree]:
    """Yield the second of two functions or variables of the module with one name."""
    names: Counter[str] = Counter()
    for node, _ in everything_inside(root):
        effort.spend()
        if node.type in ("function_declaration", "variable_declarator", "class_declaration"):
            name = words(node.child_by_field_name("name"))
            names[name] += 1
            if name in passing and names[name] > 1:
                yield node


def _outermost(key: str) -> int:
    """Return which function of the module a reading belongs to: where it begins."""
    return int(key.split("/")[1].partition("(")[0])
