"""The house keeps its own order: layers, sizes, words, format, lint, types.

Every checker is shown an offence too, so that none of them can be asleep.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from pathlib import Path

import pytest

import duly
from tests import house
from tests.house import ROOT, SOURCE, TESTS, VERIFICATION

Checker = Callable[[str], list[str]]

# Every column with a list of words, and the enum whose words they are.
WORDS = {
    "version.origin": "duly.store.record.Origin",
    "handler.kind": "duly.rules.word.Kind",
    "blob.status": "duly.rules.blob.BlobStatus",
    "proof.status": "duly.rules.asking.ProofStatus",
    "event.status": "duly.rules.event.EventStatus",
    "run.kind": "duly.rules.word.Kind",
    "run.phase": "duly.rules.word.Phase",
    "run.status": "duly.rules.word.Status",
    "run.outcome": "duly.rules.word.Outcome",
    "run.waits": "duly.rules.word.Waits",
    "mutation.status": "duly.rules.word.MutationStatus",
    "mutation.known_how": "duly.rules.word.Known",
    "journal.status": "duly.rules.delivery.JournalStatus",
    "token.kind": "duly.rules.token.TokenKind",
    "token.scope": "duly.rules.verb.Scope",
    "delivery.status": "duly.rules.delivery.DeliveryStatus",
    "model_question.status": "duly.rules.model.QuestionStatus",
    "slip.status": "duly.rules.slip.SlipStatus",
    "deferred.status": "duly.rules.deferral.DeferredStatus",
}
# Names of things, not states of them: nothing is decided by these, so they have no enum.
NAMES = {
    "version.language": frozenset({"javascript", "python"}),
    "proposal.language": frozenset({"javascript", "python"}),
    "counter.name": frozenset({"journal", "deferred", "subscription"}),
}


def command(tool: str, *words: str, cwd: Path = ROOT, given: str = "") -> tuple[int, str]:
    """Run a tool of this environment; answer its exit status and what it said."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name(tool)), *words],
        cwd=cwd,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def offences(paths: list[Path], *checks: Checker) -> list[str]:
    return [
        f"{name(path)}:{offence}"
        for path in paths
        for text in [path.read_text(encoding="utf-8")]
        for check in checks
        for offence in check(text)
    ]


# Tools: each is asked about the repository, and about an offence that its settings must catch.


def test_format_is_the_house_format() -> None:
    status, words = command("ruff", "format", "--check", ".")
    assert status == 0, words


def test_a_badly_formatted_file_is_caught() -> None:
    options = ("--check", "--stdin-filename=src/duly/planted.py", "-")
    assert command("ruff", "format", *options, given="x = 1\n")[0] == 0
    assert command("ruff", "format", *options, given="x  =  1\n")[0] == 1


def test_lint_has_nothing_to_say() -> None:
    status, words = command("ruff", "check", "--output-format=concise", ".")
    assert status == 0, words


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("D100", "X = 1\n"),
        ("D101", '"""Doc."""\n\n\nclass Public:\n    x = 1\n'),
        ("D103", '"""Doc."""\n\n\ndef public() -> None:\n    pass\n'),
        ("E501", f'"""Doc."""\n\nX = "{"x" * 100}"\n'),
        ("F401", '"""Doc."""\n\nimport json\n'),
        ("T201", '"""Doc."""\n\nprint(1)\n'),
    ],
)
def test_lint_catches_a_planted_offence(rule: str, text: str) -> None:
    where = "--stdin-filename=src/duly/planted.py"
    status, words = command("ruff", "check", where, "-", given=text)
    assert (status, rule in words) == (1, True), words


def test_types_are_strict() -> None:
    status, words = command("mypy")
    assert status == 0, words


