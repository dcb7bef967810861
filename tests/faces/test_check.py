"""`duly check`: every finding with its place, by a linter's rules, without a host or a store."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pytest

from duly.api.check import REFUSES, Remark, remark_on
from duly.api.codec import to_json
from duly.faces.cli.check import show, sum_up
from duly.rules.declaration import Problem
from duly.words.finding import say_finding
from tests.faces.real import call, make_project

WARNED = """
from duly import workflow

flow = workflow("w", topics=["a"])


@flow.producer(every="5m")
async def poll(ctx, state):
    await ctx.publish("a", message_id="1", title="New note")
"""
BROKEN = "from duly import workflow\nflow = workflow('w', topics=['a'])\ndel flow\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("check") / "project")


def test_a_good_source_has_nothing_said_against_it(project: Path) -> None:
    """W5: status 0, one line of praise, and no store is made for it."""
    checked = call(project, "check", str(project / "workflows" / "welcome.py"))
    assert (checked.exit_code, checked.stdout) == (0, "")
    assert checked.stderr == "1 file checked: nothing to say against it.\n"
    assert not (project / "duly.db").exists()


def test_findings_name_file_line_column_rule_and_what_to_write(project: Path) -> None:
    """W5: several files, one line each that an editor understands; a warning fails, too."""
    warned, broken = project / "warned.py", project / "broken.py"
    warned.write_text(WARNED)
    broken.write_text(BROKEN)
    checked = call(project, "check", str(warned), str(broken))
    assert checked.exit_code == 1
    first, second = checked.stdout.splitlines()
    assert first.startswith(f"{warned}:9:50: warning: constant-title: ")
    assert second.startswith(f"{broken}:3:1: error: lacking: Scripts cannot use del. Use .pop(")
    assert checked.stderr == "2 files checked: 1 error and 1 warning.\n"
    assert call(project, "check", "--lenient", str(warned)).exit_code == 0
    assert call(project, "check", "--lenient", str(broken)).exit_code == 1


def test_the_same_is_told_as_json_and_from_standard_input(project: Path) -> None:
    """W5: every field of a finding; `-` needs a language."""
    checked = call(project, "check", "-", "--language", "python", "--json", given=WARNED)
    assert checked.exit_code == 1
    (remark,) = json.loads(checked.stdout)
    assert {key: remark[key] for key in ("file", "line", "column", "rule", "severity")} == {
        "file": "stdin",
        "line": 9,
        "column": 50,
        "rule": "constant-title",
        "severity": "warns",
    }
    refused = call(project, "check", "-", given=WARNED)
    assert refused.exit_code == 1
    assert "-: the end of the name does not say" in refused.stderr


def test_what_only_loading_proves_is_said_as_well(project: Path) -> None:
    """W5: a schedule that is none is no matter of syntax."""
    text = WARNED.replace("5m", "5 minutes").replace('"New note"', 'f"Note {state}"')
    checked = call(project, "check", "-", "--language", "python", given=text)
    assert checked.exit_code == 1
    assert "stdin:1:1: error: W5: producers.poll.schedule" in checked.stdout


SEVERAL = {
    "several.py": """\
import requests
from duly import workflow

flow = workflow("several", topics=["in"])


@flow.producer(every="5 minutes")
async def poll(ctx, state):
    await ctx.publish("out", message_id="1", title="The same for all", payload=state["x"])
    print(missing)
""",
    "several.js": """\
