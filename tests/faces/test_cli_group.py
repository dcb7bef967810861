"""The group: what it imports, what it says, and how it ends."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from duly import __version__
from duly.api.registry import VERBS
from duly.errors import DulyError, Invalid, NotFound, StoreUnavailable, see
from duly.faces.cli import base, commands, duly
from duly.faces.cli.failure import sentence
from duly.faces.cli.help import sections
from duly.faces.cli.spelling import spell
from duly.faces.cli.table import FIRST, ROWS
from duly.fact import Offer
from tests.faces.cli_stand import call, make


def program(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the real program."""
    return subprocess.run(
        [sys.executable, "-m", "duly", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **options,
    )


def test_help_lists_what_is_needed_first_and_where_the_rest_is() -> None:
    """U6: ten commands fit on any screen."""
    done = program("--help")
    assert done.returncode == 0
    for name in FIRST:
        assert f"  {name} " in done.stdout
        assert ROWS[name].short in done.stdout
    assert len(FIRST) == 10
    assert "`duly help all` lists every command" in done.stdout


def test_help_all_lists_every_command_in_its_section() -> None:
    """U6: what is not listed is not found."""
    done = program("help", "all")
    assert done.returncode == 0
    for section, found in sections().items():
        assert f"{section}:" in done.stdout
        for name, told in found.items():
            assert f"  {name} " in done.stdout
            assert told in " ".join(done.stdout.split())
            assert told.endswith(".")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_help_of_a_command_is_its_own_help() -> None:
    """U6: whichever way it is asked for."""
    for words in (["secret", "set"], ["runs"]):
        asked = CliRunner().invoke(duly, ["help", *words], prog_name="duly")
        own = CliRunner().invoke(duly, [*words, "--help"], prog_name="duly")
        assert (asked.exit_code, asked.stdout) == (0, own.stdout)
    wrong = CliRunner().invoke(duly, ["help", "secret", "sett"], prog_name="duly")
    assert (wrong.exit_code, wrong.stderr) == (
        2,
        "There is no command secret sett. See `duly --help`.\n",
    )


def test_the_version_is_the_package_s() -> None:
    """U6: what is told is what is installed."""
    assert program("--version").stdout == f"duly {__version__}\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("stauts", "status"), ("aprove", "approve"), ("run_now", "run-now")],
)
def test_a_misspelt_command_is_told_the_nearest_one(typed: str, meant: str) -> None:
    """U6: one sentence, and the name that was probably meant."""
    result = CliRunner().invoke(duly, [typed], prog_name="duly")
    assert result.exit_code == 2
    assert result.stderr == (
        f'There is no command "{typed}". Did you mean "{meant}"? See `duly --help`.\n'
    )


def test_a_misspelt_option_is_told_the_nearest_one() -> None:
    """U6: also inside a command."""
    result = CliRunner().invoke(duly, ["runs", "--limt", "3"], prog_name="duly")
    assert (result.exit_code, "'--limit'" in result.stderr) == (2, True)
    assert result.stderr.endswith("See `duly runs --help`.\n")


def test_ctrl_c_ends_with_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """U6: a shell sees that a person stopped it."""

    def stopped(work: Any) -> None:
        work.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "run", stopped)
    result = call(make(tmp_path / "a"), "workflows")
    assert result.exit_code == 130
    assert "Traceback" not in result.output


def test_ctrl_c_in_an_act_says_that_nobody_knows_whether_it_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: a host finishes what it began; a person who types it again would do it twice."""

    def stopped(work: Any) -> None:
        work.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "run", stopped)
    result = call(make(tmp_path / "a"), "bus", "emit", "tea.ready", "{}")
    assert result.exit_code == 130
    assert "Whether bus.emit was done is not known: look at `duly bus journal`" in result.stderr


def test_a_folder_that_is_gone_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """U6: a person who stands in it did nothing wrong with Duly."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    result = CliRunner().invoke(duly, ["workflows"])
    assert (result.exit_code, "The folder you are in is gone" in result.stderr) == (1, True)


