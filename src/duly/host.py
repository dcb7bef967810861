"""A host: everything is built here, opened, and closed again; what it can do stands in the desk.

Law 1: nothing runs outside `drain`, `serve` and `running`, except that extensions are initialised
       when the host opens; and no process is started before the first script.
Law 2: closing waits for whatever still works, raises nothing, and leaves no process, task or
       thread behind; a host installs no signal handlers and sets up no logging.
Law 3: a host belongs to the event loop that opened it, and has its store for itself (H1).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from duly.bus.bus import Bus
from duly.bus.cause import follow
from duly.bus.channel import Channel, Channels
from duly.bus.dispatcher import Dispatcher
from duly.bus.line import Line
from duly.bus.loader import ExtensionReport, Loader
from duly.config import BusSettings, Policy, SandboxSettings
from duly.connectors.base import Connector
from duly.connectors.clock import Timed, with_clock
from duly.connectors.registry import Registry
from duly.desk.base import Desk
from duly.desk.commands import Commands
from duly.desk.secret import Vault
from duly.desk.trial import Trials
from duly.desk.upkeep import note_restore
from duly.desk.views import Views
from duly.desk.work import Work
from duly.engine.base import Parts
from duly.engine.proposal import Proposals
from duly.engine.scheduler import Engine
from duly.env import Env, Loop
from duly.errors import ConfigError, RequestRefused
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.repair import Repairer
from duly.rules.schedule import moment
from duly.rules.source import Language, Source
from duly.rules.value import Json
from duly.sandbox.base import Loaded, Missing, Sandbox, Script, World
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool
from duly.sandbox.python import PythonSandbox
from duly.sandbox.slot import RUNNING_MAX, Slots
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from duly.store import Store
from duly.store.sqlite import open_sqlite, path_from_url

DEFAULT_POLICY: Final = Policy()
DEFAULT_SANDBOX: Final = SandboxSettings()
DEFAULT_BUS: Final = BusSettings()

log = logging.getLogger("duly.host")


class Host(Commands, Views, Trials):
    """Runs workflows from one store: `async with duly.Host("sqlite:///duly.db") as host: …`."""

    def __init__(
        self,
        url: str,
        *,
        connectors: Iterable[Connector] = (),
        policy: Policy = DEFAULT_POLICY,
        repairer: Repairer | None = None,
        extensions: str | Path | None = None,
        channels: Iterable[Channel] = (),
        env: Env | None = None,
        sandbox: SandboxSettings = DEFAULT_SANDBOX,
        bus: BusSettings = DEFAULT_BUS,
    ) -> None:
        self._path = _path(url)
        given = with_clock(connectors)
        self._outside = Registry(given)
        self._timed = tuple(each for each in given if isinstance(each, Timed))
        self._policy = policy
        self._repairer = _check_repairer(repairer)
        self._folder = None if extensions is None else Path(extensions)
        self._channels = Channels(channels)
        self._env = env
        self._sandbox = sandbox
        self._bus_settings = bus
        self._open_desk: Desk | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stack = AsyncExitStack()
        self._working: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None

    # -- Opening and closing --------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Open the host."""
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the host."""
        await self.close()

    async def open(self) -> Self:
        """Take the store and build everything that stands on it."""
        if self._open_desk is not None:
            raise RequestRefused("A host is opened once; make another one.")
        async with AsyncExitStack() as stack:
            env = self._env or _own_loop(stack)
            for each in self._timed:
                each.keep_time(env)
            backend = await open_sqlite(self._path, env)
            self._watchers = backend.watchers
            store = Store(backend)
            stack.push_async_callback(_quietly, "the store", store.close)
            await note_restore(store, env)
            sandbox = _build_sandbox(env, self._policy, self._sandbox)
            stack.push_async_callback(_quietly, "the sandbox", sandbox.close)
            parts = Parts(env, store, sandbox, self._outside, self._policy, self._repairer)
            vault = Vault(env, self._outside, self._path)
            await vault.open(store)
            # Strangers: each rings the other by a callable (design §1).
            engine = Engine(parts)
            stack.push_async_callback(_quietly, "the engine", engine.close)
            dispatcher = Dispatcher(
                env,
                store,
                limits=self._policy.limits,
                settings=self._bus_settings,
                entered=engine.wake,
            )
            engine.worked = dispatcher.wake
            stack.push_async_callback(_quietly, "the bus", dispatcher.close)
            bus = Bus(env, store, dispatcher, self._policy.limits)
            self._loader = Loader(
                self._folder,
                env=env,
                store=store,
                line=Line(env, store, dispatcher, self._policy.limits),
                reserve=bus.reserve,
                channels=self._channels,
                workshop=Proposals(parts, partial(follow, store)),
                limits=self._policy.limits,
            )
            stack.push_async_callback(_quietly, "the extensions", self._loader.close)
            await self._loader.open()
            self._stack = stack.pop_all()
        self._loop = asyncio.get_running_loop()
        self._opened_at = moment(env.now_ms())
        self._together = Work(env, engine, dispatcher)
        self._bus = bus
        self._open_desk = Desk(parts, engine, vault, dispatcher.presence)
        return self

    async def close(self) -> None:
        """Let what works come to its end and give everything back; twice is once."""
        if self._open_desk is None:
            return
        self._check_loop()
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close(self._open_desk))
        await _outlast(self._closing)

    async def _close(self, desk: Desk) -> None:
        # A serve() that was cancelled is still bringing its runs to an end; one that was not is
        # asked to.
        for task in self._working:
            if not task.cancelling():
                task.cancel()
        while waiting := [each for each in (*self._working, *desk.acts) if not each.done()]:
            await asyncio.wait(waiting)
        await self._stack.aclose()

    # -- Working --------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Run until nothing is due at this moment; wait for no later time."""
        self._desk()
        await self._work(self._together.drain(), "drain")

    async def serve(self) -> None:
        """Run what is due, when it is due, until cancelled or closed."""
        self._desk()
        await self._work(self._together.serve(), "serve")

    @property
    def bus(self) -> Bus:
        """The event bus: emit, schedule, subscribe, and see what became of it (B)."""
        self._desk()
        return self._bus

    @property
    def path(self) -> Path:
        """Where the store lies."""
        return self._path.resolve()

    @property
    def opened_at(self) -> datetime:
        """Since when the host is open."""
        self._desk()
        return self._opened_at

    @property
    def is_working(self) -> bool:
        """Tell whether somebody drains or serves the host at this moment."""
        return any(not each.done() for each in self._working)

    @contextmanager
    def watched_by(self, told: Callable[[], None]) -> Iterator[None]:
        """Call somebody after every write, so that he may look again; unwatched costs nothing."""
        self._desk()
        self._watchers.add(told)
        try:
            yield
        finally:
            self._watchers.discard(told)

    async def extensions(self) -> tuple[ExtensionReport, ...]:
        """List the extensions, and how far each of them got when the host opened (B9)."""
        self._desk()
        return self._loader.reports

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Serve in the background; if that failed, its error is raised on leaving."""
        serving = self._desk().parts.env.spawn(self.serve(), "duly running")
        try:
            yield self
        except BaseException as error:
            if (failure := await _stop(serving)) is not None:
                error.add_note(f"The host had stopped serving before: {failure!r}")
            raise
        if (failure := await _stop(serving)) is not None:
            raise failure

    async def _work(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Work in a task of our own, which closing can end without ending its caller's."""
        task = self._desk().parts.env.spawn(work, f"duly {name}")
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                # Told once: whoever is cancelled again must not cut short an orderly stop (R7).
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await _outlast(task)
            # Whoever is cancelled at the moment the work fails must still hear why it failed.
            if task.done() and not task.cancelled() and (failure := task.exception()):
                raise failure from None
            caller = asyncio.current_task()
            if self._closing is None or (caller is not None and caller.cancelling()):
                raise

    def _desk(self) -> Desk:
        if self._open_desk is None:
            raise RequestRefused(
                "The host is not open. Use it inside `async with duly.Host(…) as host:`."
            )
        self._check_loop()
        if self._closing is not None:
            raise RequestRefused("The host is closed. Open another one on the same store.")
        return self._open_desk

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise RequestRefused(
                "The host belongs to the event loop that opened it. Use it there, or open another."
            )