import { x } from "./x.js";
export default Keep.workflow({
  name: "several",
  topics: ["in"],
  producers: { poll: { schedule: { interval: "5 minutes" }, handler: async (ctx, state) => {
    await ctx.publish("out", { messageId: "1", title: "The same for all", payload: state.x });
  } } },
});
""",
}


@pytest.mark.parametrize("name", SEVERAL)
def test_what_prevents_loading_does_not_hide_the_rest(project: Path, name: str) -> None:
    """W5: an author hears everything at once, and not one thing for each attempt."""
    (project / name).write_text(SEVERAL[name])
    told = call(project, "check", "--json", str(project / name))
    assert told.exit_code == 1
    rules = {each["rule"] for each in json.loads(told.stdout)}
    wanted = {"lacking", "undeclared-topic", "constant-title", "no-state-yet"}
    assert wanted | ({"unknown-name"} if name.endswith("py") else set()) <= rules


def test_a_wrong_declaration_does_not_hide_the_rest(project: Path) -> None:
    """W5: what loading proves and what can be read off the text, together and once each."""
    name = "declared.py"
    (project / name).write_text(SEVERAL["several.py"].replace("import requests\n", ""))
    told = json.loads(call(project, "check", "--json", str(project / name)).stdout)
    assert [each["rule"] for each in told].count("W5") == 1
    assert any("interval" in each["sentence"] for each in told)
    assert {"undeclared-topic", "constant-title", "no-state-yet"} <= {e["rule"] for e in told}


def test_a_file_that_is_not_there_is_one_sentence(project: Path) -> None:
    """W5: what cannot be read is named, with what to do."""
    checked = call(project, "check", "nowhere.py")
    assert checked.exit_code == 1
    assert checked.stderr.startswith("nowhere.py cannot be read: No such file or directory.")


def test_a_file_of_the_greatest_length_is_read_and_one_more_byte_is_refused(
    project: Path,
) -> None:
    """N: source 256 KiB."""
    most = 256 * 1024
    for extra, words in ((0, "1 file checked: "), (1, f"is longer than {most} bytes")):
        (project / "long.py").write_text(WARNED + "#" * (most - len(WARNED) + extra))
        assert words in call(project, "check", str(project / "long.py")).stderr


def test_on_a_terminal_the_line_is_shown_with_a_caret(project: Path) -> None:
    """W5: the source line, and below it where in it."""
    (project / "warned.py").write_text(WARNED)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "duly", "check", "warned.py"]
    done = subprocess.run(command, cwd=project, stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)
    said = b""
    with suppress(OSError):
        while data := os.read(ours, 65536):
            said += data
    os.close(ours)
    assert done.returncode == 1
    lines = said.decode().replace("\r", "").splitlines()
    assert lines[1] == '        await ctx.publish("a", message_id="1", title="New note")'
    assert lines[2].index("^") - len(lines[2]) == -5  # what follows takes the colour away
    assert lines[2].replace("\x1b[33m", "").index("^") == 4 + 50 - 1


def test_a_problem_without_a_place_is_of_the_whole_file() -> None:
    """W5: a place is read off where there is one, and none is made up."""
    placed = Problem("W5", "a.py:3:7", "not_loaded", {"said": "It is wrong."}, 3, 7)
    assert remark_on(placed, "a.py") == Remark(
        "a.py", 3, 7, "W5", REFUSES, "It is wrong.", "Correct it and deploy again."
    )
    whole = Problem("W4", "topics", "empty")
    told = "a.py:1:1: error: W4: topics is empty. Put at least one entry in it."
    assert say_finding(asdict(remark_on(whole, "a.py"))) == told


def test_a_problem_that_deploy_raised_says_its_place_once() -> None:
    """W5: its line is a fact; the sentence is made without it."""
    placed = Problem("W5", "a.py:3:7", "not_loaded", {"said": "It is wrong."}, 3, 7)
    raised = {**cast("dict[str, Any]", to_json(placed)), "file": "flows/a.py"}
    told = "flows/a.py:3:7: error: W5: It is wrong. Correct it and deploy again."
    assert say_finding(raised) == told


def test_what_a_source_says_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """L11: an escape code in a finding is spelled out."""
    show([Remark("a.py", 1, 1, "syntax", REFUSES, "\x1b[31mred", "Mend it.")], {})
    assert capsys.readouterr().out == "a.py:1:1: error: syntax: \\x1b[31mred Mend it.\n"


def test_the_summary_counts() -> None:
    """W5: one line, whatever there was."""
    error = Remark("a.py", 1, 1, "syntax", REFUSES, "x", "y")
    assert sum_up([error, error], 1) == "1 file checked: 2 errors."
    assert sum_up([], 3) == "3 files checked: nothing to say against them."
