"""`duly service`: systemd runs the host of a project, as a service of the user or of the system.

Law 1  What is installed is one file, the unit, which `--print` shows without writing anything.
Law 2  The store is not touched: systemd starts and stops the host as any other program.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import click

from duly.api.text import visible
from duly.errors import NotFound, RequestRefused
from duly.faces.cli.base import Face, hint, pass_face
from duly.faces.cli.unit import Unit

SYSTEM_UNITS: Final = Path("/etc/systemd/system")
RUNTIME: Final = Path("/run/systemd/system")  # is there where systemd is what started the machine
ANSWER_S: Final = 60
ROOT: Final = "A host needs no rights of root: say who runs it with --user NAME."

system_option = click.option(
    "--system", "is_system", is_flag=True, help="A service of the machine, not of this user."
)


@click.group()
def service() -> None:
    """Let systemd run the host of this project: after a start of the machine, and after a fault."""


@service.command()
@system_option
@click.option("--user", help="Who runs it, with --system; by default you.")
@click.option(
    "--environment",
    type=click.Path(path_type=Path, resolve_path=True),
    metavar="FILE",
    help="A file with variables: DULY_KEY=…",
)
@click.option("--print", "is_printed", is_flag=True, help="Print the unit, and change nothing.")
@pass_face
def install(
    face: Face, is_system: bool, user: str | None, environment: Path | None, is_printed: bool
) -> None:
    """Write the unit of this project, and start it now and with the machine.

    \b
    Example: duly service install --print
    """
    if user is not None and not is_system:
        raise click.UsageError("--user is for --system; a service of yours is run as you.")
    unit = _unit(face, is_system=is_system, user=user, environment=environment, is_new=True)
    if is_printed:
        click.echo(unit.text, nl=False)
        return
    _require_systemd()
    path = _folder(is_system=is_system) / unit.name
    try:
        is_changed = path.exists() and path.read_text() != unit.text
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(unit.text)
    except OSError as error:
        raise RequestRefused(code="systemd_refused", facts={"cause": str(error)}) from error
    _ask("daemon-reload", is_system=is_system)
    _ask("enable", "--now", unit.name, is_system=is_system)
    if is_changed:  # `--now` leaves a host that runs under the unit of before
        _ask("restart", unit.name, is_system=is_system)
    click.echo(visible(f"{unit.name} runs, and is started with the machine: {path}"))
    if not is_system:
        hint("It ends when you sign out, unless you say once: loginctl enable-linger")


@service.command()
@system_option
@pass_face
def status(face: Face, is_system: bool) -> None:
    """Say whether the service of this project runs."""
    unit = _installed(face, is_system=is_system)
    _show("systemctl", "status", "--no-pager", "--lines=5", unit.name, is_system=is_system)


@service.command()
@system_option
@click.option("--lines", type=click.IntRange(1, 10_000), default=100, help="How many; 100.")
@click.option("--follow", "-f", is_flag=True, help="Stay, and print what comes.")
@pass_face
def logs(face: Face, is_system: bool, lines: int, follow: bool) -> None:
    """Show the log of the service of this project."""
    unit = _installed(face, is_system=is_system)
    more = ("--follow",) if follow else ("--no-pager",)
    _show("journalctl", f"--lines={lines}", *more, "--unit", unit.name, is_system=is_system)


@service.command()
@system_option
@pass_face
def remove(face: Face, is_system: bool) -> None:
    """Stop the service of this project and remove its unit; the store stays as it is."""
    unit = _installed(face, is_system=is_system)
    _ask("disable", "--now", unit.name, is_system=is_system)
    (_folder(is_system=is_system) / unit.name).unlink(missing_ok=True)
    _ask("daemon-reload", is_system=is_system)
    click.echo(visible(f"{unit.name} is stopped and removed. The project is as it was."))


def _unit(
    face: Face,
    *,
    is_system: bool,
    user: str | None = None,
    environment: Path | None = None,
    is_new: bool = False,
) -> Unit:
    """Spell the unit of a project; the host is run by the interpreter that runs this command."""
    own = None
    if is_system:
        import getpass

        own = user or getpass.getuser()
        if user is None and own == "root" and is_new:
            raise click.UsageError(ROOT)
    return Unit(face.project.folder.resolve(), Path(sys.executable), own, environment)


def _installed(face: Face, *, is_system: bool) -> Unit:
    _require_systemd()
    unit = _unit(face, is_system=is_system)
    if not (_folder(is_system=is_system) / unit.name).exists():
        raise NotFound(code="no_service", subject=unit.name)
    return unit


def _folder(*, is_system: bool) -> Path:
    if is_system:
        return SYSTEM_UNITS
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "systemd" / "user"


def _require_systemd() -> None:
    if sys.platform != "linux" or shutil.which("systemctl") is None or not RUNTIME.is_dir():
        raise RequestRefused(code="no_systemd", facts={"cause": sys.platform})


def _ask(*words: str, is_system: bool) -> None:
    """Tell systemd to do something; what it says against it is an error."""
    command = ["systemctl", *(() if is_system else ("--user",)), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RequestRefused(code="systemd_refused", facts={"cause": str(error)}) from error
    if done.returncode:
        cause = done.stderr.strip() or f"status {done.returncode}"
        raise RequestRefused(code="systemd_refused", facts={"cause": visible(cause)})


def _show(program: str, *words: str, is_system: bool) -> None:
    """Let a program of systemd write to the terminal; its status is ours."""
    command = [program, *(() if is_system else ("--user",)), *words]
    raise click.exceptions.Exit(subprocess.run(command, check=False).returncode)
