"""The map from every rule to its home, and from the docstrings to the rules they prove.

Law: what a test proves stands in the test, as the ids its docstring begins with ("C8, L2: …").
`rules.toml` holds only what no test can say: the file that decides the rule (`home`), what is still
unproven and which part of the product it waits for (`open`), and why a rule has no break of its own
(`unbroken`).
"""

from __future__ import annotations

import ast
import re
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


@dataclass(frozen=True, slots=True)
class Entry:
    """What the map says of one rule."""

    home: str = ""
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
    return {rule: Entry(**entry) for rule, entry in tomllib.loads(text).items()}


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
        is_proven = bool(tests_of(rule, claims))
        if rule not in rules:
            found.append(f"{rule}: no such rule on the page")
        if entry.home and not (root / entry.home).is_file():
            found.append(f"{rule}: its home {entry.home} does not exist")
        if is_proven and not entry.home:
            found.append(f"{rule}: has tests and no home")
        if not is_proven and not entry.open:
            found.append(f"{rule}: neither proven nor open")
        if entry.open and not set(entry.open.partition(":")[0].split(", ")) <= PARTS:
            found.append(f"{rule}: open must begin with parts of the product: {entry.open}")
    for test, ids in claims.items():
        found += [f"{test}: claims {rule}, which is no rule" for rule in ids if rule not in rules]
        if len(ids) > IDS_PER_TEST_MAX:
            found.append(f"{test}: claims {len(ids)} rules; prove {IDS_PER_TEST_MAX} at most")
    return found
