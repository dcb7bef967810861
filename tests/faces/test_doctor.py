"""`duly doctor`: each line was tried just now, and a bad one fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from duly.errors import DulyError
from duly.faces.cli import doctor as module
from duly.faces.cli.finding import State
from tests.faces.real import call, make_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def findings(folder: Path, *, status: int) -> dict[str, list[dict[str, Any]]]:
    told = call(folder, "doctor", "--json")
    assert told.exit_code == status, told.output
    by_name: dict[str, list[dict[str, Any]]] = {}
    for each in json.loads(told.stdout):
        by_name.setdefault(each["what"], []).append(each)
    return by_name


def test_a_new_project_is_well_and_gets_no_store(project: Path) -> None:
    """X1: both interpreters run behind their lock; nothing is made."""
    told = call(project, "doctor")
    assert told.exit_code == 0, told.output
    # A person who tests as root is told so, and nothing else.
    ends = "All is well." if os.geteuid() else "0 bad, 1 to look at, 13 well."
    assert told.stdout.rstrip().endswith(ends)
    assert told.stdout.count("every layer of their lock was tried from inside and held") == 2
    assert "There is none yet" in told.stdout
    assert not (project / "duly.db").exists()


def test_each_system_is_told_in_one_line_what_works_there() -> None:
    """X1: and what the sandbox is there."""
    assert module.tell_system("linux").state is State.OK
    assert "the kernel locks every script" in module.tell_system("linux").sentence
    old = module.tell_system("linux", ("Landlock",))
    assert (old.state, old.sentence[:34]) == (State.WARN, "Linux without Landlock: everything")
    for name, shown in (("darwin", "macOS"), ("freebsd14", "freebsd14")):
        told = module.tell_system(name)
        assert (told.state, told.what) == (State.WARN, "system")
        assert told.sentence.startswith(f"{shown}: everything but `duly service`, and no lock")


def test_windows_is_told_to_use_wsl_in_one_sentence() -> None:
    """U6: what only POSIX systems have is missing there; before, that was a stack of calls."""
    blocked = "import sys\nfor each in ('fcntl', 'pwd', 'grp', 'resource', 'termios'):\n"
    program = f"{blocked}    sys.modules[each] = None\nfrom duly.__main__ import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", program, "doctor"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Duly runs on Linux and macOS; on Windows, run it in WSL.\n"


def test_a_store_is_verified_and_its_modes_are_looked_at(project: Path) -> None:
    """H5, A5: a sound store that is its owner's alone; one that others read is told."""
    assert call(project, "deploy", "--grant").exit_code == 0
    told = findings(project, status=0)
    assert told["store"][0]["sentence"].endswith("duly.db is sound.")
    assert told["host"][0]["sentence"] == "None is running."
    assert [each["state"] for each in told["modes"]] == ["ok"]
    (project / "duly.db").chmod(0o644)
    (project / "duly.db.key").touch(0o644)
    (project / "duly.db.key").chmod(0o644)
    told = findings(project, status=1)
    assert [each["state"] for each in told["modes"]] == ["warn", "bad"]
    assert told["modes"][1]["advice"] == f"chmod 600 {project / 'duly.db.key'}"


def test_a_damaged_store_is_bad(project: Path) -> None:
    """H5: the whole of it is checked, and what to do is said."""
    assert call(project, "deploy", "--grant").exit_code == 0
    path = project / "duly.db"
    path.write_bytes(path.read_bytes()[:8192] + b"\x00" * 4096 + path.read_bytes()[12288:])
    told = findings(project, status=1)
    assert told["store"][0]["state"] == "bad"


