"""`duly dev`: `duly serve`, and every workflow file is deployed when it is saved.

Law 1  A file is taken up when it rests: two looks in a row saw the same size and time. What is half
       written is never deployed.
Law 2  A save that is refused, for an error or a warning, changes nothing: the version that was
       active goes on, and that is said.
Law 3  What was deployed already is not deployed again: a start makes no version.
Law 4  Nothing is done again because a name was changed: such a save is refused, and `duly deploy
       --replay` is for who wants it (W9).
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from duly.api.text import visible
from duly.api.word import REPLAYS
from duly.errors import DulyError, NotDeployed
from duly.faces.cli.base import Face, pass_face
from duly.faces.cli.offer import quote
from duly.faces.cli.serve import serve_project
from duly.faces.cli.shown import page_options, read_page

if TYPE_CHECKING:
    from duly.api.project import Project
    from duly.host import Host

LOOK_S: Final = 0.5
FILES_MAX: Final = 1000

log = logging.getLogger("duly.dev")

Seal = tuple[int, int]  # when a file was changed, in nanoseconds, and its size in bytes


@click.command()
@click.option("--no-grant", is_flag=True, help="Do not allow what a file uses; grant it yourself.")
@click.option("--lenient", is_flag=True, help="Let warnings pass; only errors refuse a file.")
@click.option("--verbose", "-v", is_flag=True, help="Log everything, also what changed nothing.")
@page_options
@pass_face
def dev(
    face: Face,
    no_grant: bool,
    lenient: bool,
    verbose: bool,
    no_page: bool,
    page_port: int | None,
) -> None:
    """Run the host and deploy each workflow file when it is saved.

    A file with an error or a warning is refused, and the version that was active goes on.
    Every capability a file uses is granted to it, unless --no-grant. Code of extensions and
    connectors, and duly.toml, are read at the start only.

    \b
    Example: duly dev
    """
    from duly.api.wire import name_user

    by = name_user(os.geteuid())
    watch = Watch(face.project, by, is_granted=not no_grant, is_strict=not lenient)
    page = read_page(face.project, no_page=no_page, port=page_port)
    serve_project(face, page, verbose=verbose, quiet=False, beside=watch.run)


@dataclass(slots=True)
class Watch:
    """Looks at the project's files, and deploys what was saved."""

    project: Project
    by: str
    is_granted: bool = True
    is_strict: bool = True
    _taken: dict[Path, Seal] = field(default_factory=dict)
    _seen: dict[Path, Seal] = field(default_factory=dict)
    _names: dict[Path, str] = field(default_factory=dict)  # of the workflow in each file
    _code: dict[Path, Seal] = field(default_factory=dict)

    async def run(self, host: Host) -> None:
        """Watch for as long as the host serves."""
        env = host.clock
        folder = self.project.workflows
        log.info("Watching %s; a file is deployed when it is saved", folder)
        if self.is_granted:
            log.info("Every file is granted what it uses (--no-grant)")
        self._code = await env.call_blocking(self._look_at_code)
        while True:
            now = await env.call_blocking(lambda: look_at(_sources(folder)))
            try:
                await self.look(host, now)
            except DulyError as error:
                # The store is in trouble; the engine goes on (H3).
                log.warning("%s", visible(error))
            self._tell_code(await env.call_blocking(self._look_at_code))
            await env.sleep(LOOK_S)

    async def look(self, host: Host, now: dict[Path, Seal]) -> None:
        """Deploy what rests and is not what was taken up last; say what is gone."""
        for path, seal in now.items():
            if self._seen.get(path) == seal and self._taken.get(path) != seal:
                self._taken[path] = seal
                await self._take_up(host, path)
        for path in self._taken.keys() - now.keys():
            del self._taken[path]
            name = self._names.pop(path, None)
            if name is not None:
                log.warning(
                    "%s is gone; %s goes on as it was. `duly remove` takes it out of service.",
                    path.name,
                    visible(name),
                )
        self._seen = now

    async def _take_up(self, host: Host, path: Path) -> None:
        from duly.api.aside import read_source
        from duly.api.word import Source

        limits = self.project.config.policy.limits
        try:
            read = read_source(str(path), language=None, most_bytes=limits.source_bytes)
        except DulyError as error:
            log.warning("%s", visible(error))
            return
        source = Source(read.language, read.text, self._call(path), _whole(path))
        is_granted, is_strict = self.is_granted, self.is_strict
        try:
            deployed = await host.deploy(
                source, by=self.by, grant=is_granted, strict=is_strict, again=False
            )
        except NotDeployed as error:
            self._tell_refused(path, error)
        except DulyError as error:
            log.warning("%s was not deployed: %s", path.name, visible(error))
        else:
            self._note(path, deployed.workflow)
            if not deployed.new:
                log.info("%s: %s is active already", path.name, visible(deployed.workflow))
            for finding in deployed.findings:
                log.warning("%s", visible(finding))

    def _note(self, path: Path, name: str) -> None:
        """Remember whose file this is; warn of two files that replace each other."""
        for other, taken in self._names.items():
            if taken == name and other != path:
                log.warning("%s and %s both declare %s", other.name, path.name, visible(name))
        self._names[path] = name

    def _call(self, path: Path) -> str:
        """Answer what a person calls a file: as seen from the project's folder."""
        return os.path.relpath(path, self.project.folder)

    def _tell_refused(self, path: Path, error: NotDeployed) -> None:
        for finding in error.findings:
            log.warning("%s", visible(finding))
        if not error.findings:
            log.warning("%s", visible(error))
        name = self._names.get(path)
        if any(getattr(each, "rule", None) in REPLAYS for each in error.findings):
            log.warning(
                "%s was refused: under its new names it would do everything again. Take the old"
                " names, or stop and say `duly deploy --replay %s`.",
                path.name,
                quote(self._call(path)),
            )
            return
        goes_on = (
            f"{visible(name)} goes on as it was" if name else "nothing of what it says now runs"
        )
        log.warning("%s was refused; %s. Correct it and save it again.", path.name, goes_on)

    # -- What needs a restart ---------------------------------------------------------------------

    def _look_at_code(self) -> dict[Path, Seal]:
        project = self.project
        watched: list[Path] = [] if project.file is None else [project.file]
        if project.config.extensions is not None:
            folder = project.folder / project.config.extensions
            # What is moved away while we look is seen the next time.
            with suppress(OSError):
                watched += [*folder.rglob("*.py"), *folder.rglob("manifest.yaml")]
        return look_at(watched)

    def _tell_code(self, now: dict[Path, Seal]) -> None:
        changed = {path for path, seal in now.items() if self._code.get(path) != seal}
        changed |= self._code.keys() - now.keys()
        if changed:
            names = ", ".join(sorted(path.name for path in changed))
            log.warning("%s changed, which is read at the start only: stop and start again", names)
        self._code = now


def _whole(path: Path) -> str:
    """Answer where a file lies, by which its next version is known to be of the same file (W9)."""
    return str(path.resolve())


def look_at(paths: Iterable[Path]) -> dict[Path, Seal]:
    """Answer when each file was changed, and how long it is; what cannot be seen is not there."""
    found: dict[Path, Seal] = {}
    for path in sorted(paths)[:FILES_MAX]:
        try:
            status = path.stat()
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode):
            continue  # opening a pipe waits for its other end, and the host would wait too
        found[path] = (status.st_mtime_ns, status.st_size)
    return found


def _sources(folder: Path) -> list[Path]:
    """List the sources in the folder itself; what begins with a dot is an editor's."""
    from duly.api.word import SUFFIXES

    try:
        inside = [*folder.iterdir()]
    except OSError:
        return []
    return [path for path in inside if path.suffix in SUFFIXES and path.name[0] not in "._"]