def test_a_function_without_types_is_caught(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("def f(x):\n    return x\n", encoding="utf-8")
    status, words = command("mypy", str(tmp_path / "planted.py"))
    assert (status, "no-untyped-def" in words) == (1, True), words


def test_rooms_import_downward_only() -> None:
    status, words = command("lint-imports", "--no-cache", "--no-logo")
    assert status == 0, words


# Every room that a contract names.
ROOMS = (
    *("rules", "store", "engine", "bus", "desk", "config", "env", "errors", "fork", "cell"),
    *("sandbox", "script", "connectors", "testing", "faces", "models"),
)


@pytest.fixture
def small_house(tmp_path: Path) -> Path:
    """Build a house of empty rooms that keeps the contracts of this one."""
    for room in ROOMS:
        (tmp_path / "duly" / room).mkdir(parents=True)
        (tmp_path / "duly" / room / "__init__.py").touch()
        (tmp_path / "duly" / room / "planted.py").touch()
    (tmp_path / "duly" / "__init__.py").touch()
    (tmp_path / "duly" / "store" / "base.py").write_text("import apsw\n")
    (tmp_path / "duly" / "rules" / "other.py").write_text("import duly.rules.planted\n")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    # The one import the contract of purity looks past must exist for it to look past.
    (tmp_path / "duly" / "config" / "__init__.py").write_text("import pathlib\n")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "text", "contract"),
    [
        ("config/planted.py", "", None),
        ("errors/planted.py", "import duly.rules", "Rooms"),
        ("rules/planted.py", "import duly.store.base", "Rooms"),
        ("engine/planted.py", "import duly.bus.planted", "Rooms"),
        ("attic/__init__.py", "", "Rooms"),
        ("rules/planted.py", "import time", "Rules are pure"),
        ("rules/planted.py", "import duly.env", "Rules are pure"),
        ("rules/planted.py", "import apsw", "Only the store"),
        ("desk/planted.py", "import apsw", "Only the store"),
        ("desk/planted.py", "import verification.disk", "The package stands alone"),
        ("desk/planted.py", "import tests.house", "The package stands alone"),
        ("faces/planted.py", "import duly.rules.planted", "Faces stand on"),
        ("faces/planted.py", "import duly.store.base", "Faces stand on"),
        ("rules/planted.py", "import duly.rules.other", "No cycles"),
    ],
)
def test_a_planted_import_breaks_its_contract(
    small_house: Path, file: str, text: str, contract: str | None
) -> None:
    planted = small_house / "duly" / file
    planted.parent.mkdir(exist_ok=True)
    planted.write_text(text)
    _, words = command("lint-imports", "--no-cache", "--no-logo", cwd=small_house)
    assert "No cycles anywhere" in words, words
    broken = [line for line in words.splitlines() if " BROKEN" in line]
    if contract is None:
        assert broken == [], words
    else:
        assert any(line.startswith(contract) for line in broken), words


# Sizes, names, words: each checker of house.py, over the repository and over a planted offence.


def test_the_package_and_its_verification_keep_the_house_rules() -> None:
    """Time and chance come from `env` alone, among others."""
    rules = [house.long_file, house.long_functions, house.sql_in_strings]
    rules += [house.leftovers, house.undocumented_module]
    env = SOURCE / "env.py"
    paths = [path for path in house.modules() if path != env]
    assert env in house.modules()
    assert house.modules(VERIFICATION) != []
    assert offences([*paths, *house.modules(VERIFICATION)], *rules, house.chance) == []
    assert offences([env], *rules) == []
    assert offences([env], house.chance) != []


def test_the_tests_keep_the_house_rules() -> None:
    rules = (house.long_file, house.long_functions, house.leftovers, house.ways_not_to_run)
    assert offences(house.modules(TESTS), *rules) == []


def test_modules_are_named_after_what_they_know() -> None:
    paths = [*house.modules(), *house.modules(VERIFICATION)]
    assert [name(path) for path in paths if house.banned_name(path.stem)] == []


def test_the_repository_names_no_machine() -> None:
    paths = list(house.repository())
    assert {"README.md", ".ci/run", "src/duly/env.py"} <= {name(path) for path in paths}
    assert offences(paths, house.machine_names) == []


def test_a_file_past_the_limit_is_caught() -> None:
    assert house.long_file("x\n" * 500) == []
    assert house.long_file("x\n" * 501) == ["501 lines; split it by what it knows"]


def test_a_function_past_the_limit_is_caught() -> None:
    assert house.long_functions("def f():\n" + "    x\n" * 69) == []
    assert house.long_functions("def f():\n" + "    x\n" * 70) == ["1: f does not fit on a screen"]
    assert house.long_functions("class A:\n  async def f():\n" + "    x\n" * 70) != []


@pytest.mark.parametrize(
    "text",
    [
        "x = 'select id from run'",
        "x = f'select {x} from run'",
        "x = '''\n  insert into run values (1)'''",
        "x = 'insert or replace into run values (1)'",
        "x = 'UPDATE run SET x = 1'",
        "x = f'delete from {table}'",
        "x = 'create unique index a on b (c)'",
        "x = 'with due as (select 1)'",
        "f('drop table run')",
    ],
)
def test_sql_in_a_string_is_caught(text: str) -> None:
    assert house.sql_in_strings(text)


@pytest.mark.parametrize(
    "text", ["'''Select this from that.'''", "x = 'update your settings'", "x = 'select'"]
)
def test_prose_is_not_sql(text: str) -> None:
    assert house.sql_in_strings(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "from time import monotonic",
        "import random as r",
        "from uuid import uuid4",
        "import secrets",
        "from os import urandom",
        "import os\nos.urandom(8)",
        "datetime.now(UTC)",
        "datetime.datetime.utcnow()",
        "asyncio.sleep(1)",
    ],
)
def test_a_clock_or_a_die_outside_env_is_caught(text: str) -> None:
    assert house.chance(text)


def test_a_time_that_is_an_argument_is_no_chance() -> None:
    assert house.chance("import datetime, os\nos.open\nenv.sleep(1)\nrun.time") == []


def test_a_leftover_is_caught() -> None:
    assert house.leftovers("x = 1  # TO" + "DO: later") != []
    assert house.leftovers("# a todo list is a workflow") == []


def test_a_machine_name_is_caught() -> None:
    for word in ("/wo" + "rk/main", "see /op" + "t/x", "files.python" + "hosted.org"):
        assert house.machine_names(f"see {word} for more") != []
    assert house.machine_names("docs/work/plan and src/opt/x") == []