@pytest.mark.parametrize(
    ("toml", "what", "words"),
    [
        ("url = 3\n", "settings", "url is 3"),
        ('[connectors.a]\nuse = "nowhere:A"\n', "connectors", "nowhere"),
        ('url = "sqlite:///away/duly.db"\n', "disk", "is not there"),
        ('[channels.a]\nuse = "files"\n', "channels", "[channels.a]"),
        ('extensions = "away"\n', "extensions", "is no folder"),
    ],
)
def test_what_is_wrong_with_the_project_is_bad(
    tmp_path: Path, toml: str, what: str, words: str
) -> None:
    """H4: each by its name; the rest is looked at all the same."""
    (tmp_path / "duly.toml").write_text(toml)
    told = findings(tmp_path, status=1)
    assert told[what][0]["state"] == "bad"
    assert words in told[what][0]["sentence"]
    assert told["clock"][0]["state"] == "ok"


def test_an_unlocked_sandbox_is_a_warning(project: Path) -> None:
    """X1: a person who accepted it is reminded."""
    with (project / "duly.toml").open("a") as file:
        file.write('[sandbox]\nunlocked = "i-accept"\n')
    assert {each["state"] for each in findings(project, status=0)["sandbox"]} == {"warn"}


def test_a_script_that_cannot_run_is_bad() -> None:
    """X1: what the sandbox said, and what this machine lacks."""
    found = module._sandbox("python", (DulyError("no lock"),), is_locked=True)
    assert (found.state, found.sentence) == (State.BAD, "python scripts cannot run: no lock")


@pytest.mark.parametrize(
    ("free", "state"),
    [
        (module.FREE_BAD_BYTES - 1, State.BAD),
        (module.FREE_BAD_BYTES, State.WARN),
        (module.FREE_LOW_BYTES, State.OK),
    ],
)
def test_a_disk_that_is_nearly_full_is_told_in_time(
    project: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: State
) -> None:
    """H3: one byte decides."""
    from duly.api.project import find_project

    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(free))
    (found,) = module._place(find_project(str(project), {}, project))
    assert found.state is state


def test_a_clock_that_was_set_back_is_told() -> None:
    """L6: what the store saw is yet to come."""
    assert module._ahead([{"at": "2026-01-01T00:00:00.000Z"}]) is None
    found = module._ahead([{"at": "2999-01-01T00:00:00.000Z"}])
    assert found is not None
    assert found.state is State.WARN


@pytest.mark.parametrize(
    ("user", "staying", "words"),
    [
        (1000, (), None),
        (0, (), "Each locked process has its own user"),
        (0, ("interpreter",), "so are the workers of Python scripts"),
        (0, ("nothing", "interpreter"), "so is every locked process"),
    ],
)
def test_a_host_that_runs_as_root_is_told_who_stays_root_with_it(
    monkeypatch: pytest.MonkeyPatch, user: int, staying: tuple[str, ...], words: str | None
) -> None:
    """X1: a host needs no privilege, and not every machine can give its workers another user."""
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr(
        "duly.api.machine.stays_root",
        lambda needed=(): ("interpreter" if needed else "nothing") in staying,
    )
    found = list(module._user())
    assert [each.state for each in found] == ([] if words is None else [State.WARN])
    assert all(words is not None and words in each.sentence for each in found)


def test_what_a_channel_lacks_is_told_and_nothing_outside_is_reached() -> None:
    """G11: a host that serves has tried the token; the doctor says what it found out."""
    account = {"account": "7"}
    bot = {"name": "phone", "problem": None, "pairs": True, "accounts": [account]}
    cases: list[tuple[dict[str, Any], set[str], bool, State, str]] = [
        ({}, {"phone.token"}, True, State.OK, "phone works."),
        ({}, {"phone.token"}, False, State.OK, "a host finds out that serves"),
        ({"problem": "The token is none of a bot."}, {"phone.token"}, True, State.BAD, "none of a"),
        ({}, {"other.token"}, False, State.BAD, "phone has no token of a bot."),
        ({"accounts": []}, {"phone.token"}, True, State.WARN, "no account is paired"),
        ({"accounts": [{"account": None}]}, {"phone.token"}, True, State.WARN, "no account"),
        ({"pairs": False}, set(), True, State.OK, "phone works."),
    ]
    for changed, secrets, is_served, state, said in cases:
        (found,) = module.find_channels([{**bot, **changed}], secrets, is_served=is_served)
        assert (found.what, found.state, said in found.sentence) == ("channels", state, True)
