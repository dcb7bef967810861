"""Where a rule lives: its home, its tests and its own sentence (`make where C8`).

Law: it prints what the page, the map and the tests' docstrings say and knows nothing by itself.

    python -m tests.where C8 L2         some rules
    python -m tests.where               how many rules are proven, in part, or not yet
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from tests.rules_map import MAP, RULES, Entry, read_claims, read_map, read_rules, tests_of


def describe(rule: str, sentence: str, entry: Entry, tests: Sequence[str]) -> str:
    """Say everything about one rule."""
    lines = [f"{rule}  {sentence}", "", f"home   {entry.home or 'none yet'}"]
    lines += [f"test   {test}" for test in tests]
    if entry.open:
        lines.append(f"open   {entry.open}")
    return "\n".join(lines) + "\n"


def nearest(rule: str, rules: Mapping[str, str]) -> str:
    """Say which rule may have been meant."""
    (close,) = get_close_matches(rule, rules, n=1, cutoff=0)
    return f"There is no rule {rule}; the nearest is {close}. docs/rules.md has them all."


def summary(entries: Mapping[str, Entry], claims: Mapping[str, tuple[str, ...]]) -> str:
    """Count the rules by how far they are proven."""
    claimed = {rule for ids in claims.values() for rule in ids}
    proven = sum(1 for rule, entry in entries.items() if rule in claimed and not entry.open)
    partly = sum(1 for rule, entry in entries.items() if rule in claimed and entry.open)
    rest = len(entries) - proven - partly
    return f"{len(entries)} rules: {proven} proven, {partly} in part, {rest} not yet."


def main(arguments: Sequence[str]) -> int:
    """Print what was asked for; an unknown rule is a failure."""
    rules = read_rules(RULES.read_text(encoding="utf-8"))
    entries = read_map(MAP.read_text(encoding="utf-8"))
    claims = read_claims()
    if not arguments:
        print(summary(entries, claims))
        return 0
    asked = [rule.upper() for rule in arguments]
    for rule in asked:
        if rule in rules:
            print(describe(rule, rules[rule], entries[rule], tests_of(rule, claims)))
        else:
            print(nearest(rule, rules))
    return 0 if set(asked) <= set(rules) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
