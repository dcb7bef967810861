"""`duly deploy`: strict, once, and each file by itself; `duly drain` says what it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from duly.errors import StoreUnavailable
from duly.faces.cli.deploy import Drained
from duly.host import Host
from tests.faces.cli_stand import SOURCES, answer, call, make
from tests.faces.stand import replace_verb

# A tool nobody offers: loading does not mind, the first event would.
MISSPELT = SOURCES["checks"].replace("sheet.find", "sheet.fnd")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path / "project")


def deploy(folder: Path, *options: str) -> tuple[int, Any, str]:
    result = call(folder, "deploy", str(folder / "workflows" / "checks.js"), *options, "--json")
    return result.exit_code, json.loads(result.stdout)[0], result.stderr


def test_a_warning_refuses_unless_somebody_is_lenient(folder: Path) -> None:
    """W5: what is wrong is shown with its severity, and the good version goes on."""
    path = folder / "workflows" / "checks.js"
    assert deploy(folder)[0] == 0
    path.write_text(MISSPELT)
    refused = call(folder, "deploy", str(path))
    assert (refused.exit_code, refused.stdout) == (1, "")
    first, last = refused.stderr.splitlines()
    assert first.startswith(f"{path}:8:")
    assert " warning: unknown-tool: " in first
    assert last == f"{path}: It was refused. Nothing was stored; `--lenient` lets warnings pass."
    assert answer(folder, "workflow", "checks")["version"] == "1.0"
    assert call(folder, "deploy", str(path), "--strict").exit_code == 1
    assert call(folder, "deploy", str(path), "--strict", "--lenient").exit_code == 2
    code, made, _ = deploy(folder, "--lenient")
    assert (code, made["deployed"]["version"], len(made["findings"])) == (0, "2.0", 1)


def test_another_name_needs_a_word_of_consent(folder: Path) -> None:
    """W9: a file that names its workflow otherwise does everything again only with --replay."""
    path = folder / "workflows" / "checks.js"
    assert deploy(folder)[0] == 0
    renamed = SOURCES["checks"].replace('"checks"', '"checks-2"', 1)
    assert renamed != SOURCES["checks"]
    path.write_text(renamed)
    for option in ((), ("--lenient",)):
        refused = call(folder, "deploy", str(path), *option)
        assert (refused.exit_code, refused.stdout) == (1, "")
        first, last = refused.stderr.splitlines()
        assert " renamed-workflow: This file declared “checks”, which is active; " in first
        assert last.endswith("Nothing was stored; `--replay` lets it do things again.")
    code, made, _ = deploy(folder, "--replay")
    assert (code, made["deployed"]["workflow"], len(made["findings"])) == (0, "checks-2", 1)
    assert answer(folder, "workflow", "checks")["version"] == "1.0"


def test_a_text_that_is_active_already_makes_no_version(folder: Path) -> None:
    """W8, A2: it is said, and `--grant` allows what is missing."""
    assert deploy(folder)[1]["deployed"]["new"] is True
    code, made, _ = deploy(folder)
    assert code == 0
    assert made["deployed"] == {
        "workflow": "checks",
        "version": "1.0",
        "missing": ["sheet.read"],
        "new": False,
        "changes": [],
    }
    told = call(folder, "deploy", str(folder / "workflows" / "checks.js"), "--grant")
    assert told.stdout == "“checks” is active already, as version 1.0.\n"
    assert deploy(folder)[1]["deployed"]["missing"] == []
    assert [each["verb"] for each in answer(folder, "actions", "checks")] == ["grant", "deploy"]


def test_draining_says_in_one_sentence_what_it_did() -> None:
    """U1: from counts; the number of a thing decides its words."""
    assert str(Drained(0, 0, 0)) == "No runs were committed; nothing waits for you."
    assert str(Drained(1, 1, 1)) == (
        "1 run was committed, 1 with a change outside; 1 thing waits for you (`duly attention`)."
    )
    assert str(Drained(3, 0, 2)).endswith("committed; 2 things wait for you (`duly attention`).")


def test_draining_counts_only_what_was_done_now(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U1: also over several pages of the journal."""
    monkeypatch.setattr("duly.faces.cli.deploy.PAGE", 1)
    for name in ("checks", "rests", "asks"):
        path = str(folder / "workflows" / f"{name}.js")
        assert call(folder, "deploy", path, "--grant", "--lenient").exit_code == 0
    assert call(folder, "drain").stdout.startswith("3 runs were committed; nothing waits for you.")
    assert call(folder, "publish", "asks", "in", "--title", "Note 1").exit_code == 0
    assert call(folder, "drain").stdout.startswith("No runs were committed; 1 thing waits for you")
    (mutation,) = answer(folder, "mutations")
    assert call(folder, "approve", mutation["id"], "--yes").exit_code == 0
    said = call(folder, "drain").stdout.replace("\n", " ")
    assert "with a change outside; nothing waits for you." in said


@pytest.mark.parametrize("is_stopped", [False, True])
def test_files_that_were_deployed_are_told_though_a_later_one_failed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    """U6: also by Ctrl-C; what is done must not look undone."""
    calls: list[object] = []
    deploying = Host.deploy

    async def failing(host: Host, source: Any, **how: Any) -> Any:
        calls.append(source)
        if len(calls) % 2 == 0:
            if is_stopped:
                raise KeyboardInterrupt
            raise StoreUnavailable(code="host_gone", facts={"process": 1})
        return await deploying(host, source, **how)

    replace_verb(monkeypatch, "deploy", failing)
    paths = [str(folder / f"{name}.js") for name in ("one", "two", "three")]
    for path in paths:
        Path(path).write_text(SOURCES["rests"].replace('"rests"', f'"{Path(path).stem}"'))
    told = call(folder, "deploy", "--lenient", *paths)
    assert told.exit_code == (130 if is_stopped else 1)
    assert "“one” is at version 1.0." in told.stdout
    assert f"It ended at {paths[1]}; not tried: {paths[2]}." in told.stderr
    if is_stopped:
        assert "Whether deploy was done is not known" in told.stderr
        return
    assert "The host (process 1) stopped listening" in told.stderr
    told = call(folder, "deploy", "--lenient", "--json", *paths)
    one, two = json.loads(told.stdout)
    assert (one["deployed"]["workflow"], two["deployed"]) == ("one", None)
    assert two["error"].startswith("The host (process 1) stopped listening")
