"""No program reads a sentence: with a code in place of each, every view and command still works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duly import words
from duly.api.codec import to_json
from duly.desk.record import Attention, Why
from duly.rules.standing import Code
from duly.testing import Stage
from tests.desk.golden import sheet
from tests.engine.stand import NAME
from tests.faces import cli_stand
from tests.faces.cli_stand import answer, call


@pytest.fixture(autouse=True)
def _codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the code in place of every sentence."""
    for table in (words.SHORT, words.LONG, words.DOES):
        for code in table:
            monkeypatch.setitem(table, code, code)


@pytest.mark.parametrize("name", sheet.BUILDERS)
async def test_the_desk_says_codes_and_works(duly_world: Stage, name: str) -> None:
    """U1, U7: every situation has its why, its standing and its offers."""
    play, asked = await sheet.BUILDERS[name](duly_world)
    why = await play.host.why(asked)
    assert isinstance(why, Why)
    shown = to_json(why, play.host.now)
    assert isinstance(shown, dict)
    reason = shown["reason"]
    assert isinstance(reason, dict)
    assert str(reason["text"]).lower() == reason["code"]
    for entry in await play.host.attention():
        assert isinstance(entry, Attention)
        assert json.dumps(to_json(entry, play.host.now))
    if why.reason.code in tuple(Code):
        assert (await play.host.workflow(NAME)).reason.code == why.reason.code


def test_the_command_line_says_codes_and_works(tmp_path: Path) -> None:
    """U6: status, why, attention, inputs and outputs, for people and for programs."""
    folder = tmp_path / "project"
    cli_stand.prepare(folder)
    for line in ("status", "why", "attention", "inputs asks", "outputs asks", "approvals"):
        told = call(folder, *line.split())
        assert told.exit_code == 0, told.output
        assert answer(folder, *line.split()) is not None
    assert "Needs_approval" in call(folder, "status").stdout
    assert "    duly approve 1" in call(folder, "attention").stdout
