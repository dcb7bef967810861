"""Deciding, deploying, draining, secrets: what is shown before, asked, and said after."""

from __future__ import annotations

import json
import os
import pty
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from duly.api.wire import name_user
from duly.errors import RequestRefused
from duly.faces.cli import base, decide, deploy, secret, verb
from duly.faces.cli.view import View
from tests.faces import cli_stand
from tests.faces.cli_stand import Facts, answer, call, copy, running

ME = name_user(os.geteuid())


STILL = f"{base.STILL}\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Facts]:
    folder = tmp_path_factory.mktemp("past") / "project"
    return folder, cli_stand.prepare(folder)


@pytest.fixture
def past(made: tuple[Path, Facts], tmp_path: Path) -> tuple[Path, Facts]:
    return copy(made[0], tmp_path / "project"), made[1]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "is_terminal", lambda: True)
    monkeypatch.setattr(secret, "is_typed", lambda: True)


def status(folder: Path, mutation: str) -> Any:
    return answer(folder, "mutation", mutation)["status"]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("words", "became"),
    [
        (("approve", "{proposed}"), "in_flight"),
        (("approve-all", "{proposed}"), "in_flight"),
        (("allow", "{proposed}", "2", "8h"), "in_flight"),
        (("reject", "{proposed}"), "rejected"),
        (("settle", "{unknown}", "happened"), "applied"),
        (("settle", "{unknown}", "skip"), "skipped"),
    ],
)
def test_a_person_sees_claim_and_call_and_is_asked_before_anything_is_decided(
    past: tuple[Path, Facts], words: tuple[str, ...], became: str
) -> None:
    """L11, A4, L10: side by side first; a no leaves everything as it was."""
    folder, facts = past
    typed = [each.format(**facts.words) for each in words]
    before = status(folder, typed[1])
    refused = call(folder, *typed, given="n\n")
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (1, "Nothing was done.")
    head, *rest = refused.stdout.splitlines()
    assert head.endswith(f": {before}")
    sides = [line.split("│")[1:3] for line in rest if line.startswith("│")]
    assert "claimed by the script" in sides[0][0]
    assert "observed by the host" in sides[0][1]
    assert "“Add a row for Note 1 for" in sides[1][0]
    assert sides[1][1].strip().startswith("sheet.")
    assert 'text = "Note 1 for' in sides[2][1]
    assert status(folder, typed[1]) == before
    done = call(folder, *typed, given="y\n")
    assert (done.exit_code, done.stderr.endswith(STILL)) == (0, True)
    assert status(folder, typed[1]) == became


def test_all_that_wait_are_shown_and_approved_in_one_act(past: tuple[Path, Facts]) -> None:
    """A3, A4: no name and no hash is to be copied, and a second time there is nothing left."""
    folder, facts = past
    done = call(folder, "approve-all", "--yes")
    assert (done.exit_code, "observed by the host" in done.stdout) == (0, True)
    assert status(folder, facts.proposed) == "in_flight"
    assert call(folder, "approve-all", "--yes").stdout == "Nothing waits for a yes.\n"
    assert answer(folder, "approve-all", "--yes") == []


def test_an_allowance_lasts_as_long_as_is_said(past: tuple[Path, Facts]) -> None:
    """A3: a length of time or a moment; a length that no host takes is refused by the host."""
    folder, facts = past
    too_long = call(folder, "allow", facts.proposed, "2", "999999d", "--yes")
    assert (too_long.exit_code, "until must be" in too_long.stderr) == (1, True)
    wrong = call(folder, "allow", facts.proposed, "2", "8h", "--hash", "0" * 64, "--yes")
    assert (wrong.exit_code, status(folder, facts.proposed)) == (1, "proposed")
    before = datetime.now(UTC)
    typed = ("allow", facts.proposed, "2", "8h", "--where", '{"text": "*"}', "--yes")
    assert call(folder, *typed).exit_code == 0
    (allowance,) = answer(folder, "allowances")
    lasts = datetime.fromisoformat(allowance["until"]) - before
    assert timedelta(hours=7, minutes=59) < lasts < timedelta(hours=8, minutes=5)
    assert (allowance["calls"], allowance["where"]) == (2, {"text": "*"})


