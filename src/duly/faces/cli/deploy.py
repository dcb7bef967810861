"""Where work is brought in and worked off: deploy files, drain what is due (W5, design §5).

Law 1  Of several files each is deployed or refused by itself; what is wrong with one is shown
       like a linter shows it, and the others go on.
Law 2  It is as strict as `duly check`: a file with a warning replaces no version, unless
       `--lenient` says otherwise. A text that is active already makes no version.
Law 3  Draining is for a store without a host; a host that runs needs no help.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from duly.api.build import build_host
from duly.api.codec import to_json
from duly.api.record import Severity
from duly.api.session import Session
from duly.api.text import visible
from duly.api.value import Json
from duly.api.word import REPLAYS, SUFFIXES, Outcome, Topic
from duly.errors import DulyError, NotDeployed, RequestRefused, see
from duly.faces.cli.base import (
    STILL,
    Face,
    echo_json,
    hint,
    json_option,
    pass_face,
    run,
    say,
    tell_stopped,
)
from duly.faces.cli.foreign import tell_foreign
from duly.faces.cli.offer import quote
from duly.faces.cli.spelling import Spelled, example
from duly.faces.cli.verb import SOURCE
from duly.host import Host
from duly.words.finding import say_finding
from duly.words.noun import say_waiting
from duly.words.phrase import in_quotes

FILES_MAX: Final = 1000
PAGE: Final = 100
ATTENTION_MAX: Final = 1000
WARNS: Final = str(Severity.WARNS)


@click.command(cls=Spelled, verb="deploy")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--grant", is_flag=True, help="Allow every capability the sources use.")
@click.option("--lenient", is_flag=True, help="Let warnings pass; only errors refuse a source.")
@click.option("--replay", is_flag=True, help="Let it do things again under another name.")
@click.option("--strict", is_flag=True, hidden=True)  # what it is anyway
@json_option
@pass_face
def deploy(
    face: Face, files: Sequence[str], grant: bool, lenient: bool, replay: bool, strict: bool
) -> None:
    """Check sources and make each the active version of the workflow it names.

    A source with an error or a warning is refused, and what was active goes on. A text that is
    active already makes no new version; --grant allows it what it lacks.

    State belongs to a producer's name and events to a topic's. A source with a new name in place of
    such a name, or a file whose workflow has another name now, would do everything again: it is
    refused without --replay.

    Without a FILE: every .py and .js file of the project's workflows folder. A folder stands for
    the files in it. With --json: a list of {file, deployed, findings, error}.
    """
    if lenient and strict:
        raise click.UsageError("--lenient and --strict are opposites. Leave one out.")
    paths = _paths(files or [str(face.project.workflows)])
    sources = [(path, SOURCE.convert(path, None, None)) for path in paths]
    how: dict[str, Json] = {"grant": grant, "strict": not lenient, "replay": replay}
    made: list[Any] = []
    try:
        is_running = run(_deploy_all(face, sources, how, made))
    except (DulyError, KeyboardInterrupt) as error:
        _tell_broken(face, paths, made, error)
        raise
    _tell_all(face, made)
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
            facts = {"known": list(SUFFIXES)}
            raise RequestRefused(code="no_sources", subject=str(path), facts=facts)
        found += inside
    if len(found) > FILES_MAX:
        most = {"limit": FILES_MAX, "unit": "files"}
        raise RequestRefused(code="too_many", subject="deploy", facts=most)
    return found


def _tell_all(face: Face, made: list[Any]) -> None:
    if face.is_json:
        echo_json(made)
    else:
        for each in made:
            _tell(face, each)


def _tell_broken(face: Face, paths: list[str], made: list[Any], error: BaseException) -> None:
    """Tell what was deployed before a later file failed: that is done in spite of the error."""
    if len(made) == len(paths):  # it broke after the last of them
        _tell_all(face, made)
        return
    path, *untried = paths[len(made) :]
    if isinstance(error, DulyError):
        failed: dict[str, Any] = {
            "file": path,
            "deployed": None,
            "findings": [],
            "error": str(error),
        }
        _tell_all(face, [*made, failed] if face.is_json else made)
    else:
        _tell_all(face, made)
        tell_stopped("deploy")
    if paths[1:]:
        left = f"; not tried: {', '.join(untried)}" if untried else ""
        hint(f"It ended at {path}{left}.")


async def _deploy_all(
    face: Face, sources: list[tuple[str, Json]], how: dict[str, Json], made: list[Any]
) -> bool:
    """Deploy one file after the other into `made`; return whether a host runs."""
    async with face.session() as session:
        for path, source in sources:
            made.append(await _deploy(session, path, source=source, again=False, **how))
        return session.host is not None


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


def _tell(face: Face, made: dict[str, Any]) -> None:
    for each in made["findings"]:
        click.echo(visible(say_finding(each)), err=bool(made["error"]))
    if made["error"]:
        said = visible(made["error"]) if not made["findings"] else "It was refused"
        look = f"see `duly check {quote(made['file'])}`"
        if made["findings"] and all(each.get("severity") == WARNS for each in made["findings"]):
            look = "`--lenient` lets warnings pass"
        if any(each.get("rule") in REPLAYS for each in made["findings"]):
            look = "`--replay` lets it do things again"
        hint(f"{made['file']}: {said.rstrip('.')}. Nothing was stored; {look}.")
        return
    deployed = made["deployed"]
    is_at = f"version {deployed['version']}"
    told = f"at {is_at}" if deployed["new"] else f"active already, as {is_at}"
    say(f"{in_quotes(deployed['workflow'])} is {told}.")
    for each in deployed["changes"]:
        say(f"{each['tool']}: {each['text']}", indent=2)
    for capability in deployed["missing"]:
        name = quote(deployed["workflow"])
        if (foreign := tell_foreign(face.project, capability.partition(".")[0])) is not None:
            say(foreign, indent=2)
        say(f"It waits at its first call that needs {capability}. To allow that:", indent=2)
        click.echo(f"    duly grant {name} {quote(capability)}")


@click.command(epilog=example("drain"))
@pass_face
def drain(face: Face) -> None:
    """Do the work that is due now, and end; work that is due later stays in the store.

    Use it for a store without a host, for example from cron. While a host runs it is refused: that
    host works by itself.
    """
    drained = run(_drain(face))
    say(f"{drained} Nothing more is due now; `duly status` shows how everything stands.")


@dataclass(frozen=True, slots=True)
class Drained:
    """What came of draining, as the journal and the desk tell it."""

    committed: int
    changed: int
    waiting: int

    def __str__(self) -> str:
        """Say it in one sentence."""
        runs = f"{self.committed or 'No'} {'run was' if self.committed == 1 else 'runs were'}"
        with_change = f", {self.changed} with a change outside" if self.changed else ""
        look = " (`duly attention`)" if self.waiting else ""
        return f"{runs} committed{with_change}; {say_waiting(self.waiting)}{look}."


async def _drain(face: Face) -> Drained:
    async with face.session() as session:
        if session.host is not None:
            raise RequestRefused(
                code="host_running",
                subject=str(face.project.folder),
                facts={"process": session.host.pid},
                next=see("workflows"),
            )
    async with build_host(face.project) as host:
        newest = await host.bus.journal(limit=1)
        await host.drain()
        return await _count(host, newest[0].id if newest else 0)


async def _count(host: Host, last_id: int) -> Drained:
    """Count the runs that were committed after an event of the journal, and what waits now."""
    outcomes: list[object] = []
    before: int | None = None
    while page := await host.bus.journal(Topic.RUN_COMMITTED, limit=PAGE, before=before):
        new = [each for each in page if each.id > last_id]
        outcomes += [(each.payload or {}).get("outcome") for each in new]
        before = page[-1].id
        if len(new) < len(page):
            break
    waiting = len(await host.attention(limit=ATTENTION_MAX))
    return Drained(len(outcomes), outcomes.count(Outcome.APPLIED), waiting)
