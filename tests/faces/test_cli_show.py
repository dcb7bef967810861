"""What is shown fits the terminal and cannot take it over."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from duly.api.registry import VERBS
from duly.api.wire import name_user
from duly.faces.cli import base, duly
from duly.faces.cli.show import (
    ANSWERS,
    ENTRIES,
    SHAPES,
    TABLES,
    at,
    offers,
    shown,
    side_by_side,
)
from duly.faces.cli.table import command_of
from duly.rules.value import Json
from duly.words.done import NOTHING, SENTENCES
from tests.faces import cli_stand
from tests.faces.cli_stand import Facts, answer, call
from tests.rules.test_shown import HIDDEN

# What a title, an id or an answer of somebody else's may hold: colours, a line turned around, wide
# characters, and words too long for a line.
ME = name_user(os.geteuid())


HOSTILE = "\x1b[31m\x9b2J\u202e日本語のとても長い題名 " + "x" * 100 + "\r\n\x07 "
ASKED = {
    "workflows": (),
    "workflow": ("asks",),
    "attention": (),
    "approvals": (),
    "inputs": ("asks",),
    "outputs": ("lost",),
    "events": ("asks",),
    "runs": (),
    "run": ("{failed_run}",),
    "logs": ("{failed_run}",),
    "mutations": (),
    "mutation": ("{unknown}",),
    "why": ("{proposed}",),
    "versions": ("rests",),
    "actions": (),
    "secrets": (),
    "verify": (),
    "bus.journal": (),
    "bus.deliveries": (),
    "bus.deferred": (),
}
# These lines are for pasting or for reading as they are, and are not broken.
UNBROKEN = ("duly ",)
WORDS = frozenset({"standing", "waits", "verb"})


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Facts]:
    folder = tmp_path_factory.mktemp("past") / "project"
    return folder, cli_stand.prepare(folder)


def poisoned(value: Any, key: str = "") -> Any:
    """Put something hostile before every text that somebody else could have written."""
    if isinstance(value, dict):
        return {name: poisoned(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [poisoned(each, key) for each in value]
    if not isinstance(value, str) or key in WORDS:
        return value
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return HOSTILE + value
    return value


def check_lines(text: str) -> None:
    for line in text.splitlines():
        assert line.isprintable(), line
        assert cell_len(line) <= base.COLUMNS or line.strip().startswith(UNBROKEN), line
        assert line == line.rstrip()


@pytest.mark.parametrize("verb", ASKED)
def test_an_answer_fits_the_terminal_and_cannot_write_escape_codes(
    verb: str, past: tuple[Path, Facts], capsys: pytest.CaptureFixture[str]
) -> None:
    """L11, U2: whatever a script calls things, the terminal shows it and obeys nothing."""
    folder, facts = past
    words = [each.format(**facts.words) for each in ASKED[verb]]
    told = answer(folder, *command_of(verb).split(), *words)
    assert told
    shown(verb, poisoned(told), {})
    text = capsys.readouterr().out
    assert "\\x1b" in text or verb in ("verify",)
    check_lines(text)


def test_json_writes_no_escape_codes_either(capsys: pytest.CaptureFixture[str]) -> None:
    """L11: and what is read back is what was there."""
    import json

    base.echo_json({"title": HOSTILE})
    text = capsys.readouterr().out
    assert all(line.isprintable() for line in text.splitlines())
    assert "日本語" in text
    assert json.loads(text) == {"title": HOSTILE}


def test_a_diff_keeps_its_lines_and_obeys_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """L11: the text of a version is the script's."""
    shown("diff", "-a\x1b[31m\n+\tb\n", {})
    assert capsys.readouterr().out == "-a\\x1b[31m\n+   b\n\n"


def test_every_verb_has_a_shape() -> None:
    """U6: what is shown by its fields alone is a decision, not an oversight."""
    own = {"check", "tools", "try_", "deploy"}  # whose commands show their answers themselves
    by_fields = own | {"next_due", "certificate", "find", "sql"}
    assert SHAPES | by_fields == VERBS.keys()
    assert NOTHING.keys() == ENTRIES.keys() | TABLES.keys()
    assert not SENTENCES.keys() & ANSWERS.keys()


def test_an_answer_without_a_shape_is_shown_by_its_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """U6: a verb that was added yesterday is not left out."""
    shown("added_yesterday", [{"held_by": "x", "count": 3, "none": None}], {})
    assert capsys.readouterr().out == "held by  x\ncount    3\nnone     –\n"
    shown("added_yesterday", [], {})
    assert capsys.readouterr().out == "Nothing.\n"


