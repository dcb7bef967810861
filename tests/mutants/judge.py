"""A process that has collected the tests once and is forked for every mutant.

Law 1: nothing is written into the source tree. A child puts the change into the functions, tables
       and statements it has in memory, runs the tests it is given until the first is red, and ends.
Law 2: a test that does not end under a mutant has noticed it; its limit is far beyond what it
       needs without one.
Law 3: a mutant that cannot be put in place is an error, never a find.

It reads one JSON line after another (an order) and answers each with one.
"""

from __future__ import annotations

import ast
import builtins
import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import IO, Any, Final, NoReturn

import hypothesis
import pytest

from tests.breaks import TENTH_VARIABLE, Break, apply, imported
from tests.mutants import generate
from tests.mutants.generate import Mutant

PATIENCE_S: Final = 30.0  # a test that takes so long beyond its usual time will never end
MEMORY_BYTES: Final = 4 << 30
NOTE: Final = "__mutants_note__"
NOTED: Final[set[int]] = set()
FOUND, SURVIVED, UNUSABLE = "found", "survived", "unusable"
# The tests that judge, quickest rooms first; `TRACE` says which of them enters which function.
JUDGES: Final = (
    "tests/rules",
    "tests/engine",
    "tests/desk",
    "tests/store",
    "tests/bus",
    "tests/test_host.py",
    "tests/verification/test_random.py",
    "tests/verification/test_bus_random.py",
    "tests/verification/test_exhaustive.py",
    # Real processes, or minutes: none of them is needed for what the others find.
    "--ignore=tests/engine/crash_window",
    "--ignore=tests/bus/crash",
    "--ignore=tests/store/test_power.py",
    "--ignore=tests/rules/test_schedule_cron.py",
)


# -- Putting a mutant in place --------------------------------------------------------------------


def put_in_place(mutant: Mutant) -> None:
    """Change what this process has in memory."""
    if mutant.kind == generate.SQL_KIND:
        _put_sql(mutant)
    elif mutant.kind == generate.barrier.__name__:
        base, store = (importlib.import_module(f"duly.store{each}") for each in (".base", ""))
        vars(store.Store)[mutant.place].durability = base.Durability.RIDER
    else:
        tree = generate.changed_tree(mutant)
        is_table = mutant.kind in {kind.__name__ for kind in generate.ABOVE}
        (_put_table if is_table else _put_function)(mutant, tree)


def _put_sql(mutant: Mutant) -> None:
    sqlite = importlib.import_module("duly.store.sqlite")
    queries = importlib.import_module("duly.store.queries")
    load = queries.load

    def changed(*files: str) -> dict[str, str]:
        statements: dict[str, str] = load(*files)
        if mutant.place in statements:
            statements[mutant.place] = generate.changed_sql(mutant, statements[mutant.place])
        return statements

    text = changed(mutant.module.rpartition(".")[2])[mutant.place]
    setattr(queries, "load", changed)  # noqa: B010  # mypy knows no such name
    for schema in [each for each in gc.get_objects() if isinstance(each, sqlite.Schema)]:
        if mutant.place in schema.statements:
            schema.statements[mutant.place] = text


def _put_function(mutant: Mutant, tree: Any) -> None:
    path = str(generate.modules()[mutant.module])
    with warnings.catch_warnings(action="ignore"):
        code = compile(tree, path, "exec")
    new = [each for each in _codes(code) if each.co_qualname == mutant.place]
    assert _swap(new), f"no function {mutant.place} in {path}"


def _swap(codes: Sequence[types.CodeType]) -> int:
    """Give the functions that have an older version of these codes the new one."""
    old = [(function, code) for code in codes for function in functions().get(_name(code), ())]
    for function, code in old:
        function.__code__ = code
    return len(old)


@cache
def functions() -> dict[tuple[str, str, int], list[types.FunctionType]]:
    """Find every function of ours there is, however it is wrapped; once, before the first fork."""
    found: dict[tuple[str, str, int], list[types.FunctionType]] = {}
    gc.unfreeze()  # what the collection has frozen is not listed
    for each in gc.get_objects():
        if isinstance(each, types.FunctionType):
            found.setdefault(_name(each.__code__), []).append(each)
    return found


