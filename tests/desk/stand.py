"""The stand of the desk's tests: a real store in any state, and an engine that only takes notes.

`Reception` answers commands and questions over a scene of the store's tests, so that every state a
run can be in is at hand; nothing here runs a script.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from duly.config import Policy
from duly.connectors.registry import Registry
from duly.desk.base import Desk
from duly.desk.commands import Commands
from duly.desk.views import Views
from duly.engine.base import Parts
from duly.engine.scheduler import Engine
from duly.rules.lifecycle import Counts, Run
from duly.rules.value import Json, encode
from duly.rules.word import Act
from duly.store.record import Action, Stop
from duly.words import Clock
from tests.store.exam import World
from tests.store.scene import Scene, at, deployed, opened
from tests.store.virtual import VirtualEnv
from verification.scripted import ScriptedSandbox

LATER_MS = 10_000
OF_SCENE = ("me", "api")  # who acts where the store's own stage is set


class StillEngine:
    """An engine that runs nothing and remembers what it was told."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.woken: list[str | None] = []
        self.dropped: list[str] = []
        self.drained = 0
        self.is_closed = False
        self.is_rung = False

    async def drain(self) -> None:
        self.drained += 1

    async def serve(self) -> None:
        await asyncio.Event().wait()

    async def until_rung(self) -> None:
        await asyncio.Event().wait()

    def wake(self, workflow_id: str | None = None) -> None:
        self.woken.append(workflow_id)

    def drop(self, run_id: str) -> None:
        self.dropped.append(run_id)

    async def settle(
        self,
        mutation_id: str,
        answer: Act,
        *,
        said_ms: int,
        seen: int | None = None,
        result: Json = None,
        action: Action,
    ) -> None:
        now = self.parts.env.now_ms()
        is_failed = answer is Act.DID_NOT_HAPPEN
        await self.parts.store.settle(
            mutation_id,
            answer,
            seen=seen,
            result=encode(result, limit_bytes=1000) if answer is Act.HAPPENED else None,
            stop=Stop(Counts(transient=1), due_at=now + LATER_MS) if is_failed else None,
            due_at=now if answer is Act.TRY_AGAIN else None,
            action=action,
            now=now,
        )

    async def close(self) -> None:
        self.is_closed = True


class Reception(Commands, Views):
    """Commands and questions over a scene."""

    def __init__(self, world: World, scene: Scene, policy: Policy) -> None:
        env = VirtualEnv()
        env.spend(scene.now + 1)
        outside = Registry()
        self.world = world
        self.scene = scene
        self.parts = Parts(env, world.store, ScriptedSandbox(env), outside, policy)
        self.engine = StillEngine(self.parts)
        self.desk = Desk(self.parts, cast(Engine, self.engine))

    @property
    def now(self) -> Clock:
        """The time of the scene."""
        return Clock(self.parts.env.now_ms(), self.parts.policy.timezone)

    def _desk(self) -> Desk:
        return self.desk

    @property
    def untaken(self) -> set[str]:
        """The open runs that no host has taken up yet; such a run is never a crashed one (H2)."""
        rows = self.world.connection.execute("select id from run where open = 1 and epoch is null")
        return {run_id for (run_id,) in rows}

    @property
    def noted(self) -> list[tuple[object, ...]]:
        """Who did what to what, as far as this desk wrote it (A6)."""
        rows = self.world.dump()["action"]
        own = (row for row in rows if str(row[0]).startswith("action_"))
        return [row[2:6] for row in own if row[2] not in OF_SCENE]


@asynccontextmanager
async def reception(
    folder: Path, run: Run | None = None, policy: Policy | None = None
) -> AsyncIterator[Reception]:
    """Open a store with the stage's workflow, and a run of it in a state if one is named."""
    async with opened(folder) as world:
        scene = await (deployed(world.store) if run is None else at(world.store, run))
        yield Reception(world, scene, policy or Policy())
