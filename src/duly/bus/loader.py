"""Bringing the extensions of a folder to life, and to their end (B9, B13).

Law 1: one broken extension is reported, by its id and the stage it broke at, and is nobody else's
       trouble but theirs who depend on it.
Law 2: every subscription of every manifest is written down before any extension's code is run.
       What is there for a broken extension waits; it is neither lost nor given to half of it.
Law 3: an extension's modules are its own. Two may both have a `main.py`, and a second host in the
       same process gets modules of its own.

Stages: manifest → dependencies → import → create → agent → initialize → ready.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.machinery import ModuleSpec
from inspect import iscoroutinefunction
from itertools import count
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, Final

from duly.bus.agent import Workshop, ask_agent, choose_provider
from duly.bus.attempt import Handler, describe
from duly.bus.channel import NOTIFY_TOPIC, Channels
from duly.bus.extension import Extension, ExtensionContext, Seat
from duly.bus.line import Line
from duly.bus.manifest import MANIFEST_BYTES, read_manifest
from duly.config import Limits
from duly.env import Env
from duly.errors import ConfigError, DulyError, Invalid, RequestRefused
from duly.rules.announcement import Topic
from duly.rules.delivery import OWN_SOURCE, Event, Retry
from duly.rules.manifest import BuiltIn, Manifest, needs_broken, order
from duly.store import Store

FILE: Final = "manifest.yaml"
FOLDERS_MAX: Final = 200
INITIALIZE_S: Final = 30.0
CLOSE_S: Final = 10.0
GRACE_S: Final = 1.0  # how long what was cancelled may take to end
# A workflow stands still until a person has heard of it, so a chat may be away for hours (F8).
ESCALATION_RETRY: Final = Retry(12, (1, 5, 30, 120, 600, 1800))

log = logging.getLogger("duly.extension")

_numbers = count(1)  # a package's name is never used again in this process


class Stage(StrEnum):
    """How far an extension got when its host opened."""

    MANIFEST = "manifest"
    DEPENDENCIES = "dependencies"
    IMPORT = "import"
    CREATE = "create"
    AGENT = "agent"
    INITIALIZE = "initialize"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class ExtensionReport:
    """An extension and how far it got; one whose manifest cannot be read goes by its folder."""

    id: str
    name: str
    version: str
    stage: Stage
    error: str | None = None


@dataclass(slots=True)
class _Candidate:
    """One extension on its way; `error` ends it at its stage."""

    manifest: Manifest
    folder: Path
    seat: Seat
    stage: Stage = Stage.MANIFEST
    error: str | None = None
    package: str = ""
    instance: Extension | None = None

    @property
    def report(self) -> ExtensionReport:
        """What a person is told of it."""
        own = self.manifest
        return ExtensionReport(own.id, own.name, own.version, self.stage, self.error)


class Loader:
    """The extensions of one host."""

    def __init__(
        self,
        folder: Path | None,
        *,
        env: Env,
        store: Store,
        line: Line,
        reserve: Callable[[str], Line],
        channels: Channels,
        workshop: Workshop,
        limits: Limits,
    ) -> None:
        self._folder = folder
        self._env = env
        self._store = store
        self._line = line
        self._reserve = reserve
        self._channels = channels
        self._workshop = workshop
        self._limits = limits
        self._unread: list[ExtensionReport] = []
        self._candidates: dict[str, _Candidate] = {}

    @property
    def reports(self) -> tuple[ExtensionReport, ...]:
        """How far each extension got, by id."""
        reports = [*self._unread, *(each.report for each in self._candidates.values())]
        return tuple(sorted(reports, key=lambda each: each.id))

    async def open(self) -> None:
        """Load every extension as far as it gets (law 1)."""
        await self._listen_for_the_user()
        if self._folder is None:
            return
        folder = self._folder
        manifests = self._read(await self._env.call_blocking(lambda: _scan(folder)))
        await self._wire(manifests)
        importlib.invalidate_caches()
        for each in self._candidates.values():
            self._step(each, Stage.IMPORT, partial(_import, each))
            self._step(each, Stage.CREATE, partial(_create, each))
            self._step(each, Stage.AGENT, partial(self._check_agent, each))
        for each in self._candidates.values():
            await self._initialize(each)
        for report in self.reports:
            if report.error is not None:
                log.error("extension %s broke at %s: %s", report.id, report.stage, report.error)

    async def close(self) -> None:
        """Close what is ready, the last one first, and let go of the code."""
        for each in reversed(self._candidates.values()):
            if each.stage is Stage.READY and each.instance is not None:
                error = await self._limited(each.instance.close, CLOSE_S, each)
                if error is not None:
                    log.error("extension %s broke when it was closed: %s", each.report.id, error)
            _forget(each.package)

    # -- Manifests and what they subscribe to -----------------------------------------------------

    async def _listen_for_the_user(self) -> None:
        """Bring to the channels what extensions say, what needs a person, and notices (B10, F8)."""
        seat = Seat(OWN_SOURCE, self._line, self._store, self._env, self._limits)
        if self._folder is not None or self._channels.names:
            seat.subscribe(NOTIFY_TOPIC, self._channels.notify_user, BuiltIn.NOTIFY_USER)
        if self._channels.names:
            tell = self._channels.notify_user
            for topic in (Topic.NEEDS_ATTENTION, Topic.NOTICE):
                seat.subscribe(topic, tell, BuiltIn.NOTIFY_USER, ESCALATION_RETRY)
        await seat.keep()
        seat.connect()

    def _read(self, found: dict[Path, bytes | str]) -> dict[Path, Manifest]:
        manifests: dict[Path, Manifest] = {}
        for folder, data in found.items():
            try:
                if isinstance(data, str):
                    raise Invalid(data)
                manifests[folder] = read_manifest(data, self._limits)
            except Invalid as error:
                self._leave_out(folder, folder.name, f"{folder.name}/{FILE}: {error}")
        return self._refuse_twins(manifests)

    def _refuse_twins(self, manifests: dict[Path, Manifest]) -> dict[Path, Manifest]:
        """Leave out all who share an id: state and source belong to it, and nobody knows whose."""
        holders: dict[str, list[Path]] = {}
        for folder, manifest in manifests.items():
            holders.setdefault(manifest.id, []).append(folder)
        for extension_id, folders in holders.items():
            if len(folders) == 1:
                continue
            names = " and ".join(each.name for each in folders)
            for folder in folders:
                del manifests[folder]
                error = f'manifest.id is "{extension_id}" in {names}. Rename all but one.'
                self._leave_out(folder, extension_id, f"{folder.name}/{FILE}: {error}")
        return manifests

    def _leave_out(self, folder: Path, extension_id: str, error: str) -> None:
        self._unread.append(ExtensionReport(extension_id, folder.name, "", Stage.MANIFEST, error))

    async def _wire(self, manifests: dict[Path, Manifest]) -> None:
        """Write down what every manifest subscribes to, before any code is run (law 2)."""
        planned = order(manifests.values())
        folders = {manifest.id: folder for folder, manifest in manifests.items()}
        known = {manifest.id: manifest for manifest in manifests.values()}
        for extension_id in (*(each.id for each in planned.loads), *planned.left_out):
            manifest = known[extension_id]
            line = self._reserve(extension_id)
            seat = Seat(extension_id, line, self._store, self._env, self._limits)
            for each in manifest.subscribes:
                if each.handler is not BuiltIn.CUSTOM:
                    handler = self._handler(manifest, each.handler, line)
                    seat.subscribe(each.topic, handler, each.handler)
            candidate = _Candidate(manifest, folders[extension_id], seat, Stage.DEPENDENCIES)
            candidate.error = planned.left_out.get(extension_id)
            await self._keep(candidate, Stage.MANIFEST)
            self._candidates[extension_id] = candidate

    async def _keep(self, each: _Candidate, stage: Stage) -> None:
        """Write down what an extension asked for; a name that is in use breaks nobody else."""
        try:
            await each.seat.keep()
        except (Invalid, RequestRefused) as refusal:
            if each.error is None:
                each.stage, each.error = stage, str(refusal)

    def _handler(self, manifest: Manifest, handler: BuiltIn, line: Line) -> Handler:
        if handler is BuiltIn.NOTIFY_USER:
            return self._channels.notify_user

        async def invoke_agent(event: Event) -> None:
            say = partial(line.emit, NOTIFY_TOPIC, source=manifest.id)
            await ask_agent(manifest, event, self._instances(), say, self._workshop)

        return invoke_agent

    def _instances(self) -> dict[str, object]:
        return {
            extension_id: each.instance
            for extension_id, each in self._candidates.items()
            if each.error is None and each.instance is not None
        }

    # -- From code to a ready extension -----------------------------------------------------------

    def _may_go_on(self, each: _Candidate) -> bool:
        """Tell whether an extension goes on; whoever needs a broken one does not (law 1)."""
        if each.error is not None:
            return False
        broken = [
            needed
            for needed in each.manifest.depends_on
            if self._candidates[needed].error is not None
        ]
        if broken:
            each.stage = Stage.DEPENDENCIES
            each.error = needs_broken(each.manifest.depends_on, broken)
        return not broken

    def _step(self, each: _Candidate, stage: Stage, work: Callable[[], None]) -> None:
        """Go one stage further, whatever the extension's code raises; a person's Ctrl-C goes on."""
        if not self._may_go_on(each):
            return
        each.stage = stage
        try:
            work()
        except DulyError as error:
            each.error = str(error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            each.error = _blame(error, each.folder)

    def _check_agent(self, each: _Candidate) -> None:
        if any(one.handler is BuiltIn.INVOKE_AGENT for one in each.manifest.subscribes):
            choose_provider(each.manifest, self._instances())

    async def _initialize(self, each: _Candidate) -> None:
        if not self._may_go_on(each):
            return
        assert each.instance is not None, each
        each.stage = Stage.INITIALIZE
        context = ExtensionContext(each.manifest.id, each.manifest.config, each.seat)
        work = partial(each.instance.initialize, context)
        each.error = await self._limited(work, INITIALIZE_S, each)
        await self._keep(each, Stage.INITIALIZE)
        self._step(each, Stage.INITIALIZE, each.seat.connect)
        if each.error is None:
            each.stage = Stage.READY

    async def _limited(
        self, work: Callable[[], Coroutine[Any, Any, None]], limit_s: float, each: _Candidate
    ) -> str | None:
        """Run an extension's coroutine; answer what was wrong with it, if anything was."""
        raised: list[BaseException] = []

        async def run() -> None:
            try:
                await work()
            except BaseException as error:
                # Also SystemExit: asyncio would let it end the loop.
                raised.append(error)

        task = self._env.spawn(run(), f"extension {each.manifest.id}")
        try:
            await asyncio.wait((task,), timeout=limit_s)
        finally:
            is_late = not task.done()
            task.cancel()
        if not is_late:
            return _blame(raised[0], each.folder) if raised else None
        await asyncio.wait((task,), timeout=GRACE_S)
        left = "" if task.done() else " and does not end when it is cancelled"
        return f"It took longer than {limit_s:g} s{left}. Start what takes long in a task."


