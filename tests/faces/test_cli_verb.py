"""Every verb of a host is reachable from the command line, with a running host and without."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import click
import pytest

from duly.api.registry import VERBS
from duly.faces.cli import commands, load
from duly.faces.cli.spelling import spell
from duly.faces.cli.table import ROWS, command_of, row_of
from duly.faces.cli.verb import OPTIONS, _parameter
from tests.faces import cli_stand
from tests.faces.cli_stand import Facts, call, parse

# What each verb's command is given; names in braces are ids of the prepared store.
GIVEN: Final[Mapping[str, str]] = {
    "abandon": "{waiting_run}",
    "add_connection": 'files notes --settings {{"path":"notes"}}',
    "kinds": "",
    "restart": "",
    "settings": "",
    "actions": "asks --limit 5",
    "adopt": "9f86",
    "approvals": "",
    "approve": "{proposed} --yes",
    "attention": "--limit 10",
    "attention_count": "",
    "backup": "backup.db",
    "check": "workflows/asks.js",
    "connection": "sheet",
    "check_connection": "sheet",
    "connections": "",
    "deploy": "workflows/asks.js",
    "diff": "rests 1.0 2.0",
    "drop_secret": "sheet token",
    "events": "asks --status reserved",
    "extensions": "",
    "grant": 'asks sheet.append --mutations-per-day 3 --where {{"text":"Note*"}}',
    "guide": "--for llm --language python",
    "ids": "{unknown}",
    "inputs": "asks",
    "logs": "{failed_run}",
    "mutation": "{unknown}",
    "mutations": "--status proposed",
    "outputs": "lost",
    "pause": "checks",
    "proposal": "9f86",
    "proposals": "",
    "propose": "workflows/rests.js --note Why",
    "begin_oauth": "sheet",
    "finish_oauth": "sheet ticket --given x",
    "prove": "sheet.append",
    "offered": "sheet",
    "pin": "sheet 9f86",
    "publish": "rests in --title Note-2 --message-id 2 --payload [1,{{}}]",
    "reconnect": "sheet",
    "reject": "{proposed} --yes",
    "approve_all": "{proposed}={hash} --yes",
    "allow": "{proposed} 2 9d --hash {hash} --yes",
    "allowances": "asks",
    "models": "",
    "figures": "",
    "forget": "1 --workflow rests --yes",
    "forgettable": "1 --workflow rests",
    "export": "all.jsonl",
    "import_": "missing.jsonl",
    "questions": "asks",
    "certificate": "{proposed}",
    "find": "a --limit 3",
    "sql": "select/**/name/**/from/**/workflows",
    "amend": '{proposed} {hash} {{"text":"other"}}',
    "receive": "asks in {{}} --message-id 1 --signed-at 1 --signature v1,x",
    "revoke_allowance": "allowance_9",
    "revoke_token": "ci",
    "sign_in": "0123 phone",
    "sign_out": "duly_0_1",
    "tokens": "",
    "who": "duly_0_1",
    "admitted": '["duly_0_1"]',
    "channels": "",
    "pair": "phone Ada",
    "unpair": "phone Ada",
    "asked": "x4mW0c2o3bJQm1h4s7pLzA",
    "answer": "x4mW0c2o3bJQm1h4s7pLzA yes 3f9a",
    "remove": "checks --yes",
    "resume": "checks",
    "retry": "{failed_run}",
    "revoke": "asks sheet.append",
    "choose_asks": 'asks sheet.append {{"sheet.append":"always"}} {{"sheet.append":""}}',
    "rollback": "rests 1.0",
    "decline": "rests 1.0",
    "run": "{failed_run}",
    "run_now": "checks",
    "runs": "asks --handler file",
    "new_hook": "asks in",
    "new_link": "--scope read",
    "new_token": "ci --scope agent",
    "next_due": "",
    "preview": "workflows/checks.js --text-only",
    "write": "Greet",
    "grants": "asks",
    "right": "asks sheet.append",
    "uses": "rests 1.0",
    "upcoming": "checks --times 3",
    "history": "{failed_run}",
    "writes": "",
    "secrets": "",
    "hosts": "",
    "hooks": "asks",
    "source": "rests 1.0",
    "set_secret": "sheet other",
    "short_ids": '["{unknown}"]',
    "settle": '{unknown} happened --yes --result {{"row":1}}',
    "simulate": "workflows/checks.js --crashes 1",
    "skip": "rests in 1",
    "tidy": "",
    "tools": "",
    "try_": "workflows/checks.js",
    "verify": "",
    "versions": "rests",
    "wait": "--id asks --seconds 1",
    "what_if": "asks workflows/asks.js",
    "why": "{unknown}",
    "workflow": "asks",
    "workflows": "",
    "bus.cancel": "{deferred}",
    "bus.deferred": "",
    "bus.deliveries": "--status dead",
    "bus.discard": "{dead_event} test:task",
    "bus.emit": 'task {{"text":"x"}} --correlation-id c',
    "bus.journal": "--topic task",
    "bus.resume": "",
    "bus.subscribers": "",
    "bus.retry": "{dead_event} test:task",
    "bus.schedule_at": '60 task {{"text":"x"}} --source me',
    "bus.unsubscribe": "test:task",
}
# Refused on this store, the same way by either: everything is kept here, no tool has anything to
# amend, none is of an MCP server, nothing was allowed, no model is set, no host shows a page, no
# caller was let in, what is to be forgotten still waits, nothing is proposed, and what is simulated
# changes nothing, and no host is one that begins again.
REFUSED: Final = frozenset(
    {
        *("tidy", "amend", "revoke_allowance", "new_link", "receive"),
        *("revoke_token", "sign_in", "sign_out", "who", "decline", "prove"),
        *("pair", "unpair", "asked", "adopt", "proposal", "simulate", "offered", "pin"),
        *("begin_oauth", "finish_oauth", "write", "forget", "forgettable", "import_"),
        "restart",
    }
)
# Commands whose help has examples of its own, with what only they can do.
OWN_HELP: Final = frozenset({"check", "guide", "preview", "simulate", "tools", "try_", "write"})
# What is said beside the answer because a host runs.
BESIDE: Final = "A host is running, so secrets stay with it: a read that needs one fails here.\n"
STDIN: Final[Mapping[str, str]] = {"set_secret": "a secret"}
# What is another one each time: ids that are made, moments, and how long it is until then.
NEW: Final = re.compile(
    r"duly_[0-9a-f]{12}_[0-9a-f]{64}|whsec_[\w+/=]+|\b[0-9a-f]{32}(?:[0-9a-f]{8})?\b|"
    r"(run|action|mutation)_[0-9a-f]{12,}|\d{4}-\d\d-\d\dT[\d:.]+Z|\bin \d+ (s|min|h)\b"
)


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Facts]:
    folder = tmp_path_factory.mktemp("past") / "project"
    return folder, cli_stand.prepare(folder)


def words(verb: str, facts: Facts) -> list[str]:
    said = GIVEN[verb].format(**facts.words)
    return [*command_of(verb).split(), *said.split()]


def type_it(folder: Path, verb: str, facts: Facts) -> tuple[int, object]:
    result = call(folder, *words(verb, facts), "--json", given=STDIN.get(verb))
    if result.exit_code:
        return result.exit_code, masked(folder, result.stderr).removeprefix(BESIDE)
    answer = json.loads(masked(folder, result.stdout))
    # What is measured, or counted since a host opened, is another host's own.
    return 0, [each for each in answer if is_same(each)] if verb == "figures" else answer


def is_same(figure: dict[str, Any]) -> bool:
    return not figure["name"].endswith(("_total", "_bytes", "_seconds"))


def masked(folder: Path, text: str) -> str:
    return NEW.sub("…", text.replace(str(folder), "FOLDER"))


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_answers_the_same_with_a_running_host_and_without(
    verb: str, past: tuple[Path, Facts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: one command for each verb, and one answer, whichever way gives it."""
    folder, facts = past
    answers = []
    for name in ("with", "without"):
        own = cli_stand.copy(folder, tmp_path / name)
        monkeypatch.chdir(own)
        if name == "with":
            with cli_stand.running(own):
                answers.append(type_it(own, verb, facts))
        else:
            answers.append(type_it(own, verb, facts))
    assert answers[0] == answers[1]
    assert (answers[0][0] != 0) == (verb in REFUSED), answers[0]


