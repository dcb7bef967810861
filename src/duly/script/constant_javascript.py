"""Which arguments of a JavaScript text are constants for certain; runs nothing (M9).

Law: a person is shown a constant only if no run can have another value there. A name is certain
when the whole text binds it once, by `const`, to a text, a number or a truth value.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tree_sitter import Node as Tree

from duly.script.javascript_name import (
    bare,
    everything,
    everything_inside,
    inside,
    key_of,
    literal,
    part,
    words,
)
from duly.script.outline import KEYS_MAX, TEXT_CHARS_MAX, Effort, WrittenArgument

DEPTH_MAX: Final = 20  # of names that stand for names, and of texts that are put together
LITERALS: Final = frozenset({"number", "true", "false"})
NAMES: Final = frozenset({"identifier", "shorthand_property_identifier_pattern"})
# What binds the names that stand directly in it.
BINDING: Final = frozenset(
    {"formal_parameters", "array_pattern", "object_pattern", "rest_pattern", "catch_clause"}
    | {"pair_pattern", "assignment_pattern", "object_assignment_pattern"}
    | {"function_declaration", "generator_function_declaration", "class_declaration"}
    | {"import_clause", "import_specifier", "namespace_import", "for_in_statement"}
    | {"arrow_function", "function_expression", "class"}
)


@dataclass(slots=True)
class JavaScriptConstants:
    """The names of a text: how often each is bound, and to what."""

    bound: Counter[str] = field(default_factory=Counter)
    values: dict[str, Tree] = field(default_factory=dict)
    effort: Effort = field(default_factory=Effort)

    def read(self, root: Tree, effort: Effort) -> None:
        """Count every place where a name is bound, in any scope."""
        self.effort = effort
        for node, around in everything_inside(root):
            effort.spend()
            if node.type == "variable_declarator":
                name, value = node.child_by_field_name("name"), part(node, "value")
                self.bound[words(name)] += 1
                is_const = around.type == "lexical_declaration" and any(
                    each.type == "const" for each in around.children
                )
                if is_const and value is not None:
                    self.values[words(name)] = value
            elif node.type in NAMES and around.type in BINDING:
                self.bound[words(node)] += 1

    def find(self, node: Tree | None, depth: int = 0) -> str | None:
        """Return what an expression is in every run, as text; None where that is not proven."""
        self.effort.spend()
        node = bare(node)
        if node is None or depth > DEPTH_MAX:
            return None
        name = words(node)
        match node.type:
            case "string":
                return _plain(literal(node)[1:-1])
            case "number" | "true" | "false":
                return name or None
            case "identifier" | "shorthand_property_identifier":
                is_certain = self.bound[name] == 1 and name in self.values
                return self.find(self.values[name], depth + 1) if is_certain else None
            case "template_string":
                inner = (
                    inside(each)[0] if each.type == "template_substitution" else each
                    for each in inside(node)
                )
                return self._join([*inner], depth)
            case "string_fragment":
                return _plain(literal(node))
            case "binary_expression" if words(node.child_by_field_name("operator")) == "+":
                return self._join([part(node, "left"), part(node, "right")], depth)
        return None

    def _join(self, parts: list[Tree | None], depth: int) -> str | None:
        whole = ""
        for each in parts:
            text = self.find(each, depth + 1)
            if text is None or each is None or each.type in LITERALS:
                return None
            whole = (whole + text)[:TEXT_CHARS_MAX]
        return whole

    def write(self, node: Tree, depth: int = 0) -> WrittenArgument:
        """Say how an argument is written; an object or a list is taken apart where it stands."""
        node = bare(node) or node
        if depth < DEPTH_MAX and node.type == "object":
            parts = [self._pair(each, depth) for each in inside(node)]
            known = [each for each in parts if each is not None]
            if known and len(known) == len(parts):
                return WrittenArgument(parts=tuple(known))
        elif depth < DEPTH_MAX and node.type == "array" and inside(node):
            items = inside(node)
            if not any(each.type == "spread_element" for each in items):
                numbered = enumerate(items, 1)
                inner = tuple((str(at), self.write(each, depth + 1)) for at, each in numbered)
                return WrittenArgument(parts=inner)
        text = self.find(node)
        return WrittenArgument(text) if text is not None else WrittenArgument(keys=self._keys(node))

    def _pair(self, node: Tree, depth: int) -> tuple[str, WrittenArgument] | None:
        if node.type == "shorthand_property_identifier":
            return words(node), self.write(node, depth + 1)
        key, value = node.child_by_field_name("key"), part(node, "value")
        if node.type != "pair" or key is None or value is None:
            return None
        if key.type == "computed_property_name":
            return None
        return key_of(key), self.write(value, depth + 1)

    def _keys(self, node: Tree) -> tuple[str, ...]:
        keys: dict[str, None] = {}
        names: dict[str, None] = {}
        called: set[int] = set()
        for each in everything(node):
            self.effort.spend()
            if each.type == "call_expression":
                callee = part(each, "function")
                if callee is not None:
                    called.add((callee.child_by_field_name("property") or callee).id)
            elif each.id in called:
                continue
            elif each.type == "property_identifier":
                keys[words(each)] = None
            elif each.type in ("identifier", "shorthand_property_identifier"):
                names[words(each)] = None
        return tuple(each for each in (keys or names) if each)[:KEYS_MAX]


def _plain(text: str) -> str | None:
    """Return a text without escapes; what an escape stands for is not worked out."""
    return None if "\\" in text else text[:TEXT_CHARS_MAX]
