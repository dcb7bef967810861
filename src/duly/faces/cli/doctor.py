"""`duly doctor`: whether this machine and this project have what a host needs.

Law 1  Every line says one thing that was tried just now, and what to do where it is not well.
Law 2  Nothing is repaired, and nothing is made that was not there: a project without a store has
       none afterwards.
Law 3  One thing that is bad keeps no other from being looked at.
"""

from __future__ import annotations

import platform
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, cast

import click

from duly.api.text import visible
from duly.errors import DulyError, NotFound
from duly.faces.cli.base import (
    EXIT_FAILED,
    OTHER_SETTINGS,
    Face,
    echo_json,
    json_option,
    pass_face,
    run,
)
from duly.faces.cli.check import paint
from duly.faces.cli.finding import Finding, State
from duly.faces.cli.offer import quote
from duly.faces.cli.progress import working
from duly.faces.cli.server import judge
from duly.words.asking import say_fault

if TYPE_CHECKING:
    from duly.api.project import Project
    from duly.api.session import Session

MIB: Final = 1024 * 1024
FREE_BAD_BYTES: Final = 64 * MIB
FREE_LOW_BYTES: Final = 1024 * MIB
# No clock that is right shows a time before this was written, in milliseconds since 1970 UTC.
NO_EARLIER_MS: Final = 1_767_225_600_000  # 2026-01-01
AHEAD_MAX_MS: Final = 300_000
CHANNELS: Final = "channels"  # what the secrets of channels are kept under
TOKEN: Final = "token"
PACKAGES: Final = {
    "apsw": "SQLite",
    "quickjs-ng": "the JavaScript interpreter",
    "pydantic-monty": "the Python interpreter",
}
PROBES: Final = {
    "python": "from duly import workflow\n\nflow = workflow('doctor', topics=['said'])\n\n\n"
    "@flow.producer(every='1h')\nasync def look(ctx, state):\n    return state\n",
    "javascript": "export default Keep.workflow({name: 'doctor', topics: ['said'],"
    " producers: {look: async (ctx, state) => state}});\n",
}


SET_UP_ADVICE: Final = "Correct it, then ask again: duly doctor"
COLOURS: Final = {State.OK: "green", State.WARN: "yellow", State.BAD: "red"}


@click.command()
@json_option
@pass_face
def doctor(face: Face) -> None:
    """Check this machine and this project; fails with status 1 if something is bad.

    \b
    Example: duly doctor
    """
    with working("looking at everything"):
        findings = run(_gather(face))
    if face.is_json:
        echo_json([asdict(each) for each in findings])
    else:
        for each in findings:
            mark = paint(f"{each.state:<5}", fg=COLOURS[each.state])
            click.echo(f"{mark} {each.what:<14} {visible(each.sentence)}")
            if each.advice:
                click.echo(f"{'':20} {visible(each.advice)}")
        click.echo(_sum_up(findings))
    if any(each.state is State.BAD for each in findings):
        raise click.exceptions.Exit(EXIT_FAILED)


def _sum_up(findings: list[Finding]) -> str:
    bad = sum(each.state is State.BAD for each in findings)
    warned = sum(each.state is State.WARN for each in findings)
    if not bad and not warned:
        return "All is well."
    return f"{bad} bad, {warned} to look at, {len(findings) - bad - warned} well."


async def _gather(face: Face) -> list[Finding]:
    findings = [*_versions(), *_user(), _clock()]
    try:
        project = face.project
    except DulyError as error:
        return [*findings, Finding("settings", State.BAD, str(error), "Correct the file.")]
    findings.append(_settings(project))
    findings += [each async for each in _tools(project)]
    findings += [*_place(project), *_modes(project), *judge(project)]
    findings += [each async for each in _store(face, project)]
    return findings


# -- The machine ----------------------------------------------------------------------------------


def _versions() -> Iterator[Finding]:
    from duly import __version__
    from duly.api.machine import list_missing_locks

    python = platform.python_version()
    yield Finding("duly", State.OK, f"{__version__} on Python {python}, {platform.platform()}.")
    yield tell_system(sys.platform, list_missing_locks())
    for package, what in PACKAGES.items():
        try:
            yield Finding(package, State.OK, f"{metadata.version(package)}: {what}.")
        except metadata.PackageNotFoundError:
            yield Finding(package, State.BAD, f"{what} is missing.", f"pip install {package}")


def tell_system(name: str, missing: tuple[str, ...] = ()) -> Finding:
    """Say what works on a system, and what the sandbox is there."""
    if name == "linux" and not missing:
        said = "Linux: everything works; the kernel locks every script's process."
        return Finding("system", State.OK, said)
    said = "no lock of the kernel: the interpreter and the limits are the only walls of a script."
    works = f"{'macOS' if name == 'darwin' else name}: everything but `duly service`, and {said}"
    if name == "linux":
        works = f"Linux without {', '.join(missing)}: everything, and {said}"
    advice = "Run hosts on Linux with its lock. Elsewhere run only scripts that you trust."
    return Finding("system", State.WARN, works, advice)