def test_a_name_that_says_nothing_is_caught() -> None:
    assert house.banned_name("utils") != []
    assert house.banned_name("ledger") == []


def test_a_module_without_a_docstring_is_caught() -> None:
    assert house.undocumented_module("x = 1") != []
    assert house.undocumented_module("'''Say it.'''") == []


@pytest.mark.parametrize(
    "text",
    [
        "pytest.skip('x')",
        "@pytest.mark.skip\ndef test_x(): ...",
        "@pytest.mark.skipif(True, reason='')\ndef test_x(): ...",
        "@pytest.mark.xfail\ndef test_x(): ...",
        "pytest.importorskip('x')",
    ],
)
def test_a_test_that_may_not_run_is_caught(text: str) -> None:
    assert house.ways_not_to_run(text)


def test_skipping_an_event_is_no_skipped_test() -> None:
    assert house.ways_not_to_run("store.skip(event)") == []


# Words: what the schema's CHECK lists say is what the enums of the rules say.


LIGHT = {"lamp.colour": frozenset({"red", "paused:dark"})}

LAMP = """
create table lamp (
  colour text not null check (colour in ('red', 'paused:dark')),
  open   integer check (open in (0, 1)),
  check ((colour in ('red')) = (open = 1))
);
"""


def test_equal_words_are_praised() -> None:
    assert house.words_of_schema(LAMP) == LIGHT
    assert house.strange_words(LAMP, LIGHT) == []


@pytest.mark.parametrize("words", ["'paused:dark'", "'red', 'paused:dark', 'blue'"])
def test_a_word_on_one_side_only_is_caught(words: str) -> None:
    schema = LAMP.replace("'red', 'paused:dark'", words)
    assert len(house.strange_words(schema, LIGHT)) == 1


def test_words_joined_by_or_are_read_like_a_list() -> None:
    joined = LAMP.replace("in ('red', 'paused:dark')", "= 'red'\n    or colour = 'paused:dark'")
    assert house.words_of_schema(joined) == LIGHT


def test_a_column_on_one_side_only_is_caught() -> None:
    assert house.strange_words(LAMP, {}) != []
    assert house.strange_words("", LIGHT) != []


def test_the_schema_speaks_the_words_of_the_rules() -> None:
    """R3: the words of every status column are those of the enum, no more and no fewer."""
    schema = (SOURCE / "store" / "sql" / "schema.sql").read_text(encoding="utf-8")
    words = dict(NAMES)
    for column, place in WORDS.items():
        module, _, name = place.rpartition(".")
        enum: type[StrEnum] = getattr(import_module(module), name)
        words[column] = frozenset(word.value for word in enum)
    assert house.strange_words(schema, words) == []


# What a user gets: the names, the wheel, the examples.


def test_the_public_names_are_exactly_these() -> None:
    """The list is written twice on purpose: a name leaves or enters with a change here."""
    settings = {"Backoff", "Limits", "Policy", "WorkflowPolicy"}
    connectors = {"AuthNeeded", "NotSent", "PermissionDenied", "Refused", "Transient"} | (
        {"Address", "Applied", "Blob", "Call", "Connector", "NotApplied", "Page", "Unsure"}
        | {"mutation", "read"}
    )
    authors = {"Source", "consumer", "producer", "workflow"}
    hosts = {"Deployed", "Host", "Invalid", "NotFound", "RequestRefused", "StoreInUse"}
    hosts |= {"Event", "RepairCase", "Repairer", "Retry", "StillSending"}
    extensions = {"AgentProvider", "Channel", "Extension", "ExtensionContext"} | (
        {"TerminalChannel", "WebhookChannel"}
    )
    assert set(duly.__all__) == settings | connectors | authors | hosts | extensions | (
        {"DulyError", "NotDeployed", "UnknownOutcome"}
    )


@pytest.mark.parametrize("public", duly.__all__)
def test_every_public_name_exists_and_is_documented(public: str) -> None:
    assert getattr(duly, public).__doc__


def test_every_python_example_of_the_docs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what an example writes is not the repository's
    pages = [path for path in house.repository() if path.suffix == ".md"]
    examples = [(name(path), text) for path in pages for text in house.examples(path.read_text())]
    assert "README.md" in {page for page, _ in examples}
    for page, text in examples:
        exec(compile(text, page, "exec"), {})


def test_an_example_is_found_where_it_stands() -> None:
    page = "Try:\n\n```python\nx = 1\n```\n\n```sh\nmake\n```\n```python\ny = 2\n```\n"
    assert house.examples(page) == ["x = 1\n", "y = 2\n"]


def test_every_dependency_has_its_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split(r"[<>=\[ ]", each)[0] for each in project["dependencies"]}
    wanted.discard("tree-sitter-javascript")  # the grammar stands on tree-sitter's own page
    titles = [path.stem.partition("-")[2] for path in (ROOT / "docs" / "decisions").glob("*.md")]
    pages = {name for title in titles for name in (title, *title.split("-and-"))}
    assert wanted - pages == set()
    assert "apsw" in wanted


def test_ci_runs_the_one_command() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").splitlines()[-1] == "make test"
