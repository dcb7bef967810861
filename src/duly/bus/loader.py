"""Bringing the extensions of a folder to life, and to their end (B9, B13).

Law 1: one broken extension is reported, by its id and the stage it broke at. Only the extensions
       that depend on it break with it.
Law 2: every subscription of every manifest is written down before any extension's code is run.
       What is there for a broken extension waits; it is neither lost nor given to half of it.
Law 3: an extension's modules are its own. Two may both have a `main.py`, and a second host in the
       same process gets modules of its own.

Law 4: an extension is any class with `async def initialize(self, context)`. An agent may be a
       manifest alone, if another extension answers for it.

Stages: manifest → dependencies → import → create → agent → initialize → ready.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from inspect import iscoroutinefunction, signature
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from duly.bus.agent import AgentProvider, Corrections, ask_agent, choose_provider, no_model
from duly.bus.attempt import Handler
from duly.bus.channel import NOTIFY_TOPIC, SEND_S, Channels
from duly.bus.code import FILE, blame, forget, import_from, scan
from duly.bus.extension import ExtensionContext, ExtensionPort
from duly.bus.manifest import read_manifest
from duly.bus.publisher import DEFAULT_RETRY, Publisher
from duly.config import Limits
from duly.env import Env
from duly.errors import DulyError, Invalid, RequestRefused
from duly.rules.announcement import Topic
from duly.rules.delivery import ERROR_CHARS, OWN_SOURCE, Event, Retry
from duly.rules.manifest import BuiltIn, Manifest, needs_broken, order
from duly.rules.redaction import Redactor, redact_text
from duly.rules.shown import cut, visible
from duly.store import Store

INITIALIZE_S: Final = 30.0
CLOSE_S: Final = 10.0
GRACE_S: Final = 1.0  # how long what was cancelled may take to end
# A workflow stands still until a person has heard of it, so a chat may be away for hours (F8).
ESCALATION_RETRY: Final = Retry(12, (1, 5, 30, 120, 600, 1800))

log = logging.getLogger("duly.extension")


class LoadStage(StrEnum):
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
    stage: LoadStage
    error: str | None = None


@dataclass(slots=True)
class _Candidate:
    """One extension on its way; `error` ends it at its stage."""

    manifest: Manifest
    folder: Path
    seat: ExtensionPort
    stage: LoadStage = LoadStage.MANIFEST
    error: str | None = None
    package: str = ""
    code: ModuleType | None = None
    instance: Any = None  # of any class that has an `initialize`

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
        publisher: Publisher,
        reserve: Callable[[str], Publisher],
        channels: Channels,
        workshop: Corrections,
        limits: Limits,
        secrets: Redactor,
        find_model: Callable[[Manifest], AgentProvider | None] = no_model,
    ) -> None:
        self._folder = folder
        self._find_model = find_model
        self._secrets = secrets
        self._env = env
        self._store = store
        self._publisher = publisher
        self._reserve = reserve
        self._channels = channels
        self._workshop = workshop
        self._limits = limits
        self._unread: list[ExtensionReport] = []
        self._candidates: dict[str, _Candidate] = {}
        self._known: set[str] = set()  # the subscribers from before this host opened

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
        manifests = self._read(await self._env.call_blocking(lambda: scan(folder)))
        await self._wire(manifests)
        importlib.invalidate_caches()
        for each in self._candidates.values():
            if each.manifest.module is not None:
                self._step(each, LoadStage.IMPORT, partial(_import, each))
                self._step(each, LoadStage.CREATE, partial(_create, each))
            self._step(each, LoadStage.AGENT, partial(self._check_agent, each))
        for each in self._candidates.values():
            await self._initialize(each)
        for report in self.reports:
            if report.error is not None:
                told = visible(report.error)
                log.error("extension %s broke at %s: %s", report.id, report.stage, told)

    async def close(self) -> None:
        """Close what is ready, the last one first, and let go of the code."""
        for each in reversed(self._candidates.values()):
            close = getattr(each.instance, "close", None)
            if each.stage is LoadStage.READY and close is not None:
                error = await self._limited(close, CLOSE_S, each)
                if error is not None:
                    told = visible(error)
                    log.error("extension %s broke when it was closed: %s", each.report.id, told)
            forget(each.package)

    # -- Manifests and what they subscribe to -----------------------------------------------------

    async def _listen_for_the_user(self) -> None:
        """Bring to the channels what extensions say, what needs a person, and notices (B10, F8)."""
        self._known = {each.subscriber_id for each in await self._store.list_subscriptions()}
        seat = ExtensionPort(OWN_SOURCE, self._publisher, self._store, self._env, self._limits)
        if self._folder is not None or self._channels.names:
            self._notify(seat, NOTIFY_TOPIC, DEFAULT_RETRY)
        if self._channels.names:
            for topic in (Topic.NEEDS_ATTENTION, Topic.NOTICE):
                self._notify(seat, topic, ESCALATION_RETRY)
        await seat.keep()
        seat.connect()

    def _notify(self, seat: ExtensionPort, topic: str, retry: Retry) -> None:
        """Subscribe the channels: the first one for all, and every other one for its own (B9).

        One that had its own subscriber before keeps it, also if it is the first or gone by now:
        what waits for it must be sent, or fail in sight.
        """
        base = f"{seat.extension_id}:{topic}:{BuiltIn.NOTIFY_USER}."
        left = {name.removeprefix(base) for name in self._known if name.startswith(base)}
        own = sorted(left.union(self._channels.names[1:]))

        kept: dict[str, Any] = {"timeout_s": SEND_S, "is_wired": True}
        send = self._channels.notify_user
        seat.subscribe(topic, send, BuiltIn.NOTIFY_USER, retry, channel="", **kept)
        for each in own:
            seat.subscribe(
                topic, send, f"{BuiltIn.NOTIFY_USER}.{each}", retry, channel=each, **kept
            )

    def _read(self, found: dict[Path, bytes | Invalid]) -> dict[Path, Manifest]:
        manifests: dict[Path, Manifest] = {}
        for folder, data in found.items():
            try:
                if isinstance(data, Invalid):
                    raise data
                manifests[folder] = read_manifest(data, self._limits)
            except Invalid as error:
                self._leave_out(folder, folder.name, f"{folder.name}/{FILE}: {error}")
        return self._refuse_twins(manifests)

    def _refuse_twins(self, manifests: dict[Path, Manifest]) -> dict[Path, Manifest]:
        """Leave out extensions that share an id, in any case: the id names their stored state."""
        holders: dict[str, list[Path]] = {}
        for folder, manifest in manifests.items():
            holders.setdefault(manifest.id.casefold(), []).append(folder)
        for folders in holders.values():
            if len(folders) == 1:
                continue
            names = " and ".join(each.name for each in folders)
            for folder in folders:
                extension_id = manifests.pop(folder).id
                error = f'manifest.id is "{extension_id}" in {names}. Rename all but one.'
                self._leave_out(folder, extension_id, f"{folder.name}/{FILE}: {error}")
        return manifests

    def _leave_out(self, folder: Path, extension_id: str, error: str) -> None:
        self._unread.append(
            ExtensionReport(extension_id, folder.name, "", LoadStage.MANIFEST, error)
        )

    async def _wire(self, manifests: dict[Path, Manifest]) -> None:
        """Write down what every manifest subscribes to, before any code is run (law 2)."""
        planned = order(manifests.values())
        folders = {manifest.id: folder for folder, manifest in manifests.items()}
        known = {manifest.id: manifest for manifest in manifests.values()}
        for extension_id in (*(each.id for each in planned.loads), *planned.left_out):
            manifest = known[extension_id]
            publisher = self._reserve(extension_id)
            seat = ExtensionPort(extension_id, publisher, self._store, self._env, self._limits)
            for each in manifest.subscribes:
                if each.handler is BuiltIn.NOTIFY_USER:
                    self._notify(seat, each.topic, DEFAULT_RETRY)
                elif each.handler is BuiltIn.INVOKE_AGENT:
                    handler = self._asker(manifest, publisher)
                    seat.subscribe(each.topic, handler, each.handler, is_wired=True)
            candidate = _Candidate(manifest, folders[extension_id], seat, LoadStage.DEPENDENCIES)
            left_out = planned.left_out.get(extension_id)
            candidate.error = None if left_out is None else str(left_out)
            await self._keep(candidate, LoadStage.MANIFEST)
            self._candidates[extension_id] = candidate

    async def _keep(self, each: _Candidate, stage: LoadStage) -> None:
        """Write an extension's subscriptions; a name that is in use breaks this extension only."""
        try:
            await each.seat.keep()
        except (Invalid, RequestRefused) as refusal:
            if each.error is None:
                each.stage, each.error = stage, str(refusal)

    def _asker(self, manifest: Manifest, publisher: Publisher) -> Handler:
        async def invoke_agent(event: Event) -> None:
            say = partial(publisher.emit, NOTIFY_TOPIC, source=manifest.id)
            known = self._instances()
            await ask_agent(manifest, event, known, say, self._workshop, self._find_model)

        return invoke_agent

    def _instances(self) -> dict[str, object]:
        return {
            extension_id: each.instance
            for extension_id, each in self._candidates.items()
            if each.error is None and each.instance is not None
        }

    # -- From code to a ready extension -----------------------------------------------------------

    def _may_go_on(self, each: _Candidate) -> bool:
        """Tell whether an extension goes on; one that needs a broken one does not (law 1)."""
        if each.error is not None:
            return False
        broken = [
            needed
            for needed in each.manifest.depends_on
            if self._candidates[needed].error is not None
        ]
        if broken:
            each.stage = LoadStage.DEPENDENCIES
            each.error = str(needs_broken(each.manifest.depends_on, broken))
        return not broken

    def _step(self, each: _Candidate, stage: LoadStage, work: Callable[[], None]) -> None:
        """Go one stage further; keep any error of the extension's code; let Ctrl-C through."""
        if not self._may_go_on(each):
            return
        each.stage = stage
        try:
            work()
        except DulyError as error:
            each.error = cut(redact_text(str(error), self._secrets), ERROR_CHARS)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            each.error = blame(error, each.folder, self._secrets)

    def _check_agent(self, each: _Candidate) -> None:
        is_asked = any(one.handler is BuiltIn.INVOKE_AGENT for one in each.manifest.subscribes)
        if is_asked or each.manifest.module is None:
            choose_provider(each.manifest, self._instances(), self._find_model)

    async def _initialize(self, each: _Candidate) -> None:
        if not self._may_go_on(each):
            return
        each.stage = LoadStage.INITIALIZE
        if each.instance is not None:  # an agent may be a manifest alone
            context = ExtensionContext(each.manifest.id, each.manifest.config, each.seat)
            work = partial(each.instance.initialize, context)
            each.error = await self._limited(work, INITIALIZE_S, each)
        await self._keep(each, LoadStage.INITIALIZE)
        self._step(each, LoadStage.INITIALIZE, each.seat.connect)
        if each.error is None:
            each.stage = LoadStage.READY

    async def _limited(
        self, work: Callable[[], Coroutine[Any, Any, None]], limit_s: float, each: _Candidate
    ) -> str | None:
        """Run an extension's coroutine; return what was wrong with it, if anything was."""
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
            return blame(raised[0], each.folder, self._secrets) if raised else None
        await asyncio.wait((task,), timeout=GRACE_S)
        left = "" if task.done() else " and does not end when it is cancelled"
        return f"It took longer than {limit_s:g} s{left}. Start what takes long in a task."