def test_without_a_terminal_nothing_is_decided_unless_it_is_said(
    past: tuple[Path, Facts],
) -> None:
    """A4: nobody's yes is made up, and a script can say --yes."""
    folder, facts = past
    refused = call(folder, "approve", facts.proposed)
    assert (refused.exit_code, "Add --yes." in refused.stderr) == (2, True)
    assert status(folder, facts.proposed) == "proposed"
    assert call(folder, "approve", facts.proposed, "--yes").exit_code == 0
    assert status(folder, facts.proposed) == "in_flight"


@pytest.mark.usefixtures("terminal")
def test_with_json_nobody_is_asked_about_what_they_did_not_see(past: tuple[Path, Facts]) -> None:
    """L11, A4: a program says --yes, and what it reads is JSON alone."""
    folder, facts = past
    refused = call(folder, "approve", facts.proposed, "--json", given="y\n")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert status(folder, facts.proposed) == "proposed"
    assert call(folder, "approve", facts.proposed, "--json", "--yes").stdout == "null\n"


def test_the_hash_that_was_shown_is_the_hash_that_is_sent(past: tuple[Path, Facts]) -> None:
    """A4: another one is refused, and the one a script kept is taken."""
    folder, facts = past
    wrong = call(folder, "approve", facts.proposed, "--hash", "0" * 64, "--yes")
    assert wrong.exit_code == 1
    assert status(folder, facts.proposed) == "proposed"
    (waiting,) = answer(folder, "approvals")
    right = call(folder, "approve", facts.proposed, "--hash", waiting["hash"], "--yes")
    assert right.exit_code == 0


def test_who_acts_is_the_user_and_nobody_else_can_be_named(past: tuple[Path, Facts]) -> None:
    """G5, A6: every act has a name, which no option and no variable changes."""
    folder, _ = past
    assert call(folder, "pause", "checks", "--by", "grace").exit_code == 2
    call(folder, "pause", "checks", LOGNAME="grace", USER="grace")
    call(folder, "resume", "checks")
    resumed, paused, *_ = answer(folder, "actions", "checks")
    assert (resumed["verb"], resumed["by"]) == ("resume", ME)
    assert (paused["verb"], paused["by"]) == ("pause", ME)


def test_with_a_running_host_nobody_is_told_to_start_one(past: tuple[Path, Facts]) -> None:
    """U6: the hint is for a person who needs it."""
    folder, _ = past
    with running(folder):
        assert call(folder, "run-now", "checks").stderr == ""
    assert call(folder, "run-now", "checks").stderr == STILL


def test_a_payload_comes_from_the_line_a_file_or_stdin(
    past: tuple[Path, Facts], tmp_path: Path
) -> None:
    """T8: the same JSON, whichever way it comes."""
    folder, _ = past
    (tmp_path / "payload.json").write_text('{"a": [1, null]}')
    for number, given in enumerate(('{"a": [1, null]}', f"@{tmp_path}/payload.json", "-")):
        words = ("publish", "rests", "in", "--title", "Note", "--message-id", f"x{number}")
        done = call(folder, *words, "--payload", given, given='{"a": [1, null]}')
        assert (done.exit_code, done.stdout) == (0, "Published.\n")
    events = answer(folder, "events", "rests")
    assert [each["payload"] for each in events[1:]] == [{"a": [1, None]}] * 3


