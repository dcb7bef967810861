"""No program reads a sentence: with a code in place of each, every view and command still works."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, cast

import pytest

from duly import words
from duly.api.codec import to_json
from duly.desk.record import Attention, Why
from duly.rules.standing import Code
from duly.testing import Stage
from duly.words import done, error, repair, seal
from tests.desk.golden import sheet
from tests.engine.stand import NAME
from tests.faces import cli_stand
from tests.faces.cli_stand import answer, call
from tests.faces.stand import client, listening


def find_tables() -> list[dict[Any, str]]:
    """Find every table of texts in `words`."""
    modules = [import_module(f"duly.words.{each.name}") for each in iter_modules(words.__path__)]
    values = [each for module in (words, *modules) for each in vars(module).values()]
    return [each for each in values if isinstance(each, dict) and _are_texts(each.values())]


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(each, str) for each in values)


@pytest.fixture(autouse=True)
def _codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the code in place of every sentence, and of every part of one."""
    for table in find_tables():
        for code in table:
            monkeypatch.setitem(table, code, str(code))
    for code in error.PAIRS:
        monkeypatch.setitem(cast("dict[str, Any]", error.PAIRS), code, (code, ""))
    for verb in done.SENTENCES:
        said = cast("dict[str, Any]", done.SENTENCES)
        monkeypatch.setitem(said, verb, lambda *_, verb=verb: f"done_{verb}")


def test_every_table_is_found() -> None:
    """U6: also one that a module has for itself."""
    found = [id(each) for each in find_tables()]
    for table in (words.SHORT, words.LONG, words.DOES, repair.REFUSALS, seal.FLAWS):
        assert id(table) in found
    assert {flaw: flaw for flaw in seal.FLAWS} == seal.FLAWS


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