def _user() -> Iterator[Finding]:
    said = tell_root()
    if said is not None:
        advice = "Run hosts as an ordinary user: then no script ever runs as root."
        yield Finding("user", State.WARN, said, advice)


def tell_root() -> str | None:
    """Say what it means that this host runs as root; None where it does not."""
    from duly.api.machine import StaysRoot, find_root

    match find_root():
        case None:
            return None
        case StaysRoot.EVERY:
            return "This is root, and so is every locked process: this machine gives them no user."
        case StaysRoot.PYTHON:
            return (
                "This is root, and so are the workers of Python scripts: no other user can reach"
                " the interpreter. Every other locked process is a user of its own."
            )
        case StaysRoot.NONE:
            return "This is root; a host needs no privilege. Each locked process has its own user."


def _clock() -> Finding:
    from duly.api.machine import read_clocks

    now_ms, first = read_clocks()
    if now_ms < NO_EARLIER_MS:
        advice = "Set the machine's clock: schedules, lags and approvals are told by it."
        return Finding("clock", State.BAD, "The wall clock stands in the past.", advice)
    if read_clocks()[1] < first:
        return Finding("clock", State.BAD, "The monotonic clock goes back.", "Look at the kernel.")
    return Finding("clock", State.OK, "The wall clock and the monotonic clock run.")


# -- The project ----------------------------------------------------------------------------------


def _settings(project: Project) -> Finding:
    if project.file is None:
        said = f"There is no duly.toml in {project.folder} or above; defaults hold."
        return Finding("settings", State.WARN, said, "`duly init` makes a project that works.")
    return Finding("settings", State.OK, f"{project.file}.")


async def _tools(project: Project) -> AsyncIterator[Finding]:
    """Build the host, and let both interpreters run something behind their lock."""
    from duly.api.aside import open_aside
    from duly.api.tools import find_tools
    from duly.api.word import Language, Source

    try:
        registry = find_tools(project)
    except DulyError as error:
        yield Finding("connectors", State.BAD, str(error), "Correct it in duly.toml.")
        return
    yield _beside(project)
    names = ", ".join(registry.connectors)
    count = len(registry.catalog.tools)
    yield Finding("connectors", State.OK, f"{names or 'none'}; {count} tools.")
    is_locked = project.config.sandbox.unlocked == "no"
    async with open_aside(project) as host:
        for language, text in PROBES.items():
            try:
                problems = await host.check(Source(Language(language), text, "doctor"))
            except DulyError as error:
                problems = (error,)  # type: ignore[assignment]
            yield _sandbox(language, tuple(problems), is_locked=is_locked)


def _beside(project: Project) -> Finding:
    """Look at what only a serving host has: channels are made, extensions are only found."""
    from duly.api.build import build_host

    try:
        build_host(project)
    except DulyError as error:
        return Finding("channels", State.BAD, str(error), "Correct it in duly.toml.")
    named = project.config.extensions
    if named is not None and not (project.folder / named).is_dir():
        said = f"{project.folder / named}, for the extensions, is no folder."
        return Finding("extensions", State.BAD, said, "Make it, or correct it in duly.toml.")
    names = ", ".join(project.config.channels)
    return Finding("channels", State.OK, f"{names or 'none'}.")


def _sandbox(language: str, problems: tuple[object, ...], *, is_locked: bool) -> Finding:
    from duly.api.machine import list_missing_locks

    if problems:
        missing = ", ".join(list_missing_locks())
        advice = (
            f"Missing here: {missing}."
            if missing
            else "Run the host on Linux 5.13 or newer, as an ordinary user."
        )
        said = " ".join(str(each) for each in problems)
        return Finding("sandbox", State.BAD, f"{language} scripts cannot run: {said}", advice)
    if not is_locked:
        said = f"{language} scripts run, but not locked in: duly.toml accepts that."
        advice = 'Take unlocked = "i-accept" out of [sandbox] where the machine can lock.'
        return Finding("sandbox", State.WARN, said, advice)
    said = f"{language} scripts run; every layer of their lock was tried from inside and held."
    return Finding("sandbox", State.OK, said)


# -- The store ------------------------------------------------------------------------------------


def _place(project: Project) -> Iterator[Finding]:
    folder = project.folder if project.database is None else project.database.parent
    if not folder.is_dir():
        advice = f"mkdir -p {quote(str(folder))}"
        yield Finding("disk", State.BAD, f"{folder}, for the store, is not there.", advice)
        return
    free = shutil.disk_usage(folder).free
    said = f"{free // MIB} MiB are free in {folder}."
    if free < FREE_BAD_BYTES:
        yield Finding("disk", State.BAD, said, "Free some space; a host stops at a full disk.")
    elif free < FREE_LOW_BYTES:
        yield Finding("disk", State.WARN, said, "Free some space soon.")
    else:
        yield Finding("disk", State.OK, said)