# -- Files and modules ----------------------------------------------------------------------------


def list_ids(folder: Path, limits: Limits) -> tuple[str, ...]:
    """List the ids of a folder's extensions off their manifests; none of their code is run."""
    ids = []
    for data in _scan(folder).values():
        with suppress(Invalid):  # What nobody can read is nobody's name.
            if isinstance(data, bytes):
                ids.append(read_manifest(data, limits).id)
    return tuple(ids)


def _scan(folder: Path) -> dict[Path, bytes | str]:
    """Read the manifest of every folder in a folder; where that fails, say why."""
    if not folder.is_dir():
        raise ConfigError(f"extensions: {folder} is no folder. Give the folder they stand in.")
    found = sorted(
        each for each in folder.iterdir() if each.is_dir() and not each.name.startswith((".", "_"))
    )
    if len(found) > FOLDERS_MAX:
        raise ConfigError(f"extensions: {folder} holds more than {FOLDERS_MAX} folders.")
    return {each: _read_file(each / FILE) for each in found}


def _read_file(path: Path) -> bytes | str:
    if not path.is_file():
        return "There is no such file. Write one, or move the folder elsewhere."
    try:
        with path.open("rb") as file:
            return file.read(MANIFEST_BYTES + 1)
    except OSError as error:
        return f"It cannot be read: {error.strerror}."


