"""The house rules no linter knows: each checker reads text and answers its offences as sentences.

Law: a checker is a function from text to a list of offences, and an empty list is praise. What
it must catch is planted in `test_house.py`; what it must leave alone is the repository.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "duly"
TESTS = ROOT / "tests"
VERIFICATION = ROOT / "verification"

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
BANNED_NAMES = frozenset({"util", "utils", "helper", "helpers", "common", "misc", "core"}) | (
    {"manager", "managers", "service", "services"}
)
SQL_WORDS = re.compile(
    r"^\s*(select\b.+\bfrom\b|insert\s+(or\s+\w+\s+)?into\b|update\s+\w+\s+set\b|delete\s+from\b"
    r"|(create|drop|alter)\s+(unique\s+)?(table|index|view|trigger)\b|with\s+\w+\s+as\s*\()",
    re.IGNORECASE | re.DOTALL,
)
# What differs between two runs of the same program; `env.py` alone may ask for it.
CHANCE_MODULES = frozenset({"time", "random", "uuid", "secrets"})
CHANCE_CALLS = frozenset(
    {"os.urandom", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
    | {"asyncio.sleep", "loop.time"}
)
# These two are written with brackets, so that this file does not name them itself.
LEFTOVER = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X])\b")
MACHINE = re.compile(
    r"(?<![\w.])/(w[o]rk|f[a]rm|r[o]ot|o[p]t)/|pyth[o]nhosted|npmj[s]\.org|deb\.debia[n]|pypi\.o[r]g"
)
WAYS_NOT_TO_RUN = frozenset({"skip", "skipif", "xfail", "importorskip"})
NOT_OURS = frozenset(
    {".git", ".venv", ".hypothesis", ".import_linter_cache", ".mypy_cache", ".pytest_cache"}
    | {".ruff_cache", "__pycache__", ".bench", ".dmypy.json", "dist", "duly-demo"}
)
OTHER = frozenset({".egg-info", ".png"})  # no text of ours
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHECK_LIST = re.compile(r"check \((\w+) (?:in \(|= )('[^']*'(?:(?:,|\s+or \1 =) '[^']*')*)\)")
TABLE = re.compile(r"^create table (\w+) \((.*?)^\);", re.MULTILINE | re.DOTALL)


def modules(folder: Path = SOURCE) -> list[Path]:
    """List every Python file below a folder."""
    return sorted(p for p in folder.rglob("*.py") if not NOT_OURS.intersection(p.parts))


def repository(root: Path = ROOT) -> Iterator[Path]:
    """Walk every text the repository keeps; the lock file names hosts by its nature."""
    for path in sorted(root.iterdir()):
        if path.name in NOT_OURS or path.name == "uv.lock" or path.suffix in OTHER:
            continue
        if path.is_dir():
            yield from repository(path)
        else:
            yield path


@lru_cache(maxsize=1)  # one check after the other looks at the same text
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def long_file(text: str) -> list[str]:
    """Find a file that does not fit in one sitting."""
    lines = len(text.splitlines())
    return [f"{lines} lines; split it by what it knows"] if lines > FILE_LINES_MAX else []


def long_functions(text: str) -> list[str]:
    """Find functions that do not fit on one screen."""
    return [
        f"{node.lineno}: {node.name} does not fit on a screen"
        for node in ast.walk(_tree(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]


def sql_in_strings(text: str) -> list[str]:
    """Find SQL written in Python; it belongs in store/sql, named and with its reason."""
    return [
        f"{line}: SQL belongs in store/sql"
        for line, value in _strings(_tree(text))
        if SQL_WORDS.match(value)
    ]


def _strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Give every string of a module that is not a docstring; a formatted one by its beginning."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else "x" for p in node.values]
            yield node.lineno, "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield node.lineno, str(node.value)


def chance(text: str) -> list[str]:
    """Find a clock, a wait or a die that did not come from the `Env`."""
    found = []
    for node in ast.walk(_tree(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute):
            names = [_last_two(node)]
        else:
            continue
        found += [
            f"{node.lineno}: {name} belongs in env.py"
            for name in names
            if name in CHANCE_MODULES or name in CHANCE_CALLS
        ]
    return found


def _last_two(node: ast.Attribute) -> str:
    """Name an attribute and what it hangs on: `datetime.now` for `datetime.datetime.now`."""
    value = node.value
    if isinstance(value, ast.Attribute):
        return f"{value.attr}.{node.attr}"
    return f"{value.id}.{node.attr}" if isinstance(value, ast.Name) else node.attr


def leftovers(text: str) -> list[str]:
    """Find notes of unfinished work."""
    return _lines(LEFTOVER, text, "finish it or take it out")


def machine_names(text: str) -> list[str]:
    """Find paths and hosts of the machine on which it was written."""
    return _lines(MACHINE, text, "a machine path or registry host")


def _lines(pattern: re.Pattern[str], text: str, why: str) -> list[str]:
    return [
        f"{number}: {why}: {match[0]}"
        for number, line in enumerate(text.splitlines(), 1)
        if (match := pattern.search(line))
    ]


def banned_name(name: str) -> list[str]:
    """Find a module named after nothing."""
    if name not in BANNED_NAMES:
        return []
    return [f"{name} says nothing; name it after what it knows"]


def undocumented_module(text: str) -> list[str]:
    """Find a file that does not say what it is for."""
    return [] if ast.get_docstring(_tree(text)) else ["1: say what this file is for"]


def ways_not_to_run(text: str) -> list[str]:
    """Find tests that may not run: a skip or an expected failure."""
    return [
        f"{node.lineno}: a test that may not run ({node.attr})"
        for node in ast.walk(_tree(text))
        if isinstance(node, ast.Attribute)
        and node.attr in WAYS_NOT_TO_RUN
        and _last_two(node).partition(".")[0] in ("pytest", "mark")
    ]


def examples(page: str) -> list[str]:
    """Read the Python examples of a page."""
    return EXAMPLE.findall(page)


def words_of_schema(schema: str) -> dict[str, frozenset[str]]:
    """Read the list of words of every column that has one: `run.phase` to its words."""
    return {
        f"{table}.{column}": frozenset(re.findall(r"'([^']*)'", words))
        for table, body in TABLE.findall(schema)
        for column, words in CHECK_LIST.findall(body)
    }


def strange_words(schema: str, words: Mapping[str, frozenset[str]]) -> list[str]:
    """Find columns whose words are not exactly the ones given, and words without a column."""
    found = words_of_schema(schema)
    offences = [f"{column}: words nobody else knows" for column in found.keys() - words.keys()]
    offences += [f"{column}: the schema has no list" for column in words.keys() - found.keys()]
    for column in found.keys() & words.keys():
        if strange := found[column] ^ words[column]:
            offences.append(f"{column}: {', '.join(sorted(strange))} on one side only")
    return sorted(offences)