def _modes(project: Project) -> Iterator[Finding]:
    """See that the store, its key and its socket are this user's alone."""
    database = project.database
    own = () if database is None else (database, database.with_name(f"{database.name}.key"))
    for path in (*own, project.socket):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if mode & 0o077 and path != database:
            said = f"Others can reach {path} (mode {mode:o})."
            yield Finding("modes", State.BAD, said, f"chmod 600 {quote(str(path))}")
        elif mode & 0o077:
            said = f"Others can read {path} (mode {mode:o})."
            yield Finding("modes", State.WARN, said, f"chmod 600 {quote(str(path))}")
        else:
            yield Finding("modes", State.OK, f"{path.name} is yours alone.")


async def _store(face: Face, project: Project) -> AsyncIterator[Finding]:
    if not project.has_store:
        said = f"There is none yet at {project.place}; the first command makes it."
        yield Finding("store", State.OK, said)
        return
    face.is_quiet = True  # what a session hints at is a finding here
    try:
        async with face.session() as session:
            host = session.host
            if host is not None:
                said = f"`duly serve` runs (process {host.pid}, duly {host.version})."
                yield Finding("host", State.OK, said)
                if host.has_other_settings(project):
                    said, advice = OTHER_SETTINGS.split("; ")
                    yield Finding("settings", State.WARN, f"{said}.", advice.capitalize())
            elif project.socket.exists():
                said = f"{project.socket.name} is left of a host that is gone."
                yield Finding("host", State.WARN, said, "The next `duly serve` replaces it.")
            else:
                yield Finding("host", State.OK, "None is running.")
            if project.database is not None:
                yield _verified(project, cast("Any", await session.call("verify")))
            secrets = cast("list[dict[str, Any]]", await session.call("secrets"))
            for secret in secrets:
                if secret["problem"]:
                    yield Finding("secrets", State.BAD, str(secret["problem"]))
            if project.config.channels:
                channels = cast("list[dict[str, Any]]", await session.call("channels"))
                names = {str(each["name"]) for each in secrets if each["connector"] == CHANNELS}
                for finding in find_channels(channels, names, is_served=host is not None):
                    yield finding
            for name in project.config.connectors:
                for fault in await _find_faults(session, name):
                    yield Finding("connectors", State.BAD, fault, SET_UP_ADVICE)
            actions = cast("list[dict[str, Any]]", await session.call("actions", limit=1))
            if (ahead := _ahead(actions)) is not None:
                yield ahead
    except DulyError as error:
        yield Finding("store", State.BAD, str(error))


async def _find_faults(session: Session, name: str) -> list[str]:
    """Try the set-up of a connection, where that changes nothing outside."""
    try:
        found: Any = await session.call("check_connection", connector=name)
    except NotFound:  # the host that runs does not know it yet
        return []
    return [say_fault(name, each) for each in found["faults"]]


def find_channels(
    channels: list[dict[str, Any]], secrets: set[str], *, is_served: bool
) -> Iterator[Finding]:
    """Say how the channels stand. A host that serves has tried the token of each bot by itself:
    what it found out is told, and nothing outside is reached from here.
    """
    for each in channels:
        name = each["name"]
        if each["problem"]:
            yield Finding("channels", State.BAD, f"{name}: {each['problem']}")
        elif each["pairs"] and f"{name}.{TOKEN}" not in secrets:
            advice = f"duly secret set {CHANNELS} {name}.{TOKEN}"
            yield Finding("channels", State.BAD, f"{name} has no token of a bot.", advice)
        elif each["pairs"] and not any(one["account"] for one in each["accounts"]):
            said = f"{name} asks no person: no account is paired with it."
            yield Finding("channels", State.WARN, said, f"duly channel pair {name} NAME")
        elif each["pairs"] and not is_served:
            said = f"{name} has a token; whether it is good, a host finds out that serves."
            yield Finding("channels", State.OK, said)
        else:
            yield Finding("channels", State.OK, f"{name} works.")


def _verified(project: Project, answer: dict[str, Any]) -> Finding:
    if answer["ok"]:
        return Finding("store", State.OK, f"{project.place} is sound.")
    advice = "Stop the host and restore a backup (docs/operations.md)."
    return Finding("store", State.BAD, " ".join(answer["problems"]), advice)


def _ahead(actions: list[dict[str, Any]]) -> Finding | None:
    """Find a clock that was set back: something in the store is yet to come."""
    from datetime import datetime

    from duly.api.machine import read_clocks

    now_ms, _ = read_clocks()
    for each in actions:
        at_ms = datetime.fromisoformat(str(each["at"])).timestamp() * 1000
        if at_ms > now_ms + AHEAD_MAX_MS:
            said = f"The newest act in the store is of {each['at']}, which is yet to come."
            return Finding("clock", State.WARN, said, "Was the clock set back? Set it right.")
    return None
