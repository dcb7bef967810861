"""`duly completion`: the scripts, and what they ask for when a person presses Tab."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem, get_completion_class

from duly.faces.cli.completion import SHELLS, complete_workflow
from tests.faces.real import call
from tests.house import ROOT


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_of_its_own(shell: str) -> None:
    """U6: it calls `duly` back under one variable. The wheel has it where the shell looks."""
    printed = call(None, "completion", shell)
    assert printed.exit_code == 0
    packed = (ROOT / "completion" / f"duly.{shell}").read_text(encoding="utf-8")
    assert printed.stdout == packed, f"duly completion {shell} > completion/duly.{shell}"
    assert f"_DULY_COMPLETE={shell}_complete" in printed.stdout


def test_an_unknown_shell_is_wrong_use() -> None:
    """U6: the shells there are, status 2."""
    refused = call(None, "completion", "tcsh")
    assert refused.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in refused.stderr


def test_completion_without_a_shell_names_the_shells_in_one_line() -> None:
    """U6: what is missing and what it can be, without a code for a line's end."""
    refused = call(None, "completion")
    assert refused.exit_code == 2
    said = "Missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish. See `duly completion"
    assert refused.stderr.startswith(said)


def test_pressing_tab_completes_a_command(tmp_path: Path) -> None:
    """U6: the real program, as a shell calls it, without a project."""
    done = subprocess.run(
        [sys.executable, "-m", "duly"],
        env={
            **os.environ,
            "_DULY_COMPLETE": "bash_complete",
            "COMP_WORDS": "duly simu",
            "COMP_CWORD": "1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("plain,simulate\n", "")


def test_names_are_left_to_the_person_where_no_host_runs(tmp_path: Path) -> None:
    """S9: Tab opens no store, and never fails."""
    (tmp_path / "duly.toml").write_text("")
    root = click.Context(click.Command("duly"))
    root.params["project"] = str(tmp_path)
    argument = click.Argument(["workflow"])
    assert complete_workflow(root, argument, "") == []
    assert not (tmp_path / "duly.db").exists()
    (tmp_path / "duly.toml").write_text("this is no toml")
    assert complete_workflow(root, argument, "") == []


NAMES = ["plain", "two words", "it's", '$(touch x)`touch y`"', "a,b", "back\\slash", "*", "~", "#x"]


@pytest.mark.parametrize("opened", ["", "'", '"'])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_typed_so_that_bash_reads_it_as_one_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, opened: str
) -> None:
    """U6: whatever it is called, nothing of it is run and nothing of it is lost."""
    monkeypatch.setenv("COMP_WORDS", f"duly\nwhy\n{opened}")
    monkeypatch.setenv("COMP_CWORD", "2")
    bash = SHELLS["bash"](click.Command("duly"), {}, "duly", "_DULY_COMPLETE")
    program = tmp_path / "duly"
    program.write_text(
        f"#!/bin/sh\ncat <<'END'\n{bash.format_completion(CompletionItem(name))}\nEND\n"
    )
    program.chmod(0o755)
    # Where a quote is open, readline leaves it there and closes it.
    script = (
        f"{bash.source_template % bash.source_vars()}\n"
        f"COMP_WORDS=(duly why {shlex.quote(opened)}); COMP_CWORD=2; _duly_completion duly\n"
        'eval "set -- $OPENED${COMPREPLY[0]}$OPENED"; printf "%s|" "$#" "$@"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "OPENED": opened},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"1|{name}|", done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["duly"]


def test_the_shell_that_asks_gets_what_we_quote(tmp_path: Path) -> None:
    """U6: fish quotes by itself, but takes a comma for the end unless it is told to split once."""
    assert "string split -m 1" in SHELLS["fish"].source_template
    assert get_completion_class("bash") is SHELLS["bash"]
    assert get_completion_class("fish") is SHELLS["fish"]
