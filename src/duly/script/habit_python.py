"""Reads what the steps of a Python workflow assume about their arguments; runs nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

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
from duly.script.outline import Place, Text
from duly.script.python_name import Definition

CLOCKS: Final = frozenset({"now", "utcnow", "today", "clock"})
ADDING: Final = frozenset({"add", "append"})
GETTING: Final = frozenset({"get", "setdefault", "pop"})


def read(
    steps: Iterable[tuple[Step, Definition]], text: Text, catalog: Catalog
) -> list[HabitFacts]:
    """Read each step on its own."""
    return [_read(step, definition, text, catalog) for step, definition in steps]


def _read(step: Step, definition: Definition, text: Text, catalog: Catalog) -> HabitFacts:
    place = text.place(definition.lineno - 1, definition.col_offset)
    names = [each.arg for each in (*definition.args.posonlyargs, *definition.args.args)]
    given = names[1:] if names[:1] == ["self"] else names
    ways = {name: (root,) for name, root in zip(given, GIVEN[step], strict=False)}
    reader = _Reader(HabitFacts(step, place), text, catalog, dict(ways))
    for statement in definition.body:
        reader.visit(statement)
    return reader.facts


@dataclass
class _Reader(ast.NodeVisitor):
    facts: HabitFacts
    text: Text
    catalog: Catalog
    ways: dict[str, Way]
    testing: int = 0
    trying: int = 0
    known: dict[int, Way | None] = field(default_factory=dict)
    clocked: set[str] = field(default_factory=set)  # variables that hold something of the clock

    def place(self, node: ast.AST) -> Place:
        return self.text.place(getattr(node, "lineno", 1) - 1, getattr(node, "col_offset", 0))

    # -- where something comes from -------------------------------------------------------------

    def way(self, node: ast.expr) -> Way | None:
        """Follow an expression to the value of the host it comes from, each once."""
        if id(node) not in self.known:
            self.known[id(node)] = self.find_way(node)
        return self.known[id(node)]

    def find_way(self, node: ast.expr) -> Way | None:
        match node:
            case ast.Name(id=name):
                return self.ways.get(name)
            case ast.Await(value=ast.Call() as call):
                return self.answered(call)
            case ast.Attribute(value=whole, attr=name):
                return part_of(self.way(whole), name)
            case ast.Subscript(value=whole, slice=ast.Constant(value=str(name))):
                return part_of(self.way(whole), name)
            case ast.Subscript(value=whole, slice=ast.Slice()):
                return self.way(whole)
            case ast.Subscript(value=whole):
                return element_of(self.way(whole))
            case ast.Call(
                func=ast.Attribute(value=whole, attr="get"), args=[ast.Constant(value=str(name))]
            ):
                return part_of(self.way(whole), name)
            case ast.ListComp(elt=made, generators=[one]):
                self.bind(one.target, element_of(self.way(one.iter)))
                inner = self.way(made)
                return None if inner is None else (LIST, *inner)
        return None

    def answered(self, call: ast.Call) -> Way | None:
        callee = self.way(call.func)
        if callee is None or callee[0] != CTX:
            return None
        if len(callee) == 2 and callee[1] in OWN_CALLS:
            topic = call.args[0] if call.args else None
            return (EVENTS, str(topic.value) if isinstance(topic, ast.Constant) else "")
        tool = self.catalog.names.get(".".join(callee[1:]))
        return (PAGE, tool.name) if tool is not None and tool.pages else None

    def bind(self, target: ast.expr, way: Way | None) -> None:
        if isinstance(target, ast.Name):
            if way is None:
                self.ways.pop(target.id, None)
            else:
                self.ways[target.id] = way
        else:
            for each in ast.walk(target):
                if isinstance(each, ast.Name):
                    self.ways.pop(each.id, None)

    # -- what is looked at ----------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> None:
        way = self.way(node)
        if way is not None and self.testing:
            self.facts.asked.add(way[0])
        self.facts.others.add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.chain(node, node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.slice)
        whole = self.way(node.value)
        is_page = whole is not None and whole[0] == PAGE and len(whole) == 2
        if is_page and not isinstance(_constant(node.slice), str):
            self.wrong_page(node)
        self.chain(node, node.value)

    def chain(self, node: ast.Attribute | ast.Subscript, whole: ast.expr) -> None:
        way = self.way(node)
        if way is None or way[0] not in (STATE, PREPARED, RESULT, PAGE):
            self.visit(whole)
            return
        self.look(node, way)
        # Of a chain only the longest is noted; the expressions in its brackets were visited.
        while isinstance(whole, ast.Attribute | ast.Subscript):
            if isinstance(whole, ast.Subscript):
                self.visit(whole.slice)
            whole = whole.value

    def look(self, node: ast.expr, way: Way, *, is_safe: bool = False) -> None:
        if self.testing and way[0] != STATE:
            self.facts.asked.add(way[0])
        if way[0] == PAGE and way[2:3] == ("items",) and isinstance(node, ast.Attribute):
            self.wrong_page(node)
        if way[0] == RESULT and isinstance(node, ast.Attribute):
            return  # The type checker says how to write it.
        self.facts.look(self.place(node), way, is_safe=is_safe or bool(self.trying))

    def wrong_page(self, node: ast.expr) -> None:
        self.facts.fault(
            "wrong-type",
            self.place(node),
            "A page of a search is a dict: what was found is in its items.",
            'Write page["items"], and page["last_cursor"] for the cursor.',
        )

    def visit_Call(self, node: ast.Call) -> None:
        callee = node.func
        if isinstance(callee, ast.Attribute) and callee.attr in ADDING and _is_name(callee.value):
            self.facts.adds |= {callee.value.id}  # type: ignore[attr-defined]
        elif isinstance(callee, ast.Attribute) and callee.attr in GETTING:
            self.visit_get(callee, node)
        elif isinstance(callee, ast.Attribute) and (way := self.way(callee.value)) is not None:
            if way == (STATE,):
                self.look(callee, (*way, callee.attr))
            self.visit(callee.value)
        else:
            self.visit(callee)
        if isinstance(callee, ast.Name) and callee.id == "len" and node.args:
            self.check_page(node.args[0])
        self.own_call(node)
        for each in (*node.args, *(word.value for word in node.keywords)):
            self.visit(each)

    def visit_get(self, callee: ast.Attribute, node: ast.Call) -> None:
        way = self.way(callee.value)
        if way is None or way[0] not in (STATE, PREPARED, RESULT):
            self.visit(callee.value)
            return
        name = node.args[0] if node.args else None
        part = name.value if isinstance(name, ast.Constant) else ""
        # `get` fails too where there is no state.
        self.look(callee, (*way, str(part)), is_safe=way != (STATE,))

    def own_call(self, node: ast.Call) -> None:
        callee = self.way(node.func)
        words = {word.arg: word.value for word in node.keywords}
        message_id = words.get("message_id") if callee == (CTX, "publish") else None
        if message_id is not None and self.is_of_clock(message_id):
            self.facts.days.append(self.place(node))
        if callee is None or callee[0] != CTX or len(callee) != 2 or callee[1] not in OWN_CALLS:
            return
        limit = words.get("limit")
        number = limit.value if isinstance(limit, ast.Constant) else None
        judge_own_call(
            self.facts,
            self.place(node),
            callee[1],
            extra=len(node.args) > 1,
            limit=number if type(number) in (int, float) else None,  # type: ignore[arg-type]
        )

    def is_of_clock(self, node: ast.expr) -> bool:
        """Tell whether a value is made of the clock, as far as the step itself says."""
        return any(
            (isinstance(each, ast.Name) and each.id in self.clocked)
            or (isinstance(each, ast.Attribute) and each.attr in CLOCKS)
            for each in ast.walk(node)
        )

    def check_page(self, node: ast.expr) -> None:
        way = self.way(node)
        if way is not None and way[0] == PAGE and len(way) == 2:
            self.wrong_page(node)

    # -- statements -----------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        if self.is_of_clock(node.value):
            names = (one for each in node.targets for one in ast.walk(each))
            self.clocked |= {each.id for each in names if isinstance(each, ast.Name)}
        for target in node.targets:
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                self.facts.adds.add(target.value.id)
                self.visit(target.slice)
            elif not isinstance(target, ast.Name):
                self.visit(target)
            self.bind(target, self.way(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self.bind(node.target, self.way(node.value))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.bind(node.target, self.way(node.value))
        self.visit(node.target)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self.check_page(node.iter)
        self.bind(node.target, element_of(self.way(node.iter)))
        for each in (*node.body, *node.orelse):
            self.visit(each)

    def comprehend(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        for each in node.generators:
            self.visit(each.iter)
            self.check_page(each.iter)
            self.bind(each.target, element_of(self.way(each.iter)))
            for test in each.ifs:
                self.test(test)
        made = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        for one in made:
            self.visit(one)

    visit_ListComp = comprehend  # noqa: N815  # the names are those of the visitor
    visit_SetComp = comprehend  # noqa: N815
    visit_DictComp = comprehend  # noqa: N815
    visit_GeneratorExp = comprehend  # noqa: N815

    def visit_Try(self, node: ast.Try) -> None:
        self.trying += 1
        for each in node.body:
            self.visit(each)
        self.trying -= 1
        for rest in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(rest)

    # -- tests ----------------------------------------------------------------------------------

    def test(self, node: ast.AST) -> None:
        self.testing += 1
        self.visit(node)
        self.testing -= 1

    def visit_If(self, node: ast.If) -> None:
        self.test(node.test)
        for each in (*node.body, *node.orelse):
            self.visit(each)

    def visit_While(self, node: ast.While) -> None:
        self.test(node.test)
        for each in (*node.body, *node.orelse):
            self.visit(each)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.test(node.test)
        self.visit(node.body)
        self.visit(node.orelse)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for each in node.values:
            self.test(each)

    def visit_Compare(self, node: ast.Compare) -> None:
        for each in (node.left, *node.comparators):
            is_member = isinstance(each, ast.Name) and isinstance(node.ops[0], ast.In | ast.NotIn)
            if is_member and isinstance(each, ast.Name) and each.id not in self.ways:
                self.facts.members.setdefault(each.id, self.place(each))
            else:
                self.test(each)

    def visit_Match(self, node: ast.Match) -> None:
        self.test(node.subject)
        for case in node.cases:
            for each in case.body:
                self.visit(each)

    # -- reservations ---------------------------------------------------------------------------

    def visit_Dict(self, node: ast.Dict) -> None:
        entries = {
            key.value: value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
        if self.facts.step is Step.PREPARE and "reservations" in entries:
            self.reservations(entries["reservations"])
        if self.facts.step is Step.PREPARE and "ids" in entries and "topic" in entries:
            self.ids(entries["ids"])
        for each in (*node.keys, *node.values):
            if each is not None:
                self.visit(each)

    def reservations(self, node: ast.expr) -> None:
        if isinstance(node, ast.Dict):
            self.facts.fault(
                "wrong-result",
                self.place(node),
                "reservations is a list.",
                "Put the object into [ ].",
            )
        for each in node.elts if isinstance(node, ast.List) else ():
            if isinstance(each, ast.Dict):
                keys = [k.value if isinstance(k, ast.Constant) else None for k in each.keys]
                if None not in keys:
                    names = frozenset(str(key) for key in keys)
                    judge_reservation_shape(self.facts, self.place(each), names)
            elif self.way(each) is not None or isinstance(_constant(each), str):
                judge_reservation_shape(self.facts, self.place(each), None)

    def ids(self, node: ast.expr) -> None:
        if isinstance(node, ast.List):
            for each in node.elts:
                judge_ids(self.facts, self.place(each), self.way(each), is_list=True)
        else:
            judge_ids(self.facts, self.place(node), self.way(node), is_list=False)


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name)


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None
