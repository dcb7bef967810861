"""Which tests judge which mutant, what found it before, and how many are found.

Law 1: the choice of mutants is a function of their names alone, and the sample of a commit of
       that commit, so a red run stays red.
Law 2: what was found once stays found. A mutant in `found.json` that survives is a test that went
       to sleep; one that is in neither `found.json` nor on the page was never judged.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from tests.breaks import tenth_of_commit
from tests.mutants import generate
from tests.mutants.generate import Mutant
from tests.mutants.judge import FOUND, SURVIVED, Court

HERE: Final = Path(__file__).parent
FOUND_FILE: Final = HERE / "found.json"
MAP_FILE: Final = generate.ROOT / ".mutants" / "map.json"
PAGE: Final = generate.ROOT / "docs" / "mutants.md"
EXPLAINED: Final = re.compile(r"^- `(?P<key>[^`]+)`", re.MULTILINE)
BARRIER: Final = "BARRIER"  # tests that say it look at the durability of verbs
GUARDED: Final = "GUARDED"  # and of statements that are all guarded alike
ALL_LINES: Final = -1
SAMPLE: Final = 12
TRACE_S: Final = 60.0
START_S: Final = 0.003  # what a test costs besides its own time
NEVER: Final = {"seconds": 0.0, "enters": {}}  # a test that is not green by itself judges nothing

Entered = Mapping[str, Mapping[str, Any]]


@dataclass(slots=True)
class Known:
    """Which test found a mutant, and which mutants the page explains."""

    found: dict[str, str] = field(default_factory=dict)
    explained: frozenset[str] = frozenset()
    is_green: dict[str, bool] = field(default_factory=dict)  # without a mutant, seen in this run

    @classmethod
    def read(cls) -> Known:
        """Read both."""
        text = FOUND_FILE.read_text(encoding="utf-8") if FOUND_FILE.exists() else "{}"
        found = {key: test for test, keys in json.loads(text).items() for key in keys}
        page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        return cls(found, frozenset(match["key"] for match in EXPLAINED.finditer(page)))

    def write(self) -> None:
        """Keep which test found what, without mutants that are not there any more."""
        there = generate.generate()
        tests: dict[str, list[str]] = {}
        for key in sorted(self.found.keys() & there.keys()):
            tests.setdefault(self.found[key], []).append(key)
        FOUND_FILE.write_text(
            json.dumps(tests, indent=0, sort_keys=True, ensure_ascii=False) + "\n"
        )


def choose(mutants: Sequence[str], words: Sequence[str], count: int | None) -> list[str]:
    """Choose mutants by their names: all with these words in them, or so many, always the same."""
    if words:
        return [key for key in mutants if any(word in key for word in words)]
    if count is None:
        return list(mutants)
    return sorted(mutants, key=_digest)[:count]


def sample(found: Iterable[str], number: int) -> list[str]:
    """Choose the few that belong to a commit."""
    return sorted(found, key=lambda key: _digest(f"{number} {key}"))[:SAMPLE]


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


# -- Judging --------------------------------------------------------------------------------------


def judge(
    court: Court, key: str, entered: Entered, known: Known, budget_s: float
) -> dict[str, Any]:
    """Run the tests that can notice a mutant, what noticed it before first.

    A test that is red without the mutant as well has noticed nothing, and is not asked again.
    """
    tests = judges(generate.generate_once()[key], entered, budget_s)
    before = known.found.get(key)
    if before is not None and before in entered:
        tests = {before: entered[before]["seconds"], **tests}
    while True:
        tests = {test: seconds for test, seconds in tests.items() if known.is_green.get(test, True)}
        answer = court.ask(mutant=key, tests=tests)
        if answer["verdict"] != FOUND or known.is_green.get(answer["by"]):
            return answer
        alone = court.ask(mutant="", tests={answer["by"]: tests[answer["by"]]})
        known.is_green[answer["by"]] = alone["verdict"] == SURVIVED


def judges(mutant: Mutant, entered: Entered, budget_s: float) -> dict[str, float]:
    """Answer the tests that run what is changed, as many as the budget allows.

    First those that take the branch whose condition is changed. Then the quickest, and those that
    enter few functions before those that enter many: they look closely. Each further case of one
    test counts for more, for what one overlooks the next case mostly overlooks, too.
    """
    chosen: dict[str, float] = {}
    cases: Counter[str] = Counter()
    ranked, looking = [], _looking(mutant)
    place, branch = f"{mutant.module} {mutant.place}", generate.branch(mutant)
    for seconds, test in sorted(_able(mutant, entered)):
        name = test.partition("[")[0]
        weight = (seconds + START_S) * len(entered[test]["enters"]) * (1 + cases[name])
        takes_it = entered[test]["enters"].get(place, 0) & branch
        ranked.append((name not in looking, not takes_it, weight, test))
        cases[name] += 1
    for *_, test in sorted(ranked):
        budget_s -= entered[test]["seconds"]
        if budget_s < 0:
            break
        chosen[test] = entered[test]["seconds"]
    return chosen


def _able(mutant: Mutant, entered: Entered) -> list[tuple[float, str]]:
    """Answer the tests that can notice a mutant: those that run its statement, if any does.

    A function that was edited since it was traced has its statements elsewhere; then those are
    asked that enter it.
    """
    lines, looking = reach(mutant), _looking(mutant)
    there: set[str] = set()
    exact: set[str] = set()
    for test, each in entered.items():
        enters = each["enters"]
        for place in lines.keys() & enters.keys():
            (exact if lines[place] & enters[place] else there).add(test)
    chosen = (exact or there) | {test for test in entered if test.partition("[")[0] in looking}
    return [(entered[test]["seconds"], test) for test in chosen]


def _looking(mutant: Mutant) -> set[str]:
    """Answer the tests that look at a table itself, without a call that would be traced."""
    if mutant.kind == generate.barrier.__name__:
        return _tests_by_word().get(BARRIER, set())
    if mutant.kind == generate.SQL_KIND:
        names = {mutant.place, GUARDED}
    else:
        names = tables(mutant) if mutant.place.lstrip("_").isupper() else set()
    return {test for name in names for test in _tests_by_word().get(name, ())}


@cache
def _tests_by_word() -> dict[str, set[str]]:
    """Answer for every name and string which tests mention it, their parameters included."""
    found: dict[str, set[str]] = {}
    for path in (generate.ROOT / "tests").rglob("test_*.py"):
        file = path.relative_to(generate.ROOT).as_posix()
        for place, function in generate.functions(ast.parse(path.read_text(encoding="utf-8"))):
            for node in ast.walk(function):
                word = getattr(node, "id", None) or getattr(node, "attr", None)
                word = word or (node.value if isinstance(node, ast.Constant) else None)
                if isinstance(word, str):
                    found.setdefault(word, set()).add(f"{file}::{place}")
    return found


def reach(mutant: Mutant) -> dict[str, int]:
    """Answer the functions of which a test must enter one to notice a change, and their lines."""
    if mutant.kind == generate.barrier.__name__:  # the verb itself, or who calls it
        verbs = {f"{module} {mutant.place}": ALL_LINES for module in generate.modules()}
        return verbs | _mentions().get(mutant.place, {})
    if mutant.path and not mutant.place.lstrip("_").isupper():
        return {f"{mutant.module} {mutant.place}": generate.line(mutant) or ALL_LINES}
    found: dict[str, int] = {}
    for name in tables(mutant):
        for place, lines in _mentions().get(name, {}).items():
            found[place] = found.get(place, 0) | lines
    return found or _mentions(at_the_top=True).get(mutant.place, {})


def tables(mutant: Mutant) -> set[str]:
    """Answer the table a mutant changes and those that are made with it."""
    names: set[str] = set()
    waiting = [mutant.place]
    while waiting:  # a table is part of others, and they of others
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += _parts_of(mutant.module).get(name, ())
    return names


@cache
def _parts_of(module: str) -> dict[str, set[str]]:
    """Answer for every name of a module which of its tables are made with it."""
    found: dict[str, set[str]] = {}
    path = generate.modules().get(module)
    for top in ast.parse(path.read_text(encoding="utf-8")).body if path else ():
        name = generate.assigned(top)
        for node in ast.walk(top) if name else ():
            found.setdefault(getattr(node, "id", ""), set()).add(name or "")
    return found


@cache
def _mentions(*, at_the_top: bool = False) -> dict[str, dict[str, int]]:
    """Answer for every name, attribute and string which functions of ours mention it, and where.

    What is mentioned at the top of a module, outside of any function, may matter to all of them.
    """
    found: dict[str, dict[str, int]] = {}
    for path in generate.SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(generate.SOURCE).with_suffix("").parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        at_all = dict.fromkeys(_words(tree, 0), ALL_LINES) if at_the_top else {}
        for place, function in generate.functions(tree):
            words = at_all or _words(function, generate.first_line(function))
            for word, lines in words.items():
                found.setdefault(word, {})[f"{module} {place}"] = lines
    return found


def _words(inside: ast.AST, first: int) -> dict[str, int]:
    """Answer the words of a function, each with the statements it occurs in, one bit each."""
    found: dict[str, int] = {}
    waiting = [(inside, 0)]
    while waiting:
        node, line = waiting.pop()
        if isinstance(node, ast.stmt):
            line = node.lineno - first
        word = getattr(node, "id", None) or getattr(node, "attr", None)
        word = word or (node.value if isinstance(node, ast.Constant) else None)
        if isinstance(word, str):
            found[word] = found.get(word, 0) | 1 << line
        waiting += [(each, line) for each in ast.iter_child_nodes(node)]
    return found


def read_map(
    tests: Sequence[str], *, anew: bool, say: Callable[[str], None], as_traced: bool = False
) -> dict[str, Any]:
    """Answer which test enters which function and how long it takes; trace what is not known."""
    known: dict[str, Any] = {}
    if MAP_FILE.exists() and not anew:
        known = json.loads(MAP_FILE.read_text(encoding="utf-8"))
    by_file: dict[str, list[str]] = {}
    for test in tests:
        if test not in known:
            by_file.setdefault(test.partition("::")[0], []).append(test)
    if by_file and not as_traced:
        with closing(Court()) as court:  # of its own: its functions note that they are entered
            for file, missing in by_file.items():
                order = dict.fromkeys(missing, TRACE_S)
                entered = court.ask(tests=order, trace=True)["entered"] or {}
                say(f"{sum(each['seconds'] for each in entered.values()):8.1f} s  {file}")
                known.update({test: entered.get(test, NEVER) for test in missing})
                MAP_FILE.parent.mkdir(exist_ok=True)
                MAP_FILE.write_text(json.dumps(known, separators=(",", ":")), encoding="utf-8")
    return {test: known[test] for test in tests if test in known}


def try_sample(say: Callable[[str], None] = lambda _: None) -> int:
    """See that what belongs to this commit is still found; answer how many are not."""
    there = generate.generate_once()
    known = Known.read()
    chosen = sample(known.found.keys() & there.keys(), tenth_of_commit())
    files = sorted({known.found[key].partition("::")[0] for key in chosen})
    survivors = []
    with closing(Court(files)) as court:
        for key in chosen:
            test = known.found[key]
            if (
                test not in court.tests
                or court.ask(mutant=key, tests={test: 5.0})["verdict"] != FOUND
            ):
                survivors.append(key)
                say(f"no longer found by {test}: {key}")
    say(f"{len(chosen)} mutants, {len(chosen) - len(survivors)} found")
    return len(survivors)


def table(chosen: Sequence[str], survivors: Sequence[str], explained: Iterable[str]) -> str:
    """Lay out how many were found, by module."""
    total = Counter(key.partition(" ")[0] for key in chosen)
    left = Counter(key.partition(" ")[0] for key in survivors)
    lines = [
        f"{number - left[name]:5} of {number:5}  {name}" for name, number in sorted(total.items())
    ]
    found = len(chosen) - len(survivors)
    lines.append(f"{found:5} of {len(chosen):5}  found: {100 * found / max(1, len(chosen)):.1f} %")
    named = len(set(survivors) & set(explained))
    lines.append(f"{len(survivors)} survived, {named} of them explained in docs/mutants.md")
    return "\n".join(lines)