def test_who_closed_a_stream_is_not_told_of_it(tmp_path: Path) -> None:
    """U6: a service may be started without any of the three."""
    line = f"{sys.executable} -m duly --project {make(tmp_path / 'a')} workflows <&- >&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_json_stays_true_where_the_terminal_knows_few_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """U6: a program reads what was there, and never a question mark for it."""
    raw = io.BytesIO()
    paper = io.TextIOWrapper(raw, encoding="ascii", errors="replace")
    monkeypatch.setattr(sys, "stdout", paper)
    base.echo_json({"title": "Tee für 日本"})
    paper.flush()
    assert json.loads(raw.getvalue()) == {"title": "Tee für 日本"}


def test_a_broken_pipe_is_quiet() -> None:
    """U6: `duly --help | head -1` is no error to tell."""
    line = f"{sys.executable} -m duly --help | true"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""


def test_what_nobody_expected_is_one_sentence_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: no traceback for a person who did not ask for one, and no detail lost."""

    def broken(*_: object, **__: object) -> None:
        raise KeyError("lamp")

    folder = make(tmp_path / "a")
    monkeypatch.setattr(base.Face, "ask", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = call(folder, "workflows")
    (kept,) = tmp_path.glob("duly-*.txt")
    assert result.exit_code == 1
    assert result.stderr == (
        "This is a fault of Duly or of a connector: KeyError: 'lamp'. "
        f"The details are in {kept}; please report them.\n"
    )
    assert "Traceback" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_details_that_cannot_be_kept_are_no_second_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: on a full disk, too, nobody is shown a traceback."""

    def broken(*_: object, **__: object) -> None:
        raise KeyError("lamp")

    monkeypatch.setattr(base.Face, "ask", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "away"))
    result = call(make(tmp_path / "a"), "workflows")
    assert result.exit_code == 1
    assert result.stderr.endswith("could not be written anywhere; `duly --debug` shows them.\n")


def test_debug_shows_where_an_error_came_from(tmp_path: Path) -> None:
    """U6: a person who asks for it gets the traceback, and the sentence last."""
    result = CliRunner().invoke(
        duly, ["--project", str(make(tmp_path / "a")), "--debug", "workflow", "x"], prog_name="duly"
    )
    assert result.exit_code == 1
    assert result.stderr.startswith("Traceback")
    assert result.stderr.splitlines()[-1].startswith('There is no workflow "x".')


def test_the_real_program_answers_and_fails_with_its_codes(tmp_path: Path) -> None:
    """U6: 0 done, 1 failed, 2 wrong use, and nothing on stdout that is no answer."""
    folder = make(tmp_path / "a")
    done = program("--project", str(folder), "workflows", "--json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    failed = program("--project", str(folder), "workflow", "x")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == ('There is no workflow "x". There are none. Next: `duly workflows`.\n')
    assert program("--project", str(folder), "workflow").returncode == 2


def test_under_json_an_error_is_one_object(tmp_path: Path) -> None:
    """U6: code, subject, facts, next and message, on stderr; nothing on stdout."""
    folder = make(tmp_path / "a")
    failed = program("--project", str(folder), "workflow", "x", "--json")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert json.loads(failed.stderr) == {
        "error": {
            "kind": "NotFound",
            "code": "no_workflow",
            "subject": "x",
            "facts": {"known": [], "count": 0},
            "next": {"verb": "workflows", "args": {}, "does": "see", "asks": []},
            "message": 'There is no workflow "x". There are none.',
        }
    }


def test_advice_is_found_by_code_and_never_by_words() -> None:
    """U6: an error of nobody's code is told as it is."""
    assert sentence(DulyError("There is no workflow"), {}) == "There is no workflow."
    error = Invalid(code="out_of_range", path="limit", facts={"least": 1, "most": 9})
    assert sentence(error, {}).endswith("from 1 to 9. The option is --limit.")
    assert sentence(StoreUnavailable("Gone"), {}) == "Gone. `duly doctor` looks at the disk."


@pytest.mark.parametrize(
    ("offer", "command"),
    [
        (see("workflows"), "duly workflows"),
        (see("what_if", "source", workflow="my flow"), "duly what-if 'my flow' FILE"),
        (see("bus.deliveries", status="dead"), "duly bus deliveries --status dead"),
        (see("why", id="-x"), "duly why -- -x"),
        (
            Offer("set_secret", {"connector": "a", "name": "b"}, "x", ("value",)),
            "duly secret set a b",
        ),
    ],
)
def test_an_offer_is_a_command_to_paste(offer: Offer, command: str) -> None:
    """U6: quoted; what the person chooses is left open, a secret is typed unseen."""
    assert spell(VERBS[offer.verb], offer.args, offer.asks) == command


def test_advice_names_what_was_given_and_leaves_open_what_was_not() -> None:
    """U6: a command to paste, quoted, or a word in capitals to fill in."""
    error = NotFound(code="no_event", subject="1", facts={"topic": "in"})
    assert sentence(error, {"workflow": "my flow", "topic": "in"}).endswith(
        "`duly events 'my flow' --topic in` lists them."
    )
    assert sentence(error, {}).endswith("`duly events WORKFLOW --topic in` lists them.")


def test_every_command_stands_in_one_section() -> None:
    """U6: the list that is shown is the list there is."""
    listed = [name for each in sections().values() for name in each]
    assert sorted(listed) == sorted(commands())