def test_the_secret_that_a_sender_gave_is_typed_and_never_an_argument(
    past: tuple[Path, Facts], tmp_path: Path
) -> None:
    """A5, G12: it is read from stdin where there is no terminal; one that is made is shown."""
    own = cli_stand.copy(past[0], tmp_path / "own")
    opened = ("new-hook", "asks", "in", "--sender")
    given = call(own, *opened, "slack", given="8f742231b10e8888abcd99\n")
    assert given.output == "slack posts to /hooks/asks/in and signs with the secret it gave you.\n"
    made = call(own, *opened, "github")
    assert "and signs with whsec_" in " ".join(made.output.split())
    with (own / "duly.toml").open("a") as file:
        file.write('[page]\nhosts = ["duly.example.org"]\nbehind_proxy = "yes"\n')
    again = call(own, *opened, "slack", given="8f742231b10e8888abcd99\n")
    assert (again.exit_code, "replace" in again.output) == (1, True)
    named = call(own, *opened, "slack", "--replace", given="8f742231b10e8888abcd99\n")
    assert "https://duly.example.org/hooks/asks/in and" in " ".join(named.output.split())
    assert call(own, *opened, "stripe", "--secret", "x" * 20).exit_code == 2
    assert "asks/in@slack" in call(own, "secret", "list").output


