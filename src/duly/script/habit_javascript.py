"""Reads what the steps of a JavaScript workflow assume about their arguments; runs nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tree_sitter import Node as Tree

from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.script.habit import (
    CTX,
    EVENTS,
    GIVEN,
    LIST,
    OWN_CALLS,
    PAGE,
    PREPARED,
    RESULT,
    STATE,
    HabitFacts,
    Way,
    element_of,
    judge_ids,
    judge_own_call,
    judge_reservation_shape,
    part_of,
)
from duly.script.javascript_name import (
    FUNCTIONS,
    KEEPING,
    TAKING,
    bare,
    entries,
    everything,
    inside,
    key_of,
    parameters_of,
    part,
    words,
)
from duly.script.outline import Place, Text

CALLING: Final = frozenset({"map", "filter", "forEach", "find", "some", "every", "flatMap"})
CHOOSING: Final = frozenset({"&&", "||", "??"})
COMPARING: Final = frozenset({"===", "!==", "==", "!=", "<", ">", "<=", ">=", "in", "instanceof"})
CONDITIONS: Final = frozenset(
    {"if_statement", "while_statement", "do_statement", "for_statement", "ternary_expression"}
)
NAMES: Final = frozenset({"identifier", "shorthand_property_identifier"})
MEMBERS: Final = frozenset({"has", "includes"})
ADDING: Final = frozenset({"add", "push", "set"})
BOUND: Final = frozenset({"identifier", "shorthand_property_identifier_pattern"})
CLOCKS: Final = frozenset({"Date", "clock"})
PAGE_NAMES: Final = frozenset({"items", "last_cursor"})  # as Python spells them


def read(steps: Iterable[tuple[Step, Tree]], text: Text, catalog: Catalog) -> list[HabitFacts]:
    """Read each step on its own."""
    return [_read(step, node, text, catalog) for step, node in steps]


def _read(step: Step, node: Tree, text: Text, catalog: Catalog) -> HabitFacts:
    place = text.place(node.start_point[0], node.start_point[1])
    reader = _Reader(HabitFacts(step, place), text, catalog)
    for parameter, root in zip(parameters_of(node), GIVEN[step], strict=False):
        reader.bind(parameter, (root,))
    if (body := part(node, "body")) is not None:
        reader.visit(body)
    return reader.facts


@dataclass
class _Reader:
    facts: HabitFacts
    text: Text
    catalog: Catalog
    ways: dict[str, Way] = field(default_factory=dict)
    testing: int = 0
    known: dict[int, Way | None] = field(default_factory=dict)
    clocked: set[str] = field(default_factory=set)  # variables that hold something of the clock

    def place(self, node: Tree) -> Place:
        return self.text.place(node.start_point[0], node.start_point[1])

    # -- where something comes from -------------------------------------------------------------

    def way(self, node: Tree | None) -> Way | None:
        """Follow an expression to the value of the host it comes from, each once."""
        node = bare(node)
        if node is None:
            return None
        if node.id not in self.known:
            self.known[node.id] = self.find_way(node)
        return self.known[node.id]

    def find_way(self, node: Tree) -> Way | None:
        match node.type:
            case "identifier" | "shorthand_property_identifier":
                return self.ways.get(words(node))
            case "await_expression":
                return self.answered(bare(next(iter(inside(node)), None)))
            case "member_expression":
                name = words(node.child_by_field_name("property"))
                return part_of(self.way(part(node, "object")), name)
            case "subscript_expression":
                index = part(node, "index")
                whole = self.way(part(node, "object"))
                if index is not None and index.type == "string":
                    return part_of(whole, words(index)[1:-1])
                return element_of(whole)
            case "call_expression":
                return self.taken(node)
        return None

    def answered(self, call: Tree | None) -> Way | None:
        if call is None or call.type != "call_expression":
            return None
        callee = self.way(part(call, "function"))
        if callee is None or callee[0] != CTX:
            return None
        if len(callee) == 2 and callee[1] in OWN_CALLS:
            topic = next(iter(inside(call.child_by_field_name("arguments"))), None)
            is_text = topic is not None and topic.type == "string"
            return (EVENTS, words(topic)[1:-1] if is_text else "")
        tool = self.catalog.names.get(".".join(callee[1:]))
        return (PAGE, tool.name) if tool is not None and tool.pages else None

    def taken(self, call: Tree) -> Way | None:
        """Follow a method of a list: one that picks, filters or maps elements."""
        callee = part(call, "function")
        if callee is None or callee.type != "member_expression":
            return None
        whole, method = (
            self.way(part(callee, "object")),
            words(callee.child_by_field_name("property")),
        )
        if whole is None or whole[0] not in (EVENTS, LIST):
            return None
        if method in TAKING:
            return element_of(whole)
        if method in KEEPING:
            return whole
        given = inside(call.child_by_field_name("arguments"))
        if method == "map" and given and given[0].type == "arrow_function":
            for parameter in parameters_of(given[0])[:1]:
                self.bind(parameter, element_of(whole))
            made = self.way(part(given[0], "body"))
            return None if made is None else (LIST, *made)
        return None

    def bind(self, pattern: Tree, way: Way | None, *, is_safe: bool = False) -> None:
        """Bind the names of a pattern to their paths; a part that is read is noted."""
        match pattern.type:
            case "identifier" | "shorthand_property_identifier_pattern":
                if way is None:
                    self.ways.pop(words(pattern), None)
                else:
                    self.ways[words(pattern)] = way
            case "assignment_pattern":
                # A default value covers the case that the part is missing.
                if way is not None:
                    self.facts.asked.add(way[0])
                if (left := part(pattern, "left")) is not None:
                    self.bind(left, way, is_safe=True)
            case "object_pattern":
                for each in inside(pattern):
                    self.bind_part(each, way, is_safe=is_safe)
            case "array_pattern":
                for each in inside(pattern):
                    self.bind(each, element_of(way))
            case "rest_pattern":
                for each in inside(pattern):
                    self.bind(each, None)

    def bind_part(self, each: Tree, way: Way | None, *, is_safe: bool) -> None:
        key, target = each, each
        has_default = each.type == "object_assignment_pattern"
        if has_default:
            key = target = each.child_by_field_name("left") or each
        elif each.type == "pair_pattern":
            key = each.child_by_field_name("key") or each
            target = each.child_by_field_name("value") or each
        elif each.type == "rest_pattern":
            self.bind(each, None)
            return
        inner = part_of(way, key_of(key))
        if inner is not None:
            self.look(each, inner, is_safe=is_safe or (has_default and way != (STATE,)))
        self.bind(target, inner)

    # -- what is looked at ----------------------------------------------------------------------

    def visit(self, node: Tree) -> None:
        kind = node.type
        if kind in NAMES:
            self.mention(node)
        elif kind in ("member_expression", "subscript_expression"):
            self.chain(node)
        elif kind == "call_expression":
            self.call(node)
        elif kind == "variable_declarator":
            self.declarator(node)
        elif kind == "for_in_statement":
            self.loop(node)
        elif kind in CONDITIONS or kind == "switch_statement":
            self.condition(node)
        elif kind == "object":
            self.object(node)
        elif kind == "binary_expression":
            operator = words(node.child_by_field_name("operator"))
            self.all(node, is_test=operator in CHOOSING or operator in COMPARING)
        elif kind == "unary_expression":
            self.all(node, is_test=words(node).startswith(("!", "typeof")))
        elif kind == "assignment_expression":
            self.assignment(node)
        elif kind == "try_statement":
            self.testing += 1
            self.all(node)
            self.testing -= 1
        else:
            self.all(node)

    def all(self, node: Tree, *, is_test: bool = False) -> None:
        self.testing += is_test
        for each in inside(node):
            self.visit(each)
        self.testing -= is_test

    def mention(self, node: Tree) -> None:
        way = self.way(node)
        if way is not None and self.testing:
            self.facts.asked.add(way[0])
        self.facts.others.add(words(node))

    def chain(self, node: Tree) -> None:
        way = self.way(node)
        whole = part(node, "object")
        if node.type == "subscript_expression" and (index := part(node, "index")) is not None:
            self.visit(index)
        if way is None or way[0] not in (STATE, PREPARED, RESULT, PAGE):
            if whole is not None:
                self.visit(whole)
            return
        is_safe = False
        at: Tree | None = node
        while at is not None and at.type in ("member_expression", "subscript_expression"):
            if any(each.type == "optional_chain" for each in at.children):
                is_safe = True
                self.facts.asked.add(way[0])
            at = part(at, "object")
        self.look(node, way, is_safe=is_safe)

    def look(self, node: Tree, way: Way, *, is_safe: bool = False) -> None:
        if self.testing and way[0] != STATE:
            self.facts.asked.add(way[0])
        if way[0] == PAGE and len(way) > 2 and way[2] in PAGE_NAMES:
            self.facts.fault(
                "wrong-type",
                self.place(node),
                f"A page of a search is an array here; it has no {way[2]}.",
                "Go through the page itself, and write page.lastCursor for the cursor.",
            )
        self.facts.look(self.place(node), way, is_safe=is_safe)

    def call(self, node: Tree) -> None:
        callee = part(node, "function")
        given = inside(node.child_by_field_name("arguments"))
        if callee is not None:
            self.own_call(node, callee, given)
            method = words(callee.child_by_field_name("property"))
            whole = part(callee, "object")
            element = element_of(self.way(whole)) if method in CALLING else None
            if whole is not None and whole.type == "identifier" and method in MEMBERS:
                self.facts.members.setdefault(words(whole), self.place(whole))
            elif whole is not None and whole.type == "identifier" and method in ADDING:
                self.facts.adds.add(words(whole))
            elif callee.type in ("member_expression", "subscript_expression", *NAMES):
                self.callee(callee)
            else:
                self.visit(callee)
            for each in given:
                if each.type in FUNCTIONS:
                    for parameter in parameters_of(each)[:1]:
                        self.bind(parameter, element)
        for each in given:
            self.visit(each)

    def callee(self, callee: Tree) -> None:
        """Visit the function of a call; of a method only its object is read."""
        way, whole = self.way(callee), part(callee, "object")
        is_state = way is not None and way[0] == STATE and len(way) == 2
        if whole is not None and way is not None and not is_state:
            self.visit(whole)
        else:
            self.visit(callee)

    def own_call(self, node: Tree, callee: Tree, given: list[Tree]) -> None:
        way = self.way(callee)
        if way == (CTX, "publish") and len(given) > 1:
            message_id = entries(given[1]).get("messageId")
            if message_id is not None and self.is_of_clock(message_id):
                self.facts.days.append(self.place(node))
        if way is None or way[0] != CTX or len(way) != 2 or way[1] not in OWN_CALLS:
            return
        second = given[1] if len(given) > 1 else None
        limit = entries(second).get("limit") if second is not None else None
        number = words(limit).replace("_", "") if limit is not None else ""
        judge_own_call(
            self.facts,
            self.place(node),
            way[1],
            extra=second is not None and second.type in ("number", "string"),
            limit=float(number) if number.isdigit() else None,
        )

    # -- statements -----------------------------------------------------------------------------

    def declarator(self, node: Tree) -> None:
        name, value = node.child_by_field_name("name"), part(node, "value")
        if value is not None:
            self.visit(value)
        if name is not None:
            self.bind(name, self.way(value))
            if value is not None and value.type not in FUNCTIONS and self.is_of_clock(value):
                self.clocked |= {words(one) for one in everything(name) if one.type in BOUND}

    def is_of_clock(self, node: Tree) -> bool:
        """Tell whether a value is made of the clock, as far as the step itself says."""
        for each in everything(node):
            name = words(each) if each.type in (*NAMES, "property_identifier") else ""
            if name in CLOCKS or (each.type in NAMES and name in self.clocked):
                return True
        return False

    def assignment(self, node: Tree) -> None:
        left, right = part(node, "left"), part(node, "right")
        if right is not None:
            self.visit(right)
        if left is not None and left.type == "identifier":
            self.bind(left, self.way(right))
        elif left is not None:
            self.visit(left)

    def loop(self, node: Tree) -> None:
        right, left = part(node, "right"), node.child_by_field_name("left")
        if right is not None:
            self.visit(right)
        if left is not None:
            self.bind(left, element_of(self.way(right)))
        if (body := part(node, "body")) is not None:
            self.visit(body)

    def condition(self, node: Tree) -> None:
        tested = node.child_by_field_name("condition") or (
            node.child_by_field_name("value") if node.type == "switch_statement" else None
        )
        for each in inside(node):
            is_test = tested is not None and each.id == tested.id
            self.testing += is_test
            self.visit(each)
            self.testing -= is_test

    # -- reservations ---------------------------------------------------------------------------

    def object(self, node: Tree) -> None:
        fields = entries(node)
        if self.facts.step is Step.PREPARE and "reservations" in fields:
            self.reservations(fields["reservations"])
        if self.facts.step is Step.PREPARE and "ids" in fields and "topic" in fields:
            ids = fields["ids"]
            if ids.type == "array":
                for each in inside(ids):
                    judge_ids(self.facts, self.place(each), self.way(each), is_list=True)
            else:
                judge_ids(self.facts, self.place(ids), self.way(ids), is_list=False)
        for each in inside(node):
            value = part(each, "value") if each.type == "pair" else each
            if value is not None:
                self.visit(value)

    def reservations(self, node: Tree) -> None:
        if node.type == "object":
            self.facts.fault(
                "wrong-result",
                self.place(node),
                "reservations is a list.",
                "Put the object into [ ].",
            )
        for each in inside(node) if node.type == "array" else ():
            if each.type == "object":
                if all(one.type != "spread_element" for one in inside(each)):
                    names = frozenset(entries(each))
                    judge_reservation_shape(self.facts, self.place(each), names)
            elif self.way(each) is not None or each.type == "string":
                judge_reservation_shape(self.facts, self.place(each), None)
