"""A host: everything is built here, opened, and closed again; what it can do stands in the desk.

Law 1: nothing runs outside `drain`, `serve` and `running`, except that extensions are initialised
       when the host opens; and no process is started before the first script.
Law 2: closing waits for all work that still runs and leaves no process, task or thread of the host
       behind; a host installs no signal handlers and sets up no logging.
Law 3: the store is given back when no send is out, wherever it runs; until then closing raises
       `StillSending`, keeps the lock, and can be done again (L6).
Law 4: a host belongs to the event loop that opened it and to its process, and has its store for
       itself (H1); in a forked child it can do nothing, not even be closed.
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
from typing import TYPE_CHECKING, Any, Final, Self

from duly import fork
from duly.bus.bus import Bus
from duly.bus.cause import follow
from duly.bus.channel import Channel, Channels
from duly.bus.dispatcher import Dispatcher
from duly.bus.loader import ExtensionReport, Loader
from duly.bus.publisher import Publisher
from duly.config import (
    BusSettings,
    FleetSettings,
    Policy,
    SandboxSettings,
    is_server,
    name_store,
    path_from_url,
)
from duly.connectors.attach import attach, detach
from duly.connectors.base import Connector
from duly.connectors.clock import Timed, with_clock
from duly.connectors.folder import keep_private
from duly.connectors.pinning import find_pinning
from duly.connectors.private import Private
from duly.connectors.reader import ReadingConnector
from duly.connectors.registry import Registry
from duly.connectors.watch import END_S
from duly.connectors.watchdog import Watchdog
from duly.desk.asker import Asker
from duly.desk.base import Desk, Setup, Simulator
from duly.desk.commands import Commands
from duly.desk.origin import check_origins
from duly.desk.seal import agree, seal_anew
from duly.desk.secret import Vault, find_vault
from duly.desk.upkeep import note_restore
from duly.desk.views import Views
from duly.desk.write import Writing
from duly.engine.base import Parts
from duly.engine.proposal import Proposals
from duly.engine.scheduler import Engine
from duly.engine.workshop import build_workshop
from duly.env import Env, Loop
from duly.errors import RequestRefused, StillSending, StoreForked
from duly.loop import HostWork, Inside, end_serving, outlast
from duly.model_settings import NO_MODELS, ModelSettings
from duly.models import Models, choose_repairer, find_agent, make_models
from duly.rules.lease import LeaseTimes
from duly.rules.repair import Repairer, check_repairer
from duly.rules.schedule import moment
from duly.rules.verb import question
from duly.store import Store
from duly.store.migrate import APPLICATION_ID
from duly.store.opening import open_store
from duly.store.sqlite import SqliteBackend
from duly.words import Clock

if TYPE_CHECKING:
    from duly.fleet import Fleet

DEFAULT_POLICY: Final = Policy()
DEFAULT_SANDBOX: Final = SandboxSettings()
DEFAULT_BUS: Final = BusSettings()
DEFAULT_FLEET: Final = FleetSettings()
NOTHING_PRIVATE: Final = Private()
CLOSE_S: Final = 30.0  # how long closing waits for sends that are out, before it says so

# Hosts that keep a store because a send is out: their lock must not be collected as garbage.
_KEEPING: Final[set[object]] = set()

log = logging.getLogger("duly.host")


class Host(Commands, Writing, Views):
    """Runs workflows from one store: `async with duly.Host("sqlite:///duly.db") as host: …`.

    On a PostgreSQL server it is one of a fleet. `end` is called when its lease is over while a
    change is being sent; without it `serve` raises.
    """

    def __init__(
        self,
        url: str,
        *,
        connectors: Iterable[Connector] = (),
        policy: Policy = DEFAULT_POLICY,
        repairer: Repairer | None = None,
        extensions: str | Path | None = None,
        channels: Iterable[Channel] = (),
        models: Mapping[str, ModelSettings] = NO_MODELS,
        env: Env | None = None,
        sandbox: SandboxSettings = DEFAULT_SANDBOX,
        bus: BusSettings = DEFAULT_BUS,
        fleet: FleetSettings = DEFAULT_FLEET,
        end: Callable[[], None] = lambda: None,
        private: Private = NOTHING_PRIVATE,
        simulator: Simulator | None = None,
        setup: Setup | None = None,
    ) -> None:
        self._url, self._simulator, self._setup = url, simulator, setup
        self._path = None if is_server(url) else path_from_url(url)
        self._fleet_settings, self._end = fleet, end
        self._models = make_models(models, connectors := tuple(connectors))
        given = with_clock((*connectors, *self._models.values()))
        folders = () if extensions is None else (Path(extensions).absolute(),)
        # Where a symbolic link leads to the store, all that belongs to it lies beside its end.
        stores = () if self._path is None else (self._path.absolute(), self._path.resolve())
        own = Private(stores=stores, folders=folders, mark=APPLICATION_ID)
        keep_private(given, own.add(private))
        self._outside = Registry(given)
        self._timed = tuple(each for each in given if isinstance(each, Timed))
        self._reading = tuple(each for each in given if isinstance(each, ReadingConnector))
        self._policy, self._repairer = policy, check_repairer(repairer)
        self._folder = None if extensions is None else Path(extensions)
        self._channels, self._env = Channels(channels), env
        self._sandbox, self._bus_settings = sandbox, bus
        self._open_desk: Desk | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fork_depth = fork.depth()
        self._stack = AsyncExitStack()  # what is closed first
        self._kept = AsyncExitStack()  # what is given back when no send is out: the store
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
        """Close the host; a forked child that leaves the block has nothing to close."""
        if not self._is_inherited:
            await self.close()

    async def open(self) -> Self:
        """Take the store and build everything that stands on it."""
        if self._open_desk is not None:
            raise RequestRefused(code="opened_before")
        async with AsyncExitStack() as kept, AsyncExitStack() as stack:
            env = self._env or _own_loop(kept)
            self._prepare_connectors(env, stack, kept)
            vault = await find_vault(env, self._outside, self._path)
            store, fleet = await self._open_store(env, vault, kept)
            outside, policy = self._outside, self._policy
            self._asking = models = Models(env, store, self._models, outside.secrets())
            workshop = build_workshop(env, policy, self._sandbox)
            stack.push_async_callback(_quietly, "the sandbox", workshop.close)
            parts = Parts(
                env,
                store,
                workshop.sandbox,
                outside,
                policy,
                choose_repairer(self._repairer, models),
                vault.find_key,
                workshop.apart,
                None if fleet is None else fleet.lease,
                models=models if self._models else None,
                model_settings=models.settings,
                has_new_handler=lambda: dispatcher.has_new,
                worker_starts=workshop.count_starts,
            )
            # The two rooms do not import each other: each wakes the other by a callable.
            engine = Engine(parts)
            kept.push_async_callback(_quietly, "the engine", engine.close)
            dispatcher = Dispatcher(
                env,
                store,
                limits=self._policy.limits,
                settings=self._bus_settings,
                entered=engine.wake,
                secrets=self._outside.secrets(),
                find_host=None if fleet is None else fleet.find_host,
            )
            if fleet is not None:
                await fleet.join(engine, dispatcher)
            await dispatcher.open()
            engine.worked = dispatcher.wake_all
            stack.push_async_callback(_quietly, "the bus", dispatcher.close)
            bus = Bus(env, store, dispatcher, self._policy.limits)
            self._loader = self._make_loader(parts, dispatcher, bus)
            stack.push_async_callback(_quietly, "the extensions", self._loader.close)
            await self._loader.open()
            self._loop = asyncio.get_running_loop()
            self._fork_depth = fork.depth()
            attach(self._loop)
            kept.callback(detach, self._loop)
            if self._env is None:  # in virtual time nothing takes any
                kept.callback(Watchdog(self._outside.pace, lag=env.lag).close)
            self._stack, self._kept = stack.pop_all(), kept.pop_all()
        self._opened_at, self._bus = moment(env.now_ms()), bus
        make = partial(Desk, watchers=self._watchers, simulator=self._simulator, setup=self._setup)
        desk = make(parts, engine, vault, dispatcher.presence, channels=self._channels)
        self._open_desk, asker = desk, Asker(desk, self, self._channels, dispatcher)
        self._together = HostWork(env, engine, dispatcher, asker)
        return self

    async def _open_store(
        self, env: Env, vault: Vault, kept: AsyncExitStack
    ) -> tuple[Store, Fleet | None]:
        """Open the store; on a server, prepare to be one of several hosts (H1, H6)."""
        backend = await open_store(self._url, env)
        backend.seal_with(vault.known_key)
        self._watchers = backend.watchers
        store = Store(backend)
        kept.push_async_callback(_quietly, "the store", store.close)
        if not isinstance(backend, SqliteBackend):
            await agree(store, vault, backend.agree_on_key)
        await check_origins(env, store, self._outside)
        await vault.open(store)
        await seal_anew(env, store, vault, has_unsealed=backend.has_unsealed)
        if await note_restore(store, env):
            await vault.read_again(store)  # without the secrets of webhooks (G12)
        if isinstance(backend, SqliteBackend):
            return store, None
        from duly.fleet import Fleet

        times = LeaseTimes(round(self._fleet_settings.lease_s * 1000))
        machine = self._fleet_settings.machine
        fleet = Fleet(env, self._url, backend, times, self._end, vault, self._outside, machine)
        kept.push_async_callback(_quietly, "the lease", fleet.close)
        return store, fleet

    def _make_loader(self, parts: Parts, dispatcher: Dispatcher, bus: Bus) -> Loader:
        env, store, limits = parts.env, parts.store, self._policy.limits
        return Loader(
            self._folder,
            env=env,
            store=store,
            publisher=Publisher(env, store, dispatcher, limits),
            reserve=bus.reserve,
            channels=self._channels,
            workshop=Proposals(parts, partial(follow, store)),
            limits=limits,
            secrets=self._outside.secrets(),
            find_model=partial(find_agent, self._asking),
        )

    def _prepare_connectors(self, env: Env, stack: AsyncExitStack, kept: AsyncExitStack) -> None:
        """Give connectors the host's clock, its threads, and processes that read for them."""
        self._outside.compute_with(env.compute)
        for each in self._timed:
            each.keep_time(env)
        for reading in self._reading:
            reading.readers.is_unlocked = self._sandbox.unlocked == "i-accept"
            stack.callback(reading.readers.close)
        for name, server in find_pinning(self._outside).items():  # a call that is out needs it
            kept.push_async_callback(_quietly, name, server._close_down)

    async def close(self, *, wait_s: float | None = None) -> None:
        """Let what works come to its end and give everything back; twice is once.

        A change that is still being sent is waited for, `wait_s` at most (30). If it is out even
        then, the store is kept and `StillSending` raised; close the host again later (L6).
        """
        if self._open_desk is None:
            return
        self._check_process()
        self._check_loop()
        if self._closing is None or _has_failed(self._closing):
            self._closing = asyncio.ensure_future(
                self._close(self._open_desk, CLOSE_S if wait_s is None else wait_s)
            )
            # It may be that the caller is cancelled, and hears of no failure.
            self._closing.add_done_callback(_has_failed)
        closing = self._closing
        await outlast(closing)
        closing.result()

    async def _close(self, desk: Desk, wait_s: float) -> None:
        # A serve() that was cancelled is still bringing its runs to an end; one that was not is
        # asked to.
        for task in self._working:
            if not task.cancelling():
                task.cancel()
        while waiting := [each for each in (*self._working, *desk.acts) if not each.done()]:
            await asyncio.wait(waiting)
        await self._stack.aclose()
        _KEEPING.add(self)
        await self._until_sent(wait_s)
        await self._kept.aclose()
        _KEEPING.discard(self)

    async def _until_sent(self, wait_s: float) -> None:
        """Return when no send is out; what can be told to stop is told so at last (L6)."""
        if not await self._outside.until_sent(wait_s):
            return
        for each in self._outside.sends_out():
            each.stop(is_all=True)
        if out := await self._outside.until_sent(END_S):
            names = tuple(sorted(each.tool for each in out))
            log.warning("Still being sent while the host closes: %s", ", ".join(names))
            raise StillSending(code="still_sending", facts={"tools": [*names]}, out=names)

    # -- Working --------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Run until nothing is due at this moment; wait for no later time."""
        self._desk()
        await self._work(self._together.drain, "drain")

    async def serve(self) -> None:
        """Run what is due, when it is due, until cancelled or closed."""
        self._desk()
        await self._work(self._together.serve, "serve")

    @property
    def bus(self) -> Bus:
        """The event bus: emit, schedule, subscribe, and see what became of it (B)."""
        self._desk()
        return self._bus

    @property
    def clock(self) -> Env:
        """The clock this host lives by; in a test it is a virtual one."""
        return self._desk().parts.env

    @property
    def policy(self) -> Policy:
        """What this host is told to allow and to keep."""
        return self._policy

    @property
    def connectors(self) -> Registry:
        """The connectors, and what scripts may call; a host need not be open for that."""
        return self._outside

    @property
    def place(self) -> str:
        """Where the store lies: a file, or a database on a server, without its password."""
        return name_store(self._url) if self._path is None else str(self._path.resolve())

    @property
    def opened_at(self) -> datetime:
        """Since when the host is open."""
        self._desk()
        return self._opened_at

    @property
    def is_working(self) -> bool:
        """Tell whether a caller drains or serves the host at this moment."""
        return any(not each.done() for each in self._working)

    @property
    def sending(self) -> tuple[str, ...]:
        """The tools whose change is still on its way, wherever it runs; without these it closes."""
        return tuple(sorted(each.tool for each in self._outside.sends_out()))

    @property
    def is_haunted(self) -> bool:
        """Tell whether a call that was given up is still at work: a thread that never returns."""
        return self._outside.is_at_work()

    @contextmanager
    def watched_by(self, told: Callable[[], None]) -> Iterator[None]:
        """Call a function after every write, so that its owner may look again."""
        self._desk()
        self._watchers.add(told)
        try:
            yield
        finally:
            self._watchers.discard(told)

    @question(example={})
    async def writes(self) -> int:
        """Count the writes of this host since it opened; follow it to hear of each change."""
        # Rules: G13.
        self._desk()
        return self._watchers.writes

    @question(needs_extensions=True, example={})
    async def extensions(self) -> tuple[ExtensionReport, ...]:
        """List the extensions, and how far each was loaded when the host opened."""
        # Rules: B9.
        self._desk()
        return self._loader.reports

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Serve in the background; if that fails, what is inside is cancelled and hears why."""
        env = self._desk().parts.env
        serving = env.spawn(self.serve(), "duly running")
        inside = Inside(env, serving)
        try:
            yield self
        except BaseException as error:
            was_cut = await inside.leave() and isinstance(error, asyncio.CancelledError)
            failure = await end_serving(serving)
            if failure is None:
                raise
            if was_cut:
                raise failure from None
            error.add_note(f"The host had stopped serving before: {failure!r}")
            raise
        await inside.leave()
        if (failure := await end_serving(serving)) is not None:
            raise failure

    async def _work(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Work in a task of our own, which closing can end without ending its caller's."""
        task = self._desk().parts.env.spawn(work(), f"duly {name}")
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                # Cancelled once: a second cancel of the caller must not cut an orderly stop (R7).
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await outlast(task)
            # A caller that is cancelled at the moment the work fails must still see its error.
            if task.done() and not task.cancelled() and (failure := task.exception()):
                raise failure from None
            caller = asyncio.current_task()
            if self._closing is None or (caller is not None and caller.cancelling()):
                raise

    @property
    def now(self) -> Clock:
        """What time it is here, and in which zone `duly.words` says times of this host."""
        parts = self._desk().parts
        return Clock(parts.env.now_ms(), parts.policy.timezone)

    def _desk(self) -> Desk:
        if self._open_desk is None:
            raise RequestRefused(code="not_open")
        self._check_process()
        self._check_loop()
        if self._closing is not None:
            raise RequestRefused(code="closed")
        return self._open_desk

    def _check_process(self) -> None:
        if self._is_inherited:
            raise StoreForked(code="host_forked", subject=self.place)

    @property
    def _is_inherited(self) -> bool:
        """Tell whether this is a forked child's copy of an open host, which can do nothing."""
        closing = self._closing
        has_ended = closing is not None and closing.done() and not closing.cancelled()
        return self._fork_depth != fork.depth() and not has_ended

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise RequestRefused(code="another_loop")


def _own_loop(stack: AsyncExitStack) -> Env:
    """Make the real world, whose threads end with the host."""
    stack.callback((env := Loop()).close)
    return env


async def _quietly(what: str, close: Callable[[], Awaitable[None]]) -> None:
    """Close one part; a failure is logged, and the others are closed all the same."""
    try:
        await close()
    except Exception:
        log.exception("Closing %s failed", what)


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