def _name(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Answer the code of every function and method of a module."""
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield each
            yield from (inner for inner in each.co_consts if isinstance(inner, types.CodeType))


def note_statements() -> list[tuple[str, int]]:
    """Let each statement of the mutated modules note that it ran; answer where its number is."""
    setattr(builtins, NOTE, NOTED.add)
    numbered: list[tuple[str, int]] = []
    codes: list[types.CodeType] = []
    for module, path in generate.modules().items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for place, function in generate.functions(tree):
            first = generate.first_line(function)
            for block, line in list(_blocks(function)):
                for index in reversed(range(len(block))):
                    note = ast.parse(f"{NOTE}({len(numbered)})").body[0]
                    block.insert(index, ast.copy_location(note, block[index]))
                    numbered.append((f"{module} {place}", line[index] - first))
        codes += _codes(compile(ast.fix_missing_locations(tree), str(path), "exec"))
    _swap(codes)
    return numbered


def _blocks(function: ast.AST) -> Iterator[tuple[list[ast.stmt], list[int]]]:
    """Answer the blocks of statements in a function, each with the lines they begin in."""
    for node in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and not isinstance(node, ast.ClassDef):
                yield block, [each.lineno for each in block]


def noted(numbered: list[tuple[str, int]]) -> dict[str, int]:
    """Answer the functions that were entered, and which lines of them, one bit each."""
    found: dict[str, int] = {}
    for number in NOTED:
        place, line = numbered[number]
        found[place] = found.get(place, 0) | 1 << line
    return dict(sorted(found.items()))


def spent_s() -> float:
    """Answer the CPU time of this process and of its children that have ended.

    Not the time of a clock on the wall: how busy the machine is must not choose the tests.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def _put_table(mutant: Mutant, tree: Any) -> None:
    """Evaluate an assignment again, and those after it that use its name."""
    module = importlib.import_module(f"duly.{mutant.module}")
    changed: set[str] = set()
    for statement in tree.body:
        name = generate.assigned(statement)
        if name is None:
            continue
        used = {each.id for each in ast.walk(statement.value) if hasattr(each, "id")}
        if name == mutant.place or used & changed:
            value = ast.Expression(statement.value)
            new = eval(compile(value, module.__file__ or "", "eval"), vars(module))
            old = getattr(module, name)
            apply(Break("", module.__name__, name, new, (), ""))
            for test in imported("tests"):  # collected already, with the name of the old one
                if vars(test).get(name) is old:
                    setattr(test, name, new)
            changed.add(name)
    assert changed, mutant


# -- In the process that is forked ----------------------------------------------------------------


class Judge:
    """The plugin: instead of running what was collected it carries out orders."""

    def __init__(self, orders: IO[str], answers: IO[str]) -> None:
        self._orders = orders
        self._answers = answers
        self._items: dict[str, pytest.Item] = {}
        self._mutants = generate.generate()
        self._numbered: list[tuple[str, int]] = []

    def pytest_sessionstart(self) -> None:
        hypothesis.settings.load_profile("break")  # the first counterexample is enough

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        self._answer({"tests": list(self._items), "mutants": list(self._mutants)})
        functions()
        for line in self._orders:
            self._answer(self._carry_out(session, json.loads(line)))
        return True

    def _answer(self, words: object) -> None:
        self._answers.write(json.dumps(words) + "\n")
        self._answers.flush()

    def _carry_out(self, session: pytest.Session, order: dict[str, Any]) -> dict[str, Any]:
        if "trace" in order and not self._numbered:
            self._numbered = note_statements()
        with tempfile.TemporaryFile("w+") as said:
            child = os.fork()
            if child == 0:
                self._be(session, order, said)
            os.setpgid(child, child)
            status = _outlast(child, sum(s + PATIENCE_S for s in order["tests"].values()))
            _sweep(child)
            said.seek(0)
            lines = said.read().splitlines()
        if "trace" in order:
            return {"entered": json.loads(lines[-1]) if lines else None}
        running = [line.removeprefix("» ") for line in lines if line.startswith("» ")]
        if status == EXITS[SURVIVED]:
            return {"verdict": SURVIVED, "tests": len(running)}
        if status == EXITS[UNUSABLE]:
            return {"verdict": UNUSABLE, "words": "\n".join(lines)}
        return {"verdict": FOUND, "by": running[-1], "hung": status != EXITS[FOUND]}

    def _be(self, session: pytest.Session, order: dict[str, Any], said: IO[str]) -> NoReturn:
        verdict = UNUSABLE
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            for target in range(3):
                os.dup2(nothing, target)
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
            if "trace" in order:
                said.write(json.dumps(self._trace(session, order["tests"])))
            else:
                if order["mutant"]:
                    put_in_place(self._mutants[order["mutant"]])
                verdict = self._try(session, order["tests"], said)
        except BaseException:
            traceback.print_exc(file=said)
        finally:
            said.flush()
            os._exit(EXITS[verdict])

    def _try(self, session: pytest.Session, tests: dict[str, float], said: IO[str]) -> str:
        for (name, seconds), after in zip(tests.items(), [*tests, None][1:], strict=True):
            said.write(f"» {name}\n")
            said.flush()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends it, also inside of SQLite
            signal.alarm(round(10 * seconds + PATIENCE_S))
            if not self._passes(session, name, after):
                return FOUND
        return SURVIVED

    def _passes(self, session: pytest.Session, name: str, after: str | None) -> bool:
        """Run a test; what it shares with the one after it is kept for that one."""
        item, following = self._items[name], self._items.get(after or "")
        reports: list[pytest.TestReport] = []
        watch = _Watch(reports)
        session.config.pluginmanager.register(watch)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        session.config.pluginmanager.unregister(watch)
        return not any(report.failed for report in reports)

    def _trace(self, session: pytest.Session, tests: dict[str, float]) -> dict[str, Any]:
        """Answer for each test how long it takes, and which statements of ours it runs."""
        found: dict[str, Any] = {}
        for name, after in zip(tests, [*tests, None][1:], strict=True):
            NOTED.clear()
            begun = spent_s()
            if self._passes(session, name, after):
                found[name] = {
                    "seconds": round(spent_s() - begun, 3),
                    "enters": noted(self._numbered),
                }
        return found


class _Watch:
    def __init__(self, reports: list[pytest.TestReport]) -> None:
        self._reports = reports

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)


