"""`duly completion`: the scripts, and what they ask for when somebody presses Tab."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from duly.faces.cli.completion import complete_workflow
from tests.faces.real import call


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_of_its_own(shell: str) -> None:
    """U6: it calls `duly` back under one variable."""
    printed = call(None, "completion", shell)
    assert printed.exit_code == 0
    assert f"_DULY_COMPLETE={shell}_complete" in printed.stdout


def test_an_unknown_shell_is_wrong_use() -> None:
    """U6: the shells there are, status 2."""
    refused = call(None, "completion", "tcsh")
    assert refused.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in refused.stderr


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