class Languages:
    """The sandboxes of both languages as one; what a source is written in decides."""

    def __init__(self, sandboxes: Mapping[Language, Sandbox]) -> None:
        self._sandboxes = sandboxes

    async def load(self, source: Source, catalog: Catalog) -> Loaded:
        """Run the source with no tools and read what it declares (W6)."""
        return await self._sandboxes[source.language].load(source, catalog)

    def open(
        self,
        loaded: Loaded,
        handler: str,
        step: Step,
        args: tuple[Json | Missing, ...],
        world: World,
    ) -> Script:
        """Make a fresh context for one step; it runs when it is entered."""
        return self._sandboxes[loaded.language].open(loaded, handler, step, args, world)

    async def close(self) -> None:
        """End every worker of every language; none is left behind."""
        async with AsyncExitStack() as stack:
            for sandbox in self._sandboxes.values():
                stack.push_async_callback(sandbox.close)


def _build_sandbox(env: Env, policy: Policy, settings: SandboxSettings) -> Sandbox:
    """Build both sandboxes; an `Env` that tests brought may put something around them."""
    # Whatever they are written in, so many scripts compute at once, and workflows take turns.
    running = Slots(RUNNING_MAX)
    pool = Pool(env, running=running, unlocked=settings.unlocked)
    sandbox: Sandbox = Languages(
        {
            Language.JAVASCRIPT: JavaScriptSandbox(pool, policy.limits),
            Language.PYTHON: PythonSandbox(
                env,
                policy.limits,
                names=NAMES,
                refuse=refuse_lacking,
                is_unlocked=settings.unlocked == "i-accept",
                running=running,
            ),
        }
    )
    wrap: Callable[[Sandbox], Sandbox] | None = getattr(env, "wrap_sandbox", None)
    return sandbox if wrap is None else wrap(sandbox)


def _own_loop(stack: AsyncExitStack) -> Env:
    """Make the real world, whose threads end with the host."""
    env = Loop()
    stack.callback(env.close)
    return env


def _path(url: str) -> Path:
    if url.startswith(("postgresql:", "postgres:")):
        raise ConfigError("PostgreSQL is not in this version; give a URL like sqlite:///duly.db.")
    return path_from_url(url)


def _check_repairer(repairer: Repairer | None) -> Repairer | None:
    """Refuse what cannot be asked when the host is built, not when the first script fails."""
    if repairer is not None and not callable(getattr(repairer, "repair", None)):
        raise ConfigError(
            f"repairer: {type(repairer).__name__} cannot be asked. "
            "Give something that has `async def repair(self, case)`."
        )
    return repairer


async def _quietly(what: str, close: Callable[[], Awaitable[None]]) -> None:
    """Close one part; a failure is logged, and the others are closed all the same."""
    try:
        await close()
    except Exception:
        log.exception("Closing %s failed", what)


async def _stop(serving: asyncio.Task[None]) -> BaseException | None:
    """End a task and answer what it failed with, if it did."""
    serving.cancel()
    await _outlast(serving)
    return None if serving.cancelled() else serving.exception()


async def _outlast(task: asyncio.Task[None]) -> None:
    """Wait until a task has ended; whoever is cancelled meanwhile is cancelled after that."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
