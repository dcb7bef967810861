"""What the names of a JavaScript module stand for; runs nothing.

Law: a name is followed as far as a reader of the text would follow it: to a constant, a function, a
part of `ctx`. Where the text does not say, nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tree_sitter import Node as Tree

from duly.rules.catalog import JsonType
from duly.script.outline import (
    EVENTS,
    SOME_PART,
    Alias,
    Effort,
    Function,
    NameScope,
    Origin,
    Place,
    Text,
    Value,
    element_of,
    joined,
    one_of,
    part_of,
)

FUNCTIONS: Final = frozenset(
    {"arrow_function", "function_expression", "function_declaration", "method_definition"}
    | {"generator_function", "generator_function_declaration"}
)
DECLARATIONS: Final = frozenset({"lexical_declaration", "variable_declaration"})
DICE: Final = frozenset({"Math.random", "crypto.randomUUID", "crypto.getRandomValues"})
CLOCKS: Final = frozenset({"Date.now", "performance.now", "new Date"})
# A time cut to its day is fine in a message id: it is the day the event is for.
DAYS: Final = frozenset(
    {"slice", "substring", "substr", "split", "toDateString", "toLocaleDateString"}
    | {"getFullYear", "getUTCFullYear", "getMonth", "getUTCMonth", "getDate", "getUTCDate"}
)
NAME_BYTES_MAX: Final = 1000
PARTS_MAX: Final = 50  # more than any title has
# Methods of a list that return one of its elements, or a list of some of them.
TAKING: Final = frozenset({"at", "find", "findLast", "pop", "shift"})
KEEPING: Final = frozenset({"filter", "reverse", "slice", "sort", "toReversed", "toSorted"})
TYPES: Final[Mapping[str, JsonType]] = {
    "true": JsonType.BOOLEAN,
    "false": JsonType.BOOLEAN,
    "null": JsonType.NULL,
    "template_string": JsonType.STRING,
}


def words(node: Tree | None) -> str:
    """Return the text of a node, or nothing if it is longer than any name.

    Nested nodes are asked for their text at every level; returning all of it would be quadratic.
    """
    if node is None or node.end_byte - node.start_byte > NAME_BYTES_MAX:
        return ""
    return "" if node.text is None else node.text.decode(errors="replace")


def literal(node: Tree) -> str:
    """Return the text of a node that holds no expression, however long it is."""
    return "" if node.text is None else node.text.decode(errors="replace")


def inside(node: Tree | None) -> list[Tree]:
    """List what a node holds, without comments."""
    return [each for each in node.named_children if each.type != "comment"] if node else []


def part(node: Tree, name: str) -> Tree | None:
    """Return a field of a node, out of its parentheses."""
    return bare(node.child_by_field_name(name))


def bare(node: Tree | None) -> Tree | None:
    """Take the parentheses off."""
    while node is not None and node.type == "parenthesized_expression":
        node = next(iter(inside(node)), None)
    return node


def everything(node: Tree) -> Iterator[Tree]:
    """Yield a node and all it contains, without recursion: a text may nest to any depth."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def everything_inside(node: Tree) -> Iterator[tuple[Tree, Tree]]:
    """Yield all that a node contains, each with its parent.

    The parser finds a parent only from the root, which costs as much as the text is deep.
    """
    waiting = [(each, node) for each in reversed(node.children)]
    while waiting:
        inner, around = waiting.pop()
        yield inner, around
        waiting += [(each, inner) for each in reversed(inner.children)]


def entries(node: Tree | None) -> dict[str, Tree]:
    """Read the parts of an object that are written out, methods too."""
    found: dict[str, Tree] = {}
    for each in inside(node) if node is not None and node.type == "object" else ():
        if each.type == "method_definition":
            found[key_of(each.child_by_field_name("name"))] = each
        elif each.type == "pair" and (value := part(each, "value")) is not None:
            found[key_of(each.child_by_field_name("key"))] = value
        elif each.type == "shorthand_property_identifier":
            found[words(each)] = each
    return found


def key_of(node: Tree | None) -> str:
    """Return the name of a key, without quotes."""
    return words(node).strip("\"'")


def condition_of(node: Tree) -> Tree | None:
    """Return the condition of a loop, if it has one."""
    condition = part(node, "condition")
    is_empty = condition is None or condition.type == "empty_statement"
    if condition is None or is_empty:
        return None
    held = condition.type == "expression_statement"
    return next(iter(inside(condition)), None) if held else condition