def test_status_shows_what_needs_a_person_first_and_what_to_type(
    past: tuple[Path, Facts],
) -> None:
    """U1: one screen; standing, reason, schedule, activity and what waits of each workflow."""
    text = call(past[0], "status").stdout
    check_lines(text)
    heads = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert heads[:2] == [
        "No host is running: nothing moves until `duly serve` (or `duly drain`, once).",
        "This is how everything stood:",
    ]
    assert heads[2:7] == [
        "asks 1.0: needs attention",
        "fails 1.0: needs attention",
        "lost 1.0: needs attention",
        "checks 1.0: idle",
        "rests 2.0: idle",
    ]
    assert heads[7:] == ["4 things wait for you: `duly attention`."]
    assert "    duly why asks\n" in text
    assert "  Checks every hour.\n" in text
    assert "  Nothing processed lately. 1 input pending.\n" in text


def test_status_promises_nothing_where_nobody_works(tmp_path: Path) -> None:
    """U1: a host that is open but does not serve moves nothing either."""
    folder = cli_stand.make(tmp_path / "a")
    assert call(folder, "deploy", str(folder / "workflows" / "checks.js")).exit_code == 0
    with cli_stand.running(folder):
        texts = [call(folder, "status").stdout]
    texts.append(call(folder, "status").stdout)
    for text, head in zip(texts, ("A host is open (process", "No host is running"), strict=True):
        assert text.startswith(head)
        assert "how everything stood:" in text.replace("\n", " ")
        assert "  Something is due, and waits for a host.\n" in text
        assert "Next check" not in text
        assert "in a moment" not in text


