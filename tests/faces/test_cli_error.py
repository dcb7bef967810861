"""Everything that can go wrong at a terminal is told in the golden file's words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from duly.faces.cli.failure import ADVICE, BY_PATH
from tests.faces.cli_stand import Facts, call, make, prepare
from tests.faces.errors import sheet
from tests.faces.errors.situation import SITUATIONS

# Whatever a person can act on: a command, a file, a setting, or an option.
ACTED_ON = re.compile(r"`duly |duly\.toml|FOLDER/|--[a-z]|DULY_|/proc/")


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Facts]:
    folder = tmp_path_factory.mktemp("past") / "project"
    return folder, prepare(folder)


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_goes_wrong_is_told_in_these_words(
    name: str, past: tuple[Path, Facts], tmp_path: Path
) -> None:
    """U6: exact words and exit code; `python -m tests.faces.errors --write` writes them anew."""
    told = sheet.tell(name, *past, tmp_path / "project")
    assert told == sheet.read()[name]


def test_the_file_holds_every_situation_and_nothing_else() -> None:
    """U6: at least forty of them."""
    assert sheet.read().keys() == SITUATIONS.keys()
    assert len(SITUATIONS) >= 40


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_message_names_something_to_act_on_and_no_python(name: str) -> None:
    """U6: what happened, to what, what to do; in the words of the command line."""
    _, _, told = sheet.read()[name].split("\n", 2)
    code, _, text = told.partition("  ")
    assert code in "012"
    assert "host." not in text
    assert "Traceback" not in text
    assert "fault of Duly" not in text
    if code != "0":
        assert ACTED_ON.search(text), text
        assert not re.search(r"\([A-Z]\d+\)", text)


def test_every_piece_of_advice_is_given_somewhere() -> None:
    """U6: a row nobody is told is a row nobody read."""
    text = sheet.FILE.read_text(encoding="utf-8")
    for advice in (*ADVICE.values(), *BY_PATH.values()):
        pattern = ".*".join(map(re.escape, re.split(r"\{\w+\}", advice)))
        assert re.search(pattern.replace(r"\{\{", r"\{").replace(r"\}\}", r"\}"), text), advice


@pytest.mark.parametrize("args", [("why", "--json", "--nonsense"), ("skip", "--json"), ("--json",)])
def test_wrong_use_is_json_too_where_json_is_asked_for(tmp_path: Path, args: Sequence[str]) -> None:
    """U6: a program reads no sentence, however wrongly it calls."""
    told = call(make(tmp_path / "p"), *args)
    assert (told.exit_code, told.stdout) == (2, "")
    error = json.loads(told.stderr)["error"]
    assert (error["kind"], error["code"]) == ("Invalid", "wrong_use")
    assert error["message"] == f"{error['facts']['cause']} See the help of `{error['subject']}`."
