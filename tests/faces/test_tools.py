"""`duly tools`: what scripts of this project may call; and `duly try`, which calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faces.real import call, make_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("tools") / "project")


def test_every_tool_is_listed_with_kind_and_risk(project: Path) -> None:
    """A1: the list fits 80 columns, and no store is made for it."""
    listed = call(project, "tools")
    assert listed.exit_code == 0
    assert "outbox.write   mutation    medium" in listed.stdout
    assert max(map(len, listed.stdout.splitlines())) <= 80
    assert not (project / "duly.db").exists()


def test_one_tool_is_explained_in_both_languages(project: Path) -> None:
    """A1: signature, capability, risk, and what happens when its outcome is unclear."""
    told = call(project, "tools", "outbox.write").stdout
    assert "await ctx.outbox.write(path: str, text: str)" in told
    assert "await ctx.outbox.write({ path, text })" in told
    assert "capability:  outbox.write" in told
    assert "the outside is asked whether it happened" in told
    assert "inbox" not in told
    assert call(project, "tools", "inbox").stdout.count("capability:") == 5


def test_an_unknown_tool_is_refused_with_the_nearest_name(project: Path) -> None:
    """A1: one sentence, status 1."""
    refused = call(project, "tools", "outbox.wite")
    assert refused.exit_code == 1
    assert "There is no tool outbox.wite." in refused.stderr
    assert "outbox.write" in refused.stderr


def test_json_has_every_field_and_the_words_of_the_author(project: Path) -> None:
    """A1: what the verb answers, and the doc."""
    tools = json.loads(call(project, "tools", "outbox.write", "--json").stdout)
    assert [each["name"] for each in tools] == ["outbox.write"]
    assert tools[0]["doc"].startswith("Write a whole file, in place of what was there.")
    assert tools[0]["risk"] == "medium"
    assert tools[0]["reconciles"] is True


def test_types_for_an_editor_are_printed(project: Path) -> None:
    """A1: Python and JavaScript, in their own spelling."""
    python = call(project, "tools", "--stubs", "python").stdout
    assert "def write(self, path: str, text: str) -> Awaitable[DulyOutboxWrite]: ..." in python
    assert "class DulyOutboxWrite(TypedDict):\n    path: str\n    bytes: int\n" in python
    javascript = call(project, "tools", "--stubs", "javascript").stdout
    answer = "Promise<{ path: string; bytes: number }>"
    assert f"write(args: {{ path: string; text: string }}): {answer};" in javascript
    assert "answers:     { path: string; bytes: number }" in call(project, "tools", "outbox").stdout
    assert "declare const Keep" in javascript


def test_a_project_without_connectors_is_told_how_to_get_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A1: a clock is always there; a name that is none is told in one sentence."""
    (tmp_path / "duly.toml").write_text('[connectors.disk]\nuse = "nowhere:Disk"\n')
    refused = call(tmp_path, "tools")
    assert refused.exit_code == 1
    assert "[connectors.disk]: The module nowhere cannot be imported" in refused.stderr


def test_a_trial_shows_what_would_happen_and_does_none_of_it(project: Path) -> None:
    """L11: claimed and observed apart; nothing is written outside."""
    path = str(project / "workflows" / "welcome.py")
    tried = call(project, "try", path, "--grant")
    assert tried.exit_code == 0, tried.output
    assert 'claimed:   the script calls it "Write a letter to Ada"' in tried.stdout
    assert 'observed:  outbox.write {"path":"ada.txt","text":"Welcome, Ada!\\n"}' in tried.stdout
    assert "Not tried further: the result of this call is unknown" in tried.stdout
    assert "--result outbox.write JSON)" in " ".join(tried.stdout.split())
    assert list((project / "outbox").glob("*.txt")) == []
    given = ("--event", "note.found", '{"path": "nobody.txt"}', "--result", "outbox.write", "{}")
    tried = call(project, "try", path, "--grant", *given, "--json")
    assert tried.exit_code == 0, tried.output
    trial = json.loads(tried.stdout)
    assert [each["claimed"] for each in trial["changes"]] == [
        "Write a letter to stranger",
        "Write a letter to Ada",
    ]
    assert [each["topic"] for each in trial["published"]].count("letter.written") == 2


def test_a_trial_without_its_grants_says_what_is_missing(project: Path) -> None:
    """A2: no read is made that nobody granted."""
    tried = call(project, "try", str(project / "workflows" / "welcome.py"))
    assert tried.exit_code == 1
    assert "Not granted yet: inbox.read" in tried.stderr


def test_an_event_that_is_no_json_is_wrong_use(project: Path) -> None:
    """T8: status 2, and which option."""
    path = str(project / "workflows" / "welcome.py")
    refused = call(project, "try", path, "--event", "note.found", "{")
    assert refused.exit_code == 2
    assert "--event note.found" in refused.stderr