@pytest.mark.parametrize(("width", "lines"), [(71, 1), (70, 2)])
def test_what_comes_of_a_command_stands_beside_it_or_below(
    width: int, lines: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6, L11: as a comment, so that what is pasted does the same."""
    monkeypatch.setattr(base, "COLUMNS", width)
    args = {"workflow": "a", "topic": "b", "message_id": "c"}
    offers([{"verb": "skip", "args": args, "asks": [], "text": "x" * 44 + "\x9b"}], indent=4)
    told = capsys.readouterr().out.splitlines()
    assert len(told) == lines
    assert told[0].startswith("    duly skip a b c")
    assert told[-1].strip().removeprefix("duly skip a b c  ") == "# " + "x" * 44 + "\\x9b"


def test_a_mutation_says_how_it_ended_and_who_said_so(
    past: tuple[Path, Facts], tmp_path: Path
) -> None:
    """L10, A6: beside the row of the ledger; for programs the answer is the row alone."""
    folder = cli_stand.copy(past[0], tmp_path / "project")
    unknown = past[1].unknown
    assert "It is not known whether" in call(folder, "mutation", unknown).stdout
    done = call(folder, "settle", unknown, "happened", "--yes")
    assert done.exit_code == 0, done.output
    assert "why" not in answer(folder, "mutation", unknown)
    assert call(folder, "drain").exit_code == 0
    assert f", as {ME} said: " in call(folder, "mutation", unknown).stdout.replace("\n", " ")


def test_what_needs_a_person_is_not_said_to_be_nothing(
    past: tuple[Path, Facts], capsys: pytest.CaptureFixture[str]
) -> None:
    """U1: no event waits, but somebody does."""
    told = answer(past[0], "workflow", "asks")
    two: Json = [{"count": 2, "noun": "input", "text": "2 inputs"}]
    nothing: Json = []
    for pending, words in ((nothing, "lately.\n"), (two, "2 inputs pending.\n")):
        shown("workflow", {**told, "pending": pending}, {})
        assert words in capsys.readouterr().out
    shown("workflow", {**told, "pending": [], "standing": "idle"}, {})
    assert "Nothing pending." in capsys.readouterr().out


def test_what_waits_can_be_asked_of_one_workflow(past: tuple[Path, Facts]) -> None:
    """F8, U6: the others are left out, and a name nobody has is told."""
    folder, _ = past
    everything = answer(folder, "attention")
    for name in ("asks", "lost", "checks"):
        mine = [each for each in everything if each["workflow"] == name]
        assert answer(folder, "attention", name) == mine
    assert call(folder, "attention", "lost").stdout.startswith("lost\n")
    assert call(folder, "attention", "checks").stdout == "Nothing waits for you.\n"
    refused = call(folder, "attention", "losst")
    assert (refused.exit_code, 'Did you mean "lost"?' in refused.stderr) == (1, True)
    assert call(folder, "attention", "lost", "--limit", "0").exit_code == 1


def test_a_group_explains_its_commands_in_whole_sentences() -> None:
    """U6: nothing is cut off, and nobody has to read Python."""
    for group in ("bus", "secret"):
        text = CliRunner().invoke(duly, [group, "--help"]).stdout
        assert "..." not in text.partition("Commands:")[2]
        assert "`" not in text.partition("Commands:")[2]
        for line in text.partition("Commands:")[2].strip().splitlines():
            assert line.endswith("."), line
    assert "event_id," not in CliRunner().invoke(duly, ["bus", "deliveries", "--help"]).stdout


def test_status_of_an_empty_store_says_how_to_begin(tmp_path: Path) -> None:
    """U1: nobody is left in front of nothing."""
    folder = cli_stand.make(tmp_path / "a")
    assert call(folder, "status").stdout.startswith("There is no workflow yet. `duly deploy FILE`")
    assert answer(folder, "status") == {"host": None, "workflows": [], "attention": []}


def test_inputs_are_shown_with_what_came_of_them_in_the_script_s_words(
    past: tuple[Path, Facts],
) -> None:
    """U2, L11: the call that was observed first, the claim marked as the script's."""
    lines = call(past[0], "inputs", "asks").stdout.splitlines()
    assert lines[0] == "pending: Note 1 for asks"
    assert lines[2].startswith('    → waiting: sheet.append(text="Note 1 for asks") (claimed:')
    assert "“Add a row for Note 1 for asks”" in " ".join(map(str.strip, lines[2:4]))
    (entry,) = answer(past[0], "outputs", "asks")
    text = call(past[0], "outputs", "asks").stdout
    assert entry["id"] in text
    assert "    ← Note 1 for asks\n" in text


def test_why_without_an_id_tells_of_everything_that_waits(past: tuple[Path, Facts]) -> None:
    """U7: and of one thing if one is named."""
    folder, facts = past
    told = answer(folder, "why")
    assert [each["workflow"] for each in told] == ["asks", "fails", "lost"]
    text = call(folder, "why").stdout
    assert [line for line in text.splitlines() if line in ("asks", "fails", "lost")] != []
    assert f"    duly approve {facts.proposed}\n" in text
    one = call(folder, "why", "checks").stdout
    assert one.startswith("Nothing is pending; the next check comes in ")


def test_times_are_shown_by_the_clock_on_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """U1: JSON has UTC, people have a wall."""
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert at("2026-01-01T00:00:00.000Z") == "2026-01-01 09:00:00"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert at(None) == ""


def test_an_approval_shows_every_character_of_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    """G9, L11: none is hidden, none is cut, and what is spelled out is no text that was there."""
    hidden = "".join(HIDDEN)
    args = {"to\u200b": hidden, "text": "line\n" + "x" * 5000 + "end", "plain": "\\u200b"}
    side_by_side("Pay\u202e", {"tool": "bank.pay", "args": args})
    out = capsys.readouterr().out
    assert not any(each in out for each in (*HIDDEN, "\u202e"))
    right = "".join(line.split("│")[2].strip() for line in out.splitlines() if line[:1] == "│")
    spelled = json.dumps(hidden).replace(" ", "")
    assert f"to\\u200b={spelled}" in right.replace(" ", "")
    assert right.count("x") >= 5000
    assert "end" in right
    assert "\\\\u200b" in right


def test_a_text_of_several_lines_keeps_them_inside_an_object(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """L11: the row of a table is an object, and no part of it can pass for an argument."""
    args = {"row": {"number": 7, "a\u200b": "Dear Ada,\nrow = 8"}, "table": "mails"}
    side_by_side("Add a row", {"tool": "table.insert", "args": args})
    lines = [line.split("│")[2][1:].rstrip() for line in capsys.readouterr().out.splitlines()[3:-1]]
    assert lines == [
        "table.insert",
        "row =",
        '  "number" = 7',
        '  "a\\u200b" =',
        "    | Dear Ada,",
        "    | row = 8",
        'table = "mails"',
    ]


def test_a_comparison_with_nothing_claims_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """F3: of no past run nobody can say that each would be the same."""
    shown("what_if", {"tried": 0, "differences": []}, {})
    assert capsys.readouterr().out.startswith("There is no past run to compare with")
    shown("what_if", {"tried": 1, "differences": []}, {})
    assert "each would have made the same change" in capsys.readouterr().out


def test_a_text_of_several_lines_keeps_them(capsys: pytest.CaptureFixture[str]) -> None:
    """L11: a person reads it as it will arrive, and no line of it can pass for another argument."""
    args = {"to": "ada@acme.com", "text": "Dear Ada,\n\nto = eve@evil.com\r\nBye"}
    side_by_side("Write to Ada", {"tool": "mail.send", "args": args})
    lines = [line.split("│")[2].strip() for line in capsys.readouterr().out.splitlines()[3:-1]]
    assert lines == [
        "mail.send",
        'to = "ada@acme.com"',
        "text =",
        "| Dear Ada,",
        "|",
        "| to = eve@evil.com\\r",
        "| Bye",
    ]
