"""What every run of a crash test shares: the workers that run its scripts, and what was read.

Law 1  A worker remembers nothing of the script before, so the same workers serve every host of
       every run; a host that closes or crashes leaves them as they are.
Law 2  A question is put to the real outside once, in real time, and answered from memory ever
       after: every run sees the same outside.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from duly.config import Policy, SandboxSettings
from duly.connectors.base import PAGE_MARK
from duly.engine.workshop import build_workshop
from duly.env import Loop
from duly.rules.catalog import Tool
from duly.rules.value import Json, canonical
from duly.sandbox.base import Sandbox
from duly.testing.env import VirtualEnv
from duly.testing.loop import VirtualLoop
from duly.testing.sandbox import Outstanding
from duly.testing.stage import Stage, open_stage

R = TypeVar("R")

Read = Callable[[Tool, Mapping[str, Json]], Awaitable[Json]]


class WorkerCache:
    """The workers that run the scripts, kept from one run to the next: they remember nothing."""

    def __init__(self, policy: Policy, settings: SandboxSettings) -> None:
        self._env = Loop()
        self._policy, self._settings = policy, settings
        self._kept: _Kept | None = None

    @contextmanager
    def open_stage(self, folder: Path, start: datetime) -> Iterator[Stage]:
        """Open a stage whose scripts are run by these workers."""
        with open_stage(folder) as stage:
            stage.env.close()
            stage.env = _Env(stage.loop, start, self)
            yield stage

    def join(self, loop: VirtualLoop) -> Sandbox:
        """Return the sandbox of these workers, for another stage from now on."""
        if self._kept is None:
            made = build_workshop(self._env, self._policy, self._settings, is_apart=False)
            self._kept = _Kept(made.sandbox, loop)
        self._kept._loop = loop
        return self._kept

    def close(self) -> None:
        """End the workers."""
        if self._kept is not None:
            with asyncio.Runner(loop_factory=VirtualLoop) as runner:
                loop = runner.get_loop()
                assert isinstance(loop, VirtualLoop)
                self._kept._loop = loop
                runner.run(self._kept.end())
        self._env.close()


class _Kept(Outstanding):
    """A sandbox that outlives the hosts that use it."""

    async def close(self) -> None:
        """Stay; a host closes, and the next one comes."""

    async def end(self) -> None:
        """End every worker."""
        await super().close()


class _Env(VirtualEnv):
    """The environment of one run."""

    def __init__(self, loop: VirtualLoop, start: datetime, workers: WorkerCache) -> None:
        super().__init__(loop, start=start)
        self._workers = workers

    def wrap_sandbox(self, sandbox: Sandbox) -> Sandbox:
        """Let the kept workers run the scripts; nothing was started for this sandbox yet."""
        return self._workers.join(self._loop)


class Memory:
    """What reads answered: each question is put to the outside once, on a loop in real time."""

    def __init__(self, read: Read, answers: Mapping[str, Json]) -> None:
        self._read = read
        self._answers = answers
        self._known: dict[tuple[str, str], Json | Exception] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def ask(self, tool: Tool, args: Mapping[str, Json]) -> Json:
        """Return what was given for a tool, or what it said the first time it was asked this."""
        if tool.name in self._answers:
            return _as_page(self._answers[tool.name])
        question = (tool.name, canonical(dict(args)).decode())
        if question not in self._known:
            self._known[question] = await self._really(self._put(tool, args))
        answer = self._known[question]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _put(self, tool: Tool, args: Mapping[str, Json]) -> Json | Exception:
        try:
            return await self._read(tool, args)
        except Exception as error:
            return error

    async def _really(self, asking: Coroutine[Any, Any, R]) -> R:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="duly-reads", daemon=True
            )
            self._thread.start()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asking, self._loop))

    def close(self) -> None:
        """End the thread."""
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def _as_page(answer: Json) -> Json:
    """Take an answer with items for a page, as a search gives it."""
    if isinstance(answer, dict) and isinstance(answer.get("items"), list):
        return {PAGE_MARK: True, **answer}
    return answer
