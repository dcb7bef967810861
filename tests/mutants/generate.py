"""Mutants: the source with one small change, made from its syntax tree and its SQL.

Law 1: no mutant is picked by hand. A kind is a function that says what to put in the place of a
       node; every node of every module in `MODULES` is offered to every kind.
Law 2: a mutant is named by what it changes and where, never by a line number, so its name stays
       the same while the code around it moves.
Law 3: messages, annotations, assertions and log lines are left alone: they decide nothing.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "duly"
RULES: Final = ("ledger", "lifecycle", "turn", "schedule", "failure")
SQL_FILES: Final = ("queries", "bus", "upkeep")
WORDS_CHARS: Final = 90

Step = tuple[str, int | None]
Change = tuple[ast.AST, str]

SWAPS: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
LAGS: Final = re.compile(r"(?:^|_)lag|lifetime|timeout|delay|wait_ms|since_ms|until_ms")
QUIET: Final = re.compile(r"log\.|super\(\)|live\.notes\.|notes\.|warnings\.")
CONJUNCT: Final = re.compile(
    r"\b(?P<word>and|where) (?P<test>[\w.]+ (?:=|<>|<=?|>=?|is not distinct from|is not|is) "
    r"(?::\w+|null|'[^']*'|[\w.]+))(?![\w.(])"
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: of what module, in which function or statement, and how to find its place.

    `place` is the qualified name of the outermost function, the name assigned to at the top of
    the module, or the name of an SQL statement.
    """

    module: str
    place: str
    kind: str
    says: str
    path: tuple[Step, ...] = ()
    number: int = 0

    @property
    def key(self) -> str:
        """Name this mutant among all others."""
        return f"{self.module} {self.place} [{self.kind}] {self.says}"


# -- The kinds ------------------------------------------------------------------------------------


def compare(node: ast.AST) -> Iterator[Change]:
    """Shift a bound by one, or ask the opposite."""
    if isinstance(node, ast.Compare):
        for number, op in enumerate(node.ops):
            changed = copy.deepcopy(node)
            changed.ops[number] = SWAPS[type(op)]()
            yield changed, _both(node, changed)


def guard(node: ast.AST) -> Iterator[Change]:
    """Never take a branch."""
    if isinstance(node, ast.If):
        changed = copy.deepcopy(node)
        changed.test = ast.Constant(value=False)
        yield changed, f"{_words(node.test)} → never"
    elif isinstance(node, ast.IfExp):
        for taken in (node.body, node.orelse):
            yield taken, _both(node, taken)


def condition(node: ast.AST) -> Iterator[Change]:
    """Leave one part of a condition out."""
    if isinstance(node, ast.BoolOp):
        for number in range(len(node.values)):
            rest = node.values[:number] + node.values[number + 1 :]
            changed = rest[0] if len(rest) == 1 else ast.BoolOp(op=node.op, values=rest)
            yield changed, f"{_words(node)} without {_words(node.values[number])}"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand, _both(node, node.operand)


def wait(node: ast.AST) -> Iterator[Change]:
    """Do not do what is waited for; or begin it and go on at once."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Await):
        yield ast.Pass(), f"{_words(node)} → nothing"
        begun = ast.parse('__import__("asyncio").ensure_future(x)').body[0]
        assert isinstance(begun, ast.Expr)
        assert isinstance(begun.value, ast.Call)
        begun.value.args = [node.value.value]
        yield begun, f"{_words(node)} → not waited for"


def call(node: ast.AST) -> Iterator[Change]:
    """Leave a call out that is made for its effect: announce, note, release, transfer, forget."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass(), f"{_words(node)} → nothing"


def announce(node: ast.AST) -> Iterator[Change]:
    """Announce nothing."""
    if isinstance(node, ast.Call) and any(each.arg == "announce" for each in node.keywords):
        changed = copy.deepcopy(node)
        changed.keywords = [each for each in node.keywords if each.arg != "announce"]
        yield changed, f"{_words(node.func)}(…) without announce"


def count(node: ast.AST) -> Iterator[Change]:
    """Do not count; do not add."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield node.left, _both(node, node.left)
    elif isinstance(node, ast.AugAssign):
        yield ast.Pass(), f"{_words(node)} → nothing"


def lag(node: ast.AST) -> Iterator[Change]:
    """Take a time to be zero."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    is_read = isinstance(getattr(node, "ctx", None), ast.Load)
    if is_read and isinstance(name, str) and name.islower() and LAGS.search(name):
        yield ast.Constant(value=0), f"{_words(node)} → 0"