EXITS: Final = {SURVIVED: 0, FOUND: 10, UNUSABLE: 11}  # one that hangs ends by a signal


def _outlast(child: int, limit_s: float) -> int | None:
    """Wait for the end of a child, or end it and everything it has started."""
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        _, status = os.waitpid(child, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None


def _sweep(group: int) -> None:
    """End what a child has left behind: workers of a sandbox, say."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


# -- The other side -------------------------------------------------------------------------------


class Court:
    """Runs mutants in such a process."""

    def __init__(self, judges: Sequence[str] = JUDGES) -> None:
        self._folder = tempfile.TemporaryDirectory()
        orders, mine = os.pipe()
        answers, theirs = os.pipe()
        command = [sys.executable, "-m", "tests.mutants.judge", str(orders), str(theirs)]
        self._process = subprocess.Popen(
            [*command, self._folder.name, *judges],
            cwd=generate.ROOT,
            pass_fds=(orders, theirs),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, TENTH_VARIABLE: "0"},
        )
        os.close(orders)
        os.close(theirs)
        self._orders = os.fdopen(mine, "w")
        self._answers = os.fdopen(answers)
        there = json.loads(self._answers.readline())
        self.tests: list[str] = there["tests"]
        self.mutants: list[str] = there["mutants"]

    def ask(self, **order: Any) -> dict[str, Any]:
        """Have one order carried out."""
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()
        answer: dict[str, Any] = json.loads(self._answers.readline())
        return answer

    def close(self) -> None:
        """End the process and wait for its end."""
        self._orders.close()
        self._process.wait()
        self._answers.close()
        self._folder.cleanup()


def main(orders: str, answers: str, folder: str, *judges: str) -> None:
    """Collect, then carry out orders until they end."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST"):
        os.environ.pop(name, None)
    # Assertions of modules that are imported already are not rewritten; they hold all the same.
    early = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    quiet = ("-p", "no:cacheprovider", f"--basetemp={folder}/tests", *early)
    judge = Judge(os.fdopen(int(orders)), os.fdopen(int(answers), "w"))
    pytest.main([*quiet, *judges], plugins=[judge])


if __name__ == "__main__":
    main(*sys.argv[1:])
