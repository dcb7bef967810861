"""Where work is brought in and worked off: deploy files, drain what is due (W5, design §5).

Law 1  Of several files each is deployed or refused by itself; what is wrong with one is shown
       like a linter shows it, and the others go on.
Law 2  Draining is for a store without a host; a host that runs needs no help.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from duly.errors import NotDeployed, RequestRefused
from duly.faces.cli.base import (
    STILL,
    Face,
    by_option,
    clean,
    echo_json,
    hint,
    json_option,
    pass_face,
    run,
    say,
)
from duly.faces.cli.offer import quote
from duly.faces.cli.show import finding
from duly.faces.cli.verb import SOURCE, example
from duly.faces.project import build_host
from duly.faces.session import Session
from duly.faces.verb import to_json
from duly.rules.source import SUFFIXES
from duly.rules.value import Json
from duly.rules.wording import in_quotes

FILES_MAX: Final = 1000


@click.command(epilog=example("deploy"))
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--grant", is_flag=True, help="Allow every capability the sources use.")
@click.option("--strict", is_flag=True, help="Let warnings refuse a source too.")
@by_option
@json_option
@pass_face
def deploy(face: Face, files: Sequence[str], grant: bool, strict: bool) -> None:
    """Check sources and make each the active version of the workflow it names.

    Without a FILE: every .py and .js file of the project's workflows folder. A folder stands for
    the files in it. With --json: a list of {file, deployed, findings, error}.
    """
    paths = _paths(files or [str(face.project.workflows)])
    sources = [(path, SOURCE.convert(path, None, None)) for path in paths]
    made, is_running = run(_deploy_all(face, sources, grant=grant, strict=strict))
    if face.is_json:
        echo_json(made)
    else:
        for each in made:
            _tell(each)
    if not is_running and any(each["deployed"] for each in made):
        hint(STILL)
    if any(each["error"] for each in made):
        raise click.exceptions.Exit(1)


def _paths(given: Iterable[str]) -> list[str]:
    """List the files; a folder stands for the sources in it."""
    found: list[str] = []
    for name in given:
        path = Path(name)
        if not path.is_dir():
            found.append(name)
            continue
        inside = sorted(str(each) for each in path.iterdir() if each.suffix in SUFFIXES)
        if not inside:
            raise RequestRefused(
                f"The folder {path} has no .py or .js file. Name a file: `duly deploy FILE`."
            )
        found += inside
    if len(found) > FILES_MAX:
        raise RequestRefused(
            f"These are {len(found)} files, and {FILES_MAX} are taken at once. "
            "Name some of them: `duly deploy FILE…`."
        )
    return found


async def _deploy_all(
    face: Face, sources: list[tuple[str, Json]], *, grant: bool, strict: bool
) -> tuple[list[Any], bool]:
    async with face.session() as session:
        made = [
            await _deploy(session, path, source=source, by=face.who, grant=grant, strict=strict)
            for path, source in sources
        ]
        return made, session.host is not None


async def _deploy(session: Session, path: str, **args: Json) -> dict[str, Any]:
    """Deploy one file; a refusal is an answer, for the other files go on."""
    try:
        told: Any = await session.call("deploy", **args)
    except NotDeployed as error:
        findings: Any = [to_json(each) for each in error.findings]
        refused = {"file": path, "deployed": None, "findings": findings, "error": str(error)}
        return _with_path(refused)
    findings = told.pop("findings")
    return _with_path({"file": path, "deployed": told, "findings": findings, "error": None})


def _with_path(made: dict[str, Any]) -> dict[str, Any]:
    """Let findings name the file as it was typed."""
    for each in made["findings"]:
        each["file"] = made["file"]
    return made


def _tell(made: dict[str, Any]) -> None:
    for each in made["findings"]:
        click.echo(clean(finding(each)), err=bool(made["error"]))
    if made["error"]:
        said = clean(made["error"]) if not made["findings"] else "It was refused"
        look = f"`duly check {quote(made['file'])}`"
        hint(f"{made['file']}: {said.rstrip('.')}. Nothing was stored; see {look}.")
        return
    deployed = made["deployed"]
    say(f"{in_quotes(deployed['workflow'])} is at version {deployed['version']}.")
    for capability in deployed["missing"]:
        name = quote(deployed["workflow"])
        say(f"It waits at its first call that needs {capability}. To allow that:", indent=2)
        click.echo(f"    duly grant {name} {quote(capability)}")


@click.command(epilog=example("drain"))
@pass_face
def drain(face: Face) -> None:
    """Work off what is due now, and end; nothing waits for a later time.

    For a store without a host, from cron for example. Where a host runs it is refused: that host
    works by itself.
    """
    run(_drain(face))
    say("Nothing more is due now. `duly status` shows how everything stands.")


async def _drain(face: Face) -> None:
    async with face.session() as session:
        if session.host is not None:
            raise RequestRefused(
                f"A host is running here (process {session.host.pid}) and works by itself; "
                "`duly status` shows how far it is."
            )
    async with build_host(face.project) as host:
        await host.drain()
