"""What is asked most often imports least: help, and how everything stands (U6)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.faces import cli_stand

# What a command imports that opens a store, and nothing that only asks a host.
HEAVY: Final = ("duly.host", "duly.desk", "duly.bus.bus", "duly.store", "duly.engine", "apsw")
PROGRAM: Final = """
import json, sys
from click.testing import CliRunner
from duly.faces.cli import duly
result = CliRunner().invoke(duly, sys.argv[1:])
assert result.exit_code == 0, result.output
print(json.dumps([result.output, sorted(sys.modules)]))
"""


def imported(*words: str) -> tuple[str, set[str]]:
    """Call a command in a process of its own; return what it says and what it imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    told, modules = json.loads(done.stdout)
    return told, set(modules)


def test_help_imports_neither_rich_nor_settings_nor_a_host() -> None:
    """U6: a person who asks for help waits for nothing else."""
    told, modules = imported("--help")
    assert "`duly help all` lists every command" in told
    assert modules.isdisjoint({*HEAVY, "rich", "msgspec", "duly.api.registry", "duly.config"})


def test_status_of_a_running_host_imports_no_host(tmp_path: Path) -> None:
    """U6: the host answers; the command only shows it."""
    folder = cli_stand.make(tmp_path / "project")
    with cli_stand.running(folder):
        told, modules = imported("--project", str(folder), "status")
        assert "There is no workflow yet." in told
        assert modules.isdisjoint(HEAVY)
        _, modules = imported("--project", str(folder), "status", "--json")
        assert modules.isdisjoint({*HEAVY, "rich"})
    _, modules = imported("--project", str(folder), "status")
    assert "duly.host" in modules