def _import(each: _Candidate) -> None:
    """Import the entrypoint's module as part of a package that is the extension's folder."""
    each.package = f"duly_extension_{next(_numbers)}"
    package = ModuleType(each.package)
    package.__path__ = [str(each.folder)]
    package.__spec__ = ModuleSpec(each.package, None, is_package=True)
    sys.modules[each.package] = package
    name = f"{each.package}.{each.manifest.module}"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not _is_in(name, error.name or ""):
            raise  # its module is there; what that one imports is not
        raise Invalid(
            f"There is no module {each.manifest.module} in {each.folder.name}. See its entrypoint."
        ) from None
    if not _lies_in(module.__file__ or "", each.folder.resolve()):
        raise Invalid(f"The module {each.manifest.module} lies outside of {each.folder.name}.")


def _create(each: _Candidate) -> None:
    module = sys.modules[f"{each.package}.{each.manifest.module}"]
    kind = getattr(module, each.manifest.class_name, None)
    name = each.manifest.class_name
    if kind is None:
        raise Invalid(f"The module {each.manifest.module} has no class {name}. See its entrypoint.")
    if not isinstance(kind, type) or not issubclass(kind, Extension):
        raise Invalid(f"{name} is no extension. Derive it from duly.Extension.")
    for method in ("initialize", "close"):
        if not iscoroutinefunction(getattr(kind, method)):
            raise Invalid(f"{name}.{method} is not async. Write `async def {method}`.")
    each.instance = kind()


def _forget(package: str) -> None:
    """Let go of an extension's modules; its name is never used again."""
    for name in [each for each in sys.modules if package and _is_in(each, package)]:
        del sys.modules[name]


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _blame(error: BaseException, folder: Path) -> str:
    """Say what was raised, and the last line of the extension's own that led to it."""
    frames = [
        frame
        for frame in extract_tb(error.__traceback__)
        if _lies_in(frame.filename, folder.resolve())
    ]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{describe(error)}{where}"


def _lies_in(file: str, folder: Path) -> bool:
    return Path(file).resolve().is_relative_to(folder)
