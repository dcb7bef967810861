"""`duly init`: a small project that works, to change into one's own.

Law 1  Nothing that is there is overwritten: where one file is in the way, none is written.
Law 2  What is written passes `duly check`, its own test and `duly doctor`.
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Final

import click

from duly.errors import RequestRefused
from duly.faces.cli.offer import quote
from duly.faces.zone import find_zone
from duly.rules.shown import visible

# Where a file goes, and the text it begins with.
FILES: Final = {
    "duly.toml": "duly.toml.txt",
    "workflows/welcome.py": "welcome.py.txt",
    "tests/test_welcome.py": "test_welcome.py.txt",
    "pytest.ini": "pytest.ini.txt",
    "inbox/ada.txt": "ada.txt",
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
}
ZONE: Final = "{{zone}}"  # in a text: the zone of this machine (S2)
FOLDERS: Final = ("workflows", "tests", "inbox", "outbox")


@click.command()
@click.argument("folder", default=".")
def init(folder: str) -> None:
    """Make a small project that works, in FOLDER or here.

    \b
    Example: duly init my-project
    """
    home = Path(folder)
    create(home)
    click.echo(visible(f"There is a project in {home.absolute()} now. Go on with:"))
    if home.absolute() != Path.cwd():
        click.echo(f"  cd {quote(folder)}")
    click.echo("  duly dev          run it; put a note into inbox/, find a letter in outbox/")
    click.echo("  duly approvals    see the letter that waits for your yes, in another terminal")
    click.echo("  duly status       see how it stands, in another terminal")


def create(home: Path) -> None:
    """Write the project's files, or none of them."""
    texts = files("duly.faces.cli").joinpath("text", "project")
    zone = find_zone(os.environ)
    for name in FILES:
        if (home / name).exists() or (home / name).is_symlink():
            raise RequestRefused(
                f"{home / name} is there already, so nothing was written. "
                "Name another folder: `duly init NAME`."
            )
    try:
        for each in FOLDERS:
            (home / each).mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            with (home / name).open("x", encoding="utf-8") as file:
                written = texts.joinpath(text).read_text(encoding="utf-8")
                file.write(written.replace(ZONE, zone))
    except OSError as error:
        raise RequestRefused(
            f"{error.filename or home} cannot be written: {error.strerror}. Name another folder."
        ) from error
