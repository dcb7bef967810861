"""The map from every rule to its home and its tests: reads it, checks it, writes it.

Law: what a test proves stands in the test, as the ids its docstring begins with ("C8, L2: …").
The map in `rules.toml` repeats that, beside what no test can say: the file that decides the rule
(`home`), what is still unproven and which part of the product it waits for (`open`), and why a
rule has no break of its own (`unbroken`).

    python -m tests.rules_map --write      rewrite the tests of every entry (`make map`)
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RULES = ROOT / "docs" / "rules.md"
MAP = ROOT / "tests" / "rules.toml"
IDS_PER_TEST_MAX = 3
PARTS = frozenset(
    {"rules", "store", "scripts", "sandbox", "engine", "people", "bus", "simulation"}
    | {"product", "pages", "fleet"}
)

ITEM = re.compile(r"^- ([A-Z]\d+) (.*?)(?=^- [A-Z]\d+ |^## |\Z)", re.MULTILINE | re.DOTALL)
LIMITS = re.compile(r"^## N\. (.*?)\Z", re.MULTILINE | re.DOTALL)
CLAIM = re.compile(r"((?:[A-Z]\d+|N)(?:, (?:[A-Z]\d+|N))*):")

HEADER = """\
# Every rule of docs/rules.md: the file that decides it, the tests that prove it, what is open.
# `make map` writes the tests from the docstrings; home, open and unbroken are written by hand.
# `open` begins with the parts of the product it waits for.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the map says of one rule."""

    home: str = ""
    tests: tuple[str, ...] = ()
    open: str = ""
    unbroken: str = ""


def read_rules(text: str) -> dict[str, str]:
    """Read every rule of the page: its id and its sentences."""
    rules = {match[1]: match[2].strip() for match in ITEM.finditer(text)}
    if limits := LIMITS.search(text):
        rules["N"] = limits[1].strip()
    return rules


def read_map(text: str) -> dict[str, Entry]:
    """Read the map; a key that is none of an entry's is an error."""
    return {
        rule: Entry(**{**entry, "tests": tuple(entry.get("tests", ()))})
        for rule, entry in tomllib.loads(text).items()
    }


def write_map(entries: Mapping[str, Entry]) -> str:
    """Write the map in the order it is given."""
    blocks = [HEADER]
    for rule, entry in entries.items():
        lines = [f"[{rule}]"]
        if entry.home:
            lines.append(f"home = {_quoted(entry.home)}")
        if entry.open:
            lines.append(f"open = {_quoted(entry.open)}")
        if entry.unbroken:
            lines.append(f"unbroken = {_quoted(entry.unbroken)}")
        if entry.tests:
            lines += ["tests = [", *(f"  {_quoted(test)}," for test in entry.tests), "]"]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def claims_of(text: str) -> dict[str, tuple[str, ...]]:
    """Read which ids each test function of a module claims in its docstring."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[:5] == "test_":
            claim = CLAIM.match(ast.get_docstring(node) or "")
            found[node.name] = tuple(claim[1].split(", ")) if claim else ()
    return found


def read_claims(root: Path = ROOT) -> dict[str, tuple[str, ...]]:
    """Read the claims of every test there is, by its pytest name."""
    return {
        f"{path.relative_to(root).as_posix()}::{name}": ids
        for path in sorted((root / "tests").rglob("test_*.py"))
        for name, ids in claims_of(path.read_text(encoding="utf-8")).items()
    }


def tests_of(rule: str, claims: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """List the tests that claim a rule."""
    return tuple(test for test, ids in claims.items() if rule in ids)


def problems(
    rules: Mapping[str, str],
    entries: Mapping[str, Entry],
    claims: Mapping[str, tuple[str, ...]],
    root: Path = ROOT,
) -> list[str]:
    """Find everything about which page, map and tests disagree."""
    found = [f"{rule}: no entry in rules.toml" for rule in rules if rule not in entries]
    for rule, entry in entries.items():
        if rule not in rules:
            found.append(f"{rule}: no such rule on the page")
        if entry.home and not (root / entry.home).is_file():
            found.append(f"{rule}: its home {entry.home} does not exist")
        if entry.tests and not entry.home:
            found.append(f"{rule}: has tests and no home")
        if not entry.tests and not entry.open:
            found.append(f"{rule}: neither proven nor open")
        if entry.open and not set(entry.open.partition(":")[0].split(", ")) <= PARTS:
            found.append(f"{rule}: open must begin with parts of the product: {entry.open}")
        if set(entry.tests) != set(tests_of(rule, claims)):
            found.append(f"{rule}: rules.toml and the docstrings disagree; run `make map`")
    for test, ids in claims.items():
        found += [f"{test}: claims {rule}, which is no rule" for rule in ids if rule not in rules]
        if len(ids) > IDS_PER_TEST_MAX:
            found.append(f"{test}: claims {len(ids)} rules; prove {IDS_PER_TEST_MAX} at most")
    return found


def rewrite(text: str, rules: Mapping[str, str], claims: Mapping[str, tuple[str, ...]]) -> str:
    """Write the map anew: every rule of the page in its order, with the tests that claim it."""
    known = read_map(text)
    entries = {}
    for rule in rules:
        old = known.get(rule, Entry(open="rules"))
        entries[rule] = Entry(old.home, tests_of(rule, claims), old.open, old.unbroken)
    return write_map(entries)


def main() -> int:
    """Rewrite the map, or say what is wrong with it."""
    rules = read_rules(RULES.read_text(encoding="utf-8"))
    claims = read_claims()
    if "--write" in sys.argv[1:]:
        text = rewrite(MAP.read_text(encoding="utf-8"), rules, claims)
        MAP.write_text(text, encoding="utf-8")
    found = problems(rules, read_map(MAP.read_text(encoding="utf-8")), claims)
    print("\n".join(found) or f"{len(rules)} rules, map and docstrings agree.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
