"""A host that systemd runs: the unit, and what is said to systemd."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from duly.errors import Invalid
from duly.faces.cli import systemd
from duly.faces.cli.unit import HARDENING, HARDENING_OF_SYSTEM, Unit
from tests.faces.cli_stand import call
from tests.faces.real import make_project

FAKE = """#!/bin/sh
echo "$(basename "$0") $*" >> "$SAID"
case "$*" in *enable*--now*) test -z "$REFUSE" || { echo "no bus" >&2; exit 1; };; esac
"""


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put programs in the way that write down what they were asked."""
    folder, said = tmp_path / "bin", tmp_path / "said"
    folder.mkdir()
    said.touch()
    for name in ("systemctl", "journalctl"):
        (folder / name).write_text(FAKE)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SAID", str(said))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(systemd, "RUNTIME", tmp_path)
    return said


def test_a_service_is_installed_looked_at_and_removed(tmp_path: Path, said: Path) -> None:
    folder = make_project(tmp_path / "letters")
    name = Unit(folder, Path()).name

    def ask(*words: str) -> Result:
        return call(folder, "service", *words)

    missing = ask("status")
    assert (missing.exit_code, said.read_text()) == (1, "")
    assert f"There is no service {name} here." in " ".join(missing.stderr.split())
    assert ask("install").exit_code == 0
    unit = tmp_path / "config/systemd/user" / name
    assert f'ExecStart="{sys.executable}" -m duly --project "{folder}" serve' in unit.read_text()
    assert ask("status").exit_code == ask("logs", "--lines", "7").exit_code == 0
    assert ask("remove").exit_code == 0
    assert not unit.exists()
    assert said.read_text().splitlines() == [
        "systemctl --user daemon-reload",
        f"systemctl --user enable --now {name}",
        f"systemctl --user status --no-pager --lines=5 {name}",
        f"journalctl --user --lines=7 --no-pager --unit {name}",
        f"systemctl --user disable --now {name}",
        "systemctl --user daemon-reload",
    ]


def test_projects_of_one_folder_name_have_services_of_their_own(tmp_path: Path, said: Path) -> None:
    """Removing the one would stop the other, and only one of them would run."""
    units = tmp_path / "config/systemd/user"
    for parent in ("a", "b"):
        (tmp_path / parent).mkdir()
        done = call(make_project(tmp_path / parent / "letters"), "service", "install")
        assert done.exit_code == 0
    assert len([*units.iterdir()]) == 2
    assert call(tmp_path / "b" / "letters", "service", "remove").exit_code == 0
    (left,) = units.iterdir()
    assert str(tmp_path / "a") in left.read_text()


def test_a_unit_that_changed_is_what_runs(tmp_path: Path, said: Path) -> None:
    folder = make_project(tmp_path / "letters")
    name = Unit(folder, Path()).name
    for more in ((), (), ("--environment", str(tmp_path / "key"))):
        assert call(folder, "service", "install", *more).exit_code == 0
    restarts = [line for line in said.read_text().splitlines() if "restart" in line]
    assert restarts == [f"systemctl --user restart {name}"]


def test_root_says_who_runs_a_service_of_the_machine(
    tmp_path: Path, said: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    folder = make_project(tmp_path / "letters")
    refused = call(folder, "service", "install", "--system", "--print")
    assert refused.exit_code == 2
    assert "--user NAME" in " ".join(refused.stderr.split())
    taken = call(folder, "service", "install", "--system", "--user", "root", "--print")
    assert "User=root" in taken.stdout


def test_what_systemd_says_against_it_is_told(
    tmp_path: Path, said: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFUSE", "yes")
    told = call(make_project(tmp_path / "letters"), "service", "install")
    assert told.exit_code == 1
    assert "systemd refused: no bus." in " ".join(told.stderr.split())


def test_the_unit_is_printed_also_where_there_is_no_systemd(
    tmp_path: Path, said: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "RUNTIME", tmp_path / "missing")
    folder = make_project(tmp_path / "letters")
    printed = call(folder, "service", "install", "--system", "--user", "ada", "--print")
    assert printed.exit_code == 0
    assert {"User=ada", *HARDENING, *HARDENING_OF_SYSTEM} <= {*printed.stdout.splitlines()}
    refused = call(folder, "service", "install")
    assert refused.exit_code == 1
    assert "There is no systemd here" in " ".join(refused.stderr.split())
    assert said.read_text() == ""


def test_nothing_in_a_path_is_expanded() -> None:
    unit = Unit(Path('/srv/a b%h$HOME"c'), Path("/usr/bin/python3"), user="ada")
    assert re.fullmatch(r"duly-a-b-h-HOME-c-[0-9a-f]{8}\.service", unit.name)
    assert r'--project "/srv/a b%%h$$HOME\"c" serve' in unit.text
    assert r'ReadWritePaths="/srv/a b%%h$HOME\"c"' in unit.text
    assert '\nWorkingDirectory=/srv/a b%%h$HOME"c\n' in unit.text
    with pytest.raises(Invalid):
        _ = Unit(Path("/srv/a\nExecStartPre=/bin/sh"), Path("/usr/bin/python3")).text


def problems(path: Path) -> list[str]:
    """List what is wrong with a unit: as systemd says, or, where there is none, by its form."""
    if shutil.which("systemd-analyze") is None:
        form = re.compile(r"\[[A-Z][a-z]+\]|[A-Z][A-Za-z]+=.*|")
        return [line for line in path.read_text().splitlines() if not form.fullmatch(line)]
    command = ["systemd-analyze", "verify", "--man=no", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # It also reads the units of the machine, which are not ours to judge.
    return [line for line in done.stderr.splitlines() if path.name in line]


@pytest.mark.parametrize("user", ["root", None])
def test_systemd_takes_the_unit(tmp_path: Path, user: str | None) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    unit = Unit(folder, Path(sys.executable), user)
    path = tmp_path / unit.name
    path.write_text(unit.text)
    assert problems(path) == []
    path.write_text(f"{unit.text}no line of a unit\n")
    assert problems(path) != []


def test_a_host_may_take_longer_to_stop_than_its_parts() -> None:
    """L6: systemd kills it only when the host would have ended by itself."""
    assert "TimeoutStopSec=150" in Unit(Path("/srv/x"), Path("/usr/bin/python3")).text
