"""Attacks as workflows of a real host, beside ten honest ones whose results stay the same."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.errors import DulyError
from duly.rules.source import Language, Source
from tests.breaks import tenth_of_commit
from tests.sandbox.hostile import payload
from tests.sandbox.hostile.attack import write
from tests.sandbox.hostile.canary import Canaries, canaries
from tests.sandbox.hostile.meter import Meter, metering
from tests.sandbox.hostile.stand import (
    CASES,
    ROOMY,
    hook_workers,
    launch,
    native_program,
)

HONEST = 10
# A commit plays a fifth of the corpus here and the next one another; TEST_EVERY_CASE=1 plays all.
# What becomes of each attack, in every commit, is asked in `test_corpus`.
EVERY = 1 if os.environ.get("TEST_EVERY_CASE") else 5
FIRST = tenth_of_commit() % EVERY
PLAYED = CASES[FIRST::EVERY]
NATIVES = [*payload.OUTSIDE, *payload.INSIDE][FIRST::EVERY]
DEPLOYED_AT_ONCE = 4
LOOP_MS_MAX = 250
# Honest steps take a hundredth of this; one that does not mean to end is ended by it.
POLICY = duly.Policy(
    limits=duly.Limits(
        step_cpu_s=0.25, step_wall_s=3, load_s=1, step_memory_bytes=ROOMY.step_memory_bytes
    )
)
JAVASCRIPT = """
export default Keep.workflow({
  name: "NAME", topics: ["seen", "filed"],
  producers: { poll: async (ctx) => {
    for (const item of await ctx.shelf.list({ of: "NAME" }))
      await ctx.publish("seen", { messageId: item, title: `Item ${item}`, payload: { item } });
    return { polled: 1 };
  } },
  consumers: { file: Keep.consumer({
    subscribe: ["seen"],
    async prepare(ctx) {
      const [one] = await ctx.peek("seen", { limit: 1 });
      if (!one) return { reservations: [], data: {} };
      return { reservations: [{ topic: "seen", ids: [one.messageId] }], data: one.payload,
               ui: { title: `File ${one.payload.item}` } };
    },
    async mutate(ctx, prepared) {
      await ctx.shelf.put({ of: "NAME", item: prepared.data.item });
    },
    async next(ctx, prepared, result) {
      if (result.status !== "applied") return;
      const { item } = prepared.data;
      await ctx.publish("filed", { messageId: item, title: "Filed", payload: result.result });
    },
  }) },
});
"""
PYTHON = """
from duly import workflow

flow = workflow("NAME", topics=["seen", "filed"])

@flow.producer()
async def poll(ctx, state):
    for item in await ctx.shelf.list(of="NAME"):
        await ctx.publish("seen", message_id=item, title=f"Item {item}", payload={"item": item})
    return {"polled": 1}

@flow.consumer("seen")
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("seen", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        one = pending[0]
        return {"reservations": [{"topic": "seen", "ids": [one["message_id"]]}],
                "data": one["payload"], "ui": {"title": f'File {one["payload"]["item"]}'}}

    async def mutate(self, ctx, prepared):
        await ctx.shelf.put(of="NAME", item=prepared["data"]["item"])

    async def next(self, ctx, prepared, result, state):
        if result["status"] == "applied":
            await ctx.publish("filed", message_id=prepared["data"]["item"], title="Filed",
                              payload=result["result"])
"""


class Shelf(duly.Connector):
    """Two items for everybody, and a book of who put which."""

    name = "shelf"

    def __init__(self) -> None:
        self.put_by: dict[str, list[str]] = {}

    @duly.read
    async def list(self, of: str) -> list[str]:
        return [f"{of}-1", f"{of}-2"]

    @duly.mutation(risk="low")
    async def put(self, call: duly.Call, of: str, item: str) -> dict[str, int]:
        kept = self.put_by.setdefault(call.workflow, [])
        kept.append(item)
        return {"place": len(kept)}


def honest() -> Iterator[tuple[str, Source]]:
    for number in range(HONEST):
        name = f"honest-{number}"
        language, text = (("javascript", JAVASCRIPT), ("python", PYTHON))[number % 2]
        yield name, Source(Language(language), text.replace("NAME", name))


def hostile(places: dict[str, str]) -> Iterator[tuple[str, Source]]:
    for attack, language in PLAYED:
        name = "hostile-" + hashlib.sha256(f"{attack.name}{language}".encode()).hexdigest()[:12]
        yield name, write(language, attack.programs()[language], places, name)
    for native in NATIVES:
        name = f"hostile-{native}"
        yield name, write("javascript", native_program(native), {}, name)


async def deploy(host: duly.Host, sources: list[tuple[str, Source]]) -> int:
    """Deploy all, and answer how many were refused."""
    room = asyncio.Semaphore(DEPLOYED_AT_ONCE)

    async def is_refused(source: Source) -> bool:
        async with room:
            try:
                await host.deploy(source, by="me", grant=True)
            except DulyError:
                return True
        return False

    return sum(await asyncio.gather(*(is_refused(source) for _, source in sources)))


async def results(host: duly.Host, shelf: Shelf, name: str) -> dict[str, Any]:
    """Answer all that came of one honest workflow."""
    events = await host.events(name)
    runs = await host.runs(name)
    return {
        "put": shelf.put_by.get(name),
        "events": [(each.topic, each.message_id, each.status, each.payload) for each in events],
        "runs": sorted((each.handler, each.status, each.phase) for each in runs),
    }


async def play(folder: Path, caged: Canaries | None) -> tuple[dict[str, Any], Meter, int]:
    """Run the ten, alone or beside everybody else."""
    shelf = Shelf()
    others = [] if caged is None else list(hostile(caged.places))
    async with duly.Host(f"sqlite:///{folder}/duly.db", connectors=[shelf], policy=POLICY) as host:
        async with metering() as meter:
            refused = await deploy(host, others)
            assert await deploy(host, list(honest())) == 0
            # As many as are deployed are due at once; the honest ones are the last of them.
            waiting: list[Any] = [host.drain()]
            if caged is not None:
                waiting.append(asyncio.to_thread(launch, caged, is_locked=True))
            await asyncio.gather(*waiting)
        found = {name: await results(host, shelf, name) for name, _ in honest()}
    return found, meter, refused


async def test_ten_honest_workflows_do_not_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    """X2, F6: what they put, publish and commit is the same as without the attacks."""
    alone, quiet, _ = await play(tmp_path, None)
    assert all(each["put"] == [f"{name}-1", f"{name}-2"] for name, each in alone.items())
    (tmp_path / "beside").mkdir()
    (tmp_path / "c").mkdir()
    with canaries(tmp_path / "c") as caged:
        hook_workers(monkeypatch, caged, is_locked=True)
        beside, meter, refused = await play(tmp_path / "beside", caged)
        assert caged.alarms() == set()
    assert beside == alone
    assert 0 < refused < len(PLAYED) // 2
    record_property("longest_gap_ms", [round(quiet.gap_ms), round(meter.gap_ms)])
    assert meter.callback_cpu_ms < LOOP_MS_MAX, meter.callback
