"""The commands that a page shows: complete, quoted, without a secret; and they work."""

from __future__ import annotations

import shlex
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from duly.api.build import CONNECTORS
from duly.api.command_text import (
    EXAMPLES,
    describe_setting,
    is_beyond,
    list_notes,
    tell_settings,
    write_command,
    write_own_network,
)
from duly.api.connecting import list_settings
from duly.api.project import find_project
from duly.rules.addable import ADDABLE

LIMIT_S = 60.0  # only ends what hangs


def settings_in(command: str) -> dict[str, Any]:
    """Read the settings of a command, as `duly connect` does."""
    words = shlex.split(command)
    given = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    found = {}
    for each in given:
        key, _, text = each.partition("=")
        try:
            found[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = text
    return found


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", *shlex.split(command), "--no-proof"]
    return subprocess.run(
        words, cwd=folder, input="hidden-1\n", capture_output=True, text=True, timeout=LIMIT_S
    )


def test_a_command_has_what_was_typed_and_opens_the_address_that_it_names() -> None:
    """K3: for this connection alone."""
    typed = {
        "url": "http://127.0.0.1:8765",
        "sign_in": "bearer",
        "operation": "add",
        "method": "POST",
        "path": "/tasks",
        "arguments": "title",
        "key": "none",
        "hosts": "a.example, b.example",
    }
    command = write_command("http", "tasks", typed)
    assert command.startswith("duly connect tasks --use http --set url=http://127.0.0.1:8765 ")
    assert settings_in(command) == {
        "url": "http://127.0.0.1:8765",
        "hosts": ["a.example", "b.example"],
        "allow": ["127.0.0.1"],
        "auth": {"type": "bearer"},
        "operations": {
            "add": {
                "method": "POST",
                "path": "/tasks",
                "arguments": {"title": "string"},
                "key": "none",
            }
        },
    }
    assert list_notes("http", typed) == []
    assert list_notes("http", {**typed, "openapi": "x"})[0].startswith("Save the OpenAPI text")
    assert "ca.pem" not in command
    assert "certificate" in list_notes("http", {"url": "https://nas.lan/"})[0]


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1", ["127.0.0.1"]),
        ("[::1]", ["::1"]),
        ("localhost", ["localhost"]),
        ("nas.local", ["nas.local"]),
        ("shop.example", None),
    ],
)
def test_only_a_host_of_a_network_of_ones_own_is_opened(host: str, allowed: list[str]) -> None:
    """K3: for a public name in http:// nothing is opened; the command refuses to send a secret."""
    found = settings_in(write_command("feed", "news", {"url": f"http://{host}:81/x"}))
    assert found.get("allow") == allowed


@pytest.mark.parametrize(
    "text",
    ["$(id)", "a'b", "`id`", "a; rm -rf .", 'a"b', "true", "12", "[1]", "-x", "a = b", "~/x"],
)
def test_a_value_is_for_the_shell_and_for_the_settings_the_text_that_was_typed(text: str) -> None:
    command = write_command("table", "rows", {"path": text, "key": text})
    assert settings_in(command) == {"path": text, "key": text}


def test_what_may_be_a_secret_or_cannot_be_seen_is_in_no_command() -> None:
    """A5: nor is a name that is none."""
    command = write_command(
        "calendar", "a; id", {"url": "http://ada:hidden@dav.lan/", "user": "a\u202eb"}
    )
    assert command == "duly connect NAME --use calendar"
    assert write_command("files", "a", {"path": "/" * 501}) == "duly connect a --use files"


def test_only_what_widens_is_said_as_a_command() -> None:
    assert is_beyond("wrong_value", "secure_address")
    assert is_beyond("wrong_value", "folder_below")
    assert not is_beyond("wrong_value", "folder_of_data")
    assert not is_beyond("wrong_value", "connection_name")
    assert not is_beyond("missing", None)


WITH_ADDRESS = [each for each in ADDABLE if write_own_network(each, "mine", {})]


@pytest.mark.parametrize("use", WITH_ADDRESS)
def test_the_command_for_a_network_of_ones_own_is_taken_as_it_stands(
    use: str, tmp_path: Path
) -> None:
    """K3: with the line that the form shows."""
    (tmp_path / "duly.toml").write_text("")
    found = list_settings(find_project(str(tmp_path / "duly.toml"), {}, tmp_path), use)
    examples = {
        each.name: describe_setting(use, each.name, each.label, each.example)[1] for each in found
    }
    told = write_own_network(use, "mine", examples)
    assert told is not None
    line, command = told
    made = run(tmp_path, command)  # neither its server nor its secret is here
    text = (tmp_path / "duly.toml").read_text()
    assert line in text, made.stderr
    assert tomllib.loads(text)["connectors"]["mine"]["use"] == use


def test_only_a_kind_with_an_address_says_how_a_network_of_ones_own_is_reached() -> None:
    assert {"calendar", "http", "ics", "mail", "s3", "webhook"} <= set(WITH_ADDRESS)
    assert write_own_network("telegram", "bot", {}) is None
    told = write_own_network("webhook", "no name", {})
    assert told is not None
    assert told[1].startswith("duly connect NAME --use webhook")


@pytest.mark.parametrize("use", CONNECTORS)
def test_every_setting_of_every_kind_is_described(use: str, tmp_path: Path) -> None:
    """U6: and the example has each that is needed."""
    (tmp_path / "duly.toml").write_text("")
    found = list_settings(find_project(str(tmp_path / "duly.toml"), {}, tmp_path), use)
    rows = [(each.name, each.label, each.example, each.is_required) for each in found]
    *told, example = tell_settings(use, "mine", rows)
    assert example.startswith(f"  duly connect mine --use {use}")
    needed = {each.name for each in found if each.is_required}
    assert settings_in(example.strip()).keys() >= needed, example
    for each in found:
        assert describe_setting(use, each.name, each.label, each.example)[0]
        assert any(line.strip().startswith(f"{each.name} ") for line in told), each.name


@pytest.mark.parametrize(("use", "says", "command"), EXAMPLES, ids=[each[0] for each in EXAMPLES])
def test_an_example_on_the_page_is_taken_as_it_stands(
    use: str, says: str, command: str, tmp_path: Path
) -> None:
    """U6: with the database, the folder and the program that it names."""
    (tmp_path / "duly.toml").write_text("")
    (tmp_path / "inbox").mkdir()
    command = command.replace("/srv/inbox", str(tmp_path / "inbox"))
    with sqlite3.connect(tmp_path / "rows.db") as database:
        database.execute("create table people (name text)")
    database.close()
    made = run(tmp_path, command)
    table = tomllib.loads((tmp_path / "duly.toml").read_text()).get("connectors")
    assert table, made.stderr
    ((name, found),) = table.items()
    assert (found["use"], settings_in(command)) == (
        use,
        {k: v for k, v in found.items() if k != "use"},
    )
    if use != "mcp":  # its program is not here
        assert made.returncode == 0, made.stderr
    if use == "sql":
        called = subprocess.run(
            [sys.executable, "-m", "duly", "tools", f"{name}.add"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert called.returncode == 0, called.stderr