# -- Files and modules ----------------------------------------------------------------------------


def _import(each: _Candidate) -> None:
    each.package, each.code = import_from(each.folder, each.manifest.module or "")


def list_ids(folder: Path, limits: Limits) -> tuple[str, ...]:
    """List the ids of a folder's extensions off their manifests; none of their code is run."""
    ids = []
    for data in scan(folder).values():
        with suppress(Invalid):  # A manifest that cannot be read names no extension.
            if isinstance(data, bytes):
                ids.append(read_manifest(data, limits).id)
    return tuple(ids)


def _create(each: _Candidate) -> None:
    """Make the extension: any class with `async def initialize(self, context)` is one (B9)."""
    assert each.code is not None, each
    name = each.manifest.class_name or ""
    kind = getattr(each.code, name, None)
    if kind is None:
        raise Invalid(code="no_class", subject=name, facts={"module": each.manifest.module})
    if not isinstance(kind, type) or not callable(getattr(kind, "initialize", None)):
        raise Invalid(code="not_extension", subject=name)
    for method, given in (("initialize", ("self", "context")), ("close", ("self",))):
        found = getattr(kind, method, None)
        if found is None:
            continue
        if not iscoroutinefunction(found):
            raise Invalid(code="not_async", subject=f"{name}.{method}")
        try:
            signature(found).bind(*given)
        except TypeError:
            raise Invalid(
                code="other_arguments", subject=f"{name}.{method}", facts={"wanted": [*given]}
            ) from None
    each.instance = kind()
