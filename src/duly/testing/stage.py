"""All that one test needs: virtual time, a world, and hosts on a file of their own.

Law 1: what a test opened here is closed at its end, also after a failure: no process, no thread
       and no lock is left behind.
Law 2: a crash takes the whole process, so it takes every host of the stage. What they had
       committed stays, and the next host opens the same file.

    with open_stage(folder) as stage:
        stage.run(test_the_row_is_added_once(stage))
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from duly.connectors.base import Connector
from duly.errors import ConfigError
from duly.host import Host
from duly.rules import schedule
from duly.testing.crash import Moment
from duly.testing.env import VirtualEnv
from duly.testing.loop import VirtualLoop
from duly.testing.world import World

R = TypeVar("R")

FILE = "duly.db"


class Stage(World):
    """A world with hosts in it; the fixture `duly_world` is one."""

    def __init__(self, runner: asyncio.Runner, folder: Path) -> None:
        loop = runner.get_loop()
        if not isinstance(loop, VirtualLoop):
            raise ConfigError("A stage needs a runner with loop_factory=VirtualLoop.")
        super().__init__(VirtualEnv(loop))
        self.loop = loop
        self.url = f"sqlite:///{folder / FILE}"
        self._folder = folder
        self._runner = runner
        self._hosts: list[Host] = []

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in virtual time, to its end."""
        return self._runner.run(coroutine)

    async def host(self, *, connectors: Iterable[Connector] = (), **options: Any) -> Host:
        """Open a host on the stage's file, with the world's connectors and those given.

        host = await duly_world.host(policy=duly.Policy(approvals={"*": "always"}))
        """
        given = [self._watch(each) for each in connectors]
        options.setdefault("env", self.env)
        host = Host(self.url, connectors=[*self.connectors, *given], **options)
        await host.open()
        self._hosts.append(host)
        self.env.watch_store(host._desk().parts.store)
        return host

    async def advance(self, duration: str | float) -> None:
        """Let time pass: seconds, or words as in a schedule (`"90s"`, `"1h"`, `"7d"`).

        Tasks that are due in that time run, also at its very end. A host runs only inside
        `host.running()`, or when it is drained afterwards.
        """
        if isinstance(duration, str):
            interval_ms = schedule.parse({"interval": duration}, path="advance").interval_ms
            assert interval_ms is not None
            duration = interval_ms / 1000
        if not duration >= 0:
            raise ConfigError(f"advance({duration}): time does not go back; see env.jump.")
        await self.env.sleep(duration)
        await self.loop.rest()

    def crash_at(self, **moments: Moment) -> None:
        """Plan a crash at the next call of a store verb: `crash_at(record="before")`."""
        for store in self.env.stores:
            store.plan(moments)

    async def crash(self, host: Host, during: Awaitable[Any] | None = None) -> None:
        """Abandon a host as a crash does, now or when its planned crash has come.

        duly_world.plan("sheets.append_row", Fault.CRASH_AFTER)
        await duly_world.crash(host, host.drain())
        host = await duly_world.host()
        """
        if host not in self._hosts:
            raise ConfigError("This host is not of this stage, or was abandoned before.")
        if during is not None:
            await self._run_into_crash(during)
        self._hosts.clear()
        await self.env.kill()

    async def _run_into_crash(self, during: Awaitable[Any]) -> None:
        doing = asyncio.ensure_future(during)
        crashed = asyncio.ensure_future(self.env.crashed.wait())
        try:
            await asyncio.wait((doing, crashed), return_when=asyncio.FIRST_COMPLETED)
            if not self.env.crashed.is_set():
                doing.result()
                raise ConfigError("The crash did not come. Plan it before, and let it be reached.")
        finally:
            for each in (doing, crashed):
                each.cancel()
            await asyncio.wait((doing, crashed))
            if not doing.cancelled():
                # Its error must be retrieved, or asyncio complains of it later.
                assert isinstance(doing.exception(), BaseException | None)

    async def close(self) -> None:
        """Close every host that is still open."""
        try:
            while self._hosts:
                await self._hosts.pop().close()
            await self.cancel_landings()
        finally:
            await self.env.kill()
            self.env.close()

    def _watch(self, connector: Connector) -> Connector:
        """Let time stand still while a connector of the test's own is in a thread."""
        in_thread: Callable[..., Awaitable[Any]] = connector.in_thread

        @wraps(in_thread)
        async def watched(*args: Any, **kwargs: Any) -> Any:
            with self.loop.outstanding():
                return await in_thread(*args, **kwargs)

        object.__setattr__(connector, "in_thread", watched)
        return connector


@contextmanager
def open_stage(folder: Path) -> Iterator[Stage]:
    """Give a stage whose file lies in a folder, and close what was opened on it."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        stage = Stage(runner, folder)
        try:
            yield stage
        finally:
            stage.run(stage.close())
