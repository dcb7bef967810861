"""`duly init`: a small project that works, to change into one's own.

Law 1  Nothing that is there is overwritten: where one file is in the way, none is written.
Law 2  What is written passes `duly check`, its own test and `duly doctor`.

With `--connector` it is a package with a connector, its double and its exam.
With a template it is one of the examples, on ready-made connectors and with samples to work on.
"""

from __future__ import annotations

import os
import re
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
NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)
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
@click.option(
    "--connector",
    metavar="NAME",
    help="Make a package with a connector of this name, its double and its exam instead.",
)
def init(folder: str, template: str | None, connector: str | None) -> None:
    """Make a small project that works, in FOLDER or here.

    \b
    Example: duly init my-project
             duly init --template mail-to-table my-mails
             duly init --connector tea duly-tea
    """
    home = Path(folder)
    if connector is not None:
        if template is not None:
            raise click.UsageError("--connector and --template are two things; say one.")
        _init_connector(home, connector)
        return
    chosen = None if template is None else TEMPLATES[template]
    create(home, chosen)
    click.echo(visible(f"There is a project in {home.absolute()} now. Go on with:"))
    if home.absolute() != Path.cwd():
        click.echo(f"  cd {quote(folder)}")
    script = "welcome.py" if chosen is None else chosen.file
    seen = "outbox/, after your yes" if chosen is None else chosen.example.seen
    click.echo("  duly serve        run it, and open the link that it prints: that is the page;")
    click.echo(f"                    deploy {script} there, and find what it did in {seen}")
    click.echo("Instead of the page, in the terminal:")
    click.echo("  duly dev          run it; a file is deployed when you save it")
    click.echo("  duly approvals    see what waits for your yes, in another terminal")
    click.echo("  duly status       see how it stands")


def _init_connector(home: Path, name: str) -> None:
    from duly.api.build import CONNECTORS

    if not NAME.fullmatch(name):
        raise click.UsageError("--connector: write a name such as tea or tea_shop.")
    if name in CONNECTORS:
        raise click.UsageError(f"--connector: {name} is built in. Choose another name.")
    write_files(home, *plan_connector(name))
    click.echo(visible(f"There is a connector in {home.absolute()} now. Go on with:"))
    if home.absolute() != Path.cwd():
        click.echo(f"  cd {quote(str(home))}")
    click.echo("  pip install -e .  so that settings can name it")
    click.echo("  pytest            take its exam")


def plan_connector(name: str) -> tuple[Sequence[str], Mapping[str, str]]:
    """Say which files the package of a connector has, each with its text."""
    package = f"src/duly_{name}"
    places = {
        "pyproject.toml": "pyproject.toml.txt",
        f"{package}/__init__.py": "connector.py.txt",
        f"{package}/double.py": "double.py.txt",
        f"tests/test_{name}.py": "test_connector.py.txt",
        "README.md": "README.md.txt",
    }
    words = {
        "{{name}}": name,
        "{{dashed}}": name.replace("_", "-"),
        "{{Name}}": "".join(each.capitalize() for each in name.split("_")),
    }
    texts = {}
    for place, kept in places.items():
        text = _read("connector", kept)
        for word, value in words.items():
            text = text.replace(word, value)
        texts[place] = text
    return (package, "tests"), texts | {".gitignore": "__pycache__/\n*.egg-info/\ndist/\n"}


def create(home: Path, template: Template | None = None) -> None:
    """Write the project's files, or none of them."""
    write_files(home, *(_plan() if template is None else _plan_template(template)))


def write_files(home: Path, folders: Sequence[str], texts: Mapping[str, str]) -> None:
    """Write files, or none of them where one is there already (law 1)."""
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