def find(name: str) -> click.Command:
    """Find a command by its words."""
    first, *rest = name.split()
    command = load(first)
    assert command is not None, name
    for each in rest:
        assert isinstance(command, click.Group), name
        command = command.commands[each]
    return command


def test_every_verb_has_exactly_one_command() -> None:
    """U6: no verb is left out, and none has two names."""
    assert GIVEN.keys() == VERBS.keys()
    names = [command_of(verb) for verb in VERBS]
    assert len(names) == len(set(names))
    groups = {name: each for name in commands() if isinstance(each := load(name), click.Group)}
    inner = {f"{name} {each}" for name, group in groups.items() for each in group.commands}
    found = {*commands(), *inner} - groups.keys()
    others = {name for name, row in ROWS.items() if row.place} - set(names)
    assert found == {*names, *others} - groups.keys()
    assert {*ROWS} == {*found, *groups}, "each command has a row in faces/cli/table.py"
    for name in names:
        find(name)


def help_of(name: str) -> str:
    command = find(name)
    return command.get_help(
        click.Context(command, info_name=name, help_option_names=["-h", "--help"])
    )


def example_of(verb: str) -> str:
    return row_of(verb).example or spell(VERBS[verb], VERBS[verb].example)


@pytest.mark.parametrize("verb", VERBS)
def test_every_example_stands_in_the_help_and_can_be_typed_as_it_stands(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: an example that is refused teaches nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "invoices.py").write_text("")
    name = command_of(verb)
    typed = shlex.split(example_of(verb))
    assert " ".join(typed).startswith(f"duly {name}")
    parse(typed)
    if verb not in OWN_HELP:
        assert example_of(verb) in help_of(name)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.example])
def test_every_example_of_the_table_can_be_typed_as_it_stands(name: str) -> None:
    """U6: also of a command that is more than its verb."""
    typed = shlex.split(ROWS[name].example)
    assert " ".join(typed).startswith(f"duly {name}")
    parse(typed)
    assert ROWS[name].example in help_of(name)


def test_an_option_can_mean_something_else_for_one_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    """U6: what the help says of a limit is what the verb takes."""
    monkeypatch.setitem(cast("dict[str, str]", OPTIONS), "runs.limit", "How many, 1 to 7.")
    kind = next(each for each in VERBS["runs"].parameters if each.name == "limit")
    option = _parameter(VERBS["runs"], kind)
    assert isinstance(option, click.Option)
    assert (option.help or "").startswith("How many, 1 to 7.")