def test_a_file_is_read_whole_or_refused(
    past: tuple[Path, Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """T8: at the limit it is taken, one past it is refused, and nothing is cut in silence."""
    folder, _ = past
    monkeypatch.setattr(verb, "FILE_BYTES_MAX", 10)
    path = folder / "payload.json"
    words = ("publish", "rests", "in", "--title", "Note", "--payload")
    path.write_text('"12345678"')
    assert call(folder, *words, f"@{path}").exit_code == 0
    path.write_text('"123456789"')
    for given in (f"@{path}", "-"):
        refused = call(folder, *words, given, given=path.read_text())
        assert refused.exit_code == 2
        assert "is longer than 10 bytes. Shorten it." in refused.stderr
    path.write_bytes(b'"\xff"')
    refused = call(folder, *words, f"@{path}")
    assert (refused.exit_code, "is not UTF-8" in refused.stderr) == (2, True)
    source = call(folder, "what-if", "asks", str(folder / "workflows" / "asks.js"))
    assert (source.exit_code, "is longer than 10 bytes" in source.stderr) == (2, True)


def test_a_check_that_finds_something_fails(
    past: tuple[Path, Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: a program reads it off the exit code."""
    folder, _ = past
    assert call(folder, "verify").exit_code == 0
    unsound = {"ok": False, "problems": ["event 1 has no content"]}
    monkeypatch.setattr(base.Face, "ask", lambda *_, **__: (unsound, View()))
    failed = call(folder, "verify")
    assert (failed.exit_code, failed.stdout) == (
        1,
        "The store is not sound:\n  event 1 has no content\n",
    )


# -- Deploying ----------------------------------------------------------------------------------


def test_deploy_without_a_name_takes_the_workflows_folder(tmp_path: Path) -> None:
    """W5: every source is deployed, and whatever nobody granted is offered."""
    folder = cli_stand.make(tmp_path / "a")
    done = call(folder, "deploy")
    assert (done.exit_code, done.stderr) == (0, STILL)
    assert done.stdout.startswith(
        "“asks” is at version 1.0.\n"
        "  sheet.append: cannot answer at all; where its key travels is not said\n"
        "  It waits at its first call that needs sheet.append. To allow that:\n"
        "    duly grant asks sheet.append\n"
    )
    assert len(answer(folder, "workflows")) == len(cli_stand.SOURCES)


def test_one_broken_file_is_shown_like_a_linter_and_the_others_are_deployed(
    tmp_path: Path,
) -> None:
    """W5: place, rule, sentence, what to write; exit 1, and nothing of it stored."""
    folder = cli_stand.make(tmp_path / "a")
    broken = folder / "workflows" / "broken.js"
    broken.write_text("export default Duly.workflow({\n  name: ,\n});\n")
    good = folder / "workflows" / "checks.js"
    done = call(folder, "deploy", str(broken), str(good), "--grant")
    assert done.exit_code == 1
    place, *_ = done.stderr.splitlines()
    assert place.startswith(f"{broken}:2:")
    assert ": error: syntax: " in place
    assert (
        f"{broken}: It was refused. Nothing was stored; see `duly check {broken}`." in done.stderr
    )
    assert done.stdout == "“checks” is at version 1.0.\n"
    told = json.loads(call(folder, "deploy", str(broken), "--json").stdout)
    assert [each["file"] for each in told[0]["findings"]] == [str(broken)]


def test_more_files_than_are_taken_at_once_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W5: at the limit all are deployed; past it none is, and nobody has to guess which."""
    folder = cli_stand.make(tmp_path / "a")
    monkeypatch.setattr(deploy, "FILES_MAX", len(cli_stand.SOURCES))
    assert call(folder, "deploy").exit_code == 0
    monkeypatch.setattr(deploy, "FILES_MAX", len(cli_stand.SOURCES) - 1)
    refused = call(folder, "deploy")
    assert (refused.exit_code, "at most 4 files are allowed" in refused.stderr) == (1, True)
    assert {each["version"] for each in answer(folder, "workflows")} == {"1.0"}


def test_drain_works_off_what_is_due_and_is_refused_where_a_host_runs(
    past: tuple[Path, Facts],
) -> None:
    """U6: once, and only where nobody else does it."""
    folder, facts = past
    call(folder, "reject", facts.proposed, "--yes")
    assert call(folder, "drain").exit_code == 0
    (entry,) = answer(folder, "inputs", "asks")
    assert entry["status"] == "skipped"
    with running(folder):
        refused = call(folder, "drain")
    assert refused.exit_code == 1
    assert (
        "and works by itself. Let it work, or stop it first. Next: `duly workflows`."
        in refused.stderr
    )


# -- Going on -----------------------------------------------------------------------------------


def test_everything_that_is_paused_goes_on_with_one_command(
    past: tuple[Path, Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F7: each is told by itself; one that is refused keeps no other from going on."""
    folder, _ = past
    monkeypatch.setattr(decide, "PAGE", 2)
    for name in ("asks", "checks", "rests"):
        assert call(folder, "pause", name).exit_code == 0
    real = base.Face.call

    def refuse(face: base.Face, verb: str, /, **args: Any) -> Any:
        if verb == "resume" and args["workflow"] == "checks":
            raise RequestRefused("“checks” was removed meanwhile.")
        return real(face, verb, **args)

    with monkeypatch.context() as patched:
        patched.setattr(base.Face, "call", refuse)
        some = call(folder, "resume", "--all")
    assert (some.exit_code, some.stdout) == (1, "“asks” goes on.\n“rests” goes on.\n")
    assert "“checks” was removed meanwhile." in some.stderr
    newest, *_ = answer(folder, "actions", "rests")
    assert (newest["verb"], newest["by"]) == ("resume", ME)
    rest = call(folder, "resume", "--all", "--json")
    assert (rest.exit_code, json.loads(rest.stdout)) == (0, ["checks"])
    assert call(folder, "resume", "--all").stdout == "No workflow is paused.\n"
    for words in (("resume",), ("resume", "asks", "--all")):
        assert call(folder, *words).exit_code == 2


# -- Secrets ------------------------------------------------------------------------------------


def test_a_secret_is_never_an_argument_and_never_shown(past: tuple[Path, Facts]) -> None:
    """A5: shells remember arguments, and everybody can list processes."""
    folder, _ = past
    refused = call(folder, "secret", "set", "sheet", "key", "s3cret")
    assert (refused.exit_code, "s3cret" in refused.output) == (2, False)
    done = call(folder, "secret", "set", "sheet", "key", given="s3cret\n")
    assert (done.exit_code, done.stdout) == (0, "The secret key of sheet is kept.\n")
    listed = call(folder, "secret", "list")
    assert ("key" in listed.stdout, "s3cret" in listed.stdout) == (True, False)
    assert call(folder, "secret", "drop", "sheet", "key").exit_code == 0


@pytest.mark.usefixtures("terminal")
def test_at_a_terminal_a_secret_is_typed_unseen(
    past: tuple[Path, Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5: nobody reads it off the screen."""
    asked: dict[str, Any] = {}

    def prompt(text: str, **settings: Any) -> str:
        asked.update(settings, text=text)
        return "s3cret"

    monkeypatch.setattr(click, "prompt", prompt)
    assert call(past[0], "secret", "set", "sheet", "key").exit_code == 0
    assert asked["hide_input"]
    assert asked["text"] == "The secret key of sheet"


def test_a_secret_is_typed_unseen_also_where_the_answer_goes_into_a_file(
    past: tuple[Path, Facts], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A5: `duly secret set … > file` showed every letter of it."""
    mine, theirs = pty.openpty()
    try:
        with open(theirs, closefd=False) as typed, (tmp_path / "said").open("w") as said:
            monkeypatch.setattr(sys, "stdin", typed)
            monkeypatch.setattr(sys, "stdout", said)
            assert (base.is_terminal(), base.is_typed()) == (False, True)
    finally:
        os.close(mine)
        os.close(theirs)


def test_a_question_is_cleaned_before_it_is_asked(
    past: tuple[Path, Facts], monkeypatch: pytest.MonkeyPatch, terminal: None
) -> None:
    """A5: an argument writes no escape codes either."""
    asked: list[str] = []

    def prompt(text: str, **_: Any) -> str:
        asked.append(text)
        return "s3cret"

    monkeypatch.setattr(click, "prompt", prompt)
    call(past[0], "secret", "set", "sheet", "\x1b[31mkey")
    assert asked == ["The secret \\x1b[31mkey of sheet"]
