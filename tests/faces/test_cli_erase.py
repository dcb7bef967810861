"""What ends for good is shown first, and asked about (H5, W10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.faces.cli import base
from tests.faces import cli_stand
from tests.faces.cli_stand import Facts, answer, call, copy, running

TITLE = "Note 1 for lost"
ADDED = "Add a row for Note 1 for lost"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a project of which one input is over, with its change."""
    folder = tmp_path_factory.mktemp("past") / "project"
    facts: Facts = cli_stand.prepare(folder)
    assert call(folder, "settle", facts.unknown, "happened", "--yes").exit_code == 0
    assert call(folder, "drain").exit_code == 0
    return folder


@pytest.fixture
def past(made: Path, tmp_path: Path) -> Path:
    return copy(made, tmp_path / "project")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "is_terminal", lambda: True)


def title(folder: Path) -> Any:
    (found,) = answer(folder, "events", "lost")
    return found["title"]


@pytest.mark.usefixtures("terminal")
def test_what_would_be_erased_is_shown_and_a_no_leaves_it(past: Path) -> None:
    """H5: titles and counts, then the question; was done at once."""
    refused = call(past, "forget", "1", "--workflow", "lost", given="n\n")
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (1, "Nothing was done.")
    head, runs, changes, bus = refused.stdout.splitlines()
    assert head == f"“{TITLE}”: 1 in in of “lost”."
    assert (runs, changes) == ("1 run.", f"1 change: “{ADDED}”.")
    assert bus.endswith(" of the bus.")
    assert title(past) == TITLE
    done = call(past, "forget", "1", "--workflow", "lost", given="y\n")
    assert done.exit_code == 0
    assert "Erased: 1 events, 1 runs, 1 mutations, " in done.stdout
    assert title(past).startswith("Erased on ")


def test_a_second_time_it_says_when_it_was_erased(past: Path) -> None:
    """H5, A6: when, and by whom."""
    typed = ("forget", "1", "--workflow", "lost", "--yes")
    assert call(past, *typed).exit_code == 0
    again = call(past, *typed)
    sentence = title(past).removeprefix("Erased")
    assert f"1 in in of “lost” was erased{sentence}." in again.stdout
    assert f"It was erased{sentence}; once more:" in again.stdout
    assert TITLE not in again.stdout


@pytest.mark.parametrize(("verb", "name"), [("forget", "1"), ("remove", "lost")])
def test_without_a_terminal_the_yes_is_typed(past: Path, verb: str, name: str) -> None:
    """H5, W10: nothing is decided in a person's name."""
    more = ("--workflow", "lost") if verb == "forget" else ()
    refused = call(past, verb, name, *more)
    assert (refused.exit_code, "Add --yes." in refused.stderr) == (2, True)
    as_json = call(past, verb, name, *more, "--json")
    assert (as_json.exit_code, as_json.stdout) == (2, "")
    assert title(past) == TITLE
    with running(past):
        assert call(past, verb, name, *more, "--yes").exit_code == 0


@pytest.mark.usefixtures("terminal")
def test_what_ends_with_a_workflow_is_shown_before_it_is_removed(past: Path) -> None:
    """W10: what waits, and that its name begins anew; was done at once."""
    refused = call(past, "remove", "rests", given="n\n")
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (1, "Nothing was done.")
    assert "1 pending input will not be worked on." in refused.stdout
    assert "works on old message ids again" in refused.stdout
    assert call(past, "remove", "rests", given="y\n").exit_code == 0
    assert "rests" not in [each["name"] for each in answer(past, "workflows")]


def test_what_is_open_is_refused_before_anything_is_asked(past: Path) -> None:
    """H5: as forgetting would be; it says what is in the way."""
    refused = call(past, "forget", "1", "--workflow", "asks")
    assert (refused.exit_code, "is not over" in refused.stderr) == (1, True)