def row(node: ast.AST) -> Iterator[Change]:
    """Give a row of a table the answer of another row; take one member out of a set."""
    if isinstance(node, ast.Dict):
        for number, value in enumerate(node.values):
            others = (o for o in node.values[number + 1 :] + node.values[:number])
            other = next((o for o in others if ast.dump(o) != ast.dump(value)), None)
            if node.keys[number] is not None and other is not None:
                changed = copy.deepcopy(node)
                changed.values[number] = other
                yield changed, f"{_words(node.keys[number])}: {_both(value, other)}"
    elif isinstance(node, ast.Set) and len(node.elts) > 1:
        for number, member in enumerate(node.elts):
            changed_set = copy.deepcopy(node)
            del changed_set.elts[number]
            yield changed_set, f"{_words(node)} without {_words(member)}"


def limit(node: ast.AST) -> Iterator[Change]:
    """Move a limit by one; one that is a product (16 * MIB) is no exact promise."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(value=node.value + 1), f"{node.value} → {node.value + 1}"


def barrier(node: ast.AST) -> Iterator[Change]:
    """Turn a verb that waits for the disk into one that waits for the commit."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "barrier":
        yield ast.Constant(value=None), "barrier → rider"


Kind = Callable[[ast.AST], Iterator[Change]]
INSIDE: Final[tuple[Kind, ...]] = (compare, guard, condition, wait, call, announce, count, lag)
ABOVE: Final[tuple[Kind, ...]] = (row, limit)  # offered what stands at the top of a module
SQL_KIND: Final = "sql"


# -- All of them ----------------------------------------------------------------------------------


def modules() -> dict[str, Path]:
    """Answer the modules that are mutated, by name."""
    paths = [SOURCE / "rules" / f"{name}.py" for name in RULES]
    for room in ("engine", "store"):
        paths += sorted((SOURCE / room).glob("*.py"))
    return {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in paths}


def generate() -> dict[str, Mutant]:
    """Make every mutant, by key; of equal changes in one place each has its number."""
    found = [m for module, path in modules().items() for m in of_module(module, path)]
    found += [m for file in SQL_FILES for m in of_sql(file)]
    times: Counter[str] = Counter()
    made = {}
    for mutant in found:
        times[mutant.key] += 1
        which = f" #{times[mutant.key]}" if times[mutant.key] > 1 else ""
        made[mutant.key + which] = mutant
    return made


@cache
def generate_once() -> Mapping[str, Mutant]:
    """Make them once for this process."""
    return generate()


@cache
def text_of(path: Path) -> str:
    """Read a source once: a file that is saved meanwhile does not move the places of mutants."""
    return path.read_text(encoding="utf-8")


def of_module(module: str, path: Path) -> Iterator[Mutant]:
    """Make the mutants of one module."""
    for place, kinds, node, steps in places(ast.parse(text_of(path)), module):
        for kind in kinds:
            for number, (_, says) in enumerate(kind(node)):
                yield Mutant(module, place, kind.__name__, says, steps, number)


