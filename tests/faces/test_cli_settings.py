"""What a running host was started with, and a folder in which there is nothing yet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from duly.api import session
from duly.api.project import find_project
from duly.faces.cli import duly
from duly.faces.cli.base import NO_PROJECT, OTHER_SETTINGS
from duly.faces.cli.simulate import SECRETS_STAY
from tests.faces.cli_stand import TOML, answer, call, make, project, running

OTHER = TOML.replace('"always"', '"never"')


# -- Other settings -------------------------------------------------------------------------------


def test_the_fingerprint_is_of_what_the_settings_say(tmp_path: Path) -> None:
    """U6: a comment changes nothing, a value and a variable do, the key to the secrets does not."""
    folder = make(tmp_path / "a")
    first = project(folder).settings
    (folder / "duly.toml").write_text(f"# a comment\n{TOML}")
    assert project(folder).settings == first
    assert find_project(str(folder), {"DULY_KEY": "x"}, folder).settings == first
    other = find_project(str(folder), {"DULY_POLICY__RUNS_MAX": "7"}, folder).settings
    (folder / "duly.toml").write_text(OTHER)
    assert len({first, other, project(folder).settings}) == 3


def test_whoever_speaks_to_a_host_with_other_settings_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: on stderr of every command, beside its answer; `doctor` has a line for it."""
    folder = make(tmp_path / "a")
    source = str(folder / "workflows" / "checks.js")
    commands = (["workflows", "--json"], ["deploy", source], ["check", source], ["tools"])
    hint = f"{OTHER_SETTINGS}\n"
    with running(folder):
        assert answer(folder, "status")["host"]["settings"] == project(folder).settings
        assert call(folder, "workflows").stderr == ""
        (folder / "duly.toml").write_text(OTHER)
        for words in (*commands, ["attention", "checks"]):
            assert call(folder, *words).stderr.count(hint) == 1, words
        told = json.loads(call(folder, "doctor", "--json").stdout)
        found = [each for each in told if each["what"] == "settings" and each["state"] == "warn"]
        ((said, advice),) = ((each["sentence"], each["advice"]) for each in found)
        assert said == "The running host was started with other settings than duly.toml has now."
        assert advice == "Restart it to use them."
        assert hint not in call(folder, "doctor").stderr
        # Another version of Duly knows other settings; nothing can be said of them.
        monkeypatch.setattr(session, "__version__", "7.0")
        assert call(folder, "workflows").stderr == ""


def test_a_program_that_says_no_settings_is_not_suspected(tmp_path: Path) -> None:
    """U6: a program that embeds a host has no duly.toml to differ from."""
    made = project(make(tmp_path / "a"))
    host = session._read_greeting(
        b'{"duly": "0", "pid": 1, "store": "/x", "since": "2026-01-02T12:00:00Z", "serving": true}',
        tmp_path,
    )
    assert host.settings is None
    assert not host.has_other_settings(made)


# -- Nothing yet ----------------------------------------------------------------------------------


def test_a_question_makes_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """U6: an empty folder stays empty, and how to begin is hinted at; an act makes one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DULY_PROJECT", raising=False)
    for words in (["status"], ["workflows", "--json"], ["bus", "journal"], ["secret", "list"]):
        told = CliRunner().invoke(duly, words)
        assert (told.exit_code, told.stderr) == (0, f"{NO_PROJECT}\n"), words
        assert [*tmp_path.iterdir()] == []
    refused = CliRunner().invoke(duly, ["why", "orders"])
    assert (refused.exit_code, [*tmp_path.iterdir()]) == (1, [])
    assert refused.stderr.startswith(f'{NO_PROJECT}\nThere is no workflow "orders".')
    emitted = CliRunner().invoke(duly, ["bus", "emit", "tea.ready", "{}"])
    assert (emitted.exit_code, NO_PROJECT in emitted.stderr) == (0, False)
    assert (tmp_path / "duly.db").exists()


def test_a_project_without_a_store_is_asked_without_a_hint(tmp_path: Path) -> None:
    """U6: there is a project; its tools and extensions are there already."""
    folder = make(tmp_path / "a")
    for words in (["status"], ["extensions"], ["verify"], ["attention"]):
        told = call(folder, *words)
        assert (told.exit_code, told.stderr) == (0, ""), words
    assert not (folder / "duly.db").exists()


# -- Secrets beside a running host ----------------------------------------------------------------


def test_simulate_speaks_of_secrets_only_where_there_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5: what nobody set stays with nobody."""
    from duly.faces.cli import simulate
    from duly.faces.cli.base import Face, run

    folder = make(tmp_path / "a")
    face = Face(given=str(folder))
    said: list[str] = []
    monkeypatch.setattr(simulate, "hint", said.append)
    assert call(folder, "pause", "none").exit_code == 1  # there is a store now
    with running(folder):
        run(simulate._connectors(face))
        assert said == []
        assert call(folder, "secret", "set", "sheet", "token", given="hidden").exit_code == 0
        run(simulate._connectors(face))
        assert said == [SECRETS_STAY]
