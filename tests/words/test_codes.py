"""No program reads a sentence: with a code in place of each, every view and command still works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from duly import words
from duly.api.codec import to_json
from duly.desk.record import Attention, Why
from duly.rules.standing import Code
from duly.testing import Stage
from duly.words import done, error, repair
from tests.desk.golden import sheet
from tests.engine.stand import NAME
from tests.faces import cli_stand
from tests.faces.cli_stand import answer, call
from tests.faces.stand import client, listening


@pytest.fixture(autouse=True)
def _codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the code in place of every sentence."""
    for table in (words.SHORT, words.LONG, words.DOES):
        for code in table:
            monkeypatch.setitem(table, code, code)
    for code in error.PAIRS:
        monkeypatch.setitem(cast("dict[str, Any]", error.PAIRS), code, (code, ""))
    for code in repair.REFUSALS:
        monkeypatch.setitem(repair.REFUSALS, code, code)
    for verb in done.SENTENCES:
        said = cast("dict[str, Any]", done.SENTENCES)
        monkeypatch.setitem(said, verb, lambda *_, verb=verb: f"done_{verb}")


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


def test_the_command_line_acts_and_fails_with_codes(tmp_path: Path) -> None:
    """U6: an error has its code, its exit code and its offer; an act is carried out and told."""
    folder = tmp_path / "project"
    cli_stand.prepare(folder)
    told = call(folder, "workflow", "nowhere")
    assert (told.exit_code, told.stderr.strip()) == (1, "no_workflow. Next: `duly workflows`.")
    failed = json.loads(call(folder, "workflow", "nowhere", "--json").stderr)["error"]
    assert (failed["code"], failed["subject"], failed["next"]["verb"]) == (
        *("no_workflow", "nowhere"),
        "workflows",
    )
    assert "done_pause" in call(folder, "pause", "checks").stdout
    assert answer(folder, "workflow", "checks")["standing"] == "stopped"


async def test_the_socket_fails_with_codes(tmp_path: Path) -> None:
    """U6: a program compares the code; the message is the code here, and nothing breaks."""
    async with listening(tmp_path) as (_, path), client(path) as each:
        failed = (await each.ask(id=1, verb="workflow", args={"name": "x"}))["error"]
        assert (failed["kind"], failed["code"], failed["message"]) == (
            *("NotFound", "no_workflow"),
            "no_workflow",
        )