def parameters_of(node: Tree) -> list[Tree]:
    """List the parameters of a function."""
    if (single := node.child_by_field_name("parameter")) is not None:
        return [single]
    return inside(node.child_by_field_name("parameters"))


@dataclass(slots=True)
class JavaScriptNames:
    """The functions and variables of a module."""

    text: Text
    effort: Effort = field(default_factory=Effort)
    definitions: dict[str, Tree] = field(default_factory=dict)
    variables: dict[str, Tree | None] = field(default_factory=dict)
    constants: dict[str, Value] = field(default_factory=dict)
    holders: dict[int, dict[str, Tree]] = field(default_factory=dict)

    def place(self, node: Tree) -> Place:
        """Return where a node stands."""
        return self.text.place(node.start_point[0], node.start_point[1])

    def define(self, node: Tree) -> None:
        """Learn the names that a statement of the module declares."""
        if node.type == "export_statement":
            node = node.child_by_field_name("declaration") or node
        if node.type in FUNCTIONS:
            self.definitions[words(node.child_by_field_name("name"))] = node
        elif node.type in DECLARATIONS:
            for each in inside(node):
                name, value = each.child_by_field_name("name"), part(each, "value")
                if value is not None and value.type in FUNCTIONS:
                    self.definitions[words(name)] = value
                elif name is not None and name.type == "identifier":
                    self.variables[words(name)] = value

    def shared_name(self, node: Tree, scope: NameScope) -> str | None:
        """Name what a node stands for, if other steps could see it: a global, a part of `this`."""
        name = words(node)
        if node.type in ("identifier", "shorthand_property_identifier"):
            return name if name in self.variables and name not in scope.names else None
        if node.type == "member_expression" and scope.owner:
            whole = node.child_by_field_name("object")
            if whole is not None and whole.type == "this":
                return f"{scope.owner}.{words(node.child_by_field_name('property'))}"
        return None

    def definition(self, node: Tree, scope: NameScope) -> Tree | None:
        """Return the function of this text that an expression names."""
        name = words(node)
        if node.type == "identifier" and name in scope.names:
            inner = scope.names[name]
            return inner if isinstance(inner, Tree) else None
        if node.type == "identifier":
            return self.definitions.get(name)
        whole = part(node, "object") if node.type == "member_expression" else None
        if whole is not None and self.shared_name(whole, scope) in self.variables:
            return self._held(whole).get(words(node.child_by_field_name("property")))
        return None

    def _held(self, whole: Tree) -> dict[str, Tree]:
        """Return the parts of an object of the module, which is read once."""
        holder = self.variables[words(whole)]
        if holder is None:
            return {}
        if holder.id not in self.holders:
            self.holders[holder.id] = entries(holder)
        return self.holders[holder.id]

    def alias(self, node: Tree, scope: NameScope) -> Alias | None:
        """Return which part of `ctx` an expression stands for, if any."""
        self.effort.spend()
        if node.type == "identifier":
            known = scope.names.get(words(node))
            return known if isinstance(known, Alias) else None
        if node.type not in ("member_expression", "subscript_expression"):
            return None
        whole_node = part(node, "object")
        whole = None if whole_node is None else self.alias(whole_node, scope)
        if whole is None:
            return None
        if node.type == "member_expression":
            return whole.part(words(node.child_by_field_name("property")))
        index = part(node, "index")
        text = None if index is None else self.value(index, scope).text
        return SOME_PART if text is None else whole.part(text)

    def bind_parameters(self, node: Tree, meanings: Mapping[int, object], scope: NameScope) -> None:
        """Bind the parameters of a function; they hide outer names."""
        for index, parameter in enumerate(parameters_of(node)):
            for each in everything(parameter):
                if each.type.endswith(("identifier", "identifier_pattern")):
                    scope.names.pop(words(each), None)
            self.bind(parameter, meanings.get(index), scope)

    def bind(self, pattern: Tree, meaning: object, scope: NameScope) -> None:
        """Bind the names of a pattern; a part taken out of `ctx` stays a part of `ctx`."""
        match pattern.type:
            case "identifier" | "shorthand_property_identifier_pattern":
                scope.learn(words(pattern), meaning)
            case "assignment_pattern" | "object_assignment_pattern":
                left = pattern.child_by_field_name("left")
                if left is not None and left.type == "shorthand_property_identifier_pattern":
                    meaning = _part_of(meaning, words(left))
                if left is not None:
                    self.bind(left, meaning, scope)
            case "pair_pattern":
                value = pattern.child_by_field_name("value")
                key = words(pattern.child_by_field_name("key"))
                if value is not None:
                    self.bind(value, _part_of(meaning, key), scope)
            case "object_pattern":
                for each in inside(pattern):
                    is_short = each.type == "shorthand_property_identifier_pattern"
                    self.bind(each, _part_of(meaning, words(each)) if is_short else meaning, scope)
            case "array_pattern":
                origin = element_of(meaning.origin) if isinstance(meaning, Value) else None
                element = None if origin is None else Value(self.place(pattern), origin=origin)
                for each in inside(pattern):
                    is_rest = each.type == "rest_pattern"
                    self.bind(each, None if is_rest else element, scope)
            case "rest_pattern":
                for each in inside(pattern):
                    self.bind(each, meaning if isinstance(meaning, Alias) else None, scope)
            case _:
                for each in inside(pattern):
                    self.bind(each, None, scope)

    def value(self, node: Tree, scope: NameScope) -> Value:
        """Say what is known of an expression without running it."""
        self.effort.spend()
        place = self.place(node)
        match node.type:
            case "parenthesized_expression":
                inner = bare(node)
                return Value(place) if inner is None else self.value(inner, scope)
            case "string":
                return Value(place, JsonType.STRING, literal(node)[1:-1])
            case "number":
                is_whole = words(node).replace("_", "").isdigit()
                return Value(place, JsonType.INTEGER if is_whole else JsonType.NUMBER)
            case "template_string":
                return self._template(node, scope)
            case "object":
                return self._object(node, scope)
            case "array":
                items = inside(node)
                is_open = any(each.type == "spread_element" for each in items)
                known = tuple(self.value(each, scope) for each in items)
                return Value(place, JsonType.LIST, items=known, is_open=is_open)
            case "identifier" | "shorthand_property_identifier" | "member_expression":
                return self._named(node, scope)
            case "binary_expression" if words(node.child_by_field_name("operator")) == "+":
                return self._sum(node, scope)
            case "ternary_expression":
                sides = (node.child_by_field_name(each) for each in ("consequence", "alternative"))
                either = one_of(self.value(each, scope) for each in sides if each is not None)
                return Value(place, chance=self._chance(node, scope), either=either)
            case "await_expression" | "subscript_expression" | "call_expression":
                origin = self.origin(node, scope)
                return Value(place, chance=self._chance(node, scope), origin=origin)
        return Value(place, TYPES.get(node.type), chance=self._chance(node, scope))

    def element(self, node: Tree, scope: NameScope) -> Value | None:
        """Say what is known of an element of a list, if they are events."""
        origin = element_of(self.origin(node, scope))
        return None if origin is None else Value(self.place(node), origin=origin)

    def origin(self, node: Tree, scope: NameScope) -> Origin | None:
        """Follow events from the result of the host, through the lists and names that hold them."""
        self.effort.spend()
        whole = part(node, "object")
        match node.type:
            case "identifier" | "shorthand_property_identifier":
                known = scope.names.get(words(node))
                return known.origin if isinstance(known, Value) else None
            case "await_expression":
                awaited = bare(next(iter(inside(node)), None))
                return None if awaited is None else self._answered(awaited, scope)
            case "member_expression" if whole is not None:
                name = words(node.child_by_field_name("property"))
                return part_of(self.origin(whole, scope), name)
            case "subscript_expression" if whole is not None:
                return element_of(self.origin(whole, scope))
            case "call_expression":
                return self._taken(part(node, "function"), scope)
        return None

    def _taken(self, callee: Tree | None, scope: NameScope) -> Origin | None:
        """Return where the result of a list's own method comes from."""
        whole = None if callee is None else part(callee, "object")
        if callee is None or whole is None:
            return None
        origin, method = self.origin(whole, scope), words(callee.child_by_field_name("property"))
        if method in TAKING:
            return element_of(origin)
        return origin if method in KEEPING and element_of(origin) is not None else None

    def _answered(self, call: Tree, scope: NameScope) -> Origin | None:
        callee, given = part(call, "function"), inside(call.child_by_field_name("arguments"))
        alias = None if callee is None else self.alias(callee, scope)
        if alias is None or alias.path not in ("peek", "getByIds", "get_by_ids") or not given:
            return None
        return (EVENTS, self.value(given[0], scope).text or "")

    def _template(self, node: Tree, scope: NameScope) -> Value:
        texts: list[str | None] = []
        made_of: list[Value] = []
        for each in inside(node):
            if each.type == "template_substitution":
                held = [self.value(one, scope) for one in inside(each)]
                made_of += held
                texts += [one.text for one in held]
            else:
                texts.append(literal(each))
        chance, text = self._chance(node, scope), joined(texts)
        return Value(self.place(node), JsonType.STRING, text, chance=chance, made_of=tuple(made_of))

    def _sum(self, node: Tree, scope: NameScope) -> Value:
        sides = [part(node, "left"), part(node, "right")]
        values = [self.value(each, scope) for each in sides if each is not None]
        is_text = any(each.type is JsonType.STRING for each in values)
        return Value(
            self.place(node),
            JsonType.STRING if is_text else None,
            joined(each.text for each in values),
            chance=next((each.chance for each in values if each.chance), None),
            # A text that doubles itself line by line is cut.
            made_of=tuple(one for each in values for one in each.made_of or (each,))[:PARTS_MAX],
        )

    def _object(self, node: Tree, scope: NameScope) -> Value:
        fields: dict[str, Value] = {}
        is_open = False
        for each in inside(node):
            key = each.child_by_field_name("key") or each.child_by_field_name("name")
            value = part(each, "value")
            if each.type == "shorthand_property_identifier":
                fields[words(each)] = self.value(each, scope)
            elif key is not None and key.type == "computed_property_name":
                name = self.value(inside(key)[0], scope).text if inside(key) else None
                if name is None or value is None:
                    is_open = True
                else:
                    fields[name] = self.value(value, scope)
            elif key is not None:
                known = Value(self.place(each)) if value is None else self.value(value, scope)
                fields[key_of(key)] = replace(known, place=self.place(each))
            else:
                is_open = True
        return Value(self.place(node), JsonType.OBJECT, fields=fields, is_open=is_open)

    def _named(self, node: Tree, scope: NameScope) -> Value:
        """Follow a name to the constant it stands for, and a key into it."""
        place, name = self.place(node), words(node)
        known: object = None
        if node.type == "member_expression":
            whole = part(node, "object")
            holder = None if whole is None else self.value(whole, scope)
            called = words(node.child_by_field_name("property"))
            if holder is not None and holder.fields is not None and not holder.is_open:
                known = holder.fields.get(called)
            else:
                known = Value(place, origin=self.origin(node, scope))
        elif name in scope.names:
            known = scope.names[name]
        elif name in self.variables:
            known = self._constant(name, place)
        return replace(known, place=place) if isinstance(known, Value) else Value(place)

    def _constant(self, name: str, place: Place) -> Value:
        """Read a constant of the module once; one that is made of itself is not known."""
        if name not in self.constants:
            self.constants[name] = Value(place)
            if (constant := self.variables[name]) is not None:
                self.constants[name] = self.value(constant, NameScope(Function(place), ""))
        return self.constants[name]

    def _chance(self, node: Tree, scope: NameScope) -> str | None:
        """Name the clock or the dice that an expression asks, also through a variable."""
        waiting, seen = [(node, False)], set[int]()
        while waiting:
            each, is_day = waiting.pop()
            self.effort.spend()
            name, callee = "", each.child_by_field_name("function")
            if each.type == "call_expression":
                name = words(callee)
            elif each.type == "new_expression":
                name = f"new {words(each.child_by_field_name('constructor'))}"
                name = "" if inside(each.child_by_field_name("arguments")) else name
            elif each.type == "identifier":
                known = scope.names.get(words(each))
                name = (isinstance(known, Value) and known.chance) or ""
            if name in DICE or (name in CLOCKS and not is_day):
                return name
            # What a function makes of a moment is unknown; it may be the day.
            method = "" if callee is None else words(callee.child_by_field_name("property"))
            ours = None if callee is None else self.definition(callee, scope)
            if ours is not None and ours.id not in seen:
                seen.add(ours.id)
                waiting.append((ours, True))
            below = is_day or ours is not None or method in DAYS or each.type in FUNCTIONS
            if each.type != "await_expression":  # The result of a tool is not random.
                waiting += [(inner, below) for inner in each.children]
        return None


def _part_of(meaning: object, name: str) -> object:
    if isinstance(meaning, Value) and meaning.origin is not None:
        return Value(meaning.place, origin=part_of(meaning.origin, name))
    return meaning.part(name) if isinstance(meaning, Alias) else None