def places(
    tree: ast.Module, module: str
) -> Iterator[tuple[str, tuple[Kind, ...], ast.AST, tuple[Step, ...]]]:
    """Answer every node that may be changed, whose place it is in, and how to get there."""
    for index, top in enumerate(tree.body):
        start: tuple[Step, ...] = (("body", index),)
        if isinstance(top, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _inside(top.name, top, start)
        elif isinstance(top, ast.ClassDef):
            for number, each in enumerate(top.body):
                steps = (*start, ("body", number))
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from _inside(f"{top.name}.{each.name}", each, steps)
                elif isinstance(each, ast.Assign) and module == "store.__init__":
                    assert isinstance(each.targets[0], ast.Name)
                    yield each.targets[0].id, (barrier,), each.value, (*steps, ("value", None))
        elif (name := assigned(top)) is not None:
            value = top.value  # type: ignore[attr-defined]
            for node, steps in _walk(value, (*start, ("value", None))):
                yield name, ABOVE if node is value else (row,), node, steps


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Answer the functions and methods of a module, by their qualified names."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    for top in tree.body:
        if isinstance(top, kinds):
            yield top.name, top
        elif isinstance(top, ast.ClassDef):
            yield from ((f"{top.name}.{e.name}", e) for e in top.body if isinstance(e, kinds))


def first_line(function: ast.AST) -> int:
    """Answer where a function begins; what decorates it belongs to it."""
    decorators: list[ast.expr] = function.decorator_list  # type: ignore[attr-defined]
    return min([each.lineno for each in decorators] + [function.lineno])  # type: ignore[attr-defined]


def line(mutant: Mutant) -> int:
    """Answer the line of its function in which the changed statement begins, as one bit, or 0."""
    function, statement = _statement(mutant)
    return 0 if function is None or statement is None else _bit(function, statement)


def branch(mutant: Mutant) -> int:
    """Answer where the branch begins whose condition is changed, as one bit, or 0."""
    function, statement = _statement(mutant)
    if function is None or not isinstance(statement, ast.If):
        return 0
    return _bit(function, statement.body[0])


def _statement(mutant: Mutant) -> tuple[ast.AST | None, ast.stmt | None]:
    """Answer the function a mutant changes, and the innermost statement in it."""
    node: ast.AST = ast.parse(text_of(modules()[mutant.module])) if mutant.path else ast.Pass()
    function = statement = None
    for field, number in mutant.path:
        node = _step(node, field, number)
        if function is None and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node
        elif isinstance(node, ast.stmt):
            statement = node
    return function, statement


def _bit(function: ast.AST, statement: ast.stmt) -> int:
    return 1 << (statement.lineno - first_line(function))


def assigned(node: ast.AST) -> str | None:
    """Answer the constant that a statement at the top of a module assigns."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target: ast.expr = node.targets[0]
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target = node.target
    else:
        return None
    name = target.id if isinstance(target, ast.Name) else ""
    return name if name.lstrip("_").isupper() else None


def _inside(
    place: str, function: ast.AST, start: tuple[Step, ...]
) -> Iterator[tuple[str, tuple[Kind, ...], ast.AST, tuple[Step, ...]]]:
    for index, statement in enumerate(function.body):  # type: ignore[attr-defined]
        for node, steps in _walk(statement, (*start, ("body", index))):
            yield place, INSIDE, node, steps


def _walk(node: ast.AST, steps: tuple[Step, ...]) -> Iterator[tuple[ast.AST, tuple[Step, ...]]]:
    """Walk what decides something: no message, no annotation, no assertion, no log line."""
    if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.arguments):
        return
    if isinstance(node, ast.Expr) and QUIET.search(ast.unparse(node).removeprefix("await ")[:24]):
        return
    if steps[-1] != ("func", None):  # a call of zero is no change anybody could make
        yield node, steps
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        if isinstance(value, ast.AST):
            yield from _walk(value, (*steps, (field, None)))
        elif isinstance(value, list):
            for number, each in enumerate(value):
                if isinstance(each, ast.AST):
                    yield from _walk(each, (*steps, (field, number)))


def changed_tree(mutant: Mutant) -> ast.Module:
    """Answer the tree of a mutant's module with its change made."""
    tree = ast.parse(text_of(modules()[mutant.module]))
    holder: ast.AST = tree
    for field, number in mutant.path[:-1]:
        holder = _step(holder, field, number)
    field, number = mutant.path[-1]
    kinds = {kind.__name__: kind for kind in (*INSIDE, *ABOVE)}
    old = _step(holder, field, number)
    new = list(kinds[mutant.kind](old))[mutant.number][0]
    for node in ast.walk(new):  # a line for every node that has none
        ast.copy_location(node, old) if not hasattr(node, "lineno") else None
    if number is None:
        setattr(holder, field, new)
    else:
        getattr(holder, field)[number] = new
    return ast.fix_missing_locations(tree)


def _step(holder: ast.AST, field: str, number: int | None) -> ast.AST:
    value = getattr(holder, field)
    found: ast.AST = value if number is None else value[number]
    return found


# -- SQL ------------------------------------------------------------------------------------------


def of_sql(file: str) -> Iterator[Mutant]:
    """Make the mutants of a file of statements: each part of a condition that always holds."""
    from duly.store import queries

    for name, text in queries.load(file).items():
        for number, match in enumerate(CONJUNCT.finditer(text)):
            says = f"{match['test']} → always"
            yield Mutant(f"store.sql.{file}", name, SQL_KIND, says, (), number)


def changed_sql(mutant: Mutant, text: str) -> str:
    """Answer a statement in which one part of a condition always holds."""
    match = list(CONJUNCT.finditer(text))[mutant.number]
    loose = f"{match['word']} ({match['test']} or 1)"
    return text[: match.start()] + loose + text[match.end() :]


def _words(node: ast.AST | None) -> str:
    text = " ".join(ast.unparse(node).split()) if node is not None else "**"
    return text if len(text) <= WORDS_CHARS else text[: WORDS_CHARS - 1] + "…"


def _both(old: ast.AST, new: ast.AST) -> str:
    return f"{_words(old)} → {_words(new)}"
