"""`duly init`: a small project that works, to change into one's own.

Law 1  Nothing that is there is overwritten: where one file is in the way, none is written.
Law 2  What is written passes `duly check`, its own test and `duly doctor`.

With a template it is one of the examples, on ready-made connectors and with samples to work on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

import click

from duly.api.text import visible
from duly.api.zone import find_zone
from duly.errors import RequestRefused
from duly.faces.cli.offer import quote
from duly.faces.cli.template import TEMPLATES, Template

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
FOLDERS: Final = ("workflows", "tests", "inbox", "outbox")
ZONE: Final = "{{zone}}"  # in a text: the zone of this machine (S2)


def list_templates(ctx: click.Context, option: click.Parameter, is_asked: bool) -> None:
    """Name every template with what it does."""
    if not is_asked:
        return
    width = max(len(name) for name in TEMPLATES)
    for name, each in TEMPLATES.items():
        click.echo(f"{name:{width}}  {each.language:10}  {each.example.says}")
    ctx.exit()


@click.command()
@click.argument("folder", default=".")
@click.option(
    "--template",
    type=click.Choice(list(TEMPLATES)),
    metavar="NAME",
    help="Begin with this example, which works on sample files.",
)
@click.option(
    "--templates",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=list_templates,
    help="List the templates.",
)
def init(folder: str, template: str | None) -> None:
    """Make a small project that works, in FOLDER or here.

    \b
    Example: duly init my-project
             duly init --template mail-to-table my-mails
    """
    home = Path(folder)
    chosen = None if template is None else TEMPLATES[template]
    create(home, chosen)
    click.echo(visible(f"There is a project in {home.absolute()} now. Go on with:"))
    if home.absolute() != Path.cwd():
        click.echo(f"  cd {quote(folder)}")
    if chosen is None:
        click.echo("  duly dev          run it; put a note into inbox/, find a letter in outbox/")
        click.echo(
            "  duly approvals    see the letter that waits for your yes, in another terminal"
        )
    else:
        click.echo(f"  duly dev          run it; find what it did in {chosen.example.seen}")
    click.echo("  duly status       see how it stands, in another terminal")


def create(home: Path, template: Template | None = None) -> None:
    """Write the project's files, or none of them."""
    folders, texts = _plan() if template is None else _plan_template(template)
    zone = find_zone(os.environ)
    for name in texts:
        if (home / name).exists() or (home / name).is_symlink():
            raise RequestRefused(code="file_exists", subject=str(home / name))
    try:
        for each in folders:
            (home / each).mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with (home / name).open("x", encoding="utf-8") as file:
                file.write(text.replace(ZONE, zone))
    except OSError as error:
        place, facts = str(error.filename or home), {"cause": error.strerror}
        raise RequestRefused(code="unwritable", subject=place, facts=facts) from error


def _plan() -> tuple[Sequence[str], Mapping[str, str]]:
    """Say which folders there are to be, and every file with its text."""
    return FOLDERS, {name: _read("project", text) for name, text in FILES.items()}


def _plan_template(template: Template) -> tuple[Sequence[str], Mapping[str, str]]:
    example, source = template.example, f"workflows/{template.file}"
    connectors = "\n".join(
        f'[connectors.{name}]\nuse = "{kind}"\npath = "{name}"\n'
        for name, kind in example.connectors.items()
    )
    connectors += example.settings
    readme = _read("template", "README.md.txt")
    for word, text in {"says": example.says, "source": source, "seen": example.seen}.items():
        readme = readme.replace(f"{{{{{word}}}}}", text)
    settings = _read("template", "duly.toml.txt").replace("{{connectors}}\n", connectors)
    settings = settings.replace("{{approvals}}", example.approvals)
    return ("workflows", *example.connectors), {
        "duly.toml": settings,
        source: _read("example", f"{template.file}.txt"),
        **example.samples,
        "README.md": readme,
        ".gitignore": _read("project", "gitignore.txt"),
    }


def _read(folder: str, name: str) -> str:
    place = files("duly.faces.cli").joinpath("text", folder, name)
    return place.read_text(encoding="utf-8")
