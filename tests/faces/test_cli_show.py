"""What is shown fits the terminal and cannot take it over."""

from __future__ import annotations

import json
import os
import re
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from duly.api.registry import VERBS
from duly.api.session import RunningHost
from duly.api.wire import name_user
from duly.desk.proof import Unseen
from duly.faces.cli import base, duly
from duly.faces.cli.call import offers, side_by_side
from duly.faces.cli.layout import LAYOUTS
from duly.faces.cli.look import LINES_MAX
from duly.faces.cli.show import kind_of, shown
from duly.faces.cli.table import command_of
from duly.faces.cli.view import View
from duly.rules.seal import Flaw, Part
from duly.rules.value import Json
from duly.words.done import NOTHING, SENTENCES
from duly.words.seal import FLAWS, PARTS, UNSEEN
from tests.faces import cli_stand
from tests.faces.cli_stand import Facts, answer, call
from tests.rules.test_shown import HIDDEN

# What a title, an id or an answer of a stranger may hold: colours, a line turned around, wide
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
    "grants": ("asks",),
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
    """Put something hostile before every text that a stranger could have written."""
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
    for is_full in (False, True):
        shown(verb, poisoned(told), {}, View(is_full))
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


def test_every_layout_is_of_a_type_that_a_verb_returns() -> None:
    """U6: the type of a result chooses how it looks; a row that no verb has is deleted."""
    kinds = {kind_of(name) for name in VERBS}
    assert LAYOUTS.keys() <= kinds
    acts = {name for name, each in VERBS.items() if not each.is_question}
    # Several answers are a table.
    assert acts - SENTENCES.keys() == {"approve_all"}
    assert SENTENCES.keys() | NOTHING.keys() <= VERBS.keys()


def test_an_answer_without_a_shape_is_shown_by_its_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """U6: a verb that was added yesterday is not left out."""
    shown("added_yesterday", [{"held_by": "x", "count": 3, "none": None}], {})
    assert capsys.readouterr().out == "held by  count  none\nx        3      –\n"
    shown("added_yesterday", {"held_by": "x", "count": 3}, {})
    assert capsys.readouterr().out == "held by  x\ncount    3\n"
    shown("added_yesterday", [], {})
    assert capsys.readouterr().out == "Nothing.\n"


def test_status_is_one_line_for_each_workflow_what_needs_a_person_first(
    past: tuple[Path, Facts],
) -> None:
    """U1: one headline, one line each, what to type; standing, reason and what waits."""
    text = call(past[0], "status").stdout
    check_lines(text)
    head, rest = text.split("\nneeds attention  asks ", 1)
    assert head.replace("\n", " ") == (
        "No host is running: nothing moves until `duly serve` (or `duly drain`, once). "
        "4 things wait for you: `duly attention`."
    )
    lines = f"needs attention  asks {rest}".splitlines()
    assert [line.split()[:3] for line in lines[:3]] == [
        ["needs", "attention", name] for name in ("asks", "fails", "lost")
    ]
    assert lines[3].split() == ["idle", "checks", "Nothing", "to", "do", "right", "now"]
    assert lines[4].split() == ["idle", "rests", "1", "input", "pending"]
    assert lines[5:] == ["`duly status --full` shows all; `duly why NAME` explains one."]
    full = call(past[0], "status", "--full").stdout
    check_lines(full)
    assert "\nasks 1.0: needs attention\n" in full
    assert "  Checks every hour.\n" in full
    assert "  Nothing processed lately. 1 input pending.\n" in full


def test_status_promises_nothing_where_nobody_works(tmp_path: Path) -> None:
    """U1: a host that is open but does not serve moves nothing either."""
    folder = cli_stand.make(tmp_path / "a")
    assert call(folder, "deploy", str(folder / "workflows" / "checks.js")).exit_code == 0
    with cli_stand.running(folder):
        texts = [call(folder, "status").stdout]
    texts.append(call(folder, "status").stdout)
    for text, head in zip(texts, ("A host is open (process", "No host is running"), strict=True):
        assert text.startswith(head)
        assert "  Something is due, and waits for a host\n" in text
        assert "Next check" not in text
        assert "in a moment" not in text


