"""A verb that is added to a host is added to every face, without another line."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from duly.api.registry import VERBS
from duly.faces.cli import duly
from duly.faces.socket import Control
from duly.host import Host
from duly.rules.identity import RunId
from duly.rules.verb import Scope, act, question
from tests.faces.cli_stand import call, make
from tests.faces.stand import client, project

PROGRAM = """
from duly.host import Host
from duly.rules.verb import question
from duly.faces.cli import duly

@question(example={"cups": 2})
async def brewing(self, cups: int) -> int:
    '''Count the pots that so many cups need.'''

Host.brewing = brewing
duly(prog_name="duly")
"""


@dataclass(frozen=True)
class Pot:
    """Something that no layout knows."""

    name: str
    litres_now: int


class Kitchen(Host):
    """A host that can do two things more."""

    pots = 0

    @question(example={"cups": 2})
    async def brewing(self, cups: int) -> dict[str, int]:
        """Count the pots that so many cups need."""
        return {"pots": self.pots, "cups": cups}

    @question(example={})
    async def shelf(self) -> tuple[Pot, ...]:
        """List the pots there are."""
        return tuple(Pot(f"pot {number}", number) for number in range(self.pots))

    @act(scope=Scope.DECIDE, example={"run": "run_019a8b7c0d1e2f30"})
    async def stir(self, run: RunId, *, by: str = "user") -> None:
        """Stir what a run has on the stove."""

    @act(scope=Scope.DECIDE, example={"pots": 3})
    async def brew(self, pots: int, *, by: str = "user") -> str:
        """Put pots on the stove."""
        self.pots += pots
        return by


async def test_a_verb_of_a_subclass_is_on_the_socket(tmp_path: Path) -> None:
    """U6, G5: with its arguments read, its actor given by the socket, and its answer followed."""
    place = project(tmp_path)
    async with (
        Kitchen(place.url) as host,
        Control(host, place.socket),
        client(place.socket) as each,
    ):
        assert (await each.ask(id=1, verb="brewing", args={"cups": 2}))["answer"] == {
            "pots": 0,
            "cups": 2,
        }
        who = (await each.ask(id=2, verb="brew", args={"pots": 3}))["answer"]
        assert isinstance(who, str)
        assert who != "user"
        wrong = (await each.ask(id=3, verb="brew", args={"pots": 3, "by": "anna"}))["error"]
        assert wrong["path"] == "by"
        wrong = (await each.ask(id=4, verb="brewing", args={"cups": "2"}))["error"]
        assert (wrong["kind"], wrong["path"]) == ("Invalid", "cups")
        followed = await each.ask(id=5, verb="brewing", args={"cups": 1}, follow=True)
        assert followed["answer"]["pots"] == 3
        refused = (await each.ask(id=6, verb="brew", args={"pots": 1}, follow=True))["error"]
        assert refused["kind"] == "RequestRefused"
    assert "brewing" not in VERBS


@pytest.fixture
def kitchen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host that ships have the two verbs."""
    monkeypatch.setattr(Host, "pots", 0, raising=False)
    for name in ("brewing", "brew", "shelf", "stir"):
        monkeypatch.setattr(Host, name, vars(Kitchen)[name], raising=False)


@pytest.mark.usefixtures("kitchen")
def test_a_new_verb_is_a_command_with_help_and_example(tmp_path: Path) -> None:
    """U6: its docstring is its help, its example is spelled, its answer is shown by its fields."""
    folder = make(tmp_path / "a")
    told = call(folder, "brewing", "2")
    assert (told.exit_code, told.stdout.split()) == (0, ["pots", "0", "cups", "2"])
    assert call(folder, "brewing", "2", "--json").stdout == '{\n  "pots": 0,\n  "cups": 2\n}\n'
    assert call(folder, "brew", "3").exit_code == 0
    wrong = call(folder, "brewing", "two")
    assert wrong.exit_code == 2
    shown = CliRunner().invoke(duly, ["help", "brewing"], prog_name="duly").stdout
    assert "Count the pots that so many cups need.\n" in shown
    assert "duly brewing 2\n" in shown
    assert "--follow" in shown
    assert "--follow" not in CliRunner().invoke(duly, ["help", "brew"]).stdout


@pytest.mark.usefixtures("kitchen")
def test_a_new_verb_is_listed_with_its_kind() -> None:
    """U6: a question where one looks, an act where one decides."""
    listed = CliRunner().invoke(duly, ["help", "all"], prog_name="duly").stdout
    look, decide = listed.index("Look:"), listed.index("Decide:")
    assert look < listed.index("\n  brewing ") < decide < listed.index("\n  brew ")
    assert "Count the pots that so many cups need." in listed
    wrong = CliRunner().invoke(duly, ["brewin"], prog_name="duly")
    assert 'Did you mean "brewing"?' in wrong.stderr


@pytest.mark.usefixtures("kitchen")
def test_a_new_verb_prints_well_whatever_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: records as a table, nothing by its noun, an act in a sentence, an id where one waits."""
    folder = make(tmp_path / "a")
    assert call(folder, "shelf").stdout == "There are no such pots.\n"
    monkeypatch.setattr(Host, "pots", 2)
    assert call(folder, "shelf").stdout == "name   litres now\npot 0  0\npot 1  1\n"
    assert call(folder, "stir", "run_1").stdout == "Done.\n"
    assert call(folder, "brew", "3").stdout.startswith("Done: ")
    nothing = call(folder, "stir")
    assert (nothing.exit_code, "Nothing waits for stir." in nothing.stderr) == (1, True)


def complete(words: str, **environ: str) -> str:
    """Press Tab behind some words of a program whose host has one verb more."""
    typed = {"_DULY_COMPLETE": "zsh_complete", "COMP_WORDS": words}
    typed["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    env: Any = {**os.environ, **typed, **environ}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=env, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_new_verb_is_completed() -> None:
    """U6: its name, and its options."""
    assert "brewing" in complete("duly brew").split()
    assert "--follow" in complete("duly brewing --fo").split()