@pytest.mark.parametrize(("width", "lines"), [(71, 1), (70, 2)])
def test_what_comes_of_a_command_stands_beside_it_or_below(
    width: int, lines: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6, L11: as a comment, so that what is pasted does the same."""
    monkeypatch.setattr(base, "COLUMNS", width)
    args = {"workflow": "a", "topic": "b", "message_id": "c"}
    offer = {"verb": "skip", "args": args, "asks": [], "text": "x" * 44 + "\x9b"}
    offers([offer], View(), indent=4)
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
    """U1: no event waits, but a run does."""
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
    nothing: dict[str, Any] = {"host": None, "hosts": [], "workflows": [], "attention": []}
    assert answer(folder, "status") == nothing


def test_inputs_and_outputs_are_one_line_each_in_columns(past: tuple[Path, Facts]) -> None:
    """U2, L11: what was observed and what is claimed, each under its name; all with --full."""
    head, line = call(past[0], "inputs", "asks").stdout.splitlines()
    assert head.split() == ["status", "input", "observed", "claimed"]
    assert line.startswith("pending  Note 1 for asks ")
    assert line[head.index("observed") :].startswith("waiting: sheet.append")
    assert line[head.index("claimed") :].startswith("“Add a row")
    head, line = call(past[0], "outputs", "asks").stdout.splitlines()
    assert head.split() == ["id", "status", "observed", "claimed", "because", "of"]
    (entry,) = answer(past[0], "outputs", "asks")
    assert entry["id"].startswith(f"mutation_{line.split()[0]}")
    full = call(past[0], "inputs", "asks", "--full").stdout
    assert full.startswith("pending: Note 1 for asks\n  20")
    columns = [each.split() for each in full.splitlines()[2:4]]
    assert columns[0] == ["became", "observed", "claimed"]
    assert columns[1][:3] == ["waiting", 'sheet.append(text="Note', "“Add"]
    full = call(past[0], "outputs", "asks", "--full").stdout
    assert full.startswith("waiting  mutation_")
    assert "    ← Note 1 for asks\n" in full


def test_why_without_an_id_tells_of_everything_that_waits(past: tuple[Path, Facts]) -> None:
    """U7: and of one thing if one is named."""
    folder, facts = past
    told = answer(folder, "why")
    assert [each["workflow"] for each in told] == ["asks", "fails", "lost"]
    text = call(folder, "why").stdout
    assert [line for line in text.splitlines() if line in ("asks", "fails", "lost")] != []
    (typed,) = re.findall(r"^    duly approve (\S+)", text, re.MULTILINE)
    assert facts.proposed.startswith(f"mutation_{typed}")
    assert 8 <= len(typed) < 27
    one = call(folder, "why", "checks").stdout
    assert one.startswith("Nothing is pending; the next check comes in ")


def test_grants_say_whether_a_person_is_asked(past: tuple[Path, Facts]) -> None:
    """A3: of each change that a grant allows, below the grant."""
    (change,) = [each for each in answer(past[0], "grants", "asks") if each["asks"]]
    said = call(past[0], "grants", "asks").stdout
    for each in change["asks"]:
        assert f"\n  {each['tool']}: asks you each time (" in said
    assert "{" not in said


def test_times_name_their_zone_behind_them_or_in_the_head(past: tuple[Path, Facts]) -> None:
    """U1: the zone is the project's, as in every sentence; JSON has UTC."""
    view = View(zone="Asia/Tokyo")
    assert view.at("2026-01-01T00:00:00.000Z") == "2026-01-01 09:00:00 JST"
    assert view.cell("2026-01-01T00:00:00.000Z") == "2026-01-01 09:00:00"
    assert (view.at(None), view.head("made")) == ("", "made (Asia/Tokyo)")
    assert "  made (UTC)  " in call(past[0], "versions", "rests").stdout
    assert re.search(r"  since [0-9-]+ [0-9:]+ UTC\n", call(past[0], "attention").stdout)


def test_a_screen_holds_twenty_workflows_and_when_a_script_wakes_up(
    past: tuple[Path, Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """U1: at most 24 lines of 80 columns; of more than twenty the rest is counted."""
    host = RunningHost(7, "1", "x", datetime(2026, 5, 1, 9, tzinfo=UTC), True)
    each = {**answer(past[0], "workflow", "checks"), "wakes_at": "2026-05-01T09:12:00Z"}
    waits = answer(past[0], "workflow", "asks")
    for count, lines in ((20, 22), (33, 22)):
        many = [{**each, "name": f"flow {number:02}" + "x" * 40} for number in range(count - 1)]

        async def look(face: base.Face, many: Any = many) -> Any:
            return host, [*many, waits], [], []

        monkeypatch.setattr("duly.faces.cli.look._look", look)
        told = call(past[0], "status").stdout.splitlines()
        check_lines("\n".join(told))
        assert len(told) == lines
        assert told[0].startswith("Nothing waits for you. The host runs since 1 May 09:00 UTC (p")
        assert told[1].startswith("needs attention  asks ")
        assert "…  wakes 1 May 09:12 UTC" in told[2]
        assert told[-1].startswith(f"{count - LINES_MAX} more: " if count > 20 else "`duly status")


def test_three_things_to_do_are_written_down_and_five_with_full(past: tuple[Path, Facts]) -> None:
    """U6: the most useful first."""
    folder = past[0]
    for name in ("fails", "lost"):
        offered = answer(folder, "why", name)["offers"]
        assert len(offered) > 3
        for words, most in (((), 3), (("--full",), 5)):
            text = call(folder, "why", name, *words).stdout
            typed = re.findall(r"^    duly ([a-z-]+)", text, re.MULTILINE)
            assert typed == [each["verb"].replace("_", "-") for each in offered][:most]


def test_a_command_takes_what_is_shown_of_an_id(past: tuple[Path, Facts]) -> None:
    """U6: with its kind and without; of several nothing is chosen."""
    folder, facts = past
    short = answer(folder, "short-ids", json.dumps([facts.unknown, facts.failed_run]))
    for whole, shown_id in short.items():
        kind, digits = shown_id.split("_")
        for typed in (whole, shown_id, digits):
            assert answer(folder, kind, typed)["id"] == whole
    refused = call(folder, "run", facts.failed_run[4:8])
    assert (refused.exit_code, short[facts.failed_run] in refused.stderr) == (1, True)
    assert f"Next: `duly ids {facts.failed_run[4:8]}`." in refused.stderr
    problem = json.loads(call(folder, "run", facts.failed_run[4:8], "--json").stderr)["error"]
    assert problem["code"] == "ambiguous_id"
    assert short[facts.failed_run] in problem["facts"]["candidates"]


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


def test_no_name_of_a_column_acts_on_the_terminal(tmp_path: Path) -> None:
    """G9, L11: the names above a table are made visible like the rows below them."""
    told = call(cli_stand.make(tmp_path / "p"), "sql", "select 1 as '\x1b]0;title\x07'")
    assert told.exit_code == 0
    assert "\x1b" not in told.output


def test_a_row_that_was_changed_is_named_first_of_all(
    past: tuple[Path, Facts], tmp_path: Path
) -> None:
    """L15: by `verify` and by its certificate; both fail, and say what they cannot see."""
    folder = cli_stand.copy(past[0], tmp_path / "project")
    mutation = past[1].proposed
    whole = call(folder, "certificate", mutation)
    assert whole.exit_code == 0
    assert whole.stdout.startswith("The seals fit. ")
    with closing(apsw.Connection(str(folder / "duly.db"))) as connection:
        connection.execute("update mutation set key = 'x' where id = ?", (mutation,))
    told = call(folder, "verify")
    assert told.exit_code == 1
    assert f"{mutation}: it was changed in the store" in " ".join(told.stdout.split())
    assert "Not seen by this check: whole rows that were removed" in told.stdout
    told = call(folder, "certificate", mutation)
    assert told.exit_code == 1
    assert told.stdout.startswith("This is no proof: ")
    assert mutation in told.stdout.splitlines()[1]
    assert call(folder, "certificate", mutation, "--json").exit_code == 1


def test_all_that_a_check_names_has_words() -> None:
    """L15: every part that can differ, and everything that no check can see."""
    assert PARTS.keys() == set(Part)
    assert UNSEEN.keys() == set(Unseen)
    assert FLAWS.keys() == set(Flaw)
